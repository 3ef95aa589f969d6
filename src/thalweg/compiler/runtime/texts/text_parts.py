"""Parts of texts in compiled code: stripping, splitting, partitioning, and lists of texts.

A list of texts is a pair of int64: the address of pairs, which stand in an arena, and their number.
"""

from __future__ import annotations

from typing import Any, Final

from thalweg.compiler.runtime.arena import give_back, reserve
from thalweg.compiler.runtime.support import get_i, inner, put_i
from thalweg.compiler.runtime.texts.text import (
    byte,
    char_at,
    clamped,
    int64,
    no_text,
    outer,
    part,
    size_of_char,
    text_equal,
)
from thalweg.compiler.runtime.texts.text_finding import count_bytes, find_before, find_from, text_in

#: Room for so many parts is reserved without counting them.
_FEW: Final = 256

# -- white space ---------------------------------------------------------------------------------------


@outer
def _is_wide_space(char: Any) -> Any:
    """Whether a character of two or three bytes is white space, as ``str.isspace`` says."""
    a, b = byte(char[0]), byte(char[0] + 1)
    if char[1] == 2:
        return a == 0xC2 and (b == 0x85 or b == 0xA0)
    if char[1] != 3:
        return False
    c = byte(char[0] + 2)
    if a == 0xE2 and b == 0x80:
        return c <= 0x8A or c == 0xA8 or c == 0xA9 or c == 0xAF
    if a == 0xE2:
        return b == 0x81 and c == 0x9F
    return (a == 0xE1 and b == 0x9A and c == 0x80) or (a == 0xE3 and b == 0x80 and c == 0x80)


@inner
def is_space(char: Any) -> Any:
    """Whether a character is white space."""
    lead = byte(char[0])
    if lead >= 128:
        return _is_wide_space(char)
    return lead == 32 or 9 <= lead <= 13 or 28 <= lead <= 31


@inner
def last_char(text: Any) -> Any:
    """The last character of a text that has one."""
    at = text[1] - 1
    while byte(text[0] + at) & 0xC0 == 0x80:
        at -= 1
    return part(text, at, text[1])


@outer
def text_lstrip(text: Any) -> Any:
    at = int64(0)
    while at < text[1] and is_space(char_at(text, at)):
        at += size_of_char(byte(text[0] + at))
    return part(text, at, text[1])


@outer
def text_rstrip(text: Any) -> Any:
    while text[1] > 0:
        char = last_char(text)
        if not is_space(char):
            break
        text = part(text, 0, text[1] - char[1])
    return text


@inner
def text_strip(text: Any) -> Any:
    return text_rstrip(text_lstrip(text))


@outer
def text_lstrip_of(text: Any, chars: Any) -> Any:
    at = int64(0)
    while at < text[1] and text_in(char_at(text, at), chars):
        at += size_of_char(byte(text[0] + at))
    return part(text, at, text[1])


@outer
def text_rstrip_of(text: Any, chars: Any) -> Any:
    while text[1] > 0:
        char = last_char(text)
        if not text_in(char, chars):
            break
        text = part(text, 0, text[1] - char[1])
    return text


@inner
def text_strip_of(text: Any, chars: Any) -> Any:
    return text_rstrip_of(text_lstrip_of(text, chars), chars)


# -- parts ---------------------------------------------------------------------------------------------


@inner
def _needs_separator(separator: Any) -> None:
    if separator[1] == 0:
        raise ValueError("empty separator")


@outer
def text_partition(text: Any, separator: Any) -> Any:
    _needs_separator(separator)
    at = find_from(text, separator, 0)
    if at < 0:
        return (text, no_text(), no_text())
    middle = at + separator[1]
    return (part(text, 0, at), part(text, at, middle), part(text, middle, text[1]))


@outer
def text_rpartition(text: Any, separator: Any) -> Any:
    _needs_separator(separator)
    at = find_before(text, separator, text[1])
    if at < 0:
        return (no_text(), no_text(), text)
    middle = at + separator[1]
    return (part(text, 0, at), part(text, at, middle), part(text, middle, text[1]))


@outer
def text_split_item(text: Any, separator: Any, most: Any, index: Any) -> Any:
    """``text.split(separator, most)[index]`` for an index that is not negative."""
    _needs_separator(separator)
    start = int64(0)
    while index != 0 and most != 0:
        at = find_from(text, separator, start)
        if at < 0:
            break
        start = at + separator[1]
        index -= 1
        most -= 1
    if index != 0:
        raise IndexError("list index out of range")
    at = find_from(text, separator, start) if most != 0 else -1
    return part(text, start, text[1] if at < 0 else at)


# -- lists ---------------------------------------------------------------------------------------------


@inner
def _set(place: Any, text: Any) -> None:
    put_i(place, text[0])
    put_i(place + 8, text[1])


@inner
def list_get(texts: Any, index: Any) -> Any:
    """The text at an index that is known to be there."""
    return (get_i(texts[0] + 16 * index), get_i(texts[0] + 16 * index + 8))


@inner
def list_item(texts: Any, index: Any) -> Any:
    """``texts[index]``."""
    if index < 0:
        index += texts[1]
    if index < 0 or index >= texts[1]:
        raise IndexError("list index out of range")
    return list_get(texts, index)


@inner
def list_slice(texts: Any, start: Any, stop: Any) -> Any:
    """``texts[start:stop]``."""
    start, stop = clamped(start, texts[1]), clamped(stop, texts[1])
    return (texts[0] + 16 * start, int64(max(stop - start, 0)))


@inner
def list_of(texts: Any, count: Any) -> Any:
    """The list, if it has so many texts as it is unpacked into."""
    if texts[1] != count:
        raise ValueError("wrong number of values to unpack")
    return texts


@outer
def list_has(texts: Any, text: Any) -> Any:
    """``text in texts``."""
    found = False
    for i in range(texts[1]):
        found = found or text_equal(list_get(texts, i), text)
    return found


@inner
def _reserve_parts(arena: Any, text: Any, separator: Any, most: Any) -> Any:
    """Room for the parts of a text: for as many as there can be, or of a long one for those that there are."""
    count = text[1] // separator[1] + 1
    if count > _FEW:
        count = count_bytes(text, separator, most) + 1
    return reserve(arena, 16 * count)


@outer
def text_split(arena: Any, text: Any, separator: Any, most: Any) -> Any:
    """``text.split(separator, most)``."""
    _needs_separator(separator)
    most = most if most >= 0 else -1
    place = _reserve_parts(arena, text, separator, most)
    count = start = int64(0)
    while count != most:
        at = find_from(text, separator, start)
        if at < 0:
            break
        _set(place + 16 * count, part(text, start, at))
        count += 1
        start = at + separator[1]
    _set(place + 16 * count, part(text, start, text[1]))
    give_back(arena, place + 16 * (count + 1))
    return (place, count + 1)


@outer
def text_rsplit(arena: Any, text: Any, separator: Any, most: Any) -> Any:
    """``text.rsplit(separator, most)``."""
    _needs_separator(separator)
    count, stop = 1, text[1]
    while count - 1 != most:
        stop = find_before(text, separator, stop)
        if stop < 0:
            break
        count += 1
    place = reserve(arena, 16 * count)
    stop = text[1]
    for i in range(count - 1):
        at = find_before(text, separator, stop)
        _set(place + 16 * (count - 1 - i), part(text, at + separator[1], stop))
        stop = at
    _set(place, part(text, 0, stop))
    return (place, int64(count))


@inner
def _to_space(text: Any) -> Any:
    """The byte of the first white space, the end where there is none."""
    at = int64(0)
    while at < text[1] and not is_space(char_at(text, at)):
        at += size_of_char(byte(text[0] + at))
    return at


@outer
def _split_words(text: Any, most: Any, place: Any) -> Any:
    """Writes the words of a text, unless ``place`` is 0; how many."""
    count = int64(0)
    rest = text_lstrip(text)
    while rest[1] > 0:
        stop = rest[1] if count == most else _to_space(rest)
        if place != 0:
            _set(place + 16 * count, part(rest, 0, stop))
        count += 1
        rest = text_lstrip(part(rest, stop, rest[1]))
    return count


@outer
def text_words(arena: Any, text: Any, most: Any) -> Any:
    """``text.split(None, most)``."""
    most = most if most >= 0 else -1
    count = _split_words(text, most, 0)
    place = reserve(arena, 16 * count + 16)
    return (place, int64(_split_words(text, most, place)))
