"""Dicts and sets of compiled functions: entries in the order of insertion, and an index where they are many.

The layout is that of :mod:`thalweg.checkpoint.state_tables.cells`; ``key`` and ``size`` are the bytes of a key and of
key and value. The key that is looked for stands at an address, too.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.extending import intrinsic

from thalweg.compiler.runtime.lists import clear as clear
from thalweg.compiler.runtime.support import cgutils, copy_bytes, get_i, inner, put_i, types
from thalweg.compiler.runtime.undo import called, give, note, take

#: With so much room and less, entries are looked through.
_SMALL: Final = 8
#: The longest key.
MOST_KEY_WORDS: Final = 16
_PRIME: Final = -7046029254386353131


@inner
def entry_of(h: Any, k: Any, size: Any) -> Any:
    """Where entry ``k`` stands, those deleted counted."""
    return get_i(h) + 8 + 16 * get_i(h + 8) + (size + 8) * k


@called
def _hash(place: Any, key: Any) -> Any:
    made = 0
    for k in range(0, key, 8):
        made = (made ^ get_i(place + k)) * _PRIME
        made ^= (made >> 32) & 0xFFFFFFFF
    return made


@inner
def _same(a: Any, b: Any, key: Any) -> Any:
    for k in range(0, key, 8):  # noqa: SIM110 (Numba compiles no generators)
        if get_i(a + k) != get_i(b + k):
            return False
    return True


@called
def fill_index(h: Any, key: Any, size: Any) -> Any:
    """Enters all entries into the index, which is empty or not there yet."""
    data, mask = get_i(h), 2 * get_i(h + 8) - 1
    for k in range(mask + 1):
        put_i(data + 8 + 8 * k, 0)
    for k in range(get_i(h + 16)):
        entry = entry_of(h, k, size)
        if get_i(entry) != 0:
            cell = _hash(entry + 8, key) & mask
            while get_i(data + 8 + 8 * cell) != 0:
                cell = (cell + 1) & mask
            put_i(data + 8 + 8 * cell, k + 1)
    put_i(data, 1)


@called
def _find_indexed(h: Any, key: Any, size: Any, wanted: Any) -> Any:
    data, mask = get_i(h), 2 * get_i(h + 8) - 1
    if get_i(data) == 0:
        fill_index(h, key, size)
    cell = _hash(wanted, key) & mask
    while True:
        k = get_i(data + 8 + 8 * cell)
        if k == 0:
            return 0
        entry = entry_of(h, k - 1, size)
        # The key of a deleted entry stands there still, and may have come again behind it.
        if get_i(entry) != 0 and _same(entry + 8, wanted, key):
            return entry
        cell = (cell + 1) & mask


@inner
def find(h: Any, key: Any, size: Any, wanted: Any) -> Any:
    """The entry of the key that stands at ``wanted``; 0 when it is not there."""
    if get_i(h + 8) > _SMALL:
        return _find_indexed(h, key, size, wanted)
    if get_i(h + 24) > 0:
        for k in range(get_i(h + 16)):
            entry = entry_of(h, k, size)
            if get_i(entry) != 0 and _same(entry + 8, wanted, key):
                return entry
    return 0


@called
def _make_room(h: Any, log: Any, size: Any) -> Any:
    """A buffer with room for one more, without the entries that were deleted."""
    room = 4
    while room < get_i(h + 24) + 1:
        room *= 2
    # Half of it free, else the next deletion and insertion would copy all again.
    if 4 * (get_i(h + 24) + 1) > 3 * room:
        room *= 2
    place = take(log, 8 + (size + 24) * room)
    put_i(place, 0)
    to = place + 8 + 16 * room
    for k in range(get_i(h + 16)):
        entry = entry_of(h, k, size)
        if get_i(entry) != 0:
            copy_bytes(to, entry, size + 8)
            to += size + 8
    give(log, get_i(h))
    put_i(h, place)
    put_i(h + 8, room)
    put_i(h + 16, get_i(h + 24))


@called
def insert(h: Any, log: Any, key: Any, size: Any, wanted: Any) -> Any:
    """A new last entry with the key at ``wanted``, which is not there; its value is to be written."""
    used = get_i(h + 16)
    if used == get_i(h + 8):
        _make_room(h, log, size)
        used = get_i(h + 16)
    data, room = get_i(h), get_i(h + 8)
    entry = entry_of(h, used, size)
    note(log, entry, size + 8)
    put_i(entry, 1)
    copy_bytes(entry + 8, wanted, key)
    if room > _SMALL and get_i(data) != 0:
        mask = 2 * room - 1
        cell = _hash(wanted, key) & mask
        while get_i(data + 8 + 8 * cell) != 0:
            cell = (cell + 1) & mask
        note(log, data + 8 + 8 * cell, 8)
        put_i(data + 8 + 8 * cell, used + 1)
    put_i(h + 16, used + 1)
    put_i(h + 24, get_i(h + 24) + 1)
    return entry


@inner
def remove(h: Any, log: Any, entry: Any) -> Any:
    """Deletes an entry; its value stands there until the next change."""
    note(log, entry, 8)
    put_i(entry, 0)
    put_i(h + 24, get_i(h + 24) - 1)


@called
def empty(h: Any, log: Any) -> Any:
    """``d.clear()``."""
    if get_i(h) != 0:
        # What was there stays for an undo; the next insertion takes a new buffer.
        give(log, get_i(h))
        put_i(h, 0)
        put_i(h + 8, 0)
    clear(h)


@called
def assign_dict(h: Any, log: Any, size: Any, other: Any) -> Any:
    """A header's dict becomes a copy of another one."""
    room = get_i(other + 8)
    empty(h, log)
    if get_i(other + 24) > 0:
        bytes_ = 8 + (size + 24) * room
        place = take(log, bytes_)
        copy_bytes(place, get_i(other), bytes_)
        put_i(h, place)
        put_i(h + 8, room)
        put_i(h + 16, get_i(other + 16))
        put_i(h + 24, get_i(other + 24))


@intrinsic
def _key_words(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), MOST_KEY_WORDS))
        return builder.ptrtoint(place, ir.IntType(64))

    return types.int64(), generate


#: The address of room for a key, on the stack.
key_place: Final[Any] = _key_words
