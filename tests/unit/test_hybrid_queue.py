"""The three queues of a keyed operator on one thread: order, ownership, delegation, room."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable

import pytest

from thalweg.workers.lockfree import hybrid_queue as buckets
from thalweg.workers.lockfree.atomics import EMPTY, LINE, Words, new_words
from thalweg.workers.lockfree.rings import spsc_pop


@dataclasses.dataclass
class Queue:
    """One kind of queue behind one set of verbs."""

    kind: str
    partitions: int
    depth: int
    mem: Words = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.mem = new_words(LINE + self._function("words")(self.partitions, self.depth) + LINE)
        self.mem[:LINE] = self.mem[-LINE:] = 77
        self._function("init")(self.mem, LINE, self.partitions, self.depth)

    def _function(self, verb: str) -> Callable[..., int]:
        return getattr(buckets, f"{self.kind}_{verb}")

    def __getattr__(self, verb: str) -> Callable[..., int]:
        return lambda *arguments: self._function(verb)(self.mem, LINE, *arguments)

    def take(self, start: int = 0) -> int:
        start_argument = (start,) if self.kind == "partitioned" else ()
        return self._function("take")(self.mem, LINE, *start_argument)

    def surroundings_kept(self) -> bool:
        return bool((self.mem[:LINE] == 77).all() and (self.mem[-LINE:] == 77).all())


KINDS = ["hybrid", "partitioned", "shared"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("partitions", "depth"), [(1, 1), (1, 5), (3, 1), (5, 4)])
def test_every_tuple_comes_once_and_in_the_order_of_its_partition(
    kind: str, partitions: int, depth: int
) -> None:
    """Random adds and takes, to the edge of the room, against one deque a partition."""
    queue, chance = Queue(kind, partitions, depth), random.Random(partitions * depth)
    waiting = [collections.deque[int]() for _ in range(partitions)]
    for item in range(2000):
        p = chance.randrange(partitions)
        if chance.random() < 0.55:
            if len(waiting[p]) < depth:
                assert queue.add(p, item)
                waiting[p].append(item)
            continue
        got = queue.take(p)
        assert (got == EMPTY) == (not any(waiting))
        while got != EMPTY:
            assert queue.front(got) == waiting[got].popleft()
            if not queue.done(got):
                break
        assert [queue.pending(q) for q in range(partitions)] == [len(w) for w in waiting]
    assert queue.surroundings_kept()


@pytest.mark.parametrize("kind", KINDS)
def test_an_owned_partition_is_not_given_to_another(kind: str) -> None:
    queue = Queue(kind, 2, 4)
    for item in range(2):
        assert queue.add(0, item)
    assert queue.take() == 0
    assert queue.take() == EMPTY
    assert queue.front(0) == 0 and queue.pending(0) == 2


@pytest.mark.parametrize("kind", ["hybrid", "partitioned"])
def test_others_work_while_a_partition_is_owned(kind: str) -> None:
    queue = Queue(kind, 2, 4)
    for p, item in [(0, 10), (0, 11), (1, 20), (0, 12)]:
        queue.add(p, item)
    assert queue.take() == 0 and queue.front(0) == 10
    assert queue.take() == 1 and queue.front(1) == 20
    assert not queue.done(1) and queue.take() == EMPTY
    assert queue.done(0) and queue.front(0) == 11
    assert queue.done(0) and queue.front(0) == 12
    assert not queue.done(0) and queue.take() == EMPTY


def test_shared_queue_is_stuck_behind_an_owned_partition() -> None:
    """That is its drawback: the tuple of partition 1 could be processed, but is not at the head."""
    queue = Queue("shared", 2, 4)
    for p, item in [(0, 10), (0, 11), (1, 20)]:
        queue.add(p, item)
    assert queue.take() == 0
    assert queue.take() == EMPTY
    assert not queue.done(0)
    assert (queue.take(), queue.take(), queue.len()) == (0, 1, 0)


def test_hybrid_queue_follows_the_order_of_arrival() -> None:
    queue = Queue("hybrid", 3, 4)
    for p in [2, 0, 1]:
        queue.add(p, p)
    assert [queue.take() for _ in range(4)] == [2, 0, 1, EMPTY]


def test_partitioned_queue_goes_round_from_the_start() -> None:
    queue = Queue("partitioned", 3, 4)
    for p in range(3):
        queue.add(p, p)
    assert [queue.take(1) for _ in range(4)] == [1, 2, 0, EMPTY]


@pytest.mark.parametrize("kind", ["hybrid", "partitioned"])
def test_who_takes_a_partition_handed_over_goes_on_with_it(kind: str) -> None:
    queue = Queue(kind, 2, 4)
    for item in range(3):
        queue.add(0, item)
    owner = queue.take()
    assert (queue.front(owner), queue.take()) == (0, EMPTY)
    assert queue.done(owner)
    queue.hand_over(owner)
    assert queue.take() == 0
    assert [queue.front(0), queue.done(0), queue.front(0), queue.done(0)] == [1, True, 2, False]


def test_hybrid_queue_takes_resumed_partitions_first() -> None:
    queue = Queue("hybrid", 2, 4)
    for p, item in [(0, 10), (0, 11), (1, 20)]:
        queue.add(p, item)
    assert queue.take() == 0 and queue.front(0) == 10
    queue.hand_over(0)  # half done: its tuple goes on with the next owner
    assert queue.len() == 3
    assert queue.take() == 0
    assert queue.take() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_add_beyond_the_depth_is_refused(kind: str) -> None:
    queue = Queue(kind, 1, 3)
    assert [queue.add(0, item) for item in range(4)] == [True, True, True, False]
    assert (queue.len(), queue.pending(0)) == (3, 3)


def test_the_shared_queue_takes_no_half_pair() -> None:
    """Where another thread has taken one half of a pair so far, there is no room for the next one."""
    mem = new_words(buckets.shared_words(1, 1))
    buckets.shared_init(mem, 0, 1, 1)
    assert buckets.shared_add(mem, 0, 0, 5)
    queue = buckets._end(mem, 0)
    assert spsc_pop(mem, queue) == 0
    assert not buckets.shared_add(mem, 0, 0, 6)
    assert spsc_pop(mem, queue) == 5 and spsc_pop(mem, queue) == EMPTY
