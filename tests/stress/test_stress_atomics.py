"""The compiled atomics on real processors: nothing lost, and the orders that are promised."""

from __future__ import annotations

import pytest
from tests.stress.pinned import ITEMS, run_pinned

from thalweg.jit import njit
from thalweg.workers.lockfree.atomics import (
    LINE,
    Words,
    add,
    back_off,
    cas,
    fence,
    load,
    new_words,
    store,
    swap,
)


@njit
def count_by_add(mem: Words, times: int) -> None:
    for _ in range(times):
        add(mem, 0, 1)


@njit
def count_by_cas(mem: Words, times: int) -> None:
    for _ in range(times):
        tries = 0
        old = load(mem, 0)
        while not cas(mem, 0, old, old + 1):
            tries = back_off(tries)
            old = load(mem, 0)


@njit
def count_under_a_spin_lock(mem: Words, times: int) -> None:
    for _ in range(times):
        tries = 0
        while swap(mem, LINE, 1) == 1:
            tries = back_off(tries)
        mem[0] += 1
        store(mem, LINE, 0)


@pytest.mark.parametrize("times", ITEMS)
@pytest.mark.parametrize("count", [count_by_add, count_by_cas, count_under_a_spin_lock])
@pytest.mark.parametrize("threads", [2, 3])
def test_no_increment_is_lost(count, threads: int, times: int) -> None:
    mem = new_words(2 * LINE)
    run_pinned([lambda: count(mem, times)] * threads)
    assert mem[0] == threads * times


@njit
def pass_messages(mem: Words, times: int) -> int:
    for i in range(1, times + 1):
        store(mem, LINE, i)
        store(mem, 0, i)
    return 0


@njit
def read_messages(mem: Words, times: int) -> int:
    """How often the message was older than the flag that announced it."""
    stale, flag = 0, 0
    while flag < times:
        flag = load(mem, 0)
        if load(mem, LINE) < flag:
            stale += 1
    return stale


@pytest.mark.parametrize("times", ITEMS)
def test_what_was_stored_before_is_seen_before(times: int) -> None:
    mem = new_words(2 * LINE)
    bodies = [lambda: pass_messages(mem, times), lambda: read_messages(mem, times)]
    assert run_pinned(bodies) == [0, 0]


@njit
def announce_and_look(mem: Words, mine: int, other: int, results: Words, rounds: int) -> int:
    """Dekker's pattern, round after round: both write, both look. The rounds begin together."""
    for i in range(rounds):
        add(mem, 2 * LINE, 1)
        tries = 0
        while load(mem, 2 * LINE) < 2 * (i + 1):
            tries = back_off(tries)
        store(mem, mine, i + 1)
        fence()
        results[i] = load(mem, other)
    return 0


@pytest.mark.parametrize("rounds", [200_000, pytest.param(5_000_000, marks=pytest.mark.slow)])
def test_with_a_fence_one_of_two_sees_the_other(rounds: int) -> None:
    """A store, a fence, a load of another word: both loads cannot be older than both stores."""
    mem, left, right = new_words(3 * LINE), new_words(rounds), new_words(rounds)
    run_pinned(
        [
            lambda: announce_and_look(mem, 0, LINE, left, rounds),
            lambda: announce_and_look(mem, LINE, 0, right, rounds),
        ]
    )
    now = new_words(rounds)
    now[:] = range(1, rounds + 1)
    assert not ((left < now) & (right < now)).any()
