"""Operators with driver loops on Spark: batches in between, an idle input, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import thalweg as tw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Row(NamedTuple):
    ts: int
    name: str


class Pair(NamedTuple):
    one: str
    two: str


async def pairs(a: tw.Input[Row], b: tw.Input[Row], out: tw.Output[Pair]) -> None:
    while await tw.wait_for_all(a, b):
        await out.push(Pair(a.pop().name, b.pop().name))


def pairs_flow(**options: Any) -> tw.Flow:
    flow = tw.Flow("pairs", compile="never")
    a, b = flow.source("a", Row), flow.source("b", Row)
    flow.operator("pairs", pairs, a=a, b=b, **options).sink("out")
    return flow


@pytest.mark.parametrize("slots", [1, 2])
def test_idle_input_over_batches(spark: SparkSession, tmp_path: Path, slots: int) -> None:
    """What waits for an idle input outlives the batch, is told by name, and is paired in a later one."""
    sink = tw.spark.memory()
    for name, text in (("a", "x,y,z"), ("b", "")):
        (tmp_path / name).mkdir()
        rows = [f"{i},{one}\n" for i, one in enumerate(filter(None, text.split(",")))]
        (tmp_path / name / "0.csv").write_text("ts,name\n" + "".join(rows))

    def run(**options: Any) -> Any:
        query = tw.spark.start(
            pairs_flow(**options),
            {name: tw.spark.files(str(tmp_path / name), format="csv") for name in "ab"},
            {"out": sink},
            checkpoint=str(tmp_path / "checkpoint"), slots=slots, trigger="available_now",
        )  # fmt: skip
        query.await_termination()
        return query

    assert run().last_progress["waiting"]["pairs.a"] == 3
    (tmp_path / "b" / "1.csv").write_text("ts,name\n0,u\n1,v\n")
    waiting = run().last_progress["waiting"]
    assert (waiting["pairs.a"], "pairs.b" in waiting) == (1, False)
    assert sink.rows == [Pair("x", "u"), Pair("y", "v")]
    (tmp_path / "a" / "1.csv").write_text("ts,name\n3,w\n4,q\n")
    with pytest.raises(tw.OperatorError, match=r"3 rows wait at input 'a'.*waits for b"):
        run(max_waiting=2)


@tw.state
class Seen:
    n: int = 0


async def numbered(
    rows: tw.Input[Row], seen: Seen, out: tw.Output[Row], first: tw.Output[Pair]
) -> None:
    """Each row of a key with its number there, and the first one to another output, too."""
    while await tw.wait_for_all(rows):
        row = rows.pop()
        seen.n += 1
        await out.push(row._replace(ts=seen.n))
        if seen.n == 1:
            await first.push(Pair(row.name, "first"))


async def twice(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(rows):
        row = rows.pop()
        for i in range(2):
            await out.push(row._replace(ts=2 * row.ts + i))


def by_key_flow() -> tw.Flow:
    flow = tw.Flow("by key", compile="never")
    a, b = flow.source("a", Row, order_by="ts"), flow.source("b", Row, order_by="ts")
    a = flow.operator("twice", twice, rows=a, stateless=True)
    flow.operator("pairs", pairs, a=a.key_by("name"), b=b.key_by("name")).sink("pairs")
    made = flow.operator("numbered", numbered, rows=a.key_by("name"))
    made.out.sink("numbered")
    made.first.sink("first")
    return flow


def test_by_key_in_slots_over_batches(spark: SparkSession, tmp_path: Path) -> None:
    """Loops by key, and without state, run in two slots; what they hold outlives batches and a restart.

    In one batch a policy sends two threads a slot to operators: it changes nothing.
    """
    letters = {"a": "xyzxxyzzy", "b": "zyxwzyxyx"}
    inputs = {n: [Row(i, one) for i, one in enumerate(text)] for n, text in letters.items()}
    sinks = {name: tw.spark.memory() for name in ("pairs", "numbered", "first")}
    for start, end in ((0, 4), (4, 7), (7, 9)):
        for name, rows in inputs.items():
            (tmp_path / name).mkdir(exist_ok=True)
            text = "".join(f"{row.ts},{row.name}\n" for row in rows[start:end])
            (tmp_path / name / f"{start}.csv").write_text("ts,name\n" + text)
        more: Any = (
            {"threads": 2, "policy": tw.scheduling.FirstComeFirstServed()} if start == 4 else {}
        )
        query = tw.spark.start(
            by_key_flow(),
            {name: tw.spark.files(str(tmp_path / name), format="csv") for name in "ab"},
            sinks,
            checkpoint=str(tmp_path / "checkpoint"), slots=2, trigger="available_now", **more,
        )  # fmt: skip
        query.await_termination()
    whole = tw.run(by_key_flow(), inputs)
    for name, sink in sinks.items():
        expected = whole.rows(name)
        # Rows at the watermark wait for the next batch, and without an end for ever.
        assert sink.rows == expected[: len(sink.rows)]
        assert len(sink.rows) >= len(expected) - 4
    assert len(sinks["first"].rows) == 3


def test_streaming_frames_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A lowered stream cannot keep an operator's state and unread input."""
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("ts long, name string").csv(str(tmp_path / "in"))
    with pytest.raises(tw.BuildError, match="stateful 'pairs' keeps rows or state between batches"):
        tw.spark.lower(pairs_flow(), {"a": stream, "b": stream})
