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
from thalweg.scheduling import FlowView, LeastRecentlyRun, MaxQueueLength, Pick
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


#: The rows that the long query has done, and how many these were when the short one answered.
DONE: list[Row] = []
BEFORE: list[int] = []


async def short(asks: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(asks):
        BEFORE.append(len(DONE))
        await out.push(asks.pop())


async def long(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    """At its 20th row all others wait in front of it, and another flow is asked."""
    while await tw.wait_for_all(rows):
        row = rows.pop()
        DONE.append(row)
        if row == ROWS[20]:
            event("running").set()
            wait_for("asked")
        await out.push(row)


def rows_before_the_answer(**options: Any) -> int:
    """How many of 200 rows a long query of driver loops had done when a short one beside it answered."""
    DONE.clear(), BEFORE.clear()
    flows, asks, rows = [], tw.push_source(), tw.push_source()
    for loop, port in ((long, "rows"), (short, "asks")):
        flow = tw.Flow(port)
        flow.operator("loop", loop, **{port: flow.source("in", Row)}).sink("out")
        flows.append(flow)
    with tw.start(options=Options(threads=1, **options)) as running:
        one = running.add(flows[0], {"in": rows}, chunk_rows=4)
        two = running.add(flows[1], {"in": asks})
        rows.push(*ROWS[:200])
        rows.close()
        wait_for("running")
        _until(lambda: _waiting(one) >= 170)
        asks.push(ROWS[0])
        asks.close()
        _until(lambda: _waiting(two) == 1)
        event("asked").set()
        assert one.result().rows("out") == ROWS[:200]
        two.result()
    return BEFORE[0]


def _waiting(run: Any) -> int:
    """How many rows wait in front of a flow's loop."""
    return sum(one.queue_rows or 0 for one in run.progress().operators if one.name == "loop")


def _until(happened: Callable[[], bool]) -> None:
    while not happened():
        pass


@pytest.mark.usefixtures("no_thread_left", "events")
@pytest.mark.parametrize("policy", [None, LeastRecentlyRun(slice_ns=10**11)])
def test_a_quantum_lets_a_short_query_in(policy: Any) -> None:
    """The only worker leaves a loop that has rows when the quantum is over; without one it stays until it has none."""
    assert bounded(lambda: rows_before_the_answer(policy=policy)) == 200
    for name in ("running", "asked"):
        event(name).clear()
    # A visit to an operator whose cost is known by now is for a row, which a chunk of four is.
    assert 21 <= bounded(lambda: rows_before_the_answer(policy=policy, quantum_ms=1e-6)) <= 28


@pytest.mark.parametrize("wrong", [0, -1.0, "5", float("nan")])
def test_a_quantum_is_a_time(wrong: Any) -> None:
    """Milliseconds above 0."""
    with pytest.raises(tw.BuildError, match="quantum_ms"):
        Options(quantum_ms=wrong)
