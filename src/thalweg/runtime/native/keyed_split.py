"""Splitting a chunk by the bucket of its keys, in machine code: hashes, the rows by bucket, ranges, partitions.

The results are bit for bit those of :meth:`thalweg.runtime.keys.KeySpec.rows`,
:func:`thalweg.hashing.bucket_of` and :func:`thalweg.state.table_code.split_by_bucket`.
"""

from __future__ import annotations

import functools
from typing import Any, Final, cast

import numba
import numpy as np

from thalweg.hashing import NAN_BITS, hash_row
from thalweg.jit import Decorator, njit
from thalweg.runtime.atomics import shared
from thalweg.runtime.compiler.lookup import RANGE_WIDTH, pointer
from thalweg.runtime.compiler.support import get_b, get_i, get_u, put_i
from thalweg.runtime.native import keyed_layout as at
from thalweg.runtime.native.calls import free, malloc, types

carray: Final[Any] = vars(numba)["carray"]
int64s: Final = pointer(types.int64, 64)

#: Decorates what sees memory as arrays and is called by functions that count no references (callees inherit that).
arrays: Final = cast("Decorator", functools.partial(njit, _nrt=True))
#: Up to so many rows are sorted by insertion; counting would look at every bucket.
_FEW: Final = 24
_SIGN: Final = -(2**63)
_NOT_SIGN: Final = 2**63 - 1
_INFINITE: Final = 0x7FF0000000000000
_BUCKET_BYTES: Final = 8 * RANGE_WIDTH


@shared
def field(base: int, word: int) -> int:
    """A word of a structure."""
    value: int = get_i(base + 8 * word)
    return value


@shared
def put(base: int, word: int, value: int) -> None:
    """Writes a word of a structure."""
    put_i(base + 8 * word, value)


@shared
def owner_of(bucket: int, partitions: int, buckets: int) -> int:
    """The partition of a bucket."""
    return bucket * partitions // buckets


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


# -- order -----------------------------------------------------------------------------------------------------


@shared
def _sort_few(found: int, rows: int, order: int, ranges: int) -> int:
    """Rows by bucket, and the ranges; how many there are."""
    for r in range(rows):
        bucket, i = get_i(found + 8 * r), r
        while i > 0 and get_i(found + 8 * get_i(order + 8 * i - 8)) > bucket:
            put_i(order + 8 * i, get_i(order + 8 * i - 8))
            i -= 1
        put_i(order + 8 * i, r)
    count, last = 0, -1
    for i in range(rows):
        bucket = get_i(found + 8 * get_i(order + 8 * i))
        if bucket != last:
            put_i(ranges + _BUCKET_BYTES * count, bucket)
            put_i(ranges + _BUCKET_BYTES * count + 8, i)
            last = bucket
            count += 1
        put_i(ranges + _BUCKET_BYTES * (count - 1) + 16, i + 1)
    return count


@shared
def _sort_many(found: int, rows: int, order: int, ranges: int, starts: int, buckets: int) -> int:
    """As :func:`_sort_few` by counting; ``starts`` is room for a word a bucket."""
    for b in range(buckets):
        put_i(starts + 8 * b, 0)
    for r in range(rows):
        place = starts + 8 * get_i(found + 8 * r)
        put_i(place, get_i(place) + 1)
    count = done = 0
    for b in range(buckets):
        size = get_i(starts + 8 * b)
        put_i(starts + 8 * b, done)
        if size > 0:
            put_i(ranges + _BUCKET_BYTES * count, b)
            put_i(ranges + _BUCKET_BYTES * count + 8, done)
            done += size
            put_i(ranges + _BUCKET_BYTES * count + 16, done)
            count += 1
    for r in range(rows):
        place = starts + 8 * get_i(found + 8 * r)
        put_i(order + 8 * get_i(place), r)
        put_i(place, get_i(place) + 1)
    return count


@shared
def _divide(ctx: int, split: int, count: int) -> None:
    """The rows and the first range of each partition."""
    partitions, buckets = field(ctx, at.PARTITIONS), field(ctx, at.BUCKETS)
    rows, first, ranges = (
        field(split, at.ROWS_BY_PARTITION), field(split, at.FIRST), field(split, at.RANGES),
    )  # fmt: skip
    for p in range(partitions):
        put_i(rows + 8 * p, 0)
    begun = 0
    for r in range(count):
        one = ranges + _BUCKET_BYTES * r
        owner = owner_of(get_i(one), partitions, buckets)
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
    partitions, buckets, width = (
        field(ctx, at.PARTITIONS), field(ctx, at.BUCKETS), field(ctx, at.WIDTH),
    )  # fmt: skip
    counting = buckets if rows > _FEW else 0
    most = min(rows, buckets)
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
    """The chunk at ``block`` split by bucket and partition; touches no state. 0: needs Python."""
    rows, buckets = get_i(block), field(ctx, at.BUCKETS)
    split = _new_split(ctx, block, rows)
    if split == 0:
        return 0
    words, found, ranges = field(split, at.WORDS), field(split, at.ENTRIES), field(split, at.RANGES)
    _put_words(ctx, block, rows, words)
    _put_hashes(words, field(ctx, at.WIDTH), rows, buckets, field(split, at.HASHES), found)
    if rows > _FEW:
        room = ranges + _BUCKET_BYTES * min(rows, buckets)
        count = _sort_many(found, rows, field(split, at.ORDER), ranges, room, buckets)
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
