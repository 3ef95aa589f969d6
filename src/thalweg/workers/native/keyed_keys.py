"""The keys of a chunk in machine code: words and identities, hashes, state units.

The results are bit for bit those of :meth:`thalweg.columns.keys.KeySpec.rows` and
:meth:`thalweg.columns.state_units.StateUnits.of`. A key is read from the columns of the chunk, or from the chunk of
keys that a compiled function has made; both are blocks.
"""

from __future__ import annotations

import functools
from typing import Any, Final, cast

import numba
import numpy as np

from thalweg.columns.state_units import pin_units
from thalweg.compiler.code.columns import TEXT_BYTES, TEXT_ENDS, TEXT_NULLS, TEXT_WIDE, TEXT_WORDS
from thalweg.compiler.kinds import NO_VALUE
from thalweg.compiler.runtime.calls import copy_bytes, malloc, types
from thalweg.compiler.runtime.support import get_b, get_i, get_u, pointer, put_i, put_u
from thalweg.hashing import NAN_BITS, hash_row, hash_span
from thalweg.jit import Decorator, njit
from thalweg.workers.lockfree.atomics import shared
from thalweg.workers.native import keyed_layout as at
from thalweg.workers.native.blocks import payload_row_word, texts_word, values_word

carray: Final[Any] = vars(numba)["carray"]
int64s: Final = pointer(types.int64, 64)
uint64s: Final = pointer(types.uint64, 64)
byte_array: Final = pointer(types.uint8, 8)

#: Decorates what sees memory as arrays and is called by functions that count no references (callees inherit that).
arrays: Final = cast("Decorator", functools.partial(njit, _nrt=True))
_SIGN: Final = -(2**63)
_NOT_SIGN: Final = 2**63 - 1
_INFINITE: Final = 0x7FF0000000000000
#: The most bytes that the ordered form of a field of fixed width takes, and of text beyond twice its own.
_WORD_BYTES: Final = 9
_TEXT_MORE: Final = 3


@shared
def field(base: int, word: int) -> int:
    """A word of a structure."""
    value: int = get_i(base + 8 * word)
    return value


@shared
def put(base: int, word: int, value: int) -> None:
    """Writes a word of a structure."""
    put_i(base + 8 * word, value)


# -- words -----------------------------------------------------------------------------------------------------


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
def put_words(ctx: int, block: int, made: int, rows: int, words: int) -> None:
    """The words of all keys, the null mask last. ``made`` is the block of keys that a function made, or 0."""
    step, key = 8 * field(ctx, at.WIDTH), field(ctx, at.KEYS)
    mask = words + step - 8 if field(ctx, at.NULL_WORD) else 0
    if mask != 0:
        for r in range(rows):
            put_i(mask + step * r, 0)
    place = 0
    for _ in range(field(ctx, at.KEY_FIELDS)):
        kind = field(key, at.KEY_KIND)
        if kind != at.TEXT_KEY:
            origin = made if field(key, at.KEY_MADE) else block
            column = origin + 8 * values_word(field(key, at.KEY_COLUMN))
            _put_column(kind, get_i(column), rows, words + 8 * place, step)
            if get_i(column + 8) != 0:
                _put_nulls(get_i(column + 8), rows, words + 8 * place, mask, place, step)
            place += 1
        key += 8 * at.KEY_WORDS


# -- identities ------------------------------------------------------------------------------------------------


@shared
def _fields(ctx: int, is_made: int) -> int:
    """How many fields the block has in which a key field stands."""
    return 1 if is_made else field(ctx, at.IN_FIELDS)


@shared
def _text(block: int, fields: int, column: int, r: int) -> tuple[int, int]:
    """Where the text of a row stands, and its bytes; -1 for None."""
    word = block + 8 * values_word(column)
    numbers = get_i(word)
    number = get_i(numbers + 8 * r) if numbers != 0 else get_i(word + 8)
    if number == NO_VALUE:
        return 0, -1
    rows = field(block, payload_row_word(fields))
    row = get_i(rows + 8 * r) if rows != 0 else r
    text = field(block, texts_word(fields)) + 8 * TEXT_WORDS * number
    nulls, ends = field(text, TEXT_NULLS), field(text, TEXT_ENDS)
    if nulls != 0 and get_b(nulls + row):
        return 0, -1
    if field(text, TEXT_WIDE):
        start, stop = get_i(ends + 8 * row), get_i(ends + 8 * row + 8)
    else:
        both = get_i(ends + 4 * row)
        start, stop = both & 0xFFFFFFFF, (both >> 32) & 0xFFFFFFFF
    return field(text, TEXT_BYTES) + start, stop - start


@shared
def _room(ctx: int, block: int, made: int, rows: int) -> int:
    """The most bytes that the identities of all keys take."""
    total, key, plain = 0, field(ctx, at.KEYS), field(ctx, at.PLAIN_TEXT)
    for _ in range(field(ctx, at.KEY_FIELDS)):
        if field(key, at.KEY_KIND) != at.TEXT_KEY:
            total += _WORD_BYTES * rows
        else:
            is_made, column = field(key, at.KEY_MADE), field(key, at.KEY_COLUMN)
            origin, fields = made if is_made else block, _fields(ctx, is_made)
            size = 0
            for r in range(rows):
                size += max(_text(origin, fields, column, r)[1], 0)
            total += size if plain else 2 * size + _TEXT_MORE * rows
        key += 8 * at.KEY_WORDS
    return total


@shared
def _put_text(text: int, size: int, out: int) -> int:
    """Text as ordered bytes; the end of them."""
    for k in range(size):
        byte = get_u(text + k)
        put_u(out, byte)
        out += 1
        if byte == 0:
            put_u(out, numba.uint8(255))
            out += 1
    put_u(out, numba.uint8(0))
    put_u(out + 1, numba.uint8(0))
    return out + 2


@shared
def _put_ordered(word: int, kind: int, out: int) -> int:
    """A word as ordered bytes; the end of them."""
    if kind == at.BOOL_KEY:
        put_u(out, numba.uint8(word))
        return out + 1
    if kind == at.FLOAT_KEY:
        word ^= (word >> 63) & _NOT_SIGN
    word ^= _SIGN
    for k in range(8):
        put_u(out + k, numba.uint8((word >> (56 - 8 * k)) & 255))
    return out + 8


@shared
def _put_key(ctx: int, block: int, made: int, r: int, words: int, out: int) -> int:
    """The identity of a row's key as ordered bytes (:mod:`thalweg.columns.ordered_bytes`); the end of it."""
    key, place = field(ctx, at.KEYS), 0
    nulls = field(words, field(ctx, at.WIDTH) - 1) if field(ctx, at.NULL_WORD) else 0
    for _ in range(field(ctx, at.KEY_FIELDS)):
        kind, is_made = field(key, at.KEY_KIND), field(key, at.KEY_MADE)
        text = size = 0
        if kind == at.TEXT_KEY:
            origin = made if is_made else block
            text, size = _text(origin, _fields(ctx, is_made), field(key, at.KEY_COLUMN), r)
            is_null = size < 0
        else:
            is_null = (nulls >> place) & 1 != 0
        if field(key, at.KEY_OPTIONAL):
            put_u(out, numba.uint8(0) if is_null else numba.uint8(1))
            out += 1
        if not is_null:
            out = (
                _put_text(text, size, out)
                if kind == at.TEXT_KEY
                else _put_ordered(field(words, place), kind, out)
            )
        place += kind != at.TEXT_KEY
        key += 8 * at.KEY_WORDS
    return out


@shared
def _put_plain(ctx: int, block: int, made: int, rows: int, ends: int, out: int) -> None:
    """The texts of the only field are the identities."""
    key, at_first = field(ctx, at.KEYS), out
    is_made, column = field(key, at.KEY_MADE), field(key, at.KEY_COLUMN)
    origin, fields = made if is_made else block, _fields(ctx, is_made)
    for r in range(rows):
        text, size = _text(origin, fields, column, r)
        copy_bytes(out, text, size)
        out += size
        put_i(ends + 8 * r + 8, out - at_first)


@shared
def put_identities(ctx: int, split: int, block: int, made: int) -> bool:
    """The identities of all keys, in memory taken for them; False when there is none."""
    rows, ends = field(split, at.ROWS), field(split, at.KEY_ENDS)
    # A piece of no bytes may have no address.
    data = malloc(_room(ctx, block, made, rows) + 8)
    put(split, at.KEY_BYTES, data)
    if data == 0:
        return False
    put_i(ends, 0)
    if field(ctx, at.PLAIN_TEXT):
        _put_plain(ctx, block, made, rows, ends, data)
        return True
    words, step, out = field(split, at.WORDS), 8 * field(ctx, at.WIDTH), data
    for r in range(rows):
        out = _put_key(ctx, block, made, r, words + step * r, out)
        put_i(ends + 8 * r + 8, out - data)
    return True


# -- hashes ----------------------------------------------------------------------------------------------------


@arrays
def put_hashes(ctx: int, split: int, found: int) -> None:
    """The hash and the bucket of each row's key."""
    rows, width, hashes = field(split, at.ROWS), field(ctx, at.WIDTH), field(split, at.HASHES)
    ends, has_bytes = field(split, at.KEY_ENDS), field(ctx, at.HAS_BYTES)
    matrix = carray(int64s(field(split, at.WORDS)), (rows, width))
    total = field(ends, rows) if has_bytes else 0
    data = carray(byte_array(field(split, at.KEY_BYTES)), total)
    buckets = np.uint64(field(ctx, at.BUCKETS))
    for r in range(rows):
        value = (
            hash_span(data, field(ends, r), field(ends, r + 1))
            if has_bytes
            else hash_row(matrix, r)
        )
        put_i(hashes + 8 * r, np.int64(value))
        high = value >> np.uint64(32)
        put_i(found + 8 * r, np.int64((high * buckets) >> np.uint64(32)))


@shared
def put_ranges(ctx: int, words: int, rows: int, found: int) -> None:
    """The range of each row's key by the first word, whose order is that of the field; of None the first range.

    As :meth:`thalweg.columns.key_ranges.RangeUnits.of_rows`.
    """
    step, kind = 8 * field(ctx, at.WIDTH), field(field(ctx, at.KEYS), at.KEY_KIND)
    bounds, count = field(ctx, at.BOUNDS), field(ctx, at.BOUND_COUNT)
    nulls = step - 8 if field(ctx, at.NULL_WORD) else -1
    for r in range(rows):
        word = get_i(words + step * r)
        if kind == at.FLOAT_KEY:
            word ^= (word >> 63) & _NOT_SIGN
        low, high = 0, count
        if nulls >= 0 and get_i(words + step * r + nulls) & 1:
            high = 0
        while low < high:
            middle = (low + high) >> 1
            if get_i(bounds + 8 * middle) <= word:
                low = middle + 1
            else:
                high = middle
        put_i(found + 8 * r, low)


@arrays
def put_pins(ctx: int, rows: int, hashes: int, found: int) -> None:
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
