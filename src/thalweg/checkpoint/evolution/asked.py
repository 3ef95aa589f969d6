"""What may change in the arguments of the library's operators, and what that does to their state (docs/evolve.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from thalweg.checkpoint.evolution.changes import differs

#: Arguments that hold from the next row on, also for what waits: the state does not depend on them.
_FREE: Final = frozenset({"timeout", "by", "most"})
#: What was let go by a smaller one is missing.
_SHRINKS: Final = frozenset({"per"})
#: What messages call them.
_SHOWN: Final = {
    "reach": "within, before or after",
    "keeps": "how",
    "content": "the fields that are compared",
    "place": "the field by which rows are merged",
}


@dataclasses.dataclass(slots=True)
class AskedDifference:
    """What differs.

    Attributes:
        wrong: what forbids to go on with state, each to go behind the operator's name.
        notes: what is accepted, and what it means.
        shift: by how much timers move.
        gone: state fields that may go.
    """

    wrong: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    shift: int = 0
    gone: set[str] = dataclasses.field(default_factory=set)


def asked_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> AskedDifference:
    """What differs between the arguments that an operator had and those that it has. Pure.

    Args:
        old: of the checkpoint; empty where it was written before arguments were.
        new: of the flow.
    """
    found = AskedDifference()
    if not old or not new:
        return found
    is_dedupe = "content" in old
    for name in sorted(old.keys() | new.keys()):
        one, other = old.get(name), new.get(name)
        if one == other:
            continue
        if name == "aggregates" and one is not None and other is not None:
            _aggregates(one, other, found)
        elif name == "inputs" and one is not None and other is not None:
            _inputs(one, other, found)
        elif name == "gap" and isinstance(one, int) and isinstance(other, int):
            _gap(one, other, found)
        elif name == "within" and is_dedupe:
            _within(one, other, found)
        elif name in _FREE or (name in _SHRINKS and _is_less(other, one)):
            found.notes.append(f"{name} holds from the next row on")
        else:
            found.wrong.append(", " + differs(_SHOWN.get(name, name), one, other))
    return found


def _is_less(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one < other


def _gap(old: int, new: int, found: AskedDifference) -> None:
    if new < old:
        why = "open sessions may hold a pause that is longer"
        found.wrong.append(f", {differs('gap', old, new)}, and {why}")
        return
    found.shift = new - old
    found.notes.append("open sessions end the new gap behind their last row")


def _within(old: int | None, new: int | None, found: AskedDifference) -> None:
    if old is None:
        why = "when the keys were kept is not known"
        found.wrong.append(f", {differs('within', 'none', new)}, and {why}")
    elif new is None:
        found.gone.add("timer")
        found.notes.append("keys that are held are kept for ever")
    else:
        found.shift = new - old
        found.notes.append("keys that are held are kept for the new time")


def _inputs(old: list[str], new: list[str], found: AskedDifference) -> None:
    """Rows that were not read are known by the place of their input."""
    shorter = min(len(old), len(new))
    if old[:shorter] != new[:shorter] or len(new) < len(old):
        found.wrong.append(", " + differs("inputs", ", ".join(old), ", ".join(new)))
    else:
        found.notes.append(f"{', '.join(new[shorter:])} begins empty")


def _aggregates(old: Mapping[str, Any], new: Mapping[str, Any], found: AskedDifference) -> None:
    for name, one in old.items():
        other = new.get(name)
        if other is None:
            found.gone.update(one["fields"])
            found.notes.append(f"{name} is no longer computed")
        elif other["does"] != one["does"]:
            why = "it is another number; give it another name"
            found.wrong.append(
                f", {differs(f'aggregate {name!r}', one['does'], other['does'])}: {why}"
            )
    for name in new.keys() - old.keys():
        if new[name]["of_nothing"]:
            found.notes.append(f"{name} is of the rows from now on, also where a window is open")
        else:
            found.wrong.append(
                f", aggregate {name!r} ({new[name]['does']}) is new, and has no value in an open window that gets no"
                " more rows; add it in an operator of another name, which begins empty"
            )
    # What an aggregate gave up, another may have taken.
    found.gone -= {field for one in new.values() for field in one["fields"]}
