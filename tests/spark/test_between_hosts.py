"""One checkpoint in a process, on Spark in several slots, and back: each row once, the state of all before."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.connectors.toy import ToyLog, ToyTarget

import thalweg as tw
from thalweg import testing

pytestmark = pytest.mark.spark


class Number(NamedTuple):
    lane: int
    n: int


@tw.state
class Sum:
    total: int = 0


def add(state: Sum, row: Number) -> Number:
    state.total += row.n + 1
    return Number(row.n % 7, state.total)


def third(row: Number) -> int:
    return row.n % 3


def make_flow() -> tw.Flow:
    flow = tw.Flow("between", compile="never")
    one = flow.source("one", Number, order_by="n", lateness=4)
    both = one.union(flow.source("two", Number, order_by="n", lateness=4), name="both")
    both.key_by(third).process(add, state=Sum, name="sums").sink("out")
    return flow


def test_there_and_back(spark: SparkSession, tmp_path: Path) -> None:
    """State, waiting rows, places and the numbers of batches go with it, in both directions, twice."""
    target, checkpoint = ToyTarget(), str(tmp_path / "ckpt")
    rows = 0
    for turn, host in enumerate(
        ["process", "spark", "spark", "process", "process", "spark", "process"]
    ):
        rows += 11 + turn
        inputs: Any = {name: ToyLog((rows,), follow=host == "spark") for name in ("one", "two")}
        if host == "process":
            end: Any = "keep" if turn < 6 else "drain"
            tw.run(make_flow(), inputs, {"out": target}, checkpoint=checkpoint, end=end)
            continue
        query = tw.spark.start(
            make_flow(), inputs, {"out": target}, checkpoint=checkpoint, slots=1 + turn,
            trigger="available_now", end="keep",
        )  # fmt: skip
        query.await_termination()
    given = {name: [Number(0, n) for n in range(rows)] for name in ("one", "two")}
    expected = testing.reference(make_flow(), given).rows("out")
    assert [Number(**row) for row in target.rows] == expected
    assert len(set(target.queries)) == 1
    with pytest.raises(tw.CheckpointError, match="is finished"):
        tw.run(make_flow(), inputs, checkpoint=checkpoint)
