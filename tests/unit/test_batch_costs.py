"""Slots by what a batch and a row cost: the choice, on figures, and how it follows a load."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import pytest

from thalweg.elasticity import BatchCosts, Limits, Sample
from thalweg.elasticity.batch_costs import BatchCost, choose, cost_of
from thalweg.errors import BuildError

MS = 1_000_000


def chosen(
    costs: Mapping[int, tuple[int, int]], now: int, rows: int = 100_000, most: int = 4
) -> int:
    """The choice where batches cost so many ms and rows so many ns."""
    known = {slots: BatchCost(batch * MS, row) for slots, (batch, row) in costs.items()}
    found = choose(known, rows, now, Limits(1, most), worth_trying=0.15, worth_keeping=0.07)
    assert found.reason
    return found.slots


def test_choices() -> None:
    """A number is tried where it could save enough, and kept where it does; of equal ones the fewest slots."""
    light, heavy = (200, 200), (200, 5_000)
    assert chosen({1: light}, 1) == 1
    assert chosen({1: heavy}, 1) == 2
    assert chosen({1: heavy}, 1, most=1) == 1
    # The same flow with few rows a batch, and with many.
    assert chosen({1: heavy}, 1, rows=1_000) == 1
    assert chosen({1: light}, 1, rows=2_000_000) == 2
    # What was tried: it saves enough and the next number is tried, saves enough and is the most, or does not.
    assert chosen({1: heavy, 2: (220, 2_600)}, 2) == 4
    assert chosen({1: heavy, 2: (220, 2_600)}, 2, most=2) == 2
    assert chosen({1: heavy, 2: (400, 4_800)}, 2) == 1
    assert chosen({1: heavy, 2: (220, 2_600), 4: (300, 2_600)}, 4) == 2
    # Known costs decide for batches of another size, too.
    assert chosen({1: heavy, 2: (300, 2_600)}, 2, rows=20_000, most=2) == 1
    assert chosen({1: heavy, 2: (300, 2_600)}, 1, rows=200_000, most=2) == 2
    # With rows that have become light fewer slots are tried, which lose little at most.
    assert chosen({4: (300, 20)}, 4) == 2
    assert chosen({4: heavy}, 4) == 4


def test_costs_of_a_batch() -> None:
    """What slots share is work of theirs, never more than the batch took; all of it where work is not known."""
    one = Sample(now_ns=0, period_ns=300, threads=2, tuples=10, work_ns=200)
    assert cost_of(one) == BatchCost(200, 10)
    assert cost_of(Sample(now_ns=0, period_ns=300, threads=2, tuples=10, work_ns=900)) == BatchCost(
        0, 30
    )
    assert cost_of(Sample(now_ns=0, period_ns=300, threads=2, tuples=10)) == BatchCost(0, 30)
    assert cost_of(one).of(40) == 600
    assert cost_of(one).at_best(2, 4) == BatchCost(200, 5)


class Load:
    """Batches of a flow on slots that lose a share of their work to each other."""

    def __init__(self, row_ns: float, loss: float = 0.1, batch_ms: float = 200) -> None:
        self.row_ns, self.loss, self.batch_ms = row_ns, loss, batch_ms

    def sample(self, slots: int, rows: int, *, whole: bool = True) -> Sample:
        work = rows * self.row_ns * (1 + self.loss * (slots > 1))
        period = self.batch_ms * MS * (1 + self.loss * (slots - 1)) + work / slots
        return Sample(
            now_ns=0, period_ns=round(period), threads=slots, tuples=rows, whole=whole, work_ns=round(work)
        )  # fmt: skip


def follow(
    controller: BatchCosts,
    now: int,
    load: Load,
    batches: int,
    rows: Callable[[int], int] = lambda batch: 100_000,
) -> list[int]:
    """The slots behind each batch; the batch behind a change says nothing."""
    seen, changed = [], False
    for batch in range(batches):
        found = controller.decide(load.sample(now, rows(batch), whole=not changed))
        changed = bool(found)
        if found:
            assert found[0].current == now and found[0].reason
            now = found[0].target
        seen.append(now)
    return seen


def test_it_follows_the_load() -> None:
    """Light rows stay in one slot without a trial; when they become heavy they spread, and come back."""
    controller = BatchCosts()
    controller.start(Limits(1, 4))
    assert follow(controller, 1, Load(200), 10) == [1] * 10
    assert controller.settled and controller.choice is not None
    assert "slots share 9%" in controller.choice.reason
    seen = follow(controller, 1, Load(10_000), 12)
    assert seen[-1] == 4 and seen[:2] == [1, 1]
    assert follow(controller, 4, Load(10_000), 5) == [4] * 5
    assert follow(controller, 4, Load(150), 12)[-1] == 1
    # Where two slots do no good they are tried once.
    controller = BatchCosts()
    controller.start(Limits(1, 4))
    seen = follow(controller, 1, Load(10_000, loss=1.2), 20)
    assert seen[-1] == 1 and sorted({*seen}) == [1, 2]
    assert [one != other for one, other in itertools.pairwise(seen)].count(True) == 1 + (
        seen[0] == 1
    )


def test_one_odd_batch_changes_nothing() -> None:
    """A slow batch is not another load, and the least of some readings counts."""
    controller = BatchCosts()
    controller.start(Limits(1, 4))
    follow(controller, 1, Load(300), 4)
    assert follow(controller, 1, Load(9_000), 1) == [1]
    assert follow(controller, 1, Load(300), 4) == [1] * 4
    assert controller.decide(Load(9_000).sample(1, 100_000, whole=False)) == ()
    controller.reconsider()
    assert not controller.settled


@pytest.mark.parametrize(
    "wrong",
    [{"worth_trying": 1.5}, {"worth_keeping": -0.1}, {"readings": 0}, {"load_change": 0.5}],
)
def test_arguments_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(BuildError):
        BatchCosts(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("row_ns", "slots"), [(96.0, 1), (90.0, 2)])
def test_more_slots_are_kept_where_they_save_enough(row_ns: float, slots: int) -> None:
    """Of numbers that have run, 4 % less time is not worth one more, 10 % is."""
    costs = {1: BatchCost(0.0, 100.0), 2: BatchCost(0.0, row_ns)}
    found = choose(costs, 1_000, 2, Limits(1, 2), worth_trying=0.15, worth_keeping=0.07)
    assert found.slots == slots
