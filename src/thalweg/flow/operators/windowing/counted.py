"""Windows of so many rows of a key, one behind the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.aggregates import bind_all
from thalweg.flow.operators.aggregates.own import inside
from thalweg.flow.operators.aggregates.parts import results_of, values_of, whole_row
from thalweg.flow.operators.generated import (
    MadeFunctions,
    asked_of,
    body,
    make_functions,
    output,
    packs_of,
    scope_of,
    state_fields,
    updates,
)
from thalweg.flow.operators.nodes import Key
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import drop, make_state


def count_window(
    operator: str,
    item: Schema,
    key: Key,
    time: Field | None,
    rows: int,
    aggregates: Mapping[str, Aggregate],
) -> MadeFunctions:
    """A window that ends with its ``rows``-th row: gives (key fields, start, end, results) there.

    ``start`` and ``end`` are the times of its first and last row; a stream without event time has none.
    """
    parts = bind_all(aggregates, item, operator)
    bounds = [] if time is None else [Field("start", time.type), Field("end", time.type)]
    out = output(operator, [*key.fields, *bounds, *results_of(parts)], "CountWindow")
    first = [] if time is None else [Field("began", time.type, 0)]
    counted = Field("number", FieldType(Kind.INT), 0)
    state = make_state("CountState", [counted, *first, *state_fields(parts)])
    keys, scope = keys_in_row(key, item)
    ends = [] if time is None else ["state.began", f"row.{time.name}"]
    values = ", ".join([*keys, *ends, *(one for part in parts.values() for one in values_of(part))])
    began = [] if time is None else ["if state.number == 0:", f"    state.began = row.{time.name}"]
    lines = [
        *began,
        "state.number += 1",
        *updates(parts),
        "if state.number == ROWS:",
        "    drop(state)",
        f"    return Out({values})",
        "return None",
    ]
    text = "def update(state, row):\n" + body(lines)
    named = scope_of(item, out, parts, ROWS=rows, drop=drop, **scope)
    asked = {"rows": rows, "aggregates": asked_of(aggregates, parts)}
    made = make_functions(operator, text, named)
    return MadeFunctions(made["update"], None, state, out, asked=asked, packs=packs_of(out, parts))


def keys_in_row(key: Key, item: Schema) -> tuple[list[str], dict[str, Any]]:
    """The key's fields as expressions of a row, in the form that timers are given, and what they name."""
    if key.function is None:
        return [_canonical(f"row.{field.name}", field.type) for field in key.fields], {}
    called = f"KEY({whole_row(item)})"
    return [_canonical(called, key.fields[0].type)], {"KEY": inside(key.function.call)}


def _canonical(text: str, kind: FieldType) -> str:
    """The value that stands for its group: 0.0 for -0.0."""
    if kind.kind is not Kind.FLOAT:
        return text
    return f"{text} + 0.0 if {text} is not None else None" if kind.optional else f"{text} + 0.0"
