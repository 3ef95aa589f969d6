"""Texts that a row of state owns: copied when they are assigned, and again when they leave the call."""

from __future__ import annotations

from typing import Any, Final

from thalweg.compiler.runtime.arena import reserve
from thalweg.compiler.runtime.support import copy_bytes, get_i, inner, put_i, types
from thalweg.compiler.runtime.undo import called, give, take

_compare: Final[Any] = types.ExternalFunction(
    "memcmp", types.int32(types.int64, types.int64, types.int64)
)


@inner
def text_at(place: Any) -> Any:
    """The text of a field."""
    return get_i(place), get_i(place + 8)


@inner
def text_or_none_at(place: Any) -> Any:
    """The text of an Optional field, whose size is below zero where there is none."""
    return get_i(place + 8) >= 0, (get_i(place), max(get_i(place + 8), 0))


@called
def put_text(place: Any, log: Any, text: Any) -> Any:
    """Gives a field a copy of the text; where it has that text already nothing is copied."""
    start, size = text[0], text[1]
    if size == get_i(place + 8) and (size == 0 or _compare(start, get_i(place), size) == 0):
        return
    copy = 0
    if size > 0:
        copy = take(log, size)
        copy_bytes(copy, start, size)
    give(log, get_i(place))
    put_i(place, copy)
    put_i(place + 8, size)


@called
def put_text_or_none(place: Any, log: Any, text: Any) -> Any:
    """Gives an Optional field a copy of the text, or None."""
    if text[0]:
        put_text(place, log, text[1])
    else:
        give(log, get_i(place))
        put_i(place, 0)
        put_i(place + 8, -1)


@called
def kept_text(arena: Any, text: Any) -> Any:
    """A copy in the arena: the row may get another text before the output is built."""
    if text[1] == 0:
        return text
    place = reserve(arena, text[1])
    copy_bytes(place, text[0], text[1])
    return place, text[1]


@called
def kept_text_or_none(arena: Any, text: Any) -> Any:
    """As :func:`kept_text` for an Optional text."""
    return text[0], kept_text(arena, text[1])
