"""Orders the outputs of a chunk's partitions, in machine code.

The order is that of :func:`thalweg.columns.ordering.keyed_chunk`: outputs of rows in the rows' order, a timer's outputs
behind all rows with a time up to the timer's, timers by (time, key). An output is named by a *pick*.
"""

from __future__ import annotations

from typing import Final

from thalweg.compiler.keyed import layout as code
from thalweg.compiler.runtime.support import get_i, get_u, put_i
from thalweg.workers.lockfree.atomics import shared
from thalweg.workers.native import keyed_layout as at
from thalweg.workers.native.blocks import time_word
from thalweg.workers.native.keyed_keys import field
from thalweg.workers.native.keyed_ranks import rank_of
from thalweg.workers.native.keyed_run import column_of

#: A pick is an output: its partition above these bits, its place there below.
PICK_BITS: Final = 40
PLACE: Final = (1 << PICK_BITS) - 1
#: What a comparison may also say: only the texts of categories tell, and they have no ranks yet.
_UNKNOWN: Final = 2
_NOT_SIGN: Final = 2**63 - 1


@shared
def part_of(split: int, number: int) -> int:
    """Where the words of what a partition gave stand."""
    return field(split, at.PARTS) + 8 * at.PART_WORDS * number


@shared
def value_of(ctx: int, split: int, pick: int, column: int) -> int:
    """A 64-bit column of an output."""
    part = part_of(split, pick >> PICK_BITS)
    base = column_of(ctx, field(part, at.PART_BUFFER), field(part, at.PART_CAPACITY), column)
    return field(base, pick & PLACE)


# -- rows ------------------------------------------------------------------------------------------------------


@shared
def _collect(ctx: int, split: int, rows: int, timers: int) -> tuple[int, int, bool]:
    """The picks of rows and of timers, by partition: how many of each, and whether rows are in order."""
    count = fired = last = 0
    ordered = True
    for p in range(field(ctx, at.PARTITIONS)):
        part = part_of(split, p)
        used = field(part, at.PART_USED)
        source = column_of(
            ctx, field(part, at.PART_BUFFER), field(part, at.PART_CAPACITY), code.SOURCE
        )
        for i in range(used):
            row = get_i(source + 8 * i)
            if row < 0:
                put_i(timers + 8 * fired, (p << PICK_BITS) | i)
                fired += 1
            else:
                ordered = ordered and row >= last
                last = row
                put_i(rows + 8 * count, (p << PICK_BITS) | i)
                count += 1
    return count, fired, ordered


@shared
def _sort_rows(ctx: int, split: int, picks: int, count: int, spare: int, starts: int) -> None:
    """Picks by the row that they come from; ``starts`` is room for a word a row of the chunk."""
    rows = field(split, at.ROWS)
    for r in range(rows):
        put_i(starts + 8 * r, 0)
    for i in range(count):
        place = starts + 8 * value_of(ctx, split, get_i(picks + 8 * i), code.SOURCE)
        put_i(place, get_i(place) + 1)
    done = 0
    for r in range(rows):
        size = get_i(starts + 8 * r)
        put_i(starts + 8 * r, done)
        done += size
    for i in range(count):
        pick = get_i(picks + 8 * i)
        place = starts + 8 * value_of(ctx, split, pick, code.SOURCE)
        put_i(spare + 8 * get_i(place), pick)
        put_i(place, get_i(place) + 1)
    for i in range(count):
        put_i(picks + 8 * i, get_i(spare + 8 * i))


# -- timers ----------------------------------------------------------------------------------------------------


@shared
def _identity(split: int, pick: int) -> tuple[int, int]:
    """Where the identity of a timer's key stands, and its bytes."""
    part, row = part_of(split, pick >> PICK_BITS), pick & PLACE
    keys = field(part, at.PART_KEYS)
    data = keys + 8 * (field(part, at.PART_USED) + 1)
    return data + field(keys, row), field(keys, row + 1) - field(keys, row)


@shared
def _compare_bytes(split: int, a: int, b: int) -> int:
    """Keys by their identities, whose bytes sort like the keys: -1, 0 or 1."""
    (x, size_x), (y, size_y) = _identity(split, a), _identity(split, b)
    for k in range(min(size_x, size_y)):
        if get_u(x + k) != get_u(y + k):
            return -1 if get_u(x + k) < get_u(y + k) else 1
    return (size_x > size_y) - (size_x < size_y)


@shared
def _compare(ctx: int, split: int, a: int, b: int) -> int:
    """Timers by (time, key): -1, 0, 1, or _UNKNOWN."""
    x, y = value_of(ctx, split, a, code.OUT_TIME), value_of(ctx, split, b, code.OUT_TIME)
    if x != y:
        return -1 if x < y else 1
    if field(ctx, at.HAS_BYTES):
        return _compare_bytes(split, a, b)
    key, width = field(ctx, at.KEYS), field(ctx, at.WIDTH)
    nulls_a = nulls_b = 0
    if field(ctx, at.NULL_WORD):
        nulls_a = value_of(ctx, split, a, code.OUT_WORDS + width - 1)
        nulls_b = value_of(ctx, split, b, code.OUT_WORDS + width - 1)
    for place in range(field(ctx, at.KEY_FIELDS)):
        null_a, null_b = (nulls_a >> place) & 1, (nulls_b >> place) & 1
        if null_a != null_b:
            return -1 if null_a else 1
        kind = field(key, at.KEY_KIND)
        x = value_of(ctx, split, a, code.OUT_WORDS + place)
        y = value_of(ctx, split, b, code.OUT_WORDS + place)
        if kind == at.FLOAT_KEY:
            x, y = x ^ ((x >> 63) & _NOT_SIGN), y ^ ((y >> 63) & _NOT_SIGN)
        if x != y:
            if kind == at.CATEGORY_KEY:
                table = field(ctx, at.RANKS)
                x, y = rank_of(table, x), rank_of(table, y)
                if x < 0 or y < 0:
                    return _UNKNOWN
            return -1 if x < y else 1
        key += 8 * at.KEY_WORDS
    return 0


@shared
def _sort_timers(ctx: int, split: int, picks: int, count: int, spare: int) -> bool:
    """Merge sort of the picks of timers; False when texts without a rank decide."""
    width, here, there = 1, picks, spare
    while width < count:
        for start in range(0, count, 2 * width):
            middle, end = min(start + width, count), min(start + 2 * width, count)
            i, j = start, middle
            for k in range(start, end):
                left = i < middle
                if left and j < end:
                    sign = _compare(ctx, split, get_i(here + 8 * i), get_i(here + 8 * j))
                    if sign == _UNKNOWN:
                        return False
                    left = sign <= 0
                put_i(there + 8 * k, get_i(here + 8 * (i if left else j)))
                i, j = (i + 1, j) if left else (i, j + 1)
        here, there = there, here
        width *= 2
    if here != picks:
        for k in range(count):
            put_i(picks + 8 * k, get_i(here + 8 * k))
    return True


@shared
def _place_timers(
    ctx: int, split: int, rows: int, count: int, timers: int, fired: int, out: int
) -> None:
    """Rows and timers by time, a timer behind the rows of its time."""
    times = field(field(split, at.IN_BLOCK), time_word(field(ctx, at.IN_FIELDS)))
    i = j = 0
    for k in range(count + fired):
        by_row = i < count
        if by_row and j < fired:
            source = value_of(ctx, split, get_i(rows + 8 * i), code.SOURCE)
            due = value_of(ctx, split, get_i(timers + 8 * j), code.OUT_TIME)
            by_row = get_i(times + 8 * source) <= due
        put_i(out + 8 * k, get_i(rows + 8 * i) if by_row else get_i(timers + 8 * j))
        i, j = (i + 1, j) if by_row else (i, j + 1)


@shared
def arrange(ctx: int, split: int, total: int, out: int, room: int) -> bool:
    """All picks in the order of the stream; ``room`` has 3 words an output and one a row of the chunk."""
    rows, timers, spare = room, room + 8 * total, room + 16 * total
    count, fired, ordered = _collect(ctx, split, rows, timers)
    if not ordered:
        _sort_rows(ctx, split, rows, count, spare, room + 24 * total)
    if fired > 1 and not _sort_timers(ctx, split, timers, fired, spare):
        return False
    _place_timers(ctx, split, rows, count, timers, fired, out)
    return True
