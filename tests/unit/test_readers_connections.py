"""Lines of a connection: the same rows however the bytes were cut on their way, and nothing held back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg.flow.records as tw
from thalweg.connectors.readers import LineCutter, LineParser, ReadOptions
from thalweg.errors import DataError
from thalweg.flow.records import Schema


class Pair(NamedTuple):
    a: int
    b: str


class Line(NamedTuple):
    line: str
    number: int
    path: str


class Track(NamedTuple):
    places: list[int]


CSV = ReadOptions(format="csv", header=False)
LIMIT = 20


def cut_at(data: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[start:stop] for start, stop in itertools.pairwise(ends)]


def read(
    pieces: Sequence[bytes], record: type, options: ReadOptions, limit: int = LIMIT
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """Good rows with their line numbers in front, and bad ones."""
    cutter = LineCutter(limit)
    parser = LineParser(Schema.of(record), options, "here", limit)
    good: list[tuple[Any, ...]] = []
    bad: list[tuple[int, str]] = []
    for piece in pieces:
        for lines in cutter.cut(piece):
            for part in parser.parse(lines):
                rows = zip(part.positions.tolist(), part.table.to_pylist(), strict=True)
                good += [(at, *row.values()) for at, row in rows]
                bad += [(one.position, one.reason) for one in part.bad]
    return good, bad


def test_one_line_is_one_record() -> None:
    """A quote left open makes its line bad, and the next line is read as if nothing had been."""
    data = b'1,x\n2,"y\n3,z\n4,"a""b"\n\n5,"q\r\n6,"w"\r\n'
    good, bad = read([data], Pair, CSV)
    assert good == [(1, 1, "x"), (3, 3, "z"), (4, 4, 'a"b'), (7, 6, "w")]
    assert bad == [
        (2, "a quote is opened and never closed"),
        (6, "a quote is opened and never closed"),
    ]


LINES = st.lists(
    st.sampled_from(
        [b"1,x", b'2,"y', b'3,"z"', b"", b"4", b'5,"a""b"', b"x,y", b'6,"', b"7," + b"v" * LIMIT]
    ),
    max_size=12,
)


@given(LINES, st.lists(st.integers(0, 200)), st.sampled_from([b"\n", b"\r\n"]))
def test_cuts_do_not_show(lines: list[bytes], places: list[int], end: bytes) -> None:
    """CSV: the same rows, bad rows and numbers for all ways in which the bytes may come."""
    data = b"".join(line + end for line in lines)
    one_by_one = [line + end for line in lines]
    assert read(cut_at(data, places), Pair, CSV) == read(one_by_one, Pair, CSV)


@given(LINES, st.lists(st.integers(0, 200)))
def test_cutter_gives_all_lines(lines: list[bytes], places: list[int]) -> None:
    """Every line comes once, in order, with its number; a line over the limit as its beginning, marked."""
    data = b"".join(line + b"\n" for line in lines)
    cutter = LineCutter(LIMIT)
    found = {}
    for piece in cut_at(data, places):
        for block in cutter.cut(piece):
            texts = block.data.split(b"\n")[:-1]
            assert len(texts) == len(block.ends)
            assert [int(e) for e in block.ends] == [i for i, c in enumerate(block.data) if c == 10]
            for number, text in enumerate(texts, block.first):
                assert number not in found
                found[number] = (text, block.too_long)
    assert sorted(found) == list(range(1, len(lines) + 1))
    for number, line in enumerate(lines, 1):
        text, long = found[number]
        assert long == (len(line) > LIMIT)
        assert line.startswith(text) if long else line == text
    assert cutter.end() == b""
    assert cutter.line == len(lines) + 1


def test_rest_of_a_connection() -> None:
    """What stands behind the last newline is handed out once, has a number, and is not glued to what follows."""
    cutter = LineCutter(LIMIT)
    assert cutter.cut(b"a\nb") != []
    assert cutter.line == 2
    assert cutter.end() == b"b"
    [block] = cutter.cut(b"c\n")
    assert (block.first, block.data) == (3, b"c\n")


def test_a_long_line_ends_with_its_connection() -> None:
    """The skipping of a line that is too long does not reach into the next connection."""
    cutter = LineCutter(LIMIT)
    assert [block.too_long for block in cutter.cut(b"x" * 30)] == [True]
    assert cutter.cut(b"yyy") == []
    assert cutter.end() == b""
    assert [block.data for block in cutter.cut(b"a\n")] == [b"a\n"]


def test_header() -> None:
    """With header=True the first line that is not empty names the columns, in any order."""
    options = ReadOptions(format="csv")
    pieces = [b"\n", b"b,c,a\nx,9,1\n", b"y,9,2\n"]
    assert read(pieces, Pair, options)[0] == [(3, 1, "x"), (4, 2, "y")]
    with pytest.raises(DataError, match="here: column a missing"):
        read([b"b,c\n"], Pair, options)


def test_json_and_text() -> None:
    """The other formats read lines as they do in files."""
    good, bad = read([b'{"a": 1, "b": "x"}\n{"a"\n'], Pair, ReadOptions(format="json"))
    assert good == [(1, 1, "x")]
    assert [position for position, _ in bad] == [2]
    good, bad = read([b"one\n\xff\n", b"x" * 30 + b"\n"], Line, ReadOptions(format="text"))
    assert good == [(1, "one", 1, "here")]
    assert bad == [(2, "not UTF-8; convert it to UTF-8"), (3, "longer than 20 bytes")]


def test_formats_that_do_not_fit() -> None:
    """What a format cannot hold is refused before a line comes."""
    with pytest.raises(DataError, match="CSV cannot hold places"):
        read([], Track, CSV)
    with pytest.raises(DataError, match="has no field line"):
        read([], Pair, ReadOptions(format="text"))


def test_no_quote_at_all() -> None:
    """With quote=None a quote is a character like others."""

    class Word(NamedTuple):
        b: tw.Category

    options = ReadOptions(format="csv", header=False, quote=None)
    assert read([b'a"\n"b\n'], Word, options) == ([(1, 'a"'), (2, '"b')], [])
