"""``tw.checkpoint.diff``: what a flow would do to a checkpoint, found as at a start, with nothing written."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from thalweg.checkpoint import record as records
from thalweg.checkpoint.evolution.changes import StateChange
from thalweg.checkpoint.hosts.evolution import evolution_of
from thalweg.checkpoint.hosts.handing_over import is_of_process
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.inspect import found_state
from thalweg.checkpoint.paths import FileSystem, join, list_files
from thalweg.checkpoint.record import CommitRecord
from thalweg.checks import names_of, require_instance
from thalweg.errors import CheckpointError
from thalweg.flow.flow import Flow
from thalweg.plan.plan import Plan, make_plan

#: How often a checkpoint is looked at anew whose query went on meanwhile and deleted what was looked at.
_TRIES: Final = 20


@dataclasses.dataclass(frozen=True, slots=True)
class StateDiff:
    """What a flow would do to a checkpoint.

    Attributes:
        location: the checkpoint.
        flow: the flow's name.
        batch: the newest committed; -1 where there is none.
        changes: by source and operator with state, those of the flow first.
    """

    location: str
    flow: str
    batch: int
    changes: tuple[StateChange, ...]

    @property
    def accepted(self) -> bool:
        """Whether a start of the flow would go on with the checkpoint."""
        return not any(change.is_refused for change in self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes))


def diff(location: str, flow: Flow, *, drop: Sequence[str] = ()) -> StateDiff:
    """What a flow would do to a checkpoint before it is touched, also while its query runs.

    Functions that make new states of old ones are called on all of them, so that what they fail on is found here.

    Args:
        location: the checkpoint's folder.
        flow: the changed flow.
        drop: operators whose state may be given up, as at the start.

    Raises:
        CheckpointError: it is no checkpoint, or damaged.
        BuildError: the flow is none that can run.
    """
    require_instance("diff", Flow, "a tw.Flow", flow=flow)
    plan, dropped = make_plan(flow), names_of("diff", drop)
    for tried in range(_TRIES):
        fs, root, _ = found_state(location)
        record = records.latest(fs, root)
        try:
            return _diff(location, fs, root, plan, record, dropped)
        except CheckpointError:
            now = records.latest(fs, root)
            if tried + 1 == _TRIES or now is None or record is None or now.batch == record.batch:
                raise
    raise AssertionError("unreachable")


def _diff(
    location: str,
    fs: FileSystem,
    root: str,
    plan: Plan,
    record: CommitRecord | None,
    drop: Sequence[str],
) -> StateDiff:
    by_place = record is not None and not is_of_process(record) and _is_of_spark(location)
    found = evolution_of(fs, root, plan, record, drop=drop, by_place=by_place)
    changes = found.changes
    if record is not None and record.finished:
        why = f"the checkpoint is finished: its input was drained in batch {record.batch}"
        changes = (
            *changes,
            StateChange(plan.flow, "flow", "refused", why, "start with a new folder"),
        )
    return StateDiff(location, plan.flow, -1 if record is None else record.batch, changes)


def _is_of_spark(location: str) -> bool:
    spark = Folder.at(f"{location.rstrip('/')}/spark")
    return bool(list_files(spark.fs, join(spark.root, "offsets")))
