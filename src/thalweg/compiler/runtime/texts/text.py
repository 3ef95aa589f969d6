"""Texts in compiled code: reading, comparing, finding, slicing; made ones are in ``text_making``.

A text is a pair of int64: the address of its UTF-8 bytes and their number. It points into a column of the chunk, a
constant of the module or an arena, and never changes. UTF-8 is such that bytes compare like code points, and a
character is found nowhere but where it begins; only counting and indexing look at the bytes of one character.

A text that a function does not look at is a *handle*: the column's number, where the addresses of columns stand, and
the row. :func:`column_text` reads it.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from llvmlite import ir
from numba.extending import intrinsic

from thalweg.compiler.runtime.arena import get_w
from thalweg.compiler.runtime.handles import NO_VALUE
from thalweg.compiler.runtime.support import cgutils, get_b, get_i, get_u, inner, types
from thalweg.jit import njit

#: How larger functions are compiled: once and for all, called, not copied into each caller.
outer: Final = njit
int64: Final = numba.int64

_I64: Final = ir.IntType(64)
_POINTER: Final = ir.IntType(8).as_pointer()
_TEXT: Final[Any] = types.UniTuple(types.int64, 2)
#: The end of a slice that has none.
TO_THE_END: Final = 2**62
#: The high bit of each of eight bytes, as a signed number.
_HIGH_BITS: Final = 0x8080808080808080 - 2**64
_LOW_BITS: Final = 0x0101010101010101


@intrinsic
def _compare_bytes(typing: Any, a: Any, b: Any, size: Any) -> Any:
    """``memcmp``, with the types by which LLVM knows it, so that a few bytes are compared without a call."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [_POINTER, _POINTER, _I64])
        function = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        places = [builder.inttoptr(one, _POINTER) for one in args[:2]]
        return builder.sext(builder.call(function, [*places, args[2]]), _I64)

    return types.int64(types.int64, types.int64, types.int64), generate


compare_bytes: Final[Any] = _compare_bytes


def text_constant(value: str) -> Any:
    """An intrinsic without arguments that gives the text, whose bytes become a constant of the machine code."""
    data = value.encode()

    @intrinsic
    def constant(typing: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            content = ir.Constant(ir.ArrayType(ir.IntType(8), len(data)), bytearray(data))
            stored = cgutils.global_constant(builder.module, "literal_text", content)
            place = builder.ptrtoint(stored, _I64) if data else ir.Constant(_I64, 0)
            return cgutils.pack_array(builder, [place, ir.Constant(_I64, len(data))])

        return _TEXT(), generate

    return constant


@inner
def byte(place: Any) -> Any:
    return int64(get_u(place))


@inner
def part(text: Any, start: Any, stop: Any) -> Any:
    """The text of some of the bytes."""
    return (text[0] + start, stop - start)


@inner
def no_text() -> Any:
    return (int64(0), int64(0))


# -- handles -------------------------------------------------------------------------------------------


@inner
def _column_of(handle: Any, columns: Any) -> Any:
    """Where it stands where the texts are, and in which row; the address is 0 for None.

    Behind the pairs of all columns of the chunk stand two words, the payload's number, the address of its rows (0:
    those of the chunk), and that of the texts of its columns, as :mod:`thalweg.workers.native.blocks` has them.
    """
    pair, behind = handle[1] + 16 * handle[0], handle[1] + 16 * columns
    numbers, rows = get_i(pair), get_i(behind + 24)
    number = get_i(pair + 8) if numbers == 0 else get_i(numbers + 8 * handle[2])
    row = handle[2] if rows == 0 else get_i(rows + 8 * handle[2])
    if number == NO_VALUE:
        return (int64(0), row)
    return (get_i(behind + 32) + 32 * number, row)


@inner
def _text_in(column: Any, row: Any) -> Any:
    """The text of a row: of the words of a column the ends, whether they are int64, and the bytes."""
    ends = get_i(column)
    if get_i(column + 8) != 0:
        start, stop = get_i(ends + 8 * row), get_i(ends + 8 * row + 8)
    else:
        start, stop = int64(get_w(ends + 4 * row)), int64(get_w(ends + 4 * row + 4))
    return (get_i(column + 16) + start, stop - start)


@inner
def _key_text(handle: Any) -> Any:
    """The text of a key of one field, in its table: of words 7 and 8 the offsets and the bytes."""
    place = get_i(handle[1] + 56) + 8 * handle[2]
    start = get_i(place)
    return (get_i(handle[1] + 64) + start, get_i(place + 8) - start)


@inner
def column_text(handle: Any, columns: Any) -> Any:
    """The text that a handle stands for, in a chunk of so many columns."""
    if handle[0] < 0:
        return _key_text(handle)
    column, row = _column_of(handle, columns)
    return _text_in(column, row)


@inner
def column_text_or_none(handle: Any, columns: Any) -> Any:
    """The same of an optional text: (is there, text)."""
    if handle[0] == NO_VALUE:
        return (False, no_text())
    if handle[0] < 0:
        return (True, _key_text(handle))
    column, row = _column_of(handle, columns)
    if column == 0 or (get_i(column + 24) != 0 and get_b(get_i(column + 24) + row)):
        return (False, no_text())
    return (True, _text_in(column, row))


# -- comparison ----------------------------------------------------------------------------------------


@inner
def text_equal(a: Any, b: Any) -> Any:
    return a[1] == b[1] and compare_bytes(a[0], b[0], a[1]) == 0


@inner
def text_equal_one(boxed: Any, text: Any) -> Any:
    """``optional == text``."""
    return boxed[0] and text_equal(boxed[1], text)


@inner
def text_equal_both(a: Any, b: Any) -> Any:
    """``optional == optional``."""
    if a[0] and b[0]:
        return text_equal(a[1], b[1])
    return a[0] == b[0]


@outer
def text_order(a: Any, b: Any) -> Any:
    """-1, 0 or 1: how the first stands to the second in the order of code points."""
    sign = compare_bytes(a[0], b[0], min(a[1], b[1]))
    if sign == 0:
        sign = a[1] - b[1]
    return -1 if sign < 0 else 1 if sign > 0 else 0


@inner
def text_lesser(a: Any, b: Any) -> Any:
    """``min(a, b)``."""
    return b if text_order(b, a) < 0 else a


@inner
def text_greater(a: Any, b: Any) -> Any:
    """``max(a, b)``."""
    return b if text_order(b, a) > 0 else a


@inner
def text_true(boxed: Any) -> Any:
    """Whether an optional text counts as true."""
    return boxed[0] and boxed[1][1] != 0


# -- characters ----------------------------------------------------------------------------------------


@outer
def is_ascii(text: Any) -> Any:
    place, end = text[0], text[0] + text[1]
    while place + 8 <= end:
        if get_i(place) & _HIGH_BITS != 0:
            return False
        place += 8
    while place < end:
        if byte(place) >= 128:
            return False
        place += 1
    return True


@outer
def text_len(text: Any) -> Any:
    """The number of code points: the bytes that do not continue a character."""
    place, end = text[0], text[0] + text[1]
    continued = 0
    while place + 8 <= end:
        word = get_i(place)
        found = (word >> 7) & ~(word >> 6) & _LOW_BITS
        continued += (found * _LOW_BITS) >> 56
        place += 8
    while place < end:
        continued += (byte(place) & 0xC0) == 0x80
        place += 1
    return text[1] - continued


@inner
def size_of_char(lead: Any) -> Any:
    """Bytes of the character that begins with this byte."""
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


@outer
def place_of(text: Any, point: Any) -> Any:
    """The byte where a code point begins, counted from 0; the end for their number."""
    at = 0
    while point > 0 and at < text[1]:
        at += size_of_char(byte(text[0] + at))
        point -= 1
    return at


@inner
def char_at(text: Any, at: Any) -> Any:
    """The character that begins at a byte."""
    return (text[0] + at, int64(size_of_char(byte(text[0] + at))))


@inner
def byte_item(text: Any, index: Any) -> Any:
    """``text[index]`` of an ASCII text."""
    if index < 0:
        index += text[1]
    if index < 0 or index >= text[1]:
        raise IndexError("string index out of range")
    return (text[0] + index, int64(1))


@outer
def text_item(text: Any, index: Any) -> Any:
    """``text[index]``."""
    if is_ascii(text):
        return byte_item(text, index)
    size = text_len(text)
    if index < 0:
        index += size
    if index < 0 or index >= size:
        raise IndexError("string index out of range")
    return char_at(text, place_of(text, index))


@inner
def clamped(index: Any, size: Any) -> Any:
    if index < 0:
        index += size
        return 0 if index < 0 else index
    return size if index > size else index


@outer
def text_slice(text: Any, start: Any, stop: Any) -> Any:
    """``text[start:stop]``."""
    size = text[1] if is_ascii(text) else text_len(text)
    start, stop = clamped(start, size), clamped(stop, size)
    if start >= stop:
        return (text[0], int64(0))
    if size == text[1]:
        return part(text, start, stop)
    first = place_of(text, start)
    rest = part(text, first, text[1])
    return part(rest, 0, place_of(rest, stop - start))


@outer
def text_ord(text: Any) -> Any:
    """``ord(text)``."""
    if text[1] == 0 or size_of_char(byte(text[0])) != text[1]:
        raise TypeError("ord() expected a character")
    lead = byte(text[0])
    if text[1] == 1:
        return lead
    value = lead & (0x7F >> text[1])
    for i in range(1, text[1]):
        value = (value << 6) | (byte(text[0] + i) & 0x3F)
    return value
