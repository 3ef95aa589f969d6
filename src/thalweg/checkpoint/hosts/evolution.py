"""Opens a checkpoint for a flow: what its state becomes is checked as a whole, and then written, or refused."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.evolution.changes import StateChange, refusals
from thalweg.checkpoint.evolution.committing import commit
from thalweg.checkpoint.evolution.evolving import Evolution, Evolving
from thalweg.checkpoint.hosts import planned
from thalweg.checkpoint.hosts.plan_manifest import manifest_of
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.manifest import Manifest
from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import CommitRecord
from thalweg.errors import CheckpointMismatch
from thalweg.plan.plan import Plan

_LOG: Final = logging.getLogger("thalweg")


class GoneOn(NamedTuple):
    """A checkpoint that fits a flow.

    Attributes:
        record: to go on from; None in a new checkpoint.
        defaults: by operator, the values of state fields that older files lack.
    """

    record: CommitRecord | None
    defaults: Mapping[str, Mapping[str, Any]]


def go_on(
    fs: FileSystem,
    root: str,
    plan: Plan,
    record: CommitRecord | None,
    *,
    drop: Collection[str] = (),
    by_place: bool = False,
) -> GoneOn:
    """Brings a checkpoint to what a flow's state is; nothing is written unless all of it can be.

    Args:
        fs, root: where the state is; nobody else works on it.
        plan: of the flow.
        record: from which the next batch starts; None where none was committed.
        drop: the operators whose state may be given up.
        by_place: whether inputs are known by their place in the flow, as Spark knows them.

    Raises:
        CheckpointMismatch: the flow would lose or misread state, or a function fails on some; it says what would do it.
        CheckpointError: the checkpoint is damaged.
    """
    found = evolution_of(fs, root, plan, record, drop=drop, by_place=by_place)
    _require(found, root, plan)
    for change in found.changes:
        _tell(change)
    _tell_unused(drop, found)
    record = commit(fs, root, found)
    return GoneOn(
        record, {name: found.manifest.defaults(name) for name in found.manifest.operators}
    )


def require_evolution(
    part: Folder, record: CommitRecord, plan: Plan, drop: Collection[str]
) -> None:
    """Refuses a flow that cannot go on from a record, as :func:`go_on` would; nothing is written."""
    _require(evolution_of(part.fs, part.root, plan, record, drop=drop), part.root, plan)


def _require(found: Evolution, root: str, plan: Plan) -> None:
    if found.is_refused:
        assert found.before is not None
        raise CheckpointMismatch(
            f"the checkpoint {root} was written by flow {found.before.flow!r} (Thalweg {found.before.version}) and"
            f" does not fit flow {plan.flow!r}; nothing was written:{refusals(found.changes)}\n"
            "Restore the old definition, do what is said, or start with a new checkpoint folder; thalweg state diff"
            " shows what a flow does to a checkpoint (docs/evolve.md)."
        )


def evolution_of(
    fs: FileSystem,
    root: str,
    plan: Plan,
    record: CommitRecord | None,
    *,
    drop: Collection[str] = (),
    by_place: bool = False,
) -> Evolution:
    """What a flow does to a checkpoint, as :func:`go_on` would do it; nothing is written."""
    manifest = manifest_of(plan)
    before = manifests.in_force(manifests.read(fs, root), {} if record is None else record.extra)
    if before is None:
        manifests.require_new(fs, root)
        return Evolution((), None, manifest, record)
    found = Evolving(fs, root, before, record, plan, manifest, drop).evolution()
    more = [*_underway(fs, root, found), *_places(found, by_place), *_repeated(fs, root, found)]
    if not more:
        return found
    return Evolution((*found.changes, *more), before, found.manifest, found.record)


def _underway(fs: FileSystem, root: str, found: Evolution) -> list[StateChange]:
    """Refuses other sources where a process has planned a batch of those that there were."""
    if found.record is None or not _sources_change(found):
        return []
    plan = planned.read(fs, root, found.record.batch + 1)
    if plan is None or not (plan.rounds or plan.over or plan.ends):
        return []
    why = f"the sources change, but batch {plan.batch} was begun with those that there were, and not finished"
    todo = "start the old flow once more, and end it when it has committed"
    return [StateChange(found.manifest.flow, "flow", "refused", why, todo)]


def _sources_change(found: Evolution) -> bool:
    return any(
        change.what == "source" and (change.was or change.kind in ("new", "dropped"))
        for change in found.changes
    )


def _places(found: Evolution, by_place: bool) -> list[StateChange]:
    """Refuses sources in other places on Spark, whose log has no names."""
    if not by_place or found.before is None or found.record is None:
        return []
    were = {change.was: change.name for change in found.changes if change.was}
    before = [were.get(name, name) for name in found.before.sources]
    after = list(found.manifest.sources)
    if before == after:
        return []
    why = (
        f"Spark knows inputs by their place in the flow: the checkpoint has {', '.join(before)}, the flow has"
        f" {', '.join(after)}"
    )
    todo = (
        "sources can be added and dropped by tw.run(..., checkpoint=), where all inputs are logs;"
        " a new name in the old place is renamed="
    )
    return [StateChange(found.manifest.flow, "flow", "refused", why, todo)]


def _repeated(fs: FileSystem, root: str, found: Evolution) -> list[StateChange]:
    """Refuses to rewrite state where Spark has yet to run the newest batch again."""
    newest = records.batches(fs, root)[-1:]
    record = found.record
    if record is None or not newest or newest[0] == record.batch:
        return []
    latest = records.read(fs, root, newest[0])
    is_rewritten = latest is not None and manifests.MEANING in latest.extra
    if not (found.is_new_record or is_rewritten):
        return []
    if is_rewritten:
        why = f"the state was rewritten behind batch {newest[0]}, and Spark's part of the checkpoint is an older copy"
        todo = "bring Spark's part back from a copy of the whole checkpoint"
    else:
        why = f"Spark has not logged batch {newest[0]}, and runs it again from the state before it"
        todo = "start the old flow once more with trigger='available_now'"
    return [StateChange(found.manifest.flow, "flow", "refused", why, todo)]


def _tell(change: StateChange) -> None:
    """Says what happens to state; nothing of it is silent."""
    if change.kind in ("converted", "migrated", "dropped", "new") or change.was:
        _LOG.info("checkpoint: %s", change)


def _tell_unused(drop: Collection[str], found: Evolution) -> None:
    gone = {name for one in found.changes if one.kind == "dropped" for name in (one.name, one.was)}
    for name in drop:
        if name not in gone:
            _LOG.warning(
                "drop: %r: the checkpoint has no state under that name that has to go; nothing was dropped",
                name,
            )


def meaning_of(fs: FileSystem, root: str, record: CommitRecord | None) -> Manifest | None:
    """What the state of a record means."""
    return manifests.in_force(manifests.read(fs, root), {} if record is None else record.extra)
