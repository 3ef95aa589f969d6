"""Types as users write them, and Arrow's, as the types of fields."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import sys
import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import pyarrow as pa

from thalweg.checks import known_keywords
from thalweg.errors import SchemaError
from thalweg.flow.fields.arrow_types import is_binary_like, is_list_like, is_text, plain_type
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.shapes import MOST_DIGITS, ValueShape
from thalweg.flow.fields.user_rows import is_typed_dict

if TYPE_CHECKING:
    from thalweg.flow.records import Schema


class _Mark:
    """Tells our annotated types from the plain ones they stand for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tw.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_mark, (self.name,))


def _mark(name: str) -> _Mark:
    return next(one for one in _MARKED if one.name == name)


_TIMESTAMP: Final = _Mark("Timestamp")
_CATEGORY: Final = _Mark("Category")
_TIMER: Final = _Mark("Timer")

#: Microseconds since 1970-01-01 UTC.
Timestamp: TypeAlias = Annotated[int, _TIMESTAMP]
#: Text with few different values: hashed once, cheap to compare in compiled functions (only ==, != and in).
Category: TypeAlias = Annotated[str, _CATEGORY]
#: The timer of a key: the time at which its ``on_timer`` is called; ``tw.NEVER`` when it is not armed.
Timer: TypeAlias = Annotated[int, _TIMER]


def is_user_class(source: Any) -> bool:
    return isinstance(source, type) and (dataclasses.is_dataclass(source) or is_typed_dict(source))


def hints_of(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as error:
        module = sys.modules.get(cls.__module__)
        raise SchemaError(
            f"the annotations of {cls.__name__} cannot be read: {error}"
            f" (module {getattr(module, '__name__', cls.__module__)}); define its types at module level"
        ) from None


_PLAIN: Final = {
    int: Kind.INT,
    float: Kind.FLOAT,
    bool: Kind.BOOL,
    str: Kind.STR,
    bytes: Kind.BYTES,
}
_MARKED: Final = {_TIMESTAMP: Kind.TIMESTAMP, _CATEGORY: Kind.CATEGORY, _TIMER: Kind.TIMER}


#: Python's own types: how they are inside, see :mod:`thalweg.flow.fields.shapes`.
_SHAPED: Final = {
    datetime.datetime: FieldType(Kind.TIMESTAMP, shape=ValueShape("datetime")),
    datetime.date: FieldType(Kind.INT, shape=ValueShape("date")),
    datetime.timedelta: FieldType(Kind.INT, shape=ValueShape("timedelta")),
    Decimal: FieldType(Kind.INT, shape=ValueShape("Decimal", MOST_DIGITS, 6)),
}


@known_keywords
def decimal(precision: int, scale: int) -> Any:
    """Says of a ``Decimal`` field how many digits it has, and how many of them behind the point.

    ``Annotated[Decimal, tw.decimal(18, 2)]``; ``tw.Money`` is just that. A value that does not fit exactly is refused.

    Raises:
        SchemaError: there are more than 18 digits, or fewer than behind the point.
    """
    if isinstance(precision, bool) or not (
        isinstance(precision, int) and 1 <= precision <= MOST_DIGITS
    ):
        raise SchemaError(
            f"decimal: precision is a number of digits from 1 to {MOST_DIGITS}, got {precision!r}; for more use str,"
            " and Decimal(...) in your function"
        )
    if isinstance(scale, bool) or not (isinstance(scale, int) and 0 <= scale <= precision):
        raise SchemaError(f"decimal: scale is a number from 0 to precision, got {scale!r}")
    return ValueShape("Decimal", precision, scale)


#: A Decimal of 18 digits, two of them behind the point.
Money: TypeAlias = Annotated[Decimal, ValueShape("Decimal", MOST_DIGITS, 2)]


def _check_decimal(hint: Any, shape: ValueShape, where: str) -> None:
    if hint is not Decimal:
        raise SchemaError(
            f"{where}: tw.decimal({shape.precision}, {shape.scale}) goes with Decimal, not {hint!r}"
        )


def field_type(hint: Any, where: str) -> FieldType:
    if hint in _PLAIN:
        return FieldType(_PLAIN[hint])
    if hint in _SHAPED:
        return _SHAPED[hint]
    origin = typing.get_origin(hint)
    if origin is Annotated:
        for mark in hint.__metadata__:
            if isinstance(mark, _Mark):
                return FieldType(_MARKED[mark])
            if isinstance(mark, ValueShape):
                _check_decimal(hint.__origin__, mark, where)
                return FieldType(Kind.INT, shape=mark)
        return field_type(hint.__origin__, where)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(hint)):
            return dataclasses.replace(field_type(rest[0], where), optional=True)
    if origin is list and len(typing.get_args(hint)) == 1:
        return FieldType(Kind.LIST, item=field_type(typing.get_args(hint)[0], where))
    named = isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")
    if named or is_user_class(hint):
        return FieldType(Kind.RECORD, record=_record_of(hint))
    if origin is dict or hint in (dict, Any):
        return FieldType(Kind.STR, hint is Any, shape=ValueShape("json"))
    raise SchemaError(
        f"{where} is of type {hint!r}; a field is int, float, bool, str, bytes, tw.Timestamp, tw.Category, datetime,"
        " date, timedelta, Decimal, dict[str, Any] for JSON, another record, a list of one of these, or one of"
        f" them | None{_instead(hint)}"
    )


def _record_of(hint: Any) -> Schema:
    # Records are made of fields, and fields may hold records.
    from thalweg.flow.records import Schema

    return Schema.of(hint)


_INSTEAD: Final[Mapping[Any, str]] = {
    datetime.time: "for a time of day use a timedelta since midnight",
    complex: "use two floats",
    tuple: "use a NamedTuple or a list",
    set: "use a list",
    frozenset: "use a list",
}


def _instead(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "; for an Enum use tw.Category with its values"
    advice = _INSTEAD.get(typing.get_origin(hint) or hint)
    return f"; {advice}" if advice else ""


def from_arrow_type(kind: pa.DataType, where: str, nullable: bool) -> FieldType:
    found = plain_type(kind)
    if is_text(found):
        coded = pa.types.is_dictionary(kind)
        return FieldType(Kind.CATEGORY if coded else Kind.STR, nullable)
    shape = _shape_of(found)
    if shape is not None:
        return FieldType(Kind.INT, nullable, shape=shape)
    checks = (
        (Kind.BOOL, pa.types.is_boolean),
        (Kind.INT, pa.types.is_integer),
        (Kind.FLOAT, pa.types.is_floating),
        (Kind.BYTES, is_binary_like),
        (Kind.TIMESTAMP, lambda t: pa.types.is_timestamp(t) or pa.types.is_date(t)),
    )
    for one, fits in checks:
        if fits(found):
            return FieldType(one, nullable)
    if is_list_like(found):
        item = from_arrow_type(found.value_type, where, found.value_field.nullable)
        return FieldType(Kind.LIST, nullable, item=item)
    if pa.types.is_struct(found):
        return FieldType(Kind.RECORD, nullable, record=_arrow_record(where, pa.schema(list(found))))
    raise SchemaError(
        f"column {where!r} has the Arrow type {kind}, which no record field can hold; cast it"
    )


def _arrow_record(name: str, schema: pa.Schema) -> Schema:
    from thalweg.flow.records import Schema

    return Schema.of_arrow(name, schema)


def _shape_of(kind: pa.DataType) -> ValueShape | None:
    """What users see of durations and decimals; dates and times of Arrow schemas are Timestamps."""
    if pa.types.is_duration(kind):
        return ValueShape("timedelta")
    if pa.types.is_decimal128(kind) and kind.precision <= MOST_DIGITS and kind.scale >= 0:
        return ValueShape("Decimal", kind.precision, kind.scale)
    return None
