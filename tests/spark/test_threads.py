"""Slots with several threads: the threads that a worker process has, and output that does not show them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kill_driver as driver
import pyarrow as pa
import pytest
import witness
from pyspark.sql import SparkSession
from slots_host import SlotsHost
from task_host import TaskHost

import thalweg as tw
from thalweg.checkpoint.inspect import read_state
from thalweg.engine.build import prepare
from thalweg.plan.plan import make_plan
from thalweg.spark.tasks import worker
from thalweg.workers.step_size import STEP_ROWS

pytestmark = pytest.mark.spark


class Row(NamedTuple):
    key: int
    value: int


@tw.state
class Sum:
    total: int = 0


def add(state: Sum, row: Row) -> Row:
    state.total += 100 // row.value
    return Row(row.key, state.total)


def make_flow(name: str = "sums") -> tw.Flow:
    flow = tw.Flow(name)
    flow.source("rows", Row).key_by("key").process(add, state=Sum, name="add").sink("out")
    return flow


def rows(*values: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"key": [1, 2, 3] * len(values), "value": [*values] * 3})]


def totals(host: TaskHost) -> list[int]:
    """The sums of all keys, as they are on disk."""
    TaskHost.forget()
    with worker.hot_engine(host.job(), None, 0) as hot:
        tables = hot.engine.keyed["add"].tables.values()
        return [sum_ for table in tables for sum_ in table.snapshot()["total"].to_pylist()]


def workers() -> set[threading.Thread]:
    """The threads of all engines in this process."""
    return {one for one in threading.enumerate() if one.name.startswith("thalweg-")}


@pytest.fixture(autouse=True)
def _no_engines_left() -> Iterator[None]:
    TaskHost.forget()
    yield
    TaskHost.forget()


# -- threads of a worker process ----------------------------------------------------------------------------


def test_the_same_threads_for_all_batches(tmp_path: Path) -> None:
    """A hot engine's threads outlast its batches, and end with it."""
    host = TaskHost(make_flow(), str(tmp_path), threads=2)
    host.run(rows(1, 2))
    first = workers()
    assert len(first) == 2
    for _ in range(3):
        host.run(rows(4, 5))
        assert workers() == first
    TaskHost.forget()
    assert not workers()
    host.run(rows(10))
    host.threads = 1
    host.run(rows(10))
    assert not workers()
    assert host.keys == {"add": 3}
    total = 3 * (100 + 50) + 3 * 3 * (25 + 20) + 2 * 3 * 10
    assert sum(totals(host)) == total


def test_another_number_of_threads(tmp_path: Path) -> None:
    """An engine of two threads makes room for one of three."""
    host = TaskHost(make_flow(), str(tmp_path), threads=2)
    host.run(rows(1))
    host.threads = 3
    host.run(rows(1))
    assert len(workers()) == 3


def test_an_engine_that_failed_is_stopped(tmp_path: Path) -> None:
    """Its threads are gone; the batch is repeated by another one from what is on disk."""
    host = TaskHost(make_flow(), str(tmp_path), threads=2)
    host.run(rows(1))
    for _ in range(3):
        with pytest.raises(tw.OperatorError):
            host.run(rows(1, 0))
        assert not workers()
    host.run(rows(1))
    assert totals(host) == [200, 200, 200]


def test_an_engine_that_is_evicted_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads do not add up over the queries that a worker process has seen."""
    monkeypatch.setattr(worker, "_KEPT", 2)
    for number in range(4):
        TaskHost(make_flow(), str(tmp_path / str(number)), threads=2).run(rows(1))
        assert len(workers()) == 2 * min(number + 1, 2)


# -- steps ------------------------------------------------------------------------------------------------


def later(state: Sum, row: Row) -> Row:
    state.total += row.value % 7
    return Row(row.value % 11, state.total)


def two_keys(compile: Any) -> tw.Flow:
    flow = tw.Flow("two")
    added = flow.source("rows", Row).key_by("key").process(add, state=Sum, name="add")
    added.key_by("key").process(later, state=Sum, name="later", compile=compile).sink("out")
    return flow


def step_rows(flow: tw.Flow, stage: int | None, chunk_rows: int, threads: int = 2) -> int:
    prepared = prepare(make_plan(flow))
    engine = worker.make_engine(prepared, stage, chunk_rows=chunk_rows, threads=threads)
    try:
        return engine.step_rows()
    finally:
        engine.stop()


def test_how_long_steps_are() -> None:
    """Short where machine code runs all operators of a slot; else a step has a price, and is as long as asked for."""
    compiled, partly = two_keys("auto"), two_keys("never")
    assert step_rows(compiled, None, 65_536) == STEP_ROWS
    assert step_rows(compiled, None, 100) == 100
    assert step_rows(compiled, None, 65_536, threads=1) == 65_536
    assert step_rows(partly, None, 65_536) == 65_536
    for stage in (0, 1):
        assert step_rows(compiled, stage, 65_536) == 65_536


def test_batches_of_several_steps(tmp_path: Path) -> None:
    """Rows and states are those of one thread, which has a step for all."""
    given = [Row(n * 7919 % 501, 1 + n % 13) for n in range(2 * STEP_ROWS + 5)]
    found = []
    for threads in (1, 2):
        host = SlotsHost(two_keys("auto"), str(tmp_path / str(threads)), threads)
        for ends in (False, True):
            host.batch(given, slots=1, ends=ends)
        states = [read_state(str(tmp_path / str(threads)), name) for name in ("add", "later")]
        found.append((host.rows["out"], [one.to_pylist() for one in states]))
    assert found[0] == found[1] and len(found[0][0]) == 2 * len(given)


# -- queries ----------------------------------------------------------------------------------------------


def run(folder: Path, given: list[driver.Click], *, slots: int, threads: int) -> tuple[Any, Any]:
    """The witness flow over four batches: what its sinks got as Arrow tables, and its state."""
    driver.write_files(folder / "in", given, 4)
    sinks = {name: tw.spark.memory() for name in (*driver.SINKS, "totals")}
    tw.spark.start(
        driver.make_flow(),
        {"clicks": tw.spark.files(str(folder / "in"), format="parquet", max_files_per_trigger=1)},
        sinks, checkpoint=str(folder / "ckpt"), slots=slots, threads=threads, trigger="available_now", end="drain",
    ).await_termination()  # fmt: skip
    tables = {name: sink.table for name, sink in sinks.items()}
    return tables, witness.states(folder / "ckpt")


@pytest.mark.usefixtures("spark")
def test_one_slot_of_two_threads_and_two_slots_of_one(tmp_path: Path) -> None:
    """The same tables, row by row."""
    given = driver.make_rows(seed=21, count=1_200)
    one, state = run(tmp_path / "one", given, slots=1, threads=2)
    two, other = run(tmp_path / "two", given, slots=2, threads=1)
    assert [name for name, table in one.items() if not table.equals(two[name])] == []
    assert one["numbered"].num_rows + one["late"].num_rows == len(given)
    assert state == other and state["number"]


def test_numbers_of_threads(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """None and negative numbers are refused before anything is written; more than a task's cores are told."""
    frame = spark.createDataFrame([(1, 4), (1, 5)], "key long, value long").coalesce(1)
    for threads in (0, -1, True, "2"):
        with pytest.raises(tw.BuildError, match="threads"):
            tw.spark.start(make_flow(), {"rows": frame}, {}, threads=threads)  # type: ignore[arg-type]
    sink = tw.spark.memory()
    with caplog.at_level(logging.WARNING, "thalweg"):
        tw.spark.start(make_flow(), {"rows": frame}, {"out": sink}, threads=3)
    assert "3 threads a slot share the 2 core(s)" in caplog.text
    assert sink.rows == [(1, 25), (1, 45)]
    out = tw.spark.lower(make_flow(), {"rows": frame}, threads=2)["out"]
    assert [tuple(row) for row in out.collect()] == [(1, 25), (1, 45)]
