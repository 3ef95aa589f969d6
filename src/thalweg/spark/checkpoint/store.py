"""A checkpoint, opened: its two folders, found to be parts of one, locked, and fit for commits."""

from __future__ import annotations

import dataclasses
import time
import uuid
from typing import Any

import orjson

from thalweg.checkpoint import history, identity, paths
from thalweg.checkpoint import record as records
from thalweg.checkpoint.history import CheckpointHistory
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import FileSystem, join, write_atomic
from thalweg.checkpoint.record import CommitRecord
from thalweg.errors import CheckpointError
from thalweg.spark.checkpoint.lease import Lease
from thalweg.spark.checkpoint.spark_log import read_log, sync_log


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """A checkpoint.

    Attributes:
        location: its folder as Spark writes it.
        thalweg: the folder of the state, as Spark writes it.
        fs, root: where that is.
        lease: the right to run a query on it.
        id: its identity.
        spark: Spark's part; None where only Spark can open it.
        synced: of its logs, the newest entry that is on the disk.
    """

    location: str
    thalweg: str
    fs: FileSystem
    root: str
    lease: Lease
    id: str
    spark: Folder | None
    synced: dict[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def open(cls, location: str, state: str | None = None) -> Store:
        """The store of a checkpoint folder, which is probed for what commits need and then ours alone.

        Raises:
            CheckpointError: it cannot be written, is in use, or its parts do not belong together.
        """
        location = paths.absolute(location).rstrip("/")
        thalweg = paths.absolute(state).rstrip("/") if state else f"{location}/thalweg"
        part = Folder.at(thalweg)
        home = _folder_of(f"{location}/thalweg") or part
        spark = _folder_of(f"{location}/spark")
        identity.require_one(home, part, location)
        paths.probe(thalweg)
        lease = Lease(location, [part] if home.is_same(part) else [part, home])
        lease.take()
        try:
            # Again, now that nobody else writes it.
            known = identity.require_one(home, part, location)
            _require_history(part, spark)
            mine = identity.claim(home, part, location, known)
            part.fs.create_dir(join(part.root, "control"), recursive=True)
        except BaseException:
            lease.give_back()
            raise
        return cls(location, thalweg, part.fs, part.root, lease, mine, spark)

    @property
    def control(self) -> str:
        return f"{self.thalweg}/control"

    def command(self, **content: Any) -> None:
        """Puts a command into the control folder: the next batch reads it."""
        name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.json"
        write_atomic(self.fs, join(self.root, "control", name), orjson.dumps(content) + b"\n")

    def history(self, batch: int, query: str) -> CheckpointHistory:
        """What a batch starts from; errors as :func:`thalweg.checkpoint.history.history_of`."""
        return history.history_of(self.fs, self.root, batch, self.id, query)

    def require_alone(self, found: CheckpointHistory, batch: int) -> None:
        """Refuses to go on when another driver has committed; see :func:`thalweg.checkpoint.history.require_alone`."""
        self.lease.hold()
        history.require_alone(self.fs, self.root, found, batch)

    def said(self, query: str) -> dict[str, str]:
        """What each commit record says of its checkpoint."""
        return {history.CHECKPOINT: self.id, history.QUERY: query}

    def commit(self, record: CommitRecord, found: CheckpointHistory) -> None:
        """Writes a batch's record, behind all that Spark has logged of it.

        Raises:
            CheckpointError: another driver was faster.
        """
        if self.spark is not None:
            sync_log(self.spark, self.synced)
        self.require_alone(found, record.batch)
        if found.retried is not None:
            records.write(self.fs, self.root, record)
            return
        while not records.write_first(self.fs, self.root, record):
            history.require_alone(self.fs, self.root, found, record.batch)


def _folder_of(location: str) -> Folder | None:
    """A folder; None where only Spark can open it, and the state is elsewhere."""
    try:
        return Folder.at(location)
    except CheckpointError:
        return None


def _require_history(part: Folder, spark: Folder | None) -> None:
    """Refuses a start from which the first batch could not go on; where Spark's log cannot be read, that batch does."""
    if spark is None:
        return
    log = read_log(spark)
    found = records.batches(part.fs, part.root)
    history.require(found, log.next_batch, part.root)
    for batch in found[-2:]:
        if (record := records.read(part.fs, part.root, batch)) is not None:
            history.require_query(record, part.root, log.query)
            if batch == log.next_batch - 1:
                history.require_files(part.fs, part.root, record)
