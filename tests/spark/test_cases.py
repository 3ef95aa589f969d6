"""The written cases on Spark, through the public interface: files in, memory sinks out, one and two slots."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import thalweg as tw
from thalweg.plan.plan import make_plan

sys.path.append(str(Path(__file__).parents[1] / "cases"))
import case_flows as cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


class SparkHost:
    """Runs a flow over copies of the files, whose times of change say their order; one file a batch."""

    def __init__(self, folder: Path, slots: int) -> None:
        self._folder = folder
        self._slots = slots
        self._numbers: Iterator[int] = itertools.count()

    def __call__(
        self, flow: tw.Flow, source: str, files: Sequence[Path], options: Mapping[str, Any]
    ) -> cases.Outcome:
        run = self._folder / f"run{next(self._numbers)}"
        (run / "in").mkdir(parents=True)
        for place, file in enumerate(files):
            os.utime(shutil.copyfile(file, run / "in" / file.name), (10_000 + place,) * 2)
        sinks = {sink.name: tw.spark.memory() for sink in make_plan(flow).sinks}
        given = tw.spark.files(str(run / "in"), max_files_per_trigger=1, **options)
        query = tw.spark.start(
            flow, {source: given}, sinks, checkpoint=str(run / "ckpt"), slots=self._slots,
            trigger="available_now", end="drain",
        )  # fmt: skip
        query.await_termination()
        return cases.Outcome({name: sink.rows for name, sink in sinks.items()}, query.counts)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(name, marks=pytest.mark.short) if name == "01_out_of_order" else name
        for name in cases.ALL
    ],
)
def test_case(tmp_path: Path, case: str, slots: int) -> None:
    """The case's right behaviour, see its README and the function's docstring."""
    cases.ALL[case](SparkHost(tmp_path, slots))


def test_session_shuffles(tmp_path: Path) -> None:
    """Case 18 in three orders of arrival, on two slots."""
    cases.session_shuffles(SparkHost(tmp_path / "runs", 2), tmp_path, 3)


@pytest.mark.parametrize(("slots", "files", "lanes"), [(1, 100, None), (2, 3, (0, 1, 2))])
def test_partitioned_log_as_a_frame(
    tmp_path: Path, spark: SparkSession, slots: int, files: int, lanes: Any
) -> None:
    """Case 19 as a streaming frame, whose batches have rows by partition: declared lanes, and those of the input."""
    (tmp_path / "in").mkdir()
    for place, file in enumerate(cases.log_files()):
        os.utime(shutil.copyfile(file, tmp_path / "in" / file.name), (10_000 + place,) * 2)
    reader = spark.readStream.schema("partition long, offset long, at long, v string")
    frame = reader.option("maxFilesPerTrigger", files).json(str(tmp_path / "in"))
    sinks = {name: tw.spark.memory() for name in ("sorted", "late")}
    query = tw.spark.start(
        cases.log_flow(lanes, arrival=["partition", "offset"]), {"log": frame}, sinks,
        checkpoint=str(tmp_path / "ckpt"), slots=slots, trigger="available_now", end="drain",
    )  # fmt: skip
    query.await_termination()
    cases.check_log(sinks["sorted"].rows, sinks["late"].rows)


def test_corrupt_json_stops(tmp_path: Path) -> None:
    """Case 09 with errors="fail": the first bad line stops the query, with file, line, reason and text."""
    flow = tw.Flow("strict")
    flow.source("lines", cases.Line).sink("good")
    file = cases.path("09_corrupt_json", "events.jsonl")
    with pytest.raises(tw.DataError, match=r"events\.jsonl line 2: not JSON") as stopped:
        SparkHost(tmp_path, 1)(flow, "lines", [file], cases.JSON)
    assert '{"id":2,"user":"u2","v":' in str(stopped.value)


def test_no_keys_stop(tmp_path: Path) -> None:
    """Case 03 with errors="fail": a row without the key that its record promises stops the query."""
    flow = tw.Flow("strict")
    flow.source("events", cases.User).sink("rows")
    file = cases.path("03_null_keys", "events.jsonl")
    with pytest.raises(tw.DataError, match=r"events\.jsonl line 2: user is null"):
        SparkHost(tmp_path, 1)(flow, "events", [file], cases.JSON)
