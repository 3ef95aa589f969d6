"""Keyed functions as generated source text: what those of windows, joins and order by key share.

They compile like a user's functions, and the reference runner executes them too.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from xxhash import xxh64_intdigest

from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.aggregates import Part
from thalweg.flow.operators.aggregates.parts import results_of
from thalweg.flow.operators.nodes import Collects
from thalweg.flow.records import Field, Schema
from thalweg.flow.state_class import StateSpec
from thalweg.times import NEVER

_NOTHING: Final[Mapping[str, Any]] = {}


class Packs(NamedTuple):
    """How fields of an output become fields of whole rows: the record, and for each of its fields where it stands.

    A place is the first column, the number of columns, and whether a last one more says if there is a row.
    """

    record: Schema
    places: tuple[tuple[int, int, bool], ...]


def packs_of(out: Schema, parts: Mapping[str, Part]) -> Packs | None:
    """How whole rows among the results, which stand behind all else, become a field each; None: there are none."""
    if not any(part.flat for part in parts.values()):
        return None
    at = len(out.fields) - len(results_of(parts))
    fields, places = list(out.fields[:at]), [(i, 0, False) for i in range(at)]
    for name, part in parts.items():
        width, may_lack = len(part.flat), part.result.optional
        fields.append(Field(name, part.result))
        places.append((at, width - may_lack if width else 0, may_lack and width > 0))
        at += width or 1
    return Packs(output(name, fields, out.name), tuple(places))


class MadeFunctions(NamedTuple):
    """The functions, state and output record of a generated keyed operator."""

    process: Callable[..., Any]
    on_timer: Callable[..., Any] | None
    state: StateSpec
    out: Schema
    collects: Collects | None = None
    #: what was asked for that the state depends on, as JSON values
    asked: Mapping[str, Any] = _NOTHING
    packs: Packs | None = None


def make_functions(name: str, text: str, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Compiles source text whose lines tracebacks and the compiler can find again."""
    file = f"<thalweg {name} {xxh64_intdigest(text.encode()):016x}>"
    namespace: dict[str, Any] = {"__name__": "thalweg_generated", **scope}
    exec(compile(text, file, "exec"), namespace)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return namespace


def spare_name(wanted: str, taken: Sequence[str]) -> str:
    """``wanted``, with underscores behind it until no field has that name."""
    while wanted in taken:
        wanted += "_"
    return wanted


def output(operator: str, fields: Sequence[Field], name: str) -> Schema:
    names = [field.name for field in fields]
    for one in names:
        if names.count(one) > 1:
            raise BuildError(
                f"operator {operator!r}: two output fields are called {one!r}; rename one"
            )
    return Schema.make_record(name, fields)


def body(lines: Sequence[str], indent: str = "    ") -> str:
    return "".join(f"{indent}{line}\n" for line in lines)


def asked_of(
    aggregates: Mapping[str, Aggregate], parts: Mapping[str, Part]
) -> dict[str, dict[str, Any]]:
    """By result, what its aggregate is, the state fields that it has, and whether it has a value of no row at all."""
    empty = ("count", "sum", "top_k")
    return {
        name: {
            "does": one.described,
            "fields": [field.name for field in parts[name].state],
            "of_nothing": one.verb in empty or parts[name].result.optional,
        }
        for name, one in aggregates.items()
    }


def scope_of(
    item: Schema, out: Schema, parts: Mapping[str, Part], **constants: Any
) -> dict[str, Any]:
    """What the texts of aggregates may name."""
    named = {name: one for part in parts.values() for name, one in part.scope.items()}
    fixed = {"ITEM": item.make, "Row": item.cls, "Out": out.cls, "math": math}
    return {**constants, **fixed, **named}


def updates(parts: Mapping[str, Part]) -> list[str]:
    """The lines by which a row goes into the aggregates."""
    return [line for part in parts.values() for line in part.taking(part.update)]


def state_fields(parts: Mapping[str, Part]) -> list[Field]:
    return [field for part in parts.values() for field in part.state]


def keys_of(key: Sequence[Field]) -> list[str]:
    """The key's fields as expressions of a timer's ``key``."""
    return ["key"] if len(key) == 1 else [f"key[{i}]" for i in range(len(key))]


def timer_field() -> Field:
    return Field("timer", FieldType(Kind.TIMER), NEVER)
