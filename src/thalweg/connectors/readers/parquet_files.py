"""Parquet by column names, row group after row group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as pafs

from thalweg.connectors.readers.options import ReadOptions
from thalweg.connectors.readers.packed import HEAD_BYTES, check_text, codec_in
from thalweg.connectors.readers.parsed import Parsed
from thalweg.connectors.readers.steady import Look, steady
from thalweg.connectors.readers.streams import told
from thalweg.connectors.readers.tables import check_types, fit_table
from thalweg.errors import DataError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Schema

_NOT_PARQUET: Final = "not Parquet, or damaged"


def read_schema(fs: pafs.FileSystem, path: str) -> pa.Schema:
    """The Arrow schema of the file.

    Raises:
        DataError: it is not Parquet, or cut off.
    """
    with told(path, _NOT_PARQUET), fs.open_input_file(path) as source:
        _check_head(path, source)
        return pq.read_schema(source)


def _check_head(path: str, source: pa.NativeFile) -> None:
    head = source.read(HEAD_BYTES)
    codec = codec_in(path, head, text=False)
    if codec:
        raise DataError(
            f"{path}: the file is compressed by {codec}; Parquet is compressed inside: unpack it"
        )
    if head[:4] not in (b"PAR1", b"PARE"):
        check_text(path, head)


def read_parquet(
    fs: pafs.FileSystem,
    path: str,
    schema: Schema,
    options: ReadOptions,
    listed: Look | None,
    batch_rows: int,
) -> Iterator[Parsed]:
    """The parts of a Parquet file; see :func:`thalweg.connectors.readers.read_file`."""
    with told(path), steady(fs, path, listed):
        yield from _parts(fs, path, schema, options, batch_rows)


def _parts(
    fs: pafs.FileSystem, path: str, schema: Schema, options: ReadOptions, batch_rows: int
) -> Iterator[Parsed]:
    row = 0
    with told(path, _NOT_PARQUET), fs.open_input_file(path) as source:
        _check_head(path, source)
        file = _opened(source)
        found = file.schema_arrow
        places = check_types(found, schema, path)
        extra = tuple(name for name in found.names if name not in schema.columns)
        encoded = [
            field.name
            for field, place in zip(schema.fields, places, strict=True)
            if field.type.kind is Kind.CATEGORY and pa.types.is_string(found.field(place).type)
        ]
        if encoded:
            file = _opened(source, read_dictionary=encoded, metadata=file.metadata)
        batches = file.iter_batches(batch_rows, columns=list(schema.columns), use_threads=False)
        for batch in batches:
            table = pa.Table.from_batches([batch])
            part = fit_table(table, schema, path, row, options)
            row += batch.num_rows
            yield Parsed(part.table, part.positions, part.bad, extra)


def _opened(source: pa.NativeFile, **options: Any) -> pq.ParquetFile:
    # Older writers' INT96 times hold every year; as nanoseconds only those from 1677 to 2262 would fit.
    return pq.ParquetFile(source, buffer_size=1 << 20, coerce_int96_timestamp_unit="us", **options)
