"""The compiled reorder buffer, queues of keyed operators and event count between real threads."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stress.pinned import ITEMS, run_pinned

from thalweg.jit import njit
from thalweg.workers.lockfree import hybrid_queue as buckets
from thalweg.workers.lockfree.atomics import (
    EMPTY,
    LINE,
    Words,
    add,
    back_off,
    load,
    new_words,
    relax,
    store,
)
from thalweg.workers.lockfree.parking import (
    cancel,
    park,
    parking_init,
    parking_words,
    prepare,
    unpark,
)
from thalweg.workers.lockfree.reorder import (
    next_serial,
    reorder_init,
    reorder_words,
    send,
    send_locked,
    send_pending,
    send_pending_locked,
)
from thalweg.workers.lockfree.rings import (
    mpmc_init,
    mpmc_pop,
    mpmc_push,
    mpmc_words,
    spsc_init,
    spsc_pop,
    spsc_words,
)
from thalweg.workers.memory.layout import HYBRID, PARTITIONED, SHARED
from thalweg.workers.worker_loop.worklists import (
    queue_add,
    queue_done,
    queue_front,
    queue_hand_over,
    queue_pending,
    queue_take,
)

# -- the reorder buffer ----------------------------------------------------------------------------------------


@njit
def process(mem: Words, buffer: int, out: int, units: int, locked: bool) -> int:
    """Takes serials and sends them on, after work of varying length."""
    serial = next_serial(mem, buffer)
    while serial < units:
        for _ in range(serial * 7919 % 13):
            relax()
        tries = 0
        while True:
            if locked:
                sent = send_locked(mem, buffer, serial, serial, out)
            else:
                sent = send(mem, buffer, serial, serial, out)
            if sent:
                break
            tries = back_off(tries)
        serial = next_serial(mem, buffer)
    return 0


@njit
def receive(mem: Words, buffer: int, out: int, units: int, locked: bool) -> int:
    """How many outputs did not come in their place."""
    bad, tries, expected = 0, 0, 0
    while expected < units:
        v = spsc_pop(mem, out)
        if v == EMPTY:
            tries = back_off(tries)
        else:
            tries = 0
            bad += v != expected
            expected += 1
        if locked:
            send_pending_locked(mem, buffer, out)
        else:
            send_pending(mem, buffer, out)
    return bad


@pytest.mark.parametrize("units", ITEMS)
@pytest.mark.parametrize("locked", [False, True], ids=["non-blocking", "lock-based"])
@pytest.mark.parametrize(("workers", "size", "room"), [(1, 1, 1), (2, 16, 4), (3, 5, 64)])
def test_outputs_leave_in_serial_order(
    workers: int, size: int, room: int, locked: bool, units: int
) -> None:
    out = reorder_words(size)
    mem = new_words(out + spsc_words(room))
    reorder_init(mem, 0, size)
    spsc_init(mem, out, room)
    units //= 4
    bodies = [lambda: process(mem, 0, out, units, locked)] * workers
    assert run_pinned([*bodies, lambda: receive(mem, 0, out, units, locked)]) == [0] * (workers + 1)


# -- queues of keyed operators ---------------------------------------------------------------------------------

PARTITIONS, DEPTH = 8, 16
KINDS = {"hybrid": HYBRID, "partitioned": PARTITIONED, "shared": SHARED}
QUEUE = LINE


@njit
def partition_of(i: int) -> int:
    """Half of the tuples belong to partition 0."""
    return 0 if i % 2 == 0 else i * 2654435761 // 65536 % PARTITIONS


@njit
def produce(kind: int, mem: Words, tuples: int) -> int:
    """Adds places in the sequence of their partition, keeping to the depth; how many were refused."""
    added = np.zeros(PARTITIONS, np.int64)
    refused = 0
    for i in range(tuples):
        p = partition_of(i)
        tries = 0
        while queue_pending(mem, kind, QUEUE, p) >= DEPTH:
            tries = back_off(tries)
        refused += not queue_add(mem, kind, QUEUE, p, added[p])
        added[p] += 1
    store(mem, 0, 1)
    for p in range(PARTITIONS):
        tries = 0
        while queue_pending(mem, kind, QUEUE, p) > 0:
            tries = back_off(tries)
    store(mem, 0, 2)
    return refused


@njit
def consume(kind: int, mem: Words, next_place: Words, turns: int) -> int:
    """Until all is done; how many tuples did not come in their place. What is known of a partition is not protected."""
    bad, tries, p = 0, 0, 0
    while load(mem, 0) < 2:
        p = queue_take(mem, kind, QUEUE, max(p, 0))
        if p == EMPTY:
            tries = back_off(tries)
            continue
        tries = 0
        more, left = True, turns
        while more and left > 0:
            bad += queue_front(mem, kind, QUEUE, p) != next_place[LINE * p]
            next_place[LINE * p] += 1
            more = queue_done(mem, kind, QUEUE, p)
            left -= 1
        if more:
            queue_hand_over(mem, kind, QUEUE, p)
    return bad


@pytest.mark.parametrize("tuples", ITEMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workers", "turns"), [(1, 3), (2, 1), (3, 1000)])
def test_partitions_are_worked_off_in_order(
    kind: str, workers: int, turns: int, tuples: int
) -> None:
    words, init = (getattr(buckets, f"{kind}_{verb}") for verb in ("words", "init"))
    mem, next_place = new_words(LINE + words(PARTITIONS, DEPTH)), new_words(LINE * PARTITIONS)
    init(mem, QUEUE, PARTITIONS, DEPTH)
    tuples //= 4
    queue = KINDS[kind]
    bodies = [lambda: consume(queue, mem, next_place, turns)] * workers
    assert run_pinned([lambda: produce(queue, mem, tuples), *bodies]) == [0] * (workers + 1)
    assert next_place.sum() == tuples


# -- the event count -------------------------------------------------------------------------------------------

PARKING = LINE
RING = PARKING + parking_words()
#: Beyond the time limit of the test: a lost wake-up fails by that.
FOR_EVER_US = 3_600_000_000


@njit
def hand_out(mem: Words, items: int) -> int:
    """One item at a time, the next when that has been taken, so that the others sleep over and over."""
    for i in range(items):
        mpmc_push(mem, RING, i)
        unpark(mem, PARKING)
        tries = 0
        while load(mem, 0) <= i:
            tries = back_off(tries)
    return 0


@njit
def sleep_until_all_is_taken(mem: Words, items: int) -> int:
    """How many items it took."""
    took = 0
    while True:
        key = prepare(mem, PARKING)
        v = mpmc_pop(mem, RING)
        over = load(mem, 0) == items
        if v == EMPTY and not over:
            park(mem, PARKING, key, FOR_EVER_US)
            continue
        cancel(mem, PARKING)
        if over:
            return took
        took += 1
        if add(mem, 0, 1) + 1 == items:
            unpark(mem, PARKING)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("items", [20_000, pytest.param(500_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sleepers", [1, 2])
def test_no_wake_up_is_lost(sleepers: int, items: int) -> None:
    mem = new_words(RING + mpmc_words(1))
    parking_init(mem, PARKING)
    mpmc_init(mem, RING, 1)
    bodies = [lambda: sleep_until_all_is_taken(mem, items)] * sleepers
    assert sum(run_pinned([lambda: hand_out(mem, items), *bodies])) == items
