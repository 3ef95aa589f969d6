"""Driver loops that start anew at each row: by key, and without state (``flow.operator``)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: int
    key: str | None
    n: int


class Other(NamedTuple):
    ts: int
    name: str
    n: int


class Pair(NamedTuple):
    key: str | None
    one: int
    two: int


@tw.state
class Seen:
    n: int = 0
    last: list[int] = []


async def pairs(a: tw.Input[Row], b: tw.Input[Other], out: tw.Output[Pair]) -> None:
    while await tw.wait_for_all(a, b):
        one, two = a.pop(), b.pop()
        await out.push(Pair(one.key, one.n, two.n))


async def threes(
    rows: tw.Input[Row], seen: Seen, out: tw.Output[Row], odd: tw.Output[Pair]
) -> None:
    """Each third row of a key, with those before it in a state and unread; of every other one two."""
    while await tw.wait_for_all({rows: 3}):
        for row in rows.pop(3):
            seen.n += row.n
            seen.last.append(row.n)
        await out.push(row._replace(n=seen.n))
        if len(seen.last) % 2 == 0:
            await odd.push(Pair(row.key, *seen.last[-2:]))


async def some(rows: tw.Input[Row], out: tw.Output[Row], odd: tw.Output[Pair]) -> None:
    """None, one or several rows for one, to two outputs."""
    while await tw.wait_for_all(rows):
        row = rows.pop()
        for i in range(row.n % 3):
            await out.push(row._replace(n=i))
            if row.n % 2:
                await odd.push(Pair(row.key, row.n, i))


def a_flow(build: Callable[..., Any]) -> tw.Flow:
    """A flow of two sources; each output of the operator has a sink."""
    flow = tw.Flow("test")
    a, b = flow.source("a", Row, order_by="ts"), flow.source("b", Other, order_by="ts")
    made = build(flow, a, b)
    for name, stream in zip("xy", made if isinstance(made, tuple) else [made], strict=False):
        stream.sink(name)
    return flow


def data(seed: int, keys: str = "abcé", count: int = 90) -> dict[str, list[Any]]:
    chooser = random.Random(seed)
    a = [Row(i, chooser.choice([*keys, None]), chooser.randint(0, 9)) for i in range(0, count, 2)]
    return {"a": a, "b": [Other(i, chooser.choice(keys), i) for i in range(1, count, 3)]}


def by_key(function: Any) -> Callable[..., Any]:
    def build(flow: tw.Flow, a: tw.Stream, b: tw.Stream) -> Any:
        if function is threes:
            return flow.operator("op", threes, rows=a.key_by("key"))
        return flow.operator("op", pairs, a=a.key_by("key"), b=b.key_by("name"))

    return build


def as_a_whole(function: Any) -> Callable[..., Any]:
    def build(flow: tw.Flow, a: tw.Stream, b: tw.Stream) -> Any:
        if function is pairs:
            return flow.operator("op", pairs, a=a, b=b)
        return flow.operator("op", function, rows=a)

    return build


def of_key(inputs: dict[str, list[Any]], key: Any) -> dict[str, list[Any]]:
    return {name: [row for row in rows if row[1] == key] for name, rows in inputs.items()}


# -- what comes out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [pairs, threes])
def test_by_key_each_key_has_a_loop(function: Any) -> None:
    """A key's rows make what an operator gives that has this key's rows only, also where it starts anew at each."""
    inputs = data(1)
    got = testing.assert_same(a_flow(by_key(function)), inputs, seeds=range(6))
    keys = {row[1] for rows in inputs.values() for row in rows}
    apart = {
        key: testing.run(a_flow(as_a_whole(function)), of_key(inputs, key), restart_every=1)
        for key in keys
    }
    for sink in got.sinks:
        for key, alone in apart.items():
            mine = [row for row in got.sinks[sink] if row.key == key]
            assert mine == alone.sinks[sink]
        assert len(got.sinks[sink]) == sum(len(alone.sinks[sink]) for alone in apart.values())
        assert len(got.sinks[sink]) > 4
    assert got.counts["op"].get("unread", 0) == sum(
        one.counts["op"].get("unread", 0) for one in apart.values()
    )


def test_without_state_the_output_is_that_of_one_loop() -> None:
    """Whatever threads, slots and chunks there are; also merged behind several outputs."""

    def build(flow: tw.Flow, a: tw.Stream, b: tw.Stream, **how: Any) -> Any:
        out, odd = flow.operator("op", some, rows=a, **how)
        return out.union(odd.map(lambda pair: Row(0, pair.key, pair.two), into=Row)), odd

    inputs = data(2)
    one = testing.run(a_flow(build), inputs)
    flow = a_flow(lambda *given: build(*given, stateless=True))
    assert testing.assert_same(flow, inputs, seeds=range(6)).sinks == one.sinks
    for how in ({"threads": 3, "chunk_rows": 4}, {"slots": 3}):
        many = tw.run(flow, inputs, **how)
        assert {name: many.rows(name) for name in one.sinks} == one.sinks
    assert len(one.sinks["x"]) > 20


def test_by_key_in_threads_and_slots() -> None:
    """The output is that of a serial run, and a loop by key is in several slots."""
    inputs = data(3)
    for function in (pairs, threes):
        flow = a_flow(by_key(function))
        one = testing.run(flow, inputs)
        for how in ({"threads": 3, "chunk_rows": 4}, {"slots": 3}):
            many = tw.run(flow, inputs, **how)
            assert {name: many.rows(name) for name in one.sinks} == one.sinks


def test_a_key_function() -> None:
    """The rows of a single input may have a key that a function makes."""

    def build(flow: tw.Flow, a: tw.Stream, b: tw.Stream) -> Any:
        return flow.operator("op", threes, rows=a.key_by(lambda row: row.n % 2, into=int))

    inputs = data(4)
    got = testing.assert_same(a_flow(build), inputs, seeds=range(3))
    assert len(got.sinks["x"]) == sum(
        len([row for row in inputs["a"] if row.n % 2 == rest]) // 3 for rest in (0, 1)
    )


def test_what_is_known_of_a_key_may_end() -> None:
    """A return and ``tw.drop`` forget the key, whose next row begins anew; so does a loop that holds nothing."""

    async def twice(rows: tw.Input[Row], seen: Seen, out: tw.Output[Row]) -> None:
        while await tw.wait_for_all(rows):
            row = rows.pop()
            seen.n += 1
            await out.push(row._replace(n=seen.n))
            if seen.n == 2 and row.key == "a":
                return
            if seen.n == 3:
                tw.drop(seen)

    flow = a_flow(lambda flow, a, b: flow.operator("op", twice, rows=a.key_by("key")))
    inputs = {"a": [Row(i, key, 0) for i, key in enumerate("ababababab")], "b": []}
    got = testing.assert_same(flow, inputs, seeds=range(3))
    assert [row.n for row in got.sinks["x"]] == [1, 1, 2, 2, 1, 3, 2, 1, 1, 2]
    assert set(got.states["op"]) == {"a", "b"}
    got = testing.assert_same(a_flow(by_key(pairs)), data(5), seeds=range(2))
    assert all(any(values) for values in map(vars_of, got.states["op"].values()))


def vars_of(state: Any) -> list[Any]:
    return [getattr(state, name) for name in ("unread_0", "unread_1")]


# -- what is refused -------------------------------------------------------------------------------------


async def in_the_middle(a: tw.Input[Row], b: tw.Input[Other], out: tw.Output[Pair]) -> None:
    while await tw.wait_for_all(a):
        one = a.pop()
        await tw.wait_for_all(b)
        await out.push(Pair(one.key, one.n, b.pop().n))


async def header(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    await out.push(Row(0, "", 0))
    while await tw.wait_for_all(rows):
        rows.pop()


async def peeks(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all({rows: len(rows) + 1}):
        await out.push(rows.peek())


async def returns(a: tw.Input[Row], b: tw.Input[Other], out: tw.Output[Row]) -> None:
    await tw.wait_for_all(b)


async def fails(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(rows):
        await out.push(rows.pop()._replace(n=1 // 0))


def of_both(function: Any, **more: Any) -> Callable[..., Any]:
    return lambda flow, a, b: flow.operator(
        "op", function, a=a.key_by("key"), b=b.key_by("name"), **more
    )


def of_one(function: Any, *, key: bool = False, **more: Any) -> Callable[..., Any]:
    return lambda flow, a, b: flow.operator(
        "op", function, rows=a.key_by("key") if key else a, **more
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (of_both(in_the_middle), r"waits in the middle of its loop at line \d+, and what .* forgotten"),
        (of_one(header, stateless=True), "pushes before it waits, which each row would make it do"),
        (of_one(header, key=True), "pushes before it waits"),
        (of_one(peeks, stateless=True), "goes on without having read its row: Row"),
        (of_both(returns), r"has ended for a key whose rows it has not read \(a 6, b 1\)"),
        (of_both(pairs, max_waiting=3), "4 rows of one key wait at input 'a', more than max_waiting=3"),
        (of_one(fails, key=True), r"ZeroDivisionError[\s\S]*function: fails[\s\S]*row:      Row\("),
        (of_one(fails, stateless=True), r"ZeroDivisionError[\s\S]*function: fails[\s\S]*row:      Row\("),
    ],
)  # fmt: skip
def test_rules(build: Callable[..., Any], message: str) -> None:
    """What would depend on where the loop starts anew is an error with operator, function and row."""
    inputs = {"a": [Row(i, "k", i) for i in range(6)], "b": [Other(9, "k", 1), Other(10, "k", 2)]}
    for options in (None, Options(threads=2)):
        with pytest.raises(tw.OperatorError, match=message) as told:
            testing.run(a_flow(build), inputs, options=options)
        assert str(told.value).count("operator 'op'") == 1
        assert told.value.row.startswith(("Row(", "Other("))


async def sends_back(rows: tw.Input[Row], back: tw.Control[Row], out: tw.Output[Row]) -> None: ...


async def no_output(rows: tw.Input[Row]) -> None: ...


def fed_back(flow: tw.Flow, a: tw.Stream, b: tw.Stream) -> Any:
    back = flow.feedback("back", Row)
    return flow.operator("op", sends_back, rows=a.key_by("key"), back=back)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda f, a, b: f.operator("op", pairs, a=a.key_by("key"), b=b), "reads 'a' by key and 'b' as a whole"),
        (lambda f, a, b: f.operator("op", pairs, a=a.key_by("key"), b=b.key_by("n")), "'b' by n: int; the keys"),
        (lambda f, a, b: f.operator("op", pairs, a=a.key_by("key", buckets=4), b=b.key_by("name")),
         "reads 'a' in 4 buckets and 'b' in 128"),
        (lambda f, a, b: f.operator("op", pairs, a=a.key_by(str, into=str), b=b.key_by("name")),
         "by a function's key; put the key into a field by map"),
        (lambda f, a, b: f.operator("op", pairs, a=a, b=b, stateless=True), "has the inputs a, b; with stateless"),
        (of_one(threes, stateless=True), "asks for a state Seen, so it is not stateless"),
        (of_one(some, key=True, stateless=True), "a loop is stateless or by key, not both"),
        (of_one(some, key=True, capacity=9), "has capacity=, but by key no source waits"),
        (of_one(some, stateless=1), "stateless"),
        (of_one(no_output, stateless=True), "lacks inputs or outputs"),
        (fed_back, "reads 'rows' by key and 'back' as a whole|reads by feedback"),
        (lambda f, a, b: f.operator("op", some, rows=a.key_by("key", grouping="partial")),
         "a driver loop reads all rows of a key"),
    ],
)  # fmt: skip
def test_refused_when_built(build: Callable[..., Any], message: str) -> None:
    """Inputs that are not keyed alike, and what a loop that starts anew has no use for."""
    with pytest.raises(tw.BuildError, match=message):
        a_flow(build)


def test_explain() -> None:
    """It says that a loop starts anew at each row, its inputs and its key."""
    text = " ".join(a_flow(by_key(pairs)).explain().split())
    assert "keyed (coroutine), reads op/inputs, gives Pair" in text
    assert "a loop for each key; inputs a, b" in text
    assert "interpreted: it has its own driver loop, which starts from its top at each row" in text
    text = " ".join(a_flow(of_one(some, stateless=True)).explain().split())
    assert "stateless (coroutine), reads a, gives Row (out), Pair (odd)" in text


async def counting(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    n = 0
    while await tw.wait_for_all(rows):
        n += 1
        await out.push(rows.pop()._replace(n=n))


async def collecting(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    seen: list[int] = []
    while await tw.wait_for_all(rows):
        row = rows.pop()
        seen.append(row.n)
        await out.push(row._replace(n=len(seen)))


async def telling_the_end(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(rows):
        last = rows.pop()
    await out.push(last)


TOLD: list[int] = []


async def fresh_at_each_row(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    n, factor, told = 0, 2, TOLD
    while await tw.wait_for_all(rows):
        row, n = rows.pop(), 0
        told.append(row.n)
        for i in range(row.n):
            n += i * factor
        await out.push(row._replace(n=n))
    return


def test_what_a_loop_would_forget_is_refused() -> None:
    """A local variable that counts or collects, and what stands behind the loop; one that is set anew is fine."""
    for function, lost in (
        (counting, "'n'"),
        (collecting, "'seen'"),
        (telling_the_end, "never run"),
    ):
        for stateless in (False, True):
            rows = tw.Flow("lost").source("rows", Row, order_by="ts")
            given: Any = rows if stateless else rows.key_by("key")
            with pytest.raises(tw.BuildError, match=f"{function.__name__} .* would lose .*{lost}"):
                rows.flow.operator("op", function, rows=given, stateless=stateless)
    rows = tw.Flow("fine").source("rows", Row, order_by="ts")
    rows.flow.operator("op", fresh_at_each_row, rows=rows.key_by("key")).sink("out")
    got = tw.run(rows.flow, {"rows": [Row(1, "a", 3), Row(2, "a", 2)]})
    assert [row.n for row in got["out"]] == [6, 2]
