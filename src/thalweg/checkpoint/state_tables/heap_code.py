"""The compiled loops over what rows of state own outside of them: gather, fill and release buffers.

The forms are those of :mod:`thalweg.checkpoint.state_tables.cells`. Addresses are int64; memory is C's.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types as _untyped_types
from numba.extending import intrinsic

from thalweg.columns.chunks import Int64s
from thalweg.jit import njit

types: Final[Any] = _untyped_types
_malloc: Final[Any] = types.ExternalFunction("malloc", types.int64(types.int64))
_free: Final[Any] = types.ExternalFunction("free", types.void(types.int64))
copy: Final[Any] = types.ExternalFunction(
    "memcpy", types.int64(types.int64, types.int64, types.int64)
)
_I64: Final = ir.IntType(64)


@intrinsic
def _load(typing: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _I64.as_pointer()), align=1)

    return types.int64(types.int64), generate


@intrinsic
def _store(typing: Any, place: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _I64.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


word_at: Final[Any] = _load
put_word: Final[Any] = _store
#: The least room of a list.
LEAST_ROOM: Final = 4


@njit
def release(places: Int64s) -> None:
    """Frees these buffers; 0 is none."""
    for place in places:
        if place != 0:
            _free(place)


@njit
def _item(header: Int64s, size: int, k: int, is_dict: bool) -> int:
    """Where item ``k`` of a list stands, or entry ``k`` of a dict."""
    data, room = header[0], header[1]
    if is_dict:
        return int(data + 8 + 16 * room + size * k)
    return int(data + size * ((header[2] + k) & (room - 1)))


@njit
def release_items(headers: Int64s, size: int, places: Int64s, is_dict: bool) -> None:
    """Frees the texts of all items; of a dict ``size`` is that of an entry with its mark."""
    for i in range(len(headers)):
        for k in range(headers[i, 2] if is_dict else headers[i, 3]):
            item = _item(headers[i], size, k, is_dict)
            if is_dict and word_at(item) == 0:
                continue
            for place in places:
                _free(word_at(item + place))


@njit
def size_of_texts(headers: Int64s, size: int, places: Int64s, is_dict: bool) -> int:
    """The bytes of the texts of all items."""
    total = 0
    for i in range(len(headers)):
        for k in range(headers[i, 2] if is_dict else headers[i, 3]):
            item = _item(headers[i], size, k, is_dict)
            if is_dict and word_at(item) == 0:
                continue
            for place in places:
                total += word_at(item + place + 8)
    return total


@njit
def room_for(count: int) -> int:
    """The least power of two with so much room."""
    room = LEAST_ROOM
    while room < count:
        room *= 2
    return room


@njit
def gather_lists(headers: Int64s, size: int, out: int) -> None:
    """The items of all lists, ``size`` bytes each, one behind the other."""
    for i in range(len(headers)):
        data, room, first, count = headers[i, 0], headers[i, 1], headers[i, 2], headers[i, 3]
        upper = min(count, room - first)
        if upper > 0:
            copy(out, data + size * first, size * upper)
        if count > upper:
            copy(out + size * upper, data, size * (count - upper))
        out += size * count


@njit
def fill_lists(counts: Int64s, size: int, items: int, headers: Int64s) -> bool:
    """Lists of so many of the items each; False when memory has run out."""
    for i in range(len(counts)):
        count = counts[i]
        if count > 0:
            room = room_for(count)
            data = _malloc(size * room)
            if data == 0:
                return False
            copy(data, items, size * count)
            headers[i, 0], headers[i, 1], headers[i, 3] = data, room, count
            items += size * count
    return True


@njit
def gather_dicts(headers: Int64s, size: int, out: int) -> None:
    """Key and value of all entries that are there, ``size`` bytes each."""
    for i in range(len(headers)):
        data, room, used = headers[i, 0], headers[i, 1], headers[i, 2]
        entry = data + 8 + 16 * room
        for _ in range(used):
            if word_at(entry) != 0:
                copy(out, entry + 8, size)
                out += size
            entry += size + 8


@njit
def fill_dicts(counts: Int64s, size: int, items: int, headers: Int64s) -> bool:
    """Dicts of so many of the entries each, their index not filled; False when memory has run out."""
    for i in range(len(counts)):
        count = counts[i]
        if count > 0:
            room = room_for(count)
            data = _malloc(8 + (size + 24) * room)
            if data == 0:
                return False
            put_word(data, 0)
            entry = data + 8 + 16 * room
            for _ in range(count):
                put_word(entry, 1)
                copy(entry + 8, items, size)
                entry += size + 8
                items += size
            headers[i, 0], headers[i, 1], headers[i, 2], headers[i, 3] = data, room, count, count
    return True


@njit
def gather_texts(words: Int64s, out: int) -> None:
    """The bytes of all texts."""
    for i in range(len(words)):
        if words[i, 1] > 0:
            copy(out, words[i, 0], words[i, 1])
            out += words[i, 1]


@njit
def fill_texts(offsets: Int64s, data: int, words: Int64s) -> bool:
    """A copy of the bytes of each text; False when memory has run out."""
    for i in range(len(words)):
        size = words[i, 1]
        if size > 0:
            place = _malloc(size)
            if place == 0:
                return False
            copy(place, data + offsets[i], size)
            words[i, 0] = place
    return True
