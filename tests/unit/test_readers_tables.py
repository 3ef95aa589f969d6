"""Arrow tables and Parquet files held against a record."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs as pafs

import thalweg.flow.records as tw
from thalweg.connectors.readers import ReadOptions, inspect_file, read_file, rows_from_table
from thalweg.connectors.readers.tables import fit_table
from thalweg.errors import DataError
from thalweg.flow.records import Schema

LOCAL = pafs.LocalFileSystem()
PARQUET = ReadOptions(format="parquet")


class Row(NamedTuple):
    t: tw.Timestamp
    i: int
    f: float | None
    c: tw.Category


def table(**columns: Any) -> pa.Table:
    plain: dict[str, Any] = {
        "c": pa.array(["x", "y"]),
        "i": pa.array([1, 2]),
        "t": pa.array([0, 1], pa.timestamp("us", tz="UTC")),
        "f": pa.array([0.5, None]),
    }
    return pa.table({**plain, **columns})


def test_a_table_that_fits_is_not_copied() -> None:
    """The columns are the same memory, in the record's order."""
    source = table(extra=[1, 2])
    part = rows_from_table(source, Schema.of(Row), 10)
    assert part.table.schema == Schema.of(Row).arrow
    assert part.positions.tolist() == [10, 11]
    assert part.extra_columns == ("extra",)
    for name in Row._fields:
        before, after = source[name].chunk(0).buffers(), part.table[name].chunk(0).buffers()
        assert [b and b.address for b in before] == [a and a.address for a in after]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([86_400, 0], pa.timestamp("s")),
        pa.array([86_400_000, 0], pa.timestamp("ms", tz="Europe/Berlin")),
        pa.array([86_400_000_000_000, 0], pa.timestamp("ns")),
        pa.array([1, 0], pa.int32()).cast(pa.date32()),
        pa.array([dt.date(1970, 1, 2), dt.date(1970, 1, 1)], pa.date64()),
        pa.array([86_400_000_000, 0], pa.int64()),
    ],
)
def test_times_of_every_unit(times: pa.Array) -> None:
    """All are microseconds UTC afterwards."""
    part = rows_from_table(table(t=times), Schema.of(Row))
    assert part.table["t"].cast(pa.int64()).to_pylist() == [86_400_000_000, 0]


def test_nanoseconds_are_refused_or_cut_to_the_past() -> None:
    """What is finer than a microsecond does not fit; cut, it floors, like every other division of times here."""
    fine = table(t=pa.array([-1, 2000], pa.timestamp("ns")))
    part = rows_from_table(fine, Schema.of(Row))
    assert part.table["t"].cast(pa.int64()).to_pylist() == [2]
    assert [b.reason.partition(";")[0] for b in part.bad] == ["t is finer than a microsecond"]
    options = ReadOptions(format="parquet", nanoseconds="truncate")
    part = fit_table(fine, Schema.of(Row), "the table", 0, options)
    assert part.table["t"].cast(pa.int64()).to_pylist() == [-1, 2]


def test_numbers_and_texts_widen() -> None:
    """Small integers and floats widen; text of every layout is a Category."""
    for texts in (
        pa.array(["x", "y"], pa.large_string()),
        pa.array(["x", "y"]).dictionary_encode(),
        pa.array(["x", "y"]).cast(pa.dictionary(pa.int8(), pa.large_string())),
        pa.array(["x", "y"], pa.string_view()),
    ):
        small = table(i=pa.array([1, 2], pa.uint8()), f=pa.array([1, None], pa.int64()), c=texts)
        rows = rows_from_table(small, Schema.of(Row)).table.to_pylist()
        assert [(r["i"], r["f"], r["c"]) for r in rows] == [(1, 1.0, "x"), (2, None, "y")]


def test_rows_that_do_not_fit_are_bad() -> None:
    """A null in a field that is not Optional, or a value the type cannot hold: told with its row."""
    source = table(i=pa.array([None, 2]), f=pa.array([1, 2**53 + 1]), c=pa.array(["x", None]))
    part = rows_from_table(source, Schema.of(Row), 5)
    assert part.table.num_rows == 0
    assert [(b.position, b.reason, b.unit) for b in part.bad] == [
        (5, "i is null", "row"),
        (6, "f is an integer that a float cannot hold", "row"),
    ]
    assert "i=None" in part.bad[0].text
    far = rows_from_table(table(t=pa.array([2**62, 0], pa.timestamp("s"))), Schema.of(Row))
    assert [b.reason for b in far.bad] == ["t is a time beyond 64 bits of microseconds"]
    assert far.positions.tolist() == [1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"i": ["1", "2"]}, r"column i is string, but Row.i is int"),
        ({"i": [1.0, 2.0]}, r"column i is double, but Row.i is int"),
        ({"i": pa.array([1, 2], pa.time64("us"))}, r"column i is time64\[us\], but Row.i is int"),
        ({"t": ["1970-01-01", ""]}, r"column t is string, but Row.t is Timestamp"),
        ({"c": [1, 2]}, r"column c is int64, but Row.c is Category"),
        ({"i": pa.nulls(2)}, r"column i is null, but Row.i is int and not Optional"),
    ],
)
def test_types_that_do_not_fit(columns: dict[str, Any], message: str) -> None:
    """The column and both types are named."""
    with pytest.raises(DataError, match=message):
        rows_from_table(table(**columns), Schema.of(Row))


def test_missing_and_doubled_columns() -> None:
    """By name only; what was found is listed."""
    with pytest.raises(DataError, match=r"column i missing \(found j\)"):
        rows_from_table(table().rename_columns(["c", "j", "t", "f"]), Schema.of(Row))
    with pytest.raises(DataError, match=r"column i appears 2 times"):
        rows_from_table(table().rename_columns(["c", "i", "t", "i"]), Schema.of(Row))


class Inner(NamedTuple):
    x: int
    y: str | None


class Nested(NamedTuple):
    r: Inner
    o: Inner | None
    l: list[int]  # noqa: E741
    d: list[Inner | None] | None


def test_nested() -> None:
    """Structs by field name, nulls inside told with the way to them, slices and chunks too."""
    rows = [
        {"r": {"x": 1, "y": None, "z": 0}, "o": None, "l": [], "d": None},
        {"r": {"x": 1, "y": "a", "z": 0}, "o": {"x": 1, "y": "b"}, "l": [1, 2], "d": [None]},
        {"r": {"x": None, "y": "a", "z": 0}, "o": None, "l": [1], "d": []},
        {"r": None, "o": None, "l": [1], "d": []},
        {"r": {"x": 1, "y": "a", "z": 0}, "o": None, "l": [1, None], "d": []},
        {
            "r": {"x": 1, "y": "a", "z": 0},
            "o": {"x": None, "y": "b"},
            "l": None,
            "d": [{"x": 2, "y": ""}],
        },
        {"r": {"x": 2, "y": "a", "z": 0}, "o": None, "l": [3], "d": [{"x": 2, "y": ""}]},
    ]
    source = pa.concat_tables([pa.Table.from_pylist(rows), pa.Table.from_pylist(rows)]).slice(1, 12)
    part = rows_from_table(source, Schema.of(Nested), 1)
    part.table.validate(full=True)
    assert part.table.schema == Schema.of(Nested).arrow
    assert part.positions.tolist() == [1, 6, 7, 8]
    assert part.table.to_pylist()[3] == {
        "r": {"x": 1, "y": "a"},
        "o": {"x": 1, "y": "b"},
        "l": [1, 2],
        "d": [None],
    }
    assert [b.reason for b in part.bad[:4]] == [
        "r .x is null",
        "r is null",
        "l holds an item that is null",
        "o .x is null",
    ]


def test_empty_table() -> None:
    """No rows, no chunks: the record's columns all the same."""
    part = rows_from_table(table().slice(0, 0), Schema.of(Row))
    assert part.table.schema == Schema.of(Row).arrow
    none = pa.schema(
        [("c", pa.large_string()), ("i", pa.int8()), ("t", pa.date32()), ("f", pa.null())]
    )
    assert rows_from_table(none.empty_table(), Schema.of(Row)).table.num_rows == 0


def test_parquet(tmp_path: Path) -> None:
    """Row groups in order, row numbers from 0, columns by name, nulls told, Category encoded."""
    path = tmp_path / "a.parquet"
    source = table(i=pa.array([1, None], pa.int32()), extra=["", ""])
    pq.write_table(pa.concat_tables([source] * 5), path, row_group_size=3)
    parts = list(read_file(LOCAL, str(path), Schema.of(Row), PARQUET, batch_rows=2))
    assert [int(at) for p in parts for at in p.positions] == [0, 2, 4, 6, 8]
    assert [b.position for p in parts for b in p.bad] == [1, 3, 5, 7, 9]
    assert parts[0].extra_columns == ("extra",)
    assert pa.types.is_dictionary(parts[0].table.schema.field("c").type)
    assert inspect_file(LOCAL, str(path), Schema.of(Row), PARQUET).extra_columns == ("extra",)


def test_parquet_problems(tmp_path: Path) -> None:
    """Not Parquet, cut off, another type: the file is named."""
    path = tmp_path / "a.parquet"
    pq.write_table(table(i=["1", "2"]), path)
    with pytest.raises(DataError, match=r"a.parquet: column i is string, but Row.i is int"):
        list(read_file(LOCAL, str(path), Schema.of(Row), PARQUET))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"a.parquet: not Parquet, or damaged"):
        list(read_file(LOCAL, str(path), Schema.of(Row), PARQUET))
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a.parquet: not Parquet, or damaged"):
        inspect_file(LOCAL, str(path), Schema.of(Row), PARQUET)
