"""Policies that say after each chunk whether a worker stays with its operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.engine_kit import (
    ROWS,
    WAYS,
    Count,
    Row,
    bounded,
    count,
    event,
    events,
    no_thread_left,
    plus_one,
    wait_for,
)

import thalweg as tw
from thalweg.errors import SchedulingError
from thalweg.scheduling import FlowView, MaxQueueLength, Pick
from thalweg.workers.options import Options

__all__ = ["events", "no_thread_left"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked(MaxQueueLength):
    """Leaves an operator as its function says; counts what it is asked."""

    leaves: Callable[[FlowView, int], bool]
    picks: list[int] = dataclasses.field(default_factory=list, hash=False)
    asked: list[tuple[int, int]] = dataclasses.field(default_factory=list, hash=False)

    def pick_function(self) -> Pick:
        def pick(view: FlowView, worker: int) -> int:
            # No machine code: Numba knows no such list.
            self.picks.append(worker)
            return max(range(1, len(view.kind)), key=lambda i: (view.runnable[i], view.worklist[i]))

        return pick

    def preempt(self, view: FlowView, operator: int, began_ns: int) -> bool:
        self.asked.append((operator, int(view.now_ns[0]) - began_ns))
        return self.leaves(view, operator)


def always(view: FlowView, operator: int) -> bool:
    return True


def never(view: FlowView, operator: int) -> bool:
    return False


def longer_elsewhere(view: FlowView, operator: int) -> bool:
    return bool(view.worklist[operator] < view.worklist.max())


def flow_of(compiled: Any) -> tw.Flow:
    flow = tw.Flow("visited")
    rows = flow.source("in", Row, order_by="ts").map(plus_one, compile=compiled)
    rows.process(count, state=Count, name="all", compile=compiled).sink("all")
    rows.key_by("key").process(count, state=Count, name="by key", compile=compiled).sink("by key")
    return flow


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("leaves", [always, never, longer_elsewhere])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("way", ["one", "two", "eight", "narrow"])
def test_outputs_are_those_of_a_serial_run(leaves: Any, compiled: bool, way: str) -> None:
    flow, policy = flow_of(compiled), Asked(leaves=leaves)
    expected = tw.run(flow, {"in": ROWS}, threading="manual")
    options = dataclasses.replace(WAYS[way], policy=policy)
    result = bounded(lambda: tw.run(flow, {"in": ROWS}, options=options, chunk_rows=10))
    for sink in ("all", "by key"):
        assert result.rows(sink) == expected.rows(sink)
    assert policy.asked
    assert all(0 < operator < 10 and ran >= 0 for operator, ran in policy.asked)


def rows_then_an_event() -> Iterator[Row]:
    yield from ROWS[:500]
    event("all is there").set()


def late(row: Row) -> Row:
    wait_for("all is there")
    return row


@pytest.mark.usefixtures("no_thread_left", "events")
@pytest.mark.parametrize(("leaves", "visits_a_chunk"), [(always, True), (never, False)])
def test_who_is_told_to_leave_leaves(leaves: Any, visits_a_chunk: bool) -> None:
    """With 50 chunks before an operator one worker comes 50 times, or once."""
    flow = tw.Flow("waits")
    flow.source("in", Row, order_by="ts").map(late, compile=False).sink("out")
    policy = Asked(leaves=leaves)
    options = Options(threads=1, policy=policy)
    bounded(lambda: tw.run(flow, {"in": rows_then_an_event()}, options=options, chunk_rows=10))
    asked = sum(operator == 1 for operator, _ in policy.asked)
    assert asked >= 50
    assert (len(policy.picks) >= asked) is visits_a_chunk


@pytest.mark.usefixtures("no_thread_left")
def test_a_preempt_that_raises_ends_the_run() -> None:
    """The error names the policy."""

    def raises(view: FlowView, operator: int) -> bool:
        raise KeyError("no idea")

    policy = Asked(leaves=raises)
    with pytest.raises(SchedulingError, match="policy Asked: its preempt failed: KeyError"):
        bounded(lambda: tw.run(flow_of(True), {"in": ROWS}, threads=2, policy=policy))
