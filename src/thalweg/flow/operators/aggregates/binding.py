"""An aggregate and a record make a part: checks the fields, adds which rows count."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from thalweg.checks import meant
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.aggregates import many, numeric, ordered, own, sketches
from thalweg.flow.operators.aggregates.parts import AskedAggregate, Part, whole_row
from thalweg.flow.operators.functions import Function
from thalweg.flow.operators.parameter_types import check_takes
from thalweg.flow.records import Schema
from thalweg.guesses import hint_of_option

#: Arguments of windows that a misspelled aggregate may mean.
_OF_WINDOWS: Final = (
    "size", "gap", "function", "every", "start", "name", "into", "early", "early_rows", "rows", "within",
)  # fmt: skip
_MAKERS: Final[Mapping[str, Callable[[AskedAggregate], Part]]] = {
    "count": numeric.count,
    "sum": numeric.sum,
    "mean": numeric.mean,
    "variance": numeric.variance,
    "stddev": numeric.variance,
    "min": ordered.extreme,
    "max": ordered.extreme,
    "first": ordered.edge,
    "last": ordered.edge,
    "min_by": ordered.by_extreme,
    "max_by": ordered.by_extreme,
    "top_k": ordered.top_k,
    "collect": many.collect,
    "count_distinct": many.count_distinct,
    "approx_count_distinct": sketches.approx_count_distinct,
    "approx_quantile": sketches.approx_quantile,
    "own": own.own,
}
#: Those whose rows without a value are not left out by the field that they read.
_ALL_ROWS: Final = ("count", "min_by", "max_by")


def bind_all(
    aggregates: Mapping[str, Aggregate], row: Schema, operator: str, *, may_be_none: bool = False
) -> dict[str, Part]:
    """The parts of aggregates by the names of their results.

    Raises:
        BuildError: there is no aggregate, or one cannot read its field.
    """
    if not aggregates and not may_be_none:
        raise BuildError(
            f"operator {operator!r}: say what to compute, for example n=tw.agg.count(), or pass a function"
        )
    return {name: bind(name, one, row, operator) for name, one in aggregates.items()}


def _meant(name: str) -> str:
    hinted = hint_of_option(name, _OF_WINDOWS)
    return f"; {hinted}" if hinted else meant(name, _OF_WINDOWS)


def bind(name: str, aggregate: Aggregate, row: Schema, operator: str) -> Part:
    """The aggregate's part in an operator over records of ``row``, its result called ``name``.

    Raises:
        BuildError: the field is missing or of a type that the aggregate cannot read.
    """
    if not isinstance(aggregate, Aggregate):
        raise BuildError(
            f"operator {operator!r}: {name}= wants an aggregate such as tw.agg.sum('field'), got"
            f" {aggregate!r}{_meant(name)}"
        )
    asked = AskedAggregate(name, aggregate, row, operator)
    part = _MAKERS[aggregate.verb](asked)
    if aggregate.verb not in _ALL_ROWS and not part.present:
        part = dataclasses.replace(part, present=asked.present)
    if not part.reads and aggregate.verb != "count":
        part = dataclasses.replace(part, reads=ordered.reads_of(asked))
    if aggregate.where is None:
        return part
    test, scope = _where(asked)
    return dataclasses.replace(part, where=test, scope={**part.scope, **scope})


def _where(asked: AskedAggregate) -> tuple[str, dict[str, Any]]:
    """The test that ``where`` stands for; as in SQL a null lets nothing through."""
    where = asked.aggregate.where
    if isinstance(where, str):
        kind = asked.row.field(where).type
        if kind.kind is not Kind.BOOL:
            raise asked.refuse(
                f"where={where!r} is {kind}; name a bool field, or give a function of the row"
            )
        return (f"row.{where} is not None and row.{where}" if kind.optional else f"row.{where}"), {}
    made = Function.of(where, asked.operator, argument=f"{asked.name}: where")
    check_takes(made, asked.operator, {"row": asked.row})
    call = f"where_{asked.name}"
    return f"{call}({whole_row(asked.row)})", {call: own.on_rows(asked, where)}
