"""Barrier, merge, join, zip, gate, throttle, delay and split against what they mean, over cuts and restarts."""

from __future__ import annotations

import csv
import json
import logging
import math
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

import thalweg as tw
from thalweg import testing

CASE = Path(__file__).parents[1] / "cases" / "15_barrier_idle"


class Value(NamedTuple):
    t: int
    v: str


class Keyed(NamedTuple):
    t: int
    key: float | None
    v: str


class Both(NamedTuple):
    one: str
    two: str


class Three(NamedTuple):
    a: str
    b: str
    c: str


def check(flow: tw.Flow, inputs: dict[str, list[Any]], seeds: int = 6) -> testing.CheckedResult:
    """The engine gives what the reference gives, over cuts, and started anew after every few rows."""
    return testing.assert_same(
        flow, inputs, seeds=range(seeds), compile=("never",), restart_every=lambda c: c.choice([0, 1, 3])
    )  # fmt: skip


def flow_of(*names: str, record: Any = Value, order_by: str | None = "t") -> tuple[Any, ...]:
    flow = tw.Flow("loops", compile="never")
    return flow, *(flow.source(name, record, order_by=order_by) for name in names)


# -- barrier ---------------------------------------------------------------------------------------------


def case_inputs() -> dict[str, list[Value]]:
    inputs = {}
    for name in "abc":
        with (CASE / "input" / f"{name}.csv").open() as file:
            inputs[name] = [Value(int(row["t"]), row["v"]) for row in csv.DictReader(file)]
    return inputs


def test_barrier_with_an_idle_input(caplog: pytest.LogCaptureFixture) -> None:
    """The written case: matches by position and by time, what is left at the end, and which input was idle."""
    expected, inputs = json.loads((CASE / "expected.json").read_text()), case_inputs()
    flow, a, b, c = flow_of("a", "b", "c")
    flow.barrier(lambda *rows: tuple(row.v for row in rows), into=Three, a=a, b=b, c=c).sink("rows")
    timed = flow.barrier(by_time=True, name="timed", a=a, b=b, c=c)
    timed.matched.sink("matched")
    timed.unmatched.sink("unmatched")
    with caplog.at_level(logging.INFO, "thalweg"):
        result = check(flow, inputs)
    assert [list(row) for row in result.sinks["rows"]] == expected["by_position"]
    got = [[row.a.t, row.a.v, row.b.v, row.c.v] for row in result.sinks["matched"]]
    assert got == expected["by_time"]
    unmatched: dict[str, list[int]] = {name: [] for name in inputs}
    for name, time in result.sinks["unmatched"]:
        unmatched[name].append(time)
    assert unmatched == expected["by_time_unmatched"]
    left, waiting = expected["by_position_left"], expected["waiting_at_end"]
    assert result.counts["barrier"]["unread"] == sum(map(len, left.values()))
    assert result.counts["timed"]["unread"] == sum(map(len, waiting.values()))
    for operator, rows in (("barrier", left), ("timed", waiting)):
        said = ", ".join(f"{name} {len(rows[name])}" for name in "abc")
        assert f"operator {operator!r} has ended; rows not read: {said};" in caplog.text
    assert f"it was waiting for {expected['idle_input']}\n" in caplog.text


def test_barrier_bounds_what_waits() -> None:
    """With ``max_waiting`` an idle input stops the flow, and is named, before the others pile up."""
    flow, a, b, c = flow_of("a", "b", "c")
    flow.barrier(a=a, b=b, c=c, max_waiting=1).sink("rows")
    with pytest.raises(tw.OperatorError, match=r"2 rows wait at input 'a'.*waits for c"):
        tw.run(flow, {**case_inputs(), "c": []})


def series(seed: int, length: int) -> list[Value]:
    """A series on a grid of 5 minutes with some points missing, and once a time twice."""
    chooser = random.Random(seed)
    times = [300 * i for i in range(length) if chooser.random() > 0.02]
    times.insert(7, times[7])
    return [Value(time, f"{seed}-{i}") for i, time in enumerate(times)]


def test_barrier_of_ten_series() -> None:
    """Ten series of unequal lengths: by position as zip pairs them, by time where all ten have a row."""
    names = [f"s{i}" for i in range(10)]
    inputs = {name: series(i, 150 + i) for i, name in enumerate(names)}
    flow, *streams = flow_of(*names)
    given = dict(zip(names, streams, strict=True))
    flow.barrier(**given).sink("rows")
    flow.barrier(by_time=True, name="timed", **given).matched.sink("matched")
    result = check(flow, inputs, seeds=3)
    assert [tuple(row) for row in result.sinks["rows"]] == list(zip(*inputs.values(), strict=False))
    common = set.intersection(*({row.t for row in rows} for rows in inputs.values()))
    matched = [[row.t for row in one] for one in result.sinks["matched"]]
    assert {time for times in matched for time in times} == common
    assert all(len(set(times)) == 1 for times in matched)
    assert len(matched) == len(common) + (inputs["s0"][7].t in common and all(
        [row.t for row in rows].count(inputs["s0"][7].t) > 1 for rows in inputs.values()
    ))  # fmt: skip


# -- merge -----------------------------------------------------------------------------------------------


@settings(max_examples=sized(40), deadline=None, derandomize=True, database=None)
@given(st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=1, max_size=3))
def test_merge(times: list[list[int]]) -> None:
    """As sorted() merges, ties in the order of the streams."""
    names = [f"s{i}" for i in range(len(times))]
    inputs = {
        name: [Value(t, name) for t in sorted(mine)]
        for name, mine in zip(names, times, strict=True)
    }
    flow, *streams = flow_of(*names, order_by=None)
    flow.merge(*streams, by="t").sink("out")
    result = testing.run(flow, inputs, restart_every=1)
    every = [row for rows in inputs.values() for row in rows]
    assert result.rows("out") == sorted(every, key=lambda row: row.t)
    assert result.rows("out") == testing.reference(flow, inputs).rows("out")


def test_merge_stops_when_asked() -> None:
    """A merge that is told to stop while all its inputs are open ends."""
    from tests.unit.test_coroutines import Made

    from thalweg.flow.operators.coroutines import Input, Output, Queue
    from thalweg.flow.operators.joining.joins import merge

    made = Made()
    ports = [Input(Queue[Any]("a")), Input(Queue[Any]("b"))]

    async def two(one: Any, other: Any, out: Any) -> None:
        await merge(one, other, out=out, place=0)

    made.add(two, *ports, Output[Any]("out"))
    made.net.put(ports[0].queue, (1,))
    made.run()
    made.net.stop(drain=False)
    made.run()
    assert made.net.completed


# -- join ------------------------------------------------------------------------------------------------

_ROWS = st.lists(
    st.builds(
        Keyed,
        t=st.integers(0, 20),
        key=st.sampled_from((0.0, -0.0, 1.0, math.nan, None)),
        v=st.sampled_from("abc"),
    ),
    max_size=12,
)


def equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return False
    return one == other or (math.isnan(one) and math.isnan(other))


@settings(max_examples=sized(60), deadline=None, derandomize=True, database=None)
@given(_ROWS, _ROWS, st.integers(0, 8), st.lists(st.integers(0, 99), min_size=1, max_size=2))
def test_join(left: list[Keyed], right: list[Keyed], within: int, seeds: list[int]) -> None:
    """All pairs of equal keys within the time, whatever the order of arguments, arrival and cuts."""
    flow = tw.Flow("join")
    one = flow.source("left", Keyed, order_by="t", lateness=25)
    two = flow.source("right", Keyed, order_by="t", lateness=25)
    one.join(two, on="key", within=within).sink("joined")
    two.join(
        one,
        lambda row, other: (other.v, row.v),
        on={"key": "key"},
        within=within,
        into=Both,
        name="other way",
    ).sink("other")
    inputs = {"left": left, "right": right}
    result = testing.assert_same(
        flow, inputs, seeds=seeds, compile=("never",), restart_every=lambda c: c.choice([0, 1, 2])
    )
    pairs = [
        (a, b) for a in left for b in right if equal(a.key, b.key) and abs(a.t - b.t) <= within
    ]
    got = [(row.t, row.v, row.t_right, row.v_right) for row in result.sinks["joined"]]
    assert sorted(got) == sorted((a.t, a.v, b.t, b.v) for a, b in pairs)
    assert sorted(result.sinks["other"]) == sorted((a.v, b.v) for a, b in pairs)
    later = [max(row.t, row.t_right) for row in result.sinks["joined"]]
    assert later == sorted(later)


@settings(max_examples=sized(40), deadline=None, derandomize=True, database=None)
@given(
    _ROWS,
    _ROWS,
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from(("left", "right", "outer")),
    st.integers(0, 99),
)
def test_rows_without_partner(
    left: list[Keyed], right: list[Keyed], before: int, after: int, how: Any, seed: int
) -> None:
    """Of the sides that are asked for, each row without a partner comes out once, when it can meet none any more."""
    flow = tw.Flow("join")
    one = flow.source("left", Keyed, order_by="t", lateness=25)
    two = flow.source("right", Keyed, order_by="t", lateness=25)
    flat = one.join(two, on="key", before=before, after=after, how=how)
    flat.sink("flat")
    made = one.join(
        two, either, on="key", before=before, after=after, how=how, into=Both, name="made"
    )
    made.sink("made")
    inputs = {"left": left, "right": right}
    result = testing.assert_same(flow, inputs, seeds=[seed], compile=("never",))
    pairs = [
        (a, b) for a in left for b in right if equal(a.key, b.key) and -before <= b.t - a.t <= after
    ]
    met = {id(row) for pair in pairs for row in pair}
    alone = [(a, None) for a in left if how != "right" and id(a) not in met]
    others = [(None, b) for b in right if how != "left" and id(b) not in met]
    wanted: list[Any] = [*pairs, *alone, *others]
    assert sorted(result.sinks["made"]) == sorted(either(a, b) for a, b in wanted)
    flat_rows = [(a and a.t, (a or b).key, a and a.v, b and b.t, b and b.v) for a, b in wanted]
    assert sorted(map(repr, map(tuple, result.sinks["flat"]))) == sorted(map(repr, flat_rows))
    places = [
        r.t + after
        if r.t_right is None
        else r.t_right + before
        if r.t is None
        else max(r.t, r.t_right)
        for r in result.sinks["flat"]
    ]
    assert places == sorted(places)


def either(left: Keyed | None, right: Keyed | None) -> Both:
    return Both(left.v if left else "-", right.v if right else "-")


def test_join_by_time_alone() -> None:
    """Without a key all rows that are near enough make pairs."""
    flow, a, b = flow_of("a", "b", record=Keyed)
    a.join(b, on=[], within=1).sink("out")
    inputs = {
        "a": [Keyed(1, 1.0, "a"), Keyed(5, None, "b")],
        "b": [Keyed(2, 2.0, "x"), Keyed(6, 3.0, "y")],
    }
    result = check(flow, inputs)
    assert [(row.v, row.v_right) for row in result.sinks["out"]] == [("a", "x"), ("b", "y")]


def test_join_keeps_what_can_still_match() -> None:
    """Rows leave the state when the time is past in which they can find a partner."""
    flow, a, b = flow_of("a", "b", record=Keyed)
    a.join(b, on="key", within=3).sink("out")
    session = testing.Session(flow)
    session.feed("a", [Keyed(t, 1.0, str(t)) for t in range(10)])
    session.feed("b", [Keyed(9, 2.0, "x")])
    session.tick(9)
    assert [row.t for row in session.state("join", 1.0).left] == [6, 7, 8, 9]


# -- the others ------------------------------------------------------------------------------------------


def values(*times: int, name: str = "") -> list[Value]:
    return [Value(time, f"{name}{time}") for time in times]


def test_zip() -> None:
    """The next with the next; who waits longer than the timeout goes apart, and so does what is left."""
    flow, a, b = flow_of("a", "b")
    made = a.zip(b, lambda x, y: (x.v, y.v), timeout=5, into=Both)
    made.pairs.sink("pairs")
    made.left_over.sink("left")
    made.right_over.sink("right")
    inputs = {"a": values(0, 1, 10, 30, 31), "b": values(1, 6, 20, 36)}
    result = check(flow, inputs)
    assert result.sinks["pairs"] == [Both("0", "1"), Both("1", "6"), Both("31", "36")]
    assert [row.t for row in result.sinks["left"]] == [10, 30]
    assert [row.t for row in result.sinks["right"]] == [20]


def test_gate() -> None:
    """Rows pass from the place on at which the switch opened, and stop from where it closed."""
    flow, rows, switch = flow_of("rows", "switch")
    made = rows.gate(switch, lambda row: row.v == "open")
    made.passed.sink("passed")
    made.stopped.sink("stopped")
    inputs = {"rows": values(1, 2, 3, 5, 8), "switch": [Value(2, "open"), Value(6, "close")]}
    result = check(flow, inputs)
    assert [row.t for row in result.sinks["passed"]] == [3, 5]
    assert [row.t for row in result.sinks["stopped"]] == [1, 2, 8]


def test_throttle() -> None:
    """No more than so many pass in any span of that length; the others go apart."""
    flow, a = flow_of("a")
    made = a.throttle(2, 10)
    made.passed.sink("passed")
    made.excess.sink("excess")
    result = check(flow, {"a": values(0, 1, 2, 9, 10, 11, 12, 40)})
    assert [row.t for row in result.sinks["passed"]] == [0, 1, 10, 11, 40]
    assert [row.t for row in result.sinks["excess"]] == [2, 9, 12]


def test_delay() -> None:
    """A row stands at the place of the first row that is so much later, and the last ones at the end."""
    flow, a, b = flow_of("a", "b")
    a.delay(3).union(b).sink("out")
    inputs = {"a": values(0, 1, 3, 9, 10, name="a"), "b": values(2, 3, 9, 11, name="b")}
    result = check(flow, inputs)
    assert " ".join(row.v for row in result.sinks["out"]) == "b2 a0 b3 a1 a3 b9 b11 a9 a10"


def test_split() -> None:
    """To one output, to several, to none."""
    flow, a = flow_of("a")

    def choose(row: Value) -> Any:
        names = ["low"] if row.t < 4 else "high"
        return None if row.t == 2 else ["low", "high"] if row.t == 3 else names

    made = a.split(choose, ["low", "high"])
    made.low.sink("low")
    made.high.sink("high")
    result = check(flow, {"a": values(*range(6))})
    assert [row.t for row in result.sinks["low"]] == [0, 1, 3]
    assert [row.t for row in result.sinks["high"]] == [3, 4, 5]


def test_split_to_nowhere() -> None:
    """A name that is no output is an error that names it, and the function that gave it."""
    flow, a = flow_of("a")

    def choose(row: Value) -> str:
        return "middle"

    a.split(choose, ["low", "high"]).low.sink("low")
    line = choose.__code__.co_firstlineno
    message = rf"no output 'middle'; there are low, high\n  function: choose in .*test_driver_loops.py:{line}$"
    with pytest.raises(tw.OperatorError, match=message):
        tw.run(flow, {"a": values(1)})


@pytest.mark.parametrize("chosen", [5, False, ["low", 5]])
def test_split_by_what_is_no_name(chosen: Any) -> None:
    """It says what was given, and what could be."""
    flow, a = flow_of("a")
    a.split(lambda row: chosen, ["low", "high"]).low.sink("low")
    with pytest.raises(
        tw.OperatorError, match=r"(choose gave|no output) (5|False).*there are low, high"
    ):
        tw.run(flow, {"a": values(1)})


def fails(*rows: Value) -> Any:
    raise KeyError("gone")


def misfits(*rows: Value) -> Any:
    return Value("late", "x")  # type: ignore[arg-type]


COMBINING = [
    lambda a, function: a.flow.barrier(function, a=a, b=a, into=Value),
    lambda a, function: a.flow.barrier(function, by_time=True, a=a, b=a, into=Value).matched,
    lambda a, function: a.join(a, function, on="v", within=1, into=Value),
    lambda a, function: a.zip(a, function, timeout=1, into=Value).pairs,
]
DECIDING = [
    lambda a, function: a.gate(a, function).passed,
    lambda a, function: a.split(function, ["low", "high"]).low,
]


@pytest.mark.parametrize("run", [tw.run, testing.run, testing.reference])
@pytest.mark.parametrize(
    ("make", "function", "message"),
    [(make, fails, "failed: KeyError: 'gone'") for make in COMBINING + DECIDING]
    + [
        (make, misfits, "(a row pushed to '[a-z]+'|what combine gave) does not fit")
        for make in COMBINING
    ],
)
def test_errors_name_the_function(make: Any, function: Any, message: str, run: Any) -> None:
    """Where the user's function fails, the message names it and its line, not the loop that calls it."""
    flow, a = flow_of("a")
    make(a, function).sink("out")
    first = function.__code__.co_firstlineno
    raised = f", raised at line {first + 1}" if function is fails else ""
    place = rf"\n  function: {function.__name__} in .*test_driver_loops.py:{first}{raised}(\n  row: .*)*$"
    with pytest.raises(tw.OperatorError, match=f"{message}.*{place}"):
        run(flow, {"a": values(1, 2)})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, u: a.flow.barrier(a=a), "two inputs or more"),
        (lambda a, u: u.flow.barrier(by_time=True, a=u, b=u), "works by event time"),
        (lambda a, u: u.join(u, on="v", within=1), "works by event time"),
        (lambda a, u: a.join(a, on="v", within=-1), "within must not be negative"),
        (lambda a, u: a.join(a, on="w", within=1), "has no field 'w'"),
        (lambda a, u: a.join(a, on={"t": "v"}, within=1), "of one type on both sides"),
        (lambda a, u: a.join(a, lambda x: x, on="v", within=1, into=Value), "^operator 'join': .* is called with"),
        (lambda a, u: a.zip(a, lambda x: x, timeout=1, into=Value), "^operator 'zip': .* is called with"),
        (lambda a, u: a.flow.barrier(lambda x: x, a=a, b=a), "^operator 'barrier': .* is called with"),
        (lambda a, u: a.throttle(1, 0), "per must be longer than 0"),
        (lambda a, u: a.join(a, lambda x, y: x, on="v", within=1), "does not say what it returns"),
        (lambda a, u: a.zip(u, timeout=1), "works by event time"),
        (lambda a, u: a.throttle(0, 1), "rows is a number from 1"),
        (lambda a, u: a.split(lambda row: "x", "xy"), "two names or more"),
        (lambda a, u: a.split(lambda row: "x", ["x", "rows"]), "cannot be called 'rows'"),
        (lambda a, u: a.flow.merge(a, by="t"), "by which union merges them"),
        (lambda a, u: u.flow.merge(u, by="v"), "ordered by a Timestamp or an int"),
        (lambda a, u: u.flow.merge(by="v"), "at least one stream"),
    ],
)  # fmt: skip
def test_refused(make: Any, message: str) -> None:
    """Told when the flow is built."""
    flow, a = flow_of("a")
    with pytest.raises(tw.BuildError, match=message):
        make(a, flow.source("u", Value))
