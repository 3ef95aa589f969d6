"""The reorder buffer: outputs come in any order of their serials and leave in serial order (Prasaad et al., section 3).

A serial is given when a unit of work is handed out, without gaps. Whoever is done with the unit adds its output to
a bounded circular buffer and then tries to send what is next. The flag is not a lock: who finds it set leaves,
since its holder looks again after clearing it (Fig. 4).

Three orders matter. A slot is emptied before ``next`` moves on, for the window then admits that slot's next serial.
The output is added before the flag is tried, and the flag is cleared before ``next``'s slot is looked at again: each
is a write followed by a look at another word, so both operations on the flag are exchanges. And the flag is
tried without looking at it first: a look could be older than the output just added.

Departures from the figure: a loop where it recurses, and room downstream is not taken for granted. An output for
which there is none stays in the buffer; who makes room calls :func:`send_pending`.
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import (
    EMPTY,
    LINE,
    Words,
    add,
    back_off,
    load,
    shared,
    store,
    swap,
)
from thalweg.workers.lockfree.rings import power_above, spsc_free, spsc_push

#: Words of a reorder buffer: constants, then one line each for the next serial to hand out, the next serial to send
#: (moved by the flag's holder only), the flag; then the slots, of which serial s uses number ``s & mask``.
_SIZE: Final = 0
_MASK: Final = 1
_SERIAL: Final = LINE
_NEXT: Final = 2 * LINE
_FLAG: Final = 3 * LINE
_SLOTS: Final = 4 * LINE


@shared
def reorder_words(size: int) -> int:
    """The words that a reorder buffer for so many outputs (at least 1) takes, whole lines."""
    return _SLOTS + (power_above(size) + LINE - 1) // LINE * LINE


@shared
def reorder_init(mem: Words, at: int, size: int, first: int = 0) -> None:
    """Makes an empty buffer whose first serial is ``first``; no other thread may know of it yet."""
    slots = power_above(size)
    mem[at + _SIZE] = size
    mem[at + _MASK] = slots - 1
    mem[at + _SERIAL] = first
    mem[at + _NEXT] = first
    mem[at + _FLAG] = 0
    for slot in range(slots):
        mem[at + _SLOTS + slot] = EMPTY


@shared
def next_serial(mem: Words, at: int) -> int:
    """A serial for a unit of work; every one is given once, in order."""
    return add(mem, at + _SERIAL, 1)


@shared
def next_to_send(mem: Words, at: int) -> int:
    """The serial of the output that is sent next: how many have been sent, when the first serial is 0."""
    return load(mem, at + _NEXT)


@shared
def in_window(mem: Words, at: int, serial: int) -> bool:
    """The entry condition: whether an output of this serial may be added. Once true, it stays so until it is."""
    following = load(mem, at + _NEXT)
    return following <= serial < following + int(mem[at + _SIZE])


@shared
def try_add(mem: Words, at: int, serial: int, v: int) -> bool:
    """Adds the output of this serial; False when the window has not come so far."""
    if not in_window(mem, at, serial):
        return False
    store(mem, at + _SLOTS + (serial & mem[at + _MASK]), v)
    return True


@shared
def begin(mem: Words, at: int) -> bool:
    """Tries to set the flag (``test_and_set``): True makes the caller the one who sends."""
    return swap(mem, at + _FLAG, 1) == 0


@shared
def pending(mem: Words, at: int) -> int:
    """The output that is next to be sent, or EMPTY when it has not been added yet."""
    return load(mem, at + _SLOTS + (load(mem, at + _NEXT) & mem[at + _MASK]))


@shared
def advance(mem: Words, at: int) -> None:
    """The output that was next has been sent. For the holder of the flag."""
    following = load(mem, at + _NEXT)
    store(mem, at + _SLOTS + (following & mem[at + _MASK]), EMPTY)
    store(mem, at + _NEXT, following + 1)


@shared
def clear(mem: Words, at: int) -> None:
    """Clears the flag. The caller then looks at :func:`pending` again."""
    swap(mem, at + _FLAG, 0)


@shared
def _drain(mem: Words, at: int, out: int) -> None:
    v = pending(mem, at)
    while v != EMPTY and spsc_push(mem, out, v):
        advance(mem, at)
        v = pending(mem, at)


@shared
def send_pending(mem: Words, at: int, out: int) -> None:
    """Sends what is next, as far as it goes, into the SPSC ring at ``out``; leaves at once where another does so.

    On return either nothing is next, or the ring was full, or another thread is sending and will see what this one
    saw. The flag makes its holder the ring's producer. A consumer of the ring calls this after it has popped, since
    an output may have waited for the room; if it looks at :func:`pending` first, a ``fence`` must stand before.
    """
    while begin(mem, at):
        _drain(mem, at, out)
        clear(mem, at)
        if pending(mem, at) == EMPTY or spsc_free(mem, out) == 0:
            return


@shared
def send(mem: Words, at: int, serial: int, v: int, out: int) -> bool:
    """Adds the output and sends what is next; False when it could not be added and must be sent again later."""
    added = try_add(mem, at, serial, v)
    send_pending(mem, at, out)
    return added


# -- the scheme with a lock, to compare ------------------------------------------------------------------------


@shared
def _lock(mem: Words, at: int) -> None:
    tries = 0
    while not begin(mem, at):
        tries = back_off(tries)


@shared
def send_pending_locked(mem: Words, at: int, out: int) -> None:
    """:func:`send_pending` for a buffer that is used with :func:`send_locked` only."""
    _lock(mem, at)
    _drain(mem, at, out)
    clear(mem, at)


@shared
def send_locked(mem: Words, at: int, serial: int, v: int, out: int) -> bool:
    """What :func:`send` does, under a lock that makes the other threads wait (Fig. 2)."""
    _lock(mem, at)
    added = try_add(mem, at, serial, v)
    _drain(mem, at, out)
    clear(mem, at)
    return added
