"""Files as a whole, format by format: what is accepted, what is bad, what is an error and how it is told."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
import pytest
from pyarrow import fs as pafs
from pyarrow import parquet as pq

import thalweg.flow.records as tw
from thalweg.connectors.readers import (
    Parsed,
    ReadOptions,
    inspect_file,
    read_file,
)
from thalweg.connectors.readers.streams import read_bytes
from thalweg.errors import BuildError, DataError
from thalweg.flow.records import Schema

LOCAL = pafs.LocalFileSystem()
CSV = ReadOptions(format="csv")
JSON = ReadOptions(format="json")
TEXT = ReadOptions(format="text")


class Pair(NamedTuple):
    a: int
    b: str


class Line(NamedTuple):
    line: str


class Bytes(NamedTuple):
    line: bytes
    number: int


class Point(NamedTuple):
    at: tw.Timestamp
    x: float


class Track(NamedTuple):
    name: str
    points: list[Point]


def read(path: Path, record: type, options: ReadOptions, **more: Any) -> list[Parsed]:
    return list(read_file(LOCAL, str(path), Schema.of(record), options, **more))


def good(parts: list[Parsed]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for part in parts for row in part.table.to_pylist()]


def bad(parts: list[Parsed]) -> list[tuple[int, str]]:
    return [(one.position, one.reason) for part in parts for one in part.bad]


# -- csv -----------------------------------------------------------------------------------------------


def test_csv_lines_are_physical(tmp_path: Path) -> None:
    """Quoted line ends, empty lines, a byte order mark: positions stay those of an editor."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfb,a\r\n"x\r\ny",1\r\n\r\n"z""q",2\r\nw,3')
    parts = read(path, Pair, CSV)
    assert good(parts) == [(1, "x\r\ny"), (2, 'z"q'), (3, "w")]
    assert [int(at) for part in parts for at in part.positions] == [2, 5, 6]


def test_csv_bad_rows_name_column_type_and_value(tmp_path: Path) -> None:
    """Each bad row has its line and a reason; the rows around it are read."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n1,x\n,y\n2\n3,x,y\n4,\xff\n5,"q\n6,q"r"\n7,ok\n0x1F,z\n')
    parts = read(path, Pair, CSV)
    assert good(parts) == [(1, "x"), (7, "ok")]
    assert bad(parts) == [
        (
            3,
            "a: expected int, got '' (not an integer; an empty cell is None where the field is int | None)",
        ),
        (4, "1 cell, expected 2"),
        (5, "3 cells, expected 2"),
        (6, "b: expected str, got '\ufffd' (not UTF-8; convert it to UTF-8)"),
        (7, "text after a closing quote"),
        (8, "a quote inside a cell that does not start with one"),
        (10, "a: expected int, got '0x1F' (not an integer)"),
    ]


def test_csv_open_quote_swallows_nothing(tmp_path: Path) -> None:
    """A quote that is never closed costs its own line only."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n1,"x\n2,y\n3,z\n')
    parts = read(path, Pair, CSV)
    assert good(parts) == [(2, "y"), (3, "z")]
    assert bad(parts) == [(2, "a quote is opened and never closed")]


def test_csv_nulls_are_for_optional_fields(tmp_path: Path) -> None:
    """``null_values`` mean null where the field is Optional, and are ordinary text elsewhere."""

    class Flight(NamedTuple):
        delay: int | None
        gate: str | None
        carrier: str

    path = tmp_path / "a.csv"
    path.write_text("delay,gate,carrier\nNA,NA,NA\n5,,\n")
    options = ReadOptions(format="csv", null_values=("NA",))
    assert good(read(path, Flight, options)) == [(None, None, "NA"), (5, "", "")]
    path.write_text("delay,gate,carrier\n,,\n")
    assert good(read(path, Flight, CSV)) == [(None, None, "")]


def test_csv_without_header_goes_by_position(tmp_path: Path) -> None:
    """``header=False``: the record's order; another delimiter; no quoting."""
    path = tmp_path / "a.csv"
    path.write_text('1;"x\n2;y\n')
    options = ReadOptions(format="csv", header=False, delimiter=";", quote=None)
    assert good(read(path, Pair, options)) == [(1, '"x'), (2, "y")]


def test_csv_times(tmp_path: Path) -> None:
    """With or without a zone, also mixed; own patterns; epoch integers only when asked for."""

    class Timed(NamedTuple):
        t: tw.Timestamp

    def times(text: str, options: ReadOptions) -> list[int]:
        path = tmp_path / "t.csv"
        path.write_text("t\n" + text)
        return [
            t for p in read(path, Timed, options) for t in p.table["t"].cast("int64").to_pylist()
        ]

    assert times("1970-01-01\n1970-01-01T01:00:00+01:00\n1970-01-01 00:00:00.000001\n", CSV) == [
        0,
        0,
        1,
    ]
    assert times("0\n1\n", CSV) == []
    assert times("2\n-1\n", ReadOptions(format="csv", epoch_unit="ms")) == [2000, -1000]
    assert times("9300000000000\n", ReadOptions(format="csv", epoch_unit="s")) == []
    patterns = ReadOptions(format="csv", timestamp_formats=("%d/%m/%Y", "%d/%m/%Y %H:%M:%S %z"))
    assert times("02/01/1970\n01/01/1970 00:00:01 +0000\nx\n", patterns) == [
        86_400_000_000,
        1_000_000,
    ]


@pytest.mark.parametrize("rows", [0, 3])
def test_csv_header_problems(tmp_path: Path, rows: int) -> None:
    """A column that stands there twice is an error; one the record lacks may."""
    path = tmp_path / "a.csv"
    path.write_text("a,b,b\n" + "1,x,y\n" * rows)
    with pytest.raises(DataError, match=r"a.csv: column b appears 2 times"):
        read(path, Pair, CSV)
    path.write_text("a,c,c,b\n" + "1,x,y,z\n" * rows)
    assert good(read(path, Pair, CSV)) == [(1, "z")] * rows
    assert inspect_file(LOCAL, str(path), Schema.of(Pair), CSV).extra_columns == ("c", "c")


def test_csv_cannot_hold_lists(tmp_path: Path) -> None:
    """Told with the field and its type."""

    class Tagged(NamedTuple):
        tags: list[str]

    path = tmp_path / "a.csv"
    path.write_text("tags\n")
    with pytest.raises(DataError, match=r"CSV cannot hold tags: list\[str\]"):
        read(path, Tagged, CSV)


def test_one_odd_row_does_not_slow_the_block(tmp_path: Path) -> None:
    """Only the piece around an odd row is read cell by cell, with the same positions."""
    path = tmp_path / "a.csv"
    lines = [f"{n},x" for n in range(30_000)]
    lines[20_000] = "oops,x"
    path.write_text("a,b\n" + "\n".join(lines))
    parts = read(path, Pair, CSV)
    assert bad(parts) == [(20_002, "a: expected int, got 'oops' (not an integer)")]
    found = [
        (int(at), row[0]) for p in parts for at, row in zip(p.positions, good([p]), strict=True)
    ]
    assert found == [(n + 2, n) for n in range(30_000) if n != 20_000]


# -- json ----------------------------------------------------------------------------------------------


def test_json_nested(tmp_path: Path) -> None:
    """Lists and records, with times inside; the reason leads to the place."""

    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"name":"n","points":[{"at":"1970-01-01T00:00:01Z","x":1}]}\n'
        '{"name":"n","points":[{"at":"1970-01-01","x":"1"}]}\n'
        '{"name":"n","points":[null]}\n'
    )
    parts = read(path, Track, JSON)
    assert parts[0].table["points"].combine_chunks().flatten().field("at").cast(
        "int64"
    ).to_pylist() == [1_000_000]
    reasons = [reason for _, reason in bad(parts)]
    assert reasons[0].endswith(
        "(item 0: expected Point, got {'at': '1970-01-01', 'x': '1'} (x: expected float, got '1'))"
    )
    assert "item 0" in reasons[1]


def test_json_deep_nesting_is_a_bad_row(tmp_path: Path) -> None:
    """No stack overflows, here or in pyarrow."""
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"a":1,"b":"x","c":' + "[" * 100_000 + "]" * 100_000 + "}\n" + '{"a":2,"b":"y"}'
    )
    parts = read(path, Pair, JSON)
    assert good(parts) == [(2, "y")]
    assert bad(parts) == [(1, "not JSON: nested too deep")]


def test_json_epoch(tmp_path: Path) -> None:
    """Integers are Timestamps when their unit is given, and bad when not."""

    class Timed(NamedTuple):
        t: tw.Timestamp

    path = tmp_path / "a.jsonl"
    path.write_text('{"t": 1}\n{"t": 1e3}\n{"t": "1970-01-01"}\n')
    parts = read(path, Timed, ReadOptions(format="json", epoch_unit="s"))
    assert [t for p in parts for t in p.table["t"].cast("int64").to_pylist()] == [10**6, 10**9]
    assert [at for at, _ in bad(parts)] == [3]
    assert [at for at, _ in bad(read(path, Timed, JSON))] == [1, 2]


# -- text, compression, size ---------------------------------------------------------------------------


def test_text_fields(tmp_path: Path) -> None:
    """The line, its number and path; bytes take every encoding; other fields are an error."""

    class Full(NamedTuple):
        number: int
        path: str
        line: str

    class Wrong(NamedTuple):
        line: str
        user: int

    path = tmp_path / "a.log"
    path.write_bytes(b"x\r\n\n\xff\n")
    parts = read(path, Full, TEXT)
    assert good(parts) == [(1, str(path), "x"), (2, str(path), "")]
    assert bad(parts) == [(3, "not UTF-8; convert it to UTF-8")]
    assert good(read(path, Bytes, TEXT)) == [(b"x", 1), (b"", 2), (b"\xff", 3)]
    with pytest.raises(DataError, match=r"not user: int"):
        read(path, Wrong, TEXT)


def _zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize(
    ("end", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", _zstd)]
)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.log"])
def test_compressed(
    tmp_path: Path, name: str, end: str, compress: Callable[[bytes], bytes]
) -> None:
    """A whole file is read; a cut, an empty or a foreign one is an error that names it."""
    body = {"a.csv": "a,b\n1,x\n", "a.jsonl": '{"a":1,"b":"x"}\n', "a.log": "hello\n"}[name]
    options = {"a.csv": CSV, "a.jsonl": JSON, "a.log": TEXT}[name]
    record: type = Line if name == "a.log" else Pair
    whole = compress(body.encode())
    path = tmp_path / (name + end)
    path.write_bytes(whole)
    assert len(good(read(path, record, options))) == 1
    for broken in (whole[:-3], b"", b"hello, world"):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=f"{name}{end}"):
            read(path, record, options)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    """A missing file is an error, one without bytes has no rows (but Parquet needs its footer)."""
    for options in (CSV, JSON, ReadOptions(format="parquet")):
        with pytest.raises(DataError, match=r"gone.*there is no such file"):
            read(tmp_path / "gone", Pair, options)
    path = tmp_path / "empty"
    path.touch()
    assert read(path, Pair, CSV) == read(path, Pair, JSON) == read(path, Line, TEXT) == []
    with pytest.raises(DataError, match=r"empty: not Parquet"):
        read(path, Pair, ReadOptions(format="parquet"))


def test_too_long_rows(tmp_path: Path) -> None:
    """A row beyond the limit is bad, is not held in memory, and numbering goes on after it."""
    long = "x" * 5_000
    bodies = {
        CSV: f"a,b\n1,{long}\n2,y\n",
        JSON: json.dumps({"a": 1, "b": long}) + '\n{"a":2,"b":"y"}\n',
        TEXT: f"{long}\ny\n",
    }
    path = tmp_path / "a"
    for options, body in bodies.items():
        path.write_text(body)
        with small_limits():
            parts = read(path, Line if options is TEXT else Pair, options)
        first = 2 if options is CSV else 1
        assert bad(parts) == [(first, "longer than 1000 bytes")]
        assert [int(at) for p in parts for at in p.positions] == [first + 1]


def test_csv_open_quote_in_a_large_file(tmp_path: Path) -> None:
    """It is given up at the longest row allowed, and what it hid is read."""
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"x\n' + "".join(f"{n},y\n" for n in range(1000)))
    with small_limits():
        parts = read(path, Pair, CSV)
    assert bad(parts) == [(2, "a quote is opened and never closed")]
    assert [int(at) for p in parts for at in p.positions] == list(range(3, 1003))


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """Rows of 1000 bytes at most, read 100 bytes at a time."""
    modules = ("streams", "csv_rows", "json_lines", "text_lines")
    with contextlib.ExitStack() as stack:
        for name in modules:
            stack.enter_context(
                mock.patch(f"thalweg.connectors.readers.{name}.MAX_ROW_BYTES", 1000)
            )
        for name in ("streams", "csv_files"):
            stack.enter_context(mock.patch(f"thalweg.connectors.readers.{name}.BLOCK_BYTES", 100))
        stack.enter_context(mock.patch.object(read_bytes, "__defaults__", (100,)))
        yield


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_batch_rows(tmp_path: Path, rows: int) -> None:
    """No part is larger than asked; bad rows come with the part they lie in."""
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{n if n % 5 else 'x'},y\n" for n in range(50)))
    parts = read(path, Pair, CSV, batch_rows=rows)
    assert max(part.table.num_rows for part in parts) <= rows
    order = [sorted([*p.positions.tolist(), *(one.position for one in p.bad)]) for p in parts]
    assert [at for part in order for at in part] == list(range(2, 52))
    with pytest.raises(BuildError, match="batch_rows"):
        read(path, Pair, CSV, batch_rows=0)


def test_old_parquet_times_of_every_year(tmp_path: Path) -> None:
    """INT96 times, which Spark wrote by default for years, are read exactly also where nanoseconds end."""

    class At(NamedTuple):
        ts: tw.Timestamp

    times = [-62_135_596_800_000_000, 253_402_300_799_999_999, 0]
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC"))})
    path = tmp_path / "old.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    (part,) = read(path, At, ReadOptions(format="parquet"))
    assert part.table.column("ts").cast(pa.int64()).to_pylist() == times


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            b"1,x\n2,y\n",
            r"column a missing \(found 1, x\).*; if the first row is no header, set header=False",
        ),
        (b"a;b\n1;x\n", r"column a missing \(found a;b\); [^;]* needs it; set delimiter=';'"),
        (b"a\tb\n1\tx\n", r"column a missing .*; set delimiter='\\t'"),
        (b"a, b\n1, x\n", r"column b missing \(found  b\).*; names={'b': ' b'} on the source"),
        (b"A,b\n1,x\n", r"column a missing \(found A\).*; names={'a': 'A'} on the source"),
        (b"a,b,a\n1,x,2\n", "column a appears 2 times"),
        (b"a,b,\xe9\n1,x,2\n", "line 1: the header is not UTF-8; convert the file to it"),
        (b"a,b\r1,x\r", "line 1: the header: a CR without LF"),
    ],
)
def test_csv_headers_of_every_day(body: bytes, said: str, tmp_path: Path) -> None:
    """A header that does not fit is told with what to do about it."""
    path = tmp_path / "a.csv"
    path.write_bytes(body)
    with pytest.raises(DataError, match=said):
        read(path, Pair, CSV)


@pytest.mark.parametrize(
    ("format", "body", "rows", "problems"),
    [
        ("csv", b"\xef\xbb\xbfa,b\r\n1,x\r\n", [(1, "x")], []),
        ("csv", b'"a","b"\n1,"x\r\ny"\n', [(1, "x\r\ny")], []),
        ("csv", b"a,b,\n1,x,\n", [(1, "x")], []),
        ("csv", b"a,b\n1,x,\n", [], ["3 cells, expected 2"]),
        ("csv", b"a,b\n1,\xe9\n2,y\n", [(2, "y")], ["not UTF-8; convert it to UTF-8"]),
        (
            "csv",
            b"a,b\n,x\n",
            [],
            ["not an integer; an empty cell is None where the field is int | None"],
        ),
        ("csv", b'a,b\n"1,000",x\n', [], ["not an integer"]),
        ("json", b'\xef\xbb\xbf{"a":1,"b":"x"}\r\n', [(1, "x")], []),
        ("json", b'[{"a":1,"b":"x"},\n', [], ["each line must be one whole object"]),
        ("json", b'{\n"a":1}\n', [], ["each line must be one whole object", "not JSON"]),
    ],
)
def test_files_of_every_day(
    format: Any, body: bytes, rows: list[Any], problems: list[str], tmp_path: Path
) -> None:
    """Marks, line ends, quotes, other encodings and layouts: each exactly, or told row by row."""
    path = tmp_path / "a"
    path.write_bytes(body)
    parts = read(path, Pair, ReadOptions(format=format))
    assert good(parts) == rows
    found = [reason for _, reason in bad(parts)]
    assert len(found) == len(problems)
    assert all(said in reason for said, reason in zip(problems, found, strict=True))
