"""Partial key grouping on Spark: parts leave the ingress, slots merge them; a hot key is no hot slot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from test_property_spark import Run, check, stored_states, write_files
from tests.property.operators_kit import PARTS, Event, Recipe, SourceStep, Step, random_rows

import thalweg as tw
from thalweg import testing
from thalweg.plan.plan import make_plan

pytestmark = pytest.mark.spark

#: Parts of rows, of what timers give and of a union; an operator by key behind them.
FLOW = Recipe(
    (SourceStep(3), SourceStep(6, lanes="arrival")),
    (
        Step("window_of_parts", (0,), 1, 0),
        Step("running", (2,), 0, 4),
        Step("ticking", (0,), 0, 0),
        Step("union", (4, 1)),
        Step("window_of_parts", (5,), 2, 4),
        Step("alarms", (6,), 1, 1),
    ),
    (2,),
)


def test_parts_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    """Output, order, counts and state are the reference's, over restarts with other slots, and live rescales."""
    rows = {f"in{i}": random_rows(i, 120) for i in range(2)}
    runs = [Run(2, 2), Run(3, 2, rescale=2, threads=1), Run(1, 1, threads=2)]
    check(FLOW, rows, runs, tmp_path)


def test_compiled_parts(spark: SparkSession, tmp_path: Path) -> None:
    """The same with what can be compiled in machine code."""
    rows = {f"in{i}": random_rows(i + 5, 160) for i in range(2)}
    check(FLOW, rows, [Run(3, 2, rescale=2), Run(2, 2, threads=1)], tmp_path, compile="auto")


def hot(grouping: Any) -> tw.Flow:
    flow = tw.Flow("hot", compile="never")
    keyed = flow.source("in", Event, order_by="ts").key_by("key", grouping=grouping)
    keyed.window(200, name="window", **PARTS).sink("out")
    return flow


def test_a_hot_key_over_a_change_of_the_grouping(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint of whole keys goes on with parts, and back: the state is the same; the load of slots is not."""
    some = random_rows(3, 900)
    rows = [
        row._replace(ts=place, key=7 if place % 5 else place % 300)
        for place, row in enumerate(some)
    ]
    sink, imbalance = tw.spark.memory(), []
    checkpoint = str(tmp_path / "ckpt")
    for turn, grouping in enumerate(["fields", "partial", "fields"]):
        write_files(tmp_path / "in", rows[300 * turn : 300 * turn + 300], 1, turn, turn)
        files = tw.spark.files(str(tmp_path / "in"), format="parquet")
        query = tw.spark.start(
            hot(grouping), {"in": files}, {"out": sink}, checkpoint=checkpoint, slots=6, threads=1,
            trigger="available_now", end="drain" if turn == 2 else "keep",
        )  # fmt: skip
        query.await_termination()
        busiest = max(query.recent_progress, key=lambda one: one["operators"]["window"]["in"])
        imbalance.append(busiest["locality"]["imbalance"]["window"])
    expected = testing.reference(hot("fields"), {"in": rows})
    assert not testing.row_difference(expected.rows("out"), sink.rows)
    (node,) = make_plan(hot("partial")).keyed
    assert stored_states(checkpoint, node) == expected.states["window"] == {}
    assert imbalance[0] > 2.5 and imbalance[2] > 2.5
    assert imbalance[1] < 2
