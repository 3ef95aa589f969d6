"""Feedback: what an operator sends back to a control port upstream, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.plan.plan import make_plan
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: int
    n: int


class Rule(NamedTuple):
    limit: int


@tw.state
class Limit:
    limit: int = 3


@tw.state
class Total:
    n: int = 0


async def limited(
    rows: tw.Input[Row], rule: tw.Control[Rule], held: Limit, out: tw.Output[Row]
) -> None:
    """Rows up to the last limit that was sent back."""
    while await tw.wait_for_all(rows):
        while len(rule):
            held.limit = rule.pop().limit
        row = rows.pop()
        if row.n <= held.limit:
            await out.push(row)


def raised(total: Total, row: Row) -> Rule | None:
    """With every second row a limit higher by one."""
    total.n += 1
    return Rule(3 + total.n // 2) if total.n % 2 == 0 else None


def rows(*numbers: int) -> list[Row]:
    return [Row(ts, n) for ts, n in enumerate(numbers)]


def steered(*, order_by: str | None = "ts") -> tw.Flow:
    flow = tw.Flow("steered")
    rule = flow.feedback("rule", Rule)
    passed = flow.operator(
        "limited", limited, rows=flow.source("rows", Row, order_by=order_by), rule=rule
    )
    rule.connect(passed.process(raised, state=Total))
    passed.sink("out")
    return flow


THREADS = [None, Options(threads=2), Options(threads=3, threading="dedicated")]


@pytest.mark.parametrize("options", THREADS)
def test_row_after_row(options: Options | None) -> None:
    """What one row sends back holds from the next one on, in the serial reference as in every engine, at every cut."""
    numbers = [1, 2, 4, 3, 5, 4, 6, 6, 5, 1, 2, 7, 8, 3] * 20
    result = testing.assert_same(
        steered(), {"rows": rows(*numbers)}, seeds=range(8), options=lambda chooser: options,
        restart_every=lambda chooser: chooser.choice([0, 1, 3]),
    )  # fmt: skip
    expected, limit, count = [], 3, 0
    for row in rows(*numbers):
        if row.n <= limit:
            expected.append(row)
            count += 1
            if count % 2 == 0:
                limit = 3 + count // 2
    assert result.sinks["out"] == expected
    assert result.counts["limited"]["in"] == len(numbers) + len(expected) // 2


def test_without_event_time() -> None:
    """The same in the order of arrival."""
    numbers = [1, 2, 4, 3, 5, 4, 6, 6, 5]
    timed, untimed = (
        tw.run(steered(order_by=by), {"rows": rows(*numbers)}).rows("out") for by in ("ts", None)
    )
    assert timed == untimed


def test_to_itself() -> None:
    """An operator may send rows back to itself: it finds them when it goes on."""

    async def counted(
        rows: tw.Input[Row], back: tw.Control[Rule], seen: tw.Output[Row], send: tw.Output[Rule]
    ) -> None:
        while await tw.wait_for_all(rows):
            row = rows.pop()
            there = back.pop(len(back))
            await seen.push(Row(row.ts, sum(rule.limit for rule in there)))
            await send.push(Rule(row.n))
            await send.push(Rule(100 * row.n))

    flow = tw.Flow("itself")
    back = flow.feedback("back", Rule)
    made = flow.operator(
        "counted", counted, rows=flow.source("rows", Row, order_by="ts"), back=back
    )
    back.connect(made.send)
    made.seen.sink("out")
    result = testing.assert_same(flow, {"rows": rows(1, 2, 3)}, seeds=range(4), compile=("never",))
    assert [row.n for row in result.sinks["out"]] == [0, 101, 202]
    assert result.counts["counted"]["unread"] == 2


async def last_first(
    rows: tw.Input[Row], rule: tw.Control[Rule], out: tw.Output[Row], *, factor: int = 1
) -> None:
    """At the end the last row again, if something was sent back."""
    row, sent = Row(0, 0), 0
    while await tw.wait_for_all(rows):
        row = rows.pop()
        sent += sum(rule.limit for rule in rule.pop(len(rule)))
        await out.push(row)
    await out.push(Row(row.ts, factor * sent))


def as_rule(row: Row) -> Rule:
    return Rule(row.n)


def test_end() -> None:
    """A feedback keeps nobody alive: the reader ends with its data, and what still comes is dropped and counted."""
    flow = tw.Flow("ending")
    rule = flow.feedback("rule", Rule)
    passed = flow.operator(
        "first", last_first, rows=flow.source("rows", Row, order_by="ts"), rule=rule
    )
    rule.connect(passed.map(as_rule))
    passed.sink("out")
    result = testing.assert_same(flow, {"rows": rows(5, 6, 7)}, seeds=range(6), compile=("never",))
    assert [row.n for row in result.sinks["out"]] == [5, 6, 7, 11]
    assert result.counts["first"] == {"in": 7, "out": 4, "unread": 1, "dropped": 1}


def test_after_an_early_return() -> None:
    """To an operator that has returned rows are sent back in vain: dropped, and counted."""

    async def first_two(rows: tw.Input[Row], rule: tw.Control[Rule], out: tw.Output[Row]) -> None:
        for _ in range(2):
            if await tw.wait_for_all(rows):
                await out.push(rows.pop())

    flow = tw.Flow("ending")
    rule = flow.feedback("rule", Rule)
    source = flow.source("rows", Row, order_by="ts")
    passed = flow.operator("first", first_two, rows=source, rule=rule)
    rule.connect(source.union(passed).map(as_rule))
    passed.sink("out")
    result = testing.assert_same(flow, {"rows": rows(5, 6, 7)}, seeds=range(6), compile=("never",))
    # Two of the first row are there when it returns, one more of the second; the other two come too late.
    assert result.counts["first"] == {"in": 8, "out": 2, "unread": 2, "dropped": 4}


@pytest.mark.parametrize("options", THREADS)
def test_loops_within_loops(options: Options | None) -> None:
    """Several feedbacks, a fan-out, an operator by key and one outside in between: one loop, in the serial order."""

    async def twice(
        rows: tw.Input[Row], more: tw.Input[Row], rule: tw.Control[Rule], out: tw.Output[Row]
    ) -> None:
        factor = 1
        while ports := await tw.wait_for_any(rows, more):
            factor = rule.pop(len(rule))[-1].limit % 5 if len(rule) else factor
            for port in ports:
                row = port.pop()
                await out.push(Row(row.ts, row.n + factor))
                await out.push(Row(row.ts, row.n - factor))

    flow = tw.Flow("nested")
    inner, outer = flow.feedback("inner", Rule), flow.feedback("outer", Rule)
    one, two = (flow.source(name, Row, order_by="ts") for name in ("one", "two"))
    first = flow.operator("first", twice, rows=one, more=two, rule=outer)
    first.sink("first")
    second = flow.operator(
        "second", twice, rows=first, more=two.map(lambda row: Row(row.ts, 9), into=Row), rule=inner
    )
    inner.connect(second.map(as_rule, name="to inner"))
    number = second.key_by("n").process(raised, state=Total, name="number")
    outer.connect(number.union(first.map(as_rule, name="straight")))
    number.sink("rules")
    second.union(one).sink("rows")
    inputs = {"one": rows(1, 2, 3, 4, 5, 6), "two": rows(7, 8, 9, 1)}
    result = testing.assert_same(
        flow, inputs, seeds=range(10), compile=("never",), options=lambda chooser: options
    )
    assert len({row.n for row in result.sinks["rows"]}) > 9
    loop = next(unit for unit in make_plan(flow).units if unit.loop)
    names = [make_plan(flow).node(index).name for index in loop.nodes]
    assert names == ["first", "second", "to inner", "number", "straight", "union"]


def test_explain() -> None:
    """The plan shows who sends rows back to whom, and that the loop runs a row at a time."""
    text = steered().explain(compile=False)
    assert "inputs rows, control rule (feedback)" in text
    assert "in a loop of feedback, a row at a time: limited, raised" in text
    assert "rows go back to limited" in text


# -- what is refused -------------------------------------------------------------------------------------


async def by_data(rows: tw.Input[Row], rule: tw.Input[Rule], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(rows, rule):
        await out.push(rows.pop())


async def only_back(rule: tw.Control[Rule], out: tw.Output[Row]) -> None:
    """No data input."""


@tw.state
class Timed:
    timer: tw.Timer
    n: int = 0


def quiet(total: Timed, row: Row) -> None:
    total.timer = row.ts + 1


def over(total: Timed, time: int) -> Rule:
    return Rule(total.n)


def start() -> tuple[tw.Flow, Any, Any]:
    flow = tw.Flow("refused")
    return flow, flow.source("rows", Row, order_by="ts"), flow.feedback("rule", Rule)


def through_data() -> None:
    flow, source, rule = start()
    made = flow.operator("paired", by_data, rows=source, rule=rule)
    rule.connect(made.filter(lambda row: row.n > 0, name="some").map(as_rule))


def not_downstream() -> None:
    flow, source, rule = start()
    flow.operator("limited", limited, rows=source, rule=rule)
    rule.connect(source.map(as_rule))


def unread() -> None:
    _, source, rule = start()
    rule.connect(source.map(as_rule))


def twice_connected() -> None:
    flow, source, rule = start()
    made = flow.operator("limited", limited, rows=source, rule=rule).map(as_rule)
    rule.connect(made)
    rule.connect(made)


def not_connected() -> None:
    flow, source, rule = start()
    flow.operator("limited", limited, rows=source, rule=rule).sink("out")
    tw.run(flow, {"rows": []})


def other_record() -> None:
    flow, source, rule = start()
    rule.connect(flow.operator("limited", limited, rows=source, rule=rule))


def other_flow() -> None:
    flow, source, rule = start()
    flow.operator("limited", limited, rows=source, rule=rule)
    rule.connect(tw.Flow("other").source("rules", Rule))


def with_timer() -> None:
    flow, source, rule = start()
    made = flow.operator("limited", limited, rows=source, rule=rule)
    rule.connect(made.process(quiet, state=Timed, on_timer=over, name="alarm"))


def with_order() -> None:
    flow, source, rule = start()
    made = flow.operator("limited", limited, rows=source, rule=rule)
    rule.connect(made.order_by("ts", name="again").map(as_rule))


def without_data() -> None:
    flow, _, rule = start()
    flow.operator("only", only_back, rule=rule)


def by_a_verb() -> None:
    _, source, rule = start()
    source.map(as_rule).union(rule)


def as_a_stream() -> None:
    _, _, rule = start()
    rule.sink("out")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (through_data, r"data port 'rule'.*\n  paired -> some -> as_rule -> paired.rule\n.*tw.Control\[Rule\]"),
        (not_downstream, "'as_rule' does not come from operator 'limited'"),
        (unread, "no operator reads it; give it to a tw.Control port first"),
        (twice_connected, "it is connected to 'as_rule' already, and takes one stream"),
        (as_a_stream, "feedback 'rule' has no sink: it is where rows come back to"),
        (not_connected, r"'limited' reads feedback 'rule', which is not connected; end it with rule.connect\(stream\)"),
        (other_record, "it carries Rule.* but the stream has Row"),
        (other_flow, "takes a stream of this flow"),
        (with_timer, r"'alarm' has timers, and is in a feedback loop \(limited, alarm\)"),
        (with_order, r"'again' has a watermark of its own, and is in a feedback loop"),
        (by_a_verb, r"expected a stream, got Feedback\('rule'\), which tw.Control ports"),
        (without_data, "has control inputs only"),
    ],
)  # fmt: skip
def test_refused(make: Callable[[], None], message: str) -> None:
    """Each cycle that cannot run is refused when the flow is built, and drawn."""
    with pytest.raises(tw.BuildError, match=message):
        make()


def test_refused_on_spark() -> None:
    """The message says what to do instead."""
    from thalweg.spark.reading.inputs import refuse_embedded_only

    with pytest.raises(
        tw.BuildError, match=r"'limited' reads a feedback.*run this flow with tw.run"
    ):
        refuse_embedded_only(make_plan(steered()))
