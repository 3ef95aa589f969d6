"""Sources that fall silent on Spark: a session closes though no row comes, and a crash repeats what was decided."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import thalweg as tw

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


class Click(NamedTuple):
    ts: tw.Timestamp
    user: str
    part: int


def make_flow() -> tw.Flow:
    flow = tw.Flow("visits")
    clicks = flow.source("clicks", Click, order_by="ts", idle="1 second", lane="part", lanes=[0, 1])
    clicks.key_by("user").sessions("2 seconds", pages=tw.agg.count()).sink("visits")
    clicks.late.sink("late")
    return flow


def wait_for(query: Any, done: Any) -> None:
    """Until something holds; the failure of the query, if it fails before."""
    for _ in range(600):
        if done():
            return
        if (error := query.exception()) is not None:
            raise error
        time.sleep(0.1)
    raise AssertionError(f"it never came: {query.last_progress}")


@pytest.mark.parametrize("slots", [1, 2])
def test_a_session_closes_while_nothing_comes(
    spark: SparkSession, tmp_path: Path, slots: int
) -> None:
    """The lane that never gave a row, and then the other one: the driver starts the batches, with what it decided.

    The sink fails at the session, when the batch has been planned: the next start writes it all the same, at once.
    """
    (tmp_path / "in").mkdir()
    seen: list[tuple[int, list[dict[str, Any]]]] = []
    fails = [True]

    def take(table: pa.Table, batch: int) -> None:
        seen.append((batch, table.to_pylist()))
        if table.num_rows and fails.pop():
            raise OSError("the table is locked")

    def put(name: str, *rows: str) -> None:
        path = tmp_path / name
        path.write_text("ts,user,part\n" + "".join(f"{row}\n" for row in rows))
        os.rename(path, tmp_path / "in" / f"{name}.csv")

    def start() -> Any:
        return tw.spark.start(
            make_flow(), {"clicks": tw.files(tmp_path / "in", "csv", follow=True)},
            {"visits": tw.spark.foreach_table(take)}, checkpoint=tmp_path / "ck", slots=slots,
        )  # fmt: skip

    put("a", "2026-01-01T00:00:00Z,ann,0", "2026-01-01T00:00:01Z,ann,0")
    query = start()
    try:
        with pytest.raises(tw.ThalwegError, match="locked"):
            query.await_termination(60)
    finally:
        query.stop()
    failed, rows = seen[-1]
    assert [(row["user"], row["pages"]) for row in rows] == [("ann", 2)]
    assert failed > 0  # no batch had rows of it before
    began = len(seen)
    fails[:] = [False] * 1_000
    query = start()
    try:
        wait_for(query, lambda: len(seen) > began)
        assert seen[began] == (failed, rows)
        pauses = query.counts["clicks"]["idle"]
        assert pauses in (2, 3)  # the lanes; the first one perhaps also before its first row
        wait_for(query, lambda: query.progress().sources[0].is_idle)
        source = query.progress().sources[0]
        assert (source.is_idle, source.pauses) == (True, pauses)
        put("b", "2026-01-01T00:00:01Z,bob,1")
        wait_for(query, lambda: query.counts["clicks"]["in"] == 3)
        assert query.counts["clicks"]["late"] == 1
    finally:
        query.stop()
    assert sum(len(rows) for _, rows in seen[began:]) == 1


class Hit(NamedTuple):
    user: str
    at: tw.Timestamp
    n: int


def stamped_flow() -> tw.Flow:
    flow = tw.Flow("hits")
    hits = flow.source("hits", Hit, order_by="at", stamp="at", idle="1 second")
    hits.sink("all")
    hits.late.sink("late")
    hits.key_by("user").sessions("3 seconds", hits=tw.agg.count(), last=tw.agg.max("n")).sink(
        "visits"
    )
    return flow


def test_rows_are_stamped_once(spark: SparkSession, tmp_path: Path) -> None:
    """A batch that is repeated has its stamps again, and sessions by the clock follow from them and from it."""
    (tmp_path / "in").mkdir()
    found: dict[str, dict[int, list[Any]]] = {"all": {}, "visits": {}}
    tries: list[list[Any]] = []

    def keep(name: str) -> Any:
        def take(table: pa.Table, batch: int) -> None:
            rows = [
                tuple(
                    one.cast("int64").to_pylist()
                    if pa.types.is_timestamp(one.type)
                    else one.to_pylist()
                )
                for one in table.columns
            ]
            found[name][batch] = list(zip(*rows, strict=True))
            if name == "all" and rows[0]:
                tries.append(found[name][batch])
                if len(tries) == 2:
                    raise OSError("the table is locked")

        return tw.spark.foreach_table(take)

    def put(name: str, *rows: str) -> None:
        path = tmp_path / name
        path.write_text("user,n\n" + "".join(f"{row}\n" for row in rows))
        os.rename(path, tmp_path / "in" / f"{name}.csv")

    def rows_of(name: str) -> list[Any]:
        return [row for batch in sorted(found[name]) for row in found[name][batch]]

    def start() -> Any:
        return tw.spark.start(
            stamped_flow(), {"hits": tw.files(tmp_path / "in", "csv", follow=True)},
            {name: keep(name) for name in found}, checkpoint=tmp_path / "ck", slots=2,
        )  # fmt: skip

    before = time.time_ns() // 1_000
    query = start()
    try:
        put("a", "ann,1", "bob,2")
        wait_for(query, lambda: len(tries) == 1)
        put("b", "ann,3")
        with pytest.raises(tw.ThalwegError, match="locked"):
            query.await_termination(60)
    finally:
        query.stop()
    query = start()
    try:
        wait_for(query, lambda: sum(visit[3] for visit in rows_of("visits")) == 3)
    finally:
        query.stop()
    assert tries[1] == tries[2]
    rows = [Hit(*row) for row in rows_of("all")]
    assert [(row.user, row.n) for row in rows] == [("ann", 1), ("bob", 2), ("ann", 3)]
    assert before <= rows[0].at == rows[1].at <= rows[2].at <= time.time_ns() // 1_000
    expected = tw.testing.reference(stamped_flow(), {"hits": rows})
    assert sorted(rows_of("visits")) == sorted(tuple(row) for row in expected.rows("visits"))
    assert query.counts["hits"]["late"] == 0
