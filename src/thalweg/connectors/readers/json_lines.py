"""JSON lines: pyarrow where its answer is surely ours, the standard library line by line where not.

A line is one JSON object with LF or CR LF after it; lines of spaces are no rows. Fields by name: others
are ignored, of a doubled one the last counts, a missing one is null. An int takes numbers without a
fraction (``1e3`` is 1000, and 9007199254740993 stays exact) within 64 bits, a float what it can hold and
``NaN``, ``Infinity``, ``-Infinity``; booleans are no numbers. Text with half of a surrogate pair is bad.
Timestamps are text as in :mod:`thalweg.connectors.readers.cells`, or integers if ``epoch_unit`` says of what.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson
from pyarrow import fs as pafs

from thalweg.connectors.readers.cells import (
    INTS,
    column,
    float_of,
    surely_floats,
    timestamp_parser,
    timestamps,
)
from thalweg.connectors.readers.options import ReadOptions
from thalweg.connectors.readers.parsed import BadRow, Int64s, Parsed, bad_row, quoted
from thalweg.connectors.readers.shaped import json_value
from thalweg.connectors.readers.steady import Look
from thalweg.connectors.readers.streams import (
    MAX_ROW_BYTES,
    Lines,
    is_utf8,
    no_row,
    pieces,
    read_lines,
)
from thalweg.connectors.readers.tables import fit_table
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.reading import renamed
from thalweg.flow.fields.shapes import ValueShape
from thalweg.flow.records import Schema
from thalweg.time_texts import Unfit, in_64_bits, in_calendar, micros, no_time

Parser = Callable[[Any], Any]

#: pyarrow's parser recurses: more brackets in a line than this, and it does not get to see it.
MAX_BRACKETS: Final = 500

#: A block with an odd line is cut into pieces of this size, which go the fast way where they can.
PIECE_BYTES: Final = 1 << 15

#: Numbers that pyarrow takes and JSON, as Python reads it, does not.
_ODD_NUMBER = re.compile(rb"[:,\[][ \t]*-?(?:Inf(?!inity)|(?<=-)NaN)")


def read_json(
    fs: pafs.FileSystem,
    path: str,
    schema: Schema,
    options: ReadOptions,
    listed: Look | None = None,
) -> Iterator[Parsed]:
    """The parts of a file of JSON lines; see :func:`thalweg.connectors.readers.read_file`."""
    parse = record_parser(schema, options)
    for lines in read_lines(fs, path, listed=listed, growing=options.growing):
        if not lines.is_row:
            yield no_row(lines, schema, MAX_ROW_BYTES)
        else:
            yield from parse_json(lines, schema, options, parse)


def parse_json(
    lines: Lines, schema: Schema, options: ReadOptions, parse: Parser
) -> Iterator[Parsed]:
    """The parts of a block of lines; ``parse`` is the schema's :func:`record_parser`."""
    part = fast(lines, schema, options)
    if part is not None:
        yield part
        return
    for piece in pieces(lines, PIECE_BYTES):
        yield fast(piece, schema, options) or slow(piece, schema, parse)


# -- the fast way --------------------------------------------------------------------------------------


def fast(lines: Lines, schema: Schema, options: ReadOptions) -> Parsed | None:
    """All lines at once; None when they take the slow way to be sure."""
    rows = _one_object_a_line(lines)
    if rows is None or not _is_tame(lines.data) or not is_utf8(lines.data):
        return None
    loose = _loose_schema(schema, options)
    if loose is None:
        return None
    try:
        raw = pajson.read_json(
            pa.BufferReader(lines.data),
            read_options=pajson.ReadOptions(use_threads=False, block_size=len(lines.data) + 1),
            parse_options=pajson.ParseOptions(
                explicit_schema=loose, unexpected_field_behavior="ignore"
            ),
        )
        raw.validate(full=True)
    except (pa.ArrowException, OverflowError):
        return None
    if raw.num_rows != len(rows):
        return None
    for place, (name, field) in enumerate(zip(schema.columns, schema.fields, strict=True)):
        if not _surely_floats(lines.data, raw.column(place).combine_chunks(), field.type):
            return None
        if field.type.kind is Kind.TIMESTAMP:
            calendar = field.type.shape is not None
            times = timestamps(raw.column(place).combine_chunks(), options, calendar=calendar)
            if times is None:
                return None
            raw = raw.set_column(place, name, times)
    part = fit_table(raw, schema, "the lines", 0, options)
    return None if part.bad else Parsed(part.table, rows)


def _surely_floats(data: bytes, array: pa.Array, kind: FieldType) -> bool:
    """As :func:`thalweg.connectors.readers.cells.surely_floats`, for those in lists and records, too."""
    if kind.kind is Kind.FLOAT:
        return surely_floats(data, array)
    if kind.kind is Kind.LIST and kind.item is not None:
        return _surely_floats(data, array.flatten(), kind.item)
    if kind.kind is Kind.RECORD and kind.record is not None:
        inner = zip(array.flatten(), kind.record.fields, strict=True)
        return all(_surely_floats(data, child, field.type) for child, field in inner)
    return True


def _one_object_a_line(lines: Lines) -> Int64s | None:
    """The numbers of the lines that are not empty; None if one is not ``{...}`` from end to end.

    No document goes from one line to the next when every line begins and ends like this, as no JSON
    value has ``}`` and ``{`` side by side: so as many rows as lines means one row a line.
    """
    data = np.frombuffer(lines.data, np.uint8)
    starts = np.concatenate([np.zeros(1, np.int64), lines.ends[:-1] + 1])
    last = lines.ends - 1
    last = last - ((last >= starts) & (data[last] == 13))
    full = last >= starts
    if not np.all((data[starts[full]] == ord("{")) & (data[last[full]] == ord("}"))):
        return None
    return np.flatnonzero(full) + lines.first


def _is_tame(data: bytes) -> bool:
    """Whether pyarrow reads it as Python does, and without running out of stack."""
    if (b"Inf" in data or b"-NaN" in data) and _ODD_NUMBER.search(data):
        return False
    if data.count(b"[") + data.count(b"{") - data.count(b"\n") <= MAX_BRACKETS:
        return True
    return all(
        len(line) <= MAX_BRACKETS or line.count(b"[") + line.count(b"{") <= MAX_BRACKETS
        for line in data.split(b"\n")
    )


def _loose_schema(schema: Schema, options: ReadOptions) -> pa.Schema | None:
    """What pyarrow is told to read: everything nullable, times as the text or integers they are."""
    fields = []
    for name, field in zip(schema.columns, schema.fields, strict=True):
        kind = _loose(field.type, options)
        if kind is None:
            return None
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _loose(kind: FieldType, options: ReadOptions, *, nested: bool = False) -> pa.DataType | None:
    if kind.shape is not None and kind.kind is not Kind.TIMESTAMP:
        return None
    if kind.kind is Kind.TIMESTAMP:
        if options.epoch_unit:
            return pa.int64()
        return None if nested else pa.string()
    if kind.kind is Kind.LIST and kind.item is not None:
        item = _loose(kind.item, options, nested=True)
        return None if item is None else pa.list_(item)
    if kind.kind is Kind.RECORD and kind.record is not None:
        kinds = [_loose(field.type, options, nested=True) for field in kind.record.fields]
        if any(one is None for one in kinds):
            return None
        return pa.struct(list(zip(kind.record.names, kinds, strict=True)))
    return kind.arrow


# -- the slow way --------------------------------------------------------------------------------------


def slow(lines: Lines, schema: Schema, parse: Parser) -> Parsed:
    """The same as the fast way, line by line; what it accepts is the definition."""
    rows: list[tuple[Any, ...]] = []
    at: list[int] = []
    bad: list[BadRow] = []
    start = 0
    for number, end in enumerate(lines.ends.tolist(), lines.first):
        line, start = lines.data[start:end], end + 1
        if not line.strip(b" \t\r"):
            continue
        try:
            rows.append(parse(_decode(line.removesuffix(b"\r"))))
            at.append(number)
        except Unfit as error:
            bad.append(bad_row(number, str(error), line))
    cells = list(zip(*rows, strict=True)) or [() for _ in schema.fields]
    columns = [column(list(one), f.type) for one, f in zip(cells, schema.fields, strict=True)]
    table = pa.Table.from_arrays(columns, schema=schema.arrow)
    return Parsed(table, np.array(at, np.int64), bad)


class _Real(str):
    """A number with a fraction or an exponent, or with many digits, as it is written."""

    __slots__ = ()


def _whole(text: str) -> int | _Real:
    # int() refuses thousands of digits with an error that does not tell the place, and a float has a -0.
    return int(text) if len(text) < 100 and text != "-0" else _Real(text)


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_Real)


def _decode(line: bytes) -> Any:
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Unfit(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        hint = "" if line[:1] != b"[" and line != b"{" else "; each line must be one whole object"
        raise Unfit(f"not JSON: {error.msg} at column {error.pos + 1}{hint}") from None
    except RecursionError:
        raise Unfit("not JSON: nested too deep") from None


def value_parser(kind: FieldType) -> Callable[[bytes], Any]:
    """The function from the text of one JSON value to a field's value, None for null; it raises Unfit."""
    parse = _parser(kind, ReadOptions(format="json"))

    def read(text: bytes) -> Any:
        value = _decode(text)
        return None if value is None else parse(value)

    return read


def record_parser(schema: Schema, options: ReadOptions) -> Parser:
    """The function from a decoded object to the values of the record; it raises Unfit."""
    parsers = [
        (name, field.name, field.type, _parser(field.type, options))
        for name, field in zip(schema.columns, schema.fields, strict=True)
    ]

    def parse(row: Any) -> tuple[Any, ...]:
        if type(row) is not dict:
            raise Unfit(f"expected an object, got {_shown(row)}")
        values: list[Any] = []
        for name, field, kind, parse_value in parsers:
            value = row.get(name)
            if value is None:
                if not kind.optional:
                    near = [] if name in row else [one for one in row if one not in schema.columns]
                    what = "null" if name in row else "missing"
                    raise Unfit(f"{name} is {what}{renamed(field, near)}")
                values.append(None)
                continue
            try:
                values.append(parse_value(value))
            except Unfit as error:
                raise Unfit(_expected(name, kind, value, error)) from None
        return tuple(values)

    return parse


def json_cell_parser(kind: FieldType, options: ReadOptions) -> Parser:
    """The function from the bytes of one JSON value to the field's value; it raises Unfit."""
    parse = _parser(kind, options)
    return lambda cell: parse(_decode(cell))


def _expected(name: str, kind: FieldType, value: Any, error: Unfit) -> str:
    why = f" ({error})" if str(error) else ""
    return f"{name}: expected {kind}, got {_shown(value)}{why}"


def _shown(value: Any) -> str:
    return quoted(value) if not isinstance(value, _Real) else str(value)[:60]


def _parser(kind: FieldType, options: ReadOptions) -> Parser:
    """The function from a decoded value that is not null to the field's value; it raises Unfit."""
    if kind.shape is not None:
        return _shape_parser(kind.shape, options)
    if kind.kind is Kind.TIMESTAMP:
        if not options.epoch_unit:
            parse_time = timestamp_parser(options)
            return lambda value: parse_time(_time_text(value))
        unit, nanoseconds = options.epoch_unit, options.nanoseconds
        return lambda value: micros(_int(value), unit, nanoseconds)
    if kind.kind is Kind.LIST and kind.item is not None:
        return _list_parser(kind.item, options)
    if kind.kind is Kind.RECORD and kind.record is not None:
        return record_parser(kind.record, options)
    if kind.kind in INTS:
        return _int
    plain: dict[Kind, Parser] = {Kind.FLOAT: _float, Kind.BOOL: _bool}
    if kind.kind is Kind.BYTES:
        return lambda value: _text(value).encode()
    return plain.get(kind.kind, _text)


def _shape_parser(shape: ValueShape, options: ReadOptions) -> Parser:
    if shape.name == "json":
        return lambda value: json_value(value, _Real)
    if shape.name == "datetime":
        parse = _parser(FieldType(Kind.TIMESTAMP), options)
        return lambda value: in_calendar(parse(value))
    if shape.name == "Decimal":
        return lambda value: shape.read(str(value) if type(value) in (int, _Real) else _text(value))
    return lambda value: shape.read(_text(value))


def _list_parser(item: FieldType, options: ReadOptions) -> Parser:
    parse_item = _parser(item, options)

    def parse(value: Any) -> list[Any]:
        if type(value) is not list:
            raise Unfit
        items: list[Any] = []
        for place, one in enumerate(value):
            if one is None and item.optional:
                items.append(None)
                continue
            try:
                items.append(parse_item(one))
            except Unfit as error:
                raise Unfit(_expected(f"item {place}", item, one, error)) from None
        return items

    return parse


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Unfit
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit("half of a surrogate pair") from None
    return value


def _time_text(value: Any) -> str:
    if type(value) in (int, _Real):
        raise Unfit(no_time(str(value).lstrip("-").partition(".")[0]))
    return _text(value)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise Unfit
    return value


def _float(value: Any) -> float:
    if type(value) is float:  # NaN, Infinity
        return value
    if type(value) in (int, _Real):
        return float_of(str(value))
    raise Unfit


def _int(value: Any) -> int:
    if type(value) is int:
        return in_64_bits(value)
    if type(value) is not _Real:
        raise Unfit
    try:
        exact = decimal.Decimal(value)
    except decimal.InvalidOperation:
        raise Unfit("does not fit 64 bits") from None
    if exact and exact.adjusted() > 19:
        raise Unfit("does not fit 64 bits")
    # A tiny number stays out of to_integral_value, which would write out its zeros.
    if exact and (exact.adjusted() < 0 or exact != exact.to_integral_value()):
        raise Unfit("not an integer")
    return in_64_bits(int(exact.to_integral_value())) if exact else 0
