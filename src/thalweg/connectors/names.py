"""Which inputs a flow has, by name, and names of fields as arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thalweg.checks import meant, refuse
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.plan.plan import Plan


def check_names(plan: Plan, inputs: Mapping[str, Any]) -> None:
    """Refuses inputs that do not fit the flow's sources by name."""
    made = {source.name: source.made_by for source in plan.sources if source.made_by is not None}
    for name in sorted(made.keys() & inputs.keys()):
        raise BuildError(
            f"operator {name!r}: {made[name].function.where} makes its rows itself, and takes no input"
        )
    names = {source.name for source in plan.sources} - made.keys()
    extra = sorted(inputs.keys() - names, key=str)
    for missing in sorted(names - inputs.keys()):
        also = f"; it has no source {extra[0]!r}{meant(extra[0], names)}" if extra else ""
        raise BuildError(
            f"flow {plan.flow!r} has a source {missing!r}, but no input of that name was given{also}"
        )
    for one in extra:
        raise BuildError(
            f"flow {plan.flow!r} has no source {one!r}; it has {', '.join(sorted(names)) or 'none'}"
            f"{meant(one, names)}"
        )


def field_names(where: str, argument: str, given: str | Sequence[str] | None) -> tuple[str, ...]:
    """One name, or several, as a tuple; None is none.

    Raises:
        BuildError: something is no name of a field, or comes twice.
    """
    if given is None:
        return ()
    names = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not all(isinstance(one, str) and one.isidentifier() for one in names):
        raise refuse(where, argument, "the name of a field, or several", given)
    if len(set(names)) < len(names):
        raise refuse(where, argument, "each field once", given)
    return tuple(map(str, names))


def is_kind(kind: FieldType, kinds: Sequence[Kind], shapes: Sequence[str]) -> bool:
    """Whether a field is of one of the kinds; of those that users see as Python's own types one of the shapes."""
    return kind.kind in kinds and (kind.shape is None or kind.shape.name in shapes)


def named_kinds(kinds: Sequence[Kind], shapes: Sequence[str]) -> str:
    """Both for messages."""
    return ", ".join([*(one.value for one in kinds), *shapes])


def check_field(
    where: str,
    record: Schema,
    name: str,
    kinds: Sequence[Kind],
    shapes: Sequence[str],
    *,
    optional: bool,
) -> None:
    """Refuses a field that an output names and cannot use: a key, or a column of folders.

    Raises:
        BuildError: there is none of the name, it is of another kind, or it may be None and must not.
    """
    if name not in record.names:
        raise BuildError(f"{where}: {record} has no field {name!r}")
    kind = record.field(name).type
    if not is_kind(kind, kinds, shapes) or (kind.optional and not optional):
        none = "" if optional else ", and not Optional"
        raise BuildError(
            f"{where}: {name} is {kind}; expected one of {named_kinds(kinds, shapes)}{none}"
        )
