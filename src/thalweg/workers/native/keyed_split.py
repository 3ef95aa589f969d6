"""Splits a chunk by the state unit of its keys, in machine code: hashes, the rows by unit, ranges, partitions.

The order is that of :func:`thalweg.checkpoint.state_tables.table_code.split_by_bucket`.
"""

from __future__ import annotations

from typing import Final

from thalweg.compiler.runtime.calls import free, malloc
from thalweg.compiler.runtime.lookup import RANGE_WIDTH
from thalweg.compiler.runtime.support import get_i, put_i
from thalweg.workers.lockfree.atomics import shared
from thalweg.workers.native import keyed_layout as at
from thalweg.workers.native.blocks import free_block
from thalweg.workers.native.chain import run_chain
from thalweg.workers.native.keyed_keys import (
    field,
    put,
    put_hashes,
    put_identities,
    put_pins,
    put_ranges,
    put_words,
)

#: Up to so many rows are sorted by insertion; counting would look at every unit.
_FEW: Final = 24
_RANGE_BYTES: Final = 8 * RANGE_WIDTH


# -- order -----------------------------------------------------------------------------------------------------


@shared
def _sort_few(found: int, rows: int, order: int, ranges: int) -> int:
    """Rows by state unit, and the ranges; how many there are."""
    for r in range(rows):
        unit, i = get_i(found + 8 * r), r
        while i > 0 and get_i(found + 8 * get_i(order + 8 * i - 8)) > unit:
            put_i(order + 8 * i, get_i(order + 8 * i - 8))
            i -= 1
        put_i(order + 8 * i, r)
    count, last = 0, -1
    for i in range(rows):
        unit = get_i(found + 8 * get_i(order + 8 * i))
        if unit != last:
            put_i(ranges + _RANGE_BYTES * count, unit)
            put_i(ranges + _RANGE_BYTES * count + 8, i)
            last = unit
            count += 1
        put_i(ranges + _RANGE_BYTES * (count - 1) + 16, i + 1)
    return count


@shared
def _sort_many(found: int, rows: int, order: int, ranges: int, starts: int, units: int) -> int:
    """As :func:`_sort_few` by counting; ``starts`` is room for a word a unit."""
    for u in range(units):
        put_i(starts + 8 * u, 0)
    for r in range(rows):
        place = starts + 8 * get_i(found + 8 * r)
        put_i(place, get_i(place) + 1)
    count = done = 0
    for u in range(units):
        size = get_i(starts + 8 * u)
        put_i(starts + 8 * u, done)
        if size > 0:
            put_i(ranges + _RANGE_BYTES * count, u)
            put_i(ranges + _RANGE_BYTES * count + 8, done)
            done += size
            put_i(ranges + _RANGE_BYTES * count + 16, done)
            count += 1
    for r in range(rows):
        place = starts + 8 * get_i(found + 8 * r)
        put_i(order + 8 * get_i(place), r)
        put_i(place, get_i(place) + 1)
    return count


@shared
def _divide(ctx: int, split: int, count: int) -> None:
    """The rows and the first range of each partition."""
    partitions, partition_of = field(ctx, at.PARTITIONS), field(ctx, at.PARTITION_OF)
    rows, first, ranges = (
        field(split, at.ROWS_BY_PARTITION), field(split, at.FIRST), field(split, at.RANGES),
    )  # fmt: skip
    for p in range(partitions):
        put_i(rows + 8 * p, 0)
    begun = 0
    for r in range(count):
        one = ranges + _RANGE_BYTES * r
        owner = get_i(partition_of + 8 * get_i(one))
        while begun <= owner:
            put_i(first + 8 * begun, r)
            begun += 1
        put_i(rows + 8 * owner, get_i(rows + 8 * owner) + get_i(one + 16) - get_i(one + 8))
    while begun <= partitions:
        put_i(first + 8 * begun, count)
        begun += 1


@shared
def _new_split(ctx: int, block: int, rows: int) -> int:
    """One piece of memory with room for everything but the outputs; 0 when there is none."""
    partitions, units, width = (
        field(ctx, at.PARTITIONS), field(ctx, at.UNITS), field(ctx, at.WIDTH),
    )  # fmt: skip
    counting = units if rows > _FEW else 0
    most = min(rows, units)
    head = at.SPLIT_WORDS + 2 * partitions + 1 + at.PART_WORDS * partitions
    ends = rows + 1 if field(ctx, at.HAS_BYTES) else 0
    split: int = malloc(8 * (head + (3 + width) * rows + ends + RANGE_WIDTH * most + counting))
    if split == 0:
        return 0
    put(split, at.ROWS, rows)
    put(split, at.IN_BLOCK, block)
    put(split, at.PART_COUNT, partitions)
    place = split + 8 * at.SPLIT_WORDS
    put(split, at.ROWS_BY_PARTITION, place)
    put(split, at.FIRST, place + 8 * partitions)
    parts = place + 8 * (2 * partitions + 1)
    put(split, at.PARTS, parts)
    for i in range(at.PART_WORDS * partitions):
        put_i(parts + 8 * i, 0)
    place = split + 8 * head
    put(split, at.ORDER, place)
    put(split, at.ENTRIES, place + 8 * rows)
    put(split, at.HASHES, place + 16 * rows)
    put(split, at.WORDS, place + 24 * rows)
    put(split, at.KEY_ENDS, place + 8 * (3 + width) * rows)
    put(split, at.KEY_BYTES, 0)
    put(split, at.RANGES, place + 8 * ((3 + width) * rows + ends))
    return split


@shared
def _put_keys(ctx: int, split: int, block: int, scratch: int) -> bool:
    """The words and identities of all keys; False when memory has run out, or a function of the key raised."""
    made, function = 0, field(ctx, at.KEY_FUNCTION)
    if function != 0:
        made = run_chain(function, block, scratch)
        if made == 0:
            return False
    put_words(ctx, block, made, field(split, at.ROWS), field(split, at.WORDS))
    done = not field(ctx, at.HAS_BYTES) or put_identities(ctx, split, block, made)
    if made != 0:
        free_block(made, 0, 0)
    return done


@shared
def free_split(split: int, unused: int, scratch: int) -> int:
    """Gives back a split chunk and the outputs of its partitions."""
    part = field(split, at.PARTS)
    for _ in range(field(split, at.PART_COUNT)):
        if field(part, at.PART_BUFFER) != 0:
            free(field(part, at.PART_BUFFER))
        if field(part, at.PART_KEYS) != 0:
            free(field(part, at.PART_KEYS))
        part += 8 * at.PART_WORDS
    if field(split, at.KEY_BYTES) != 0:
        free(field(split, at.KEY_BYTES))
    free(split)
    return 0


@shared
def split_keyed(ctx: int, block: int, scratch: int) -> int:
    """The chunk at ``block`` split by state unit and partition; touches no state.

    0: needs Python, where a function makes the key and raised, and where memory has run out.
    """
    rows, units = get_i(block), field(ctx, at.UNITS)
    split = _new_split(ctx, block, rows)
    if split == 0:
        return 0
    if not _put_keys(ctx, split, block, scratch):
        free_split(split, 0, 0)
        return 0
    found, ranges = field(split, at.ENTRIES), field(split, at.RANGES)
    put_hashes(ctx, split, found)
    if field(ctx, at.BOUND_COUNT) >= 0:
        put_ranges(ctx, field(split, at.WORDS), rows, found)
    elif field(ctx, at.PINNED):
        put_pins(ctx, rows, field(split, at.HASHES), found)
    if rows > _FEW:
        room = ranges + _RANGE_BYTES * min(rows, units)
        count = _sort_many(found, rows, field(split, at.ORDER), ranges, room, units)
    else:
        count = _sort_few(found, rows, field(split, at.ORDER), ranges)
    _divide(ctx, split, count)
    return split
