"""Made texts in compiled code: joined, repeated, replaced, padded, in other letters, of numbers and times.

Each raises where Python alone knows the result (letters beyond ASCII), so that Python makes the call.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.extending import intrinsic

from thalweg.compiler.runtime.arena import LONGEST, copy_bytes, put, reserve
from thalweg.compiler.runtime.support import get_i, inner, put_i, types
from thalweg.compiler.runtime.texts.text import (
    byte,
    char_at,
    int64,
    outer,
    part,
    text_len,
)
from thalweg.compiler.runtime.texts.text_finding import count_bytes, find_from
from thalweg.compiler.runtime.texts.text_parts import list_get

# -- together ------------------------------------------------------------------------------------------


@outer
def text_add(arena: Any, a: Any, b: Any) -> Any:
    """``a + b``; what is longer than the text that was made last is put behind it, without copying that."""
    if a[1] == 0:
        return b
    if b[1] == 0 or a[0] + a[1] == b[0]:
        return (a[0], a[1] + b[1])
    size = a[1] + b[1]
    if a[0] + a[1] == get_i(arena) and a[0] + size <= get_i(arena + 8) and size <= LONGEST:
        put_i(arena, a[0] + size)
        copy_bytes(a[0] + a[1], b[0], b[1])
        return (a[0], size)
    place = reserve(arena, size)
    copy_bytes(place, a[0], a[1])
    copy_bytes(place + a[1], b[0], b[1])
    return (place, size)


@outer
def text_times(arena: Any, text: Any, times: Any) -> Any:
    """``text * times``."""
    if times <= 0 or text[1] == 0:
        return part(text, 0, 0)
    if times > LONGEST // text[1]:
        raise MemoryError("a text of more than 2 GB")
    place = reserve(arena, text[1] * times)
    for i in range(times):
        copy_bytes(place + i * text[1], text[0], text[1])
    return (place, text[1] * times)


@outer
def text_join(arena: Any, separator: Any, texts: Any) -> Any:
    """``separator.join(texts)``."""
    if texts[1] == 0:
        return (int64(0), int64(0))
    made = list_get(texts, 0)
    for i in range(1, texts[1]):
        made = text_add(arena, text_add(arena, made, separator), list_get(texts, i))
    return made


@outer
def text_replace(arena: Any, text: Any, old: Any, new: Any, most: Any) -> Any:
    """``text.replace(old, new, most)``; Python's where ``old`` is empty."""
    if old[1] == 0:
        raise ValueError("left to Python")
    count = count_bytes(text, old, most if most >= 0 else -1)
    if count == 0:
        return text
    size = text[1] + count * (new[1] - old[1])
    if size == 0:
        return part(text, 0, 0)
    place = reserve(arena, size)
    at = start = int64(0)
    for _ in range(count):
        found = find_from(text, old, start)
        copy_bytes(place + at, text[0] + start, found - start)
        at += found - start
        copy_bytes(place + at, new[0], new[1])
        at += new[1]
        start = found + old[1]
    copy_bytes(place + at, text[0] + start, text[1] - start)
    return (place, int64(size))


# -- characters and numbers ------------------------------------------------------------------------------


@outer
def text_chr(arena: Any, point: Any) -> Any:
    """``chr(point)``; half of a surrogate pair is no text here."""
    if point < 0 or point > 0x10FFFF or 0xD800 <= point < 0xE000:
        raise ValueError("chr() arg not in range")
    if point < 0x80:
        place = reserve(arena, 1)
        put(place, point)
        return (place, int64(1))
    size = 2 if point < 0x800 else 3 if point < 0x10000 else 4
    place = reserve(arena, size)
    for i in range(size - 1, 0, -1):
        put(place + i, 0x80 | (point & 0x3F))
        point >>= 6
    lead = 0xC0 if size == 2 else 0xE0 if size == 3 else 0xF0
    put(place, lead | point)
    return (place, int64(size))


@inner
def _put_digits(stop: Any, value: Any, count: Any) -> None:
    """Writes the last digits of a number, negative or zero, in front of a place."""
    for _ in range(count):
        stop -= 1
        # Numba floors; the digit of -7 is 7.
        rest = -((-value) // 10) if value > -(2**63) else -922337203685477580
        put(stop, 48 + (10 * rest - value))
        value = rest


@outer
def int_padded(arena: Any, value: Any, width: Any) -> Any:
    """``f"{value:0width}"``: decimal digits, zeros behind the sign up to a width."""
    # Without a sign the least int would not fit.
    rest = value if value < 0 else -value
    count, limit = 1, -10
    while count < 19 and rest <= limit:
        count += 1
        limit *= 10
    sign = 1 if value < 0 else 0
    zeros = max(width - sign - count, 0)
    place = reserve(arena, sign + zeros + count)
    if sign:
        put(place, 45)
    _put_digits(place + sign + zeros + count, rest, zeros + count)
    return (place, int64(sign + zeros + count))


@inner
def int_text(arena: Any, value: Any) -> Any:
    """``str(value)``."""
    return int_padded(arena, value, 0)


@intrinsic
def _bits_of(typing: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


_bits: Final[Any] = _bits_of


@inner
def _rounded(mantissa: Any, shift: Any) -> Any:
    """``mantissa / 2**shift``, the even one of two that are as near."""
    if shift >= 64:
        return int64(0)
    whole = mantissa >> shift if shift < 63 else int64(0)
    rest = mantissa - (whole << shift) if shift < 63 else mantissa
    half = int64(1) << (shift - 1) if shift > 0 else int64(0)
    return whole + (shift > 0 and (rest > half or (rest == half and whole & 1 == 1)))


@outer
def float_fixed(arena: Any, value: Any, digits: Any) -> Any:
    """``f"{value:.3f}"`` with at most 3 digits: its bits times 1000 fit 63; Python's from 2**53 on."""
    bits = _bits(value)
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & ((1 << 52) - 1)
    if exponent == 0:
        exponent += 1
    else:
        mantissa |= 1 << 52
    shift = 1075 - exponent
    if shift < 0:
        raise ValueError("left to Python")
    scale = 1000 if digits == 3 else 100 if digits == 2 else 10 if digits == 1 else 1
    number = int_padded(arena, _rounded(mantissa * scale, shift), digits + 1)
    sign = 1 if bits < 0 else 0
    before = number[1] - digits
    size = sign + number[1] + (1 if digits > 0 else 0)
    place = reserve(arena, size)
    if sign:
        put(place, 45)
    copy_bytes(place + sign, number[0], before)
    if digits > 0:
        put(place + sign + before, 46)
        copy_bytes(place + sign + before + 1, number[0] + before, digits)
    return (place, int64(size))


@outer
def text_padded(arena: Any, text: Any, width: Any, left: Any, fill: Any) -> Any:
    """The text with ``fill``, one character, up to a width: ``left`` of 0, 1 or 2: behind, before, on both sides."""
    missing = width - text_len(text)
    if missing <= 0:
        return text
    before = missing if left == 1 else missing // 2 if left == 2 else 0
    made = text_add(arena, text_times(arena, fill, before), text)
    return text_add(arena, made, text_times(arena, fill, missing - before))


@inner
def text_ljust(arena: Any, text: Any, width: Any, fill: Any) -> Any:
    return text_padded(arena, text, width, 0, one_char(fill))


@inner
def text_rjust(arena: Any, text: Any, width: Any, fill: Any) -> Any:
    return text_padded(arena, text, width, 1, one_char(fill))


@inner
def one_char(text: Any) -> Any:
    """The text, which must be a single character."""
    if text[1] == 0 or char_at(text, 0)[1] != text[1]:
        raise TypeError("The fill character must be exactly one character long")
    return text


@outer
def text_zfill(arena: Any, text: Any, width: Any) -> Any:
    """``text.zfill(width)``."""
    missing = width - text_len(text)
    if missing <= 0:
        return text
    place = reserve(arena, missing + text[1])
    sign = 1 if text[1] > 0 and (byte(text[0]) == 43 or byte(text[0]) == 45) else 0
    copy_bytes(place, text[0], sign)
    for i in range(missing):
        put(place + sign + i, 48)
    copy_bytes(place + sign + missing, text[0] + sign, text[1] - sign)
    return (place, missing + text[1])


# -- times ---------------------------------------------------------------------------------------------

_DAY: Final = 86_400_000_000
#: Days from the first of March of the year 0 to 1970, and of 400 years.
_TO_1970: Final = 719_468
_ERA: Final = 146_097
#: The days of the years 1 to 9999, which Python's calendar has.
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896


@inner
def _two(place: Any, value: Any, last: Any) -> None:
    """Two digits, and a character behind them."""
    put(place, 48 + value // 10)
    put(place + 1, 48 + value % 10)
    put(place + 2, last)


@outer
def time_text(arena: Any, time: Any) -> Any:
    """``times.text(time)``; Python's outside the years 1 to 9999."""
    days = time // _DAY
    if days < _FIRST_DAY or days > _LAST_DAY:
        raise OverflowError("left to Python")
    # Years begin in March, so that the day that some of them lack is the last.
    shifted = days + _TO_1970
    era = shifted // _ERA
    day = shifted % _ERA
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += 400 * era + (1 if month >= 10 else 0)
    month = month + 3 if month < 10 else month - 9
    rest = time % _DAY
    fraction = rest % 1_000_000
    place = reserve(arena, 27 if fraction else 20)
    _put_digits(place + 4, -year, 4)
    put(place + 4, 45)
    _two(place + 5, month, 45)
    _two(place + 8, day + 1, 84)
    _two(place + 11, rest // 3_600_000_000, 58)
    _two(place + 14, rest // 60_000_000 % 60, 58)
    _two(place + 17, rest // 1_000_000 % 60, 46 if fraction else 90)
    if fraction:
        _put_digits(place + 26, -fraction, 6)
        put(place + 26, 90)
    return (place, int64(27 if fraction else 20))
