"""Arrow tables in the binary format of COPY: a row is the number of its fields, then each one's length and bytes.

The pieces of all rows are made by column and joined by Arrow, so that no row passes through Python, but for lists and
records, which are JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.chunks import Column
from thalweg.connectors.postgres.words import binary_words
from thalweg.connectors.written.encode import plainer
from thalweg.errors import DataError
from thalweg.flow.fields.field_types import INT_MIN, FieldType, Kind
from thalweg.flow.records import Schema

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

#: Microseconds from 1970 to 2000, where PostgreSQL's times begin.
_EPOCH_US: Final = 946_684_800_000_000
#: Bytes of rows that are joined at once.
_PART_BYTES: Final = 1 << 24
_NULL: Final = b"\xff\xff\xff\xff"
#: The version in front of a jsonb value.
_JSONB: Final = b"\x01"


class NoJson(ValueError):
    """A value of a list or record that JSON does not have; ``row`` is its row."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def copy_parts(record: Schema, table: pa.Table) -> Iterator[bytes]:
    """The rows as COPY takes them, in parts.

    Raises:
        NoJson: a list or record has NaN or an infinity.
    """
    yield HEADER
    rows = max(1, int(_PART_BYTES * table.num_rows / max(table.nbytes, 1)))
    for start in range(0, table.num_rows, rows):
        yield _rows(record, table.slice(start, rows), start)
    yield TRAILER


def _rows(record: Schema, table: pa.Table, start: int) -> bytes:
    many = pa.scalar(len(record.fields).to_bytes(2, "big"), pa.large_binary())
    pieces: list[Any] = [many]
    for field in record.fields:
        pieces += _pieces(field.type, _whole(table.column(field.name)), start)
    joined = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))
    return _content(joined)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _content(array: Any) -> bytes:
    """All values of an array of binaries, one after the other."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)
    first, last = ends[array.offset], ends[array.offset + len(array)]
    return bytes(memoryview(data)[first:last])


def _pieces(kind: FieldType, array: pa.Array, start: int) -> list[Any]:
    if kind.shape is not None and kind.shape.name == "json":
        return _with_lengths(_versioned(array.cast(pa.large_string()).cast(pa.large_binary())))
    if kind.kind in (Kind.STR, Kind.CATEGORY, Kind.BYTES):
        is_bytes = kind.kind is Kind.BYTES
        return _with_lengths(array.cast(pa.large_binary() if is_bytes else pa.large_string()))
    column = Column.from_arrow(kind, array)
    if kind.kind in (Kind.LIST, Kind.RECORD):
        return _with_lengths(_json(column, start))
    return [_fixed(column)]


def _versioned(texts: Any) -> Any:
    empty, version = (pa.scalar(one, pa.large_binary()) for one in (b"", _JSONB))
    return pc.binary_join_element_wise(version, texts, empty)


def _with_lengths(array: Any) -> list[Any]:
    """Two pieces: the length in front, and the bytes."""
    array = array.cast(pa.large_binary())
    lengths = pc.binary_length(array).fill_null(-1).to_numpy(zero_copy_only=False)
    return [_binaries(lengths.astype(">i4"), 4), array.fill_null(b"")]


def _fixed(column: Column) -> Any:
    """One piece: the length, and a value of always so many bytes."""
    kind, shape = column.type.kind, column.type.shape
    values = np.asarray(column.values)
    if kind is Kind.TIMESTAMP:
        # What is below -infinity is as far out as anything that PostgreSQL refuses.
        low = values < INT_MIN + _EPOCH_US
        values = np.where(low, INT_MIN + 1, np.where(low, 0, values) - _EPOCH_US)
    if shape is not None and kind is not Kind.TIMESTAMP:
        words = binary_words(shape, values)
    else:
        form = {Kind.FLOAT: ">f8", Kind.BOOL: "u1"}.get(kind, ">i8")
        words = np.empty(len(values), [("length", ">i4"), ("value", form)])
        words["length"] = words.dtype["value"].itemsize
        words["value"] = values
    array = _binaries(words, words.dtype.itemsize)
    if column.valid is None or column.valid.all():
        return array
    return pc.if_else(pa.array(column.valid), array, pa.scalar(_NULL, pa.large_binary()))


def _binaries(words: Any, width: int) -> Any:
    """An array of binaries of one width."""
    ends = np.arange(len(words) + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(words).view(np.uint8))]
    return pa.Array.from_buffers(pa.large_binary(), len(words), buffers)


def _json(column: Column, start: int) -> Any:
    plain = plainer(column.type)
    out: list[bytes | None] = []
    for row, value in enumerate(column.to_python(), start):
        if value is None:
            out.append(None)
            continue
        try:
            given = value if plain is None else plain(value)
            out.append(_JSONB + json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
        except (ValueError, DataError) as error:
            raise NoJson(row, str(error)) from None
    return pa.array(out, pa.large_binary())
