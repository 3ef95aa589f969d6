"""The log of one call: what it changed outside of the row, so that a call that fails leaves no trace.

The row itself is copied before a call and copied back, headers of lists included. What it owns is logged: before a
word of a buffer is changed its address and value, and each buffer that came or went. So an append to a long list is
as cheap as to a short one. The log is three words in memory of its own: where its entries are, how many,
room; then how many entries are about buffers.

A function whose state owns nothing has no log. The lists that it makes lie in the scratch of its arena
(:mod:`thalweg.compiler.runtime.arena`), which the kernel clears after each call: in place of the log's address stands
that of the scratch with ``IN_SCRATCH``, and nothing is noted.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numba
import numpy as np

from thalweg.compiler.runtime.arena import reserve
from thalweg.compiler.runtime.support import copy_bytes, get_i, inner, put_i, types
from thalweg.jit import OPTIONS, njit

malloc: Final[Any] = types.ExternalFunction("malloc", types.int64(types.int64))
realloc: Final[Any] = types.ExternalFunction("realloc", types.int64(types.int64, types.int64))
free: Final[Any] = types.ExternalFunction("free", types.void(types.int64))
#: functions that are called, not compiled into their callers
called: Final[Any] = numba.njit(**OPTIONS)

#: In place of an address: a buffer that is given back when the call is done, when it is undone, or in any case.
OLD: Final = -1
NEW: Final = -2
PASSING: Final = -3

LOG_WORDS: Final = 4
#: The bit that makes the address of a scratch one.
IN_SCRATCH: Final = 2


@called
def _more_room(log: Any) -> Any:
    room = max(64, 2 * get_i(log + 16))
    entries = realloc(get_i(log), 16 * room)
    if entries == 0:
        raise MemoryError("no memory for the log of a call")
    put_i(log, entries)
    put_i(log + 16, room)


@inner
def _put(log: Any, place: Any, value: Any) -> Any:
    count = get_i(log + 8)
    if count == get_i(log + 16):
        _more_room(log)
    at = get_i(log) + 16 * count
    put_i(at, place)
    put_i(at + 8, value)
    put_i(log + 8, count + 1)


@inner
def note(log: Any, place: Any, size: Any) -> Any:
    """To be called before ``size`` bytes at a place are changed; an odd log is that of a passing list."""
    if log & 1 == 0:
        for k in range(0, size, 8):
            _put(log, place + k, get_i(place + k))


@called
def take(log: Any, size: Any) -> Any:
    """A new buffer, which an even log keeps when the call is done."""
    if log & IN_SCRATCH:
        return reserve(log & -4, size)
    place = malloc(size)
    if place == 0:
        raise MemoryError("no memory for a list")
    _put(log & -2, PASSING if log & 1 else NEW, place)
    put_i((log & -2) + 24, get_i((log & -2) + 24) + 1)
    return place


@called
def give(log: Any, place: Any) -> Any:
    """Gives a buffer back when the call is done; those of an odd log go by themselves."""
    if log & 1 == 0 and place != 0:
        _put(log, OLD, place)
        put_i(log + 24, get_i(log + 24) + 1)


@called
def clone(to: Any, origin: Any, words: Any, size: Any) -> Any:
    """What a field of a new row starts with: these words, and behind the first of them a copy of so many bytes."""
    place = malloc(size)
    if place == 0:
        raise MemoryError("no memory for the state of a key")
    copy_bytes(place, get_i(origin), size)
    copy_bytes(to, origin, 8 * words)
    put_i(to, place)


@called
def _settle(log: Any) -> Any:
    entries = get_i(log)
    for k in range(get_i(log + 8)):
        place = get_i(entries + 16 * k)
        if place in (OLD, PASSING):
            free(get_i(entries + 16 * k + 8))
    put_i(log + 24, 0)


@inner
def settle(log: Any) -> Any:
    """The call is done: what it replaced goes."""
    if get_i(log + 24) != 0:
        _settle(log)
    put_i(log + 8, 0)


@called
def undo(log: Any) -> Any:
    """The call is undone: all that it changed is as before, the last change first; the row is copied back by others."""
    entries = get_i(log)
    for k in range(get_i(log + 8) - 1, -1, -1):
        place, value = get_i(entries + 16 * k), get_i(entries + 16 * k + 8)
        if place in (NEW, PASSING):
            free(value)
        elif place != OLD:
            put_i(place, value)
    put_i(log + 8, 0)
    put_i(log + 24, 0)


@njit
def _undo_at(log: int) -> None:
    undo(log)


@njit
def _free_at(log: int) -> None:
    free(get_i(log))


class UndoLog:
    """A log as Python owns it."""

    def __init__(self) -> None:
        self._words = np.zeros(LOG_WORDS, np.int64)
        self.place: int = self._words.__array_interface__["data"][0]

    def undo(self) -> None:
        """Undoes the call at hand, if one has failed."""
        if self._words[1]:
            _undo_at(self.place)

    def __del__(self) -> None:
        if self._words[0] and not sys.is_finalizing():
            _free_at(self.place)
