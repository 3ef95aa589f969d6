"""The reorder buffer on one thread: what it admits, what it sends, and where it stops."""

from __future__ import annotations

import random

import pytest

from thalweg.workers.lockfree.atomics import EMPTY, LINE, Words, new_words
from thalweg.workers.lockfree.reorder import (
    advance,
    begin,
    clear,
    in_window,
    next_serial,
    pending,
    reorder_init,
    reorder_words,
    send,
    send_locked,
    send_pending,
    send_pending_locked,
    try_add,
)
from thalweg.workers.lockfree.rings import spsc_init, spsc_pop, spsc_words

NON_BLOCKING = (send, send_pending)
LOCK_BASED = (send_locked, send_pending_locked)


@pytest.fixture(params=[NON_BLOCKING, LOCK_BASED], ids=["non-blocking", "lock-based"])
def scheme(request: pytest.FixtureRequest):
    return request.param


def buffer_and_ring(size: int, room: int, first: int = 0) -> tuple[Words, int]:
    """A reorder buffer at 0 and, at the offset returned, the ring downstream."""
    out = reorder_words(size)
    mem = new_words(out + spsc_words(room))
    reorder_init(mem, 0, size, first)
    spsc_init(mem, out, room)
    return mem, out


def popped(mem: Words, ring: int) -> list[int]:
    return list(iter(lambda: spsc_pop(mem, ring), EMPTY))


def test_serials_begin_with_the_first() -> None:
    mem, _ = buffer_and_ring(4, 4, first=7)
    assert [next_serial(mem, 0) for _ in range(3)] == [7, 8, 9]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_window_is_exact(size: int) -> None:
    """A serial is admitted from ``next`` up to but not including ``next + size``, whatever the size."""
    mem, _ = buffer_and_ring(size, 1, first=1)
    assert [s for s in range(10) if in_window(mem, 0, s)] == list(range(1, 1 + size))
    assert not try_add(mem, 0, 1 + size, 5) and not try_add(mem, 0, 0, 5)


def test_one_thread_sends_at_a_time() -> None:
    """The steps of sending, one by one."""
    mem, _ = buffer_and_ring(2, 1)
    assert begin(mem, 0) and not begin(mem, 0)
    assert try_add(mem, 0, 1, 11) and pending(mem, 0) == EMPTY
    assert try_add(mem, 0, 0, 10) and pending(mem, 0) == 10
    advance(mem, 0)
    assert pending(mem, 0) == 11
    advance(mem, 0)
    assert pending(mem, 0) == EMPTY
    clear(mem, 0)
    assert begin(mem, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8])
def test_outputs_leave_in_serial_order(scheme, size: int) -> None:
    """Whatever the order within the window."""
    send, _ = scheme
    mem, out = buffer_and_ring(size, 64)
    chance = random.Random(size)
    waiting, sent = [], []
    for serial in range(40):
        waiting.append(serial)
        if len(waiting) == size or serial == 39:
            chance.shuffle(waiting)
            for one in waiting:
                assert send(mem, 0, one, 100 + one, out)
            waiting.clear()
            sent += popped(mem, out)
    assert sent == [100 + serial for serial in range(40)]


def test_a_full_ring_keeps_outputs_until_there_is_room(scheme) -> None:
    send, send_pending = scheme
    mem, out = buffer_and_ring(4, 2)
    assert all(send(mem, 0, serial, serial, out) for serial in range(4))
    assert not in_window(mem, 0, 6)
    sent = [spsc_pop(mem, out)]
    send_pending(mem, 0, out)
    sent += popped(mem, out)
    send_pending(mem, 0, out)
    assert [*sent, *popped(mem, out)] == [0, 1, 2, 3]
    assert begin(mem, 0), "the flag was left set"


def test_what_is_not_admitted_is_sent_again_later(scheme) -> None:
    send, _ = scheme
    mem, out = buffer_and_ring(1, LINE)
    assert not send(mem, 0, 1, 11, out)
    assert send(mem, 0, 0, 10, out) and send(mem, 0, 1, 11, out)
    assert popped(mem, out) == [10, 11]
