"""Texts in other letters, in compiled code.

Python's rules are in Unicode's tables. Those of ASCII, and for ``lower`` and ``upper`` those of all characters of two
bytes that change by themselves and keep their size (Latin, Greek, Cyrillic and more), are here; all others raise, so
that Python makes the call.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.compiler.runtime.arena import copy_bytes, put, reserve
from thalweg.compiler.runtime.support import inner
from thalweg.compiler.runtime.texts.text import byte, is_ascii, outer

#: Code points of one or two bytes.
_KNOWN: Final = 0x800
#: Their case depends on what is around them.
_SIGMA: Final = 0x3A3


def _table(upper: bool) -> Any:
    """What each code point becomes, -1 where Python alone knows."""
    out = np.full(_KNOWN, -1, np.int64)
    for point in range(_KNOWN):
        made = chr(point).upper() if upper else chr(point).lower()
        if len(made) == 1 and len(made.encode()) == len(chr(point).encode()) and point != _SIGMA:
            out[point] = ord(made)
    return out


_LOWER: Final = _table(upper=False)
_UPPER: Final = _table(upper=True)


@inner
def _shift(value: Any, first: Any) -> Any:
    """The ASCII letter in the other case, if it stands within 26 of ``first``."""
    return value ^ 32 if first <= value < first + 26 else value


@outer
def _put_changed(text: Any, table: Any, place: Any) -> Any:
    """Writes the characters as the table says."""
    at = 0
    while at < text[1]:
        value = byte(text[0] + at)
        if value < 0x80:
            put(place + at, table[value])
            at += 1
            continue
        if value >= 0xE0:
            raise ValueError("left to Python")
        point = table[((value & 0x1F) << 6) | (byte(text[0] + at + 1) & 0x3F)]
        if point < 0:
            raise ValueError("left to Python")
        put(place + at, 0xC0 | (point >> 6))
        put(place + at + 1, 0x80 | (point & 0x3F))
        at += 2


@inner
def _unchanged(text: Any, first: Any) -> Any:
    """How many bytes in front are ASCII and no letters of this case."""
    at = 0
    while at < text[1] and byte(text[0] + at) < 0x80:
        if first <= byte(text[0] + at) < first + 26:
            break
        at += 1
    return at


@outer
def text_lower(arena: Any, text: Any) -> Any:
    """``text.lower()``."""
    if _unchanged(text, 65) == text[1]:
        return text
    place = reserve(arena, text[1])
    _put_changed(text, _LOWER, place)
    return (place, text[1])


@outer
def text_upper(arena: Any, text: Any) -> Any:
    """``text.upper()``."""
    if _unchanged(text, 97) == text[1]:
        return text
    place = reserve(arena, text[1])
    _put_changed(text, _UPPER, place)
    return (place, text[1])


@inner
def text_casefold(arena: Any, text: Any) -> Any:
    """``text.casefold()`` of ASCII."""
    if not is_ascii(text):
        raise ValueError("left to Python")
    return text_lower(arena, text)


@outer
def text_swapcase(arena: Any, text: Any) -> Any:
    """``text.swapcase()`` of ASCII."""
    if not is_ascii(text):
        raise ValueError("left to Python")
    if text[1] == 0:
        return text
    place = reserve(arena, text[1])
    for i in range(text[1]):
        value = byte(text[0] + i)
        put(place + i, _shift(value, 65) if value < 91 else _shift(value, 97))
    return (place, text[1])


@outer
def text_capitalize(arena: Any, text: Any) -> Any:
    """``text.capitalize()`` of ASCII."""
    rest = text_casefold(arena, text)
    if rest[1] == 0:
        return rest
    place = reserve(arena, rest[1])
    copy_bytes(place, rest[0], rest[1])
    put(place, _shift(byte(rest[0]), 97))
    return (place, rest[1])
