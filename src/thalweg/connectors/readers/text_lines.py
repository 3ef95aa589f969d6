"""Text: every line a row, as it is, without its line end (LF or CR LF).

The record has the line as ``str`` (or ``bytes``, then of any encoding) and, if it likes, the file's path
and the line's number.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyarrow import fs as pafs

from thalweg.connectors.readers.options import ReadOptions
from thalweg.connectors.readers.parsed import Int64s, Parsed, bad_row
from thalweg.connectors.readers.steady import Look
from thalweg.connectors.readers.streams import MAX_ROW_BYTES, Lines, is_utf8, no_row, read_lines
from thalweg.errors import DataError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Schema


def read_text(
    fs: pafs.FileSystem,
    path: str,
    schema: Schema,
    options: ReadOptions,
    listed: Look | None = None,
) -> Iterator[Parsed]:
    """The parts of a text file; see :func:`thalweg.connectors.readers.read_file`."""
    raw = check_fields(path, schema, options)
    for lines in read_lines(fs, path, listed=listed, growing=options.growing, text=not raw):
        if not lines.is_row:
            yield no_row(lines, schema, MAX_ROW_BYTES)
        else:
            yield parse_text(lines, path, schema, options, raw=raw)


def check_fields(where: str, schema: Schema, options: ReadOptions) -> bool:
    """Whether the record takes lines as bytes.

    Raises:
        DataError: the record has other fields than those that a line of text can fill.
    """
    takes = {
        options.line_field: (Kind.STR, Kind.BYTES),
        options.path_field: (Kind.STR, Kind.CATEGORY),
        options.number_field: (Kind.INT,),
    }
    if options.line_field not in schema.names:
        raise DataError(f"{where}: {schema} has no field {options.line_field}: str for the line")
    for field in schema.fields:
        if field.type.kind not in takes.get(field.name, ()):
            raise DataError(
                f"{where}: {schema}: text fills {options.line_field}: str, {options.path_field}: str"
                f" and {options.number_field}: int, not {field.name}: {field.type}"
            )
    return schema.field(options.line_field).type.kind is Kind.BYTES


def parse_text(
    lines: Lines, path: str, schema: Schema, options: ReadOptions, *, raw: bool
) -> Parsed:
    """A block of lines as rows; ``raw`` is what :func:`check_fields` gave."""
    texts = split_lines(lines)
    numbers = np.arange(lines.first, lines.first + len(texts))
    bad = []
    if not raw and not is_utf8(lines.data):
        good = np.ones(len(texts), np.bool_)
        for row, text in enumerate(texts.to_pylist()):
            if not is_utf8(text):
                good[row] = False
                bad.append(bad_row(int(numbers[row]), "not UTF-8; convert it to UTF-8", text))
        texts, numbers = texts.filter(pa.array(good)), numbers[good]
    part = _part(texts if raw else texts.view(pa.string()), numbers, path, schema, options)
    part.bad.extend(bad)
    return part


def _part(
    texts: pa.Array, numbers: Int64s, path: str, schema: Schema, options: ReadOptions
) -> Parsed:
    columns = {
        options.line_field: lambda: texts,
        options.path_field: lambda: pa.repeat(pa.scalar(path), len(texts)),
        options.number_field: lambda: pa.array(numbers),
    }
    table = pa.Table.from_arrays(
        [columns[field.name]().cast(field.type) for field in schema.arrow], schema=schema.arrow
    )
    return Parsed(table, numbers)


def split_lines(lines: Lines) -> pa.Array:
    """The lines without their ends, as a binary array."""
    data = np.frombuffer(lines.data, np.uint8)
    ends = lines.ends
    drop = np.zeros(len(data), np.bool_)
    drop[ends] = True
    before = data[ends - 1] == 13
    before &= ends > 0
    drop[ends[before] - 1] = True
    # Each end drops one byte, or two where a CR stands before the LF.
    dropped = np.cumsum(1 + before)
    offsets = np.concatenate([np.zeros(1, np.int64), ends + 1 - dropped]).astype(np.int32)
    kept = pa.py_buffer(data[~drop].tobytes())
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), kept])
