"""Arguments of the verbs, checked where they are given: durations, time fields, choices, key functions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from thalweg.checks import one_of, require_optional_text
from thalweg.errors import BuildError, SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.functions import Function
from thalweg.flow.records import Field, Schema
from thalweg.times import EXTREME, duration

Duration = str | int | dt.timedelta


def key_field(function: Function, into: Any) -> Field:
    """The key field of a key function: called after it, typed by annotation or ``into``."""
    from typing import NamedTuple

    hint = into
    if hint is None:
        hint = getattr(function.call, "__annotations__", {}).get("return")
        if isinstance(hint, str):
            import typing

            hint = typing.get_type_hints(function.call, include_extras=True)["return"]
    if hint is None:
        raise BuildError(
            f"key_by: {function.where} does not say of which type the key is; annotate it or pass into=int (say)"
        )
    name = "key" if function.is_lambda else function.name
    try:
        schema = Schema.of(NamedTuple(name, [(name, hint)]))
    except (SchemaError, ValueError) as error:
        raise BuildError(
            f"key_by: the key of {function.where} cannot be {hint!r}: {error}"
        ) from None
    shape = schema.fields[0].type.shape
    if shape is not None and shape.name == "json":
        raise BuildError(f"key_by: the key of {function.where} cannot be {hint!r}: make it a text")
    return schema.fields[0]


def names_renamed(flow: str, renamed: Any) -> dict[str, str]:
    """The names that operators had before, and those that they have.

    Raises:
        BuildError: it is no mapping of names, or two have the same new name.
    """
    if renamed is None:
        return {}
    if not isinstance(renamed, Mapping) or not all(
        isinstance(name, str) and name for pair in renamed.items() for name in pair
    ):
        raise BuildError(
            f"flow {flow!r}: renamed is a mapping of old names to new ones, got {renamed!r}"
        )
    names = [*renamed.values()]
    twice = next((name for name in names if names.count(name) > 1 or name in renamed), None)
    if twice is not None:
        raise BuildError(
            f"flow {flow!r}: renamed has {twice!r} twice: an operator has one name before and one now"
        )
    return dict(renamed)


def label_of(name: Any, usual: str) -> str:
    """The name of an operator: what was given, else the usual one.

    Raises:
        BuildError: what was given is no name.
    """
    require_optional_text(usual, name=name)
    return usual if name is None else str(name)


def record_of(where: str, what: str, given: Any) -> Schema:
    """The record of an argument.

    Raises:
        SchemaError: it is none.
    """
    try:
        return Schema.of(given)
    except SchemaError as error:
        raise SchemaError(f"{where}: {what}: {error}") from None


def time_field(schema: Schema, name: str, where: str) -> FieldType:
    kind = schema.field(name).type
    if kind.kind not in (Kind.TIMESTAMP, Kind.INT):
        raise BuildError(
            f"{where!r}: order_by={name!r} is {kind}; a stream is ordered by a Timestamp or an int field"
        )
    return FieldType(kind.kind)


def span(time: FieldType, value: Duration, where: str) -> int:
    if time.kind is Kind.INT:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise BuildError(
            f"{where}: the stream is ordered by an int, so give a number in its unit, not {value!r}"
        )
    try:
        return duration(value)
    except (ValueError, TypeError) as error:
        raise BuildError(f"{where}: {error}") from None


def lateness_span(time: FieldType, value: Duration, where: str) -> int:
    """A lateness: as :func:`span`, and neither negative nor longer than times can be apart.

    Raises:
        BuildError: it is one of these.
    """
    length = span(time, value, where)
    if not 0 <= length <= EXTREME:
        raise BuildError(
            f"{where} is how far rows may be behind, so 0 or more and below 2**62, not {value!r}"
        )
    return length


def choice(what: str, value: Any, allowed: tuple[str, ...], where: str) -> Any:
    """The one of these words that is meant, whatever the case of its letters."""
    return one_of(repr(where), what, value, allowed)
