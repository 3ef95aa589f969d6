"""``flow.operator``: what a signature may be, and what the engine makes of the operator."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: int
    name: str


class Pair(NamedTuple):
    one: str
    two: str


@tw.state
class Seen:
    n: int = 0


@tw.state
class Timed:
    timer: tw.Timer
    n: int = 0


async def pairs(a: tw.Input[Row], b: tw.Input, out: tw.Output[Pair]) -> None:
    while await tw.wait_for_all(a, b):
        await out.push(Pair(a.pop().name, b.pop().name))


async def numbered(
    rows: tw.Input[Row], seen: Seen, out: tw.Output[Row], *, prefix: str = "n"
) -> None:
    while await tw.wait_for_all(rows):
        seen.n += 1
        await out.push((rows.pop().ts, f"{prefix}{seen.n}"))


def sources(*names: str, order_by: str | None = "ts") -> tuple[tw.Flow, list[tw.Stream]]:
    flow = tw.Flow("test")
    return flow, [flow.source(name, Row, order_by=order_by) for name in names]


def rows(text: str, first: int = 0) -> list[Row]:
    return [Row(first + i, letter) for i, letter in enumerate(text)]


# -- what runs -------------------------------------------------------------------------------------------


def test_barrier() -> None:
    """The n-th rows are paired; a pair stands at the place of the later one, and what is left is counted."""
    flow, (a, b) = sources("a", "b")
    flow.operator("pairs", pairs, a=a, b=b).sink("out")
    inputs = {"a": rows("abcd"), "b": rows("xy", 10)}
    result = testing.assert_same(flow, inputs, seeds=range(8))
    assert result.sinks["out"] == [Pair("a", "x"), Pair("b", "y")]
    assert result.counts["pairs"] == {"in": 6, "out": 2, "unread": 2}


def test_outputs() -> None:
    """One output is a stream, several are streams by name, none is nothing; constants come by keyword."""

    async def sorted_out(rows: tw.Input[Row], vowels: tw.Output[Row], others: tw.Output) -> None:
        while await tw.wait_for_all(rows):
            row = rows.pop()
            await (vowels if row.name in "aeiou" else others).push(row)

    said = []

    async def say(rows: tw.Input[Row], word: str) -> None:
        while await tw.wait_for_all(rows):
            said.append(word + rows.pop().name)

    flow, (a,) = sources("a")
    made = flow.operator("parts", sorted_out, rows=a, into={"others": Row})
    made.vowels.sink("vowels")
    made.others.sink("others")
    assert made._fields == ("vowels", "others")
    assert flow.operator("say", say, rows=made.vowels, word="!") is None
    flow.operator("number", numbered, rows=a, prefix="x").sink("numbers")
    result = tw.run(flow, {"a": rows("abide")})
    assert [row.name for row in result.rows("vowels")] == list("aie")
    assert [row.name for row in result.rows("others")] == list("bd")
    assert [row.name for row in result.rows("numbers")] == ["x1", "x2", "x3", "x4", "x5"]
    assert said == ["!a", "!i", "!e"]


def test_flow_without_sink() -> None:
    """A coroutine without outputs is an end of a flow, as a sink is."""
    said = []

    async def say(rows: tw.Input[Row]) -> None:
        while await tw.wait_for_all(rows):
            said.append(rows.pop().name)

    flow, (a,) = sources("a")
    flow.operator("say", say, rows=a)
    tw.run(flow, {"a": rows("ab")})
    assert said == ["a", "b"]


def test_number_of_inputs() -> None:
    """``*streams: tw.Input`` takes a list; in the order of the flow, ties by the order of the sources."""

    async def merge(*streams: tw.Input[Row], out: tw.Output[Row]) -> None:
        while ports := await tw.wait_for_any(*streams):
            row = ports[0].pop()
            await out.push(Row(row.ts, f"{ports[0].name}{row.name}"))

    flow, made = sources("a", "b", "c")
    flow.operator("merge", merge, streams=made).sink("out")
    inputs = {"a": rows("ab"), "b": rows("x"), "c": rows("pqr")}
    result = testing.assert_same(flow, inputs, seeds=range(8))
    assert [row.name for row in result.sinks["out"]] == [
        "streams[0]a", "streams[1]x", "streams[2]p", "streams[0]b", "streams[2]q", "streams[2]r",
    ]  # fmt: skip


def test_control() -> None:
    """A rule holds from its place in the order of the flow on, and wakes nobody."""

    async def scaled(rows: tw.Input[Row], rule: tw.Control[Row], out: tw.Output[Row]) -> None:
        factor = ""
        while await tw.wait_for_all(rows):
            while len(rule):
                factor = rule.pop().name
            row = rows.pop()
            await out.push(Row(row.ts, row.name + factor))

    flow, (a, b) = sources("a", "b")
    flow.operator("scaled", scaled, rows=a, rule=b).sink("out")
    result = testing.assert_same(flow, {"a": rows("abcd"), "b": [Row(1, "!"), Row(2, "?")]})
    assert [row.name for row in result.sinks["out"]] == ["a", "b", "c!", "d?"]


def test_place_of_outputs() -> None:
    """Several rows of one trigger stand at its place in their order, across outputs, before later rows of others."""

    async def twice(rows: tw.Input[Row], one: tw.Output[Row], two: tw.Output[Row]) -> None:
        while await tw.wait_for_all(rows):
            row = rows.pop()
            for i, port in enumerate([two, one, two]):
                await port.push(Row(row.ts, f"{row.name}{i}"))

    flow, (a, b) = sources("a", "b")
    made = flow.operator("twice", twice, rows=a)
    b.union(made.two, made.one).sink("out")
    result = testing.assert_same(flow, {"a": rows("ab"), "b": rows("xy")}, seeds=range(12))
    assert "".join(row.name for row in result.sinks["out"]) == "a0a1a2xb0b1b2y"


def test_rows_of_the_close() -> None:
    """What is pushed when the inputs have ended has the time of the last row, behind the timers; timers go on."""

    async def total(rows: tw.Input[Any], out: tw.Output[Row]) -> None:
        count = 0
        while await tw.wait_for_all(rows):
            count += len([rows.pop()])
        await out.push(Row(7, f"total {count}"))

    flow, (a,) = sources("a")
    sessions = a.key_by("name").sessions(5, n=tw.agg.count())
    first = flow.operator("first", total, rows=sessions)
    second = flow.operator("second", total, rows=first.union(a))
    second.key_by("name").sessions(3, name="more", n=tw.agg.count()).sink("out")
    first.window(4, n=tw.agg.count()).sink("windows")
    result = testing.assert_same(flow, {"a": rows("aabac")}, seeds=range(8), compile=("never",))
    assert [(row.name, row.start) for row in result.sinks["out"]] == [("total 6", 9)]
    assert [(row.start, row.n) for row in result.sinks["windows"]] == [(8, 1)]


def test_late_rows_and_other_ends() -> None:
    """An operator behind late or rejected rows closes when the last domain has ended that they come from."""

    async def total(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
        count = 0
        while await tw.wait_for_all(rows):
            count += len([rows.pop()])
        await out.push(Row(count, "total"))

    flow, (a,) = sources("a")
    again = a.map(lambda row: Row(9 - row.ts, row.name), into=Row).order_by("ts", lateness=2)
    flow.operator("late", total, rows=again.late).order_by("ts", name="sorted").sink("late")
    flow.operator("on_time", total, rows=again).sink("on_time")
    result = testing.assert_same(flow, {"a": rows("abcdef")}, seeds=range(8))
    assert result.sinks == {"late": [Row(3, "total")], "on_time": [Row(3, "total")]}


async def last(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    """Only its last row, when the input has ended, with an early time."""
    row = Row(0, "none")
    while await tw.wait_for_all(rows):
        row = rows.pop()
    await out.push(Row(1, row.name))


def test_operators_close_one_after_the_other() -> None:
    """In the order of definition, whatever the times of their last rows; an order_by behind ends after both."""
    flow, (a, b) = sources("a", "b")
    first = flow.operator("first", last, rows=a)
    second = flow.operator("second", last, rows=b)
    both = second.union(first)
    both.sink("out")
    both.order_by("ts", lateness=50, name="sorted").sink("sorted")
    inputs = {"a": rows("abc", 20), "b": rows("xy")}
    result = testing.assert_same(flow, inputs, seeds=range(8), compile=("never",))
    assert [row.name for row in result.sinks["out"]] == ["c", "y"]
    assert [row.name for row in result.sinks["sorted"]] == ["c", "y"]


def test_returned_operator_drops_rows() -> None:
    """What comes after the operator has returned is dropped and counted; what it left is counted as unread."""

    async def one_of_two(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
        if await tw.wait_for_all({rows: 2}):
            await out.push(rows.pop())

    flow, (a,) = sources("a")
    flow.operator("one", one_of_two, rows=a).sink("out")
    result = testing.assert_same(flow, {"a": rows("abcde")}, seeds=range(8))
    assert result.counts["one"] == {"in": 5, "out": 1, "unread": 1, "dropped": 3}


@pytest.mark.parametrize("every", [0, 1, 2, 3])
def test_restart_from_state(every: int) -> None:
    """An operator that holds all in its state gives the same however often it starts again; its unread input stays."""
    flow, (a, b) = sources("a", "b")
    flow.operator("number", numbered, rows=a).sink("numbers")
    flow.operator("pairs", pairs, a=a, b=b).sink("pairs")
    inputs = {"a": rows("abcdef"), "b": rows("xyz", 20)}
    result = testing.run(flow, inputs, restart_every=every)
    assert [row.name for row in result.rows("numbers")] == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert result.rows("pairs") == [Pair("a", "x"), Pair("b", "y"), Pair("c", "z")]


def test_restart_shows_what_is_held_elsewhere() -> None:
    """A local variable does not outlive a restart."""

    async def forgetful(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
        n = 0
        while await tw.wait_for_all(rows):
            n += 1
            await out.push(Row(rows.pop().ts, str(n)))

    flow, (a,) = sources("a")
    flow.operator("forgetful", forgetful, rows=a).sink("out")
    whole = testing.run(flow, {"a": rows("abc")}).rows("out")
    assert [row.name for row in whole] == ["1", "2", "3"]
    again = testing.run(flow, {"a": rows("abc")}, restart_every=1).rows("out")
    assert [row.name for row in again] == ["1", "1", "1"]


def test_state_and_waiting_rows_are_seen() -> None:
    """A session shows the state, with what waits at each input, and stepping goes on undisturbed."""
    flow, (a, b) = sources("a", "b", order_by=None)
    flow.operator("pairs", pairs, a=a, b=b).sink("out")
    session = testing.Session(flow)
    session.push("a", *rows("ab"))
    assert session.state("pairs").unread_0 == rows("ab")
    session.push("b", *rows("x"))
    assert session.rows("out") == [Pair("a", "x")]
    assert session.state("pairs").unread_0 == rows("b", 1)


def test_max_waiting() -> None:
    """Too many rows wait at one input: the error names it, and the idle one."""
    flow, (a, b) = sources("a", "b")
    flow.operator("pairs", pairs, a=a, b=b, max_waiting=2).sink("out")
    assert len(tw.run(flow, {"a": rows("abcd"), "b": rows("xyz")}).rows("out")) == 3
    with pytest.raises(
        tw.OperatorError, match=r"3 rows wait at input 'a'.*max_waiting=2.*waits for b"
    ):
        tw.run(flow, {"a": rows("abcd"), "b": rows("x", 30)})


def test_left_over_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """At the end the log says what was left at which input, and for which it was waiting."""
    flow, (a, b) = sources("a", "b")
    flow.operator("pairs", pairs, a=a, b=b).sink("out")
    with caplog.at_level(logging.INFO, "thalweg"):
        tw.run(flow, {"a": rows("abc"), "b": rows("x")})
    assert (
        "operator 'pairs' has ended; rows not read: a 2, b 0; it was waiting for b" in caplog.text
    )


@pytest.mark.parametrize("options", [Options(threads=2), Options(threads=3, threading="dedicated")])
def test_threads(options: Options) -> None:
    """The same in many threads."""
    flow, (a, b) = sources("a", "b")
    flow.operator("pairs", pairs, a=a, b=b).sink("out")
    flow.operator("number", numbered, rows=a.union(b)).sink("numbers")
    inputs = {"a": rows("abcdefgh"), "b": rows("uvwxyz", 3)}
    testing.assert_same(flow, inputs, seeds=range(6), options=lambda chooser: options)


def test_explain() -> None:
    """The plan tells ports, state and driver loop."""
    flow, (a,) = sources("a")
    flow.operator("number", numbered, rows=a, max_waiting=9).sink("out")
    text = flow.explain(compile=False)
    assert "stateful (coroutine), reads a, gives Row" in text
    assert "inputs rows; at most 9 rows wait at an input; state Seen" in text
    assert "numbered (test_operator_verb.py:" in text


# -- what is refused -------------------------------------------------------------------------------------


async def unannotated(rows, out: tw.Output[Row]) -> None:  # type: ignore[no-untyped-def]
    await out.push(rows)


async def no_record(rows: tw.Input, out: tw.Output) -> None:
    await tw.wait_for_all(rows)


async def bad_record(rows: tw.Input, out: tw.Output[int]) -> None:
    await tw.wait_for_all(rows)


async def two_outputs(rows: tw.Input, a: tw.Output, b: tw.Output) -> None:
    await tw.wait_for_all(rows)


async def late_output(rows: tw.Input, a: tw.Output, late: tw.Output) -> None:
    await tw.wait_for_all(rows)


async def two_states(rows: tw.Input, one: Seen, two: Seen) -> None:
    await tw.wait_for_all(rows)


async def timed_state(rows: tw.Input, one: Timed) -> None:
    await tw.wait_for_all(rows)


async def any_keywords(rows: tw.Input, **more: tw.Input) -> None:
    await tw.wait_for_all(rows)


async def any_outputs(rows: tw.Input, *out: tw.Output) -> None:
    await tw.wait_for_all(rows)


async def any_number(*rows: tw.Input) -> None:
    await tw.wait_for_all(*rows)


async def other_record(rows: tw.Input[Pair]) -> None:
    await tw.wait_for_all(rows)


class Undeclared:
    n: int = 0


async def undeclared_state(rows: tw.Input, kept: Undeclared) -> None:
    await tw.wait_for_all(rows)


async def yields(rows: tw.Input[Row], out: tw.Output[Row]) -> Any:
    while await tw.wait_for_all(rows):
        yield rows.pop()


def plain(rows: tw.Input) -> None:
    pass


Make = Callable[[tw.Flow, tw.Stream], object]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f, a: f.operator("x", plain, rows=a), "plain is not a coroutine"),
        (lambda f, a: f.operator("x", yields, rows=a), r"yields has a yield, .* by await out.push\(row\)"),
        (lambda f, a: a.map(yields, name="x"), "yields is async def; this verb calls a plain function"),
        (lambda f, a: a.map(pairs, name="x"), "pairs is async def; this verb calls a plain function"),
        (lambda f, a: f.operator("x", undeclared_state, rows=a), "'kept' that is no port.* its class with @tw.state"),
        (lambda f, a: f.operator("x", 3, rows=a), "expected a function"),
        (lambda f, a: f.operator("", pairs, a=a, b=a), "name is a text"),
        (lambda f, a: f.operator("a", pairs, a=a, b=a), "two operators are called 'a'"),
        (lambda f, a: f.operator("x", pairs, a=a), "has an input 'b', but no stream was given"),
        (lambda f, a: f.operator("x", pairs, a=a, b=a, c=a), "no input or argument 'c'; it has a, b"),
        (lambda f, a: f.operator("x", pairs, a=a, b=a, out=a), "no input or argument 'out'"),
        (lambda f, a: f.operator("x", pairs, a=a, b=5), "reads a stream at 'b', got 5"),
        (lambda f, a: f.operator("x", pairs, a=a, b=sources("b")[1][0]), "from another flow"),
        (lambda f, a: f.operator("x", unannotated, rows=a), "annotate the parameter tw.Input"),
        (lambda f, a: f.operator("x", unannotated), "'rows' that is no port"),
        (lambda f, a: f.operator("x", no_record, rows=a), "does not say which records 'out' gives"),
        (lambda f, a: f.operator("x", bad_record, rows=a), "a port 'out' of <class 'int'>"),
        (lambda f, a: f.operator("x", two_outputs, rows=a, into=Row), "has 2 outputs; say into="),
        (lambda f, a: f.operator("x", two_outputs, rows=a, into={"c": Row}), "no output 'c'"),
        (lambda f, a: f.operator("x", late_output, rows=a, into={"a": Row}), "does not say .* 'a'|'late'"),
        (lambda f, a: f.operator("x", two_states, rows=a), "two states, 'one' and 'two'"),
        (lambda f, a: f.operator("x", timed_state, rows=a), "state Timed with a timer"),
        (lambda f, a: f.operator("x", any_keywords, rows=a), r"takes \*\*more"),
        (lambda f, a: f.operator("x", any_outputs, rows=a), r"takes \*out"),
        (lambda f, a: f.operator("x", any_number, rows=a), r"pass rows=\[stream, ...\]"),
        (lambda f, a: f.operator("x", any_number, rows=[]), r"pass rows=\[stream, ...\]"),
        (lambda f, a: f.operator("x", other_record, rows=a), "reads Pair.* but the stream has Row"),
        (lambda f, a: f.operator("x", pairs, a=a, b=a, max_waiting=0), "max_waiting is a number"),
        (lambda f, a: f.operator("x", pairs, a=a, b=f.source("u", Row)), "no common order"),
        (lambda f, a: f.operator("x", pairs, a=a, b=a.late), "'b' has no event time"),
    ],
)  # fmt: skip
def test_refused(make: Make, message: str) -> None:
    """Each is told when the flow is built, with the operator."""
    flow, (a,) = sources("a")
    with pytest.raises(tw.BuildError, match=message):
        make(flow, a)


def test_streams_in_messages() -> None:
    """A stream is told by what makes it, its record and its flow, in a line."""
    flow, (a,) = sources("a")
    low = a.split(lambda row: "low", ["low", "high"]).low
    assert repr(a) == "<Stream of Row, 'out' of 'a' in Flow('test', 2 operators)>"
    assert repr(low) == "<Stream of Row, 'low' of 'split' in Flow('test', 2 operators)>"
    with pytest.raises(
        tw.BuildError, match=r"pass rows=\[stream, ...\], not <Stream of Row, 'out' of 'a'"
    ):
        flow.operator("x", any_number, rows=a)


def test_refused_with_place() -> None:
    """The message names the function with file and line."""
    flow, (a,) = sources("a")
    with pytest.raises(
        tw.BuildError, match=r"operator 'x': pairs \(test_operator_verb.py:\d+\) has"
    ):
        flow.operator("x", pairs, a=a)


def test_refused_clocks() -> None:
    """Streams of two clocks have no order in common, nor has one whose time is each key's own."""
    flow, (a, b) = sources("a", "b")
    flow.operator("x", pairs, a=a.order_by("ts", name="again"), b=b).sink("out")
    with pytest.raises(tw.BuildError, match="operator 'x': a stream sorted by order_by 'again'"):
        tw.run(flow, {"a": [], "b": []})
    flow = tw.Flow("own")
    own = flow.source("a", Row, order_by="ts", order="key")
    with pytest.raises(
        tw.BuildError, match="operator 'x': a coroutine operator needs a total order"
    ):
        flow.operator("x", numbered, rows=own)


def test_pushed_row_does_not_fit() -> None:
    """The record of the output is kept, by an error that names it."""

    async def wrong(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
        while await tw.wait_for_all(rows):
            await out.push((rows.pop().name, 1))

    flow, (a,) = sources("a")
    flow.operator("wrong", wrong, rows=a).sink("out")
    with pytest.raises(tw.OperatorError, match=r"pushed to 'out' at line \d+ does not fit: Row.ts"):
        tw.run(flow, {"a": rows("a")})
