"""The texts of a timer's key in compiled code, out of the key's bytes in its table.

A key of one text is kept as that text; every other key with text as the bytes of
:mod:`thalweg.columns.ordered_bytes`. A *layout* says with a letter a field which fields lead to the one that is wanted,
it included: w for a word of 8 bytes, b for a bool, t for a text; a capital for an Optional field.
"""

from __future__ import annotations

from typing import Any

from thalweg.compiler.runtime.support import get_i
from thalweg.compiler.runtime.texts.text import byte, int64, no_text, outer


@outer
def _text_end(place: Any) -> Any:
    """Where a text ends: with two zeros; a zero and another byte is a zero in the text."""
    while byte(place) != 0 or byte(place + 1) != 0:
        place += 2 if byte(place) == 0 else 1
    return place


@outer
def _find_field(handle: Any, layout: Any) -> Any:
    """Whether the wanted field has a value, and where its bytes are."""
    place = get_i(handle[1] + 64) + get_i(get_i(handle[1] + 56) + 8 * handle[2])
    for i in range(layout[1]):
        letter = byte(layout[0] + i)
        is_there = True
        if letter < 97:
            is_there = byte(place) != 0
            place += 1
            letter += 32
        if i == layout[1] - 1:
            return (is_there, int64(place))
        if is_there:
            place = _text_end(place) + 2 if letter == 116 else place + (8 if letter == 119 else 1)
    return (False, int64(0))


@outer
def _text_at(place: Any) -> Any:
    end = _text_end(place)
    for at in range(place, end):
        if byte(at) == 0:
            raise ValueError("left to Python")
    return (place, end - place)


@outer
def key_text(handle: Any, layout: Any) -> Any:
    """A text of a key; Python's where there is a zero in it."""
    return _text_at(_find_field(handle, layout)[1])


@outer
def key_text_or_none(handle: Any, layout: Any) -> Any:
    """The same of an optional one: (is there, text)."""
    is_there, place = _find_field(handle, layout)
    if not is_there:
        return (False, no_text())
    return (True, _text_at(place))
