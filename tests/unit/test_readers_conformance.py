"""One rule for all readers: what fits a field, exactly, and what is refused, and with which words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from field_cases import CASES, NOTHING, Case, Float, Refused
from io_kit import source_node

import thalweg as tw
from thalweg.connectors import as_source, never
from thalweg.connectors.fitting import part_chunk
from thalweg.connectors.readers import LineCutter, LineParser, read_options
from thalweg.connectors.readers.streams import Lines, newlines
from thalweg.errors import DataError, SchemaError
from thalweg.flow.operators.nodes import Source
from thalweg.spark.reading.inputs import InputOptions
from thalweg.spark.reading.received import source_chunks
from thalweg.testing.reference import run_reference

#: The forms in which a value of a case comes.
PYTHON, CELL, JSON, ARROW = "value", "cell", "json", "arrow"


class Reader(NamedTuple):
    form: str
    #: A source, a value, options, a folder; the chunks and rows that do not fit.
    read: Callable[[Source, Any, dict[str, Any], Path], Iterator[Any]]
    takes_options: bool = True


def given(make: Callable[[Any], Any]) -> Callable[..., Iterator[Any]]:
    def read(source: Source, value: Any, options: dict[str, Any], folder: Path) -> Iterator[Any]:
        return as_source("in", make(value)).rows(source, 100, never())

    return read


def pushed(value: Any) -> Any:
    source = tw.push_source()
    source.push((value,))
    source.close()
    return source


def written(folder: Path, form: str, value: Any) -> Path:
    path = folder / {CELL: "x.csv", JSON: "x.jsonl", ARROW: "x.parquet"}[form]
    if form == ARROW:
        pq.write_table(pa.table({"x": value}), path)
    else:
        path.write_text(f"x,y\n{value},\n" if form == CELL else f'{{"x": {value}}}\n')
    return path


def local(form: str) -> Callable[..., Iterator[Any]]:
    def read(source: Source, value: Any, options: dict[str, Any], folder: Path) -> Iterator[Any]:
        return tw.files(written(folder, form, value), **options).rows(source, 100, never())

    return read


def on_spark(form: str) -> Callable[..., Iterator[Any]]:
    """What a task of the Spark host does with a file."""

    def read(source: Source, value: Any, options: dict[str, Any], folder: Path) -> Iterator[Any]:
        path = written(folder, form, value)
        made = read_options("files", {CELL: "csv", JSON: "json", ARROW: "parquet"}[form], options)
        paths = pa.table({"path": [str(path)], "mtime": [0], "length": [path.stat().st_size]})
        return source_chunks(source, InputOptions(made), [paths], 100)

    return read


def spark_frame(source: Source, value: Any, options: dict[str, Any], _: Path) -> Iterator[Any]:
    return source_chunks(source, InputOptions(None), [pa.table({"x": value})], 100)


def lines(form: str) -> Callable[..., Iterator[Any]]:
    """What comes on a connection."""

    def read(source: Source, value: Any, options: dict[str, Any], _: Path) -> Iterator[Any]:
        made = read_options("tcp", "csv" if form == CELL else "json", options)
        parser = LineParser(source.record, made, "peer", 1 << 20)
        text = f"x,y\n{value},\n" if form == CELL else f'{{"x": {value}}}\n'
        data = text.encode()
        for part in parser.parse(Lines(data, newlines(data), 1)):
            yield part_chunk(source, part)

    return read


READERS = {
    "list": Reader(PYTHON, given(lambda value: [(value,)])),
    "mapping": Reader(PYTHON, given(lambda value: [{"x": value, "y": 0}])),
    "iterator": Reader(PYTHON, given(lambda value: iter([(value,)]))),
    "push": Reader(PYTHON, given(pushed)),
    "csv": Reader(CELL, local(CELL)),
    "csv on spark": Reader(CELL, on_spark(CELL)),
    "csv lines": Reader(CELL, lines(CELL)),
    "json": Reader(JSON, local(JSON)),
    "json on spark": Reader(JSON, on_spark(JSON)),
    "json lines": Reader(JSON, lines(JSON)),
    "parquet": Reader(ARROW, local(ARROW)),
    "parquet on spark": Reader(ARROW, on_spark(ARROW)),
    "table": Reader(ARROW, given(lambda value: pa.table({"x": value})), takes_options=False),
    "frame": Reader(ARROW, spark_frame, takes_options=False),
}


def outcome(reader: Reader, case: Case, value: Any, folder: Path) -> Any:
    """The value that came out, or why it did not fit."""
    source = source_node(case.record, errors="reject", **case.reading)
    try:
        fed = list(reader.read(source, value, dict(case.options), folder))
    except (DataError, SchemaError) as error:
        return Refused(str(error))
    rows = [row for chunk, _ in fed for row in chunk.rows()]
    bad = [reason for _, rejected in fed for reason, _, _ in rejected]
    assert len(rows) + len(bad) == 1
    return rows[0].x if rows else Refused(bad[0])


def check(found: Any, expected: Any, what: str) -> None:
    if isinstance(expected, Refused):
        assert isinstance(found, Refused) and re.search(expected.said, found.said), (what, found)
        return
    assert (type(found), found) == (type(expected), expected) or (
        isinstance(expected, tuple) and found == expected
    ), what


def in_parquet(array: Any) -> bool:
    """Whether Parquet can hold the type, and gives it back."""
    return not isinstance(array.type, (pa.ListViewType, pa.FixedSizeListType))


@pytest.mark.parametrize("reader", READERS)
def test_what_fits_a_field(reader: str, tmp_path: Path) -> None:
    """Each value, in each form in which this reader can be given it: exactly itself, or refused in the same words."""
    one = READERS[reader]
    checked = 0
    for name, case in CASES.items():
        if case.options and not one.takes_options:
            continue
        values = getattr(case, one.form)
        for value in values if one.form == ARROW else [values]:
            if value is NOTHING or (value is None and one.form != PYTHON):
                continue
            if reader.startswith("parquet") and not in_parquet(value):
                continue
            check(outcome(one, case, value, tmp_path), case.expected, f"{reader}: {name}: {value}")
            checked += 1
    assert checked > 20


def test_the_reference_has_the_same_rule() -> None:
    """Rows of the serial reference fit, or are refused, as a list's do."""
    for name, case in CASES.items():
        if case.value is NOTHING or case.options:
            continue
        flow = tw.Flow("test")
        source = flow.source("in", case.record, errors="reject", **case.reading)
        source.sink("out")
        source.rejected.sink("bad")
        sinks = run_reference(flow, {"in": [(case.value,)]}).sinks
        bad = [Refused(row.reason) for row in sinks["bad"]]
        check([*(row.x for row in sinks["out"]), *bad][0], case.expected, name)


def test_lines_cut_anywhere_have_the_same_values() -> None:
    """A piece of a connection's bytes is no row: what is told of a value does not follow the cuts."""
    data = (json.dumps({"x": 2**53 + 1}) + "\n" + json.dumps({"x": 1}) + "\n").encode()
    source = source_node(Float, errors="reject")
    for size in (1, 5, 100):
        cutter = LineCutter(1000)
        parser = LineParser(source.record, read_options("tcp", "json", {}), "peer", 1000)
        found = [
            part_chunk(source, part)
            for start in range(0, len(data), size)
            for block in cutter.cut(data[start : start + size])
            for part in parser.parse(block)
        ]
        assert [row.x for chunk, _ in found for row in chunk.rows()] == [1.0]
        assert len([bad for _, rejected in found for bad in rejected]) == 1
