"""Aggregates that the user defines: functions over an accumulator."""

from __future__ import annotations

import dataclasses
from typing import Any

from thalweg.errors import BuildError, SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.fields.hints import field_type
from thalweg.flow.fields.user_rows import Adapter, users_own
from thalweg.flow.operators.aggregates.parts import AskedAggregate, Part, whole_row
from thalweg.flow.operators.functions import Function, hints_of
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.records import Field
from thalweg.flow.state_types import revived, state_field_type


def own(asked: AskedAggregate) -> Part:
    """The part of a user's aggregate: ``add`` for each row, ``merge`` and ``retract`` where they are given."""
    made = asked.aggregate.own
    assert made is not None
    label, name = asked.operator, asked.name
    add = _function(asked, made.add, "add", ["accumulator", "row"])
    kind, first = _accumulator(asked, add)
    held, whole = f"state.{name}_", whole_row(asked.row)
    scope: dict[str, Any] = {f"add_{name}": on_rows(asked, made.add, 1)}
    value, result = held, kind
    if made.result is not None:
        function = _function(asked, made.result, "result", ["accumulator"])
        result = _typed(asked, function, "result")
        scope[f"result_{name}"] = made.result
        value = f"result_{name}({held})"
    elif kind.form:
        raise asked.refuse(f"the accumulator is {kind}; say what the result is by result=")
    merge: tuple[str, ...] = ()
    if made.merge is not None:
        _function(asked, made.merge, "merge", ["earlier", "later"])
        scope[f"merge_{name}"] = made.merge
        merge = (f"{held} = merge_{name}({held}, other.{name}_)",)
    retract: tuple[str, ...] = ()
    if made.retract is not None:
        _function(asked, made.retract, "retract", ["accumulator", "row"])
        scope[f"retract_{name}"] = on_rows(asked, made.retract, 1)
        retract = (f"{held} = retract_{name}({held}, {whole})",)
    try:
        state = Field(f"{name}_", kind, kind.coerce(first))
    except TypeError as error:
        raise BuildError(f"operator {label!r}: {name}: init: {error}") from None
    empty = {state.name: _empty(asked, kind, state.default, scope)}
    return Part(
        (state,), result, (f"{held} = add_{name}({held}, {whole})",), value,
        merge=merge, retract=retract, reads=asked.row.names, scope=scope, empty=empty,
    )  # fmt: skip


def _function(asked: AskedAggregate, call: Any, what: str, wanted: list[str]) -> Function:
    made = Function.of(call, asked.operator, argument=f"{asked.name}: {what}")
    given = dict.fromkeys(wanted) | ({"row": asked.row} if "row" in wanted else {})
    check_takes(made, asked.operator, given)
    return made


def on_rows(asked: AskedAggregate, call: Any, place: int = 0) -> Any:
    """A user's function as it takes rows inside; one that needs other rows than these is never compiled."""
    takes = (*([None] * place), asked.row.whole)
    return inside(Adapter(takes)(call))


def inside(call: Any) -> Any:
    """A function of rows inside, such that the compiler looks into it only where these are the user's own."""
    return call if users_own(call) is call else _Interpreted(call)


@dataclasses.dataclass(frozen=True, slots=True)
class _Interpreted:
    """A function that the compiler does not look into."""

    call: Any

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


def _accumulator(asked: AskedAggregate, add: Function) -> tuple[FieldType, Any]:
    """The accumulator's type, by the annotation of ``add`` or else by ``init``; and the first one."""
    assert asked.aggregate.own is not None
    first = asked.aggregate.own.init
    first = first() if callable(first) else first
    hint = hints_of(add, asked.operator).get("return", type(first))
    try:
        kind = state_field_type(hint, None, f"{asked.name}: the accumulator")
    except SchemaError as error:
        raise SchemaError(f"operator {asked.operator!r}: {error}; annotate add") from None
    return kind, first


def _typed(asked: AskedAggregate, function: Function, what: str) -> FieldType:
    hint = hints_of(function, asked.operator).get("return")
    if hint is None:
        raise asked.refuse(f"{what}: {function.where} does not say what it returns; annotate it")
    try:
        return field_type(hint, f"{asked.name}: {what}")
    except SchemaError as error:
        raise SchemaError(f"operator {asked.operator!r}: {error}") from None


def _empty(asked: AskedAggregate, kind: FieldType, first: Any, scope: dict[str, Any]) -> str:
    """The expression of the first accumulator; what it names goes into ``scope``."""
    name = f"init_{asked.name}"
    if kind.record is None or kind.form or not kind.record.names:
        made = asked.aggregate.own
        assert made is not None
        is_plain = kind.kind not in (Kind.LIST, Kind.RECORD)
        scope[name] = first if is_plain else _Interpreted(lambda: revived(kind, kind.coerce(first)))
        return name if is_plain else f"{name}()"
    scope[name] = kind.record.cls
    for i, value in enumerate(first):
        scope[f"{name}_{i}"] = value
    return f"{name}({', '.join(f'{name}_{i}' for i in range(len(first)))})"
