"""Local files as inputs: their order, their formats, what does not fit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from io_kit import bad_of, rows_of, source_node

import thalweg as tw
from thalweg.connectors import never


def put(path: Path, text: str, mtime: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (mtime, mtime))
    return path


def read_files(given: Any, **options: Any) -> list[int]:
    return [row.a for row in rows_of(given.rows(source_node(**options), 2, never()))]


def test_order_of_files(tmp_path: Path) -> None:
    """By time of change, then path, then line, however the files are named; each once."""
    put(tmp_path / "b.csv", "a,b\n3,x\n4,x\n", 100)
    put(tmp_path / "c.csv", "a,b\n5,x\n", 100)
    put(tmp_path / "a.csv", "b,a\nx,6\n", 200)
    put(tmp_path / "z.csv", "a,b\n1,x\n2,x\n", 50)
    put(tmp_path / "sub" / "d.csv", "a,b\n7,x\n", 300)
    assert read_files(tw.files(tmp_path)) == [1, 2, 3, 4, 5, 6]
    assert read_files(tw.files(tmp_path, recursive=True)) == [1, 2, 3, 4, 5, 6, 7]
    assert read_files(tw.files(f"{tmp_path}/[abc].csv")) == [3, 4, 5, 6]
    assert read_files(tw.files([tmp_path / "a.csv", f"{tmp_path}/*.csv"])) == [1, 2, 3, 4, 5, 6]


def test_lines_that_do_not_fit(tmp_path: Path) -> None:
    """They are named by file and line; under errors="fail" with the whole path and what to do."""
    path = put(tmp_path / "x.csv", 'a,b\n1,"x\ny"\nno,z\n2,w\n', 0)
    bad = bad_of(tw.files(path).rows(source_node(errors="reject"), 10, never()))
    assert [(place, text) for _, place, text in bad] == [("x.csv line 4", "no,z")]
    with pytest.raises(
        tw.DataError, match=f"(?s)source 'pairs': {path} line 4: a: expected int.*errors='reject'"
    ):
        list(tw.files(path).rows(source_node(), 10, never()))


def test_a_file_that_does_not_fit(tmp_path: Path) -> None:
    """A missing column ends the run also under errors="reject"."""
    path = put(tmp_path / "x.csv", "a\n1\n", 0)
    with pytest.raises(tw.DataError, match=r"source 'pairs': .*x.csv: column b missing"):
        list(tw.files(path).rows(source_node(errors="reject"), 10, never()))


def test_options_of_files(tmp_path: Path) -> None:
    """Options are those of the format; the format is said or told by the names."""
    path = put(tmp_path / "x.data", "1;x\n", 0)
    assert read_files(tw.files(path, "csv", header=False, delimiter=";")) == [1]
    with pytest.raises(tw.BuildError, match=r"x.data has another file format .*give format="):
        tw.files(path)
    put(tmp_path / "y.csv", "a,b\n", 0)
    with pytest.raises(tw.BuildError, match="give format="):
        tw.files(tmp_path)
    with pytest.raises(tw.BuildError, match="there is no option 'sep'"):
        tw.files(path, "csv", sep=";")
    with pytest.raises(tw.BuildError, match="delimiter is an option of csv, not of json"):
        tw.files(path, "json", delimiter=";")
    with pytest.raises(tw.BuildError, match="format: expected one of"):
        tw.files(path, "xml")  # type: ignore[arg-type]
    with pytest.raises(tw.BuildError, match="expected a path, a glob or several"):
        tw.files([])


def test_no_files(tmp_path: Path) -> None:
    """Nothing at the place is an error before anything runs, and names the source or the verb."""
    with pytest.raises(tw.BuildError, match=r"input 'pairs': .*no such file or folder"):
        tw.files(tmp_path / "x.csv").rows(source_node(), 1, never())
    with pytest.raises(tw.BuildError, match="input 'pairs': there are no files at"):
        tw.files(tmp_path / "*.csv").rows(source_node(), 1, never())
    with pytest.raises(tw.BuildError, match=r"files: there are no files at .*give format="):
        tw.files(tmp_path)
    put(tmp_path / "batch=0" / "x.csv", "a,b\n1,x\n", 0)
    below = (
        r"no files at .* itself, but 1 in folders below, such as .*batch=0/x.csv; recursive=True"
    )
    with pytest.raises(tw.BuildError, match=rf"^files: there are {below} reads these$"):
        tw.files(tmp_path)
    with pytest.raises(tw.BuildError, match=rf"input 'pairs': there are {below}"):
        tw.files(tmp_path, "csv").rows(source_node(), 1, never())
    assert read_files(tw.files(tmp_path, recursive=True)) == [1]


def test_compressed_text(tmp_path: Path) -> None:
    """The end of a compression does not hide the format; text has path and number."""

    class Line(NamedTuple):
        line: str
        number: int

    path = tmp_path / "x.log.gz"
    with pa.output_stream(str(path)) as out:
        out.write(b"one\ntwo\n")
    assert rows_of(tw.files(path).rows(source_node(Line), 10, never())) == [
        Line("one", 1),
        Line("two", 2),
    ]
