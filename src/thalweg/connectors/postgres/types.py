"""The columns of PostgreSQL that hold the fields of a record.

=================== ================= ===============================================================
field               column made       columns taken where the table is there already
=================== ================= ===============================================================
int, Timer          bigint            integer, smallint, numeric (a row that does not fit is named)
float               double precision  numeric
bool                boolean
str, Category       text              varchar, char, citext (too long a text is named)
bytes               bytea
Timestamp           timestamptz       timestamp, in UTC
datetime            timestamptz       timestamp, in UTC
date                date
timedelta           interval
Decimal             numeric           numeric with as many digits behind the point, or without limits
list, a record      jsonb             json
dict, for JSON      jsonb             json
=================== ================= ===============================================================

A column that would round what it is given (``numeric(9, 0)`` for cents, ``timestamptz(0)``) is not taken.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema

#: The column that is made for a kind, by the name that the catalogue has for its type.
_MADE: Final = {
    Kind.INT: "int8",
    Kind.TIMER: "int8",
    Kind.FLOAT: "float8",
    Kind.BOOL: "bool",
    Kind.STR: "text",
    Kind.CATEGORY: "text",
    Kind.BYTES: "bytea",
    Kind.TIMESTAMP: "timestamptz",
    Kind.LIST: "jsonb",
    Kind.RECORD: "jsonb",
}
#: The same for the values that users see as Python's own types.
_SHAPED: Final = {
    "datetime": "timestamptz",
    "date": "date",
    "timedelta": "interval",
    "Decimal": "numeric",
    "json": "jsonb",
}
_TAKEN: Final = {
    "int8": ("int4", "int2", "numeric"),
    "float8": ("numeric",),
    "text": ("varchar", "bpchar", "citext"),
    "timestamptz": ("timestamp",),
    "jsonb": ("json",),
}
#: The digits of seconds that a Timestamp has, and the mark of intervals that have years as well as seconds.
_MICROSECONDS: Final = 6
_ALL_FIELDS: Final = 0x7FFF


def check_record(where: str, record: Schema) -> None:
    """Refuses a record of which a field has no column.

    Raises:
        BuildError: names the field.
    """
    if not record.fields:
        raise BuildError(f"{where}: {record.name} has no fields, so there is nothing to write")
    for field in record.fields:
        if field.type.kind in (Kind.LIST, Kind.RECORD) and _has_bytes(field.type):
            raise BuildError(f"{where}: JSON cannot hold the bytes in {field.name}: {field.type}")


def _has_bytes(kind: FieldType) -> bool:
    if kind.kind is Kind.BYTES:
        return True
    inner = [kind.item] if kind.item is not None else []
    inner += [field.type for field in kind.record.fields] if kind.record is not None else []
    return any(_has_bytes(one) for one in inner)


class TableColumn(NamedTuple):
    """A column that a table has."""

    name: str
    #: as the catalogue names it
    type: str
    #: its digits or precision, packed as the catalogue has them; -1: no limit
    limit: int
    #: its type as people write it
    shown: str
    required: bool
    filled: bool


def made(kind: FieldType) -> str:
    """The type of the column that is made for a field, by its name in the catalogue."""
    return _MADE[kind.kind] if kind.shape is None else _SHAPED[kind.shape.name]


def made_sql(kind: FieldType) -> str:
    """The same as SQL has it: ``numeric(18, 2)``."""
    shape = kind.shape
    if shape is None or shape.name != "Decimal":
        return made(kind)
    return f"numeric({shape.precision}, {shape.scale})"


def takes(column: TableColumn, kind: FieldType) -> bool:
    """Whether a column takes a field's values as they are, or refuses them."""
    wanted = made(kind)
    return (column.type == wanted or column.type in _TAKEN.get(wanted, ())) and not _rounds(
        column, kind
    )


def _rounds(column: TableColumn, kind: FieldType) -> bool:
    """Whether a column would drop digits of a field's values in silence."""
    if column.limit < 0:
        return False
    if column.type in ("timestamptz", "timestamp"):
        return column.limit < _MICROSECONDS
    if column.type == "interval":
        fields, precision = column.limit >> 16 & 0x7FFF, column.limit & 0xFFFF
        return fields != _ALL_FIELDS or min(precision, _MICROSECONDS) != _MICROSECONDS
    if column.type == "numeric" and kind.kind is not Kind.FLOAT:
        scale = ((column.limit - 4 & 0x7FF) ^ 1024) - 1024
        return scale < (kind.shape.scale if kind.shape is not None else 0)
    return False
