"""Which executor a slot is given: its own while that is there, and none gets more than its share."""

from __future__ import annotations

import collections
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from thalweg.spark.cluster.exchanges import Exchange, co_located, exchanges_here
from thalweg.spark.cluster.placement import Executor, assign

_CORES = st.lists(st.integers(1, 8), min_size=1, max_size=6)


def executors(cores: list[int]) -> list[Executor]:
    return [Executor(str(i), f"host{i % 3}", n) for i, n in enumerate(cores)]


@given(_CORES, st.integers(1, 40), st.dictionaries(st.integers(0, 50), st.sampled_from("012345xy")))
def test_share_and_stay(cores: list[int], slots: int, before: dict[int, str]) -> None:
    """Every slot has a living executor, none more than its share by cores; who could stay has stayed."""
    alive = executors(cores)
    given_to = assign(slots, alive, before)
    assert sorted(given_to) == list(range(slots))
    load = collections.Counter(one.id for one in given_to.values())
    for one in alive:
        share = math.ceil(slots * one.cores / sum(cores))
        assert load[one.id] <= share
        wanted = [slot for slot in range(slots) if before.get(slot) == one.id]
        stayed = [slot for slot in wanted if given_to[slot] == one]
        assert stayed == wanted[:share]


@given(_CORES, st.integers(1, 40))
def test_the_same_again(cores: list[int], slots: int) -> None:
    """With the same executors nothing moves; the first ones are taken first."""
    alive = executors(cores)
    first = assign(slots, alive, {})
    again = assign(slots, alive, {slot: one.id for slot, one in first.items()})
    assert again == first
    if slots <= len(alive) and len(set(cores)) == 1:
        assert [first[slot] for slot in range(slots)] == alive[:slots]


def test_one_goes_and_one_comes() -> None:
    """Only the slots of an executor that is gone move; a new one gets what others have too much."""
    two = executors([2, 2])
    first = assign(4, two, {})
    assert [one.id for one in first.values()] == ["0", "1", "0", "1"]
    new = Executor("7", "host7", 2)
    moved = assign(4, [two[0], new], {slot: one.id for slot, one in first.items()})
    assert [one.id for one in moved.values()] == ["0", "7", "0", "7"]
    four = [*two, new, Executor("8", "host8", 2)]
    spread = assign(4, four, {slot: one.id for slot, one in first.items()})
    assert [one.id for one in spread.values()] == ["0", "1", "7", "8"]


def test_location() -> None:
    """As Spark's TaskLocation reads it."""
    assert Executor("3", "10.0.0.7", 4).location == "executor_10.0.0.7_3"


def test_exchanges_of_one_process_are_what_its_tasks_sent() -> None:
    """By stage that reads them, all tasks together; a report has passed through JSON, and may have none."""
    reports: list[dict[str, Any]] = [
        {"sent": {"1": 70, "2": 3}},
        {"sent": {"2": 5}},
        {"sent": {}},
        {},
    ]
    here = ("driver", "driver")
    assert exchanges_here(2, reports) == [Exchange(70, 0, here), Exchange(8, 0, here)]


def test_co_located() -> None:
    """The share of slots, over all pairs of stages that follow each other."""
    stages = [Exchange(1, 1, ("a", "b")), Exchange(1, 1, ("a", "b")), Exchange(1, 1, ("a", "a"))]
    assert co_located(stages) == 0.75
    assert co_located(stages[:1]) == 1.0
