"""Splitting a chunk by the state unit of its keys, in machine code: hashes, the rows by unit, ranges, partitions.

The results are bit for bit those of :meth:`thalweg.columns.keys.KeySpec.rows`,
:meth:`thalweg.columns.state_units.StateUnits.of` and :func:`thalweg.checkpoint.table_code.split_by_bucket`.
"""

from __future__ import annotations

import functools
from typing import Any, Final, cast

import numba
import numpy as np

from thalweg.columns.state_units import pin_units
from thalweg.compiler.runtime.calls import free, malloc, types
from thalweg.compiler.runtime.lookup import RANGE_WIDTH
from thalweg.compiler.runtime.support import get_b, get_i, get_u, pointer, put_i
from thalweg.hashing import NAN_BITS, hash_row
from thalweg.jit import Decorator, njit
from thalweg.workers.lockfree.atomics import shared
from thalweg.workers.native import keyed_layout as at

carray: Final[Any] = vars(numba)["carray"]
int64s: Final = pointer(types.int64, 64)
uint64s: Final = pointer(types.uint64, 64)

#: Decorates what sees memory as arrays and is called by functions that count no references (callees inherit that).
arrays: Final = cast("Decorator", functools.partial(njit, _nrt=True))
#: Up to so many rows are sorted by insertion; counting would look at every unit.
_FEW: Final = 24
_SIGN: Final = -(2**63)
_NOT_SIGN: Final = 2**63 - 1
_INFINITE: Final = 0x7FF0000000000000
_RANGE_BYTES: Final = 8 * RANGE_WIDTH


@shared
def field(base: int, word: int) -> int:
    """A word of a structure."""
    value: int = get_i(base + 8 * word)
    return value


@shared
def put(base: int, word: int, value: int) -> None:
    """Writes a word of a structure."""
    put_i(base + 8 * word, value)


# -- keys ------------------------------------------------------------------------------------------------------


@shared
def _canonical(bits: int) -> int:
    """The bits of a float, with one zero and one NaN."""
    if bits == _SIGN:
        return 0
    return NAN_BITS if bits & _NOT_SIGN > _INFINITE else bits


@shared
def _put_column(kind: int, values: int, rows: int, words: int, step: int) -> None:
    """The canonical words of one column."""
    if kind == at.BOOL_KEY:
        for r in range(rows):
            put_i(words + step * r, np.int64(get_u(values + r)))
    elif kind == at.FLOAT_KEY:
        for r in range(rows):
            put_i(words + step * r, _canonical(get_i(values + 8 * r)))
    else:
        for r in range(rows):
            put_i(words + step * r, get_i(values + 8 * r))


@shared
def _put_nulls(valid: int, rows: int, words: int, mask: int, place: int, step: int) -> None:
    for r in range(rows):
        if not get_b(valid + r):
            put_i(words + step * r, 0)
            if mask != 0:
                put_i(mask + step * r, get_i(mask + step * r) | (1 << place))


@shared
def _put_words(ctx: int, block: int, rows: int, words: int) -> None:
    """The words of all keys, the null mask last."""
    step, key = 8 * field(ctx, at.WIDTH), field(ctx, at.KEYS)
    mask = words + step - 8 if field(ctx, at.NULL_WORD) else 0
    if mask != 0:
        for r in range(rows):
            put_i(mask + step * r, 0)
    for place in range(field(ctx, at.KEY_FIELDS)):
        column = block + 8 + 16 * get_i(key)
        _put_column(get_i(key + 8), get_i(column), rows, words + 8 * place, step)
        if get_i(column + 8) != 0:
            _put_nulls(get_i(column + 8), rows, words + 8 * place, mask, place, step)
        key += 8 * at.KEY_WORDS


@arrays
def _put_hashes(words: int, width: int, rows: int, buckets: int, hashes: int, found: int) -> None:
    """The hash and the bucket of each row's key."""
    matrix = carray(int64s(words), (rows, width))
    for r in range(rows):
        value = hash_row(matrix, r)
        put_i(hashes + 8 * r, np.int64(value))
        high = value >> np.uint64(32)
        put_i(found + 8 * r, np.int64((high * np.uint64(buckets)) >> np.uint64(32)))


@arrays
def _put_pins(ctx: int, rows: int, hashes: int, found: int) -> None:
    """The units of pinned keys instead of their buckets."""
    count = field(ctx, at.PINNED)
    pin_units(
        carray(int64s(field(ctx, at.PIN_INDEX)), field(ctx, at.PIN_CELLS)),
        carray(uint64s(field(ctx, at.PIN_HASHES)), count),
        carray(int64s(field(ctx, at.PIN_GROUPS)), count),
        field(ctx, at.BUCKETS),
        carray(uint64s(hashes), rows),
        carray(int64s(found), rows),
    )


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
    split: int = malloc(8 * (head + (3 + width) * rows + RANGE_WIDTH * most + counting))
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
    put(split, at.RANGES, place + 8 * (3 + width) * rows)
    return split


@shared
def split_keyed(ctx: int, block: int, scratch: int) -> int:
    """The chunk at ``block`` split by state unit and partition; touches no state. 0: needs Python."""
    rows, units = get_i(block), field(ctx, at.UNITS)
    split = _new_split(ctx, block, rows)
    if split == 0:
        return 0
    words, found, ranges = field(split, at.WORDS), field(split, at.ENTRIES), field(split, at.RANGES)
    _put_words(ctx, block, rows, words)
    buckets, hashes = field(ctx, at.BUCKETS), field(split, at.HASHES)
    _put_hashes(words, field(ctx, at.WIDTH), rows, buckets, hashes, found)
    if field(ctx, at.PINNED):
        _put_pins(ctx, rows, hashes, found)
    if rows > _FEW:
        room = ranges + _RANGE_BYTES * min(rows, units)
        count = _sort_many(found, rows, field(split, at.ORDER), ranges, room, units)
    else:
        count = _sort_few(found, rows, field(split, at.ORDER), ranges)
    _divide(ctx, split, count)
    return split


@shared
def free_split(split: int, unused: int, scratch: int) -> int:
    """Gives back a split chunk and the outputs of its partitions."""
    part = field(split, at.PARTS)
    for _ in range(field(split, at.PART_COUNT)):
        if field(part, at.PART_BUFFER) != 0:
            free(field(part, at.PART_BUFFER))
        part += 8 * at.PART_WORDS
    free(split)
    return 0
