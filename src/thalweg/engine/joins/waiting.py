"""Which row of the right each row of the left gets that waits for it, in machine code: the next one, or the nearest.

A key has the queue of its rows of the left that wait, and the last row of the right where that can be the nearest. A
row of the left has an end: the last time of a row of the right that could be its match. Of a key the ends do not fall,
so its queue is taken off from the front: by a row of the right, or when the watermark has passed an end. What still
waits behind a step stands in a heap by end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from thalweg.columns.chunks import Int64s
from thalweg.jit import njit
from thalweg.times import NEVER

#: Planes of the keys: the first and last row of the left that waits (-1: none), the last row of the right (-1: none)
#: and its time, and whether the key's state is another one since it was saved.
_FIRST: Final = 0
_LAST: Final = 1
_RIGHT: Final = 2
_SEEN: Final = 3
_CHANGED: Final = 4
_KEY_PLANES: Final = 5
#: Planes of the rows of the left: time, key, the next one of the key, its end, whether it still waits.
_TIME: Final = 0
_KEY: Final = 1
_NEXT: Final = 2
_END: Final = 3
_WAITS: Final = 4
_LEFT_PLANES: Final = 5
#: Planes of the heap: ends, and numbers of rows of the left.
_HEAP_PLANES: Final = 2
#: Planes of what is found: the place of the row that came (-1: the watermark), the time, left, right (-1: none).
_FOUND_PLANES: Final = 4
#: Counts: rows of the left, rows of the right, rows in the heap, matches found.
LEFTS: Final = 0
RIGHTS: Final = 1
_HEAPED: Final = 2
_FOUND: Final = 3
#: The end of a row that may wait for as long as the stream goes on.
LAST_END: Final = NEVER - 1
_ROOM: Final = 1024


class Matches(NamedTuple):
    """By row of the left that leaves: with which row of the step (-1: at a time), when, its number, that of its match.

    A match of -1 is none.
    """

    places: Int64s
    times: Int64s
    left: Int64s
    right: Int64s


class WaitingRows:
    """The rows of the left that wait, by number; keys are numbers, too.

    Attributes:
        counts: rows of both sides that have a number.
    """

    def __init__(self, within: int, *, nearest: bool) -> None:
        self._within, self._nearest = within, nearest
        self.counts = np.zeros(4, np.int64)
        self._keys = np.zeros((_KEY_PLANES, 0), np.int64)
        self._lefts = np.zeros((_LEFT_PLANES, 0), np.int64)
        self._rights = np.zeros(0, np.int64)
        self._heap = np.zeros((_HEAP_PLANES, 0), np.int64)

    def match(
        self, keys: Int64s, times: Int64s, rights: Int64s, watermark: int, key_count: int
    ) -> Matches:
        """Takes rows of both sides in their order (key -1: it has a null), and gives what leaves up to a watermark.

        Args:
            keys: by row.
            times: by row.
            rights: by row its side, 0 or 1.
            watermark: rows with an end below it leave.
            key_count: keys are below it.
        """
        self._make_room(keys, rights, key_count)
        before = int(self.counts[LEFTS])
        # Each row of the left leaves once.
        most = int((self._lefts[_WAITS, :before]).sum()) + len(keys)
        found = np.empty((_FOUND_PLANES, most), np.int64)
        self.counts[_FOUND] = 0
        _match(
            self._keys, self._lefts, self._rights, self.counts, found, keys, times, rights,
            self._within, self._nearest,
        )  # fmt: skip
        _leave(
            self._keys, self._lefts, self._heap, self.counts, found, before, watermark, self._within
        )
        return Matches(*found[:, : int(self.counts[_FOUND])])

    def _make_room(self, keys: Int64s, rights: Int64s, key_count: int) -> None:
        right = int(rights.sum())
        self._keys = _grown(self._keys, key_count, (-1, -1, -1, 0, 0))
        self._lefts = _grown(self._lefts, int(self.counts[LEFTS]) + len(keys) - right)
        self._rights = _grown(self._rights[np.newaxis], int(self.counts[RIGHTS]) + right)[0]
        self._heap = _grown(self._heap, int(self.counts[_HEAPED]) + len(keys) - right)

    # -- what is held -------------------------------------------------------------------------------------

    def alive(self) -> list[Int64s]:
        """By side the numbers of the rows that may still be in a match, in their order."""
        waits = np.flatnonzero(self._lefts[_WAITS, : self.counts[LEFTS]])
        rights = self._keys[_RIGHT]
        return [waits, np.sort(rights[rights >= 0])]

    def changed(self, alive: Sequence[Int64s]) -> list[Int64s]:
        """By side, whether the state of the keys of these rows is another one since it was saved."""
        return [self._keys[_CHANGED][keys] for keys in self.keys_of(alive)]

    def keys_of(self, rows: Sequence[Int64s]) -> list[Int64s]:
        """By side, the keys of these rows."""
        left, right = rows
        return [self._lefts[_KEY][left], self._rights[right]]

    def hold(self, side: int, keys: Int64s, times: Int64s, changed: Int64s, key_count: int) -> None:
        """Holds rows without a look for matches; those of the right first."""
        self._make_room(keys, np.full(len(keys), side), key_count)
        first = int(self.counts[side])
        self.counts[side] += len(keys)
        numbers = np.arange(first, first + len(keys))
        if side:
            self._rights[numbers] = keys
            self._keys[_RIGHT, keys], self._keys[_SEEN, keys] = numbers, times
        else:
            _hold(
                self._keys, self._lefts, self._heap, self.counts, numbers, keys, times, self._within
            )
        np.maximum.at(self._keys[_CHANGED], keys, changed)

    @property
    def first_end(self) -> int:
        """A lower bound of the ends, NEVER where no row waits."""
        return int(self._heap[0, 0]) if self.counts[_HEAPED] else NEVER


def ends_of(times: Int64s, before: Int64s, has: Int64s, within: int) -> Int64s:
    """The end of each row of the left; ``before`` is the time of the last row of the right where it ``has`` one."""
    out = np.empty(len(times), np.int64)
    _ends(times, before, has, within, out)
    return out


def _grown(planes: Int64s, size: int, fill: Sequence[int] = ()) -> Int64s:
    """The planes with room for so many, and half as many again."""
    held = planes.shape[1]
    if size <= held:
        return planes
    grown = np.zeros((len(planes), size + (size >> 1) + _ROOM), np.int64)
    for plane, value in enumerate(fill):
        grown[plane, held:] = value
    grown[:, :held] = planes
    return grown


@njit
def _end(time: int, before: int, has: int, within: int) -> int:
    reach = within
    if has:
        gap = np.uint64(time) - np.uint64(before)
        if gap <= np.uint64(within):
            # Of two that are equally near it is the one before.
            reach = int(np.int64(gap)) - 1
    return LAST_END if time > LAST_END - reach else time + reach


@njit
def _ends(times: Int64s, before: Int64s, has: Int64s, within: int, out: Int64s) -> None:
    for i in range(len(times)):
        out[i] = _end(times[i], before[i], has[i], within)


@njit
def _near(keys: Int64s, key: int, time: int, within: int) -> int:
    """The last row of the right, if it is near enough to a time."""
    if keys[_RIGHT, key] < 0 or np.uint64(time) - np.uint64(keys[_SEEN, key]) > np.uint64(within):
        return -1
    return int(keys[_RIGHT, key])


@njit
def _find(found: Int64s, counts: Int64s, place: int, time: int, left: int, right: int) -> None:
    at = counts[_FOUND]
    found[0, at] = place
    found[1, at] = time
    found[2, at] = left
    found[3, at] = right
    counts[_FOUND] = at + 1


@njit
def _queue(keys: Int64s, lefts: Int64s, number: int, key: int, time: int, end: int) -> None:
    """Puts a row of the left behind the last one of its key that waits."""
    lefts[_TIME, number] = time
    lefts[_KEY, number] = key
    lefts[_NEXT, number] = -1
    lefts[_END, number] = end
    lefts[_WAITS, number] = 1
    last = keys[_LAST, key]
    if last < 0:
        keys[_FIRST, key] = number
    else:
        lefts[_NEXT, last] = number
    keys[_LAST, key] = number
    keys[_CHANGED, key] = 1


@njit
def _match(
    keys: Int64s, lefts: Int64s, right_keys: Int64s, counts: Int64s, found: Int64s, of: Int64s, times: Int64s,
    rights: Int64s, within: int, nearest: bool,
) -> None:  # fmt: skip
    for i in range(len(of)):
        key, time = of[i], times[i]
        if rights[i]:
            number = counts[RIGHTS]
            counts[RIGHTS] = number + 1
            right_keys[number] = key
            if key >= 0:
                _arrive(keys, lefts, counts, found, i, number, key, time, within, nearest)
            continue
        number = counts[LEFTS]
        counts[LEFTS] = number + 1
        lefts[_KEY, number] = key
        lefts[_WAITS, number] = 0
        if key < 0:
            _find(found, counts, i, time, number, -1)
            continue
        end = _end(time, keys[_SEEN, key], keys[_RIGHT, key] >= 0, within)
        if end < time:
            _find(found, counts, i, time, number, keys[_RIGHT, key])
        else:
            _queue(keys, lefts, number, key, time, end)


@njit
def _arrive(
    keys: Int64s, lefts: Int64s, counts: Int64s, found: Int64s, place: int, number: int, key: int, time: int,
    within: int, nearest: bool,
) -> None:  # fmt: skip
    """A row of the right: it is the match of those that wait, but for those whose end was before it."""
    left = keys[_FIRST, key]
    while left >= 0:
        lefts[_WAITS, left] = 0
        if lefts[_END, left] < time:
            before = _near(keys, key, lefts[_TIME, left], within)
            _find(found, counts, -1, lefts[_END, left], left, before)
        else:
            _find(found, counts, place, time, left, number)
        left = lefts[_NEXT, left]
    keys[_FIRST, key] = -1
    keys[_LAST, key] = -1
    keys[_CHANGED, key] = 1
    if nearest:
        keys[_RIGHT, key] = number
        keys[_SEEN, key] = time


@njit
def _give_up(
    keys: Int64s, lefts: Int64s, counts: Int64s, found: Int64s, left: int, within: int
) -> None:
    """A row whose end is past, the first of its key that waits."""
    key = lefts[_KEY, left]
    before = _near(keys, key, lefts[_TIME, left], within)
    _find(found, counts, -1, lefts[_END, left], left, before)
    lefts[_WAITS, left] = 0
    keys[_FIRST, key] = lefts[_NEXT, left]
    if keys[_FIRST, key] < 0:
        keys[_LAST, key] = -1
    keys[_CHANGED, key] = 1


@njit
def _leave(
    keys: Int64s, lefts: Int64s, heap: Int64s, counts: Int64s, found: Int64s, before: int, watermark: int,
    within: int,
) -> None:  # fmt: skip
    """What no row of the right can be the match of any more; the other rows of this step go into the heap."""
    while counts[_HEAPED] > 0 and (heap[0, 0] < watermark or not lefts[_WAITS, heap[1, 0]]):
        left = heap[1, 0]
        _take_first(heap, counts)
        if lefts[_WAITS, left]:
            _give_up(keys, lefts, counts, found, left, within)
    for left in range(before, counts[LEFTS]):
        if not lefts[_WAITS, left]:
            continue
        if lefts[_END, left] < watermark:
            _give_up(keys, lefts, counts, found, left, within)
        else:
            _put(heap, counts, lefts[_END, left], left)


@njit
def _hold(
    keys: Int64s, lefts: Int64s, heap: Int64s, counts: Int64s, numbers: Int64s, of: Int64s, times: Int64s,
    within: int,
) -> None:  # fmt: skip
    for i in range(len(numbers)):
        changed = keys[_CHANGED, of[i]]
        end = _end(times[i], keys[_SEEN, of[i]], keys[_RIGHT, of[i]] >= 0, within)
        _queue(keys, lefts, numbers[i], of[i], times[i], end)
        keys[_CHANGED, of[i]] = changed
        _put(heap, counts, end, numbers[i])


# -- the heap: the least end first, of equal ones the least number -------------------------------------------------


@njit
def _is_before(heap: Int64s, a: int, b: int) -> bool:
    return bool(heap[0, a] < heap[0, b] or (heap[0, a] == heap[0, b] and heap[1, a] < heap[1, b]))


@njit
def _swap(heap: Int64s, a: int, b: int) -> None:
    for plane in range(_HEAP_PLANES):
        heap[plane, a], heap[plane, b] = heap[plane, b], heap[plane, a]


@njit
def _put(heap: Int64s, counts: Int64s, end: int, number: int) -> None:
    at = counts[_HEAPED]
    counts[_HEAPED] = at + 1
    heap[0, at] = end
    heap[1, at] = number
    while at > 0 and _is_before(heap, at, (at - 1) // 2):
        _swap(heap, at, (at - 1) // 2)
        at = (at - 1) // 2


@njit
def _take_first(heap: Int64s, counts: Int64s) -> None:
    size = counts[_HEAPED] - 1
    counts[_HEAPED] = size
    _swap(heap, 0, size)
    at = 0
    while 2 * at + 1 < size:
        least = 2 * at + 1
        if least + 1 < size and _is_before(heap, least + 1, least):
            least += 1
        if not _is_before(heap, least, at):
            return
        _swap(heap, least, at)
        at = least
