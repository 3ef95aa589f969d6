"""How many slots and threads from batch to batch: the rules, on runs that are only told."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from thalweg.checkpoint.routing_files import save_table
from thalweg.elasticity import (
    Combined,
    Controller,
    Replicas,
    Sample,
    Suggestion,
    ThreadLevels,
    Utilization,
)
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.locality import RoutingTable
from thalweg.spark import Elastic
from thalweg.spark.arguments import (
    refuse_elastic_with_table,
    refuse_shared_controller,
    warn_of_minimum,
)
from thalweg.spark.elastic import Adaptation, BatchChange, elastic
from thalweg.spark.snapshots import changes_of

ROWS = 100_000


class Scripted(Controller):
    """Asks for one level after the other, and keeps what it was told."""

    def __init__(self, *levels: int) -> None:
        super().__init__()
        self.levels, self.told = list(levels), list[Sample]()
        self.reconsidered = 0

    @property
    def settled(self) -> bool:
        return not self.levels

    def reconsider(self) -> None:
        self.reconsidered += 1

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        self.told.append(sample)
        if not sample.whole or not self.levels:
            return ()
        return (
            Suggestion("threads", None, sample.threads, self.levels.pop(0), "so it is written"),
        )


def adaptation(slots: Any = 1, threads: Any = 1, cores: int = 8) -> Adaptation:
    return Adaptation(slots, threads, most_slots=cores, most_threads=4)


def run(
    numbers: Adaptation, batches: int, speed: Callable[[int, int], float], rows: int = ROWS
) -> list[BatchChange]:
    """So many batches, whose rows a second follow from slots and threads."""
    changes: list[BatchChange] = []
    for batch in range(batches):
        wall_s = rows / speed(numbers.slots, numbers.threads)
        changes += numbers.batch_done(batch, rows=rows, tuples=3 * rows, wall_s=wall_s)
    return changes


def test_numbers_that_are_given_stay() -> None:
    numbers = adaptation(3, 2)
    assert run(numbers, 20, lambda slots, threads: 1e6) == []
    assert (numbers.slots, numbers.threads) == (3, 2)
    assert (numbers.most_slots, numbers.most_threads) == (3, 2)


def test_changes_by_hand_are_told_once() -> None:
    """What somebody asked for is there at once, with a batch later, never twice; the same number is no change."""
    numbers = adaptation(2)
    numbers.started_after(6, 3)
    numbers.rescale(2, 6, "nothing new")
    numbers.rescale(4, 6, "asked for by query.rescale")
    assert [(one.before, one.after, one.batch) for one in numbers.asked] == [(3, 2, 6), (2, 4, 6)]
    assert numbers.asked[0].reason == "started with 2 slots"
    shown = changes_of([], numbers.asked)
    assert [one.after for one in shown] == [2, 4] and shown[0].seconds == 0.0
    asked = numbers.asked
    batch = {
        "at_s": time.time() + 1,
        "batch_s": 1.0,
        "changes": [dataclasses.asdict(one) for one in asked],
    }
    assert [one.after for one in changes_of([batch], asked)] == [2, 4]
    numbers.rescale(5, 7, "during the batch")
    numbers.told(len(asked))
    assert [one.after for one in numbers.asked] == [5]
    assert [one.after for one in changes_of([batch], numbers.asked)] == [2, 4, 5]
    assert numbers.slots == 5 and len(numbers.changes) == 3


@pytest.mark.parametrize(
    ("speed", "best"),
    [
        (lambda slots, threads: 1e5 * slots, 8),
        (lambda slots, threads: 1e5 * min(slots, 4), 4),
        (lambda slots, threads: 1e5 / slots, 1),
    ],
    ids=["rising", "up to four", "falling"],
)
def test_slots_follow_throughput(speed: Callable[[int, int], float], best: int) -> None:
    numbers = adaptation(Elastic())
    changes = run(numbers, 60, speed)
    assert numbers.slots == best
    assert [(one.what, one.before) for one in changes][:1] == [("slots", 1)]
    assert all(one.reason for one in changes)
    assert numbers.changes == changes
    assert run(numbers, 20, speed) == []


def test_threads_come_before_slots() -> None:
    first, second = Scripted(2, 4), Scripted(3)
    numbers = adaptation(Elastic(controller=second), Elastic(controller=first))
    found = [(c.what, c.after) for c in run(numbers, 12, lambda slots, threads: 1e6)]
    assert found == [("threads", 2), ("threads", 4), ("slots", 3)]
    assert (second.reconsidered, first.reconsidered) == (2, 1)


def test_the_batch_behind_a_change_says_nothing() -> None:
    controller = Scripted(2)
    run(adaptation(Elastic(controller=controller)), 6, lambda slots, threads: 1e6)
    assert [(one.threads, one.whole) for one in controller.told] == [
        (1, False), (1, True), (2, False), (2, True), (2, True), (2, True),
    ]  # fmt: skip
    assert {one.tuples for one in controller.told} == {3 * ROWS}
    assert controller.told[-1].period_ns == 100_000_000
    assert controller.told[-1].now_ns == 600_000_000


def test_the_batch_that_moves_keys_to_a_table_for_new_slots_says_nothing() -> None:
    """Tables at other times are no reason: there may be one in each batch."""
    controller = Scripted(2)
    numbers = adaptation(Elastic(controller=controller))
    for batch, new_table in enumerate([False, True, True, True, False, True, False]):
        numbers.batch_done(batch, rows=ROWS, tuples=ROWS, wall_s=1.0, new_table=new_table)
    assert [(one.threads, one.whole) for one in controller.told] == [
        (1, False), (1, True), (2, False), (2, False), (2, True), (2, True), (2, True),
    ]  # fmt: skip


def test_no_more_slots_than_a_table_can_have() -> None:
    for most, levels in ((3, [2, 3]), (None, [2, 8]), (9, [2, 8])):
        controller = Scripted(2, 8)
        numbers = adaptation(Elastic(controller=controller, minimum=2))
        numbers.limit_slots(most)
        assert numbers.most_slots == controller.limits.maximum == min(most or 8, 8)
        assert [one.after for one in run(numbers, 6, lambda s, t: 1e6)] == levels
    given = adaptation(4)
    given.limit_slots(3)
    assert given.slots == 4


def test_slots_follow_executors() -> None:
    """The most is what the cluster has now, but the buckets; fewer executors take slots at once, and the search begins
    anew. A maximum that was given, a number by hand, and a cluster that nobody looked at stay."""
    controller = Scripted(6, 8)
    numbers = adaptation(Elastic(controller=controller, minimum=2))
    numbers.limit_slots(7)
    assert [one.after for one in run(numbers, 2, lambda s, t: 1e6)] == [6]
    [fewer] = numbers.follow_cluster(3, 4)
    assert (fewer.what, fewer.before, fewer.after) == ("slots", 6, 4)
    assert fewer.reason == "the cluster runs 4 slots at a time, 7 before"
    assert numbers.slots == numbers.most_slots == controller.limits.maximum == 4
    assert numbers.follow_cluster(4, 4) == () == numbers.follow_cluster(4, 0)
    assert numbers.follow_cluster(5, 12) == () and (numbers.slots, numbers.most_slots) == (4, 7)
    assert controller.limits.maximum == 7
    [least] = numbers.follow_cluster(6, 1)
    assert least.after == numbers.most_slots == 2
    for given in (Elastic(controller=Scripted(), maximum=5), 3):
        fixed = adaptation(given)
        before = fixed.most_slots
        assert fixed.follow_cluster(1, 2) == () and fixed.most_slots == before
    numbers.rescale(5, 1, "by hand")
    assert numbers.follow_cluster(7, 3) == () and numbers.slots == 5


def test_small_batches_say_nothing() -> None:
    controller = Scripted(2)
    run(adaptation(Elastic(controller=controller, least_rows=ROWS + 1)), 5, lambda s, t: 1e6)
    assert controller.told == []


def test_levels_stay_within_the_limits() -> None:
    controller = Scripted(9, 0)
    numbers = adaptation(Elastic(controller=controller, minimum=2, maximum=5))
    assert numbers.slots == 2 and numbers.most_slots == 5
    assert [one.after for one in run(numbers, 8, lambda s, t: 1e6)] == [5, 2]
    assert (controller.limits.minimum, controller.limits.maximum) == (2, 5)


def test_a_number_by_hand_ends_the_search() -> None:
    numbers = adaptation(Elastic(controller=Scripted(2, 3)))
    run(numbers, 2, lambda s, t: 1e6)
    numbers.rescale(7, 1, "by hand")
    assert run(numbers, 10, lambda s, t: 1e6) == [] and numbers.slots == 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, "slots is a number of 1 or more, 'auto' or an Elastic"),
        (True, "slots is a number"),
        ("many", "slots is a number"),
    ],
)
def test_numbers_that_make_no_sense(given: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        elastic("slots", given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"minimum": 0}, "minimum is a number"),
        ({"maximum": "8"}, "maximum is a number"),
        ({"minimum": 3, "maximum": 2}, "at least 3 and at most 2"),
        ({"controller": "ThreadLevels"}, "one of thalweg.elasticity"),
        ({"controller": Combined()}, "controller Combined goes by .* take ThreadLevels"),
        ({"controller": Replicas()}, "controller Replicas goes by"),
        ({"controller": Utilization()}, "controller Utilization goes by"),
        ({"least_rows": -1}, "least_rows is a number"),
    ],
)
def test_elastic_that_makes_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError, match=message):
        Elastic(**given)


def test_what_is_given() -> None:
    given: Sequence[Any] = (3, None, Elastic(minimum=2))
    assert [elastic("slots", one) for one in given] == list(given)
    assert elastic("slots", "auto") == Elastic()


def test_one_controller_finds_one_number() -> None:
    """The default is made anew for each."""
    shared = ThreadLevels()
    with pytest.raises(BuildError, match="give each its own"):
        refuse_shared_controller(Elastic(controller=shared), Elastic(controller=shared))
    refuse_shared_controller(Elastic(controller=shared), Elastic(controller=ThreadLevels()))
    refuse_shared_controller(Elastic(), Elastic())
    refuse_shared_controller(Elastic(controller=shared), 4)


@pytest.mark.parametrize(
    ("given", "warns"),
    [
        (Elastic(minimum=64), True),
        (Elastic(minimum=64, maximum=128), False),
        (Elastic(minimum=2), False),
        (64, False),
    ],
)
def test_a_minimum_above_what_there_is(
    given: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing would be left to find, which is said; who gives a maximum above it knows."""
    with caplog.at_level(logging.WARNING, "thalweg"):
        warn_of_minimum("slots", given, 2, "the cluster runs at a time")
    told = "slots: Elastic(minimum=64) is more than the 2 the cluster runs at a time"
    assert [told in one for one in caplog.messages] == [True] * warns


def test_no_number_is_found_for_a_table_of_a_file(tmp_path: pathlib.Path) -> None:
    """The message says for how many slots the table is."""
    table = str(tmp_path / "table.json")
    save_table(table, RoutingTable.hashed({"word": ((FieldType(Kind.STR),), 12)}, 4))
    for slots in ("auto", Elastic(maximum=8)):
        with pytest.raises(BuildError, match=r"table.json is for 4 slots.*slots=4, or locality="):
            refuse_elastic_with_table(slots, table)
        for locality in ("off", "online"):
            refuse_elastic_with_table(slots, locality)
    refuse_elastic_with_table(4, table)
