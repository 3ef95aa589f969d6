"""Which fields of an output get texts or lists that functions make, as against those that pass through."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from thalweg.compiler.code.source import FunctionSource
from thalweg.compiler.code.unit import ModuleParts
from thalweg.compiler.functions import Emit, write_function
from thalweg.compiler.kinds import Type


def made_fields(
    unit: ModuleParts,
    sources: Sequence[tuple[FunctionSource, Sequence[Type]]],
    target: Type,
    *,
    lists: bool = False,
) -> frozenset[int]:
    """Which text and list fields of a record get made ones from functions of these arguments; the others pass through.

    Raises:
        NotCompilable: a function is refused.
    """
    places = {f"{target}.{name}": i for i, name in enumerate(target.names)}
    if not any(one.is_column_text or one.label in unit.list_fields for one in target.items):
        return frozenset()
    trial = ModuleParts(records=dict(unit.records), columns=unit.columns, made=set())
    trial.list_fields = unit.list_fields
    for source, arguments in sources:
        write_function(trial, source, arguments, Emit("emit", target, lists), "emit")
    return frozenset(places[where] for where in trial.made or ())


def with_made(target: Type, made: frozenset[int]) -> Type:
    """The type of a record some of whose texts and lists are made; a list is two words, as a text is."""
    items = [
        Type("text", one.optional, "" if one.is_column_text else one.label) if i in made else one
        for i, one in enumerate(target.items)
    ]
    return dataclasses.replace(target, items=tuple(items))
