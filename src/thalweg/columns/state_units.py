"""By what a keyed operator's state is kept: its buckets, and groups of keys that are pinned.

A *state unit* is what one slot owns and writes. Without pinned keys the units are the buckets. A pinned key is out of
its bucket and in its *pin group*, whose unit stands above the buckets; so a key can be given to a slot without its
bucket. Keys are known by their stable hash here: of two keys with one hash both are pinned or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.hashing import Int64s, UInt64s, bucket_of
from thalweg.jit import njit


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StateUnits:
    """The state units of an operator; made by :meth:`of_buckets` or :meth:`pinning`.

    Attributes:
        buckets: how many buckets there are; unit b is bucket b.
        groups: how many pin groups there are; group g is unit ``buckets + g``.
        hashes: of the pinned keys, without repetition.
        pins: the group of each.
        index: open addressing: a place in ``hashes`` or -1; a power of two of cells, at most half full.
    """

    buckets: int
    groups: int
    hashes: UInt64s
    pins: Int64s
    index: Int64s

    @classmethod
    def of_buckets(cls, buckets: int, groups: int = 0) -> StateUnits:
        """Units without a pinned key."""
        return cls.pinning(buckets, groups, {})

    @classmethod
    def pinning(cls, buckets: int, groups: int, pinned: Mapping[int, int]) -> StateUnits:
        """Units with pinned keys.

        Args:
            buckets: of the operator.
            groups: how many pin groups there are.
            pinned: the group of each pinned hash (unsigned, 64 bits).

        Raises:
            ValueError: a group is none of them.
        """
        hashes = np.fromiter(pinned, np.uint64, len(pinned))
        pins = np.fromiter(pinned.values(), np.int64, len(pinned))
        if len(pins) and not 0 <= pins.min() <= pins.max() < groups:
            raise ValueError(f"pin groups are 0 to {groups - 1}, got {pins.min()} to {pins.max()}")
        index = np.full(1 << (2 * len(hashes)).bit_length(), -1, np.int64)
        _fill(index, hashes)
        return cls(buckets, groups, hashes, pins, index)

    @property
    def count(self) -> int:
        """How many units there are, with and without keys."""
        return self.buckets + self.groups

    def of(self, hashes: UInt64s) -> Int64s:
        """The unit of each hash."""
        units = bucket_of(hashes, self.buckets)
        if len(self.hashes):
            pin_units(self.index, self.hashes, self.pins, self.buckets, hashes, units)
        return units

    def of_rows(self, columns: Sequence[Any], hashes: UInt64s) -> Int64s:
        """The unit of each key, given its columns and its hash."""
        return self.of(hashes)

    def partitions(self, count: int, owned: Sequence[int] | None = None) -> Int64s:
        """The units in runs for threads to share: by unit, the number of its partition, which never falls.

        The units that are owned are spread evenly. Their load is not known; where keys are pinned, all groups together
        count as much as all buckets, for there are few of them, and they have the keys that come most.

        Args:
            count: how many partitions there are.
            owned: the units that a slot owns; None for all.
        """
        mine = np.zeros(self.count, np.bool_)
        mine[slice(None) if owned is None else np.asarray(owned, np.int64)] = True
        weights = mine.astype(np.int64)
        buckets, groups = weights[: self.buckets], weights[self.buckets :]
        if len(self.hashes) and buckets.any() and groups.any():
            weights = np.concatenate([buckets * groups.sum(), groups * buckets.sum()])
        before = np.cumsum(weights) - weights
        found: Int64s = np.minimum(before * count // max(int(weights.sum()), 1), count - 1)
        return found


@njit
def _fill(index: Int64s, hashes: UInt64s) -> None:
    mask = np.uint64(len(index) - 1)
    for i in range(len(hashes)):
        cell = hashes[i] & mask
        while index[cell] >= 0:
            cell = (cell + np.uint64(1)) & mask
        index[cell] = i


@njit
def pin_units(
    index: Int64s, known: UInt64s, pins: Int64s, buckets: int, hashes: UInt64s, units: Int64s
) -> None:
    """Replaces the buckets in ``units`` by the units of the pin groups, where hashes are pinned."""
    mask = np.uint64(len(index) - 1)
    for i in range(len(hashes)):
        cell = hashes[i] & mask
        while index[cell] >= 0:
            if known[index[cell]] == hashes[i]:
                units[i] = buckets + pins[index[cell]]
                break
            cell = (cell + np.uint64(1)) & mask
