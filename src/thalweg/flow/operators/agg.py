"""Aggregates of windows and sessions: ``window("1 hour", total=tw.agg.sum("amount"), n=tw.agg.count())``.

Here is what users write; :mod:`thalweg.flow.operators.aggregates` binds an aggregate to a record, and
:mod:`thalweg.flow.operators.windowing.windows` puts the texts of all aggregates of a window into one function, so that
a window with five aggregates is still one compiled pass. docs/aggregates.md has all of them in a table.

Nulls and NaN are as in Spark SQL: what is computed from a field leaves its nulls out and is null where there is nothing
else (a window has at least one row, so that needs an Optional field or ``where=``), and NaN is greater than every
number. An extreme of -0.0 is given as 0.0, so that it does not depend on the order of the rows.

``where=`` is the name of a bool field, or a function of the row: only rows for which it is true count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

from thalweg.checks import (
    known_keywords,
    no_attribute,
    refuse,
    require_flag,
    require_function,
    require_rows,
    require_text,
    shown,
)
from thalweg.errors import BuildError

Verb = Literal[
    "count", "sum", "min", "max", "mean", "top_k", "first", "last", "min_by", "max_by", "variance", "stddev",
    "collect", "count_distinct", "approx_count_distinct", "approx_quantile", "own",
]  # fmt: skip
#: Which rows count: the name of a bool field, or a function of the row.
Where: TypeAlias = str | Callable[[Any], Any] | None
_Acc = TypeVar("_Acc")


@dataclasses.dataclass(frozen=True, slots=True)
class OwnFunctions:
    """The functions of a user's aggregate."""

    init: Any
    add: Callable[..., Any]
    merge: Callable[..., Any] | None
    retract: Callable[..., Any] | None
    result: Callable[..., Any] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: its verb, the field it reads (None for count, or the whole row), and what its verb needs more.

    ``k`` is a number of rows, or the size of a sketch; ``shares`` are those of quantiles.
    """

    verb: Verb
    field: str | None = None
    k: int = 0
    where: Where = None
    by: str | None = None
    ties: bool = False
    population: bool = False
    shares: float | tuple[float, ...] | None = None
    own: OwnFunctions | None = None

    @property
    def described(self) -> str:
        """What it does, in full: two that are described alike have the same state."""
        said = [(one.name, getattr(self, one.name)) for one in dataclasses.fields(self)]
        return ", ".join(f"{name} {_told(value)}" for name, value in said if value)


def _told(value: Any) -> str:
    """A value as text that is the same in every process."""
    if isinstance(value, OwnFunctions):
        parts = [getattr(value, one.name) for one in dataclasses.fields(value)]
        return " ".join(_told(one) for one in parts if one is not None)
    return str(getattr(value, "__qualname__", value))


def _checked(verb: str, where: Where, *, optional: str | None = None, **fields: str) -> None:
    require_text(f"agg.{verb}", **fields)
    if optional is not None:
        require_text(f"agg.{verb}", field=optional)
    if where is not None and (where == "" or not (isinstance(where, str) or callable(where))):
        raise refuse(f"agg.{verb}", "where", "the name of a bool field, or a function", where)


@known_keywords
def count(*, where: Where = None) -> Aggregate:
    """The number of rows, with or without nulls."""
    _checked("count", where)
    return Aggregate("count", where=where)


@known_keywords
def sum(field: str, *, where: Where = None) -> Aggregate:
    """The sum of a number field; nulls are left out, and where the window has nothing else the sum is null.

    The sum of ints and bools is an int; one beyond 64 bits is an error on the row that makes it so.
    """
    _checked("sum", where, field=field)
    return Aggregate("sum", field, where=where)


@known_keywords
def min(field: str, *, where: Where = None) -> Aggregate:
    """The least value of a field; null only where no row that counts has a value.

    NaN counts as greater than every number: it is the least only of nothing but NaN.
    """
    _checked("min", where, field=field)
    return Aggregate("min", field, where=where)


@known_keywords
def max(field: str, *, where: Where = None) -> Aggregate:
    """The greatest value of a field, NaN if the window has a NaN; null as for :func:`min`."""
    _checked("max", where, field=field)
    return Aggregate("max", field, where=where)


@known_keywords
def mean(field: str, *, where: Where = None) -> Aggregate:
    """The arithmetic mean of a number field as a float; nulls as for :func:`sum`."""
    _checked("mean", where, field=field)
    return Aggregate("mean", field, where=where)


@known_keywords
def variance(field: str, *, population: bool = False, where: Where = None) -> Aggregate:
    """The variance of a number field, of a sample or of the ``population``; by Welford's method, which does not cancel.

    That of a sample is null where there are fewer than two values.
    """
    _checked("variance", where, field=field)
    require_flag("agg.variance", population=population)
    return Aggregate("variance", field, where=where, population=population)


@known_keywords
def stddev(field: str, *, population: bool = False, where: Where = None) -> Aggregate:
    """The standard deviation: the square root of :func:`variance`."""
    _checked("stddev", where, field=field)
    require_flag("agg.stddev", population=population)
    return Aggregate("stddev", field, where=where, population=population)


@known_keywords
def first(field: str | None = None, *, where: Where = None) -> Aggregate:
    """The first value of a field that is not null; without a field the first row, as a record."""
    _checked("first", where, optional=field)
    return Aggregate("first", field, where=where)


@known_keywords
def last(field: str | None = None, *, where: Where = None) -> Aggregate:
    """The last value of a field that is not null; without a field the last row, as a record."""
    _checked("last", where, optional=field)
    return Aggregate("last", field, where=where)


@known_keywords
def min_by(by: str, field: str | None = None, *, where: Where = None) -> Aggregate:
    """The row (or its ``field``) with the least value of ``by``; of equal ones the first (arg_min)."""
    _checked("min_by", where, optional=field, by=by)
    return Aggregate("min_by", field, where=where, by=by)


@known_keywords
def max_by(by: str, field: str | None = None, *, where: Where = None) -> Aggregate:
    """The row (or its ``field``) with the greatest value of ``by``; of equal ones the first (arg_max).

    Rows with a null in ``by`` are left out; NaN is greater than every number.
    """
    _checked("max_by", where, optional=field, by=by)
    return Aggregate("max_by", field, where=where, by=by)


@known_keywords
def top_k(k: int, by: str, *, ties: bool = False, where: Where = None) -> Aggregate:
    """The k rows with the greatest values of a field, greatest first, NaN before numbers; ties by first arrival.

    With ``ties`` also all rows as good as the k-th (SQL's ``rank() <= k``). Rows with a null there are left out; of
    nothing else it is an empty list.
    """
    require_rows("agg.top_k", k=k)
    _checked("top_k", where, by=by)
    require_flag("agg.top_k", ties=ties)
    return Aggregate("top_k", by, k, where=where, ties=ties)


@known_keywords
def collect(field: str | None = None, *, last: int, where: Where = None) -> Aggregate:
    """The values of a field, without nulls, in order as a list: the ``last`` so many; without a field the rows."""
    _checked("collect", where, optional=field)
    require_rows("agg.collect", last=last)
    return Aggregate("collect", field, last, where=where)


@known_keywords
def count_distinct(field: str, *, where: Where = None) -> Aggregate:
    """How many values of a field differ, exactly; its state has each of them. Nulls are left out, NaN is one value."""
    _checked("count_distinct", where, field=field)
    return Aggregate("count_distinct", field, where=where)


@known_keywords
def approx_count_distinct(field: str, *, size: int = 12, where: Where = None) -> Aggregate:
    """About how many values differ, by a HyperLogLog of ``2**size`` bytes: at 12 within 2 % two times of three.

    Needs ``pip install 'thalweg[sketches]'``.
    """
    _checked("approx_count_distinct", where, field=field)
    if isinstance(size, bool) or not isinstance(size, int) or not 4 <= size <= 21:
        raise refuse("agg.approx_count_distinct", "size", "a whole number from 4 to 21", size)
    return Aggregate("approx_count_distinct", field, size, where=where)


@known_keywords
def approx_quantile(
    field: str, share: float | Sequence[float], *, size: int = 200, where: Where = None
) -> Aggregate:
    """About the value below which a ``share`` of the values lies (0.5: the median), by a t-digest of ``size``.

    Several shares give a list. Nulls and NaN are left out. Needs ``pip install 'thalweg[sketches]'``.
    """
    _checked("approx_quantile", where, field=field)
    if isinstance(size, bool) or not isinstance(size, int) or not 10 <= size <= 65_535:
        raise refuse("agg.approx_quantile", "size", "a whole number from 10 to 65535", size)
    shares = tuple(share) if isinstance(share, list | tuple) else (share,)
    for one in shares:
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one <= 1:
            raise refuse("agg.approx_quantile", "share", "a number from 0 to 1, or several", one)
    if not shares:
        raise refuse("agg.approx_quantile", "share", "a number from 0 to 1, or several", share)
    several = tuple(float(one) for one in shares)
    asked = several if isinstance(share, list | tuple) else several[0]
    return Aggregate("approx_quantile", field, size, where=where, shares=asked)


@known_keywords
def aggregate(
    *,
    init: _Acc | Callable[[], _Acc],
    add: Callable[[_Acc, Any], _Acc],
    merge: Callable[[_Acc, _Acc], _Acc] | None = None,
    retract: Callable[[_Acc, Any], _Acc] | None = None,
    result: Callable[[_Acc], Any] | None = None,
    where: Where = None,
) -> Aggregate:
    """An aggregate of your own, over an accumulator: a number, a text, a NamedTuple, a tuple, a list or a dict.

    Args:
        init: the first accumulator, or a function that makes it.
        add: ``add(accumulator, row)`` gives the next; its return annotation is the accumulator's type.
        merge: ``merge(earlier, later)`` gives that of both; rolling windows need it, or ``retract``.
        retract: ``retract(accumulator, row)`` takes the oldest row out again, exactly.
        result: ``result(accumulator)``, annotated; without it the accumulator is the result.
        where: which rows count.
    """
    _checked("aggregate", where)
    if init is None:
        raise refuse("agg.aggregate", "init", "an accumulator, or a function that makes it", init)
    require_function("agg.aggregate", add=add)
    for name, call in (("merge", merge), ("retract", retract), ("result", result)):
        if call is not None:
            require_function("agg.aggregate", **{name: call})
    return Aggregate("own", where=where, own=OwnFunctions(init, add, merge, retract, result))


@known_keywords
def of_class(cls: type, *, where: Where = None) -> Aggregate:
    """:func:`aggregate` of a class with the static methods ``init``, ``add`` and, if it has them, the others."""
    lacking = [name for name in ("init", "add") if not callable(getattr(cls, name, None))]
    if not isinstance(cls, type) or lacking:
        raise BuildError(
            f"agg.of_class: cls: expected a class with the static methods init() and add(accumulator, row),"
            f" got {shown(cls)}"
        )
    others = {name: getattr(cls, name, None) for name in ("merge", "retract", "result")}
    made: Any = cls
    return aggregate(init=made.init, add=made.add, where=where, **others)


_PUBLIC: Final = (
    "approx_count_distinct", "approx_quantile", "collect", "count", "count_distinct", "first", "last", "max", "max_by",
    "mean", "min", "min_by", "of_class", "stddev", "sum", "top_k", "variance",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    raise no_attribute("tw.agg", name, _PUBLIC)
