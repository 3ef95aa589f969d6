"""What a slot counts of its keys while rows pass: bounded and compiled (Caneill et al., 3.2).

For each keyed operator the tuples of each bucket, exactly, and of the most frequent keys; for each link the most
frequent pairs. Keys are counted by their stable hash. What a key is called is asked for only when its hash is new, so a
row costs a few tens of nanoseconds for each operator and link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.brief import brief, counted
from thalweg.errors import BuildError
from thalweg.hashing import Int64s, UInt64s, bucket_of
from thalweg.locality.counting.names import KeyNames
from thalweg.locality.counting.space_saving import SpaceSaving
from thalweg.locality.counting.summary import KeySummary, Link

#: Pairs that are counted, all links together: enough for more than 95 % of what exact counts give.
PAIRS: Final = 10_000
#: Keys that are counted, all operators together.
KEYS: Final = 2_000
#: The memory of a slot's sketches, bytes.
MEMORY: Final = 1_000_000
#: How much of the memory for names is in use after some had to go.
_AFTER: Final = 0.75

#: The names of the keys of some rows of a batch, as text or bytes.
NamesOf: TypeAlias = Callable[[Int64s], pa.Array]


class KeySketch:
    """Counts the keys and pairs of one slot.

    Args:
        buckets: by keyed operator, in the order of the flow, its number of buckets.
        links: the pairs of consecutive keyed operators.
        pairs: counters for pairs.
        keys: counters for keys.
        memory_bytes: what all of it may take. Where names of keys are long, those of the rarest are left out.

    Raises:
        BuildError: the counters alone take more than the memory, or a link is of an unknown operator.
    """

    def __init__(
        self,
        buckets: Mapping[str, int],
        links: Sequence[Link],
        *,
        pairs: int = PAIRS,
        keys: int = KEYS,
        memory_bytes: int = MEMORY,
    ) -> None:
        for link in links:
            if not set(link) <= set(buckets):
                raise BuildError(f"link {link}: the keyed operators are {', '.join(buckets)}")
        self._buckets = {name: np.zeros(count, np.int64) for name, count in buckets.items()}
        self._keys = {name: SpaceSaving(max(1, keys // len(buckets))) for name in buckets}
        self._pairs = {link: SpaceSaving(max(1, pairs // len(links))) for link in links}
        self._names = {name: KeyNames() for name in buckets}
        self._memory = memory_bytes
        if self.nbytes > memory_bytes:
            raise BuildError(
                f"{counted(pairs, 'pair')} and {counted(keys, 'key')} take {self.nbytes} bytes, but"
                f" memory_bytes is {memory_bytes}"
            )

    def __repr__(self) -> str:
        return f"<KeySketch of {brief(list(self._buckets))}, {self.nbytes:,} bytes>"

    @property
    def nbytes(self) -> int:
        """The memory in use, bytes."""
        sketches = sum(sketch.nbytes for sketch, _ in self._sketches())
        buckets = sum(buckets.nbytes for buckets in self._buckets.values())
        return sketches + buckets + sum(names.nbytes for names in self._names.values())

    def take(self, operator: str, hashes: UInt64s, names: NamesOf) -> None:
        """Counts a batch of tuples that an operator took.

        Args:
            operator: its name.
            hashes: the stable hash of each tuple's key.
            names: tells the names of keys by row.
        """
        buckets = self._buckets[operator]
        buckets += np.bincount(bucket_of(hashes, len(buckets)), minlength=len(buckets))
        sketch = self._keys[operator]
        sketch.offer(hashes)
        counters, rows = sketch.unnamed()
        if len(rows):
            self._name(operator, hashes[rows], names, rows)
            sketch.name(counters)
            self._fit()

    def pair(
        self,
        link: Link,
        left: UInt64s,
        right: UInt64s,
        left_names: NamesOf,
        right_names: NamesOf,
    ) -> None:
        """Counts the key pairs of tuples that left for the next keyed operator.

        Args:
            link: this operator and the next.
            left: the hash of the key by which each came here.
            right: the hash of the key by which each goes on.
            left_names: tells the names of the left keys by row.
            right_names: tells those of the right keys.
        """
        sketch = self._pairs[link]
        sketch.offer(left, right)
        counters, rows = sketch.unnamed()
        if len(rows):
            self._name(link[0], left[rows], left_names, rows)
            self._name(link[1], right[rows], right_names, rows)
            sketch.name(counters)
            self._fit()

    def _name(self, operator: str, hashes: UInt64s, names: NamesOf, rows: Int64s) -> None:
        unknown = np.flatnonzero(self._names[operator].places(hashes) < 0)
        if len(unknown):
            self._names[operator].add(hashes[unknown], names(rows[unknown]))

    def _fit(self) -> None:
        """Drops names that nothing refers to any more, and those of the rarest keys, if memory is short."""
        names = sum(one.nbytes for one in self._names.values())
        room = self._memory - (self.nbytes - names)
        if names > room:
            self._drop(_AFTER * room)

    def _drop(self, limit: float) -> None:
        weights = {name: self._weights(name) for name in self._names}
        order = np.argsort(-np.concatenate(list(weights.values())), kind="stable")
        sizes = np.concatenate([one.sizes() for one in self._names.values()])
        fits = np.zeros(len(order), np.bool_)
        fits[order] = np.cumsum(sizes[order]) <= limit
        fits &= np.concatenate(list(weights.values())) > 0
        start = 0
        for names in self._names.values():
            stop = start + len(names)
            names.keep(np.flatnonzero(fits[start:stop]))
            start = stop
        for sketch, operators in self._sketches():
            lost = np.zeros(len(sketch.items()), np.bool_)
            for side, operator in enumerate(operators):
                hashes = np.ascontiguousarray(sketch.items()[:, side])
                lost |= self._names[operator].places(hashes) < 0
            sketch.forget(np.flatnonzero(lost))

    def _weights(self, operator: str) -> Int64s:
        """By name, the greatest count of a counter that refers to it, 0 for none."""
        names = self._names[operator]
        weights = np.zeros(len(names), np.int64)
        for sketch, operators in self._sketches():
            for side, other in enumerate(operators):
                if other == operator:
                    counts = sketch.counts()
                    places = names.places(np.ascontiguousarray(counts.items[:, side]))
                    known = places >= 0
                    np.maximum.at(weights, places[known], counts.counts[known])
        return weights

    def _sketches(self) -> Iterator[tuple[SpaceSaving, tuple[str, ...]]]:
        """Each sketch with the operators of its items' parts."""
        yield from ((sketch, (name,)) for name, sketch in self._keys.items())
        yield from ((sketch, link) for link, sketch in self._pairs.items())

    def summary(self) -> KeySummary:
        """A copy of the counts since the last reset."""
        return KeySummary(
            {name: buckets.copy() for name, buckets in self._buckets.items()},
            {name: sketch.counts() for name, sketch in self._keys.items()},
            {link: sketch.counts() for link, sketch in self._pairs.items()},
            {name: (names.hashes, names.names) for name, names in self._names.items()},
        )

    def reset(self) -> None:
        """Forgets everything, as at a reconfiguration, so that only recent tuples count."""
        for buckets in self._buckets.values():
            buckets[:] = 0
        for sketch, _ in self._sketches():
            sketch.reset()
        for names in self._names.values():
            names.keep(np.zeros(0, np.int64))
