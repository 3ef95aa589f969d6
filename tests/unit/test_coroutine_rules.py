"""What a driver loop may not do, and what it may leave undone: the same in the reference, the engine and threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.flow.loops.body import PUSHED, REFUSED, WITHOUT_PROGRESS
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: int
    name: str


Host = Callable[[tw.Flow, Mapping[str, Any]], Any]
HOSTS: dict[str, Host] = {
    "reference": testing.reference,
    "engine": testing.run,
    "threads": lambda flow, rows: testing.run(flow, rows, options=Options(threads=2)),
    "run": tw.run,
}


def rows(text: str) -> list[Row]:
    return [Row(i, letter) for i, letter in enumerate(text)]


def flow_of(function: Any) -> tw.Flow:
    flow = tw.Flow("rules")
    one, two = (flow.source(name, Row, order_by="ts") for name in ("one", "two"))
    flow.operator("rule", function, one=one, two=two).sink("out")
    return flow


INPUTS = {"one": rows("abc"), "two": rows("xyz")}

# -- mistakes --------------------------------------------------------------------------------------------


async def never_reads(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_any(one, two):
        if len(one) > 9:
            await out.push(one.pop())


async def never_reads_in_turn(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(one) and await tw.wait_for_all({two: 2}):
        pass


async def ignores_the_answer(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while True:
        if await tw.wait_for_all(one):
            one.pop()


async def pushes_for_ever(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while True:
        await tw.wait_for_all({one: 9})
        await out.push(Row(0, "again"))


async def pops_nothing(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    await tw.wait_for_all(one)
    two.pop()


async def peeks_too_far(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    await tw.wait_for_all(one)
    one.peek(1)


async def raises(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    await tw.wait_for_all({one: 2})
    raise ZeroDivisionError("nothing to share")


async def raises_at_the_end(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(one):
        one.pop()
    raise ValueError("no total")


async def forgets_await(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(one):
        out.push(one.pop())


async def pushes_what_does_not_fit(
    one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]
) -> None:
    while await tw.wait_for_all(one):
        await out.push(one.pop().name)  # type: ignore[arg-type]


MISTAKES = [
    (never_reads, r"it waits in a circle at line \d+: 1,000 times in a row"),
    (never_reads_in_turn, r"it waits in a circle at line \d+"),
    (ignores_the_answer, r"it goes on and on at line \d+, though a wait or push said"),
    (pops_nothing, r"1 row cannot be taken; wait for them first\n.*raised at line \d+"),
    (peeks_too_far, r"there is no row at 1; wait for it first\n.*raised at line \d+"),
    (raises, r"failed: ZeroDivisionError: nothing to share\n.*raised at line \d+"),
    (raises_at_the_end, r"failed: ValueError: no total\n.*raised at line \d+"),
    (forgets_await, r"a push to 'out' at line \d+ is not awaited"),
    (pushes_what_does_not_fit, r"a row pushed to 'out' at line \d+ does not fit"),
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(("function", "message"), MISTAKES)
def test_mistakes(function: Any, message: str, host: str) -> None:
    """Each ends the flow with one error that names the operator, its function, file and line; none hangs."""
    with pytest.raises(tw.OperatorError, match=message) as caught:
        HOSTS[host](flow_of(function), INPUTS)
    first = inspect.getsourcelines(function)[1]
    assert "operator 'rule'" in str(caught.value)
    assert f"{function.__name__} in " in str(caught.value)
    assert f"test_coroutine_rules.py:{first}" in str(caught.value)
    assert caught.value.operator == "rule"


async def put(out: tw.Output[Row], row: Any) -> None:
    await out.push(row)


async def forgets_one_await(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    await put(out, Row(1, "fine"))
    out.push(Row(2, "lost"))
    await out.push(Row(3, "fine"))


async def has_a_helper(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    await put(out, Row(1, "fine"))
    await put(out, "misfit")


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    ("function", "in_function", "line", "message"),
    [
        (forgets_one_await, forgets_one_await, 2, "a push to 'out' at line {} is not awaited"),
        (has_a_helper, put, 1, "a row pushed to 'out' at line {} does not fit"),
    ],
)
def test_line_of_the_push(
    function: Any, in_function: Any, line: int, message: str, host: str
) -> None:
    """A push that is at fault is told by its own line, not by that of the next await or of a caller."""
    first = inspect.getsourcelines(in_function)[1]
    with pytest.raises(tw.OperatorError, match=message.format(first + line)):
        HOSTS[host](flow_of(function), INPUTS)


def test_line_in_another_file() -> None:
    """A push of a helper that stands elsewhere is told by file and line."""
    scope: dict[str, Any] = {}
    exec(compile("\n\ndef put(out, row):\n    return out.push(row)\n", "helpers.py", "exec"), scope)

    async def function(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
        await scope["put"](out, "misfit")

    with pytest.raises(tw.OperatorError, match=r"pushed to 'out' at helpers\.py:4 does not fit"):
        tw.run(flow_of(function), INPUTS)


@pytest.mark.parametrize("host", ["reference", "engine"])
def test_pushes_for_ever(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who pushes on behind the end of its inputs is stopped, too, but only far behind what it may still have held."""
    assert REFUSED >= 1_000_000
    monkeypatch.setattr("thalweg.flow.loops.body.REFUSED", 5_000)
    with pytest.raises(tw.OperatorError, match="it goes on and on"):
        HOSTS[host](flow_of(pushes_for_ever), INPUTS)


async def never_waits(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while True:
        await out.push(Row(0, "on"))


async def pushes_behind_the_end(
    one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]
) -> None:
    while await tw.wait_for_all(one):
        one.pop()
    while True:
        await out.push(Row(0, "on"))


async def pushes_what_it_peeks(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(one):
        await out.push(one.peek())


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("function", [never_waits, pushes_behind_the_end, pushes_what_it_peeks])
def test_pushes_without_reading(function: Any, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait tells such a loop anything, so the number of its rows ends it; the error names the line where it is."""
    assert PUSHED >= 10_000_000
    monkeypatch.setattr("thalweg.flow.loops.body.PUSHED", 5_000)
    text, first = inspect.getsourcelines(function)
    loop, push = first + len(text) - 2, first + len(text) - 1
    message = f"it pushes on and on at line ({loop}|{push}): more than 5,000 rows"
    with pytest.raises(tw.OperatorError, match=message):
        HOSTS[host](flow_of(function), INPUTS)


# -- what is no mistake ----------------------------------------------------------------------------------


async def scans(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    """Waits on and on without reading, but for more each time."""
    await tw.wait_for_all({one: 4 * WITHOUT_PROGRESS})
    seen = 0
    while await tw.wait_for_all({one: seen + 1}):
        seen += 1
    await out.push(Row(seen, "seen"))


async def drains(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    """Holds rows, and puts them out one by one when a wait says that it is over."""
    held = []
    while True:
        if await tw.wait_for_all(one):
            held.append(one.pop())
        elif held:
            await out.push(held.pop())
        else:
            return


async def flushes(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    """Leaves all rows where they are, and puts them out at the end without a wait."""
    while await tw.wait_for_all({one: len(one) + 1}):
        pass
    while len(one):
        await out.push(one.pop())


@pytest.mark.parametrize("function", [scans, drains, flushes])
def test_long_loops(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that gets somewhere may ask as often as it likes, and push what it reads."""
    if function is flushes:
        monkeypatch.setattr("thalweg.flow.loops.body.PUSHED", 2 * WITHOUT_PROGRESS)
    inputs = {"one": rows("a" * 5 * WITHOUT_PROGRESS), "two": []}
    result = testing.assert_same(flow_of(function), inputs, seeds=range(2), compile=("never",))
    assert len(result.sinks["out"]) in (1, 5 * WITHOUT_PROGRESS)


async def does_nothing(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    """Neither waits nor pushes."""


async def reads_one_port(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(one):
        await out.push(one.pop())


async def returns_early(one: tw.Input[Row], two: tw.Input[Row], out: tw.Output[Row]) -> None:
    if await tw.wait_for_all(one, two):
        await out.push(one.pop())


@pytest.mark.parametrize(
    ("function", "counts"),
    [
        (does_nothing, {"in": 6, "dropped": 6}),
        (reads_one_port, {"in": 6, "out": 3, "unread": 3}),
        (returns_early, {"in": 6, "out": 1, "unread": 1, "dropped": 4}),
    ],
)
def test_rows_without_a_reader(function: Any, counts: dict[str, int]) -> None:
    """A port never read and an operator that returns early are no error: each row is counted, once."""
    result = testing.assert_same(
        flow_of(function), INPUTS, seeds=range(6), compile=("never",),
        options=lambda chooser: chooser.choice([None, Options(threads=2)]),
    )  # fmt: skip
    assert result.counts["rule"] == counts


@pytest.mark.parametrize("host", HOSTS)
def test_pushes_to_who_has_returned(host: str) -> None:
    """Rows for an operator that has returned are dropped and counted there, and the writer goes on."""
    flow = tw.Flow("rules")
    one, two = (flow.source(name, Row, order_by="ts") for name in ("one", "two"))
    passed = flow.operator("passed", reads_one_port, one=one, two=two)
    flow.operator("first", returns_early, one=passed, two=two).sink("out")
    result = HOSTS[host](flow, INPUTS)
    assert result.rows("out") == [Row(0, "a")]
    assert result.counts["passed"]["out"] == 3
    assert result.counts["first"]["dropped"] == 4


@tw.state
class Count:
    n: int = 0


def number(count: Count, row: Row) -> Row:
    count.n += 1
    return Row(count.n, row.name)


@pytest.mark.parametrize("threads", [1, 2])
def test_counts_of_idle_operators(threads: int) -> None:
    """An operator that no row has reached is in the counts, with zeros, and so are its sink and its source."""
    flow = tw.Flow("idle")
    one = flow.source("one", Row, order_by="ts").filter(lambda row: row.ts > 9, name="big")
    one.process(number, state=Count).sink("numbers")
    flow.operator(
        "first", reads_one_port, one=one, two=flow.source("two", Row, order_by="ts")
    ).sink("out")
    counts = tw.run(flow, {"one": rows("abc"), "two": []}, threads=threads).counts
    names = ("one", "two", "big", "number", "first", "sink:numbers", "sink:out")
    assert {name: counts[name]["in"] for name in names} == dict.fromkeys(names, 0) | {
        "one": 3, "big": 3,
    }  # fmt: skip
