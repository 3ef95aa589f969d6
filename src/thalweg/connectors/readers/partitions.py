"""Columns that stand on a file's path, as Hive has them: ``day=2024-01-01/hour=7/part-0.parquet``."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from thalweg.connectors.readers.cells import column
from thalweg.connectors.readers.parsed import Parsed
from thalweg.errors import DataError
from thalweg.flow.fields.field_types import INT_MAX, INT_MIN, FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.times import timestamp

#: The value of a folder that stands for null.
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: Characters that are escaped in a folder's name, as Hive and Spark do it.
_ESCAPED: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_BOOLS: Final = {"true": True, "false": False}


def folder_name(name: str, value: Any) -> str:
    """The folder of a value: ``day=2024-01-01``."""
    if value is None:
        return f"{name}={NULL}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name}={_ESCAPED.sub(lambda found: f'%{ord(found[0]):02X}', text)}"


def _pairs(path: str) -> dict[str, str]:
    """The names and values of a path's folders; of two of one name the inner one."""
    parts = (part.partition("=") for part in path.split("/")[:-1])
    return {name: unquote(value) for name, equals, value in parts if equals and name}


def missed(path: str, schema: Schema, error: str) -> str:
    """What to say beside an error about a column that the path has; nothing where there is none."""
    for name in _pairs(path):
        if name in schema.names and f"column {name} missing" in error:
            return f"; the path has {name}=…: files(…, partitions=True) reads it"
    return ""


@dataclasses.dataclass(frozen=True, slots=True)
class Folders:
    """The fields of a record that a file's path has, and those that the file has."""

    record: Schema
    inside: Schema
    #: arrays of one value
    values: dict[str, pa.Array]

    @classmethod
    def of(cls, path: str, record: Schema) -> Folders:
        """The fields on a path.

        Raises:
            DataError: a value does not fit its field, or the file is left without fields.
        """
        found = {name: text for name, text in _pairs(path).items() if name in record.names}
        fields = [one for one in record.fields if one.name not in found]
        if not fields:
            raise DataError(
                f"{path}: all fields of {record.name} are on the path, none in the file"
            )
        values = {}
        for name, text in found.items():
            kind = record.field(name).type
            try:
                values[name] = column([_value(kind, text)], kind)
            except (ValueError, TypeError, pa.ArrowException) as error:
                raise DataError(f"{path}: {name}={text} is no {kind}: {error}") from None
        return cls(record, Schema.make_record(record.name, fields), values)

    def added(self, part: Parsed) -> Parsed:
        """A part of the file with the columns that its path has."""
        table, rows = part.table, part.table.num_rows
        columns = [
            pa.repeat(self.values[name][0], rows) if name in self.values else table.column(name)
            for name in self.record.names
        ]
        whole = pa.table(columns, names=list(self.record.names))
        extra = tuple(name for name in part.extra_columns if name not in self.values)
        return Parsed(whole, part.positions, part.bad, extra)


def _value(kind: FieldType, text: str) -> Any:
    """A folder's value as the field has it.

    Raises:
        ValueError: it does not fit.
    """
    if text == NULL:
        if kind.optional:
            return None
        raise ValueError("the field may not be None")
    if kind.shape is not None and kind.kind is not Kind.TIMESTAMP:
        return kind.shape.read(text)
    convert = _CONVERT.get(kind.kind)
    if convert is None:
        raise ValueError(
            "expected int, float, bool, str, Category, Timestamp, datetime, date, timedelta or Decimal"
        )
    return convert(text)


def _int(text: str) -> int:
    value = int(text)
    if not INT_MIN <= value <= INT_MAX or "_" in text:
        raise ValueError("it does not fit 64 bits")
    return value


def _bool(text: str) -> bool:
    if text.lower() not in _BOOLS:
        raise ValueError("expected true or false")
    return _BOOLS[text.lower()]


def _float(text: str) -> float:
    value = float(text)
    if "_" in text or (math.isinf(value) and "inf" not in text.lower()):
        raise ValueError("a float cannot hold it")
    return value


_CONVERT: Final[dict[Kind, Callable[[str], Any]]] = {
    Kind.STR: str,
    Kind.CATEGORY: str,
    Kind.INT: _int,
    Kind.TIMER: _int,
    Kind.BOOL: _bool,
    Kind.FLOAT: _float,
    Kind.TIMESTAMP: timestamp,
}
