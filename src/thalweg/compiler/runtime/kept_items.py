"""Texts that the containers of a state own: an item has the address of a copy of its bytes, and their number.

``log`` is that of the call, even for a container of the state: what comes is copied, what goes is given back when the
call is done, and an undo takes back both. With an odd log, of a container that the call made, texts are only named.
"""

from __future__ import annotations

from typing import Any

from thalweg.compiler.runtime.arena import reserve
from thalweg.compiler.runtime.lists import item_at
from thalweg.compiler.runtime.support import copy_bytes, get_i, inner, put_i
from thalweg.compiler.runtime.undo import called, free, give, take


@called
def own_text(log: Any, place: Any) -> Any:
    """Makes the text that an item names one of its own; its words have been noted."""
    size = get_i(place + 8)
    if size > 0:
        copy = take(log, size)
        copy_bytes(copy, get_i(place), size)
        put_i(place, copy)
    else:
        put_i(place, 0)


@inner
def disown_text(log: Any, place: Any) -> Any:
    """The text goes when the call is done: who has read it may use it until then."""
    give(log, get_i(place))


@inner
def free_text(place: Any) -> Any:
    """The text goes at once: its key has no state any more."""
    free(get_i(place))


@called
def packed_items(arena: Any, h: Any, size: Any) -> Any:
    """A copy of the items of a list in an arena, one behind the other; 0 of none."""
    count = get_i(h + 24)
    if count == 0:
        return 0
    place = (reserve(arena, size * count + 8) + 7) & -8
    for k in range(count):
        copy_bytes(place + size * k, item_at(h, k, size), size)
    return place


@called
def text_in_arena(arena: Any, place: Any) -> Any:
    """Makes a text that a copied item names one of the arena."""
    size = get_i(place + 8)
    if size > 0:
        copy = reserve(arena, size)
        copy_bytes(copy, get_i(place), size)
        put_i(place, copy)
