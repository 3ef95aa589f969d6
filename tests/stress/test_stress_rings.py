"""Compiled rings between real threads: every item once, and those of one producer in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from tests.stress.pinned import ITEMS, run_pinned

from thalweg.jit import njit
from thalweg.workers.lockfree.atomics import EMPTY, LINE, Words, add, back_off, load, new_words
from thalweg.workers.lockfree.rings import (
    lock_consumer,
    lock_producer,
    mpmc_init,
    mpmc_pop,
    mpmc_push,
    mpmc_words,
    spsc_init,
    spsc_pop,
    spsc_push,
    spsc_words,
    unlock_consumer,
    unlock_producer,
)

#: How often each item came; an item is producer * items + place in that producer's sequence.
Seen = npt.NDArray[np.int8]
RING = LINE


@njit
def push_mpmc(mem: Words, producer: int, items: int) -> int:
    for i in range(items):
        tries = 0
        while not mpmc_push(mem, RING, producer * items + i):
            tries = back_off(tries)
    return 0


@njit
def pop_mpmc(mem: Words, producers: int, items: int, seen: Seen) -> int:
    """Pops until all have been popped; how often an item came before one that its producer pushed earlier."""
    last = np.full(producers, -1)
    tries, bad = 0, 0
    while load(mem, 0) < producers * items:
        v = mpmc_pop(mem, RING)
        if v == EMPTY:
            tries = back_off(tries)
            continue
        tries = 0
        add(mem, 0, 1)
        seen[v] += 1
        bad += last[v // items] >= v % items
        last[v // items] = v % items
    return bad


@njit
def push_spsc(mem: Words, producer: int, items: int) -> int:
    i, tries = 0, 0
    while i < items:
        if lock_producer(mem, RING):
            while i < items and spsc_push(mem, RING, producer * items + i):
                i += 1
                tries = 0
            unlock_producer(mem, RING)
        tries = back_off(tries)
    return 0


@njit
def pop_spsc(mem: Words, producers: int, items: int, seen: Seen, last: Words) -> int:
    """As :func:`pop_mpmc`; the last items are shared by the consumers, since they pop one at a time."""
    tries, bad = 0, 0
    while load(mem, 0) < producers * items:
        if lock_consumer(mem, RING):
            v = spsc_pop(mem, RING)
            while v != EMPTY:
                tries = 0
                add(mem, 0, 1)
                seen[v] += 1
                bad += last[v // items] >= v % items
                last[v // items] = v % items
                v = spsc_pop(mem, RING)
            unlock_consumer(mem, RING)
        tries = back_off(tries)
    return bad


def check_all(bodies: list[Callable[[], int]], seen: Seen) -> None:
    assert sum(run_pinned(bodies)) == 0, "out of order"
    assert (seen == 1).all(), "lost or doubled"


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("capacity", [1, 3, 64])
@pytest.mark.parametrize(("producers", "consumers"), [(1, 1), (2, 2), (3, 1)])
def test_mpmc(producers: int, consumers: int, capacity: int, items: int) -> None:
    each = items // producers // (4 if capacity == 1 else 1)
    mem, seen = new_words(LINE + mpmc_words(capacity)), np.zeros(producers * each, np.int8)
    mpmc_init(mem, RING, capacity)
    bodies = [lambda p=p: push_mpmc(mem, p, each) for p in range(producers)]
    check_all([*bodies, *[lambda: pop_mpmc(mem, producers, each, seen)] * consumers], seen)


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("capacity", [1, 3, 64])
@pytest.mark.parametrize(("producers", "consumers"), [(1, 1), (2, 2), (3, 1)])
def test_spsc_with_try_locks(producers: int, consumers: int, capacity: int, items: int) -> None:
    each = items // producers // (4 if capacity == 1 else 1)
    mem, seen = new_words(LINE + spsc_words(capacity)), np.zeros(producers * each, np.int8)
    spsc_init(mem, RING, capacity)
    last = np.full(producers, -1)
    bodies = [lambda p=p: push_spsc(mem, p, each) for p in range(producers)]
    check_all([*bodies, *[lambda: pop_spsc(mem, producers, each, seen, last)] * consumers], seen)


@njit
def pop_and_push(mem: Words, times: int) -> int:
    """How often a ring that has room for all refused one."""
    refused = 0
    for _ in range(times):
        v = mpmc_pop(mem, RING)
        if v != EMPTY:
            refused += not mpmc_push(mem, RING, v)
    return refused


@pytest.mark.parametrize("times", ITEMS)
@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_a_free_list_has_always_room(capacity: int, times: int) -> None:
    mem = new_words(LINE + mpmc_words(capacity))
    mpmc_init(mem, RING, capacity)
    for v in range(capacity):
        mpmc_push(mem, RING, v)
    assert run_pinned([lambda: pop_and_push(mem, times)] * 3) == [0, 0, 0]
    assert sorted(mpmc_pop(mem, RING) for _ in range(capacity)) == list(range(capacity))
