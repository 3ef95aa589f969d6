"""The types of state fields beyond those of records: deques, dicts and tuples.

Each is a list or a record in files and between slots (``FieldType.kind``); ``FieldType.form`` says what
a user's function sees. So a deque is a list column, a dict a list of (key, value) in the order of
insertion, a tuple a struct.
"""

from __future__ import annotations

import collections
import dataclasses
import types
import typing
from typing import Any, Final

from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.hints import field_type
from thalweg.flow.fields.user_rows import outward_of
from thalweg.flow.records import Field, Schema

#: The kinds that a dict's keys may have.
_KEYS: Final = {Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.STR, Kind.TIMESTAMP, Kind.CATEGORY}


def state_field_type(hint: Any, default: Any, where: str) -> FieldType:
    """The type of a state's field; a deque takes its ``maxlen`` from the default.

    Raises:
        SchemaError: a state cannot hold it.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in arguments if one is not type(None)]
        if len(rest) == 1 and len(rest) < len(arguments):
            inner = state_field_type(rest[0], default, where)
            if inner.form in ("deque", "dict"):
                raise SchemaError(f"{where} is a {inner.form} | None; write an empty one for None")
            return dataclasses.replace(inner, optional=True)
    if origin is collections.deque:
        item = state_field_type(arguments[0], None, where)
        return FieldType(
            Kind.LIST, item=item, form="deque", maxlen=getattr(default, "maxlen", None)
        )
    if origin is dict:
        return FieldType(Kind.LIST, item=_entry(arguments, where), form="dict")
    if origin is list and len(arguments) == 1:
        return FieldType(Kind.LIST, item=state_field_type(arguments[0], None, where))
    if origin is tuple and arguments and Ellipsis not in arguments:
        return FieldType(Kind.RECORD, record=_tuple(arguments, where), form="tuple")
    if hint in (collections.deque, dict, list, tuple):
        raise SchemaError(f"{where} is a {hint.__name__} of anything; write {hint.__name__}[...]")
    return _kept(field_type(hint, where), where)


_INSTEAD: Final = {
    "datetime": "tw.Timestamp, with tw.timestamp(...) of it",
    "date": "int, with its toordinal()",
    "timedelta": "int of microseconds, with tw.times.duration(...) of it",
    "json": "str, with json.dumps(...) of it",
}


def _kept(kind: FieldType, where: str) -> FieldType:
    """The type, if a state can hold it.

    Raises:
        SchemaError: users see something else of it than what is inside.
    """
    if outward_of(kind) is None:
        return kind
    if kind.shape is None:
        raise SchemaError(
            f"{where} is {kind}: a state keeps records that are NamedTuples of plain fields; write such a class"
        )
    instead = _INSTEAD.get(kind.shape.name, "int, with the value in its smallest unit")
    raise SchemaError(f"{where} is a {kind}, which a state cannot keep; use {instead}")


def _entry(arguments: tuple[Any, ...], where: str) -> FieldType:
    key, value = (state_field_type(one, None, where) for one in arguments)
    if key.optional or (key.kind not in _KEYS and not (key.form == "tuple" and _are_keys(key))):
        raise SchemaError(
            f"{where} is a dict by {key}; its keys are numbers, texts or tuples of these"
        )
    return FieldType(
        Kind.RECORD, record=Schema.make_record("Entry", [Field("key", key), Field("value", value)])
    )


def _are_keys(kind: FieldType) -> bool:
    assert kind.record is not None
    return all(f.type.kind in _KEYS and not f.type.optional for f in kind.record.fields)


def _tuple(arguments: tuple[Any, ...], where: str) -> Schema:
    kinds = [state_field_type(one, None, where) for one in arguments]
    return Schema.make_record("Tuple", [Field(f"item_{i}", k) for i, k in enumerate(kinds)])


def revived(kind: FieldType, value: Any) -> Any:
    """What a user's function sees of a value in the form of :meth:`FieldType.coerce`; a fresh object."""
    if value is None:
        return None
    if kind.form == "tuple":
        assert kind.record is not None
        return tuple(map(revived, [f.type for f in kind.record.fields], value))
    if kind.kind is not Kind.LIST or kind.item is None:
        return value
    items = value if not needs_revival(kind.item) else [revived(kind.item, one) for one in value]
    if kind.form == "deque":
        return collections.deque(items, kind.maxlen)
    if kind.form == "dict":
        assert kind.item.record is not None
        (key, of) = (field.type for field in kind.item.record.fields)
        return {revived(key, one[0]): revived(of, one[1]) for one in items}
    return list(items)


def needs_revival(kind: FieldType) -> bool:
    """Whether a user's function sees something else than Arrow's values give."""
    if kind.form:
        return True
    if kind.item is not None:
        return needs_revival(kind.item)
    return kind.record is not None and any(needs_revival(f.type) for f in kind.record.fields)
