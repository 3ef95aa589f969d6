"""CSV as PostgreSQL writes it as rows of a record; a null is nothing, an empty text two quotes."""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from thalweg.connectors.once import shown_row
from thalweg.connectors.postgres.words import word_reader
from thalweg.connectors.readers import BadRow, Parsed, rows_from_table
from thalweg.connectors.readers.cells import column
from thalweg.connectors.readers.json_lines import value_parser
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Field, Schema
from thalweg.time_texts import Unfit

#: Reasons by row, of the rows that do not fit.
_Wrong: TypeAlias = dict[int, str]
_CSV: Final = pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
#: Characters of a text that a message shows.
_SHOWN: Final = 60


def parsed(text: bytes, record: Schema, first: int) -> tuple[int, Parsed]:
    """How many rows there are, and those that fit; positions count from ``first``."""
    texts = _cells(text, record.fields)
    table, wrong = _read(texts, record.fields)
    rows = table.num_rows
    if not wrong:
        return rows, rows_from_table(table, record, first)
    good = np.ones(rows, np.bool_)
    good[list(wrong)] = False
    places = first + np.flatnonzero(good)
    part = rows_from_table(table.filter(pa.array(good)), record)
    bad = [dataclasses.replace(one, position=int(places[one.position])) for one in part.bad]
    bad += [
        BadRow(first + row, reason, shown_row(texts, row), "row") for row, reason in wrong.items()
    ]
    bad.sort(key=lambda one: one.position)
    return rows, Parsed(part.table, places[part.positions], bad, part.extra_columns)


def _cells(text: bytes, fields: Sequence[Field]) -> pa.Table:
    names = [one.name for one in fields]
    convert = pacsv.ConvertOptions(
        column_types={one.name: _cell_type(one.type) for one in fields},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["t"],
        false_values=["f"],
    )
    read = pacsv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False)
    return pacsv.read_csv(io.BytesIO(text), read, _CSV, convert)


def _read(table: pa.Table, fields: Sequence[Field]) -> tuple[pa.Table, _Wrong]:
    """The cells that are texts yet as their fields have them."""
    wrong: _Wrong = {}
    for place, field in enumerate(fields):
        made = _MADE.get(field.type.kind)
        if _is_shaped(field.type):
            made = _words
        if made is not None:
            read = made(field, table.column(place).to_pylist(), wrong)
            table = table.set_column(place, field.name, read)
    return table, wrong


def _is_shaped(kind: FieldType) -> bool:
    return kind.shape is not None and kind.kind is not Kind.TIMESTAMP


def _cell_type(kind: FieldType) -> pa.DataType:
    if _is_shaped(kind):
        return pa.string()
    if kind.kind in (Kind.INT, Kind.TIMER, Kind.TIMESTAMP):
        return pa.int64()
    return {Kind.FLOAT: pa.float64(), Kind.BOOL: pa.bool_()}.get(kind.kind, pa.string())


def _bytes(field: Field, texts: list[str | None], wrong: _Wrong) -> pa.Array:
    return pa.array([None if one is None else bytes.fromhex(one) for one in texts], pa.binary())


def _words(field: Field, texts: list[str | None], wrong: _Wrong) -> pa.Array:
    shape = field.type.shape
    assert shape is not None
    words = _each(field, texts, functools.cache(word_reader(shape)), wrong)
    return column(words, field.type)


def _json(field: Field, texts: list[str | None], wrong: _Wrong) -> pa.Array:
    kind = dataclasses.replace(field.type, optional=True)
    if not _holds_shapes(kind):
        try:
            return pa.array(
                [None if one is None else orjson.loads(one) for one in texts], kind.arrow
            )
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass  # times as text, or rows that do not fit
    parse = value_parser(kind)
    return column(_each(field, texts, lambda text: parse(text.encode()), wrong), kind)


def _holds_shapes(kind: FieldType) -> bool:
    """Whether a type has values inside that users see as Python's own types: Arrow takes ints for days."""
    inner = [kind.item] if kind.item is not None else []
    inner += [field.type for field in kind.record.fields] if kind.record is not None else []
    return kind.shape is not None or any(map(_holds_shapes, inner))


def _each(
    field: Field, texts: list[str | None], read: Callable[[str], Any], wrong: _Wrong
) -> list[Any]:
    """The values of texts; None for those that do not fit, whose rows are noted."""
    out: list[Any] = []
    for row, text in enumerate(texts):
        try:
            out.append(None if text is None else read(text))
        except (Unfit, TypeError, ValueError, OverflowError) as error:
            wrong.setdefault(row, f"{field.name}={text!r:.{_SHOWN}} is no {field.type}: {error}")
            out.append(None)
    return out


_MADE: Final[dict[Kind, Callable[[Field, list[Any], _Wrong], pa.Array]]] = {
    Kind.BYTES: _bytes,
    Kind.LIST: _json,
    Kind.RECORD: _json,
}
