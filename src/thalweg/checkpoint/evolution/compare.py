"""An operator or source of a checkpoint and that of a flow: what differs, and what it takes to go on. Pure.

Fields are known by their name. Without a function, fields may stand elsewhere, may be added where they have a default,
and may widen where every value stays equal; whatever would lose or misread a value is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from thalweg.checkpoint.evolution.asked import AskedDifference, asked_difference
from thalweg.checkpoint.evolution.changes import ChangeKind, StateChange, differs, refused
from thalweg.checkpoint.manifest import (
    STATELESS,
    ManifestField,
    ManifestOperator,
    ManifestSource,
)

#: Types that hold all values of another, as long as each is looked at; see :mod:`thalweg.checkpoint.evolution.arrays`.
_WIDER: Final = {
    ("bool", "int"),
    ("bool", "float"),
    ("int", "float"),
    ("str", "Category"),
    ("Category", "str"),
}
_NULL: Final = " | None"


class StateVerdict(NamedTuple):
    """What is to be done with the state of an operator or source.

    Attributes:
        change: what happens.
        shift: by how much timers move.
        lossy: whether fields inside records may be left out.
    """

    change: StateChange
    shift: int = 0
    lossy: bool = False

    @property
    def rewrites(self) -> bool:
        """Whether rows are written anew."""
        return self.change.kind in ("converted", "migrated")


def give_up(name: str) -> str:
    """What to do to begin anew."""
    return f"drop=({name!r},), on a command line --drop {name}, gives its state up"


# -- operators -----------------------------------------------------------------------------------------


def operator_verdict(
    name: str,
    old: ManifestOperator,
    new: ManifestOperator,
    *,
    held: bool,
    migrates: bool,
) -> StateVerdict:
    """What a flow does to an operator's state.

    Args:
        name: of the operator.
        old: what it was.
        new: what it is.
        held: whether there is state of it.
        migrates: whether a function makes new states of old ones.
    """
    if not held:
        same = old == new
        why = "" if same else "it holds no state, so all of it may change"
        return StateVerdict(StateChange(name, "operator", "same" if same else "changed", why))
    wrong = _shape(old, new)
    if wrong:
        return StateVerdict(refused(name, wrong, give_up(name)))
    asked = asked_difference(old.asked, new.asked)
    shapes = [[(f.name, f.type, f.arrow) for f in one.fields] for one in (old, new)]
    is_same = shapes[0] == shapes[1] and old.state == new.state
    if migrates and not is_same and not asked.wrong:
        return StateVerdict(StateChange(name, "operator", "migrated", _note(asked)))
    todo = give_up(name)
    wrong = list(asked.wrong)
    if old.state != new.state:
        wrong.append(", " + differs("state class", old.state, new.state))
    missing = [] if is_same else _fields(old.fields, new.fields, ", state field", asked.gone)
    if old.state != new.state or missing:
        todo = f"a function of the old state does it, @tw.state(migrate=...); {todo}"
    if wrong or missing:
        return StateVerdict(refused(name, [*wrong, *missing], todo))
    kind: ChangeKind = _kind(shapes[0], shapes[1], old, new, asked)
    lossy = bool(new.asked.keys() - {"inputs"})
    return StateVerdict(StateChange(name, "operator", kind, _note(asked)), asked.shift, lossy)


def _note(asked: AskedDifference) -> str:
    return "; ".join(asked.notes)


def _kind(
    before: Sequence[object],
    after: Sequence[object],
    old: ManifestOperator,
    new: ManifestOperator,
    asked: AskedDifference,
) -> ChangeKind:
    if before == after:
        if asked.shift:
            return "converted"
        return "changed" if old.asked and old.asked != new.asked else "same"
    is_longer = list(after[: len(before)]) == list(before)
    return "appended" if is_longer and not asked.shift and not new.waits else "converted"


def _shape(old: ManifestOperator, new: ManifestOperator) -> list[str]:
    """Differences that nothing but another state helps against."""
    kinds = [f"a {one.kind} operator" for one in (old, new)]
    if old.kind != new.kind:
        return [differs("", *kinds)]
    found = []
    if old.buckets != new.buckets:
        found.append(differs(", buckets", old.buckets, new.buckets))
    if old.waits != new.waits or (old.waits and old.state != new.state):
        found.append(", " + differs("state", old.state, new.state))
    return found + _keys(old.keys, new.keys)


def _keys(old: Sequence[ManifestField], new: Sequence[ManifestField]) -> list[str]:
    """Keys are found by the hash of their fields, so they stay as they are."""
    found = []
    for i in range(max(len(old), len(new))):
        one, other = (fields[i] if i < len(fields) else None for fields in (old, new))
        shape = [(x.name, x.type, x.arrow) if x else None for x in (one, other)]
        if shape[0] != shape[1]:
            texts = [f"{x.name}: {x.type}" if x else "none" for x in (one, other)]
            found.append(differs(f", key field {i + 1}", *texts))
    return found


def _fields(
    old: Sequence[ManifestField], new: Sequence[ManifestField], where: str, gone: set[str]
) -> list[str]:
    """What would lose or misread a value."""
    known = {field.name: field for field in new}
    found = []
    for one in old:
        other = known.get(one.name)
        if other is None and one.name not in gone:
            found.append(f"{where} {one.name}: {one.type} would be lost")
        elif other is not None and not _widens(one, other):
            texts = [one.type, other.type]
            if texts[0] == texts[1]:
                texts = [one.arrow, other.arrow]
            found.append(differs(f"{where} {one.name}", *texts))
    return found


def _widens(old: ManifestField, new: ManifestField) -> bool:
    """Whether a type may hold all values of another; a look at the values says whether it does."""
    if (old.type, old.arrow) == (new.type, new.arrow):
        return True
    nested = ("list<", "struct<")
    if old.arrow.startswith(nested):
        form = old.type.partition("[")[0], new.type.partition("[")[0]
        is_list = old.arrow.startswith("list<")
        return new.arrow.startswith(nested[0 if is_list else 1]) and (
            form[0] == form[1] or not is_list
        )
    if new.type == old.type + _NULL:
        return True
    if old.type.endswith(_NULL) and not new.type.endswith(_NULL):
        return False
    base = old.type.removesuffix(_NULL), new.type.removesuffix(_NULL)
    return base[0] == base[1] or base in _WIDER


# -- sources -------------------------------------------------------------------------------------------


def source_verdict(
    name: str, old: ManifestSource, new: ManifestSource, *, held: bool
) -> StateVerdict:
    """What a flow does to the rows that wait at a source.

    Args:
        name: of the source.
        old: what it was.
        new: what it is.
        held: whether rows wait.
    """
    found = []
    for what in ("order_by", "lateness", "lane", "lanes", "order"):
        one, other = getattr(old, what), getattr(new, what)
        if one != other:
            found.append(", " + differs(what, one or "none", other or "none"))
    used = {old.order_by, old.lane} - {""}
    olds, news = ({f.name: f for f in fields} for fields in (old.record, new.record))
    for field in sorted(used & olds.keys() & news.keys()):
        if (olds[field].type, olds[field].arrow) != (news[field].type, news[field].arrow):
            found.append(differs(f", field {field}", olds[field].type, news[field].type))
    shapes = [[(f.name, f.type, f.arrow) for f in one.record] for one in (old, new)]
    if held and shapes[0] != shapes[1]:
        found += _waiting(olds, news)
    if found:
        todo = "Restore the old definition, or give it another name, with which it begins anew"
        return StateVerdict(refused(name, found, todo, source=True))
    if shapes[0] == shapes[1]:
        return StateVerdict(StateChange(name, "source", "same"))
    kind: ChangeKind = "converted" if held else "changed"
    why = "" if held else "no rows wait"
    return StateVerdict(StateChange(name, "source", kind, why), lossy=True)


def _waiting(olds: Mapping[str, ManifestField], news: Mapping[str, ManifestField]) -> list[str]:
    found = []
    for name, field in news.items():
        if name not in olds:
            if not field.type.endswith(_NULL):
                found.append(
                    f", field {name}: {field.type}: rows that wait do not have it, and it cannot be None"
                )
        elif not _widens(olds[name], field):
            found.append(differs(f", field {name}", olds[name].type, field.type))
    return found


# -- all of them ---------------------------------------------------------------------------------------


def stateful(operators: Mapping[str, ManifestOperator]) -> dict[str, ManifestOperator]:
    """Those that have a state."""
    return {name: one for name, one in operators.items() if one.kind != STATELESS}
