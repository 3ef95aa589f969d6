"""Whether the columns of a table take the fields of a record, and rows in the types of its columns.

A run does not change a table's schema: what does not fit is named, and what the table has besides is null.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from thalweg.connectors.once import shown_row
from thalweg.errors import BuildError, DataError
from thalweg.flow.records import Schema

_SIGNED: Final = (pa.int8(), pa.int16(), pa.int32())
_SMALL: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def refuse_durations(where: str, record: Schema, format: str) -> None:
    """Refuses a record with a timedelta, also inside a list or record, for a format that has no such type.

    Raises:
        BuildError: names the field, and says what to write in its place.
    """
    for field in record.fields:
        if _has_duration(field.type.arrow):
            raise BuildError(
                f"{where}: {format} has no type for {field.name}: {field.type}; make it a float,"
                f" {field.name}.total_seconds(), or an int of microseconds,"
                f" {field.name} // timedelta(microseconds=1)"
            )


def _has_duration(kind: pa.DataType) -> bool:
    inner = [kind.field(place) for place in range(kind.num_fields)]
    return bool(pa.types.is_duration(kind)) or any(_has_duration(one.type) for one in inner)


def check_columns(place: str, record: Schema, found: pa.Schema) -> None:
    """Refuses a table that does not take the rows of a record as they are.

    Raises:
        BuildError: naming the fields; the table is not changed.
    """
    problems = [_problem(one, found) for one in record.arrow]
    problems += [
        f"it has a column {one.name} that may not be null, and {record.name} has no such field"
        for one in found
        if one.name not in record.names and not one.nullable
    ]
    said = [one for one in problems if one]
    if said:
        raise BuildError(
            f"{place}: its columns do not fit {record.name}, and its schema is not changed by a run:\n  "
            + "\n  ".join(said)
            + "\nChange the table, or the record, or name another table."
        )


def _problem(field: pa.Field, found: pa.Schema) -> str:
    place = found.get_field_index(field.name)
    if place < 0:
        return f"it has no column {field.name} ({field.type})"
    column = found.field(place)
    if not _fits(field.type, column.type):
        return f"its column {field.name} is {column.type}, the field {field.type}"
    if field.nullable and not column.nullable:
        return f"its column {field.name} may not be null, the field may be None"
    return ""


def _fits(field: pa.DataType, column: pa.DataType) -> bool:
    """Whether a column takes values of a field, as they are or after a cast that fails where one does not fit."""
    types = pa.types
    if types.is_list(field):
        return bool(types.is_list(column) or types.is_large_list(column)) and _fits(
            field.value_type, column.value_type
        )
    if types.is_struct(field):
        names = [one.name for one in field]
        return (
            types.is_struct(column)
            and [one.name for one in column] == names
            and all(_fits(field.field(one).type, column.field(one).type) for one in names)
        )
    if field == pa.int64() and column in _SIGNED:
        return True
    if types.is_decimal(field) and types.is_decimal(column):
        return bool(column.scale >= field.scale)
    return bool(_SMALL.get(column, column) == field)


def cast_rows(place: str, batch: int, rows: pa.Table, found: pa.Schema) -> pa.Table:
    """The rows in the types of the table's columns.

    Raises:
        DataError: a number does not fit the column; names it.
    """
    wanted = [one.with_type(found.field(one.name).type) for one in rows.schema]
    try:
        return rows.cast(pa.schema(wanted))
    except pa.ArrowInvalid as error:
        row = next(n for n in range(rows.num_rows) if not _casts(rows.slice(n, 1), wanted))
        raise DataError(
            f"{place}: batch {batch}, row {row}: {error}\n  row: {shown_row(rows, row)}"
        ) from None


def _casts(rows: pa.Table, wanted: list[pa.Field]) -> bool:
    try:
        rows.cast(pa.schema(wanted))
    except pa.ArrowInvalid:
        return False
    return True


def with_nulls(rows: pa.Table, found: pa.Schema) -> pa.Table:
    """The rows with the table's other columns, null."""
    arrays = [
        rows.column(one.name) if one.name in rows.column_names else pa.nulls(len(rows), one.type)
        for one in found
    ]
    fields = [
        rows.schema.field(one.name) if one.name in rows.column_names else one for one in found
    ]
    return pa.table(arrays, schema=pa.schema(fields))
