"""Odd names of folders and files, times at the ends of 64 bits, and arguments with typing errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

import thalweg as tw

pytestmark = pytest.mark.spark


class Row(NamedTuple):
    ts: int
    a: int


def make_flow() -> tw.Flow:
    flow = tw.Flow("odd", errors="reject")
    source = flow.source("in", Row, order_by="ts")
    source.sink("out")
    source.rejected.sink("rejected")
    return flow


@pytest.mark.parametrize("streaming", [True, False])
def test_names_are_taken_as_they_stand(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    """What exists by a name is that, and no pattern or escape; each bad row keeps its file and line."""
    for number, (folder, file) in enumerate(
        [("[x]", "a.csv"), ("{y}", "a%20b.csv"), ("p%41 q", "b.csv"), ("z", "f[1].csv")]
    ):
        place = tmp_path / folder
        place.mkdir()
        (place / file).write_text("ts,a\n1,2\n9223372036854775807,3\n2,x\n3,4\n")
        path = place if number % 2 else place / file
        out, rejected = tw.spark.memory(), tw.spark.memory()
        query = tw.spark.start(
            make_flow(),
            {"in": tw.spark.files(str(path), format="csv", streaming=streaming)},
            {"out": out, "rejected": rejected},
            checkpoint=str(tmp_path / f"checkpoint-{number}") if streaming else None,
            trigger="available_now",
            end="drain",
        )
        query.await_termination()
        assert out.rows == [Row(1, 2), Row(3, 4)]
        assert [one.position for one in rejected.rows] == [f"{file} line 3", f"{file} line 4"]
        assert "times lie between" in rejected.rows[0].reason


@pytest.mark.parametrize("most", [1, 3])
def test_files_of_one_time_of_change_come_by_path(
    spark: SparkSession, tmp_path: Path, most: int
) -> None:
    """Whatever the cuts of batches are: Spark orders files by milliseconds only. A folder in the folder is not read."""
    folder = tmp_path / "in"
    (folder / "below").mkdir(parents=True)
    for number in range(8):
        (folder / f"{number}.csv").write_text(f"ts,a\n1,{number}\n")
    (folder / "below" / "9.csv").write_text("ts,a\n1,9\n")
    for file in folder.rglob("*.csv"):
        os.utime(file, ns=(10**18, 10**18))
    out = tw.spark.memory()
    flow = tw.Flow("ties")
    flow.source("in", Row).sink("out")
    threshold = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = spark.conf.get(threshold)
    tw.spark.start(
        flow,
        {"in": tw.spark.files(folder, format="csv", max_files_per_trigger=most)},
        {"out": out},
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available_now",
        end="drain",
    ).await_termination()
    assert [row.a for row in out.rows] == list(range(8))
    assert spark.conf.get(threshold) == before


@pytest.mark.parametrize("trigger", ["5 secnds", "-1 second", 5, "available now"])
def test_a_trigger_that_is_none(spark: SparkSession, tmp_path: Path, trigger: Any) -> None:
    """A trigger that is no interval is refused with the ones that are, before anything is written."""
    files = tw.spark.files(str(tmp_path), format="csv")
    with pytest.raises(tw.BuildError, match=r"'available_now', an interval such as '5 seconds'"):
        tw.spark.start(
            make_flow(), {"in": files}, {}, checkpoint=str(tmp_path / "c"), trigger=trigger
        )
    assert not (tmp_path / "c").exists()


def test_an_option_that_is_none() -> None:
    """An unknown option of files is refused with the names of those there are."""
    with pytest.raises(tw.BuildError, match=r"no option 'null_value'; .*null_values"):
        tw.spark.files("in", format="csv", null_value="NA")


@pytest.mark.parametrize("lateness", [-5, 2**70])
def test_a_lateness_that_is_none(lateness: int) -> None:
    """Rows cannot be less than not late, nor later than times can be apart."""
    with pytest.raises(tw.BuildError, match="lateness is how far rows may be behind"):
        tw.Flow("odd").source("in", Row, order_by="ts", lateness=lateness)


def test_times_too_far_out() -> None:
    """A time at the ends of 64 bits has no place in the order: its row is rejected, here and in the reference."""
    rows = [Row(1, 2), Row(2**63 - 1, 1), Row(-(2**63), 1), Row(3, 4)]
    result = tw.run(make_flow(), {"in": rows})
    assert result.rows("out") == [rows[0], rows[3]]
    assert [one.position for one in result.rows("rejected")] == ["row 1", "row 2"]
    reference = tw.testing.reference(make_flow(), {"in": rows})
    assert reference.sinks["out"] == [rows[0], rows[3]]
    assert len(reference.sinks["rejected"]) == 2
