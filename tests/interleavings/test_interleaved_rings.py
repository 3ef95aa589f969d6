"""The rings under every schedule: exactly once, first in first out, full only when full."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tests.interleavings.explorer import Make, Memory, Program, Violation, explore
from tests.interleavings.plain import Mutation, Structures

from thalweg.workers.lockfree.atomics import EMPTY

Push = Callable[[int], bool]
Pop = Callable[[], int]


def traffic(mem: Memory, push: Push, pop: Pop, producers: int, consumers: int) -> Program:
    """Every producer tries two pushes, every consumer as many pops in all; then the ring is emptied."""

    def produce(producer: int) -> None:
        for item in (10 * producer, 10 * producer + 1):
            if push(item):
                mem.log.append(("pushed", item))

    def consume(consumer: int) -> None:
        for _ in range(2 * producers // consumers):
            item = pop()
            if item != EMPTY:
                mem.log.append((consumer, item))

    def check() -> None:
        rest = list(iter(pop, EMPTY))
        pushed = sorted(item for who, item in mem.log if who == "pushed")
        by_consumer = [[item for who, item in mem.log if who == c] for c in range(consumers)]
        assert sorted(sum(by_consumer, rest)) == pushed, "not every item once"
        for got in by_consumer:
            for producer in range(producers):
                seen = [item for item in got + rest if item // 10 == producer]
                assert seen == sorted(seen), "not first in, first out"

    bodies = [lambda p=p: produce(p) for p in range(producers)]
    bodies += [lambda c=c: consume(c) for c in range(consumers)]
    return Program(bodies, check)


def explore_all(programs: Iterable[Make]) -> None:
    """Raises if any of the programs goes wrong."""
    for make in programs:
        explore(make)


SHAPES = [(1, 1), (2, 1), (1, 2)]

# -- MPMC ------------------------------------------------------------------------------------------------------


def mpmc_traffic(structures: Structures, capacity: int, producers: int, consumers: int) -> Make:
    rings = structures.rings

    def make(mem: Memory) -> Program:
        ring = mem.reserve(rings.mpmc_words(capacity))
        rings.mpmc_init(mem, ring, capacity)
        push: Push = lambda item: rings.mpmc_push(mem, ring, item)  # noqa: E731
        return traffic(mem, push, lambda: rings.mpmc_pop(mem, ring), producers, consumers)

    return make


@pytest.mark.parametrize("weak", [False, True], ids=["sc", "tso"])
@pytest.mark.parametrize(("producers", "consumers"), SHAPES)
@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_mpmc_passes_every_item_once_and_in_order(
    capacity: int, producers: int, consumers: int, weak: bool
) -> None:
    explore(mpmc_traffic(Structures(), capacity, producers, consumers), bound=2, weak=weak)


@pytest.mark.slow
@pytest.mark.parametrize(("producers", "consumers"), [*SHAPES, (2, 2)])
def test_mpmc_passes_every_item_once_and_in_order_deeper(producers: int, consumers: int) -> None:
    explore(mpmc_traffic(Structures(), 2, producers, consumers), bound=3)


def free_list(structures: Structures, capacity: int):
    """As many items as there is room: every thread pops one and pushes it back, which must succeed."""
    rings = structures.rings

    def make(mem: Memory) -> Program:
        ring = mem.reserve(rings.mpmc_words(capacity))
        rings.mpmc_init(mem, ring, capacity)
        for item in range(capacity):
            rings.mpmc_push(mem, ring, item)

        def body() -> None:
            for _ in range(2):
                item = rings.mpmc_pop(mem, ring)
                if item != EMPTY:
                    assert rings.mpmc_push(mem, ring, item), "full, though an item was taken"

        def check() -> None:
            assert rings.mpmc_len(mem, ring) == capacity
            got = {rings.mpmc_pop(mem, ring) for _ in range(capacity)}
            assert got == set(range(capacity))

        return Program([body, body], check)

    return make


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_mpmc_is_full_only_when_it_is_full(capacity: int) -> None:
    explore(free_list(Structures(), capacity), bound=3)


MPMC_MUTATIONS = {
    "a slot is published before its item": Mutation(
        "rings",
        "                store(mem, slot + 1, v)\n                store(mem, slot, tail + 1)\n",
        "                store(mem, slot, tail + 1)\n                store(mem, slot + 1, v)\n",
    ),
    "a slot is freed before its item is read": Mutation(
        "rings",
        "                v = load(mem, slot + 1)\n                store(mem, slot, head + lap)\n",
        "                store(mem, slot, head + lap)\n                v = load(mem, slot + 1)\n",
    ),
    "the tail moves without compare": Mutation(
        "rings",
        "if cas(mem, at + _TAIL, tail, _following(tail, lap, capacity)):",
        "store(mem, at + _TAIL, _following(tail, lap, capacity))\n            if True:",
    ),
    "the head moves without compare": Mutation(
        "rings",
        "if cas(mem, at + _HEAD, head, _following(head, lap, capacity)):",
        "store(mem, at + _HEAD, _following(head, lap, capacity))\n            if True:",
    ),
}


@pytest.mark.parametrize("mutation", MPMC_MUTATIONS.values(), ids=MPMC_MUTATIONS)
def test_mpmc_mutation_is_found(mutation: Mutation) -> None:
    with pytest.raises(Violation):
        explore_all(mpmc_traffic(Structures(mutation), 1, *shape) for shape in SHAPES)


def test_mpmc_mutation_full_while_a_pop_is_running_is_found() -> None:
    """Vyukov's own rule, under which a ring with room for all can refuse one."""
    mutation = Mutation("rings", "elif load(mem, at + _HEAD) + lap == tail:", "elif True:")
    with pytest.raises(Violation, match="full, though"):
        explore(free_list(Structures(mutation), 2))


# -- SPSC ------------------------------------------------------------------------------------------------------


def spsc_traffic(structures: Structures, capacity: int, producers: int, consumers: int) -> Make:
    """The sides of the ring are held by try-locks; a push or pop that does not get its side fails."""
    rings, workers = structures.rings, structures.workers

    def make(mem: Memory) -> Program:
        ring = mem.reserve(rings.spsc_words(capacity))
        rings.spsc_init(mem, ring, capacity)
        push: Push = lambda item: workers.push_alone(mem, ring, item)  # noqa: E731
        return traffic(mem, push, lambda: workers.pop_alone(mem, ring), producers, consumers)

    return make


@pytest.mark.parametrize("weak", [False, True], ids=["sc", "tso"])
@pytest.mark.parametrize(("producers", "consumers"), SHAPES)
@pytest.mark.parametrize("capacity", [1, 2])
def test_spsc_passes_every_item_once_and_in_order(
    capacity: int, producers: int, consumers: int, weak: bool
) -> None:
    explore(spsc_traffic(Structures(), capacity, producers, consumers), bound=2, weak=weak)


@pytest.mark.slow
@pytest.mark.parametrize(("producers", "consumers"), SHAPES)
def test_spsc_passes_every_item_once_and_in_order_deeper(producers: int, consumers: int) -> None:
    explore(spsc_traffic(Structures(), 2, producers, consumers), bound=3)


PUSH = "    pushed = spsc_push(mem, ring, v)\n"
POP = "    v = spsc_pop(mem, ring)\n"
UNLOCK_PRODUCER = "    unlock_producer(mem, ring)\n"
UNLOCK_CONSUMER = "    unlock_consumer(mem, ring)\n"
SPSC_MUTATIONS = {
    "the producer unlocks before it pushes": Mutation(
        "workers", PUSH + UNLOCK_PRODUCER, UNLOCK_PRODUCER + PUSH
    ),
    "the consumer unlocks before it pops": Mutation(
        "workers", POP + UNLOCK_CONSUMER, UNLOCK_CONSUMER + POP
    ),
    "the locks are looked at and written, not exchanged": Mutation(
        "rings",
        "return load(mem, i) == 0 and cas(mem, i, 0, 1)",
        "return load(mem, i) == 0 and store(mem, i, 1) is None",
    ),
    "an item is announced before it is there": Mutation(
        "rings",
        "    store(mem, at + _ITEMS + (pushed & mem[at + _MASK]), v)\n"
        "    store(mem, at + _PUSHED, pushed + 1)\n",
        "    store(mem, at + _PUSHED, pushed + 1)\n"
        "    store(mem, at + _ITEMS + (pushed & mem[at + _MASK]), v)\n",
    ),
    "a slot is freed before its item is read": Mutation(
        "rings",
        "    return load(mem, at + _ITEMS + (popped & mem[at + _MASK]))",
        "    store(mem, at + _POPPED, popped + 1)\n"
        "    v = load(mem, at + _ITEMS + (popped & mem[at + _MASK]))\n"
        "    store(mem, at + _POPPED, popped)\n"
        "    return v",
    ),
}


@pytest.mark.parametrize("mutation", SPSC_MUTATIONS.values(), ids=SPSC_MUTATIONS)
def test_spsc_mutation_is_found(mutation: Mutation) -> None:
    with pytest.raises(Violation):
        explore_all(spsc_traffic(Structures(mutation), 1, *shape) for shape in SHAPES)
