"""Finding texts in texts, in compiled code."""

from __future__ import annotations

from typing import Any, Final

import numba

from thalweg.compiler.runtime.support import get_u, inner, types
from thalweg.compiler.runtime.texts.text import (
    byte,
    clamped,
    compare_bytes,
    int64,
    is_ascii,
    no_text,
    outer,
    part,
    text_len,
    text_slice,
)

_memchr: Final[Any] = types.ExternalFunction(
    "memchr", types.int64(types.int64, types.int32, types.int64)
)
_memmem: Final[Any] = types.ExternalFunction(
    "memmem", types.int64(types.int64, types.int64, types.int64, types.int64)
)


@outer
def find_from(text: Any, wanted: Any, start: Any) -> Any:
    """The byte at or behind ``start`` where another text stands, -1 for none."""
    if wanted[1] > text[1] - start:
        return -1
    if wanted[1] == 0:
        return start
    if wanted[1] == 1:
        found = _memchr(text[0] + start, numba.int32(get_u(wanted[0])), text[1] - start)
    else:
        found = _memmem(text[0] + start, text[1] - start, wanted[0], wanted[1])
    return -1 if found == 0 else found - text[0]


@outer
def find_before(text: Any, wanted: Any, stop: Any) -> Any:
    """The last byte where another text stands that ends at or before ``stop``, -1 for none."""
    at = stop - wanted[1]
    if wanted[1] == 0:
        return at
    first = byte(wanted[0])
    while at >= 0:
        same = byte(text[0] + at) == first
        if same and compare_bytes(text[0] + at, wanted[0], wanted[1]) == 0:
            return at
        at -= 1
    return -1


@inner
def text_in(wanted: Any, text: Any) -> Any:
    """``wanted in text``."""
    return find_from(text, wanted, 0) >= 0


@inner
def starts(text: Any, wanted: Any) -> Any:
    return wanted[1] <= text[1] and compare_bytes(text[0], wanted[0], wanted[1]) == 0


@inner
def ends(text: Any, wanted: Any) -> Any:
    rest = text[1] - wanted[1]
    return rest >= 0 and compare_bytes(text[0] + rest, wanted[0], wanted[1]) == 0


@outer
def window(text: Any, start: Any, stop: Any) -> Any:
    """The text between two code points as methods take them: (is any, its first code point, the text)."""
    if start == 0 and stop >= text[1]:
        return (True, int64(0), text)
    size = text[1] if is_ascii(text) else text_len(text)
    if start < 0:
        start = max(start + size, 0)
    stop = clamped(stop, size)
    if start > stop:
        return (False, int64(0), no_text())
    return (True, int64(start), text_slice(text, start, stop))


@outer
def text_find(text: Any, wanted: Any, start: Any, stop: Any) -> Any:
    """``text.find(wanted, start, stop)``."""
    known, first, found = window(text, start, stop)
    if not known:
        return -1
    at = find_from(found, wanted, 0)
    return -1 if at < 0 else first + text_len(part(found, 0, at))


@outer
def text_rfind(text: Any, wanted: Any, start: Any, stop: Any) -> Any:
    """``text.rfind(wanted, start, stop)``."""
    known, first, found = window(text, start, stop)
    if not known:
        return -1
    at = find_before(found, wanted, found[1])
    return -1 if at < 0 else first + text_len(part(found, 0, at))


@inner
def text_index(text: Any, wanted: Any, start: Any, stop: Any) -> Any:
    """``text.index(wanted, start, stop)``."""
    at = text_find(text, wanted, start, stop)
    if at < 0:
        raise ValueError("substring not found")
    return at


@inner
def text_rindex(text: Any, wanted: Any, start: Any, stop: Any) -> Any:
    """``text.rindex(wanted, start, stop)``."""
    at = text_rfind(text, wanted, start, stop)
    if at < 0:
        raise ValueError("substring not found")
    return at


@outer
def count_bytes(text: Any, wanted: Any, most: Any) -> Any:
    """How often another text, not empty, stands in a text one behind the other, ``most`` at most (-1: no bound)."""
    count = at = 0
    while count != most:
        found = find_from(text, wanted, at)
        if found < 0:
            break
        count += 1
        at = found + wanted[1]
    return count


@outer
def text_count(text: Any, wanted: Any, start: Any, stop: Any) -> Any:
    """``text.count(wanted, start, stop)``."""
    known, _, found = window(text, start, stop)
    if not known:
        return 0
    if wanted[1] == 0:
        return text_len(found) + 1
    return count_bytes(found, wanted, -1)


@inner
def starts_in(text: Any, wanted: Any, start: Any, stop: Any) -> Any:
    """``text.startswith(wanted, start, stop)``."""
    known, _, found = window(text, start, stop)
    return known and starts(found, wanted)


@inner
def ends_in(text: Any, wanted: Any, start: Any, stop: Any) -> Any:
    """``text.endswith(wanted, start, stop)``."""
    known, _, found = window(text, start, stop)
    return known and ends(found, wanted)


@inner
def text_removeprefix(text: Any, wanted: Any) -> Any:
    return part(text, wanted[1], text[1]) if starts(text, wanted) else text


@inner
def text_removesuffix(text: Any, wanted: Any) -> Any:
    return part(text, 0, text[1] - wanted[1]) if ends(text, wanted) else text
