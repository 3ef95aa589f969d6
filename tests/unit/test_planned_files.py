"""Which files Spark's log has for a batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thalweg.checkpoint.identity import Folder
from thalweg.connectors.readers import read_options
from thalweg.errors import EnvironmentProblem
from thalweg.spark.reading.inputs import InputOptions
from thalweg.spark.reading.planned_files import FileInputs, planned_files

NAMES = ["a b.csv", "c%d.csv", "e\u2028f.csv", "g.csv"]


def log(folder: Path, *, compact: bool = False) -> Folder:
    """Batch 0 took one file, batch 1 took none, batch 2 the other three."""
    files = [(folder / "in" / name).as_uri() for name in NAMES]
    entries = [{"path": path, "timestamp": 1, "batchId": min(i, 1)} for i, path in enumerate(files)]
    lines = [json.dumps(one, ensure_ascii=False) for one in entries]
    for place, content in (("offsets/0", 0), ("offsets/1", 0), ("offsets/2", 1)):
        path = folder / "spark" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'v1\n{{}}\n{{"logOffset":{content}}}\n-')
    sources = folder / "spark/sources/0"
    sources.mkdir(parents=True)
    if compact:
        (sources / "1.compact").write_text("\n".join(["v1", *lines]), encoding="utf-8")
    else:
        (sources / "0").write_text("\n".join(["v1", *lines[:1]]), encoding="utf-8")
        (sources / "1").write_text("\n".join(["v1", *lines[1:]]), encoding="utf-8")
    (folder / "in").mkdir()
    for name in NAMES:
        (folder / "in" / name).touch()
    return Folder.at(str(folder / "spark"))


@pytest.mark.parametrize("compact", [False, True])
def test_files_of_a_batch(tmp_path: Path, compact: bool) -> None:
    """Those of the entries between the batch's offset and the one before, also where entries were put together."""
    spark = log(tmp_path, compact=compact)
    paths = [f"file://{tmp_path}/in/{name}" for name in NAMES]
    assert planned_files(spark, 2, 0) == paths[1:]
    assert planned_files(spark, 1, 0) == []
    assert planned_files(spark, 0, 0) == ([] if compact else paths[:1])
    assert planned_files(spark, 2, 1) == []
    assert planned_files(spark, 3, 0) == []


def test_files_that_are_gone(tmp_path: Path) -> None:
    """Named if fewer came in than were planned and one is not there; a frame of the user's in front is not counted."""
    spark = log(tmp_path)
    read = InputOptions(read_options("files", "csv", {}), str(tmp_path / "in"))
    inputs = FileInputs(["rows"], {"rows": read})
    inputs.require_planned(spark, 2, [{"arrived": {"rows": 2}}])
    (tmp_path / "in" / NAMES[1]).unlink()
    inputs.require_planned(spark, 2, [{"arrived": {"rows": 2}}, {"arrived": {"rows": 1}}, {}])
    inputs.require_planned(None, 2, [])
    FileInputs(["mine", "rows"], {"mine": InputOptions(None), "rows": read}).require_planned(
        spark, 2, []
    )
    with pytest.raises(EnvironmentProblem, match=r"3 file\(s\), of which 1 cannot.*c%d\.csv"):
        inputs.require_planned(spark, 2, [{"arrived": {"rows": 2}}])


def test_folders_that_are_watched(tmp_path: Path) -> None:
    """A folder, or the one in front of a pattern; a single file may go once it was read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "one.csv").touch()
    read = read_options("files", "csv", {})
    for path, is_watched in (("in", True), ("in/*/x-?.csv", True), ("one.csv", False)):
        inputs = FileInputs(["rows"], {"rows": InputOptions(read, str(tmp_path / path))})
        inputs.require_folders()
        (tmp_path / "in").rename(tmp_path / "away")
        if is_watched:
            with pytest.raises(EnvironmentProblem, match=rf"{tmp_path}/in is not there"):
                inputs.require_folders()
        else:
            inputs.require_folders()
        (tmp_path / "away").rename(tmp_path / "in")
