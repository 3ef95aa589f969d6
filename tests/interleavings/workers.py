"""What threads do with the structures, in the shape in which an engine's workers do it.

Loaded as plain Python by :mod:`tests.interleavings.plain`, like the structures, so that a test may change them, too.
"""

from __future__ import annotations

from collections.abc import Callable

from thalweg.workers.lockfree.atomics import EMPTY, Words, relax
from thalweg.workers.lockfree.hybrid_queue import (
    hybrid_done,
    hybrid_front,
    hybrid_hand_over,
    hybrid_take,
    partitioned_done,
    partitioned_front,
    partitioned_hand_over,
    partitioned_take,
    shared_done,
    shared_front,
    shared_take,
)
from thalweg.workers.lockfree.parking import cancel, park, prepare, unpark
from thalweg.workers.lockfree.reorder import (
    next_serial,
    send,
    send_locked,
    send_pending,
    send_pending_locked,
)
from thalweg.workers.lockfree.rings import (
    lock_consumer,
    lock_producer,
    mpmc_pop,
    mpmc_push,
    spsc_pop,
    spsc_push,
    unlock_consumer,
    unlock_producer,
)

#: Does something with a tuple of a partition.
Operate = Callable[[int, int], None]
FOR_EVER = -1

# -- rings -----------------------------------------------------------------------------------------------------


def push_alone(mem: Words, ring: int, v: int) -> bool:
    """Pushes as the one producer, if nobody else is (Schneider & Wu, Fig. 2)."""
    if not lock_producer(mem, ring):
        return False
    pushed = spsc_push(mem, ring, v)
    unlock_producer(mem, ring)
    return pushed


def pop_alone(mem: Words, ring: int) -> int:
    """Pops as the one consumer, if nobody else is."""
    if not lock_consumer(mem, ring):
        return EMPTY
    v = spsc_pop(mem, ring)
    unlock_consumer(mem, ring)
    return v


# -- reorder buffer --------------------------------------------------------------------------------------------


def process_and_send(mem: Words, buffer: int, out: int, base: int) -> None:
    """One unit of work: takes a serial, and sends base + serial until it is accepted."""
    serial = next_serial(mem, buffer)
    while not send(mem, buffer, serial, base + serial, out):
        relax()


def process_and_send_locked(mem: Words, buffer: int, out: int, base: int) -> None:
    """:func:`process_and_send` by the scheme with a lock."""
    serial = next_serial(mem, buffer)
    while not send_locked(mem, buffer, serial, base + serial, out):
        relax()


def pop_and_make_room(mem: Words, buffer: int, out: int) -> int:
    """Pops downstream of the buffer, then sends what may have waited for the room."""
    v = spsc_pop(mem, out)
    send_pending(mem, buffer, out)
    return v


def pop_and_make_room_locked(mem: Words, buffer: int, out: int) -> int:
    """:func:`pop_and_make_room` by the scheme with a lock."""
    v = spsc_pop(mem, out)
    send_pending_locked(mem, buffer, out)
    return v


# -- queues of keyed operators ---------------------------------------------------------------------------------


def consume_hybrid(mem: Words, at: int, operate: Operate) -> None:
    """``consumeInputs`` (Prasaad et al., Fig. 7): works until there is nothing to take."""
    p = hybrid_take(mem, at)
    while p != EMPTY:
        operate(p, hybrid_front(mem, at, p))
        while hybrid_done(mem, at, p):
            operate(p, hybrid_front(mem, at, p))
        p = hybrid_take(mem, at)


def consume_hybrid_by_turns(mem: Words, at: int, operate: Operate) -> None:
    """The same, but leaves a partition to others after each of its tuples."""
    p = hybrid_take(mem, at)
    while p != EMPTY:
        operate(p, hybrid_front(mem, at, p))
        if hybrid_done(mem, at, p):
            hybrid_hand_over(mem, at, p)
        p = hybrid_take(mem, at)


def consume_partitioned(mem: Words, at: int, operate: Operate) -> None:
    """Goes round the partitions until there is nothing to take."""
    p = partitioned_take(mem, at, 0)
    while p != EMPTY:
        operate(p, partitioned_front(mem, at, p))
        while partitioned_done(mem, at, p):
            operate(p, partitioned_front(mem, at, p))
        p = partitioned_take(mem, at, p)


def consume_partition(mem: Words, at: int, operate: Operate) -> None:
    """Works one partition off and goes elsewhere."""
    p = partitioned_take(mem, at, 0)
    more = p != EMPTY
    while more:
        operate(p, partitioned_front(mem, at, p))
        more = partitioned_done(mem, at, p)


def consume_partitioned_by_turns(mem: Words, at: int, operate: Operate) -> None:
    """The same, but leaves a partition to others after each of its tuples."""
    p = partitioned_take(mem, at, 0)
    while p != EMPTY:
        operate(p, partitioned_front(mem, at, p))
        if partitioned_done(mem, at, p):
            partitioned_hand_over(mem, at, p)
        p = partitioned_take(mem, at, p)


def consume_shared(mem: Words, at: int, operate: Operate, tries: int) -> None:
    """Takes so often: an EMPTY of this queue does not say that nothing is left."""
    for _ in range(tries):
        p = shared_take(mem, at)
        if p != EMPTY:
            operate(p, shared_front(mem, at, p))
            shared_done(mem, at, p)


# -- parking ---------------------------------------------------------------------------------------------------


def push_and_wake(mem: Words, parking: int, ring: int, v: int) -> None:
    """Makes work available and tells the sleepers."""
    mpmc_push(mem, ring, v)
    unpark(mem, parking)


def pop_or_sleep(mem: Words, parking: int, ring: int) -> int:
    """The next item; sleeps while there is none."""
    v = mpmc_pop(mem, ring)
    while v == EMPTY:
        key = prepare(mem, parking)
        v = mpmc_pop(mem, ring)
        if v != EMPTY:
            cancel(mem, parking)
        else:
            park(mem, parking, key, FOR_EVER)
            v = mpmc_pop(mem, ring)
    return v
