"""The explorer itself: what it must find, and what it must not see where there is nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

import pytest
from tests.interleavings.explorer import (
    Explored,
    Make,
    Memory,
    Program,
    Unfinished,
    Violation,
    explore,
)

from thalweg.workers.lockfree.atomics import (
    Words,
    add,
    cas,
    fence,
    give_way,
    load,
    relax,
    store,
    swap,
)


def counting(increment: Callable[[Words, int], object], threads: int = 2):
    """Every thread increments one counter once."""

    def make(mem: Memory) -> Program:
        counter = mem.reserve(1)

        def check() -> None:
            assert load(mem, counter) == threads

        return Program([lambda: increment(mem, counter)] * threads, check)

    return make


def racy_increment(mem: Words, i: int) -> None:
    store(mem, i, load(mem, i) + 1)


def test_a_lost_update_is_found() -> None:
    """One preemption, between the load and the store, is enough, and without one there is no race."""
    assert explore(counting(racy_increment), bound=0).schedules == 2
    with pytest.raises(Violation, match="thread 0: load 0"):
        explore(counting(racy_increment), bound=1)


@pytest.mark.parametrize("threads", [2, 3])
def test_fetch_add_loses_nothing(threads: int) -> None:
    assert explore(counting(lambda mem, i: add(mem, i, 1), threads), bound=4).schedules > 1


def turning(mem: Memory, wait: Callable[[], None]) -> Program:
    """A thread that changes memory at every turn until another one has stopped it."""
    stopped, turns = mem.reserve(1), mem.reserve(1)

    def turn() -> None:
        while load(mem, stopped) == 0:
            add(mem, turns, 1)
            wait()

    return Program([turn, lambda: store(mem, stopped, 1)], lambda: None)


def test_who_gives_way_lets_others_run() -> None:
    assert explore(lambda mem: turning(mem, give_way), bound=2).schedules > 2
    with pytest.raises(Violation, match="livelock"):
        explore(lambda mem: turning(mem, relax), bound=2)


def spin_lock(mem: Words, i: int, body: Callable[[], None]) -> None:
    while swap(mem, i, 1) == 1:
        relax()
    body()
    store(mem, i, 0)


def test_spinning_is_neither_a_livelock_nor_a_deadlock() -> None:
    """Three threads behind one spin lock, under all schedules of the bound."""

    def make(mem: Memory) -> Program:
        lock, counter = mem.reserve(1), mem.reserve(1)
        body = lambda: spin_lock(mem, lock, lambda: racy_increment(mem, counter))  # noqa: E731

        def check() -> None:
            assert load(mem, counter) == 3

        return Program([body] * 3, check)

    assert explore(make, bound=3).schedules > 10


def test_a_lock_that_is_never_released_is_a_deadlock() -> None:
    def make(mem: Memory) -> Program:
        lock = mem.reserve(1)

        def body() -> None:
            while not cas(mem, lock, 0, 1):
                relax()

        return Program([body] * 2, lambda: None)

    with pytest.raises(Violation, match="deadlock"):
        explore(make)


def test_two_that_give_way_to_each_other_for_ever_are_a_livelock() -> None:
    def make(mem: Memory) -> Program:
        words = mem.reserve(2)

        def body(mine: int, other: int) -> None:
            while True:
                add(mem, mine, 1)
                if load(mem, other) == 0:
                    return
                relax()

        return Program(
            [lambda: body(words, words + 1), lambda: body(words + 1, words)], lambda: None
        )

    with pytest.raises(Violation, match="livelock"):
        explore(make)


def store_buffering(between: Callable[[], None]):
    """Dekker's pattern: both write, both look; at least one must see the other."""

    def make(mem: Memory) -> Program:
        x, y, seen = mem.reserve(1), mem.reserve(1), mem.reserve(2)

        def body(mine: int, other: int, result: int) -> None:
            store(mem, mine, 1)
            between()
            store(mem, result, load(mem, other))

        def check() -> None:
            assert load(mem, seen) + load(mem, seen + 1) > 0

        return Program([lambda: body(x, y, seen), lambda: body(y, x, seen + 1)], check)

    return make


def test_store_buffering_needs_a_fence() -> None:
    """What sequential consistency hides, the store buffers show; a fence forbids it."""
    explore(store_buffering(lambda: None), bound=4)
    with pytest.raises(Violation):
        explore(store_buffering(lambda: None), weak=True)
    explore(store_buffering(fence), bound=4, weak=True)


def test_message_passing_needs_none() -> None:
    """Stores become visible in their order."""

    def make(mem: Memory) -> Program:
        message, flag = mem.reserve(1), mem.reserve(1)

        def reader() -> None:
            while load(mem, flag) == 0:
                relax()
            assert load(mem, message) == 5

        def writer() -> None:
            store(mem, message, 5)
            store(mem, flag, 1)

        return Program([reader, writer], lambda: None)

    assert explore(make, bound=4, weak=True).schedules > 1


def test_the_search_is_deterministic_and_bounded() -> None:
    def search(limit: int) -> Explored:
        return explore(counting(lambda mem, i: add(mem, i, 1), 3), bound=2, limit=limit)

    assert search(1000) == search(1000)
    with pytest.raises(Unfinished):
        search(2)


def random_program(seed: int, outcomes: set[Hashable]) -> Make:
    """Two threads of three operations each on two words; the outcomes are what they got and what they left."""
    chance = random.Random(seed)
    operations: list[Callable[[Words, int], object]] = [
        load,
        lambda mem, i: store(mem, i, 1),
        lambda mem, i: store(mem, i, 2),
        lambda mem, i: add(mem, i, 1),
        lambda mem, i: swap(mem, i, 3),
        lambda mem, i: cas(mem, i, 1, 4),
    ]
    lines = [[(chance.choice(operations), chance.randrange(2)) for _ in range(3)] for _ in range(2)]

    def make(mem: Memory) -> Program:
        mem.reserve(2)

        def body(thread: int) -> None:
            got = [operation(mem, i) for operation, i in lines[thread]]
            mem.log.append((thread, tuple(got)))

        def check() -> None:
            outcomes.add((tuple(mem), tuple(sorted(mem.log))))

        return Program([lambda: body(0), lambda: body(1)], check)

    return make


@pytest.mark.parametrize("weak", [False, True], ids=["sc", "tso"])
def test_pruning_loses_no_outcome(weak: bool) -> None:
    """States are told apart well enough: every outcome of the whole search is one of the pruned search."""
    outcomes = 0
    for seed in range(25):
        whole, pruned = set[Hashable](), set[Hashable]()
        searched = explore(random_program(seed, whole), bound=3, weak=weak, prune=False)
        assert (
            explore(random_program(seed, pruned), bound=3, weak=weak).schedules
            <= searched.schedules
        )
        assert pruned == whole
        outcomes += len(whole)
    assert outcomes > 2 * 25
