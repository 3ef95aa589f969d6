"""CSV by column names: pyarrow where its answer is surely ours, cell by cell where it may not be.

What pyarrow reads otherwise than :mod:`thalweg.connectors.readers.cells` says (hexadecimal, ``nan(1)``, nulls in
fields that are not Optional, ...) is looked for before or after, and sends the block the slow way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from pyarrow import fs as pafs

from thalweg.brief import counted
from thalweg.connectors.readers.cells import (
    INTS,
    cell_parser,
    column,
    surely_floats,
    timestamps,
)
from thalweg.connectors.readers.csv_rows import Marks, Row, Scan, scan, split
from thalweg.connectors.readers.options import ReadOptions
from thalweg.connectors.readers.parsed import BadRow, Parsed, bad_row, find_columns, quoted
from thalweg.connectors.readers.shaped import by_unique
from thalweg.connectors.readers.steady import Look
from thalweg.connectors.readers.streams import BLOCK_BYTES, Lines, newlines, no_row, read_bytes
from thalweg.errors import DataError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Field, Schema
from thalweg.time_texts import Unfit

#: How many rows the slow way converts at a time.
SLOW_ROWS: Final = 8192
#: A block with an odd row is cut into pieces of this size, which go the fast way where they can.
PIECE_BYTES: Final = 1 << 15


class Layout(NamedTuple):
    """Which cell of a row is which field, and how it is read."""

    schema: Schema
    options: ReadOptions
    marks: Marks
    #: The number of cells in each row.
    width: int
    #: The place of each field's cell.
    places: list[int]
    parsers: list[Callable[[bytes], Any]]
    extra: tuple[str, ...]


def layout(where: str, header: list[str] | None, schema: Schema, options: ReadOptions) -> Layout:
    """The layout that a header, or its absence, gives.

    Raises:
        DataError: a column is missing or doubled, or a field's type cannot stand in a cell.
    """
    for field in schema.fields:
        if field.type.kind in (Kind.LIST, Kind.RECORD):
            raise DataError(
                f"{where}: CSV cannot hold {field.name}: {field.type}; use JSON or Parquet"
            )
    names = list(schema.columns) if header is None else header
    if delimiter := _other_delimiter(names, schema, options):
        # Before all else: names= would be of no use.
        raise DataError(
            f"{where}: column {schema.columns[0]} missing (found {', '.join(names[:20])}); {schema} needs it"
            f"; set delimiter={delimiter!r}"
        )
    try:
        places = find_columns(where, names, schema)
    except DataError as error:
        raise DataError(f"{error}{_header_hint(names, schema, options)}") from None
    parsers = [cell_parser(field.type, options) for field in schema.fields]
    marks = Marks.of(options.delimiter, options.quote)
    extra = tuple(name for name in names if name not in schema.columns)
    return Layout(schema, options, marks, len(names), places, parsers, extra)


def _other_delimiter(names: list[str], schema: Schema, options: ReadOptions) -> str:
    """By which delimiter the header would have all of the record's names, where it has none now; empty: by none."""
    if not options.header or set(names) & set(schema.columns):
        return ""
    for delimiter in ";\t|,":
        if set(schema.columns) <= {name.strip() for one in names for name in one.split(delimiter)}:
            return delimiter
    return ""


def _header_hint(names: list[str], schema: Schema, options: ReadOptions) -> str:
    """What to do when the header has none of the record's names."""
    if not options.header or set(names) & set(schema.columns):
        return ""
    return "; if the first row is no header, set header=False"


def read_csv(
    fs: pafs.FileSystem,
    path: str,
    schema: Schema,
    options: ReadOptions,
    listed: Look | None = None,
) -> Iterator[Parsed]:
    """The parts of a CSV file; see :func:`thalweg.connectors.readers.read_file`."""
    marks = Marks.of(options.delimiter, options.quote)
    shape = None if options.header else layout(path, None, schema, options)
    rest, line, skipping, unfinished = b"", 1, False, b""
    source = read_bytes(fs, path, BLOCK_BYTES, listed=listed, growing=options.growing)
    for data, final in _with_final(source, growing=options.growing):
        buffer = rest + data if rest else data
        if skipping:  # the rest of a line that is too long
            at = buffer.find(b"\n") + 1
            buffer, line, skipping = buffer[at:] if at else b"", line + (at > 0), not at
        if final:
            at = buffer.rfind(b"\n") + 1
            buffer, unfinished = buffer[:at], buffer[at:]
        if shape is None:
            head = find_header(path, buffer, marks, final=final)
            if head is None:
                rest = buffer
                continue
            names, stop, lines = head
            shape = layout(path, names, schema, options)
            buffer, line = buffer[stop:], line + lines
        stop, lines = 0, 0
        for piece in read_buffer(buffer, line, shape, final=final):
            part, stop, lines = piece
            yield part
        rest, line = buffer[stop:], line + lines
        skipping = skipping or (stop > 0 and buffer[stop - 1] != 10)
    if unfinished and shape is not None:
        yield no_row(Lines(unfinished, newlines(unfinished), line, unfinished=True), schema, 0)


def read_header(fs: pafs.FileSystem, path: str, options: ReadOptions) -> list[str]:
    """The names in the file's first row; none if it is empty."""
    marks, buffer = Marks.of(options.delimiter, options.quote), b""
    for data, final in _with_final(read_bytes(fs, path, BLOCK_BYTES)):
        buffer += data
        head = find_header(path, buffer, marks, final=final)
        if head is not None:
            return head[0]
    return []


def _with_final(pieces: Iterator[bytes], *, growing: bool = False) -> Iterator[tuple[bytes, bool]]:
    """The pieces and whether they are the last; the last one ends with LF, unless the file grows."""
    held: bytes | None = None
    for piece in pieces:
        if held is not None:
            yield held, False
        held = piece
    if held:
        yield held if growing or held.endswith(b"\n") else held + b"\n", True


def find_header(
    path: str, buffer: bytes, marks: Marks, *, final: bool
) -> tuple[list[str], int, int] | None:
    """The names, where the rows begin and how many lines lie before; None: more must be read."""
    lines = 0
    for row in split(buffer, marks, final=final):
        if row.error:
            raise DataError(f"{path} line {lines + 1}: the header: {row.error}")
        lines += row.lines
        if row.cells:
            try:
                return [cell.decode("utf-8") for cell in row.cells], row.stop, lines
            except UnicodeDecodeError:
                raise DataError(
                    f"{path} line {lines}: the header is not UTF-8; convert the file to it"
                ) from None
    return None


def read_buffer(
    data: bytes, line: int, shape: Layout, *, final: bool
) -> Iterator[tuple[Parsed, int, int]]:
    """Parts of the buffer, each with where reading stands after it and how many lines lie before."""
    found = scan(data, shape.marks)
    stop = total = 0
    if found is not None:
        stop, total = found.stop, found.total
        for part in _read_rows(data, found, line, shape):
            yield part, stop, total
        if stop == len(data) or (stop and not final):
            return
    for part, past, lines in slow(data[stop:], line + total, shape, final=final):
        yield part, stop + past, total + lines


def _read_rows(data: bytes, found: Scan, line: int, shape: Layout) -> Iterator[Parsed]:
    """The buffer's whole rows; where something is odd, in pieces, so that few go the slow way."""
    table = _fast(data[: found.stop], found, shape)
    if table is not None:
        yield Parsed(table, found.lines + line, [], shape.extra)
        return
    start = 0
    for stop in found.cuts(PIECE_BYTES):
        piece = data[start:stop]
        inner = scan(piece, shape.marks)
        table = _fast(piece, inner, shape) if inner is not None else None
        if inner is not None and table is not None:
            yield Parsed(table, inner.lines + line, [], shape.extra)
        else:
            for part, _, _ in slow(piece, line, shape, final=True):
                yield part
        start, line = stop, line + piece.count(b"\n")


# -- the fast way --------------------------------------------------------------------------------------


def _fast(data: bytes, found: Scan, shape: Layout) -> pa.Table | None:
    """The rows, all that ``data`` holds, as a table; None when they take the slow way to be sure."""
    if not len(found.lines):
        return shape.schema.arrow.empty_table()
    raw = _arrow_table(data, shape)
    if raw is None or raw.num_rows != len(found.lines):
        return None
    columns = []
    for place, field in zip(shape.places, shape.schema.fields, strict=True):
        array = raw.column(f"c{place}").combine_chunks()
        fitted = _fit(array, field, shape, data)
        if fitted is None:
            return None
        columns.append(fitted)
    return pa.Table.from_arrays(columns, schema=shape.schema.arrow)


def _is_integer(field: Field, shape: Layout) -> bool:
    epoch = shape.options.epoch_unit is not None
    plain = field.type.shape is None
    return (plain and field.type.kind in INTS) or (field.type.kind is Kind.TIMESTAMP and epoch)


def _column_types(data: bytes, shape: Layout) -> dict[str, pa.DataType]:
    """What pyarrow is told to read: times as text, as it wants them all with or all without a zone."""
    # It takes 0x1F for an integer; that cannot be told afterwards.
    integer = pa.string() if _has_pair(data, b"0x") or _has_pair(data, b"0X") else pa.int64()
    types = {}
    for place, field in zip(shape.places, shape.schema.fields, strict=True):
        text = field.type.kind is Kind.TIMESTAMP or field.type.shape is not None
        kind = pa.string() if text else field.type.arrow
        types[f"c{place}"] = integer if _is_integer(field, shape) else kind
    return types


def _has_pair(data: bytes, pair: bytes) -> bool:
    """Whether two bytes stand there side by side; a byte alone, here the rarer one, is found far faster than a pair."""
    return pair[1:] in data and pair in data


def _arrow_table(data: bytes, shape: Layout) -> pa.Table | None:
    options, types = shape.options, _column_types(data, shape)
    try:
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                use_threads=False,
                block_size=len(data) + 1,
                column_names=[f"c{place}" for place in range(shape.width)],
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote or False,
                double_quote=True,
                newlines_in_values=options.quote is not None,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=list(options.null_values),
                true_values=list(options.true_values),
                false_values=list(options.false_values),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OverflowError):
        return None


def _fit(array: pa.Array, field: Field, shape: Layout, data: bytes) -> pa.Array | None:
    """The column as the record has it; None when pyarrow may have read what is not in the language."""
    kind, nulls = field.type, shape.options.null_values
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        if kind.optional and nulls:
            is_null = pc.is_in(array, value_set=pa.array(list(nulls)).cast(array.type))
            array = pc.if_else(is_null, pa.scalar(None, array.type), array)
    elif array.null_count and not kind.optional:
        return None
    if _is_integer(field, shape) and pa.types.is_string(array.type):
        if pc.any(pc.match_substring(array, "0x", ignore_case=True)).as_py():
            return None
        try:
            array = array.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
    if kind.kind is Kind.TIMESTAMP:
        return timestamps(array, shape.options, calendar=kind.shape is not None)
    if kind.shape is not None:
        return by_unique(array, kind.shape)
    if kind.kind is Kind.FLOAT:
        if b"(" in data and pc.any(pc.is_nan(array)).as_py():
            return None
        if not surely_floats(data, array):
            return None
    return array


# -- the slow way --------------------------------------------------------------------------------------


def slow(
    data: bytes, line: int, shape: Layout, *, final: bool
) -> Iterator[tuple[Parsed, int, int]]:
    """The same as the fast way, cell by cell; what it accepts is the definition."""
    rows: list[list[Any]] = []
    at: list[int] = []
    bad: list[BadRow] = []
    stop = lines = 0
    for row in split(data, shape.marks, final=final):
        if row.cells or row.error:
            problem, values = _values(row, shape)
            if problem:
                bad.append(bad_row(line + lines, problem, data[row.start : row.stop][:1000]))
            else:
                rows.append(values)
                at.append(line + lines)
        stop, lines = row.stop, lines + row.lines
        if len(at) + len(bad) >= SLOW_ROWS:
            yield _part(rows, at, bad, shape), stop, lines
            rows, at, bad = [], [], []
    yield _part(rows, at, bad, shape), stop, lines


def _part(rows: list[list[Any]], at: list[int], bad: list[BadRow], shape: Layout) -> Parsed:
    fields = shape.schema.fields
    cells = list(zip(*rows, strict=True)) or [() for _ in fields]
    columns = [column(list(values), f.type) for values, f in zip(cells, fields, strict=True)]
    table = pa.Table.from_arrays(columns, schema=shape.schema.arrow)
    return Parsed(table, np.array(at, np.int64), bad, shape.extra)


def _values(row: Row, shape: Layout) -> tuple[str, list[Any]]:
    """What is wrong with the row, or nothing and its values."""
    if row.error:
        return row.error, []
    if len(row.cells) != shape.width:
        return f"{counted(len(row.cells), 'cell')}, expected {shape.width}", []
    values = []
    for field, place, parse in zip(shape.schema.fields, shape.places, shape.parsers, strict=True):
        cell = row.cells[place]
        try:
            values.append(parse(cell))
        except Unfit as error:
            shown = quoted(cell.decode("utf-8", "replace"))
            return f"{field.name}: expected {field.type}, got {shown} ({error})", []
    return "", values
