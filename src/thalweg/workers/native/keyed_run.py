"""Runs one partition of a split chunk, in machine code: its rows, then its due timers.

What machine code cannot do is left to Python, with nothing half done: a table must be made or grown (before the
kernel runs), or a user's function raised (then the state that it saw is put back, and the control words say
where the kernel stopped).
"""

from __future__ import annotations

from typing import Final

from thalweg.checkpoint.state_tables.table_rows import ARENA, BOUNDS, OFFSETS, RECORDS, TABLE_WIDTH
from thalweg.compiler.code.columns import TEXT_TAIL
from thalweg.compiler.keyed import layout as code
from thalweg.compiler.runtime.arena import free_arena
from thalweg.compiler.runtime.calls import call3, copy_bytes, free, get_i, malloc, put_i
from thalweg.compiler.runtime.lookup import (
    RANGE_WIDTH,
    _find_all_due,
    find_all_bytes,
    find_all_words,
)
from thalweg.compiler.runtime.support import DONE
from thalweg.times import NEVER
from thalweg.workers.lockfree.atomics import shared
from thalweg.workers.native import keyed_layout as at
from thalweg.workers.native.keyed_keys import (
    arrays,
    byte_array,
    carray,
    field,
    int64s,
    put,
    uint64s,
)

_TABLE_BYTES: Final = 8 * TABLE_WIDTH
_RANGE_BYTES: Final = 8 * RANGE_WIDTH
#: The first room for outputs, where nothing is known of their number.
_FIRST_ROOM: Final = 8


@shared
def area_of(ctx: int, partition: int) -> int:
    """Where a partition's work area stands."""
    return field(ctx, at.AREAS) + 8 * field(ctx, at.AREA_WORDS) * partition


@arrays
def _find(ctx: int, area: int, split: int, first: int, last: int) -> bool:
    """The entries of the rows of these ranges; False when a table lacks room, or is not there."""
    ranges, tables = field(split, at.RANGES), field(area, at.TABLES)
    for r in range(first, last):
        if field(tables + _TABLE_BYTES * get_i(ranges + _RANGE_BYTES * r), RECORDS) == 0:
            return False
    rows = field(split, at.ROWS)
    places = carray(int64s(ranges), (last, RANGE_WIDTH))
    known = carray(int64s(tables), (field(ctx, at.UNITS), TABLE_WIDTH))
    hashes = carray(uint64s(field(split, at.HASHES)), rows)
    words = carray(int64s(field(split, at.WORDS)), (rows, field(ctx, at.WIDTH)))
    order = carray(int64s(field(split, at.ORDER)), rows)
    out = carray(int64s(field(split, at.ENTRIES)), rows)
    ranges_done = malloc(8 * (last - first))
    if ranges_done == 0:
        return False
    done = carray(int64s(ranges_done), last - first)
    done[:] = 0
    if field(ctx, at.HAS_BYTES):
        ends = carray(int64s(field(split, at.KEY_ENDS)), rows + 1)
        data = carray(byte_array(field(split, at.KEY_BYTES)), ends[rows])
        lacking = find_all_bytes(
            places, known, hashes, words, ends, data, order, out, first, last, done
        )
    else:
        lacking = find_all_words(places, known, hashes, words, order, out, first, last, done)
    free(ranges_done)
    return lacking == 0


# -- outputs ---------------------------------------------------------------------------------------------------


@shared
def column_of(ctx: int, buffer: int, capacity: int, number: int) -> int:
    """Where a column of an output buffer stands: first those of 8 bytes, then those of 1."""
    place = field(ctx, at.PLACES) + 16 * number
    if field(place, 0) == 0:
        return buffer + 8 * capacity * field(place, 1)
    return buffer + (8 * field(ctx, at.WIDE) + field(place, 1)) * capacity


@shared
def _grow(ctx: int, area: int) -> bool:
    """More room for outputs, those so far kept; False when there is no memory."""
    control, table, old = area + 8 * at.CONTROL, field(area, at.OUT_TABLE), field(area, at.BUFFER)
    before, used = get_i(table), field(control, code.OUT)
    capacity = max(2 * before, field(control, code.NEEDED))
    if before == 0:
        capacity = max(capacity, _FIRST_ROOM, field(area, at.GUESS))
    buffer = malloc(capacity * (8 * field(ctx, at.WIDE) + field(ctx, at.SMALL)))
    if buffer == 0:
        return False
    for k in range(field(ctx, at.COLUMNS)):
        place = column_of(ctx, buffer, capacity, k)
        if used > 0:
            size = used if get_i(field(ctx, at.PLACES) + 16 * k) else 8 * used
            copy_bytes(place, field(table, 1 + k), size)
        put(table, 1 + k, place)
    put(table, 0, capacity)
    if old != 0:
        free(old)
    put(area, at.BUFFER, buffer)
    return True


@shared
def _kernel(ctx: int, area: int) -> bool:
    """Runs the kernel from where it stands to its end; False when a function raised."""
    control = area + 8 * at.CONTROL
    while True:
        status, result = call3(
            field(ctx, at.KERNEL), field(area, at.CHUNK), field(area, at.OUT_TABLE), control
        )
        if status != 0 or (result != DONE and not _grow(ctx, area)):
            return False
        if result == DONE:
            return True


# -- rows ------------------------------------------------------------------------------------------------------


@shared
def _begin(ctx: int, area: int, split: int, ending: int) -> None:
    """Empty outputs, and the chunk as the kernel sees it."""
    control, chunk = area + 8 * at.CONTROL, field(area, at.CHUNK)
    for i in range(code.CONTROL_SIZE):
        put(control, i, 0)
    put(control, code.ENDING, ending)
    put(area, at.BUFFER, 0)
    put(field(area, at.OUT_TABLE), 0, 0)
    block = field(split, at.IN_BLOCK)
    fields = field(ctx, at.IN_FIELDS)
    put(chunk, code.RANGES, field(split, at.RANGES))
    put(chunk, code.ORDER, field(split, at.ORDER))
    put(chunk, code.ENTRIES, field(split, at.ENTRIES))
    times = field(block, field(ctx, at.TIMES_WORD)) if field(ctx, at.TIMED) else 0
    put(chunk, code.TIMES, times)
    for i in range(2 * fields + TEXT_TAIL):
        put(chunk, code.COLUMNS + i, field(block, 1 + i))
    # Without room the kernel would call a function a second time for its first output, however long that takes.
    _grow(ctx, area)


@shared
def _start(area: int, first: int, last: int, due: int, clock: int) -> None:
    control = area + 8 * at.CONTROL
    put(control, code.RANGE, first)
    put(control, code.LAST, last)
    put(control, code.PLACE, -1)
    put(control, code.DUE, due)
    put(control, code.CLOCK, clock)


@shared
def _note_bounds(ctx: int, area: int, ranges: int, first: int, last: int) -> int:
    """Takes over the bounds of the timers of these ranges' buckets; the least of them."""
    least, tables = field(ctx, at.LEAST), field(area, at.TABLES)
    lowest = NEVER
    for r in range(first, last):
        bucket = get_i(ranges + _RANGE_BYTES * r)
        bound = get_i(field(tables + _TABLE_BYTES * bucket, BOUNDS))
        put_i(least + 8 * bucket, bound)
        lowest = min(lowest, bound)
    return lowest


# -- timers ----------------------------------------------------------------------------------------------------


@arrays
def _due(ctx: int, area: int, clock: int) -> int:
    """Fills the partition's ranges and entries of timers below the clock; how many ranges, -1 without memory."""
    least, tables, candidates = (
        field(ctx, at.LEAST), field(area, at.TABLES), field(area, at.CANDIDATES),
    )  # fmt: skip
    count = total = 0
    for bucket in range(field(area, at.FIRST_UNIT), field(area, at.LAST_UNIT)):
        if get_i(least + 8 * bucket) < clock:
            put_i(candidates + 8 * count, bucket)
            count += 1
            total += get_i(field(tables + _TABLE_BYTES * bucket, BOUNDS) + 8)
    if total == 0:
        return 0
    entries = malloc(8 * total)
    if entries == 0:
        return -1
    used, found = _find_all_due(
        carray(int64s(candidates), count),
        carray(int64s(tables), (field(ctx, at.UNITS), TABLE_WIDTH)),
        field(ctx, at.RECORD_SIZE),
        field(ctx, at.TIMER_OFFSET),
        clock,
        carray(int64s(field(area, at.DUE_RANGES)), (count, RANGE_WIDTH)),
        carray(int64s(entries), total),
    )
    for i in range(count):
        bucket = get_i(candidates + 8 * i)
        put_i(least + 8 * bucket, get_i(field(tables + _TABLE_BYTES * bucket, BOUNDS)))
    if found == 0:
        free(entries)
        return 0
    put(area, at.DUE_ENTRIES, entries)
    return used


@shared
def _fire(ctx: int, area: int, clock: int) -> bool:
    """Fires what is due below the clock; False when a function raised."""
    count = _due(ctx, area, clock)
    if count <= 0:
        return count == 0
    chunk, ranges = field(area, at.CHUNK), field(area, at.DUE_RANGES)
    put(area, at.PHASE, at.IN_TIMERS)
    put(chunk, code.RANGES, ranges)
    put(chunk, code.ENTRIES, field(area, at.DUE_ENTRIES))
    _start(area, 0, count, 1, clock)
    if not _kernel(ctx, area):
        return False
    _note_bounds(ctx, area, ranges, 0, count)
    free(field(area, at.DUE_ENTRIES))
    put(area, at.DUE_ENTRIES, 0)
    return True


@shared
def _lowest(ctx: int, area: int) -> int:
    lowest = NEVER
    for bucket in range(field(area, at.FIRST_UNIT), field(area, at.LAST_UNIT)):
        lowest = min(lowest, get_i(field(ctx, at.LEAST) + 8 * bucket))
    return lowest


# -- a unit ----------------------------------------------------------------------------------------------------


@shared
def _identity(area: int, row: int) -> tuple[int, int]:
    """Where the identity of the key that an output belongs to stands, and its bytes; none for an output of a row."""
    table = field(area, at.OUT_TABLE)
    if field(field(table, 1 + code.SOURCE), row) >= 0:
        return 0, 0
    bucket = field(field(table, 1 + code.OUT_BUCKET), row)
    entry = field(field(table, 1 + code.OUT_ENTRY), row)
    place = field(area, at.TABLES) + _TABLE_BYTES * bucket
    ends = field(place, OFFSETS) + 8 * entry
    return field(place, ARENA) + get_i(ends), field(ends, 1) - get_i(ends)


@shared
def _keep_keys(area: int, part: int, used: int) -> bool:
    """Keeps the identities of timers' keys with their outputs, since tables may change; False without memory."""
    total = fired = 0
    for row in range(used):
        _, size = _identity(area, row)
        total += size
        fired += field(field(field(area, at.OUT_TABLE), 1 + code.SOURCE), row) < 0
    if fired == 0:
        return True
    keys = malloc(8 * (used + 1) + total)
    if keys == 0:
        return False
    put(part, at.PART_KEYS, keys)
    data = end = keys + 8 * (used + 1)
    for row in range(used):
        put(keys, row, end - data)
        identity, size = _identity(area, row)
        copy_bytes(end, identity, size)
        end += size
    put(keys, used, end - data)
    return True


@shared
def _finish(area: int, part: int) -> None:
    """Leaves the outputs with the split chunk."""
    control = area + 8 * at.CONTROL
    used = field(control, code.OUT)
    put(part, at.PART_BUFFER, field(area, at.BUFFER))
    put(part, at.PART_CAPACITY, get_i(field(area, at.OUT_TABLE)))
    put(part, at.PART_USED, used)
    put(part, at.PART_DISARMED, field(control, code.DISARMED))
    put(area, at.BUFFER, 0)
    put(area, at.GUESS, used if used > 0 else field(area, at.GUESS) >> 1)


@shared
def run_partition(ctx: int, split: int, scratch: int) -> int:
    """Runs a partition's rows of a split chunk, and its timers below the clock.

    ``scratch`` has the partition, the clock, and 1 where the stream ends. 1: done, and the bound of the
    partition's timers stands in EARLIEST; 0: needs Python, see NativeKeyed.resume.
    """
    partition, clock = get_i(scratch), get_i(scratch + 8)
    area = area_of(ctx, partition)
    first = field(field(split, at.FIRST), partition)
    last = field(field(split, at.FIRST), partition + 1)
    put(area, at.PHASE, at.FIND)
    if last > first and not _find(ctx, area, split, first, last):
        return 0
    _begin(ctx, area, split, get_i(scratch + 16))
    put(area, at.PHASE, at.IN_ROWS)
    earliest = field(ctx, at.EARLIEST) + 8 * partition
    if last > first:
        _start(area, first, last, 0, 0)
        if not _kernel(ctx, area):
            return 0
        lowest = _note_bounds(ctx, area, field(split, at.RANGES), first, last)
        put_i(earliest, min(get_i(earliest), lowest))
    if field(ctx, at.TIMED) and get_i(earliest) < clock:
        if not _fire(ctx, area, clock):
            return 0
        put_i(earliest, _lowest(ctx, area))
        # Nothing of them is left to take up again.
        put(area, at.PHASE, at.IN_ROWS)
    part = field(split, at.PARTS) + 8 * at.PART_WORDS * partition
    if field(ctx, at.HAS_BYTES) and not _keep_keys(
        area, part, field(area + 8 * at.CONTROL, code.OUT)
    ):
        return 0
    free_arena(area + 8 * (at.CONTROL + code.ARENA))
    _finish(area, part)
    put(area, at.PHASE, at.OVER)
    return 1


@shared
def drop_due(area: int, unused: int, scratch: int) -> int:
    """Gives back the entries of timers that a unit left to Python."""
    free(field(area, at.DUE_ENTRIES))
    put(area, at.DUE_ENTRIES, 0)
    return 0
