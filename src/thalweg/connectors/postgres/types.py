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
list, a record      jsonb             json
=================== ================= ===============================================================
"""

from __future__ import annotations

from typing import Final

from thalweg.errors import BuildError
from thalweg.flow.field_types import FieldType, Kind
from thalweg.flow.records import Schema

#: The column that is made for a kind, by the name that the catalogue has for its type.
MADE: Final = {
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
_TAKEN: Final = {
    "int8": ("int4", "int2", "numeric"),
    "float8": ("numeric",),
    "text": ("varchar", "bpchar", "citext"),
    "timestamptz": ("timestamp",),
    "jsonb": ("json",),
}


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


def takes(column: str, kind: FieldType) -> bool:
    """Whether a column of a type takes a field's values."""
    made = MADE[kind.kind]
    return column == made or column in _TAKEN.get(made, ())
