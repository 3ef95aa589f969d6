"""Worklists: the three kinds of partitioned queues behind one interface, and how much waits in any."""

from __future__ import annotations

from thalweg.workers.lockfree.atomics import load, shared
from thalweg.workers.lockfree.hybrid_queue import (
    hybrid_add,
    hybrid_done,
    hybrid_front,
    hybrid_hand_over,
    hybrid_len,
    hybrid_pending,
    hybrid_take,
    partitioned_add,
    partitioned_done,
    partitioned_front,
    partitioned_hand_over,
    partitioned_len,
    partitioned_pending,
    partitioned_take,
    shared_add,
    shared_done,
    shared_front,
    shared_len,
    shared_pending,
    shared_take,
)
from thalweg.workers.lockfree.rings import mpmc_len, spsc_len
from thalweg.workers.memory.layout import (
    FIRST_PORT,
    HYBRID,
    INGRESS,
    KEYED,
    KIND,
    OFFERED,
    PARTITIONED,
    PORT_WORDS,
    PORTS,
    QUEUE,
    QUEUE_KIND,
    RING,
    STATEFUL,
    STATELESS,
    Int64s,
)


@shared
def queue_add(mem: Int64s, kind: int, at: int, partition: int, handle: int) -> bool:
    if kind == HYBRID:
        return hybrid_add(mem, at, partition, handle)
    if kind == PARTITIONED:
        return partitioned_add(mem, at, partition, handle)
    return shared_add(mem, at, partition, handle)


@shared
def queue_take(mem: Int64s, kind: int, at: int, start: int) -> int:
    """A partition that the caller owns from now on, or EMPTY."""
    if kind == HYBRID:
        return hybrid_take(mem, at)
    if kind == PARTITIONED:
        return partitioned_take(mem, at, start)
    return shared_take(mem, at)


@shared
def queue_front(mem: Int64s, kind: int, at: int, partition: int) -> int:
    if kind == HYBRID:
        return hybrid_front(mem, at, partition)
    if kind == PARTITIONED:
        return partitioned_front(mem, at, partition)
    return shared_front(mem, at, partition)


@shared
def queue_done(mem: Int64s, kind: int, at: int, partition: int) -> bool:
    """Whether the owner goes on with the partition."""
    if kind == HYBRID:
        return hybrid_done(mem, at, partition)
    if kind == PARTITIONED:
        return partitioned_done(mem, at, partition)
    return shared_done(mem, at, partition)


@shared
def queue_hand_over(mem: Int64s, kind: int, at: int, partition: int) -> None:
    """Leaves a partition with units in its queue to others; an owner in the shared queue has one unit only."""
    if kind == HYBRID:
        hybrid_hand_over(mem, at, partition)
    elif kind == PARTITIONED:
        partitioned_hand_over(mem, at, partition)


@shared
def queue_pending(mem: Int64s, kind: int, at: int, partition: int) -> int:
    if kind == HYBRID:
        return hybrid_pending(mem, at, partition)
    if kind == PARTITIONED:
        return partitioned_pending(mem, at, partition)
    return shared_pending(mem, at, partition)


@shared
def queue_len(mem: Int64s, kind: int, at: int) -> int:
    if kind == HYBRID:
        return hybrid_len(mem, at)
    if kind == PARTITIONED:
        return partitioned_len(mem, at)
    return shared_len(mem, at)


@shared
def waiting_units(mem: Int64s, o: int) -> int:
    """How many units an operator's worklist holds, about."""
    kind = mem[o + KIND]
    if kind == STATELESS:
        return mpmc_len(mem, mem[o + QUEUE])
    if kind == KEYED:
        return queue_len(mem, mem[o + QUEUE_KIND], mem[o + QUEUE])
    if kind == STATEFUL:
        return spsc_len(mem, mem[mem[PORTS] + mem[o + FIRST_PORT] * PORT_WORDS + RING])
    if kind == INGRESS:
        return min(load(mem, o + OFFERED), 1)
    return 0
