"""Exact statistics, without a bound on memory: for samples, and to compare sketches with."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence

from thalweg.brief import counted
from thalweg.locality.statistics import (
    Key,
    KeyCount,
    KeyLoads,
    OperatorKey,
    PairCount,
    Statistics,
)


class ExactCounts:
    """Counts every key and every pair.

    Args:
        buckets: by keyed operator, in the order of the flow, its number of buckets.
    """

    def __init__(self, buckets: Mapping[str, int]) -> None:
        self._buckets = buckets
        self._keys: dict[str, collections.Counter[Key]] = {
            name: collections.Counter() for name in buckets
        }
        self._pairs: collections.Counter[tuple[OperatorKey, OperatorKey]] = collections.Counter()

    def __repr__(self) -> str:
        keys = counted(sum(map(len, self._keys.values())), "key")
        return f"<ExactCounts of {keys} and {counted(len(self._pairs), 'pair')}>"

    def take(self, operator: str, key: Key) -> None:
        """Counts a tuple of a key that an operator took."""
        self._keys[operator][key] += 1

    def pair(self, left: OperatorKey, right: OperatorKey) -> None:
        """Counts a tuple of a key that led to a tuple of another key at a next keyed operator."""
        self._pairs[left, right] += 1
        # A timer gives tuples of keys that took none meanwhile: they are known all the same.
        for operator, key in (left, right):
            self._keys[operator].setdefault(key, 0)

    def statistics(self, bucket_of: Callable[[str, Sequence[Key]], Sequence[int]]) -> Statistics:
        """The statistics of everything counted.

        Args:
            bucket_of: the buckets of an operator's keys.
        """
        loads = {name: self._loads(name, bucket_of) for name in self._buckets}
        pairs = [PairCount(left, right, count) for (left, right), count in self._pairs.items()]
        return Statistics(tuple(self._buckets), loads, tuple(pairs))

    def _loads(
        self, name: str, bucket_of: Callable[[str, Sequence[Key]], Sequence[int]]
    ) -> KeyLoads:
        counts = self._keys[name]
        keys = list(counts)
        counted = tuple(
            KeyCount(key, int(bucket), counts[key])
            for key, bucket in zip(keys, bucket_of(name, keys), strict=True)
        )
        return KeyLoads(name, counts.total(), counted, (0,) * self._buckets[name])
