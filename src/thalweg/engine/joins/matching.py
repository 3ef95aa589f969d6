"""The pairs of a join in machine code: a table of keys, and for each key a queue of the rows of either side.

A row is put behind the last one of its key. Its partners are the queue of the other side, from which those out of
reach are taken off first. So a row costs one look into the table, whatever is held. Nothing is taken out of the table:
when the room for rows is used up, both are made anew of the rows that are still in reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from thalweg.columns.chunks import Int64s
from thalweg.engine.joins.reach import below
from thalweg.jit import njit

#: Columns of the table: whether the slot is used, its key, by side its first and last row (-1: none), and whether a row
#: of the key has come out alone since the state was saved.
_USED: Final = 0
_KEY: Final = 1
_FIRST: Final = 2
_LAST: Final = 4
_CHANGED: Final = 6
_WIDTH: Final = 7
#: Planes of the rows: times, keys, the next row of the key, whether the row or its key's state is new since it was
#: saved, whether it has met one of the other side, and whether it meets none, since its key has a null.
TIMES: Final = 0
_KEYS: Final = 1
_NEXT: Final = 2
FRESH: Final = 3
MATCHED: Final = 4
LOOSE: Final = 5
_PLANES: Final = 6
_LEAST: Final = -(2**63)
_SPARE: Final = 1024


class Pairs(NamedTuple):
    """By pair the place of the row that came, its number, and the number of its partner on the other side."""

    places: Int64s
    mine: Int64s
    theirs: Int64s


class Matcher:
    """The keys and times of the rows that both sides hold."""

    def __init__(self, within: Sequence[int]) -> None:
        """``within``: by side, how much later one of the other side may be."""
        self._within = np.array([min(one, 2**63 - 1) for one in within], np.int64)
        self.counts = np.zeros(2, np.int64)
        self._rows = np.zeros((2, _PLANES, 0), np.int64)
        self._table = np.zeros((1, _WIDTH), np.int64)
        #: an upper bound of the keys in the table
        self._keys = 0
        #: whether the state of a key is another one though no row came
        self._has_changes = False

    def room(self, rows: Int64s) -> bool:
        """Whether there is room for so many further rows of each side; then it is taken."""
        return bool((self.counts + rows <= self._rows.shape[2]).all()) and self._has_slots(
            int(rows.sum())
        )

    def _has_slots(self, more: int) -> bool:
        """Whether the table stays half empty with so many further keys."""
        most = len(self._table) // 2
        if self._keys + more > most:
            self._keys = self._known_keys()
        if self._keys + more > most:
            return False
        self._keys += more
        return True

    def _known_keys(self) -> int:
        return int(np.count_nonzero(self._table[:, _USED]))

    def gone(self, clock: int) -> tuple[int, int]:
        """How many rows of each side, the oldest, can meet none any more."""
        left, right = (
            int(np.searchsorted(self.held(side, TIMES), below(clock, int(self._within[side]))))
            for side in (0, 1)
        )
        return left, right

    def rebuild(self, gone: tuple[int, int], rows: Int64s) -> None:
        """Forgets the oldest rows of each side, and makes room for further ones and as many again."""
        self.spread()
        old, counts = self._rows, self.counts - np.array(gone)
        # Many rows have few keys, as far as is known; there may be as many new ones as rows.
        self._keys = min(self._known_keys(), int(counts.sum())) + int(rows.sum())
        self._make_room(int((counts + rows).max()))
        kept = [old[i, :, gone[i] : self.counts[i]] for i in (0, 1)]
        self.counts = np.zeros(2, np.int64)
        for side, one in enumerate(kept):
            # In the same memory a row goes to a place that is no later than its own.
            self.hold(side, one[_KEYS], one[TIMES], one[FRESH:])

    def _make_room(self, most: int) -> None:
        """An empty table, and room for so many rows of a side; in the memory that there is, if it fits."""
        if not 1.5 * most <= self._rows.shape[2] <= 8 * most + _SPARE:
            self._rows = np.zeros((2, _PLANES, 2 * most + _SPARE), np.int64)
        slots = 1 << (4 * self._keys + _SPARE - 1).bit_length()
        if not slots <= len(self._table) <= 4 * slots:
            self._table = np.zeros((slots, _WIDTH), np.int64)
        else:
            self._table[:] = 0

    def hold(self, side: int, keys: Int64s, times: Int64s, flags: Int64s) -> None:
        """Holds rows without a look for partners; ``flags`` are the planes from ``FRESH`` on."""
        _hold(self._table, self._rows, self.counts, side, keys, times, flags)

    def held(self, side: int, plane: int) -> Int64s:
        """A plane of the rows of a side, oldest first."""
        found: Int64s = self._rows[side, plane, : self.counts[side]]
        return found

    def match(self, keys: Int64s, times: Int64s, sides: Int64s, loose: Int64s) -> Pairs:
        """Holds rows of both sides in their order, and gives their pairs."""
        given = keys, times, sides, loose
        found = _match(self._table, self._rows, self.counts, *given, self._within)
        return Pairs(found[:, 0], found[:, 1], found[:, 2])

    def come_out(self, side: int, numbers: Int64s) -> None:
        """Notes that the state of the keys of these rows is another one, since they come out alone."""
        self._has_changes |= len(numbers) > 0
        _change(self._table, self._rows[side], numbers)

    def spread(self) -> None:
        """Marks all rows of the keys of which some have come out."""
        if self._has_changes:
            _spread(self._table, self._rows, self.counts)
        self._has_changes = False


@njit
def _slot(table: Int64s, key: int) -> int:
    """The slot of a key, which it takes where it has none."""
    mask = len(table) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(mixed >> np.uint64(20)) & mask
    while table[at, _USED] and table[at, _KEY] != key:
        at = (at + 1) & mask
    if not table[at, _USED]:
        table[at, _USED] = 1
        table[at, _KEY] = key
        table[at, _FIRST:_CHANGED] = -1
    return int(at)


@njit
def _put(
    table: Int64s, rows: Int64s, counts: Int64s, side: int, at: int, key: int, time: int
) -> int:
    """Puts a row behind the last one of its key, or (``at`` is -1) of none; its number."""
    number = counts[side]
    counts[side] += 1
    rows[side, TIMES, number] = time
    rows[side, _KEYS, number] = key
    rows[side, _NEXT, number] = -1
    rows[side, FRESH, number] = 1
    rows[side, MATCHED, number] = 0
    rows[side, LOOSE, number] = at < 0
    if at < 0:
        return int(number)
    last = table[at, _LAST + side]
    if last < 0:
        table[at, _FIRST + side] = number
    else:
        rows[side, _NEXT, last] = number
    table[at, _LAST + side] = number
    return int(number)


@njit
def _first_in_reach(table: Int64s, rows: Int64s, side: int, at: int, before: int) -> int:
    """The first row of a key that is not out of reach; takes those off that are."""
    first = table[at, _FIRST + side]
    while first >= 0 and rows[side, TIMES, first] < before:
        first = rows[side, _NEXT, first]
    table[at, _FIRST + side] = first
    if first < 0:
        table[at, _LAST + side] = -1
    return int(first)


@njit
def _hold(
    table: Int64s,
    rows: Int64s,
    counts: Int64s,
    side: int,
    keys: Int64s,
    times: Int64s,
    flags: Int64s,
) -> None:
    for i in range(len(keys)):
        at = -1 if flags[LOOSE - FRESH, i] else _slot(table, keys[i])
        number = _put(table, rows, counts, side, at, keys[i], times[i])
        # One by one: a slice would be an object for each row.
        for plane in range(_PLANES - FRESH):
            rows[side, FRESH + plane, number] = flags[plane, i]


@njit
def _change(table: Int64s, rows: Int64s, numbers: Int64s) -> None:
    for i in numbers:
        # Rows without a slot of their own share that of key 0: its rows are saved once too often.
        table[_slot(table, rows[_KEYS, i]), _CHANGED] = 1


@njit
def _spread(table: Int64s, rows: Int64s, counts: Int64s) -> None:
    for side in range(2):
        for i in range(counts[side]):
            if table[_slot(table, rows[side, _KEYS, i]), _CHANGED]:
                rows[side, FRESH, i] = 1
    table[:, _CHANGED] = 0


@njit
def _match(
    table: Int64s,
    rows: Int64s,
    counts: Int64s,
    keys: Int64s,
    times: Int64s,
    sides: Int64s,
    loose: Int64s,
    within: Int64s,
) -> Int64s:
    """Rows of (place, number, number of the partner), in the order of the rows and, of one, of the partners."""
    found = np.empty((len(keys) + 16, 3), np.int64)
    size = 0
    for i in range(len(keys)):
        side, time = sides[i], times[i]
        other = 1 - side
        at = -1 if loose[i] else _slot(table, keys[i])
        mine = _put(table, rows, counts, side, at, keys[i], time)
        if loose[i]:
            continue
        reach = within[other]
        before = time - reach if time >= _LEAST + reach else _LEAST
        theirs = _first_in_reach(table, rows, other, at, before)
        while theirs >= 0:
            if size == len(found):
                grown = np.empty((2 * size, 3), np.int64)
                grown[:size] = found
                found = grown
            found[size, 0] = i
            found[size, 1] = mine
            found[size, 2] = theirs
            size += 1
            theirs = rows[other, _NEXT, theirs]
    return found[:size]
