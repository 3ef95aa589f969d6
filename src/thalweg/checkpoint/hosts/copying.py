"""``tw.checkpoint.copy``: a savepoint, a whole copy of a checkpoint at a committed batch, also while its query runs.

What a commit record names is never changed, only deleted two batches later; so files are copied first, and if one is
gone by then, those of a newer record. Of Spark's part goes what leads up to the batch. Commands to the query and its
lock are not part of its state. ``thalweg.json`` is written last: a copy without it, which was not finished, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from thalweg.checkpoint import identity, paths
from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.durable import TEMPORARY
from thalweg.checkpoint.hosts import planned
from thalweg.checkpoint.hosts.handing_over import is_of_process
from thalweg.checkpoint.hosts.spark_log import log_lines, log_offset
from thalweg.checkpoint.identity import Folder, Identity
from thalweg.checkpoint.inspect import found_state
from thalweg.checkpoint.paths import ASIDE, join, list_files, list_folders, read_bytes, write_atomic
from thalweg.checkpoint.record import CommitRecord
from thalweg.errors import CheckpointError

#: How often the newest record is taken anew, where files of the one before were deleted meanwhile.
_TRIES: Final = 20
#: What of the state's folder is not copied as it is.
_APART: Final = ("state", "commits", "control", "planned")
_FILES: Final = (identity.FILE, manifests.FILE, "lock")


class Copied(NamedTuple):
    """What a copy came to: the batch, and the files and bytes that were written."""

    batch: int
    files: int
    bytes: int


class _Gone(Exception):
    """A file was deleted while it was to be copied."""


def copy(location: str, target: str, *, batch: int | None = None) -> Copied:
    """Makes a savepoint of a checkpoint: a folder from which the query starts as it would have from the checkpoint.

    Args:
        location: the checkpoint's folder.
        target: the folder of the copy; new, or empty.
        batch: the batch to copy, of those that are kept (the newest and the one before); None: the newest.

    Raises:
        CheckpointError: it is no checkpoint, has no such batch, or the target is in use.
    """
    location, target = (paths.absolute(one).rstrip("/") for one in (location, target))
    fs, root, _ = found_state(location)
    to = Folder.at(target)
    if list_files(to.fs, to.root, recursive=True):
        raise CheckpointError(f"{target} has files; give a folder that is new or empty")
    if f"{target}/".startswith(f"{location}/"):
        raise CheckpointError(
            f"{target} lies in the checkpoint {location}; give a folder elsewhere"
        )
    work = _Copying(Folder(location, fs, root), Folder.at(f"{location}/spark"), to)
    for _ in range(_TRIES):
        try:
            return work.copied(batch)
        except _Gone as gone:
            missing = gone
            if batch is not None:
                break
    raise CheckpointError(
        f"{location}: {missing} was deleted while it was copied: the query has gone on. Copy a newer batch, or again."
    )


class _Copying:
    """The copy of one checkpoint."""

    def __init__(self, part: Folder, spark: Folder, to: Folder) -> None:
        self._part, self._spark, self._to = part, spark, to
        self._files = self._bytes = 0

    def copied(self, batch: int | None) -> Copied:
        self._files = self._bytes = 0
        record = self._chosen(batch)
        content = read_bytes(
            self._part.fs, join(self._part.root, records.record_path(record.batch))
        )
        manifest = manifests.in_force(manifests.read(self._part.fs, self._part.root), record.extra)
        if content is None or manifest is None:
            raise _Gone(records.record_path(record.batch))
        for name in [*record.files, *self._beside(record)]:
            self._take(self._part, name, f"thalweg/{name}")
        for name in self._of_spark(record):
            self._take(self._spark, name, f"spark/{name}")
        known = identity.read(self._part)
        if known is not None:
            mine = Identity(known.id, self._to.location)
            self._write(f"thalweg/{identity.FILE}", mine.encode())
        self._write(f"thalweg/{records.record_path(record.batch)}", content)
        self._write(f"thalweg/{manifests.FILE}", manifest.encode())
        return Copied(record.batch, self._files, self._bytes)

    # -- what ----------------------------------------------------------------------------------------------

    def _chosen(self, batch: int | None) -> CommitRecord:
        """The record to copy: one that Spark has logged, too, where the query runs there."""
        fs, root = self._part.fs, self._part.root
        found = records.batches(fs, root)
        wanted = found[::-1] if batch is None else [one for one in found if one == batch]
        for one in wanted:
            record = records.read(fs, root, one)
            if record is not None and (is_of_process(record) or self._is_logged(one)):
                return record
        kept = ", ".join(map(str, found)) or "none"
        what = "no batch" if batch is None else f"not the batch {batch}"
        raise CheckpointError(
            f"{self._part.location} has {what} that was committed by all; it has: {kept}"
        )

    def _is_logged(self, batch: int) -> bool:
        return str(batch) in list_files(self._spark.fs, join(self._spark.root, "commits"))

    def _beside(self, record: CommitRecord) -> Iterator[str]:
        """Other files of the state: tables of routes, and what a process has planned behind the batch."""
        fs, root = self._part.fs, self._part.root
        for name in list_files(fs, root, recursive=True):
            is_whole = not name.endswith((TEMPORARY, ASIDE)) and name not in _FILES
            if is_whole and name.partition("/")[0] not in _APART:
                yield name
        is_newest = records.batches(fs, root)[-1:] == [record.batch]
        begun = is_newest and is_of_process(record)
        if begun and planned.read(fs, root, record.batch + 1) is not None:
            yield planned.path_of("", record.batch + 1)

    def _of_spark(self, record: CommitRecord) -> Iterator[str]:
        """The files of Spark's log that lead up to a batch, each with its checksum where it has one."""
        spark = self._spark
        there = set(list_files(spark.fs, spark.root, recursive=True))
        wanted = ["metadata"]
        for log in ("offsets", "commits"):
            wanted += [f"{log}/{one}" for one in (record.batch - 1, record.batch)]
        wanted += self._lists(record.batch)
        for name in wanted:
            folder, _, file = name.rpartition("/")
            for one in (name, join(folder, f".{file}.crc") if folder else f".{file}.crc"):
                if one in there:
                    yield one

    def _lists(self, batch: int) -> Iterator[str]:
        """What sources have written down, up to the batch; later files are then found anew."""
        spark = self._spark
        lines = log_lines(spark, f"offsets/{batch}")[2:]
        for place in list_folders(spark.fs, join(spark.root, "sources")):
            line = lines[int(place)] if place.isdecimal() and int(place) < len(lines) else ""
            last = log_offset(line) if line else None
            for name in list_files(spark.fs, join(spark.root, "sources", place)):
                number = name.partition(".")[0]
                if last is None or (number.isdecimal() and int(number) <= last):
                    yield f"sources/{place}/{name}"

    # -- files ---------------------------------------------------------------------------------------------

    def _take(self, home: Folder, name: str, to: str) -> None:
        content = read_bytes(home.fs, join(home.root, name))
        if content is None:
            raise _Gone(name)
        self._write(to, content)

    def _write(self, name: str, content: bytes) -> None:
        write_atomic(self._to.fs, join(self._to.root, name), content)
        self._files += 1
        self._bytes += len(content)
