"""Operators without inputs: sources whose rows are what they push."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.embedded.generators import made_rows
from thalweg.plan.plan import make_plan
from thalweg.workers.options import Options


class Number(NamedTuple):
    n: int


class Word(NamedTuple):
    text: str


@tw.state
class Next:
    n: int = 3


async def count_to(out: tw.Output[Number], *, last: int = 4) -> None:
    for n in range(last):
        await out.push(Number(n))


async def both(numbers: tw.Output[Number], words: tw.Output[Word]) -> None:
    for n in range(5):
        await numbers.push(Number(n))
        if n % 2:
            await words.push(Word(str(n)))


async def from_state(seen: Next, out: tw.Output[Number]) -> None:
    while seen.n:
        seen.n -= 1
        await out.push(Number(seen.n))


async def for_ever(out: tw.Output[Number]) -> None:
    n = 0
    while await out.push(Number(n)):
        n += 1


def as_word(number: Number) -> Word:
    return Word(str(number.n))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_is_a_source(threads: int) -> None:
    """Its rows run through the flow in the order of its pushes, and are counted as a source's are."""
    flow = tw.Flow("made")
    flow.operator("numbers", count_to, last=100).filter(lambda row: row.n % 2 == 1).sink("odd")
    result = tw.run(flow, {}, threads=threads, chunk_rows=7)
    assert [row.n for row in result.rows("odd")] == list(range(1, 100, 2))
    assert result.counts["numbers"]["in"] == result.counts["numbers"]["out"] == 100


@pytest.mark.parametrize("options", [None, Options(threads=2)])
def test_as_the_reference(options: Options | None) -> None:
    """The engine gives what the serial reference gives: for one output and for several, in one order."""
    flow = tw.Flow("made")
    made = flow.operator("both", both)
    assert made._fields == ("numbers", "words")
    words = made.numbers.map(as_word).union(made.words)
    words.sink("words")
    flow.operator("more", from_state).sink("more")
    result = testing.assert_same(flow, {}, seeds=range(4), options=lambda chooser: options)
    assert "".join(row.text for row in result.sinks["words"]) == "0112334"
    assert [row.n for row in result.sinks["more"]] == [2, 1, 0]


def test_beside_other_sources() -> None:
    """Behind it stand all verbs; its rows may be put in order by a field, and meet other streams in a driver loop."""

    async def pairs(a: tw.Input[Number], b: tw.Input[Number], out: tw.Output[Word]) -> None:
        while await tw.wait_for_all(a, b):
            await out.push(Word(f"{a.pop().n}{b.pop().n}"))

    flow = tw.Flow("made")
    given = flow.source("given", Number)
    made = flow.operator("numbers", count_to)
    flow.operator("pairs", pairs, a=made, b=given).sink("pairs")
    rows = [Number(n) for n in (7, 8, 9)]
    assert [row.text for row in tw.run(flow, {"given": rows}).rows("pairs")] == ["07", "18", "29"]


@pytest.mark.parametrize("options", [None, Options(threads=2, queue_chunks=2)])
def test_back_pressure(options: Options | None) -> None:
    """A push waits while the flow has no room: an operator is never more ahead of the sink than queues hold."""
    pushed, ahead = [0], [0]

    async def counted(out: tw.Output[Number]) -> None:
        while pushed[0] < 5_000:
            await out.push(Number(pushed[0]))
            pushed[0] += 1

    def look(row: Number) -> None:
        ahead[0] = max(ahead[0], pushed[0] - row.n)

    flow = tw.Flow("made")
    flow.operator("numbers", counted).sink("out")
    threading_model: Any = {"options": options} if options else {"threading": "manual"}
    tw.run(flow, {}, {"out": tw.each(look)}, chunk_rows=10, **threading_model)
    assert pushed[0] == 5_000
    assert 10 <= ahead[0] <= (200 if options else 30)


def test_ends_with_the_flow() -> None:
    """When a flow ends early, its endless operators end by an answer False, and clean up."""
    ended = threading.Event()

    async def endless(out: tw.Output[Number]) -> None:
        n = 0
        while await out.push(Number(n)):
            n += 1
        ended.set()

    flow = tw.Flow("made")
    flow.operator("numbers", endless).map(
        lambda row: Word(str(1 // (500 - row.n))), into=Word
    ).sink("out")
    with pytest.raises(tw.OperatorError, match="ZeroDivisionError"):
        tw.run(flow, {})
    assert ended.wait(10)


@pytest.mark.parametrize("way", ["end", "stop"])
def test_ended_from_outside(way: str) -> None:
    """A flow beside others that is ended, or stopped, ends its endless operators; ended, it keeps what they pushed."""
    began, told = threading.Event(), threading.Event()

    async def endless(out: tw.Output[Number]) -> None:
        n = 0
        while await out.push(Number(n)):
            n += 1
        told.set()

    flow = tw.Flow("made")
    made = flow.operator("numbers", endless)
    made.sink("out")
    made.map(as_word).sink("seen")
    with tw.start(threads=2) as running:
        run = running.add(flow, {}, {"seen": tw.each(lambda row: began.set())}, chunk_rows=100)
        assert began.wait(300)
        getattr(run, way)()
        if way == "end":
            numbers = [row.n for row in run.result(60).rows("out")]
            assert numbers == list(range(len(numbers)))
        assert told.wait(60)
        assert run.wait(60)


def test_asked_to_end() -> None:
    """Closed where it stands, it gets False for its push; who pushes on all the same is stopped with an error."""
    rows = _rows_of(for_ever)
    assert [next(rows).n for _ in range(3)] == [0, 1, 2]
    rows.close()

    async def deaf(out: tw.Output[Number]) -> None:
        while True:
            await out.push(Number(1))

    rows = _rows_of(deaf)
    next(rows)
    with pytest.raises(tw.OperatorError, match="it goes on and on at line"):
        rows.close()


def _rows_of(function: Any) -> Any:
    flow = tw.Flow("made")
    flow.operator("numbers", function).sink("out")
    (source,) = make_plan(flow).sources
    assert source.made_by is not None
    return made_rows(source.made_by)


def test_failures() -> None:
    """What it raises, and a row that does not fit, end the flow by an error with operator, function, file and line."""

    async def raises(out: tw.Output[Number]) -> None:
        await out.push(Number(1))
        raise KeyError("gone")

    async def misfits(out: tw.Output[Number]) -> None:
        await out.push(Word("one"))  # type: ignore[arg-type]

    for function, message in (
        (raises, "KeyError: 'gone'"),
        (misfits, r"pushed to 'out' at line \d+ does not fit"),
    ):
        for run in (tw.run, testing.run, testing.reference):
            flow = tw.Flow("made")
            flow.operator("numbers", function).sink("out")
            with pytest.raises(tw.OperatorError, match=message) as caught:
                run(flow, {})  # type: ignore[operator]
            assert "operator 'numbers'" in str(caught.value)
            assert "test_generators.py" in str(caught.value)


def test_explain() -> None:
    """The plan says who makes the rows."""
    flow = tw.Flow("made")
    flow.operator("numbers", count_to).sink("out")
    assert "count_to (test_generators.py:" in flow.explain(compile=False)
    assert "makes its rows" in flow.explain(compile=False)


async def nothing() -> None:
    """No ports at all."""


async def ruled(rule: tw.Control[Number], out: tw.Output[Number]) -> None:
    """Control ports only."""


Make = Callable[[tw.Flow], Any]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda flow: flow.operator("x", nothing), "has neither inputs nor outputs"),
        (lambda flow: flow.operator("x", ruled, rule=flow.source("r", Number)), "control inputs only"),
    ],
)  # fmt: skip
def test_refused(make: Make, message: str) -> None:
    """An operator that nothing would run is refused when the flow is built."""
    with pytest.raises(tw.BuildError, match=message):
        make(tw.Flow("made"))


def test_takes_no_input() -> None:
    """It is no source that rows can be given for."""
    flow = tw.Flow("made")
    flow.operator("numbers", count_to).sink("out")
    with pytest.raises(tw.BuildError, match=r"'numbers': count_to .* makes its rows itself"):
        tw.run(flow, {"numbers": [Number(1)]})
    with pytest.raises(tw.BuildError, match="no source 'other'; it has none"):
        tw.run(flow, {"other": []})


def test_refused_on_spark() -> None:
    """Spark must be able to read a batch again: the message says what to give it instead."""
    from thalweg.spark.reading.inputs import refuse_embedded_only

    flow = tw.Flow("made")
    flow.operator("numbers", count_to).sink("out")
    with pytest.raises(
        tw.BuildError, match=r"'numbers': count_to .*tw.run.*flow.source\('numbers'"
    ):
        refuse_embedded_only(make_plan(flow))
