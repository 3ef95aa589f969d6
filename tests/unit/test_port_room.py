"""Inputs of coroutine operators that are full: who waits, what grows, and what becomes an error."""

from __future__ import annotations

import logging
import threading
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.engine.port_room import PortRooms
from thalweg.engine.serial import SerialEngine
from thalweg.plan.plan import make_plan
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: int
    name: str


async def pairs(a: tw.Input[Row], b: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(a, b):
        await out.push(Row(a.pop().ts, b.pop().name))


async def steered(a: tw.Input[Row], b: tw.Control[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all({a: 3}):
        await out.push(a.pop(3)[0])


def rows(count: int) -> list[Row]:
    return [Row(i, str(i)) for i in range(count)]


def flow_of(function: Any = pairs, *, order_by: str | None = None, **options: Any) -> tw.Flow:
    flow = tw.Flow("room", compile="never")
    a, b = (flow.source(name, Row, order_by=order_by) for name in ("a", "b"))
    flow.operator("pairs", function, a=a, b=b, **options).sink("out")
    return flow


class Fed:
    """An engine with port rooms, fed by hand."""

    def __init__(self, flow: tw.Flow, live: dict[str, bool]) -> None:
        plan = make_plan(flow)
        self.engine = SerialEngine(prepare(plan))
        self.rooms = PortRooms(self.engine.coroutines, plan, live)
        self.index = {source.name: source.index for source in plan.sources}

    def feed(self, source: str, count: int) -> None:
        node = self.engine.plan.node(self.index[source])
        assert node.out is not None
        self.engine.feed(source, Chunk.from_rows(node.out, rows(count)))

    def held(self) -> list[str]:
        return [name for name, index in self.index.items() if self.rooms.holds_back(index)]

    def grown(self, operator: str = "pairs") -> int:
        return self.engine.counts.get(operator, {}).get("grown", 0)


LIVE = {"a": True, "b": True}


def test_a_full_input_holds_its_source() -> None:
    """The live source of a full input waits while another is idle; when that brings rows, it goes on."""
    fed = Fed(flow_of(capacity=4), LIVE)
    fed.feed("a", 3)
    assert fed.held() == []
    fed.feed("a", 3)
    assert fed.held() == ["a"]
    assert "input 'a' of operator 'pairs' is full" in fed.rooms.holds_back(fed.index["a"])
    fed.feed("b", 3)
    assert fed.held() == []
    assert fed.grown() == 0


def test_nobody_waits_for_who_has_ended() -> None:
    """When the idle input can bring nothing more, waiting would be for ever: the full one grows instead."""
    fed = Fed(flow_of(capacity=4), LIVE)
    fed.feed("a", 4)
    assert fed.held() == ["a"]
    fed.rooms.end(fed.index["b"])
    assert fed.held() == []
    fed.feed("a", 5)
    assert fed.grown() == 2
    room = fed.engine.coroutines[0].room
    assert room is not None
    assert room.capacity == [16, 4]
    assert [(one.queue, one.capacity) for one in room.growths] == [("a", 8), ("a", 16)]


def test_sources_that_cannot_wait() -> None:
    """What lies there is read in its order, and rows with event time come by it: for them inputs grow."""
    for flow, live in (
        (flow_of(capacity=4), {"a": False, "b": True}),
        (flow_of(capacity=4, order_by="ts"), LIVE),
    ):
        fed = Fed(flow, live)
        fed.feed("a", 20)
        fed.feed("b", 1)
        for _ in fed.engine.advance(everything=True):
            pass
        assert fed.held() == []
        assert fed.grown() == 3


def test_one_source_for_both_inputs() -> None:
    """A source that feeds the full input and the idle one must not wait for itself (an artificial deadlock)."""
    flow = tw.Flow("room", compile="never")
    a = flow.source("a", Row)
    late = a.filter(lambda row: row.ts >= 10)
    flow.operator("pairs", pairs, a=a, b=late, capacity=4).sink("out")
    fed = Fed(flow, {"a": True})
    fed.feed("a", 10)
    assert fed.held() == []
    assert fed.grown() == 2


def test_control_inputs_are_exempt() -> None:
    """Rows wait at a control input without holding anybody back."""
    fed = Fed(flow_of(steered, capacity=2), LIVE)
    fed.feed("b", 9)
    assert (fed.held(), fed.grown()) == ([], 0)


def test_sources_that_wait_for_each_other() -> None:
    """Two operators read two sources crosswise: where all wait, the smallest full input grows (Parks)."""
    flow = tw.Flow("room", compile="never")
    a, b = flow.source("a", Row), flow.source("b", Row)
    flow.operator("first", pairs, a=a, b=b.filter(lambda row: row.ts >= 9), capacity=8).sink("one")
    flow.operator("second", pairs, a=b, b=a.filter(lambda row: row.ts >= 9), capacity=4).sink("two")
    fed = Fed(flow, LIVE)
    fed.feed("a", 8)
    fed.feed("b", 4)
    assert fed.held() == ["a", "b"]
    fed.rooms.grow_smallest()
    assert (fed.grown("first"), fed.grown("second")) == (0, 1)
    assert fed.held() == ["a"]


@pytest.mark.parametrize("options", [None, Options(threads=2, queue_chunks=1)])
def test_crosswise_to_the_end(options: Options | None) -> None:
    """The same in a run: it ends, with all rows, and says what has grown."""
    flow = tw.Flow("room", compile="never")
    a, b = flow.source("a", Row), flow.source("b", Row)
    far_a, far_b = (one.filter(lambda row: row.ts >= 40) for one in (a, b))
    flow.operator("first", pairs, a=a, b=far_b, capacity=8).sink("one")
    flow.operator("second", pairs, a=b, b=far_a, capacity=4).sink("two")
    how: Any = {"options": options} if options else {"threading": "manual"}
    result = tw.run(flow, {"a": iter(rows(60)), "b": iter(rows(60))}, chunk_rows=1, **how)
    assert len(result.rows("one")) == len(result.rows("two")) == 20
    assert result.counts["first"]["grown"] + result.counts["second"]["grown"] >= 4


@pytest.mark.parametrize("threads", [1, 2])
def test_a_fast_source_waits_for_a_slow_one(threads: int, caplog: pytest.LogCaptureFixture) -> None:
    """In a run the fast one is held until the slow one begins, and the log says so; no row is lost."""
    full, given = threading.Event(), [0]

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "source 'a' waits: input 'a' of operator 'pairs' is full" in record.getMessage():
                full.set()

    def fast() -> Any:
        for row in rows(3_000):
            given[0] += 1
            yield row

    def slow() -> Any:
        assert full.wait(60)
        given.append(given[0])
        yield from rows(3_000)

    told = Told()
    logging.getLogger("thalweg").addHandler(told)
    try:
        with caplog.at_level(logging.INFO, "thalweg"):
            result = tw.run(
                flow_of(capacity=50), {"a": fast(), "b": slow()}, chunk_rows=10, threads=threads,
                threading="manual" if threads == 1 else "dynamic",
            )  # fmt: skip
    finally:
        logging.getLogger("thalweg").removeHandler(told)
    assert len(result.rows("out")) == 3_000
    assert 50 <= given[1] < 1_500
    # An input may grow where both sources look held, as one has not looked again yet; many times it must not.
    assert threads == 2 or result.counts["pairs"].get("grown", 0) <= 2


def test_growth_is_named_and_may_be_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """The log says which input has grown, and for which the operator waits; ``max_waiting`` ends the flow instead."""
    inputs = {"a": rows(70), "b": []}
    with caplog.at_level(logging.INFO, "thalweg"):
        result = tw.run(flow_of(capacity=50), inputs)
    assert "operator 'pairs': input 'a' grows to 100 rows; it waits for b" in caplog.text
    assert result.counts["pairs"]["grown"] == 1
    with pytest.raises(tw.OperatorError, match=r"61 rows wait at input 'a'.*waits for b"):
        tw.run(flow_of(capacity=50, max_waiting=60), inputs)


def test_capacity_is_a_number() -> None:
    """It is checked when the flow is built."""
    with pytest.raises(tw.BuildError, match="capacity is a number of rows from 1, got 0"):
        flow_of(capacity=0)
