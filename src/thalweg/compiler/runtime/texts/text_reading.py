"""What texts say, in compiled code: the numbers in them, and of which letters they are.

Plain decimal forms are read here, exactly as Python reads them. All else raises, so that Python reads it: signs of
other scripts, underscores, ``nan``, numbers with too many digits, and what is no number.
"""

from __future__ import annotations

from typing import Any, Final

import numba

from thalweg.compiler.runtime.integers import add_int, mul_int, sub_int
from thalweg.compiler.runtime.support import inner
from thalweg.compiler.runtime.texts.text import byte, char_at, int64, outer, size_of_char
from thalweg.compiler.runtime.texts.text_parts import is_space, text_strip

#: Powers of ten that are exactly floats.
_TENS: Final = tuple(10.0**i for i in range(23))
_EXACT: Final = 2**53
#: More digits of a mantissa may leave 64 bits.
_MOST_DIGITS: Final = 18


@inner
def _is_digit(value: Any) -> Any:
    return 48 <= value <= 57


@inner
def _sign_of(text: Any) -> Any:
    """1 or -1, and where the number begins."""
    if text[1] > 0 and (byte(text[0]) == 45 or byte(text[0]) == 43):
        return (-1 if byte(text[0]) == 45 else 1, text[0] + 1)
    return (1, text[0])


@outer
def _number_in(text: Any) -> Any:
    """The text without the white space that numbers may have around them: the separators 28 to 31 are none in ASCII."""
    inner_part = text_strip(text)
    if inner_part[1] != text[1]:
        for place in range(text[0], text[0] + text[1]):
            if 28 <= byte(place) <= 31:
                raise ValueError("left to Python")
    return inner_part


@outer
def text_int(text: Any) -> Any:
    """``int(text)``."""
    text = _number_in(text)
    sign, place = _sign_of(text)
    end = text[0] + text[1]
    if place == end:
        raise ValueError("left to Python")
    value = int64(0)
    while place < end:
        digit = byte(place) - 48
        if digit < 0 or digit > 9:
            raise ValueError("left to Python")
        value = mul_int(value, 10)
        value = add_int(value, digit) if sign > 0 else sub_int(value, digit)
        place += 1
    return value


@outer
def _exponent(place: Any, end: Any) -> Any:
    """The number behind the ``e`` of a float."""
    sign, place = _sign_of((place, end - place))
    if place == end or end - place > 4:
        raise ValueError("left to Python")
    value = int64(0)
    while place < end:
        if not _is_digit(byte(place)):
            raise ValueError("left to Python")
        value = 10 * value + byte(place) - 48
        place += 1
    return sign * value


@outer
def text_float(text: Any) -> Any:
    """``float(text)``: one rounding of exact numbers, so the nearest float."""
    text = _number_in(text)
    sign, place = _sign_of(text)
    end = text[0] + text[1]
    mantissa, digits, power = int64(0), 0, int64(0)
    seen = is_behind_point = False
    while place < end:
        value = byte(place)
        if _is_digit(value):
            seen = True
            mantissa = 10 * mantissa + value - 48
            digits += 1 if mantissa != 0 else 0
            power -= 1 if is_behind_point else 0
            if digits > _MOST_DIGITS:
                raise ValueError("left to Python")
        elif value == 46 and not is_behind_point:
            is_behind_point = True
        elif value == 101 or value == 69:
            power += _exponent(place + 1, end)
            place = end - 1
        else:
            raise ValueError("left to Python")
        place += 1
    if not seen or mantissa > _EXACT or power < -22 or power > 22:
        raise ValueError("left to Python")
    made = numba.float64(mantissa)
    made = made / _TENS[-power] if power < 0 else made * _TENS[power]
    return -made if sign < 0 else made


# -- letters -------------------------------------------------------------------------------------------


@inner
def _is_lower(value: Any) -> Any:
    return 97 <= value <= 122


@inner
def _is_upper(value: Any) -> Any:
    return 65 <= value <= 90


@inner
def _is_in(value: Any, letters: Any, digits: Any) -> Any:
    return (letters and (_is_lower(value) or _is_upper(value))) or (digits and _is_digit(value))


@outer
def _are_all(text: Any, letters: Any, digits: Any) -> Any:
    foreign = False
    for i in range(text[1]):
        value = byte(text[0] + i)
        if value >= 128:
            foreign = True
        elif not _is_in(value, letters, digits):
            return False
    if foreign:
        raise ValueError("left to Python")
    return text[1] > 0


@inner
def text_isdigit(text: Any) -> Any:
    """Also isdecimal and isnumeric: they differ beyond ASCII only."""
    return _are_all(text, False, True)


@inner
def text_isalpha(text: Any) -> Any:
    return _are_all(text, True, False)


@inner
def text_isalnum(text: Any) -> Any:
    return _are_all(text, True, True)


@outer
def text_isspace(text: Any) -> Any:
    at = 0
    while at < text[1]:
        if not is_space(char_at(text, at)):
            return False
        at += size_of_char(byte(text[0] + at))
    return text[1] > 0


@outer
def _has_case(text: Any, lower: Any) -> Any:
    found = foreign = False
    for i in range(text[1]):
        value = byte(text[0] + i)
        foreign = foreign or value >= 128
        if _is_upper(value) if lower else _is_lower(value):
            return False
        found = found or (_is_lower(value) if lower else _is_upper(value))
    if foreign:
        raise ValueError("left to Python")
    return found


@inner
def text_islower(text: Any) -> Any:
    return _has_case(text, True)


@inner
def text_isupper(text: Any) -> Any:
    return _has_case(text, False)
