"""Bounded rings of items: one for many producers and consumers, one for a single pair at a time.

The MPMC ring is Vyukov's bounded queue with the stamps of crossbeam's ``ArrayQueue``: a position is a lap (a
multiple of a power of two above the capacity) plus an index, so every capacity from 1 on works, without a
division. The SPSC ring is Lamport's, with each side's last look at the other's position beside its own; its two
try-locks let any thread be the one producer or consumer for a while (Schneider & Wu, Fig. 2).

Items are int64 and not negative; EMPTY stands for none. Nothing here waits, except a push for the last
instructions of a pop (see :func:`mpmc_push`).
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import EMPTY, LINE, Words, back_off, cas, load, shared, store

# -- many producers, many consumers ----------------------------------------------------------------------------

#: Words of an MPMC ring. Constants, the two positions (a line each), then per slot a stamp and an item.
#: A slot is free for the push at position ``stamp``, or holds the item for the pop at ``stamp - 1``.
_CAPACITY: Final = 0
_LAP: Final = 1
_HEAD: Final = LINE
_TAIL: Final = 2 * LINE
_SLOTS: Final = 3 * LINE


@shared
def power_above(number: int) -> int:
    """The least power of two that is not less than the number."""
    power = 1
    while power < number:
        power *= 2
    return power


@shared
def mpmc_words(capacity: int) -> int:
    """The words that an MPMC ring of so many items (at least 1) takes, whole lines."""
    return _SLOTS + (2 * capacity + LINE - 1) // LINE * LINE


@shared
def mpmc_init(mem: Words, at: int, capacity: int) -> None:
    """Makes an empty ring; no other thread may know of it yet."""
    mem[at + _CAPACITY] = capacity
    mem[at + _LAP] = power_above(capacity + 1)
    mem[at + _HEAD] = 0
    mem[at + _TAIL] = 0
    for slot in range(capacity):
        mem[at + _SLOTS + 2 * slot] = slot


@shared
def _following(position: int, lap: int, capacity: int) -> int:
    if (position & (lap - 1)) + 1 < capacity:
        return position + 1
    return (position & -lap) + lap


@shared
def mpmc_push(mem: Words, at: int, v: int) -> bool:
    """Puts the item at the tail; False only when the ring is full.

    A pop that has taken its position but not yet freed its slot (two instructions) is waited for: "full" must not
    be said of a ring with room, since some rings are made so that they always have room.
    """
    capacity, lap = mem[at + _CAPACITY], mem[at + _LAP]
    tries = 0
    while True:
        tail = load(mem, at + _TAIL)
        slot = at + _SLOTS + 2 * (tail & (lap - 1))
        if load(mem, slot) == tail:
            if cas(mem, at + _TAIL, tail, _following(tail, lap, capacity)):
                store(mem, slot + 1, v)
                store(mem, slot, tail + 1)
                return True
        elif load(mem, at + _HEAD) + lap == tail:
            return False
        else:
            tries = back_off(tries)


@shared
def mpmc_pop(mem: Words, at: int) -> int:
    """Takes the item at the head, or EMPTY.

    EMPTY also when a push has taken the position at the head but not yet put its item there: that push is still
    running, and who pushes tells the sleepers afterwards.
    """
    capacity, lap = mem[at + _CAPACITY], mem[at + _LAP]
    while True:
        head = load(mem, at + _HEAD)
        slot = at + _SLOTS + 2 * (head & (lap - 1))
        if load(mem, slot) == head + 1:
            if cas(mem, at + _HEAD, head, _following(head, lap, capacity)):
                v = load(mem, slot + 1)
                store(mem, slot, head + lap)
                return v
        elif load(mem, at + _HEAD) == head:
            return EMPTY


@shared
def mpmc_len(mem: Words, at: int) -> int:
    """The number of items at some moment during the call."""
    capacity, lap = mem[at + _CAPACITY], mem[at + _LAP]
    while True:
        tail = load(mem, at + _TAIL)
        head = load(mem, at + _HEAD)
        if load(mem, at + _TAIL) == tail:
            indices: int = (tail & (lap - 1)) - (head & (lap - 1))
            return indices if tail & -lap == head & -lap else indices + capacity


# -- one producer, one consumer at a time ----------------------------------------------------------------------

#: Words of an SPSC ring. Constants; the consumer's line: the number of items popped so far and its last look at
#: the number pushed; the producer's line, likewise; the two locks, a line each; the items.
_ROOM: Final = 0
_MASK: Final = 1
_POPPED: Final = LINE
_SEEN_PUSHED: Final = LINE + 1
_PUSHED: Final = 2 * LINE
_SEEN_POPPED: Final = 2 * LINE + 1
_CONSUMER: Final = 3 * LINE
_PRODUCER: Final = 4 * LINE
_ITEMS: Final = 5 * LINE


@shared
def spsc_words(capacity: int) -> int:
    """The words that an SPSC ring of so many items (at least 1) takes, whole lines."""
    return _ITEMS + (power_above(capacity) + LINE - 1) // LINE * LINE


@shared
def spsc_init(mem: Words, at: int, capacity: int) -> None:
    """Makes an empty ring with both locks free; no other thread may know of it yet."""
    for word in range(_ITEMS):
        mem[at + word] = 0
    mem[at + _ROOM] = capacity
    mem[at + _MASK] = power_above(capacity) - 1


@shared
def spsc_push(mem: Words, at: int, v: int) -> bool:
    """Puts the item at the tail; False when the ring is full. For the one producer."""
    pushed = load(mem, at + _PUSHED)
    if pushed - mem[at + _SEEN_POPPED] >= mem[at + _ROOM]:
        mem[at + _SEEN_POPPED] = load(mem, at + _POPPED)
        if pushed - mem[at + _SEEN_POPPED] >= mem[at + _ROOM]:
            return False
    store(mem, at + _ITEMS + (pushed & mem[at + _MASK]), v)
    store(mem, at + _PUSHED, pushed + 1)
    return True


@shared
def spsc_peek(mem: Words, at: int) -> int:
    """The item at the head, which stays, or EMPTY. For the one consumer."""
    popped = load(mem, at + _POPPED)
    if popped == mem[at + _SEEN_PUSHED]:
        mem[at + _SEEN_PUSHED] = load(mem, at + _PUSHED)
        if popped == mem[at + _SEEN_PUSHED]:
            return EMPTY
    return load(mem, at + _ITEMS + (popped & mem[at + _MASK]))


@shared
def spsc_pop(mem: Words, at: int) -> int:
    """Takes the item at the head, or EMPTY. For the one consumer."""
    v = spsc_peek(mem, at)
    if v != EMPTY:
        store(mem, at + _POPPED, load(mem, at + _POPPED) + 1)
    return v


@shared
def spsc_pushed(mem: Words, at: int) -> int:
    """The number of items ever pushed. For any thread."""
    return load(mem, at + _PUSHED)


@shared
def spsc_len(mem: Words, at: int) -> int:
    """The number of items; others may change it at once. For any thread, and never below 0."""
    popped = load(mem, at + _POPPED)
    return load(mem, at + _PUSHED) - popped


@shared
def spsc_free(mem: Words, at: int) -> int:
    """The room left; others may change it at once. For any thread, and never above the capacity."""
    return int(mem[at + _ROOM]) - spsc_len(mem, at)


@shared
def _try_lock(mem: Words, i: int) -> bool:
    # Looking first keeps a held lock's line shared between those who only find it held.
    return load(mem, i) == 0 and cas(mem, i, 0, 1)


@shared
def lock_consumer(mem: Words, at: int) -> bool:
    """Tries to become the one consumer."""
    return _try_lock(mem, at + _CONSUMER)


@shared
def unlock_consumer(mem: Words, at: int) -> None:
    """Stops being the one consumer."""
    store(mem, at + _CONSUMER, 0)


@shared
def lock_producer(mem: Words, at: int) -> bool:
    """Tries to become the one producer."""
    return _try_lock(mem, at + _PRODUCER)


@shared
def unlock_producer(mem: Words, at: int) -> None:
    """Stops being the one producer."""
    store(mem, at + _PRODUCER, 0)
