"""An Arrow table held against a record: by name, safe casts, and the rows whose nulls or values do not fit.

====================== ===============================================================================
field                  Arrow types that it takes
====================== ===============================================================================
int, Timer             every integer but uint64
float                  float16 to float64; integers (a value that a float cannot hold is a bad row)
bool                   bool
str, Category          string, large_string, string_view, a dictionary of these
bytes                  binary, large_binary, binary_view, fixed_size_binary
Timestamp              timestamps of every unit and zone (none is UTC; what is finer than a microsecond
                       is cut off, towards the past), dates (midnight), integers (microseconds, or
                       ``epoch_unit``)
list, records          lists and structs, fields by name
====================== ===============================================================================

A column of Arrow's null type fits every Optional field.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import DataError
from thalweg.readers.cells import INTS, column, zero
from thalweg.readers.options import EPOCH_FACTOR
from thalweg.readers.parsed import TEXT_LIMIT, BadRow, Parsed, find_columns
from thalweg.records import FieldType, Kind, Schema

Bools = npt.NDArray[np.bool_]

#: Integers beyond it are not all floats.
FLOAT_EXACT: Final = 2**53

_UNIT_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def rows_from_table(
    table: pa.Table, schema: Schema, first_position: int = 0, *, epoch_unit: str | None = None
) -> Parsed:
    """The table's rows as the record has them; columns that fit are not copied.

    Positions count rows from ``first_position``.

    Raises:
        DataError: a column is missing, doubled or of a type that the field does not take.
    """
    return fit_table(table, schema, "the table", first_position, epoch_unit=epoch_unit)


def fit_table(
    table: pa.Table,
    schema: Schema,
    where: str,
    first_position: int,
    *,
    epoch_unit: str | None = None,
) -> Parsed:
    """As :func:`rows_from_table`; errors start with ``where``."""
    places = check_types(table.schema, schema, where)
    columns: list[Any] = []
    reasons: dict[int, str] = {}
    for place, field in zip(places, schema.fields, strict=True):
        array = table.column(place)
        if not _fits(array, field.type):
            array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
            if isinstance(array, pa.ChunkedArray):
                array = pa.concat_arrays(array.chunks)
            array, wrong = _fit(array, field.type, epoch_unit)
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
    return tuple(name for name in found.names if name not in schema.names)


def _text(table: pa.Table, places: list[int], row: int) -> str:
    cells = {table.field(place).name: _shown(table.column(place)[row]) for place in places}
    return ", ".join(f"{name}={cell}" for name, cell in cells.items())[:TEXT_LIMIT]


def _shown(cell: pa.Scalar) -> str:
    try:
        return repr(cell.as_py())
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
    types = pa.types
    if types.is_null(found):
        return "" if kind.optional else " and not Optional"
    if kind.kind is Kind.LIST and kind.item is not None:
        if not (types.is_list(found) or types.is_large_list(found)):
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
    return "" if _takes(kind.kind, found) else "; cast it, or change the field"


def _inside(what: str, problem: str) -> str:
    return f" (its {what}{problem})" if problem else ""


def _takes(kind: Kind, found: pa.DataType) -> bool:
    types = pa.types
    integer = bool(types.is_integer(found)) and found != pa.uint64()
    if kind in INTS:
        return integer
    if kind is Kind.FLOAT:
        return integer or bool(types.is_floating(found))
    if kind is Kind.BOOL:
        return bool(types.is_boolean(found))
    if kind is Kind.TIMESTAMP:
        return integer or bool(types.is_timestamp(found) or types.is_date(found))
    if kind is Kind.BYTES:
        views = types.is_binary_view(found) or types.is_fixed_size_binary(found)
        return bool(types.is_binary(found) or types.is_large_binary(found) or views)
    text = found.value_type if types.is_dictionary(found) else found
    return bool(types.is_string(text) or types.is_large_string(text) or types.is_string_view(text))


# -- values --------------------------------------------------------------------------------------------


def _fits(array: pa.ChunkedArray, kind: FieldType) -> bool:
    """Whether the column can stay as it is."""
    if array.null_count and not kind.optional:
        return False
    if kind.kind in (Kind.LIST, Kind.RECORD):
        return False
    return bool(array.type == kind.arrow) or (
        kind.kind is Kind.CATEGORY
        and bool(array.type == pa.dictionary(pa.int32(), pa.string()))
        and not any(chunk.dictionary.null_count for chunk in array.chunks)
    )


def _fit(
    array: pa.Array, kind: FieldType, epoch_unit: str | None
) -> tuple[pa.Array, dict[int, str]]:
    """The array in the field's Arrow type, and what is wrong in which rows (their values are fillers)."""
    wrong: dict[int, str] = {}
    if kind.kind in (Kind.LIST, Kind.RECORD):
        return _fit_nested(array, kind, epoch_unit)
    if kind.kind is Kind.FLOAT and pa.types.is_integer(array.type):
        inexact = pc.or_(
            pc.greater(array, pa.scalar(FLOAT_EXACT, pa.int64())),
            pc.less(array, pa.scalar(-FLOAT_EXACT, pa.int64())),
        )
        array = _without(array, inexact, wrong, "is an integer that a float cannot hold")
        array = array.cast(pa.float64())
    elif kind.kind is Kind.TIMESTAMP:
        array = _times(array, epoch_unit, wrong)
    elif array.type != kind.arrow:
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        array = (
            pa.nulls(len(array), kind.arrow) if array.type == pa.null() else array.cast(kind.arrow)
        )
    if not kind.optional and array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            wrong.setdefault(row, "is null")
        # Inside a record a field that is not nullable may hold no null, not even where it is not seen.
        array = array.fill_null(pa.scalar(zero(kind), array.type))
    return array, wrong


def _without(array: pa.Array, mask: pa.Array, wrong: dict[int, str], reason: str) -> pa.Array:
    """The array with null where the mask is true; those rows are noted as wrong."""
    rows = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
    wrong.update(dict.fromkeys(rows, reason))
    return pc.if_else(mask, pa.scalar(None, array.type), array) if rows else array


def _times(array: pa.Array, epoch_unit: str | None, wrong: dict[int, str]) -> pa.Array:
    target, kind = pa.timestamp("us", tz="UTC"), array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), target)
    if pa.types.is_date(kind):
        array, unit_ns = array.cast(pa.date32()).view(pa.int32()), 86_400 * 10**9
    elif pa.types.is_integer(kind):
        unit_ns = EPOCH_FACTOR[epoch_unit or "us"] * 1000
    else:
        array, unit_ns = array.view(pa.int64()), _UNIT_NS[kind.unit]
    array = array.cast(pa.int64())
    if unit_ns == 1:
        return _floor_thousandth(array).view(target)
    factor = unit_ns // 1000
    if factor > 1:
        limit = (2**63 - 1) // factor
        outside = pc.or_(pc.greater(array, limit), pc.less(array, -limit))
        array = _without(array, outside, wrong, "is a time beyond 64 bits of microseconds")
        array = pc.multiply(array, pa.scalar(factor, pa.int64()))
    return array.view(target)


def _floor_thousandth(array: pa.Array) -> pa.Array:
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values // 1000, mask=array.is_null().to_numpy(zero_copy_only=False))


def _fit_nested(
    array: pa.Array, kind: FieldType, epoch_unit: str | None
) -> tuple[pa.Array, dict[int, str]]:
    if pa.types.is_null(array.type):
        wrong = {} if kind.optional else dict.fromkeys(range(len(array)), "is null")
        filler = None if kind.optional else zero(kind)
        return column([filler] * len(array), kind), wrong
    if kind.kind is Kind.LIST:
        fitted, wrong = _fit_list(array, kind, epoch_unit)
    else:
        fitted, wrong = _fit_struct(array, kind, epoch_unit)
    if not kind.optional:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            wrong[row] = "is null"
    return fitted, wrong


def _fit_list(
    array: pa.Array, kind: FieldType, epoch_unit: str | None
) -> tuple[pa.Array, dict[int, str]]:
    assert kind.item is not None
    # flatten() leaves out what lies under null lists, which have no length here either.
    items, wrong_items = _fit(array.flatten(), kind.item, epoch_unit)
    sizes = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
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


def _fit_struct(
    array: pa.Array, kind: FieldType, epoch_unit: str | None
) -> tuple[pa.Array, dict[int, str]]:
    assert kind.record is not None
    absent = array.is_null().to_numpy(zero_copy_only=False)
    children: list[pa.Array] = []
    wrong: dict[int, str] = {}
    for field in kind.record.fields:
        child, wrong_rows = _fit(array.field(field.name), field.type, epoch_unit)
        children.append(child)
        for row, reason in wrong_rows.items():
            if not absent[row]:
                wrong.setdefault(row, f".{field.name} {reason}")
    mask = pa.array(absent) if kind.optional else None
    fields = list(kind.record.arrow)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask), wrong
