"""A checkpoint that is open: found to be one whole, locked, and fit for commits; the part that every host has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from thalweg.checkpoint import history, identity, paths
from thalweg.checkpoint import record as records
from thalweg.checkpoint.history import CheckpointHistory
from thalweg.checkpoint.hosts.lease import Lease
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import CommitRecord
from thalweg.errors import CheckpointError


@dataclasses.dataclass(frozen=True, slots=True)
class OpenCheckpoint:
    """The state of a checkpoint.

    Attributes:
        location: its folder as the user writes it, whole.
        thalweg: the folder of the state.
        fs, root: where that is.
        lease: the right to run a flow on it.
        id: its identity.
    """

    location: str
    thalweg: str
    fs: FileSystem
    root: str
    lease: Lease
    id: str

    def require_alone(self, found: CheckpointHistory, batch: int) -> None:
        """Refuses to go on when another process has committed; see :func:`thalweg.checkpoint.history.require_alone`."""
        self.lease.hold()
        history.require_alone(self.fs, self.root, found, batch)

    def said(self, query: str) -> dict[str, str]:
        """What each commit record says of its checkpoint."""
        return {history.CHECKPOINT: self.id, history.QUERY: query}

    def commit(self, record: CommitRecord, found: CheckpointHistory) -> None:
        """Writes a batch's record.

        Raises:
            CheckpointError: another process was faster.
        """
        self.require_alone(found, record.batch)
        if found.retried is not None:
            records.write(self.fs, self.root, record)
            return
        while not records.write_first(self.fs, self.root, record):
            history.require_alone(self.fs, self.root, found, record.batch)


def open_checkpoint(
    location: str, state: str | None = None, *, require: Callable[[Folder], None]
) -> OpenCheckpoint:
    """Opens a checkpoint folder, which is probed for what commits need and then ours alone.

    Args:
        location: the folder.
        state: where the state is; None: in it.
        require: refuses a state folder that the host cannot go on with, once it is ours.

    Raises:
        CheckpointError: it cannot be written, is in use, or its parts do not belong together.
    """
    location = paths.absolute(location).rstrip("/")
    thalweg = paths.absolute(state).rstrip("/") if state else f"{location}/thalweg"
    part = Folder.at(thalweg)
    home = folder_of(f"{location}/thalweg") or part
    identity.require_one(home, part, location)
    paths.probe(thalweg)
    lease = Lease(location, [part] if home.is_same(part) else [part, home])
    lease.take()
    try:
        # Again, now that nobody else writes it.
        known = identity.require_one(home, part, location)
        require(part)
        mine = identity.claim(home, part, location, known)
    except BaseException:
        lease.give_back()
        raise
    return OpenCheckpoint(location, thalweg, part.fs, part.root, lease, mine)


def folder_of(location: str) -> Folder | None:
    """A folder; None where only Spark can open it, and the state is elsewhere."""
    try:
        return Folder.at(location)
    except CheckpointError:
        return None


def require_unfinished(latest: CommitRecord | None, location: str) -> None:
    """Refuses a checkpoint whose input has ended.

    Raises:
        CheckpointError: it has.
    """
    if latest is not None and latest.finished:
        raise CheckpointError(
            f"the checkpoint {location} is finished: its input was drained in batch {latest.batch}.\n"
            'Start with a new checkpoint folder to process more; a run with end="keep" (thalweg run without --drain)'
            " leaves its checkpoint open for later rows."
        )
