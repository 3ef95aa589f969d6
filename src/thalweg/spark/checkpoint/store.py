"""A checkpoint of a query: the state that every host has, beside Spark's own part."""

from __future__ import annotations

import dataclasses
import functools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from thalweg.checkpoint import history
from thalweg.checkpoint import record as records
from thalweg.checkpoint.history import INPUTS, CheckpointHistory
from thalweg.checkpoint.hosts import handing_over
from thalweg.checkpoint.hosts.opened import OpenCheckpoint, folder_of, open_checkpoint
from thalweg.checkpoint.hosts.spark_log import read_log, sync_log
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import absolute, join, write_atomic
from thalweg.checkpoint.record import CommitRecord


def _nothing(part: Folder, record: CommitRecord) -> None:
    """Any flow fits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Store(OpenCheckpoint):
    """A checkpoint with Spark's part.

    Attributes:
        spark: Spark's part; None where only Spark can open it.
        synced: of its logs, the newest entry that is on the disk.
    """

    spark: Folder | None = None
    synced: dict[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def open(
        cls,
        location: str,
        state: str | None = None,
        *,
        sources: Sequence[str] = (),
        logs: Sequence[str] = (),
        was: Mapping[str, str] | None = None,
        require: Callable[[Folder, CommitRecord], None] = _nothing,
    ) -> Store:
        """The store of a checkpoint folder; see :func:`thalweg.checkpoint.hosts.opened.open_checkpoint`.

        Args:
            location: the folder.
            state: where the state is; None: in it.
            sources: of the flow, in its order, to go on from a run in one process.
            logs: those whose input is a log.
            was: the names that sources had before, by those that they have.
            require: refuses a record of a run in one process with which the flow cannot go on.
        """
        spark = folder_of(f"{absolute(location).rstrip('/')}/spark")
        fits = functools.partial(
            _require_history,
            spark=spark,
            sources=sources,
            logs=logs,
            was=was or {},
            require=require,
        )
        opened = open_checkpoint(location, state, require=fits)
        try:
            opened.fs.create_dir(join(opened.root, "control"), recursive=True)
        except BaseException:
            opened.lease.give_back()
            raise
        plain = {one.name: getattr(opened, one.name) for one in dataclasses.fields(opened)}
        return cls(**plain, spark=spark)

    def newest_of_spark(self) -> CommitRecord | None:
        """The record that the next batch starts from: where Spark has not logged the newest, the one before."""
        newest = records.latest(self.fs, self.root)
        if newest is None or self.spark is None:
            return newest
        before = read_log(self.spark).next_batch - 1
        return newest if before == newest.batch else records.read(self.fs, self.root, before)

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

    def commit(self, record: CommitRecord, found: CheckpointHistory) -> None:
        """Writes a batch's record, behind all that Spark has logged of it.

        Raises:
            CheckpointError: another driver was faster.
        """
        if self.spark is not None:
            sync_log(self.spark, self.synced)
        OpenCheckpoint.commit(self, record, found)


def _require_history(
    part: Folder,
    spark: Folder | None,
    sources: Sequence[str],
    logs: Sequence[str],
    was: Mapping[str, str],
    require: Callable[[Folder, CommitRecord], None],
) -> None:
    """Refuses a start from which the first batch could not go on; where Spark's log cannot be read, that batch does."""
    if spark is None:
        return
    latest = records.latest(part.fs, part.root)
    if latest is not None and handing_over.is_of_process(latest):
        require(part, latest)
        handing_over.to_spark(
            part, spark, latest, sources or list(latest.extra[INPUTS]["places"]), logs, was
        )
    log = read_log(spark)
    found = records.batches(part.fs, part.root)
    history.require(found, log.next_batch, part.root)
    for batch in found[-2:]:
        if (record := records.read(part.fs, part.root, batch)) is not None:
            history.require_query(record, part.root, log.query)
            if batch == log.next_batch - 1:
                history.require_files(part.fs, part.root, record)
