"""Aggregates of windows and sessions: ``window("1 hour", total=tw.agg.sum("amount"), n=tw.agg.count())``.

Each aggregate says which state fields it needs and gives the source text of its update and of its result;
:mod:`thalweg.flow.operators.windows` puts the texts of all aggregates of a window into one function, so that a
window with five aggregates is still one compiled pass.

Nulls and NaN are as in Spark SQL: what is computed from a field leaves its nulls out and is null where there is nothing
else (a window has at least one row, so that needs an Optional field), and NaN is greater than every number. An extreme
of -0.0 is given as 0.0, so that it does not depend on the order of the rows.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from thalweg.brief import brief_repr
from thalweg.checks import known_keywords, meant, require_rows, require_text
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Field, Schema

Verb = Literal["count", "sum", "min", "max", "mean", "top_k"]


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: its verb, the field it reads (None for count) and k for top_k."""

    verb: Verb
    field: str | None = None
    k: int = 0

    @property
    def described(self) -> str:
        """What it does, in full: two that are described alike have the same state."""
        said = [(one.name, getattr(self, one.name)) for one in dataclasses.fields(self)]
        return ", ".join(
            f"{name} {getattr(value, '__qualname__', value)}" for name, value in said if value
        )


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """An aggregate bound to a record: state fields, result type, and the texts of update and result."""

    state: tuple[Field, ...]
    result: FieldType
    update: tuple[str, ...]
    value: str


@known_keywords
def count() -> Aggregate:
    """The number of rows, with or without nulls."""
    return Aggregate("count")


@known_keywords
def sum(field: str) -> Aggregate:
    """The sum of a number field; nulls are left out, and where the window has nothing else the sum is null.

    The sum of ints and bools is an int; one beyond 64 bits is an error on the row that makes it so.
    """
    require_text("agg.sum", field=field)
    return Aggregate("sum", field)


@known_keywords
def min(field: str) -> Aggregate:
    """The least value of a field; null only where the field is Optional and has no value in the window.

    NaN counts as greater than every number: it is the least only of nothing but NaN.
    """
    require_text("agg.min", field=field)
    return Aggregate("min", field)


@known_keywords
def max(field: str) -> Aggregate:
    """The greatest value of a field, NaN if the window has a NaN; null as for :func:`min`."""
    require_text("agg.max", field=field)
    return Aggregate("max", field)


@known_keywords
def mean(field: str) -> Aggregate:
    """The arithmetic mean of a number field as a float; nulls as for :func:`sum`."""
    require_text("agg.mean", field=field)
    return Aggregate("mean", field)


@known_keywords
def top_k(k: int, by: str) -> Aggregate:
    """The k rows with the greatest values of a field, greatest first, NaN before numbers; ties by first arrival.

    Rows with a null there are left out; of nothing else it is an empty list.
    """
    require_rows("agg.top_k", k=k)
    require_text("agg.top_k", by=by)
    return Aggregate("top_k", by, k)


#: Arguments of windows that a misspelled aggregate may mean.
_OF_WINDOWS = ("size", "gap", "function", "every", "start", "name", "into")
_NUMBERS = (Kind.INT, Kind.FLOAT, Kind.BOOL)


def bind(name: str, aggregate: Aggregate, row: Schema, operator: str) -> Part:
    """The aggregate's part in a window over records of ``row``, its result called ``name``.

    Raises:
        BuildError: the field is missing or of a type that the aggregate cannot read.
    """
    if not isinstance(aggregate, Aggregate):
        raise BuildError(
            f"operator {operator!r}: {name}= wants an aggregate such as tw.agg.sum('field'), got"
            f" {aggregate!r}{meant(name, _OF_WINDOWS)}"
        )
    if aggregate.verb == "count":
        field = Field(f"{name}_", FieldType(Kind.INT), 0)
        return Part((field,), field.type, (f"state.{name}_ += 1",), f"state.{name}_")
    assert aggregate.field is not None
    kind = row.field(aggregate.field).type
    _check_shape(operator, aggregate, kind)
    if aggregate.verb in ("sum", "mean") and kind.kind not in _NUMBERS:
        raise BuildError(
            f"operator {operator!r}: {aggregate.verb} needs a number, {row.name}.{aggregate.field} is {kind}"
        )
    make = {"sum": _sum, "mean": _mean, "min": _extreme, "max": _extreme, "top_k": _top_k}[
        aggregate.verb
    ]
    part = make(name, aggregate, kind, row)
    if kind.optional:
        guarded = (
            f"if row.{aggregate.field} is not None:",
            *(f"    {line}" for line in part.update),
        )
        return dataclasses.replace(part, update=guarded)
    return part


def _check_shape(operator: str, aggregate: Aggregate, kind: FieldType) -> None:
    """Refuses what has no meaning for values that users see as Python's own types."""
    shape = kind.shape.name if kind.shape is not None else ""
    if aggregate.verb == "mean" and shape:
        raise BuildError(
            f"operator {operator!r}: mean gives a float, {aggregate.field} is {kind}; take sum and count, and divide"
        )
    if (aggregate.verb == "sum" and shape == "date") or shape == "json":
        raise BuildError(
            f"operator {operator!r}: {aggregate.verb} cannot compute with {aggregate.field}, which is {kind}"
        )


def _sum(name: str, aggregate: Aggregate, kind: FieldType, row: Schema) -> Part:
    total = FieldType(Kind.FLOAT if kind.kind is Kind.FLOAT else Kind.INT)
    field = Field(f"{name}_", total, 0.0 if total.kind is Kind.FLOAT else 0)
    total = dataclasses.replace(total, shape=kind.shape)
    add, value = f"state.{name}_ += row.{aggregate.field}", f"state.{name}_"
    if not kind.optional:
        return Part((field,), total, (add,), value)
    seen = Field(f"{name}_seen", FieldType(Kind.BOOL), False)
    return Part(
        (field, seen),
        dataclasses.replace(total, optional=True),
        (add, f"state.{name}_seen = True"),
        f"{value} if state.{name}_seen else None",
    )


def _mean(name: str, aggregate: Aggregate, kind: FieldType, row: Schema) -> Part:
    total = Field(f"{name}_sum", FieldType(Kind.FLOAT), 0.0)
    seen = Field(f"{name}_n", FieldType(Kind.INT), 0)
    update = (f"state.{name}_sum += row.{aggregate.field}", f"state.{name}_n += 1")
    value = f"state.{name}_sum / state.{name}_n"
    if kind.optional:
        value += f" if state.{name}_n else None"
    return Part((total, seen), FieldType(Kind.FLOAT, kind.optional), update, value)


_ZERO = {Kind.FLOAT: 0.0, Kind.BOOL: False, Kind.STR: "", Kind.CATEGORY: "", Kind.BYTES: b""}


def _extreme(name: str, aggregate: Aggregate, kind: FieldType, row: Schema) -> Part:
    plain = dataclasses.replace(kind, optional=False)
    if kind.kind in (Kind.LIST, Kind.RECORD):
        raise BuildError(
            f"{aggregate.verb} cannot compare {row.name}.{aggregate.field}, which is {kind}"
        )
    value = Field(f"{name}_", plain, _ZERO.get(kind.kind, 0))
    seen = Field(f"{name}_seen", FieldType(Kind.BOOL), False)
    given, held = f"row.{aggregate.field}", f"state.{name}_"
    if aggregate.verb == "min":
        better, greater = f"{given} < {held}", held
    else:
        better, greater = f"{given} > {held}", given
    if kind.kind is Kind.FLOAT:
        better += f" or {greater} != {greater}"  # NaN
    update = (
        f"if not state.{name}_seen or {better}:",
        f"    state.{name}_ = row.{aggregate.field}",
        f"    state.{name}_seen = True",
    )
    text = f"{held} + 0.0" if kind.kind is Kind.FLOAT else held  # 0.0 for -0.0
    if kind.optional:
        text = f"{text} if state.{name}_seen else None"
    return Part((value, seen), kind, update, text)


def _top_k(name: str, aggregate: Aggregate, kind: FieldType, row: Schema) -> Part:
    held = FieldType(Kind.LIST, item=FieldType(Kind.RECORD, record=row))
    by = f"one.{aggregate.field}"
    if kind.kind is Kind.FLOAT:
        by = f"({by} != {by}, {by})"  # NaN first
    update = (
        f"state.{name}_.append(ITEM(row[:-1]))",  # without the stamp of the window or session
        f"state.{name}_.sort(key=lambda one: {by}, reverse=True)",
        f"del state.{name}_[{aggregate.k}:]",
    )
    return Part((Field(f"{name}_", held, []),), held, update, f"state.{name}_")
