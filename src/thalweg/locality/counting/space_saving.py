"""SpaceSaving: the most frequent items of a stream, counted in bounded memory, compiled.

The algorithm of Metwally, Agrawal and El Abbadi ("Efficient computation of frequent and top-k elements in data
streams", ICDT 2005), which Caneill et al. (3.2) count pairs of keys with. Of m counters, one with the least count is
taken away from its item when a new one comes, which inherits the count as its possible error. Of N tuples,

- a counted item came at least ``count - error`` and at most ``count`` times, and ``error`` is at most N / m;
- any other item came at most :attr:`SpaceSaving.floor` times, which is at most N / m as well.

An item is one or two 64-bit hashes; that two items of a stream have equal ones is left out of account. The counter with
the least count is found without lists of equal counts (the paper's Stream-Summary): a cursor goes over the counters in
search of the least count, which is known, and only when it comes to the end is the next least count looked for. Counts
only grow, so there are at most N / m such rounds of m steps: one step a tuple.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.brief import counted
from thalweg.errors import BuildError
from thalweg.hashing import Int64s, UInt64s
from thalweg.jit import njit
from thalweg.locality.counting.counts import Counts

#: What ``wanted`` holds of an item that was named; of one that was not, its row in the last batch, or ABSENT.
NAMED: Final = -1
ABSENT: Final = -2

_SIZE, _TOTAL, _LEAST, _CURSOR = range(4)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_NONE: Final = np.zeros(0, np.uint64)
_ONES: Final = np.zeros(0, np.int64)


class _Arrays(NamedTuple):
    """m counters, and a hash table with chains of them.

    ``items`` uint64[m, 2], ``counts`` and ``errors`` int64[m], ``wanted`` int32[m]. ``heads`` int32, a power of two
    long, and ``nexts`` int32[m] hold counters, -1 at the end of a chain. ``fields`` int64[4]: counters in use, tuples,
    a least count, and the cursor. No count is below the least count, and none before the cursor is equal to it.
    """

    items: UInt64s
    counts: Int64s
    errors: Int64s
    wanted: npt.NDArray[np.int32]
    heads: npt.NDArray[np.int32]
    nexts: npt.NDArray[np.int32]
    fields: Int64s


class SpaceSaving:
    """Counts the most frequent items of a stream, each of one or two stable hashes.

    Args:
        capacity: how many counters, at least 1.

    Raises:
        BuildError: ``capacity`` is below 1.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise BuildError(f"a sketch needs at least one counter, got {capacity}")
        size = 1 << capacity.bit_length()
        self._arrays = _Arrays(
            np.zeros((capacity, 2), np.uint64),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.int64),
            np.full(capacity, NAMED, np.int32),
            np.full(size, -1, np.int32),
            np.full(capacity, -1, np.int32),
            np.zeros(4, np.int64),
        )

    def __repr__(self) -> str:
        return f"<SpaceSaving of {counted(self.capacity, 'counter')}, {counted(self.total, 'tuple')} counted>"

    @property
    def capacity(self) -> int:
        """The number of counters."""
        return len(self._arrays.counts)

    @property
    def total(self) -> int:
        """The number of counted tuples (N)."""
        return int(self._arrays.fields[_TOTAL])

    @property
    def floor(self) -> int:
        """The most occurrences that an item without a counter can have had."""
        used = self._arrays.fields[_SIZE]
        return int(self._arrays.counts.min()) if used == self.capacity else 0

    @property
    def nbytes(self) -> int:
        """The memory of all arrays, bytes."""
        return sum(array.nbytes for array in self._arrays)

    def offer(
        self, first: UInt64s, second: UInt64s = _NONE, *, weights: Int64s | None = None
    ) -> None:
        """Counts a batch.

        Args:
            first: hashes, one a tuple.
            second: the second hashes of items of two; as many, or none.
            weights: how often each item came, at least once; once without it. A sketch that is given few but
                heavy items looks for the least count more often.

        Raises:
            ValueError: the arrays differ in length, or a weight is below 1.
        """
        if len(second) not in (0, len(first)):
            raise ValueError(f"{len(first)} first hashes, {len(second)} second ones")
        if weights is None:
            weights = _ONES
        elif len(weights) != len(first) or (len(weights) and weights.min() < 1):
            raise ValueError(f"expected {len(first)} weights of 1 or more")
        _offer(self._arrays, first, second, weights)

    def unnamed(self) -> tuple[Int64s, Int64s]:
        """The counters whose items came in the last batch and have no name yet, and a row of each there."""
        counters = np.flatnonzero(self._arrays.wanted >= 0)
        return counters, self._arrays.wanted[counters].astype(np.int64)

    def name(self, counters: Int64s) -> None:
        """Notes that these counters' items have names."""
        self._arrays.wanted[counters] = NAMED

    def forget(self, counters: Int64s) -> None:
        """Notes that these counters' items have lost their names."""
        self._arrays.wanted[counters] = ABSENT

    def items(self) -> UInt64s:
        """The counted items, ``uint64[used, 2]``, by counter."""
        return self._arrays.items[: self._arrays.fields[_SIZE]]

    def counts(self) -> Counts:
        """A copy of the counts so far."""
        used = int(self._arrays.fields[_SIZE])
        arrays = self._arrays
        return Counts(
            arrays.items[:used].copy(),
            arrays.counts[:used].copy(),
            arrays.errors[:used].copy(),
            self.floor,
            self.total,
        )

    def reset(self) -> None:
        """Forgets everything."""
        self._arrays.heads[:] = -1
        self._arrays.fields[:] = 0
        self._arrays.wanted[:] = NAMED


# Compiled helpers take the arrays that they use: a tuple of all arrays costs five times the work itself to hand over.


@njit(forceinline=True)
def _home(heads: Any, first: Any, second: Any) -> Any:
    """The chain of an item."""
    mixed = (first ^ (second * _MIX)) * _MIX
    return np.int64(mixed >> np.uint64(32)) & (len(heads) - 1)


@njit
def _find(items: Any, heads: Any, nexts: Any, first: Any, second: Any) -> Any:
    """The counter of an item, or -1."""
    counter = np.int64(heads[_home(heads, first, second)])
    while counter >= 0 and (items[counter, 0] != first or items[counter, 1] != second):
        counter = np.int64(nexts[counter])
    return counter


@njit
def _link(items: Any, heads: Any, nexts: Any, counter: Any) -> None:
    """Puts a counter into the chain of its item."""
    home = _home(heads, items[counter, 0], items[counter, 1])
    nexts[counter] = heads[home]
    heads[home] = counter


@njit
def _unlink(items: Any, heads: Any, nexts: Any, counter: Any) -> None:
    """Takes a counter out of its chain."""
    home = _home(heads, items[counter, 0], items[counter, 1])
    if heads[home] == counter:
        heads[home] = nexts[counter]
        return
    before = heads[home]
    while nexts[before] != counter:
        before = nexts[before]
    nexts[before] = nexts[counter]


@njit
def _least(counts: Int64s, fields: Int64s) -> Any:
    """A counter with the least count; all are in use."""
    while True:
        least, cursor = fields[_LEAST], fields[_CURSOR]
        while cursor < len(counts) and counts[cursor] != least:
            cursor += 1
        fields[_CURSOR] = cursor
        if cursor < len(counts):
            return cursor
        least = counts[0]
        for count in counts:
            least = min(least, count)
        fields[_LEAST] = least
        fields[_CURSOR] = 0


@njit
def _offer(arrays: Any, firsts: UInt64s, seconds: UInt64s, weights: Int64s) -> None:
    items, counts, errors, wanted, heads, nexts, fields = arrays
    for counter in range(fields[_SIZE]):
        if wanted[counter] >= 0:
            wanted[counter] = ABSENT
    for row in range(len(firsts)):
        first = firsts[row]
        second = seconds[row] if len(seconds) else np.uint64(0)
        counter = _find(items, heads, nexts, first, second)
        if counter < 0:
            # A new item takes over the least count, which is 0 while there are free counters.
            if fields[_SIZE] < len(counts):
                counter = fields[_SIZE]
                fields[_SIZE] += 1
                counts[counter] = 0
            else:
                counter = _least(counts, fields)
                _unlink(items, heads, nexts, counter)
            errors[counter] = counts[counter]
            items[counter, 0] = first
            items[counter, 1] = second
            wanted[counter] = ABSENT
            _link(items, heads, nexts, counter)
        weight = weights[row] if len(weights) else 1
        counts[counter] += weight
        fields[_TOTAL] += weight
        if wanted[counter] != NAMED:
            wanted[counter] = row
