"""Chunks as lines of JSON or CSV that the readers read back: times in UTC with microseconds, nulls written.

JSON has NaN and infinities as Python's ``json`` writes them, since our readers and others take them. In CSV a null is
an empty cell and an empty text two quotes, which our reader takes for null in an Optional field. Neither can hold
bytes, nor CSV lists and records.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from thalweg.columns.chunks import Chunk, Column
from thalweg.errors import DataError, SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.time_texts import FIRST, LAST

LineFormat = Literal["json", "csv"]
FileFormat = Literal["parquet", "csv", "json"]
Encoder = Callable[[Chunk], bytes]

_NESTED: Final = (Kind.LIST, Kind.RECORD)


def encoder(format: LineFormat, schema: Schema, where: str) -> Encoder:
    """The function from chunks of the record to lines.

    Raises:
        SchemaError: as :func:`check_fields`.
    """
    check_fields(format, schema, where)
    return _json_encoder(schema) if format == "json" else _csv_lines


def check_fields(format: FileFormat, schema: Schema, where: str) -> None:
    """Refuses a record that files or lines of the format cannot hold.

    Raises:
        SchemaError: starts with ``where``.
    """
    if not schema.fields:
        raise SchemaError(f"{where}: {schema.name} has no fields, so there is nothing to write")
    refused = {"json": (Kind.BYTES,), "csv": (Kind.BYTES, *_NESTED)}.get(format, ())
    for field in schema.fields:
        if any(kind in refused for kind in _kinds(field.type)):
            raise SchemaError(
                f"{where}: {format.upper()} cannot hold {field.name}: {field.type}; use Parquet"
            )


def _kinds(kind: FieldType) -> list[Kind]:
    """The type's kind and those inside it."""
    inner = [kind.item] if kind.item is not None else []
    inner += [field.type for field in kind.record.fields] if kind.record is not None else []
    return [kind.kind, *(one for part in inner for one in _kinds(part))]


def as_named(column: pa.ChunkedArray, kind: FieldType) -> Any:
    """A column whose values name a folder or are keys of messages: days, durations and Decimals as their texts."""
    shape = kind.shape
    if shape is None:
        return column
    words = Column.from_arrow(kind, column).to_python()
    return pa.chunked_array(
        [[None if one is None else shape.text(one) for one in words]], pa.string()
    )


# -- times ---------------------------------------------------------------------------------------------


def _time_texts(column: Column) -> list[Any]:
    """Timestamps as ISO 8601, None where they are null.

    Raises:
        DataError: one is outside the years that such text can name.
    """
    times = column.values
    if len(times) and not FIRST <= int(times.min()) <= int(times.max()) <= LAST:
        odd = times[(times < FIRST) | (times > LAST)][0]
        raise DataError(
            f"the Timestamp {odd} is outside the years 1 to 9999, which are all that text can name; use Parquet"
        )
    texts = np.datetime_as_string(times.view("datetime64[us]"), timezone="UTC").tolist()
    if column.valid is None:
        return list(texts)
    return [one if ok else None for one, ok in zip(texts, column.valid.tolist(), strict=True)]


# -- JSON ----------------------------------------------------------------------------------------------


def _json_encoder(schema: Schema) -> Encoder:
    plains = [plainer(field.type) for field in schema.fields]
    nested = [field.type for field in schema.fields if field.type.kind in _NESTED]
    floats_inside = any(kind is Kind.FLOAT for one in nested for kind in _kinds(one))
    any_json = floats_inside or any(has_json(field.type) for field in schema.fields)

    def encode(chunk: Chunk) -> bytes:
        pairs = zip(chunk.columns, plains, strict=True)
        columns = [plain_values(column, plain) for column, plain in pairs]
        names = schema.names
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        if any_json or not _all_finite(chunk):
            return b"".join(_dump_any(row) for row in rows)
        return b"".join([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows])

    return encode


def has_json(kind: FieldType) -> bool:
    """Whether a type is JSON, or holds some."""
    inner = [kind.item] if kind.item is not None else []
    inner += [field.type for field in kind.record.fields] if kind.record is not None else []
    return (kind.shape is not None and kind.shape.name == "json") or any(map(has_json, inner))


def _dump_any(row: dict[str, Any]) -> bytes:
    """As orjson, which has null for NaN."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _all_finite(chunk: Chunk) -> bool:
    floats = (column.values for column in chunk.columns if column.type.kind is Kind.FLOAT)
    return all(bool(np.isfinite(values).all()) for values in floats)


def plain_values(column: Column, plain: Callable[[Any], Any] | None) -> Sequence[Any]:
    if column.type.kind is Kind.TIMESTAMP:
        return _time_texts(column)
    values = column.to_python()
    return values if plain is None else [plain(value) for value in values]


def plainer(kind: FieldType) -> Callable[[Any], Any] | None:
    """The function from a nested value to what JSON writes, with times as text; None where it stays as it is."""
    if kind.kind is Kind.TIMESTAMP:
        return _time_text
    if kind.shape is not None:
        text = json.loads if kind.shape.name == "json" else kind.shape.text
        return lambda value: None if value is None else text(value)
    if kind.kind is Kind.LIST and kind.item is not None:
        item = plainer(kind.item)
        if item is None:
            return None
        return lambda value: None if value is None else [item(one) for one in value]
    if kind.kind is Kind.RECORD and kind.record is not None:
        parts = [(field.name, plainer(field.type)) for field in kind.record.fields]

        def plain(value: Any) -> Any:
            if value is None:
                return None
            pairs = zip(value, parts, strict=True)
            return {name: one if to is None else to(one) for one, (name, to) in pairs}

        return plain
    return None


def _time_text(time: int | None) -> str | None:
    if time is None:
        return None
    column = Column(FieldType(Kind.TIMESTAMP), np.array([time], np.int64))
    return str(_time_texts(column)[0])


# -- CSV -----------------------------------------------------------------------------------------------


def csv_header(schema: Schema) -> bytes:
    """The line that names the columns."""
    return ",".join(f'"{name}"' for name in schema.names).encode() + b"\n"


def _csv_lines(chunk: Chunk) -> bytes:
    arrays = [_csv_cells(column) for column in chunk.columns]
    if len(arrays) == 1:
        arrays = [_never_empty(arrays[0])]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(chunk.schema.names))
    out = io.BytesIO()
    pacsv.write_csv(batch, out, pacsv.WriteOptions(include_header=False, quoting_style="needed"))
    return out.getvalue()


def _csv_cells(column: Column) -> pa.Array:
    if column.type.kind is Kind.TIMESTAMP:
        return pa.array(_time_texts(column), pa.string())
    shape = column.type.shape
    if shape is not None:
        texts = [None if one is None else shape.text(one) for one in column.to_python()]
        return pa.array(texts, pa.string())
    return column.to_arrow()


def _never_empty(cells: pa.Array) -> pa.Array:
    """The only column, with two quotes for a null: an empty line would be no row."""
    return cells.cast(pa.string()).fill_null("") if cells.null_count else cells
