"""Reading one file of any format, and looking at one."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Final

from pyarrow import fs as pafs

from thalweg.brief import brief_repr
from thalweg.connectors.readers.csv_files import layout, read_csv, read_header
from thalweg.connectors.readers.json_lines import read_json
from thalweg.connectors.readers.options import ReadOptions
from thalweg.connectors.readers.parquet_files import read_parquet, read_schema
from thalweg.connectors.readers.parsed import Parsed, cut
from thalweg.connectors.readers.partitions import Folders, missed
from thalweg.connectors.readers.steady import Look
from thalweg.connectors.readers.streams import compression
from thalweg.connectors.readers.tables import check_types
from thalweg.connectors.readers.text_lines import check_fields, read_text
from thalweg.errors import BuildError, DataError
from thalweg.flow.records import Schema

_LOG: Final = logging.getLogger("thalweg")


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class FileReport:
    """What a look at a file shows: its columns (none for JSON lines and text) and its compression."""

    path: str
    columns: tuple[str, ...]
    #: Columns that the record does not have and that are not read.
    extra_columns: tuple[str, ...]
    compression: str | None


def read_file(
    fs: pafs.FileSystem,
    path: str,
    schema: Schema,
    options: ReadOptions,
    *,
    listed: Look | None = None,
    batch_rows: int = 65_536,
) -> Iterator[Parsed]:
    """The file's rows in file order, at most ``batch_rows`` good ones at a time.

    A row that does not fit the record is in ``Parsed.bad`` with its position and a reason; whether that
    is an error is up to the caller. Only a part of the file is held in memory. What gzip, bzip2, zstd or xz
    have compressed, by its name or its first bytes, is decompressed and must be complete. A file of no bytes has
    no rows. The file must stay what it is until its end is read, and what it was when it was ``listed``; a text file
    may grow with ``growing=True``.

    Raises:
        DataError: the file as a whole cannot be read, changes, or does not fit: names the file and the column.
    """
    if batch_rows < 1:
        raise BuildError(f"batch_rows is at least 1, not {batch_rows}")
    options = options.of_source(schema)
    if options.partitions:
        folders = Folders.of(path, schema)
        parts = _whole_file(fs, path, folders.inside, options, listed, batch_rows)
        yield from map(folders.added, parts)
        return
    try:
        yield from _whole_file(fs, path, schema, options, listed, batch_rows)
    except DataError as error:
        hint = missed(path, schema, str(error))
        if not hint:
            raise
        raise DataError(f"{error}{hint}") from error


def _whole_file(
    fs: pafs.FileSystem,
    path: str,
    schema: Schema,
    options: ReadOptions,
    listed: Look | None,
    batch_rows: int,
) -> Iterator[Parsed]:
    if options.format == "parquet":
        parts = read_parquet(fs, path, schema, options, listed, batch_rows)
    else:
        read = {"csv": read_csv, "json": read_json, "text": read_text}[options.format]
        parts = read(fs, path, schema, options, listed)
    empty = True
    for part in parts:
        empty = False
        yield from cut(part, batch_rows)
    if empty and options.format == "csv" and fs.get_file_info(path).size == 0:
        _LOG.warning("%s: no rows: the file is empty, it has not even a header", path)


def inspect_file(
    fs: pafs.FileSystem, path: str, schema: Schema, options: ReadOptions
) -> FileReport:
    """Checks that the file's columns fit the record, without reading its rows.

    Raises:
        DataError: as :func:`read_file` for what can be seen from the header.
    """
    names: list[str] = []
    packed = None
    options = options.of_source(schema)
    if options.partitions:
        schema = Folders.of(path, schema).inside
    if options.format == "parquet":
        found = read_schema(fs, path)
        check_types(found, schema, path)
        names = list(found.names)
    elif options.format == "csv":
        names = read_header(fs, path, options) if options.header else list(schema.columns)
        layout(path, names or None, schema, options)
    elif options.format == "text":
        check_fields(path, schema, options)
    if options.format != "parquet":
        packed = compression(fs, path)
    extra = tuple(name for name in names if name not in schema.columns)
    return FileReport(path, tuple(names), extra, packed)
