"""Whether the classes that a function's parameters are annotated with are those of what it will be given.

Only what is known for sure is refused: a state class where no state comes, a record or a plain value where a state
comes, and a record with fields that the rows lack. Other annotations, and none, are left to Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from thalweg.errors import BuildError, SchemaError
from thalweg.flow.operators.functions import Function, check_parameters, hints_of
from thalweg.flow.records import Schema
from thalweg.flow.state_class import StateSpec, state_spec

#: What comes in a parameter's place: a row, a state, what a text says, or a value of which nothing is known.
Given = Schema | StateSpec | str | None
_PLAIN: Final = (bool, int, float, str, bytes)


def check_takes(function: Function, operator: str, wanted: Mapping[str, Given]) -> None:
    """Refuses a function that cannot be called with these, by name in the order of its parameters.

    Raises:
        BuildError: naming the parameters, or the one whose annotation does not fit.
    """
    check_parameters(function, operator, list(wanted))
    check_annotations(function, operator, wanted)


def check_annotations(function: Function, operator: str, wanted: Mapping[str, Given]) -> None:
    """The part of :func:`check_takes` that is about annotations."""
    for place, name in _placed(function, list(wanted)).items():
        hint: Any = _hints(function, operator).get(name)
        odd = _odd(hint, wanted[place])
        if odd:
            raise BuildError(
                f"operator {operator!r}: {function.where} is called with ({', '.join(wanted)}), and its parameter"
                f" {name!r}, in the place of {place}, is annotated {hint.__name__}, {odd}"
            )


def _placed(function: Function, wanted: Sequence[str]) -> dict[str, str]:
    """By what is given, the parameter that takes it."""
    try:
        bound = inspect.signature(function.call).bind(*wanted).arguments
    except (TypeError, ValueError):
        return {}
    return {given: name for name, given in bound.items() if isinstance(given, str)}


def _hints(function: Function, operator: str) -> Mapping[str, Any]:
    try:
        return hints_of(function, operator)
    except Exception:  # who needs them tells it; here they only say more
        return {}


def _odd(hint: Any, given: Given) -> str:
    """Why what comes cannot be of the annotated class; empty where it can, or that is not known."""
    if not isinstance(hint, type):
        return ""
    what = _meaning(hint)
    if isinstance(what, StateSpec):
        if not isinstance(given, StateSpec):
            return "which is a state class"
        return _lacking(what.schema, given.schema, "the state is")
    if isinstance(given, StateSpec):
        return f"but the state is {given.name}; it comes first" if what or hint in _PLAIN else ""
    if isinstance(given, str):
        return f"but it is {given}" if what or hint in _PLAIN else ""
    if given is None:
        return ""
    if hint in _PLAIN:
        return f"but it is a {given.name}"
    return "" if what is None else _lacking(what, given, "the rows are")


def _meaning(hint: type) -> Schema | StateSpec | None:
    try:
        return state_spec(hint)
    except SchemaError:
        pass
    try:
        return Schema.of(hint)
    except (SchemaError, TypeError):
        return None


def _lacking(asked: Schema, given: Schema, are: str) -> str:
    """Names a field of the annotation that what comes lacks."""
    lacks = next((name for name in asked.names if name not in given.names), None)
    if lacks is None:
        return ""
    return f"but {are} {given.name}, without {lacks!r}; annotate it {given.name}, or give the function what it takes"
