"""Prasaad et al., Theorem 4.1, under every schedule, for the hybrid queue and the two it is compared with.

(1) No two workers operate on one partition at the same time. (2) Every tuple of a partition is operated on once, in
the order of arrival. And none stays behind: of the hybrid and the partitioned queue, workers that leave when there is
nothing to take leave nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.interleavings.explorer import Make, Memory, Program, Violation, explore
from tests.interleavings.plain import Mutation, Structures

from thalweg.workers.lockfree.atomics import EMPTY, relax, store, swap

#: The partitions of the tuples, in the order of their arrival.
ONE = (0, 0)
SKEWED = (0, 0, 1)


class Work:
    """The tuples, and what became of them; a tuple is its place in the order of arrival."""

    def __init__(self, mem: Memory, arrivals: Sequence[int]) -> None:
        self.mem, self.arrivals = mem, arrivals
        self.busy = mem.reserve(max(arrivals) + 1)

    def operate(self, p: int, v: int) -> None:
        """Takes two steps, so that another on the same partition would be seen."""
        assert v != EMPTY, "no tuple where one was promised"
        assert swap(self.mem, self.busy + p, 1) == 0, "two operate on one partition"
        self.mem.log.append((p, v))
        store(self.mem, self.busy + p, 0)

    def is_over(self) -> bool:
        return len(self.mem.log) == len(self.arrivals)

    def check(self) -> None:
        for p in set(self.arrivals):
            arrived = [v for v, partition in enumerate(self.arrivals) if partition == p]
            assert [v for q, v in self.mem.log if q == p] == arrived


Consume = Callable[..., None]


def consuming(
    structures: Structures, kind: str, consume: str, arrivals: Sequence[int], workers: int = 2
) -> Make:
    """A thread adds the tuples and works until there is nothing to take, like the others beside it."""
    buckets = structures.hybrid_queue
    add, words, init = (getattr(buckets, f"{kind}_{verb}") for verb in ("add", "words", "init"))
    pending = getattr(buckets, f"{kind}_pending")
    work_off: Consume = getattr(structures.workers, consume)

    def make(mem: Memory) -> Program:
        work = Work(mem, arrivals)
        at = mem.reserve(words(max(arrivals) + 1, len(arrivals)))
        init(mem, at, max(arrivals) + 1, len(arrivals))

        def body(count: int) -> None:
            for v in range(count):
                assert add(mem, at, arrivals[v], v)
            work_off(mem, at, work.operate)

        def check() -> None:
            work.check()
            assert all(pending(mem, at, p) == 0 for p in arrivals)

        bodies = [lambda: body(len(arrivals))] + [lambda: body(0)] * (workers - 1)
        return Program(bodies, check)

    return make


QUEUES = {
    "hybrid": ("hybrid", "consume_hybrid"),
    "hybrid by turns": ("hybrid", "consume_hybrid_by_turns"),
    "partitioned": ("partitioned", "consume_partitioned"),
    "partitioned by turns": ("partitioned", "consume_partitioned_by_turns"),
}


@pytest.mark.parametrize("queue", QUEUES.values(), ids=QUEUES)
@pytest.mark.parametrize("arrivals", [ONE, SKEWED], ids=["one partition", "two partitions"])
def test_theorem_4_1(queue: tuple[str, str], arrivals: Sequence[int]) -> None:
    explore(consuming(Structures(), *queue, arrivals), bound=3 if arrivals == ONE else 2)


@pytest.mark.parametrize("queue", QUEUES.values(), ids=QUEUES)
def test_theorem_4_1_three_workers(queue: tuple[str, str]) -> None:
    explore(consuming(Structures(), *queue, ONE, 3), bound=1)


@pytest.mark.parametrize("queue", QUEUES.values(), ids=QUEUES)
def test_theorem_4_1_with_store_buffers(queue: tuple[str, str]) -> None:
    explore(consuming(Structures(), *queue, ONE), bound=2, weak=True)


def test_who_leaves_the_partitioned_queue_leaves_no_tuple_that_another_left_to_it() -> None:
    """Even one that does not take again."""
    explore(consuming(Structures(), "partitioned", "consume_partition", ONE), bound=4)
    explore(consuming(Structures(), "partitioned", "consume_partition", ONE), bound=3, weak=True)


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES.values(), ids=QUEUES)
def test_theorem_4_1_deeper(queue: tuple[str, str]) -> None:
    explore(consuming(Structures(), *queue, SKEWED), bound=3)
    explore(consuming(Structures(), *queue, (0, 1, 0, 0)), bound=2)
    explore(consuming(Structures(), *queue, SKEWED, 3), bound=2)


def idle_partition(structures: Structures) -> Make:
    """The producer waits until a partition is idle; then all that was done on it can be seen."""
    buckets = structures.hybrid_queue

    def make(mem: Memory) -> Program:
        work = Work(mem, ONE)
        at = mem.reserve(buckets.hybrid_words(1, 2))
        buckets.hybrid_init(mem, at, 1, 2)

        def produce() -> None:
            for v in range(2):
                buckets.hybrid_add(mem, at, 0, v)
            while buckets.hybrid_pending(mem, at, 0) > 0:
                relax()
            assert work.is_over(), "idle with work under way"

        def consume() -> None:
            while not work.is_over():
                structures.workers.consume_hybrid(mem, at, work.operate)
                relax()

        return Program([produce, consume, consume], work.check)

    return make


def test_a_partition_without_pending_tuples_is_idle() -> None:
    explore(idle_partition(Structures()), bound=1)


DONE = "    _count_done(mem, area)\n    return add(mem, area + _COUNT, -1) > 1\n"
HYBRID_FRONT = "def hybrid_front(mem: Words, at: int, p: int) -> int:\n"
HAND_OVER = "    mpmc_push(mem, _end(mem, at), p)\n"
HYBRID_MUTATIONS = {
    "the count is decremented before the tuple is processed": [
        Mutation(
            "hybrid_queue",
            DONE,
            "    _count_done(mem, area)\n    return load(mem, area + _COUNT) > 0\n",
        ),
        Mutation(
            "hybrid_queue",
            HYBRID_FRONT,
            HYBRID_FRONT + "    add(mem, _area(mem, at, p) + _COUNT, -1)\n",
        ),
    ],
    "a resumed partition goes to the master queue's tail": [
        Mutation("hybrid_queue", HAND_OVER, "    mpmc_push(mem, _master(mem, at), p)\n")
    ],
    "the drain loop dropped": [
        Mutation(
            "hybrid_queue",
            DONE,
            "    _count_done(mem, area)\n    add(mem, area + _COUNT, -1)\n    return False\n",
        )
    ],
    "the count is looked at and written, not exchanged": [
        Mutation(
            "hybrid_queue",
            "add(mem, _area(mem, at, p) + _COUNT, 1) != 0:",
            "mem[_area(mem, at, p) + _COUNT] + (store(mem, _area(mem, at, p) + _COUNT,"
            " load(mem, _area(mem, at, p) + _COUNT) + 1) or 0) != 0:",
        )
    ],
    "a tuple is entered in the master queue before its own": [
        Mutation(
            "hybrid_queue",
            "return spsc_push(mem, _area(mem, at, p) + _QUEUE, v) and mpmc_push(mem, _master(mem, at), p)",
            "return mpmc_push(mem, _master(mem, at), p) and spsc_push(mem, _area(mem, at, p) + _QUEUE, v)",
        )
    ],
}


@pytest.mark.parametrize("mutations", HYBRID_MUTATIONS.values(), ids=HYBRID_MUTATIONS)
def test_mutation_of_the_hybrid_queue_is_found(mutations: list[Mutation]) -> None:
    with pytest.raises(Violation):
        explore(consuming(Structures(*mutations), "hybrid", "consume_hybrid_by_turns", ONE))


def test_mutation_done_counted_too_early_is_found() -> None:
    early = Mutation(
        "workers",
        "        operate(p, hybrid_front(mem, at, p))\n        while hybrid_done(mem, at, p):\n",
        "        v = hybrid_front(mem, at, p)\n        more = hybrid_done(mem, at, p)\n"
        "        operate(p, v)\n        while more and hybrid_done(mem, at, p):\n",
    )
    with pytest.raises(Violation):
        explore(idle_partition(Structures(early)), bound=1)


DISOWN = "    _disown(mem, area + _QUEUE)\n    return _own(mem, area + _QUEUE)\n"
PARTITIONED_MUTATIONS = {
    "no re-check after the lock is released": Mutation(
        "hybrid_queue", DISOWN, "    _disown(mem, area + _QUEUE)\n    return False\n"
    ),
    "the lock is released before the tuple is processed": Mutation(
        "hybrid_queue",
        "            return True\n        _disown(mem, queue)\n",
        "            unlock_consumer(mem, queue)\n            return True\n        _disown(mem, queue)\n",
    ),
}


@pytest.mark.parametrize("mutation", PARTITIONED_MUTATIONS.values(), ids=PARTITIONED_MUTATIONS)
def test_mutation_of_the_partitioned_queue_is_found(mutation: Mutation) -> None:
    with pytest.raises(Violation):
        explore(consuming(Structures(mutation), "partitioned", "consume_partition", ONE))


def test_mutation_no_fence_after_the_lock_is_released_is_found_with_store_buffers() -> None:
    """Right if memory were sequentially consistent, wrong on the processors there are."""
    fence = "    unlock_consumer(mem, queue)\n    fence()\n"
    mutation = Mutation("hybrid_queue", fence, "    unlock_consumer(mem, queue)\n")
    make = consuming(Structures(mutation), "partitioned", "consume_partition", ONE)
    explore(make, bound=3)
    with pytest.raises(Violation):
        explore(make, bound=3, weak=True)


def sharing(structures: Structures, arrivals: Sequence[int], workers: int) -> Make:
    """A thread adds the tuples; all take as often as there are tuples, and what is left is taken at the end."""
    buckets, consume = structures.hybrid_queue, structures.workers.consume_shared

    def make(mem: Memory) -> Program:
        work = Work(mem, arrivals)
        at = mem.reserve(buckets.shared_words(max(arrivals) + 1, len(arrivals)))
        buckets.shared_init(mem, at, max(arrivals) + 1, len(arrivals))

        def body(count: int) -> None:
            for v in range(count):
                assert buckets.shared_add(mem, at, arrivals[v], v)
            consume(mem, at, work.operate, len(arrivals))

        def check() -> None:
            consume(mem, at, work.operate, len(arrivals))
            work.check()

        bodies = [lambda: body(len(arrivals))] + [lambda: body(0)] * (workers - 1)
        return Program(bodies, check)

    return make


@pytest.mark.parametrize("arrivals", [ONE, SKEWED], ids=["one partition", "two partitions"])
def test_the_shared_queue_keeps_the_order_of_partitions(arrivals: Sequence[int]) -> None:
    explore(sharing(Structures(), arrivals, 2), bound=2)


def test_the_shared_queue_keeps_the_order_of_partitions_with_store_buffers() -> None:
    explore(sharing(Structures(), ONE, 2), bound=2, weak=True)


@pytest.mark.slow
def test_the_shared_queue_keeps_the_order_of_partitions_deeper() -> None:
    explore(sharing(Structures(), SKEWED, 2), bound=3)
    explore(sharing(Structures(), ONE, 3), bound=2)


def test_mutation_of_the_shared_queue_dequeue_before_locking_is_found() -> None:
    """What Figure 5 shows: both take a tuple of one partition, and lock the partition in the other order."""
    mutation = Mutation(
        "hybrid_queue",
        "    p = _take_head(mem, at, queue)\n    unlock_consumer(mem, queue)\n    return p\n",
        "    p, v = EMPTY, EMPTY\n"
        "    if spsc_len(mem, queue) >= 2:\n"
        "        p, v = spsc_pop(mem, queue), spsc_pop(mem, queue)\n"
        "    unlock_consumer(mem, queue)\n"
        "    if p != EMPTY:\n"
        "        from thalweg.workers.lockfree.atomics import cas, relax\n"
        "        while not cas(mem, _area(mem, at, p) + _BUSY, 0, 1):\n"
        "            relax()\n"
        "        store(mem, _area(mem, at, p) + _HELD, v)\n"
        "    return p\n",
    )
    with pytest.raises(Violation):
        explore(sharing(Structures(mutation), ONE, 2))
