"""Rings and atomics on one thread: what each operation gives, and where a ring ends."""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest

from thalweg.jit import njit
from thalweg.workers.lockfree import atomics
from thalweg.workers.lockfree.atomics import EMPTY, LINE, new_words
from thalweg.workers.lockfree.rings import (
    lock_consumer,
    lock_producer,
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
    unlock_producer,
)

CAPACITIES = [1, 2, 3, 4, 5, 7, 8, 9, 100]


def every_operation(a: atomics.Words) -> tuple[int, int, int, bool, bool, int]:
    """One of each, in an order that tells every result from every other."""
    atomics.store(a, 1, 40)
    was_added = atomics.add(a, 1, 2)
    was_swapped = atomics.swap(a, 0, 7)
    hit = atomics.cas(a, 0, 7, 8)
    miss = atomics.cas(a, 0, 7, 9)
    atomics.fence()
    atomics.relax()
    atomics.give_way()
    return was_added, was_swapped, atomics.load(a, 0), hit, miss, atomics.load(a, 1)


@pytest.mark.parametrize(
    "form", [every_operation, njit(every_operation)], ids=["plain", "compiled"]
)
def test_an_operation_returns_what_was_there(form) -> None:
    """Both forms of the atomics mean the same."""
    words = np.full(2, 5, dtype=np.int64)
    assert form(words) == (40, 5, 8, True, False, 42)
    assert words.tolist() == [8, 42]


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_new_words_begin_on_a_line(count: int) -> None:
    words = new_words(count)
    assert words.size == count and not words.any()
    assert words.ctypes.data % (LINE * words.itemsize) == 0


class Mpmc:
    words, init, push, pop, length = mpmc_words, mpmc_init, mpmc_push, mpmc_pop, mpmc_len


class Spsc:
    words, init, push, pop, length = spsc_words, spsc_init, spsc_push, spsc_pop, spsc_len


@pytest.fixture(params=[Mpmc, Spsc], ids=["mpmc", "spsc"])
def kind(request: pytest.FixtureRequest):
    return request.param


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_a_ring_is_a_bounded_fifo(kind, capacity: int) -> None:
    """Against a deque, over many laps, with words around it that must stay as they are."""
    at, size = LINE, kind.words(capacity)
    mem = new_words(size + 2 * LINE)
    mem[:LINE] = mem[-LINE:] = 77
    kind.init(mem, at, capacity)
    model, chance = collections.deque[int](), random.Random(capacity)
    for item in range(30 * capacity + 100):
        if chance.random() < 0.5:
            assert kind.push(mem, at, item) == (len(model) < capacity)
            if len(model) < capacity:
                model.append(item)
        else:
            assert kind.pop(mem, at) == (model.popleft() if model else EMPTY)
        assert kind.length(mem, at) == len(model)
    assert size % LINE == 0
    assert (mem[:LINE] == 77).all() and (mem[-LINE:] == 77).all()


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_a_full_ring_empties_and_fills_again(kind, capacity: int) -> None:
    mem = new_words(kind.words(capacity))
    kind.init(mem, 0, capacity)
    for _ in range(3):
        assert [kind.push(mem, 0, i) for i in range(capacity + 1)] == [True] * capacity + [False]
        assert [kind.pop(mem, 0) for _ in range(capacity + 1)] == [*range(capacity), EMPTY]


def test_spsc_looks_without_taking() -> None:
    mem = new_words(spsc_words(3))
    spsc_init(mem, 0, 3)
    assert spsc_peek(mem, 0) == EMPTY
    assert spsc_push(mem, 0, 5) and spsc_push(mem, 0, 6)
    assert spsc_peek(mem, 0) == spsc_peek(mem, 0) == 5
    assert (spsc_len(mem, 0), spsc_free(mem, 0), spsc_pushed(mem, 0)) == (2, 1, 2)
    assert spsc_pop(mem, 0) == 5
    assert (spsc_peek(mem, 0), spsc_free(mem, 0), spsc_pushed(mem, 0)) == (6, 2, 2)


@pytest.mark.parametrize(
    ("lock", "unlock", "other"),
    [
        (lock_consumer, unlock_consumer, lock_producer),
        (lock_producer, unlock_producer, lock_consumer),
    ],
    ids=["consumer", "producer"],
)
def test_a_side_has_one_holder(lock, unlock, other) -> None:
    """A try-lock fails while it is held; the two sides do not exclude each other."""
    mem = new_words(spsc_words(1))
    spsc_init(mem, 0, 1)
    assert lock(mem, 0) and not lock(mem, 0)
    assert other(mem, 0)
    unlock(mem, 0)
    assert lock(mem, 0)


def test_no_operation_counts_references() -> None:
    """A count of references to the one array would be a word that all threads write."""

    def use_all(mem: atomics.Words, at: int) -> int:
        spsc_push(mem, at, 5)
        return (
            spsc_pop(mem, at) + mpmc_push(mem, at, 5) + mpmc_pop(mem, at) + lock_consumer(mem, at)
        )

    def code_of(decorator) -> str:
        compiled = decorator(use_all, cache=False)
        compiled.compile("(int64[::1], int64)")
        return "".join(compiled.inspect_llvm().values())

    assert "NRT_incref" not in code_of(atomics.shared)
    assert "NRT_incref" in code_of(njit)
