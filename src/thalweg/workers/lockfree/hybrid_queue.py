"""Queues of a keyed operator: the tuples of a partition one after the other, partitions in parallel.

Prasaad et al., section 4. Three kinds with the same verbs, so that a worker may hold any of them. ``add`` is for the
one producer. ``take`` gives the caller a partition that has a tuple waiting, and makes it that partition's one owner;
``front`` gives the owner that tuple, and ``done`` says that it is processed completely. While ``done`` returns True
the caller still owns the partition and calls ``front`` again, or leaves the rest to others by ``hand_over``.

The *hybrid queue* (Fig. 7) takes partitions in the order in which their tuples came; who takes a partition
that has an owner delegates the tuple to it and goes on. The *partitioned queue* (Fig. 6) goes round the partitions;
the *shared queue* (Fig. 5) is stuck behind a tuple whose partition is being worked on. Those two are here to compare.

``depth`` is the room for tuples of one partition. The caller keeps to it: an ``add`` beyond it returns False.
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import EMPTY, LINE, Words, add, fence, load, shared, store
from thalweg.workers.lockfree.rings import (
    lock_consumer,
    mpmc_init,
    mpmc_len,
    mpmc_pop,
    mpmc_push,
    mpmc_words,
    spsc_free,
    spsc_init,
    spsc_len,
    spsc_peek,
    spsc_pop,
    spsc_push,
    spsc_pushed,
    spsc_words,
    unlock_consumer,
)

#: Constants of every kind, at its first line: the number of partitions, and the words of a partition's area.
_PARTITIONS: Final = 0
_STRIDE: Final = 1
_AREAS: Final = LINE

#: A partition's area. The tuples processed completely, counted by the owner; the owner's line, which is the
#: hybrid queue's ``count`` (tuples delegated or being worked on) or the shared queue's lock and the tuple taken; the
#: tuples (of the shared queue: their number, counted by the producer).
_DONE: Final = 0
_COUNT: Final = LINE
_BUSY: Final = LINE
_HELD: Final = LINE + 1
_QUEUE: Final = 2 * LINE
_ADDED: Final = 2 * LINE


@shared
def _areas_init(mem: Words, at: int, partitions: int, stride: int) -> int:
    """Writes the constants, zeroes the areas and returns where they end."""
    mem[at + _PARTITIONS] = partitions
    mem[at + _STRIDE] = stride
    end = at + _AREAS + partitions * stride
    for word in range(at + _AREAS, end):
        mem[word] = 0
    return end


@shared
def _area(mem: Words, at: int, p: int) -> int:
    return at + _AREAS + p * int(mem[at + _STRIDE])


@shared
def _end(mem: Words, at: int) -> int:
    return _area(mem, at, int(mem[at + _PARTITIONS]))


@shared
def _count_done(mem: Words, area: int) -> None:
    # The owner is the only writer, and has the word from its predecessor with the ownership.
    store(mem, area + _DONE, load(mem, area + _DONE) + 1)


@shared
def _unfinished(mem: Words, at: int, p: int) -> int:
    area = _area(mem, at, p)
    done = load(mem, area + _DONE)
    return spsc_pushed(mem, area + _QUEUE) - done


# -- the hybrid queue ------------------------------------------------------------------------------------------

# Behind the areas stand the *resumed ring*, of partitions whose owner left while tuples were delegated to it, and the
# *master queue*, with an entry for every tuple that nobody has taken or delegated yet. Neither can overflow: a
# partition is handed over by its one owner, and a tuple leaves its partition's queue after its entry has gone.


@shared
def hybrid_words(partitions: int, depth: int) -> int:
    """The words that a hybrid queue takes, whole lines."""
    areas = partitions * (_QUEUE + spsc_words(depth))
    return _AREAS + areas + mpmc_words(partitions) + mpmc_words(partitions * depth)


@shared
def hybrid_init(mem: Words, at: int, partitions: int, depth: int) -> None:
    """Makes an empty queue; no other thread may know of it yet."""
    resumed = _areas_init(mem, at, partitions, _QUEUE + spsc_words(depth))
    for p in range(partitions):
        spsc_init(mem, _area(mem, at, p) + _QUEUE, depth)
    mpmc_init(mem, resumed, partitions)
    mpmc_init(mem, resumed + mpmc_words(partitions), partitions * depth)


@shared
def _master(mem: Words, at: int) -> int:
    return _end(mem, at) + mpmc_words(int(mem[at + _PARTITIONS]))


@shared
def hybrid_add(mem: Words, at: int, p: int, v: int) -> bool:
    """Adds a tuple (``addInput``): to its partition's queue first, for a taken entry must find its tuple."""
    return spsc_push(mem, _area(mem, at, p) + _QUEUE, v) and mpmc_push(mem, _master(mem, at), p)


@shared
def hybrid_take(mem: Words, at: int) -> int:
    """A partition that the caller now owns, with a tuple waiting, or EMPTY.

    Resumed partitions come first, then the master queue, whose entries of partitions that have an owner are delegated
    to it on the way.
    """
    p = mpmc_pop(mem, _end(mem, at))
    if p != EMPTY:
        return p  # its count never fell to 0: the ownership came along
    p = mpmc_pop(mem, _master(mem, at))
    while p != EMPTY and add(mem, _area(mem, at, p) + _COUNT, 1) != 0:
        p = mpmc_pop(mem, _master(mem, at))
    return p


@shared
def hybrid_front(mem: Words, at: int, p: int) -> int:
    """Dequeues the partition's next tuple. For the owner, once after ``take`` and after each ``done`` that was True."""
    return spsc_pop(mem, _area(mem, at, p) + _QUEUE)


@shared
def hybrid_done(mem: Words, at: int, p: int) -> bool:
    """The tuple is processed completely; whether more were delegated, which keeps the caller the owner."""
    area = _area(mem, at, p)
    _count_done(mem, area)
    return add(mem, area + _COUNT, -1) > 1


@shared
def hybrid_hand_over(mem: Words, at: int, p: int) -> None:
    """The owner leaves, with tuples delegated to it or one half done: who takes the partition next owns it.

    Not by way of the master queue's tail, where the partition would wait behind newer tuples, and whoever took it
    would take its own delegated tuples for another owner's.
    """
    mpmc_push(mem, _end(mem, at), p)


@shared
def hybrid_len(mem: Words, at: int) -> int:
    """How much there is to take, about: entries of the master queue and resumed partitions.

    Delegated tuples do not count.
    """
    return mpmc_len(mem, _end(mem, at)) + mpmc_len(mem, _master(mem, at))


@shared
def hybrid_pending(mem: Words, at: int, p: int) -> int:
    """The partition's tuples that were added and are not done. For the producer: never less than there are.

    So at 0 nobody works on the partition, and all that was done on it can be seen.
    """
    return _unfinished(mem, at, p)


# -- the partitioned queue -------------------------------------------------------------------------------------

# Who holds the consumer lock of a partition's queue owns the partition.


@shared
def partitioned_words(partitions: int, depth: int) -> int:
    """The words that a partitioned queue takes, whole lines."""
    return _AREAS + partitions * (_QUEUE + spsc_words(depth))


@shared
def partitioned_init(mem: Words, at: int, partitions: int, depth: int) -> None:
    """Makes an empty queue; no other thread may know of it yet."""
    _areas_init(mem, at, partitions, _QUEUE + spsc_words(depth))
    for p in range(partitions):
        spsc_init(mem, _area(mem, at, p) + _QUEUE, depth)


@shared
def partitioned_add(mem: Words, at: int, p: int, v: int) -> bool:
    """Adds a tuple to its partition's queue."""
    return spsc_push(mem, _area(mem, at, p) + _QUEUE, v)


@shared
def _own(mem: Words, queue: int) -> bool:
    """Tries to own a partition that has a tuple waiting."""
    while spsc_len(mem, queue) > 0 and lock_consumer(mem, queue):
        if spsc_peek(mem, queue) != EMPTY:
            return True
        _disown(mem, queue)
    return False


@shared
def _disown(mem: Words, queue: int) -> None:
    # Who finds the lock held leaves the queue to its holder, which therefore looks at the queue again afterwards.
    unlock_consumer(mem, queue)
    fence()


@shared
def partitioned_take(mem: Words, at: int, start: int) -> int:
    """A partition that the caller now owns, with a tuple waiting, or EMPTY; the first one round from ``start``."""
    p = start
    for _ in range(mem[at + _PARTITIONS]):
        if _own(mem, _area(mem, at, p) + _QUEUE):
            return p
        p += 1
        if p == mem[at + _PARTITIONS]:
            p = 0
    return EMPTY


@shared
def partitioned_front(mem: Words, at: int, p: int) -> int:
    """Dequeues the partition's next tuple. For the owner, once after ``take`` and after each ``done`` that was True."""
    return spsc_pop(mem, _area(mem, at, p) + _QUEUE)


@shared
def partitioned_done(mem: Words, at: int, p: int) -> bool:
    """The tuple is processed completely; whether there are more, which keeps the caller the owner."""
    area = _area(mem, at, p)
    _count_done(mem, area)
    if spsc_peek(mem, area + _QUEUE) != EMPTY:
        return True
    _disown(mem, area + _QUEUE)
    return _own(mem, area + _QUEUE)


@shared
def partitioned_hand_over(mem: Words, at: int, p: int) -> None:
    """The owner leaves the partition to whoever takes it next."""
    unlock_consumer(mem, _area(mem, at, p) + _QUEUE)


@shared
def partitioned_len(mem: Words, at: int) -> int:
    """The tuples waiting, about."""
    waiting = 0
    for p in range(mem[at + _PARTITIONS]):
        waiting += spsc_len(mem, _area(mem, at, p) + _QUEUE)
    return waiting


@shared
def partitioned_pending(mem: Words, at: int, p: int) -> int:
    """The partition's tuples that were added and are not done. For the producer: never less than there are."""
    return _unfinished(mem, at, p)


# -- the shared queue ------------------------------------------------------------------------------------------

# One SPSC ring behind the areas, of partition and tuple in turn. Its consumer lock makes one step of dequeuing a tuple
# and owning its partition.

_SHARED_AREA: Final = 3 * LINE


@shared
def shared_words(partitions: int, depth: int) -> int:
    """The words that a shared queue takes, whole lines."""
    return _AREAS + partitions * _SHARED_AREA + spsc_words(2 * partitions * depth)


@shared
def shared_init(mem: Words, at: int, partitions: int, depth: int) -> None:
    """Makes an empty queue; no other thread may know of it yet."""
    spsc_init(mem, _areas_init(mem, at, partitions, _SHARED_AREA), 2 * partitions * depth)


@shared
def shared_add(mem: Words, at: int, p: int, v: int) -> bool:
    """Adds a tuple."""
    queue, area = _end(mem, at), _area(mem, at, p)
    if spsc_free(mem, queue) < 2:
        return False
    store(mem, area + _ADDED, load(mem, area + _ADDED) + 1)
    return spsc_push(mem, queue, p) and spsc_push(mem, queue, v)


@shared
def _take_head(mem: Words, at: int, queue: int) -> int:
    """Owns the head's partition and holds its tuple; EMPTY without a whole pair or where the partition has an owner."""
    if spsc_len(mem, queue) < 2:
        return EMPTY
    p = spsc_peek(mem, queue)
    area = _area(mem, at, p)
    if load(mem, area + _BUSY) != 0:
        return EMPTY
    store(mem, area + _BUSY, 1)
    spsc_pop(mem, queue)
    store(mem, area + _HELD, spsc_pop(mem, queue))
    return p


@shared
def shared_take(mem: Words, at: int) -> int:
    """A partition that the caller now owns, with a tuple waiting, or EMPTY.

    EMPTY also when the head's partition has an owner, or another thread is taking at the moment.
    """
    queue = _end(mem, at)
    if not lock_consumer(mem, queue):
        return EMPTY
    p = _take_head(mem, at, queue)
    unlock_consumer(mem, queue)
    return p


@shared
def shared_front(mem: Words, at: int, p: int) -> int:
    """The tuple that was taken with the partition. For the owner."""
    return load(mem, _area(mem, at, p) + _HELD)


@shared
def shared_done(mem: Words, at: int, p: int) -> bool:
    """The tuple is processed completely. False: the caller no longer owns the partition, and should take again."""
    area = _area(mem, at, p)
    _count_done(mem, area)
    store(mem, area + _BUSY, 0)
    return False


@shared
def shared_len(mem: Words, at: int) -> int:
    """The tuples waiting, about."""
    return spsc_len(mem, _end(mem, at)) // 2


@shared
def shared_pending(mem: Words, at: int, p: int) -> int:
    """The partition's tuples that were added and are not done. For the producer: never less than there are."""
    area = _area(mem, at, p)
    done = load(mem, area + _DONE)
    return load(mem, area + _ADDED) - done
