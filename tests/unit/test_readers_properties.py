"""The fast way and the slow way of each format read the same, whatever stands in the file."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pyarrow import fs as pafs
from tests.sizes import sized

import thalweg.flow.records as tw
from thalweg.connectors.readers import ReadOptions, csv_files, json_lines, read_file
from thalweg.connectors.readers.streams import read_bytes
from thalweg.flow.records import Schema

LOCAL = pafs.LocalFileSystem()


class Row(NamedTuple):
    i: int
    oi: int | None
    f: float
    of: float | None
    b: bool
    ob: bool | None
    s: str
    os: str | None
    y: bytes
    t: tw.Timestamp
    ot: tw.Timestamp | None
    c: tw.Category


NAMES = Row._fields


class Inner(NamedTuple):
    x: int
    y: str | None


class Nested(NamedTuple):
    i: int
    f: float
    s: str
    oi: int | None
    t: tw.Timestamp
    tags: list[str]
    ol: list[int | None] | None
    r: Inner
    orr: Inner | None


def outcome(body: bytes, record: type, options: ReadOptions) -> tuple[list[Any], list[Any]]:
    """All rows with positions, and all bad rows, of a file with that content."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        parts = list(read_file(LOCAL, file.name, Schema.of(record), options))
    good = []
    for part in parts:
        # Times as integers: Python has no date for all of them.
        table = part.table.cast(
            Schema.of(record).arrow.empty_table().schema
        )  # Category may be encoded
        columns = [
            (c.cast("int64") if str(c.type).startswith("timestamp") else c).to_pylist()
            for c in table.columns
        ]
        for at, values in zip(part.positions.tolist(), zip(*columns, strict=True), strict=True):
            good.append((at, *map(_comparable, values)))
    return good, [one for part in parts for one in part.bad]


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (math.copysign(1, value), value)
    return value


def words(text: str) -> list[str]:
    return text.split("|")


INT_CELLS = words(
    "1|-5|+5| 12|12\t|007|-0|0x1F|0X2|1e3|60.5|1_0||-|9223372036854775807|"
    "9223372036854775808|-9223372036854775808|NA|1,000|00000000000000000000000000007|--1|"
    "+-1|1 2|\u0663|\xa01|\x0b1|0"
)
FLOAT_CELLS = words(
    "1|1.5|.5|5.|+5|1e3|1E+3|1e400|1e-400|nan|NaN|-nan|inf|-inf|INF|Infinity|+infinity|"
    "infinit|nan(1)|0x1p3|1e|.|1.e5|e5|1d|1_0| 1.5 ||NA|-.5e-2|+nan|0.1|1,5|"
    "123456789.123456789|9007199254740992|9007199254740993|-9007199254740993|9007199254740993.0|"
    "9007199254740994|1e16|10000000000000001|4611686018427387904|9223372036854775808|1e999|1e+0999|-1e309|"
    "1.7976931348623157e308|1.8e308|00009007199254740993|0.12345678901234567890|6.02214076e23"
)
BOOL_CELLS = words("true|false|True|FALSE|1|0|tRue| true|yes|t||NA|TRUE")
TIME_CELLS = words(
    "2026-01-31|2026-01-31T12:00:00Z|2026-01-31 12:00|2026-01-31T12|2020-02-30|"
    "0001-01-01T00:00:00+01:00|0000-01-01|9999-12-31T23:59:59.999999Z|2020-1-1|"
    "9999-12-31T23:59:59-02:00|2020-01-01T00:00:00.1234567|2020-01-01T00:00:00.1|"
    "2020-01-01Z|2020-01-01T24:00|2020-01-01T00:00:60|1577836800|20200101||"
    "2020-01-01T00:00:00.123456000|2020-01-01T00:00:00.123456789Z|2020-01-01T00:00:00.1234560000|"
    "1600-01-01T00:00:00.123456000|1600-01-01T00:00:00.1234567|2020-01-01T00:00:00.0000001+02:00|"
    "1969-12-31T23:59:59.9999999|0001-01-01T00:00:00.0000001|-5|1577836800000|1577836800.5|"
    "2020-01-01T00:00+0530|2020-01-01T00-05|2020-01-01T00:00:00+24:00|NA"
)
TEXT_CELLS = words("|x| |null|NA|a b|\xe4|\U0001f600|\ufeff|\x00|0x|(|a'b")

ISO_PIECES = st.lists(
    st.sampled_from(words("2020|0001|-|01|12|T| |:|59|.|5|123456|Z|+|02")),
    max_size=14,
).map("".join)


def cells(known: list[str], alphabet: str) -> st.SearchStrategy[str]:
    return st.sampled_from(known) | st.text(alphabet, max_size=8)


KNOWN = {
    "i": cells(INT_CELLS, "0123456789+- \tx"),
    "f": cells(FLOAT_CELLS, "0123456789+-.einfa("),
    "b": st.sampled_from(BOOL_CELLS),
    "s": st.sampled_from(TEXT_CELLS) | st.text(max_size=5),
    "t": st.sampled_from(TIME_CELLS) | ISO_PIECES,
}
KIND_OF = dict(zip(NAMES, "iiffbbsssTTs".lower(), strict=True))
PLAIN = {"i": "7", "f": "0.5", "b": "true", "s": "abc", "t": "2026-01-31T12:00:00"}


def encode(cell: str, *, quote: bool) -> bytes:
    raw = cell.encode("utf-8", "surrogatepass")
    if quote or any(c in cell for c in ',"\r\n'):
        return b'"' + raw.replace(b'"', b'""') + b'"'
    return raw


@st.composite
def csv_bodies(draw: st.DrawFn) -> bytes:
    """Mostly good rows with some odd cells; sometimes odd bytes anywhere."""
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    lines = [",".join(NAMES).encode()]
    for _ in range(draw(st.integers(0, 6))):
        odd = draw(st.sets(st.sampled_from(NAMES), max_size=2))
        row = []
        for name in NAMES:
            cell = draw(KNOWN[KIND_OF[name]]) if name in odd else PLAIN[KIND_OF[name]]
            row.append(encode(cell, quote=draw(st.integers(0, 9)) == 0))
        lines.append(b",".join(row))
        if draw(st.integers(0, 5)) == 0:
            lines.append(
                draw(
                    st.sampled_from([b"", b" ", b"1,2", b'"', b'a"b', b'""', b",", b"\r", b"\xff"])
                )
            )
    body = end.join(lines) + (end if draw(st.booleans()) else b"")
    if len(lines) > 1 and draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(len(lines[0]) + len(end), len(body)))
        junk = draw(
            st.sampled_from([b'"', b"\n", b"\r", b"\xff", b",", b"\x00", b'""', b'"\n', b" "])
        )
        body = body[:at] + junk + body[at:]
    return body


NULLS = [("",), ("NA",), ("", "NA"), (), ("0", "x")]


@pytest.fixture(autouse=True)
def small_blocks() -> Iterator[None]:
    """Blocks so small that rows lie across them."""
    with (
        mock.patch("thalweg.connectors.readers.streams.BLOCK_BYTES", 300),
        mock.patch("thalweg.connectors.readers.csv_files.BLOCK_BYTES", 300),
        mock.patch("thalweg.connectors.readers.csv_files.PIECE_BYTES", 100),
        mock.patch("thalweg.connectors.readers.json_lines.PIECE_BYTES", 100),
        mock.patch.object(read_bytes, "__defaults__", (300,)),
    ):
        yield


@given(
    csv_bodies(),
    st.sampled_from(NULLS),
    st.sampled_from(['"', None]),
    st.sampled_from([None, "s", "ns"]),
    st.sampled_from(["reject", "truncate"]),
)
@settings(max_examples=sized(250), deadline=None)
def test_csv_ways_agree(
    body: bytes, nulls: tuple[str, ...], quote: Any, unit: Any, nanoseconds: Any
) -> None:
    """Same rows, positions and bad rows with and without the fast way, however blocks are cut."""
    options = ReadOptions(
        format="csv", null_values=nulls, quote=quote, epoch_unit=unit, nanoseconds=nanoseconds
    )
    if unit:
        body = body.replace(PLAIN["t"].encode(), b"1700000001" if len(body) % 2 else b"1700000000")
    fast = outcome(body, Row, options)
    with mock.patch.object(csv_files, "scan", return_value=None):
        assert fast == outcome(body, Row, options)


@pytest.mark.parametrize("name", NAMES)
def test_csv_each_odd_cell(name: str) -> None:
    """Every odd cell, alone in a file of good ones, so that the fast way gets as far as it can."""
    options = [ReadOptions(format="csv"), ReadOptions(format="csv", nanoseconds="truncate")]
    known = {"i": INT_CELLS, "f": FLOAT_CELLS, "b": BOOL_CELLS, "s": TEXT_CELLS, "t": TIME_CELLS}
    for cell in known[KIND_OF[name]]:
        row = [encode(cell if n == name else PLAIN[KIND_OF[n]], quote=False) for n in NAMES]
        body = ",".join(NAMES).encode() + b"\n" + b",".join(row) + b"\n"
        for one in options:
            fast = outcome(body, Row, one)
            with mock.patch.object(csv_files, "scan", return_value=None):
                assert fast == outcome(body, Row, one), cell


class One(NamedTuple):
    s: str | None


@given(
    st.lists(
        st.sampled_from([b"", b"x", b'""', b'"a\nb"', b" ", b'"', b'"x""y"', b"\r"]), max_size=8
    )
)
@settings(max_examples=sized(150), deadline=None)
def test_csv_one_column(lines: list[bytes]) -> None:
    """An empty line is no row, a quoted empty cell is one."""
    body = b"s\n" + b"\n".join(lines)
    options = ReadOptions(format="csv")
    fast = outcome(body, One, options)
    with mock.patch.object(csv_files, "scan", return_value=None):
        assert fast == outcome(body, One, options)


class Times(NamedTuple):
    t: tw.Timestamp | None


@given(st.lists(KNOWN["t"].filter(lambda one: "\n" not in one), max_size=3))
@settings(max_examples=sized(300), deadline=None)
def test_csv_times(texts: list[str]) -> None:
    """The times that pyarrow reads are those that the documented language has."""
    body = b"t\n" + "\n".join(texts).encode()
    options = ReadOptions(format="csv", nanoseconds="truncate" if len(body) % 2 else "reject")
    fast = outcome(body, Times, options)
    with mock.patch.object(csv_files, "scan", return_value=None):
        assert fast == outcome(body, Times, options)


JSON_VALUES = words(
    "1|-0|1.0|1e3|60.5|9007199254740993|9223372036854775808|1e400|01|true|null|NaN|"
    'Infinity|-Infinity|Inf|-NaN|-Inf|""|"a"|"\\ud800"|"\\ud83d\\ude00"|"\\u0000"|"\t"|'
    '"2026-01-31"|"2026-01-31T12:00:00+02:00"|[]|{}|[1]|["a"]|["a",null]|[1,null]|{"x":1}|'
    '{"x":1,"y":"b"}|{"x":"1"}|1.|.5|{"x":1,"x":2}|1 |[[1]]|1e-999999|'
    "1e999999999999999999999|+1|0x10|9007199254740992|-9007199254740993|1e16|6.02e23|1e999|-1e309|"
    '"2026-01-31T12:00:00.123456789"|"2026-01-31T12:00:00.123456000"|[9007199254740993]|"1.5"|1700000000.5'
)
JSON_VALUES.append("9" * 120)
GOOD_JSON = dict(
    zip(
        Nested._fields,
        [
            "7",
            "0.5",
            '"abc"',
            "null",
            '"2026-01-31"',
            '["a"]',
            "[1,null]",
            '{"x":1,"y":null}',
            "null",
        ],
        strict=True,
    )
)
JSON_LINES = [
    b"",
    b"  ",
    b"[1]",
    b"null",
    b'{"i":1} x',
    b'{"i":1}{"i":2}',
    b"{",
    b"}",
    b'{"a":',
    b"\xff",
    b"\r",
    b"{}",
]


@st.composite
def json_bodies(draw: st.DrawFn) -> bytes:
    lines = []
    for _ in range(draw(st.integers(0, 6))):
        values = dict(GOOD_JSON)
        for name in draw(st.sets(st.sampled_from(Nested._fields), max_size=2)):
            values[name] = draw(st.sampled_from(JSON_VALUES))
        for name in draw(st.sets(st.sampled_from(Nested._fields), max_size=1)):
            if draw(st.integers(0, 3)) == 0:
                del values[name]
        pairs = [f'"{name}":{value}' for name, value in values.items()]
        if draw(st.integers(0, 3)) == 0:
            name = draw(st.sampled_from([*Nested._fields, "extra"]))
            pairs.append(f'"{name}": {draw(st.sampled_from(JSON_VALUES))}')
        line = "{" + ",".join(draw(st.permutations(pairs))) + "}"
        lines.append(line.encode())
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(st.sampled_from(JSON_LINES)))
    body = draw(st.sampled_from([b"\n", b"\r\n"])).join(lines)
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(body)))
        body = (
            body[:at]
            + draw(st.sampled_from([b"\n", b'"', b"\xff", b"}", b"\x00", b" ", b"\\"]))
            + body[at:]
        )
    return body + draw(st.sampled_from([b"", b"\n"]))


class Flat(NamedTuple):
    i: int
    f: float
    s: str
    oi: int | None
    tags: list[str]
    ol: list[int | None] | None
    r: Inner
    orr: Inner | None


@given(json_bodies(), st.sampled_from([Nested, Flat, Inner]), st.sampled_from([None, "ms", "ns"]))
@settings(max_examples=sized(250), deadline=None)
def test_json_ways_agree(body: bytes, record: type, unit: Any) -> None:
    """Same rows, positions and bad rows with and without the fast way, however blocks are cut."""
    options = ReadOptions(format="json", epoch_unit=unit)
    fast = outcome(body, record, options)
    with mock.patch.object(json_lines, "fast", return_value=None):
        assert fast == outcome(body, record, options)


@pytest.mark.parametrize("name", Nested._fields)
def test_json_each_odd_value(name: str) -> None:
    """Every odd value, alone in a file of good ones, so that the fast way gets as far as it can."""
    for value in JSON_VALUES:
        pairs = [f'"{n}":{value if n == name else one}' for n, one in GOOD_JSON.items()]
        body = ("{" + ",".join(pairs) + "}").encode()
        fast = outcome(body, Nested, ReadOptions(format="json"))
        with mock.patch.object(json_lines, "fast", return_value=None):
            assert fast == outcome(body, Nested, ReadOptions(format="json")), value


class Line(NamedTuple):
    line: str
    number: int
    path: str


@given(
    st.lists(
        st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xff", "ä".encode(), b"\x00", b" "]),
        max_size=30,
    )
)
@settings(max_examples=sized(150), deadline=None)
def test_text_is_every_line(pieces: list[bytes]) -> None:
    """Each line is a row or a bad row, at its number, without LF or CR LF."""
    body = b"".join(pieces)
    good, bad = outcome(body, Line, ReadOptions(format="text"))
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    lines = [line.removesuffix(b"\r") for line in lines]
    found: dict[int, bytes | None] = {at: line.encode() for at, line, *_ in good}
    found |= {one.position: None for one in bad}
    assert [found[n] if found[n] is not None else b"\xff" for n in sorted(found)] == [
        b"\xff" if b"\xff" in line else line for line in lines
    ]
    assert sorted(found) == list(range(1, len(lines) + 1))
