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


def test_streaming_frames_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A lowered stream cannot keep an operator's state and unread input."""
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("ts long, name string").csv(str(tmp_path / "in"))
    with pytest.raises(tw.BuildError, match="stateful 'pairs' keeps rows or state between batches"):
        tw.spark.lower(pairs_flow(), {"a": stream, "b": stream})
