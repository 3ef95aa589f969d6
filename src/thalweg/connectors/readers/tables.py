"""An Arrow table held against a record: by name, safe casts, and the rows whose nulls or values do not fit.

====================== ===============================================================================
field                  Arrow types that it takes
====================== ===============================================================================
int, Timer             every integer (of uint64 what fits 64 bits with a sign)
float                  float16 to float64; integers (a value that a float cannot hold is a bad row)
bool                   bool
str, Category          string, large_string, string_view, the extension arrow.json
bytes                  binary, large_binary, binary_view, fixed_size_binary, the extension arrow.uuid
datetime               as Timestamp, in the years 1 to 9999
date                   date32, date64 (of midnights)
timedelta              durations of every unit (what is finer than a microsecond is a bad row)
Decimal                decimals of every size, integers (a value with more digits is a bad row)
dict, for JSON         as str; a text that is no JSON is a bad row
Timestamp              timestamps of every unit and zone (none is UTC; what is finer than a microsecond is
                       a bad row, or cut towards the past with ``nanoseconds="truncate"``), dates
                       (date32 is midnight, date64 the millisecond it says), integers (microseconds, or
                       ``epoch_unit``)
list                   list, large_list, fixed_size_list, list_view, large_list_view
a record               structs, fields by name
====================== ===============================================================================

Dictionaries and run-end-encoded arrays are taken as the values they stand for. A column of Arrow's null type fits
every Optional field. Every other type is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.connectors.readers.cells import (
    FLOAT_EXACT,
    INTS,
    NO_FLOAT,
    TEXTS,
    column,
    floor_thousandths,
    thousandths,
    zero,
)
from thalweg.connectors.readers.options import ReadOptions
from thalweg.connectors.readers.parsed import TEXT_LIMIT, BadRow, Parsed, find_columns
from thalweg.connectors.readers.shaped import shaped, takes, within
from thalweg.connectors.readers.streams import is_utf8
from thalweg.errors import DataError
from thalweg.flow.fields.arrow_types import is_binary_like, is_list_like, is_text, plain, plain_type
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.time_texts import INT_MAX, TOO_FINE, UNIT_NS, EpochUnit, Nanoseconds

Bools = npt.NDArray[np.bool_]


#: How errors call a table that somebody gave.
THE_TABLE: Final = "the table"


class _Times(NamedTuple):
    """How times are read, and what is said of those that are too fine."""

    epoch_unit: EpochUnit = "us"
    nanoseconds: Nanoseconds = "reject"
    too_fine: str = (
        "finer than a microsecond; cut the column first, for example with"
        " pyarrow.compute.floor_temporal(column, unit='microsecond')"
    )


def rows_from_table(
    table: pa.Table, schema: Schema, first_position: int = 0, places: Sequence[int] | None = None
) -> Parsed:
    """The table's rows as the record has them; columns that fit are not copied.

    Positions count rows from ``first_position``; ``places`` are what :func:`check_types` has said of such a table.

    Raises:
        DataError: a column is missing, doubled or of a type that the field does not take.
    """
    return fit_table(table, schema, THE_TABLE, first_position, places=places)


def fit_table(
    table: pa.Table,
    schema: Schema,
    where: str,
    first_position: int,
    options: ReadOptions | None = None,
    places: Sequence[int] | None = None,
) -> Parsed:
    """As :func:`rows_from_table`, times as a file's options say; errors start with ``where``."""
    unit = options.epoch_unit if options else schema.reading.epoch_unit
    times = _Times(unit or "us", options.nanoseconds, TOO_FINE) if options else _Times(unit or "us")
    if places is None:
        places = check_types(table.schema, schema, where)
    columns: list[Any] = []
    reasons: dict[int, str] = {}
    for place, field in zip(places, schema.fields, strict=True):
        array = table.column(place)
        if not _fits(array, field.type):
            try:
                array, wrong = _fit_chunks(array, field.type, times)
            except pa.ArrowException as error:
                raise DataError(
                    f"{where}: column {field.name} of type {array.type} cannot be read as {field.type}:"
                    f" {str(error).splitlines()[0]}; cast it, or change the field"
                ) from error
            for row, reason in wrong.items():
                reasons.setdefault(row, f"{field.name} {reason}")
        columns.append(array)
    fields = [
        f if c.type == f.type else f.with_type(c.type)
        for f, c in zip(schema.arrow, columns, strict=True)
    ]
    fitted = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    positions = np.arange(first_position, first_position + table.num_rows)
    if not reasons:
        return Parsed(fitted, positions, [], _extra(table.schema, schema))
    good = np.ones(table.num_rows, np.bool_)
    good[list(reasons)] = False
    bad = [
        BadRow(first_position + row, reasons[row], _text(table, places, row), "row")
        for row in sorted(reasons)
    ]
    extra = _extra(table.schema, schema)
    return Parsed(fitted.filter(pa.array(good)), positions[good], bad, extra)


def _extra(found: pa.Schema, schema: Schema) -> tuple[str, ...]:
    return tuple(name for name in found.names if name not in schema.columns)


def _text(table: pa.Table, places: Sequence[int], row: int) -> str:
    cells = {table.field(place).name: _shown(table.column(place)[row]) for place in places}
    return ", ".join(f"{name}={cell}" for name, cell in cells.items())[:TEXT_LIMIT]


def _shown(cell: pa.Scalar) -> str:
    try:
        return repr(cell.as_py())
    except UnicodeDecodeError:
        inner = cell.value if isinstance(cell, pa.DictionaryScalar) else cell
        return repr(inner.as_buffer().to_pybytes()) if hasattr(inner, "as_buffer") else "?"
    except (ValueError, OverflowError):  # a time that Python has no date for
        return str(cell.value) if hasattr(cell, "value") else "?"


# -- types ---------------------------------------------------------------------------------------------


def check_types(found: pa.Schema, schema: Schema, where: str) -> list[int]:
    """The place of each field's column.

    Raises:
        DataError: a column is missing, doubled or of a type that the field does not take.
    """
    places = find_columns(where, list(found.names), schema)
    for place, field in zip(places, schema.fields, strict=True):
        problem = _type_problem(found.field(place).type, field.type)
        if problem:
            raise DataError(
                f"{where}: column {field.name} is {found.field(place).type}, but"
                f" {schema.name}.{field.name} is {field.type}{problem}"
            )
    return places


def _type_problem(found: pa.DataType, kind: FieldType) -> str:
    """What keeps the type from fitting, as the end of a sentence; nothing if it fits."""
    types, found = pa.types, plain_type(found)
    if types.is_null(found):
        return "" if kind.optional else " and not Optional"
    if isinstance(found, pa.BaseExtensionType):
        return "; take the storage of this extension type, or change the field"
    if kind.kind is Kind.LIST and kind.item is not None:
        if not is_list_like(found):
            return "; it takes lists"
        return _inside("items", _type_problem(found.value_type, kind.item))
    if kind.kind is Kind.RECORD and kind.record is not None:
        if not types.is_struct(found):
            return "; it takes structs"
        for field in kind.record.fields:
            if found.get_field_index(field.name) < 0:
                return f"; the struct has no field {field.name}, or several"
            problem = _type_problem(found.field(field.name).type, field.type)
            if problem:
                return _inside(f"field {field.name}", problem)
        return ""
    return "" if _takes(kind, found) else "; cast it, or change the field"


def _inside(what: str, problem: str) -> str:
    return f" (its {what}{problem})" if problem else ""


def _takes(whole: FieldType, found: pa.DataType) -> bool:
    types, kind = pa.types, whole.kind
    if whole.shape is not None and kind is not Kind.TIMESTAMP:
        return takes(whole.shape, found)
    integer = bool(types.is_integer(found))
    if kind in INTS:
        return integer
    if kind is Kind.FLOAT:
        return integer or bool(types.is_floating(found))
    if kind is Kind.BOOL:
        return bool(types.is_boolean(found))
    if kind is Kind.TIMESTAMP:
        return integer or bool(types.is_timestamp(found) or types.is_date(found))
    return is_binary_like(found) if kind is Kind.BYTES else is_text(found)


# -- values --------------------------------------------------------------------------------------------


def _fits(array: pa.ChunkedArray, kind: FieldType) -> bool:
    """Whether the column can stay as it is."""
    if (array.null_count and not kind.optional) or kind.shape is not None:
        return False
    if kind.kind in (Kind.LIST, Kind.RECORD) or (kind.kind in TEXTS and not _is_valid(array)):
        return False
    return bool(array.type == kind.arrow) or (
        kind.kind is Kind.CATEGORY
        and bool(array.type == pa.dictionary(pa.int32(), pa.string()))
        and not any(chunk.dictionary.null_count for chunk in array.chunks)
    )


def _fit_chunks(
    array: pa.ChunkedArray, kind: FieldType, times: _Times
) -> tuple[pa.ChunkedArray, dict[int, str]]:
    """As :func:`_fit`, chunk by chunk: not all types can be put together before they are plain."""
    chunks: list[pa.Array] = []
    wrong: dict[int, str] = {}
    start = 0
    for chunk in array.chunks:
        fitted, wrong_rows = _fit(chunk, kind, times)
        chunks.append(fitted)
        wrong.update({start + row: reason for row, reason in wrong_rows.items()})
        start += len(chunk)
    return pa.chunked_array(chunks, kind.arrow), wrong


def _fit(array: pa.Array, kind: FieldType, times: _Times) -> tuple[pa.Array, dict[int, str]]:
    """The array in the field's Arrow type, and what is wrong in which rows (their values are fillers)."""
    wrong: dict[int, str] = {}
    array = plain(array)
    if kind.kind in (Kind.LIST, Kind.RECORD):
        return _fit_nested(array, kind, times)
    if pa.types.is_null(array.type):
        array = pa.nulls(len(array), kind.arrow)
    elif kind.shape is not None and kind.kind is not Kind.TIMESTAMP:
        array = shaped(array, kind.shape, wrong)
    elif kind.kind is Kind.FLOAT and pa.types.is_integer(array.type):
        array = _floats(array, wrong)
    elif kind.kind is Kind.TIMESTAMP:
        array = _instants(array, times, wrong)
        if kind.shape is not None:
            array = within(array, kind.shape, wrong)
    elif array.type == pa.uint64():
        array = _int64s(array, wrong)
    else:
        array = array.cast(kind.arrow)
    if kind.kind in TEXTS and not _is_valid(array):
        array = _without(array, _not_utf8(array), wrong, "is not UTF-8")
    if not kind.optional and array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            wrong.setdefault(row, "is null")
        # Inside a record a field that is not nullable may hold no null, not even where it is not seen.
        filler = pa.array([zero(kind)], array.type)[0]
        array = array.fill_null(filler)
    return array, wrong


def _without(array: pa.Array, mask: pa.Array, wrong: dict[int, str], reason: str) -> pa.Array:
    """The array with null where the mask is true; those rows are noted as wrong."""
    rows = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
    wrong.update(dict.fromkeys(rows, reason))
    return pc.if_else(mask, pa.scalar(None, array.type), array) if rows else array


def _is_valid(array: pa.Array | pa.ChunkedArray) -> bool:
    """Whether its texts are UTF-8, which Arrow takes for granted where it does not make them."""
    coded = pa.types.is_dictionary(array.type)
    try:
        for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
            (chunk.dictionary if coded else chunk).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _not_utf8(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.binary()).to_pylist()
    return pa.array([text is not None and not is_utf8(text) for text in texts])


def _int64s(array: pa.Array, wrong: dict[int, str]) -> pa.Array:
    if array.type == pa.uint64():
        beyond = pc.greater(array, pa.scalar(INT_MAX, pa.uint64()))
        array = _without(array, beyond, wrong, "does not fit 64 bits with a sign")
    return array.cast(pa.int64())


def _floats(array: pa.Array, wrong: dict[int, str]) -> pa.Array:
    ends = pc.min_max(array).as_py()
    if ends["min"] is not None and (ends["min"] < -FLOAT_EXACT or ends["max"] > FLOAT_EXACT):
        # These are few or none; Python compares an int with a float exactly.
        values = array.to_pylist()
        inexact = [value is not None and float(value) != value for value in values]
        array = _without(array, pa.array(inexact), wrong, f"is {NO_FLOAT}")
    return array.cast(pa.float64(), safe=False)


def _instants(array: pa.Array, times: _Times, wrong: dict[int, str]) -> pa.Array:
    target, kind = pa.timestamp("us", tz="UTC"), array.type
    if pa.types.is_date32(kind):
        array, unit_ns = array.view(pa.int32()), 86_400 * 10**9
    elif pa.types.is_date64(kind):
        array, unit_ns = array.view(pa.int64()), UNIT_NS["ms"]
    elif pa.types.is_integer(kind):
        array, unit_ns = _int64s(array, wrong), UNIT_NS[times.epoch_unit]
    else:
        array, unit_ns = array.view(pa.int64()), UNIT_NS[kind.unit]
    array = array.cast(pa.int64())
    if unit_ns == 1:
        return _from_nanoseconds(array, times, wrong).view(target)
    factor = unit_ns // 1000
    if factor > 1:
        limit = (2**63 - 1) // factor
        outside = pc.or_(pc.greater(array, limit), pc.less(array, -limit))
        array = _without(array, outside, wrong, "is a time beyond 64 bits of microseconds")
        array = pc.multiply(array, pa.scalar(factor, pa.int64()))
    return array.view(target)


def _from_nanoseconds(array: pa.Array, times: _Times, wrong: dict[int, str]) -> pa.Array:
    exact = thousandths(array, times.nanoseconds)
    if exact is not None:
        return exact
    whole = floor_thousandths(array)
    finer = pc.not_equal(pc.multiply(whole, pa.scalar(1000, pa.int64())), array).fill_null(False)
    rows = np.flatnonzero(finer.to_numpy(zero_copy_only=False)).tolist()
    wrong.update(dict.fromkeys(rows, f"is {times.too_fine}"))
    return whole


def _fit_nested(array: pa.Array, kind: FieldType, times: _Times) -> tuple[pa.Array, dict[int, str]]:
    if pa.types.is_null(array.type):
        wrong = {} if kind.optional else dict.fromkeys(range(len(array)), "is null")
        filler = None if kind.optional else zero(kind)
        return column([filler] * len(array), kind), wrong
    if kind.kind is Kind.LIST:
        fitted, wrong = _fit_list(array, kind, times)
    else:
        fitted, wrong = _fit_struct(array, kind, times)
    if not kind.optional:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            wrong[row] = "is null"
    return fitted, wrong


def _fit_list(array: pa.Array, kind: FieldType, times: _Times) -> tuple[pa.Array, dict[int, str]]:
    assert kind.item is not None
    # flatten() leaves out what lies under null lists, which have no length here either.
    items, wrong_items = _fit(array.flatten(), kind.item, times)
    sizes = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    fitted = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)),
        items,
        type=kind.arrow,
        mask=array.is_null() if kind.optional else None,
    )
    wrong: dict[int, str] = {}
    for item, reason in wrong_items.items():
        row = int(np.searchsorted(offsets, item, side="right")) - 1
        wrong.setdefault(row, f"holds an item that {reason}")
    return fitted, wrong


def _fit_struct(array: pa.Array, kind: FieldType, times: _Times) -> tuple[pa.Array, dict[int, str]]:
    assert kind.record is not None
    absent = array.is_null().to_numpy(zero_copy_only=False)
    children: list[pa.Array] = []
    wrong: dict[int, str] = {}
    for field in kind.record.fields:
        child, wrong_rows = _fit(array.field(field.name), field.type, times)
        children.append(child)
        for row, reason in wrong_rows.items():
            if not absent[row]:
                wrong.setdefault(row, f".{field.name} {reason}")
    mask = pa.array(absent) if kind.optional else None
    fields = list(kind.record.arrow)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask), wrong
