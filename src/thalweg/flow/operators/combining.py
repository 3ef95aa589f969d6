"""Partial key grouping: rows of a key become parts of its aggregates where they are, and the parts go to its slot.

Nasir et al. (ICDE 2015) send a key's rows to the less loaded of two slots and merge behind them what both made of
them. Here the rows of one key and window that stand in one chunk become one row before they leave, so that a hot key
sends a row a chunk; the operator behind is an ordinary window whose aggregates merge parts (docs/locality.md).

A part stands where the first of its rows stood. That is before the window's end, as the others' places are, and
nothing leaves a window before; so the window's output, its state behind a chunk, and their order are those of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators import agg
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.aggregates import bind_all
from thalweg.flow.records import Field, Schema

#: The aggregates of which parts can be merged to the very value of the whole.
MERGEABLE: Final = ("count", "sum", "min", "max")

_MERGED_BY: Final = {"count": agg.sum, "sum": agg.sum, "min": agg.min, "max": agg.max}


class Partial(NamedTuple):
    """Aggregates in two steps.

    Attributes:
        record: of parts: the fields that tell groups apart, then one for each aggregate.
        parts: by field of ``record``, what it is of the rows.
        merging: by name of a result, what it is of the parts.
    """

    record: Schema
    parts: tuple[tuple[str, Aggregate], ...]
    merging: dict[str, Aggregate]


def split(
    operator: str, row: Schema, by: Sequence[Field], aggregates: Mapping[str, Aggregate]
) -> Partial:
    """Aggregates over ``row`` as parts by the fields ``by``, and as aggregates over the parts.

    Raises:
        BuildError: an aggregate cannot read its field, or its parts do not merge to the value of a serial run.
    """
    bound = bind_all(aggregates, row, operator)
    wrong = [
        f"{name} {reason}" for name, one in aggregates.items() if (reason := _reason(one, row))
    ]
    if wrong:
        raise refusal(operator, "; ".join(wrong))
    taken = [field.name for field in by]
    merging: dict[str, Aggregate] = {}
    fields = list(by)
    parts: list[tuple[str, Aggregate]] = []
    for name, one in aggregates.items():
        place = f"part{len(parts)}"
        while place in taken:
            place += "_"
        merging[name] = _MERGED_BY[one.verb](place)
        fields.append(Field(place, bound[name].result))
        parts.append((place, one))
    return Partial(Schema.make_record("Partial", fields), tuple(parts), merging)


def _reason(aggregate: Aggregate, row: Schema) -> str:
    """Why an aggregate's parts do not merge exactly; "" if they do."""
    if aggregate.verb == "sum" and row.field(str(aggregate.field)).type.kind is Kind.FLOAT:
        return "adds floats, and their sum depends on the order of additions"
    if callable(aggregate.where):
        return "has a function as where= (put its answer into a bool field by map, and name that)"
    if aggregate.verb in MERGEABLE:
        return ""
    return {
        "mean": "is a mean, which adds floats (take the sum of an int field and a count)",
        "top_k": "is a top_k, where the first of equal rows wins",
    }.get(aggregate.verb, f"is a {aggregate.verb}, whose parts do not merge exactly")


def refusal(operator: str, reason: str) -> BuildError:
    """The error that says why an operator cannot have a key's rows in several places."""
    return BuildError(
        f"operator {operator!r}: grouping='partial' aggregates a key's rows in several slots, so it is for"
        " windows whose partial aggregates merge to exactly the value of a serial run: count, min, max, and sum of"
        f" an int or bool field; {reason}.\nLeave grouping= out: all rows of a key then go to one slot, in order."
    )
