"""What is around reading: options, the texts of bad rows, and which files there are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs

import thalweg.connectors.readers
from thalweg.connectors.readers import BadRow, ReadOptions, describe_bad, list_files
from thalweg.errors import BuildError, DataError

LOCAL = pafs.LocalFileSystem()


def test_exports() -> None:
    """The table of contents is sorted and true."""
    assert thalweg.connectors.readers.__all__ == sorted(thalweg.connectors.readers.__all__)
    assert all(
        hasattr(thalweg.connectors.readers, name) for name in thalweg.connectors.readers.__all__
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"format": "xml"}, "format is one of csv, json, text, parquet, not 'xml'"),
        ({"format": "csv", "delimiter": "ab"}, "delimiter is one ASCII character"),
        ({"format": "csv", "delimiter": '"'}, "delimiter and quote are both"),
        ({"format": "csv", "quote": "\n"}, "quote cannot be"),
        ({"format": "json", "delimiter": ";"}, "delimiter is an option of csv, not of json"),
        ({"format": "csv", "null_values": "NA"}, "null_values is a sequence of texts"),
        ({"format": "csv", "true_values": ("0",)}, "are in both true_values and false_values"),
        ({"format": "csv", "epoch_unit": "h"}, "epoch_unit is 's', 'ms', 'us', 'ns' or None"),
        ({"format": "csv", "epoch_unit": "s", "timestamp_formats": ("%Y",)}, "not both"),
    ],
)
def test_options_are_checked(more: dict[str, Any], message: str) -> None:
    """A wrong option is told when the options are made."""
    with pytest.raises(BuildError, match=message):
        ReadOptions(**more)


def test_describe_bad_is_one_line() -> None:
    """Line ends inside a value do not break the line."""
    text = describe_bad("a.csv", BadRow(3, "a: got 'x\ny'", "x"))
    assert text == "a.csv line 3: a: got 'x\\ny'"
    assert (
        describe_bad("a.parquet", BadRow(0, "a is null", "", "row")) == "a.parquet row 0: a is null"
    )


def test_list_files(tmp_path: Path) -> None:
    """By time and path; hidden names left out; patterns, suffixes and folders in folders."""
    names = [
        "b.csv",
        "a.csv.gz",
        "c.log",
        "_SUCCESS",
        ".a.crc",
        "d/e.csv",
        "d/_x/f.csv",
        "_t/g.csv",
    ]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, ns=(0, 5_000_000_000 if name == "a.csv.gz" else 7_000_000_000))

    def found(what: str = "", **more: Any) -> list[str]:
        top = str(tmp_path)
        return [
            os.path.relpath(one.path, top) for one in list_files(LOCAL, f"{top}/{what}", **more)
        ]

    assert found() == ["a.csv.gz", "b.csv", "c.log"]
    assert found(recursive=True) == ["a.csv.gz", "b.csv", "c.log", "d/e.csv"]
    assert found(suffixes=[".csv"]) == ["a.csv.gz", "b.csv"]
    assert found("*.csv") == ["b.csv"]
    assert found("*/*.csv") == ["d/e.csv"]
    assert found("**/*.csv") == ["b.csv", "d/e.csv"]
    assert found("d/**") == ["d/e.csv"]
    assert found("no*") == []
    one = list_files(LOCAL, str(tmp_path / "a.csv.gz"))[0]
    assert (one.mtime_us, one.length) == (5_000_000, 1)
    with pytest.raises(DataError, match="there is no such file or folder"):
        found("gone")
