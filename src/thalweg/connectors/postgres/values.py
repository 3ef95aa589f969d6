"""Values of PostgreSQL in text form, as fields have them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import orjson

from thalweg.connectors.postgres.pgoutput import Unchanged
from thalweg.connectors.postgres.words import interval_word
from thalweg.connectors.readers.json_lines import value_parser
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.user_rows import outward_of
from thalweg.flow.records import Schema
from thalweg.times import timestamp

#: Of a session whose texts are read.
TEXT_SETTINGS: Final = {
    "timezone": "UTC",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
}


def _bool(text: str) -> bool:
    return {"t": True, "f": False}[text]


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(f"no bytea: {text[:20]!r}")
    return bytes.fromhex(text[2:])


_CONVERT: Final[dict[Kind, Callable[[str], Any]]] = {
    Kind.INT: int,
    Kind.TIMER: int,
    Kind.FLOAT: float,
    Kind.BOOL: _bool,
    Kind.STR: str,
    Kind.CATEGORY: str,
    Kind.BYTES: _bytes,
    Kind.TIMESTAMP: timestamp,
    Kind.LIST: orjson.loads,
    Kind.RECORD: orjson.loads,
}


@functools.lru_cache(maxsize=256)
def _converter(kind: FieldType) -> Callable[[str], Any]:
    """The function from a text to what a field takes; texts of dates and Decimals it takes as they are."""
    shape = kind.shape
    if shape is None:
        return _nested(kind) or _CONVERT[kind.kind]
    if shape.name == "datetime":
        outward = shape.outward
        return lambda text: outward(timestamp(text))
    if shape.name == "timedelta":
        return lambda text: timedelta(microseconds=interval_word(text))
    return json.loads if shape.name == "json" else str


def _nested(kind: FieldType) -> Callable[[str], Any] | None:
    """The function for a list or record with values that users see as Python's own types; None for others."""
    outward = outward_of(kind) if kind.kind in (Kind.LIST, Kind.RECORD) else None
    if outward is None:
        return None
    parse, shown = value_parser(kind), outward

    def convert(text: str) -> Any:
        value = parse(text.encode())
        return None if value is None else shown(value)

    return convert


def row_of(record: Schema, texts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record that a row has.

    Raises:
        ValueError: one does not fit, or is not in the log.
    """
    return {
        field.name: value_of(field.name, field.type, texts[field.name])
        for field in record.fields
        if field.name in texts
    }


def value_of(name: str, kind: FieldType, text: Any) -> Any:
    """The value of a text.

    Raises:
        ValueError: it does not fit, or is not in the log.
    """
    if text is None:
        return None
    if text is Unchanged:
        raise ValueError(
            f"{name}: a large value that the update left as it was is not in the log; have it there by"
            " ALTER TABLE … REPLICA IDENTITY FULL"
        )
    try:
        return _converter(kind)(text)
    except (ValueError, KeyError, OverflowError) as error:
        raise ValueError(f"{name}: {text[:60]!r} is no {kind}: {error}") from None
