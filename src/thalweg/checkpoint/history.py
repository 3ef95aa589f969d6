"""Whether commit records, Spark's log and the batch to run are of one history; if not, why, and what to do.

A batch b reads record b − 1 and nothing else. Missing records, folders that were emptied, copies of another age and a
second driver all show as records that should be there and are not, or that should not be there and are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from thalweg.checkpoint import record as records
from thalweg.checkpoint.paths import FileSystem, join, list_files
from thalweg.checkpoint.record import CommitRecord
from thalweg.errors import CheckpointError

#: What a record says in ``extra``: the identity of its checkpoint, and Spark's name of the query.
CHECKPOINT: Final = "checkpoint"
QUERY: Final = "query"
#: Of a run in one process: where its inputs stand, which Spark keeps in its own part.
INPUTS: Final = "inputs"

#: What to do when a part of the checkpoint is lost.
_COPY: Final = (
    "Bring {} back from a copy of the whole checkpoint that was made at one time; a new checkpoint folder starts from"
    " the beginning of the input."
)


def require(found: Sequence[int], batch: int, root: str) -> None:
    """Refuses a batch that the records do not lead up to. Pure.

    Args:
        found: the batches that have a record, ascending.
        batch: the one to run; it may have a record from a try that Spark did not log.
        root: where the records are, for the message.

    Raises:
        CheckpointError: records are missing or left over; it says which.
    """
    if found and found[-1] > batch:
        raise CheckpointError(_too_new(found[-1], batch, root))
    if batch == 0 or batch - 1 in found:
        return
    if not found:
        raise CheckpointError(
            f"Spark goes on with batch {batch}, but {root} has no commit record at all: the state is gone, not"
            " mounted, or was elsewhere (state=) before.\n" + _COPY.format("it")
        )
    missing = join(root, records.record_path(batch - 1))
    raise CheckpointError(
        f"Spark goes on with batch {batch}, but the commit record {missing} is missing; there are records of the"
        f" batches {', '.join(map(str, found[-3:]))}.\n"
        "It was deleted, or this folder is an older copy than Spark's part. " + _COPY.format("it")
    )


def _too_new(newest: int, batch: int, root: str) -> str:
    if batch == 0:
        return (
            f"{root} has the state after batch {newest}, but Spark starts anew, at batch 0: its part of the checkpoint"
            " (the folder spark) was deleted, or another checkpoint has used this folder.\n"
            + _COPY.format("Spark's part")
            + " Delete all of the old one, and its output, first."
        )
    return (
        f"{root} has the state after batch {newest}, but Spark goes on with batch {batch}: its part of the checkpoint"
        " (the folder spark) is an older copy, or another query runs on it.\n"
        + _COPY.format("Spark's part")
    )


class CheckpointHistory(NamedTuple):
    """What a batch finds when it is planned.

    Attributes:
        before: the record that it starts from; None for the first batch.
        retried: the record of an earlier try of the batch, which this one replaces; None where there was none.
    """

    before: CommitRecord | None = None
    retried: CommitRecord | None = None


def history_of(
    fs: FileSystem, root: str, batch: int, checkpoint: str, query: str
) -> CheckpointHistory:
    """What a batch starts from.

    Args:
        fs, root: where the records are.
        batch: the one to run.
        checkpoint: its identity.
        query: how Spark names the query whose batch it is; the name lies in Spark's part of the checkpoint.

    Raises:
        CheckpointError: it is missing, torn, or of another checkpoint; or there are newer ones.
    """
    require(records.batches(fs, root), batch, root)
    retried, before = records.read(fs, root, batch), records.read(fs, root, batch - 1)
    for one in (retried, before):
        if one is not None:
            require_ours(one, root, checkpoint, query)
    return CheckpointHistory(before, retried)


def require_files(fs: FileSystem, root: str, record: CommitRecord) -> None:
    """Refuses a record whose state files are not all there.

    Raises:
        CheckpointError: naming some of them.
    """
    there = {f"state/{name}" for name in list_files(fs, join(root, "state"), recursive=True)}
    missing = [file for file in record.files if file not in there]
    if missing:
        raise CheckpointError(
            f"{len(missing)} of {len(record.files)} state files are missing that the commit record of batch"
            f" {record.batch} names: {', '.join(missing[:2])}{' …' if missing[2:] else ''} in {root}\n"
            "The state was moved, deleted, or is on a disk that is not mounted. Bring it back, or begin anew with a new"
            " checkpoint."
        )


def require_ours(record: CommitRecord, root: str, checkpoint: str, query: str) -> None:
    """Refuses a record of another checkpoint, or of another query of Spark's. Pure; older records do not say.

    Raises:
        CheckpointError: saying which it is.
    """
    path = join(root, records.record_path(record.batch))
    if record.extra.get(CHECKPOINT, checkpoint) != checkpoint:
        raise CheckpointError(
            f"the commit record {path} was written for another checkpoint, {record.extra[CHECKPOINT]}, not for this"
            f" one, {checkpoint}.\n" + _COPY.format("the right one")
        )
    require_query(record, root, query)


def require_query(record: CommitRecord, root: str, query: str) -> None:
    """Refuses a record that was written beside another Spark part than this one. Pure; older records do not say.

    Args:
        query: how Spark names its query; "" where it has none yet.

    Raises:
        CheckpointError: saying which it is.
    """
    path = join(root, records.record_path(record.batch))
    if record.extra.get(QUERY, query) != query:
        raise CheckpointError(
            f"the commit record {path} was written beside another Spark part of the checkpoint (of the query"
            f" {record.extra[QUERY]}, now {query or 'none'}): the folder spark was deleted or replaced.\n"
            + _COPY.format("Spark's part")
        )


def require_alone(fs: FileSystem, root: str, found: CheckpointHistory, batch: int) -> None:
    """Refuses to go on with a batch when another driver has committed since it was planned.

    Args:
        fs, root: where the records are.
        found: what there was when it was planned.
        batch: the batch.

    Raises:
        CheckpointError: records were written since.
    """
    newer = [one for one in records.batches(fs, root) if one > batch]
    changed = [
        now
        for now, then in ((batch, found.retried), (batch - 1, found.before))
        if records.attempt_of(fs, root, now) != (then.attempt if then else "")
    ]
    if newer or changed:
        raise CheckpointError(
            f"batch {batch}: another query works on the checkpoint {root}: the record of batch"
            f" {max([*newer, *changed])} was written while this one ran.\n"
            "This query ends; of this batch it has committed nothing. Make sure that a single query uses the"
            " checkpoint, then start it again: it continues from the newest record."
        )
