"""Queries that share a session by a policy: who is served first, pools, and places that come back whatever happens."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pyspark import SparkConf, TaskContext
from pyspark.sql import DataFrame, SparkSession

import thalweg as tw
from thalweg.scheduling import OperatorStats, RoundView
from thalweg.spark.reading.inputs import unbounded as unbounded_inputs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

CLASSES = {"urgent": 0, "report": 1, "archive": 2}


class Line(NamedTuple):
    line: str


class Watched(tw.spark.Scheduler):
    """One slot; it tells when a query's batch waits, so that tests need not look again and again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.arrived: dict[str, threading.Event] = {}
        super().__init__(*args, **{"slots": 1} | options)

    def _arrive(self, place: Any, *args: Any) -> Any:
        waiter = super()._arrive(place, *args)
        self.event(place.query).set()
        return waiter

    def event(self, query: str) -> threading.Event:
        return self.arrived.setdefault(query, threading.Event())

    def wait_for(self, *queries: str) -> None:
        for query in queries:
            assert self.event(query).wait(120), f"no batch of {query} arrived"

    @property
    def order(self) -> list[str]:
        return [decision.query for decision in self.progress.decisions]


def put(folder: Path, *lines: str) -> Path:
    """A file a line."""
    folder.mkdir(exist_ok=True)
    for number, line in enumerate(lines):
        (folder / f"{number}.txt").write_text(line + "\n")
    return folder


def start(
    scheduler: tw.spark.Scheduler, name: str, folder: Path, tmp_path: Path, **options: Any
) -> tw.spark.Query:
    flow = tw.Flow(name)
    flow.source("lines", Line).map(shout).sink("out")
    source = tw.spark.files(str(folder), format="text", max_files_per_trigger=1)
    return tw.spark.start(
        flow, {"lines": source}, {"out": tw.spark.memory()}, checkpoint=str(tmp_path / f"{name}-ckpt"),
        scheduler=scheduler, **{"trigger": "available_now"} | options,
    )  # fmt: skip


def shout(line: Line) -> Line:
    return Line(line.line.upper())


def lines(query: tw.spark.Query) -> list[str]:
    return [row.line for row in query.sink("out").rows]


def start_plain(
    spark: SparkSession, folder: Path, tmp_path: Path, function: Callable[[DataFrame, int], None]
) -> Any:
    """A query of the user's own, with a foreachBatch function."""
    frame = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    writer = frame.writeStream.foreachBatch(function)
    checkpoint = str(tmp_path / "plain-ckpt")
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


@contextlib.contextmanager
def held(scheduler: Watched) -> Iterator[None]:
    """All places are taken."""
    with scheduler.admit("urgent"):
        yield


@pytest.mark.short
def test_the_most_urgent_is_served_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Three queries wait for the one place: they run by class, not in the order in which they came."""
    caplog.set_level(logging.INFO, "thalweg.spark.scheduler")
    scheduler = Watched(classes=CLASSES | {"holder": 0}, starve_after_s=None)
    queries = {}
    with scheduler.admit("holder") as place:
        for name in ("archive", "report", "urgent"):
            folder = put(tmp_path / name, f"{name} 1", f"{name} 2")
            queries[name] = start(scheduler, name, folder, tmp_path)
            scheduler.wait_for(name)
    assert (place.batch, place.reason) == (-1, "no other could run")
    for name, query in queries.items():
        query.await_termination()
        assert sorted(lines(query)) == [f"{name.upper()} 1", f"{name.upper()} 2"]
    told = scheduler.progress
    first = {name: next(d for d in told.decisions if d.query == name) for name in queries}
    assert first["urgent"].reason == "first of 3 by MostUrgentFirst"
    assert first["urgent"].behind == ("archive", "report")
    assert first["urgent"].at_ns < first["report"].at_ns < first["archive"].at_ns
    for name, query in queries.items():
        waits = [one["admission_wait_s"] for one in query.recent_progress]
        assert waits[0] == first[name].wait_ns * 1e-9 > 0
        assert told.queries[name].waited_s == pytest.approx(sum(waits))
        assert told.queries[name].batches == len(waits)
        assert told.queries[name].cost_ns > 0
    assert re.search(
        r"batch 0 of 'urgent' runs after \d+\.\d{3} s: first of 3 by MostUrgentFirst;"
        r" still waiting: archive, report",
        caplog.text,
    )


def test_by_hand_in_foreach_batch(spark: SparkSession, tmp_path: Path) -> None:
    """A function of the user's own: its tasks are in the query's pool, and its rows are counted by Spark."""
    scheduler = tw.spark.Scheduler(classes={"mine": 3})
    seen: list[tuple[str, int, bool]] = []

    def pool(row: Any) -> Any:
        context = TaskContext.get()
        return context and context.getLocalProperty("spark.scheduler.pool")

    def write(frame: DataFrame, batch: int) -> None:
        with scheduler.admit("mine") as place:
            [name] = frame.rdd.map(pool).collect()
            seen.append((name, place.batch, place.wait_s >= 0))
        assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None

    query = start_plain(spark, put(tmp_path / "in", "a", "b", "c"), tmp_path, write)
    query.awaitTermination()
    assert seen == [("thalweg-mine", batch, True) for batch in range(3)]
    stats = scheduler.progress.queries["mine"]
    assert (stats.batches, stats.priority_class) == (3, 3)
    # The last batch has not been counted: two batches of one row each, the first with less weight.
    assert stats.ran_s > 0 and stats.cost_ns > 0


def test_a_query_in_its_own_pool_without_a_scheduler(tmp_path: Path) -> None:
    flow = tw.Flow("alone")
    flow.source("lines", Line).map(own_pool).sink("out")
    source = tw.spark.files(str(put(tmp_path / "in", "a")), format="text")
    query = tw.spark.start(
        flow, {"lines": source}, {"out": tw.spark.memory()}, checkpoint=str(tmp_path / "ckpt"),
        trigger="available_now",
    )  # fmt: skip
    query.await_termination()
    assert lines(query) == ["thalweg-alone"]
    progress = query.last_progress
    assert progress is not None and progress["admission_wait_s"] == 0.0


def own_pool(line: Line) -> Line:
    context = TaskContext.get()
    assert context is not None
    return Line(str(context.getLocalProperty("spark.scheduler.pool")))


def test_stopped_while_waiting(spark: SparkSession, tmp_path: Path) -> None:
    """A query that is stopped while its batch waits ends without a failure; its next start takes the batch."""
    scheduler = Watched(classes=CLASSES)
    ran = []

    def write(frame: DataFrame, batch: int) -> None:
        with scheduler.admit("archive"):
            ran.append(frame.collect()[0].value)

    plain_in, ours_in = put(tmp_path / "plain", "a"), put(tmp_path / "ours", "b")
    with held(scheduler):
        plain = start_plain(spark, plain_in, tmp_path, write)
        ours = start(scheduler, "report", ours_in, tmp_path)
        scheduler.wait_for("archive", "report")
        plain.stop()
        ours.stop()
        assert plain.exception() is None and ours.exception() is None
        assert scheduler.order == ["urgent"]
        phases = {name: one.phase.value for name, one in scheduler.progress.queries.items()}
        assert phases == {"urgent": "running", "archive": "idle", "report": "idle"}
    assert scheduler.order == ["urgent"] and ran == []
    start_plain(spark, plain_in, tmp_path, write).awaitTermination()
    again = start(scheduler, "report", ours_in, tmp_path)
    again.await_termination()
    assert ran == ["a"] and lines(again) == ["B"]


def test_a_failing_batch_gives_its_place_back(spark: SparkSession, tmp_path: Path) -> None:
    scheduler = Watched(classes=CLASSES)
    running = threading.Event()

    def fail(frame: DataFrame, batch: int) -> None:
        with scheduler.admit("archive"):
            running.set()
            scheduler.wait_for("report")
            raise ValueError("no such table")

    failing = start_plain(spark, put(tmp_path / "a", "a"), tmp_path, fail)
    assert running.wait(120)
    ours = start(scheduler, "report", put(tmp_path / "b", "b"), tmp_path)
    ours.await_termination()
    with pytest.raises(Exception, match="no such table"):
        failing.awaitTermination()
    assert scheduler.order == ["archive", "report"] and lines(ours) == ["B"]


def broken(operator: OperatorStats, view: RoundView) -> float:
    raise ZeroDivisionError("no weights")


def test_a_failing_policy_fails_who_waits(tmp_path: Path) -> None:
    """In the query's own words, not as a hang."""
    query = start(
        tw.spark.Scheduler(tw.scheduling.by(broken)), "report", put(tmp_path / "in", "a"), tmp_path
    )
    with pytest.raises(
        tw.SchedulingError, match=r"query 'report' waited for a place: policy by\(broken\)"
    ):
        query.await_termination()


def test_one_thread_has_one_place() -> None:
    """A function that asks for a place inside of a batch that has one would wait for itself."""
    scheduler = tw.spark.Scheduler(classes=CLASSES)
    with (
        scheduler.admit("urgent"),
        pytest.raises(tw.SchedulingError, match="this thread runs a batch of 'urgent' already"),
        scheduler.admit("report"),
    ):
        pass
    assert [one.batches for one in scheduler.progress.queries.values()] == [1]


def test_what_start_refuses(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", "a")
    with pytest.raises(tw.BuildError, match="query 'reports' has no class"):
        start(tw.spark.Scheduler(classes=CLASSES), "reports", folder, tmp_path)
    # One session a process, and this one is FAIR.
    conf = SparkConf().set("spark.scheduler.mode", "FIFO")
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    scheduler = tw.spark.Scheduler()
    with pytest.raises(tw.EnvironmentProblem, match=r"needs spark\.scheduler\.mode=FAIR") as raised:
        scheduler.check(session, "any")
    assert "tw.spark.session()" in str(raised.value)
    with (
        pytest.raises(tw.EnvironmentProblem, match="this Spark session has FIFO"),
        scheduler.admit("any", session=session),
    ):
        pass


def test_a_warning_where_nothing_bounds_a_batch(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For the queries that are not the most urgent, as far as their sources' options tell."""
    folder = str(put(tmp_path / "in", "a"))
    text, rate = spark.readStream, spark.readStream.format("rate-micro-batch")
    inputs: dict[str, tuple[Any, bool]] = {
        "files": (tw.spark.files(folder, format="text"), True),
        "bounded files": (tw.spark.files(folder, format="text", max_files_per_trigger=2), False),
        "text": (text.text(folder), True),
        "bounded text": (text.option("maxFilesPerTrigger", 2).text(folder).limit(3), False),
        "rate": (spark.readStream.format("rate").load(), True),
        "bounded rate": (rate.option("rowsPerBatch", 5).load(), False),
    }
    for name, (given, unbounded) in inputs.items():
        found = list(unbounded_inputs({name: given}))
        assert found == ([name] if unbounded else []), name
    scheduler = tw.spark.Scheduler(classes=CLASSES)
    scheduler.check(spark, "urgent", "files")
    assert not caplog.records
    scheduler.check(spark, "report", "files")
    assert "query 'report': nothing bounds a batch of input 'files'" in caplog.text
