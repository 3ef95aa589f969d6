"""Lists and records between Arrow and Python: as rows have them inside, times and digits as ints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from thalweg.flow.fields.field_types import FieldType, Kind


def unnested(kind: FieldType, values: Sequence[Any]) -> Sequence[Any]:
    """Values as Arrow takes them: lists of plain values as they are."""
    item = kind.item
    if item is not None and item.kind not in (Kind.LIST, Kind.RECORD) and not _has_digits(item):
        return values
    return [_plain(kind, one) for one in values]


def _has_digits(kind: FieldType) -> bool:
    return kind.shape is not None and kind.shape.name == "Decimal"


def _plain(kind: FieldType, value: Any) -> Any:
    """Nested records as dicts, which is what Arrow builds structs from, and numbers of digits as such."""
    if value is None:
        return None
    if kind.record is not None:
        pairs = zip(kind.record.fields, value, strict=True)
        return {field.name: _plain(field.type, one) for field, one in pairs}
    if kind.item is not None:
        return [_plain(kind.item, one) for one in value]
    if kind.shape is not None and _has_digits(kind):
        return kind.shape.outward(value)
    return value


def nested_values(kind: FieldType, array: pa.Array) -> list[Any]:
    """Arrow's Python values with nested structs as records and nested times as Timestamps."""
    if kind.kind is Kind.RECORD or (kind.kind is Kind.LIST and kind.item is not None):
        plain = _with_plain_times(array.type)
        values = array if plain == array.type else array.cast(plain)
        return [_nested(kind, value) for value in values.to_pylist()]
    out: list[Any] = array.to_pylist()
    return out


def _with_plain_times(kind: pa.DataType) -> pa.DataType:
    """The type with ints in place of timestamps: Python's calendar ends where microseconds go on."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        inner = kind.value_field
        return pa.list_(inner.with_type(_with_plain_times(inner.type)))
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_with_plain_times(one.type)) for one in kind])
    return kind


def _nested(kind: FieldType, value: Any) -> Any:
    if value is None:
        return None
    if kind.kind is Kind.LIST and kind.item is not None:
        return [_nested(kind.item, one) for one in value]
    if kind.record is not None:
        return kind.record.make([_nested(f.type, value[f.name]) for f in kind.record.fields])
    if kind.shape is not None and _has_digits(kind):
        return kind.shape.inward(value)
    return value
