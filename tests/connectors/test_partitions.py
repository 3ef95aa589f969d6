"""Files in folders by the values of fields: written by batch and partition, and read back with all fields."""

from __future__ import annotations

import datetime
import gzip
import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pyarrow.dataset as ds
import pytest
from tests.connectors import kit
from tests.connectors.kit import (
    EVERY,
    SHAPED,
    SPANS,
    Every,
    Pair,
    Shaped,
    Spans,
    node,
    plain,
    table,
)

import thalweg as tw
from thalweg.connectors.readers.partitions import folder_name
from thalweg.connectors.written import partitioned


class Visit(NamedTuple):
    day: str | None
    hour: int
    new: bool
    group: tw.Category
    n: int
    text: str


ROWS = [
    Visit("2024-01-01", 7, True, "a", 0, "x"),
    Visit("ü /=%{}?", -(2**63), False, "日本", 1, ""),
    Visit("2024-01-01", 7, True, "a", 2, 'q"\n,'),
    Visit(None, 2**63 - 1, True, "..", 3, "y"),
    Visit("a%20b", 0, True, "%", 4, "y"),
]
BY = ["day", "hour", "new", "group"]


def read(source: Any, record: type = Visit, **options: Any) -> list[Any]:
    flow = tw.Flow("read")
    flow.source("in", record, **options).sink("out")
    return list(tw.run(flow, {"in": source}).rows("out"))


def sorted_by_n(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row.n)


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_rows_come_back(tmp_path: Path, format: Any) -> None:
    """Through any format, with any text as a folder's name; one file a batch and partition."""
    flow = tw.Flow("copied")
    flow.source("in", Visit).sink("out")
    tw.run(flow, {"in": ROWS}, {"out": tw.to_files(tmp_path / "out", format, partition_by=BY)})
    assert sorted_by_n(read(tw.files(tmp_path / "out", partitions=True))) == ROWS
    assert len(list(tmp_path.glob(f"out/*/*/*/*/part-00000000-*.{format}"))) == 4
    assert not [one for one in tmp_path.rglob("*") if one.name.startswith(".")]


def test_others_read_the_folders(tmp_path: Path) -> None:
    """Folders are Hive's, as Arrow and Spark read them."""
    writer = tw.to_files(tmp_path, partition_by="day").open(node(Visit), "q")  # type: ignore[call-arg]
    writer.write(0, table(Visit, ROWS))
    found = ds.dataset(tmp_path, partitioning="hive").to_table().sort_by("n").to_pylist()
    assert [row["day"] for row in found] == [row.day for row in ROWS]
    assert folder_name("day", 'a/b"%\x7f ü') == "day=a%2Fb%22%25%7F ü"


def test_every_type_comes_back(tmp_path: Path) -> None:
    writer = tw.to_files(tmp_path, partition_by="key").open(node(Every), "q")  # type: ignore[call-arg]
    writer.write(0, table(Every, EVERY))
    found = read(tw.files(tmp_path, partitions=True), Every)
    assert plain(sorted(found, key=lambda row: row.key)) == plain(EVERY)
    for format in ("parquet", "json", "csv"):
        for by in (["day", "total"], ["odd", "tiny"]):
            folder = tmp_path / f"{format}{by[0]}"
            record, rows = (Flat, FLAT) if format == "csv" else (Shaped, SHAPED)
            writer = tw.to_files(folder, format, partition_by=by).open(node(record), "q")  # type: ignore[call-arg]
            writer.write(0, table(record, rows))
            found = read(tw.files(folder, partitions=True), record)
            assert sorted(found, key=lambda row: row.key) == rows, format
    waits = tmp_path / "waits"
    writer = tw.to_files(waits, partition_by="wait").open(node(Spans), "q")  # type: ignore[call-arg]
    writer.write(0, table(Spans, SPANS))
    found = read(tw.files(waits, partitions=True), Spans)
    assert sorted(found, key=lambda row: row.key) == SPANS


class Flat(NamedTuple):
    """What CSV holds."""

    key: int
    at: datetime.datetime | None
    day: datetime.date | None
    total: tw.Money | None
    tiny: Annotated[Decimal, tw.decimal(18, 18)] | None
    odd: Annotated[Decimal, tw.decimal(7, 3)] | None
    more: dict[str, Any] | None


FLAT = [Flat(*row[:5], row.odd, row.more) for row in SHAPED]


def test_a_batch_counts_once(tmp_path: Path) -> None:
    """One that comes again replaces its files, and takes away what another flow left of it in other partitions."""
    target: Any = tw.to_files(tmp_path, partition_by="name")
    first = target.open(node(Pair), "q")
    first.write(0, table(Pair, [Pair("a", 1)]))
    first.write(1, table(Pair, [Pair("a", 2), Pair("b", 3)]))
    target.open(node(Pair), "q").write(1, table(Pair, [Pair("a", 2), Pair("c", 3)]))
    target.open(node(Pair), "other").write(1, table(Pair, [Pair("b", 9)]))
    found = read(tw.files(tmp_path, partitions=True), Pair)
    assert sorted_by_n(found) == [("a", 1), ("a", 2), ("c", 3), ("b", 9)]


class Typed(NamedTuple):
    at: tw.Timestamp
    share: float
    flag: bool
    n: int


def test_values_of_folders(tmp_path: Path) -> None:
    """Each type that a folder can name; names that the record has not are passed by; what does not fit is named."""
    folder = tmp_path / "other=1" / "at=2024-01-01" / "share=0.5" / "flag=TRUE"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("n\n1\n2\n")
    at = tw.timestamp("2024-01-01")
    assert read(tw.files(tmp_path, partitions=True), Typed) == [(at, 0.5, True, n) for n in (1, 2)]
    [row] = read(tw.files(folder, "csv", partitions=True), Typed, order_by="at")[1:]
    assert row == (at, 0.5, True, 2)
    for name, said in (
        ("flag=yes", "flag=yes is no bool: expected true or false"),
        ("flag=__HIVE_DEFAULT_PARTITION__", "the field may not be None"),
        ("n=99999999999999999999", "n=99999999999999999999 is no int"),
    ):
        odd = tmp_path / "odd" / "at=2024-01-01" / "share=1" / name
        odd.mkdir(parents=True)
        (odd / "a.csv").write_text("n,flag\n1,true\n")
        with pytest.raises(tw.DataError, match=said):
            read(tw.files(odd, partitions=True), Typed)


def test_an_option_that_was_forgotten(tmp_path: Path) -> None:
    """The error about the missing column says which option reads it."""
    (tmp_path / "name=a").mkdir()
    (tmp_path / "name=a" / "x.csv").write_text("n\n1\n")
    with pytest.raises(tw.DataError, match=r"column name missing.*partitions=True\) reads it"):
        read(tw.files(tmp_path, recursive=True), Pair)


def test_bad_rows_keep_their_lines(tmp_path: Path) -> None:
    (tmp_path / "name=a").mkdir()
    (tmp_path / "name=a" / "x.csv.gz").write_bytes(gzip.compress(b"n\n1\nx\n3\n"))
    with pytest.raises(tw.DataError, match=r"x\.csv\.gz line 3"):
        read(tw.files(tmp_path, partitions=True), Pair)
    assert read(tw.files(tmp_path, partitions=True), Pair, errors="reject") == [("a", 1), ("a", 3)]


def test_what_is_refused(tmp_path: Path) -> None:
    """Fields that name no folder, texts that would come back as None, formats that cannot hold a field."""
    for options, said in (
        ({"partition_by": "none"}, "has no field 'none'"),
        ({"partition_by": "share"}, r"share is float \| None; a folder is named by"),
        ({"partition_by": ["key", "what"]}, "has no field 'what'"),
        ({"partition_by": "more"}, r"more is json \| None; a folder is named by"),
    ):
        record = Shaped if options["partition_by"] == "more" else Every
        with pytest.raises(tw.BuildError, match=said):
            tw.to_files(tmp_path / "x", **options).check(node(record))  # type: ignore[union-attr]
    with pytest.raises(tw.BuildError, match="all fields are in partition_by"):
        tw.to_files(tmp_path / "x", partition_by=["name", "n"]).check(node(Pair))  # type: ignore[union-attr]
    with pytest.raises(tw.BuildError, match="CSV cannot hold data"):
        tw.to_files(tmp_path / "x", "csv", partition_by="key").check(node(Every))  # type: ignore[union-attr]
    (tmp_path / "file").write_text("")
    with pytest.raises(tw.BuildError, match="is a file; with partition_by name a folder"):
        tw.to_files(tmp_path / "file", partition_by="n")
    writer: Any = tw.to_files(tmp_path / "x", partition_by="name").open(node(Pair), "q")  # type: ignore[call-arg]
    for text in ("", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(
            tw.DataError, match=f"batch 0, row 1: no folder can be named by name='{text}'"
        ):
            writer.write(0, table(Pair, [Pair("a", 1), Pair(text, 2)]))
    (tmp_path / "x").write_text("")
    with pytest.raises(tw.EnvironmentProblem, match="cannot be written"):
        writer.write(0, table(Pair, [Pair("a", 1)]))


def test_a_reader_sees_whole_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a file is whole its name is one that readers of the folder pass by; so is what a kill leaves."""
    writer: Any = tw.to_files(tmp_path, "csv", partition_by="name").open(node(Pair), "q")  # type: ignore[call-arg]

    replace = os.replace

    def killed(source: str, target: str) -> None:
        if not os.path.basename(target).startswith("."):
            raise OSError("killed")
        replace(source, target)

    monkeypatch.setattr(partitioned.os, "replace", killed)
    with pytest.raises(tw.EnvironmentProblem, match="killed"):
        writer.write(0, table(Pair, [Pair("a", 1)]))
    monkeypatch.undo()
    assert [one.name[0] for one in tmp_path.rglob("*.csv")] == ["."]
    writer.write(1, table(Pair, [Pair("a", 2)]))
    assert read(tw.files(tmp_path, partitions=True), Pair) == [("a", 2)]


@pytest.mark.merge
def test_killed_at_random(tmp_path: Path) -> None:
    """kill -9 of a writing process at random points, again and again: the folder is as after an undisturbed run."""
    made = f"tw.to_files({str(tmp_path / 'out')!r}, partition_by='name')"
    assert kit.run_killed(made, tmp_path, kills=3, names=5) >= 2
    found = read(tw.files(tmp_path / "out", partitions=True), Pair)
    assert sorted_by_n(found) == kit.all_rows(5)
