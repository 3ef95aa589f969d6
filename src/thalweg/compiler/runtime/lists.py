"""Lists and deques of compiled functions: rings of items of fixed size behind a header of four words.

The layout is that of :mod:`thalweg.checkpoint.state_tables.cells`. ``h`` is the address of the header, ``log`` that of
the log of the call (:mod:`thalweg.compiler.runtime.undo`), odd for a list that the call made and does not keep;
``size`` the bytes of an item. Where Python raises these raise, and Python says what.
"""

from __future__ import annotations

from typing import Any

from thalweg.compiler.runtime.support import copy_bytes, get_i, inner, put_i
from thalweg.compiler.runtime.undo import called, give, note, take


@inner
def length(h: Any) -> Any:
    """``len(xs)``."""
    return get_i(h + 24)


@called
def new_list(log: Any) -> Any:
    """An empty passing list: its header."""
    h = take(log | 1, 32)
    put_i(h, 0)
    put_i(h + 8, 0)
    put_i(h + 16, 0)
    put_i(h + 24, 0)
    return h


@inner
def item_at(h: Any, i: Any, size: Any) -> Any:
    """Where item ``i`` stands, which is there."""
    return get_i(h) + size * ((get_i(h + 16) + i) & (get_i(h + 8) - 1))


@inner
def item(h: Any, i: Any, size: Any) -> Any:
    """Where item ``i`` stands, counted from the end where below zero."""
    count = get_i(h + 24)
    if i < 0:
        i += count
    if i < 0 or i >= count:
        raise IndexError("index out of range")
    return item_at(h, i, size)


@inner
def item_to_set(h: Any, log: Any, i: Any, size: Any) -> Any:
    """Where item ``i`` stands, to be changed."""
    place = item(h, i, size)
    note(log, place, size)
    return place


@called
def _copied(h: Any, size: Any, start: Any, stop: Any, to: Any) -> Any:
    """Copies items start to stop, as they stand one behind the other in the ring."""
    room = get_i(h + 8)
    if stop > start:
        first = (get_i(h + 16) + start) & (room - 1)
        upper = min(stop - start, room - first)
        copy_bytes(to, get_i(h) + size * first, size * upper)
        if stop - start > upper:
            copy_bytes(to + size * upper, get_i(h), size * (stop - start - upper))


@called
def move_to(h: Any, log: Any, size: Any, room: Any) -> Any:
    """Gives the list a buffer of its own for this call, its items from the first place on."""
    place = take(log, size * room)
    _copied(h, size, 0, get_i(h + 24), place)
    give(log, get_i(h))
    put_i(h, place)
    put_i(h + 8, room)
    put_i(h + 16, 0)


@inner
def own(h: Any, log: Any, size: Any) -> Any:
    """So that any word may be changed; the first item's place. Items stand one behind the other."""
    if get_i(h + 24) > 0 and (log & 1 == 0 or get_i(h + 16) != 0):
        move_to(h, log, size, get_i(h + 8))
    return get_i(h)


@inner
def push_back(h: Any, log: Any, size: Any, most: Any) -> Any:
    """Where a new last item goes; ``most`` is the maxlen of a deque, -1 without."""
    if most >= 0 and get_i(h + 24) == most:
        put_i(h + 16, (get_i(h + 16) + 1) & (get_i(h + 8) - 1))
        put_i(h + 24, most - 1)
    count = get_i(h + 24)
    if count == get_i(h + 8):
        move_to(h, log, size, max(4, 2 * count))
    put_i(h + 24, count + 1)
    place = item_at(h, count, size)
    note(log, place, size)
    return place


@inner
def push_front(h: Any, log: Any, size: Any, most: Any) -> Any:
    """Where a new first item goes."""
    if most >= 0 and get_i(h + 24) == most:
        put_i(h + 24, most - 1)
    count = get_i(h + 24)
    if count == get_i(h + 8):
        move_to(h, log, size, max(4, 2 * count))
    put_i(h + 16, (get_i(h + 16) - 1) & (get_i(h + 8) - 1))
    put_i(h + 24, count + 1)
    place = item_at(h, 0, size)
    note(log, place, size)
    return place


@inner
def pop_back(h: Any, size: Any) -> Any:
    """Takes the last item off; where it stands until the next change."""
    count = get_i(h + 24)
    if count == 0:
        raise IndexError("pop from an empty list")
    put_i(h + 24, count - 1)
    return item_at(h, count - 1, size)


@inner
def pop_front(h: Any, size: Any) -> Any:
    """Takes the first item off; where it stands until the next change."""
    count = get_i(h + 24)
    if count == 0:
        raise IndexError("pop from an empty list")
    place = item_at(h, 0, size)
    put_i(h + 16, (get_i(h + 16) + 1) & (get_i(h + 8) - 1))
    put_i(h + 24, count - 1)
    return place


@called
def delete_items(h: Any, log: Any, size: Any, start: Any, stop: Any) -> Any:
    """Takes items start to stop out."""
    count = get_i(h + 24)
    if stop <= start:
        return
    if start == 0:
        put_i(h + 16, (get_i(h + 16) + stop) & (get_i(h + 8) - 1))
    elif stop < count:
        data = own(h, log, size)
        for k in range(size * start, size * (count - stop + start), 8):
            put_i(data + k, get_i(data + k + size * (stop - start)))
    put_i(h + 24, count - (stop - start))


@called
def delete_item(h: Any, log: Any, size: Any, i: Any) -> Any:
    """Takes item ``i`` out, which is there."""
    if i < 0:
        i += get_i(h + 24)
    delete_items(h, log, size, i, i + 1)


@called
def insert_item(h: Any, log: Any, size: Any, i: Any) -> Any:
    """Where a new item goes that stands before item ``i``."""
    count = get_i(h + 24)
    if i < 0:
        i = max(0, i + count)
    i = min(i, count)
    if i == count:
        return push_back(h, log, size, -1)
    room = get_i(h + 8)
    move_to(h, log, size, 2 * room if count == room else room)
    data = get_i(h)
    for k in range(size * count - 8, size * i - 8, -8):
        put_i(data + k + size, get_i(data + k))
    put_i(h + 24, count + 1)
    return data + size * i


@called
def clear(h: Any) -> Any:
    """``xs.clear()``."""
    put_i(h + 16, 0)
    put_i(h + 24, 0)


@inner
def bound(i: Any, count: Any) -> Any:
    """The end of a slice of step 1."""
    if i < 0:
        i += count
    return min(max(i, 0), count)


@called
def _room_for(count: Any) -> Any:
    room = 4
    while room < count:
        room *= 2
    return room


@called
def slice_list(h: Any, log: Any, size: Any, start: Any, stop: Any) -> Any:
    """The header of a passing list of these items."""
    made = new_list(log)
    count = stop - start
    if count > 0:
        room = _room_for(count)
        place = take(log | 1, size * room)
        _copied(h, size, start, stop, place)
        put_i(made, place)
        put_i(made + 8, room)
        put_i(made + 24, count)
    return made


@called
def extend(h: Any, log: Any, size: Any, most: Any, other: Any) -> Any:
    """``xs.extend(other)``."""
    if h == other and most >= 0:
        raise ValueError("extends a deque by itself")
    for i in range(get_i(other + 24)):
        place = push_back(h, log, size, most)
        copy_bytes(place, item_at(other, i, size), size)


@called
def assign(h: Any, log: Any, size: Any, most: Any, other: Any) -> Any:
    """A header's list becomes a copy of another one, of its last ``most`` items."""
    stop = get_i(other + 24)
    start = 0 if most < 0 else max(0, stop - most)
    count = stop - start
    if count == 0:
        clear(h)
        return
    room = _room_for(count)
    place = take(log, size * room)
    _copied(other, size, start, stop, place)
    give(log, get_i(h))
    put_i(h, place)
    put_i(h + 8, room)
    put_i(h + 16, 0)
    put_i(h + 24, count)


@called
def reverse(h: Any, log: Any, size: Any) -> Any:
    """``xs.reverse()``."""
    data = own(h, log, size)
    low, high = data, data + size * (get_i(h + 24) - 1)
    while low < high:
        for k in range(0, size, 8):
            word = get_i(low + k)
            put_i(low + k, get_i(high + k))
            put_i(high + k, word)
        low += size
        high -= size
