"""A bucket's state as a dict, and a driver and a task in a few lines: what the state tests run on."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from thalweg.checkpoint import record as records
from thalweg.checkpoint.compaction import DEFAULT_LIMITS, WriteLimits
from thalweg.checkpoint.record import CommitRecord
from thalweg.checkpoint.segments import Segment
from thalweg.checkpoint.store import SegmentPlace, load_buckets, save_operator

SCHEMA = pa.schema(
    [
        pa.field("user", pa.int64(), nullable=False),
        pa.field("pages", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("_deleted", pa.bool_(), nullable=False),
    ]
)
FS = pafs.LocalFileSystem()


class StrictMoves:
    """A file system on which a rename never replaces a file, as on HDFS."""

    type_name = "hdfs"

    def __getattr__(self, name: str) -> Any:
        return getattr(FS, name)

    def move(self, src: str, dest: str) -> None:
        if os.path.exists(dest):
            raise OSError("exists")
        FS.move(src, dest)


Rows = dict[int, tuple[int, str]]


class DictTable:
    """A :class:`thalweg.columns.contracts.BucketState` that is obviously right."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self._written: set[int] = set()
        self.loads = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return 64 * len(self.rows)

    @property
    def dirty(self) -> bool:
        return bool(self._written)

    def put(self, key: int, value: tuple[int, str]) -> None:
        self.rows[key] = value
        self._written.add(key)

    def drop(self, key: int) -> None:
        self.rows.pop(key, None)
        self._written.add(key)

    def _batch(self, keys: Sequence[int]) -> pa.RecordBatch:
        values = [self.rows.get(key, (0, "")) for key in keys]
        columns = [
            pa.array(keys, pa.int64()),
            pa.array([v[0] for v in values], pa.int64()),
            pa.array([v[1] for v in values], pa.string()),
            pa.array([key not in self.rows for key in keys], pa.bool_()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def delta(self) -> pa.RecordBatch:
        return self._batch(sorted(self._written))

    def snapshot(self) -> pa.RecordBatch:
        return self._batch(sorted(self.rows))

    def mark_saved(self) -> None:
        self._written.clear()

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.loads += 1
        self.rows.clear()
        self._written.clear()
        self.apply(batches)

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        assert not self.dirty
        for batch in deltas:
            for key, pages, name, deleted in zip(*batch.to_pydict().values(), strict=True):
                if deleted:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = (pages, name)


class Process:
    """A worker process: tables that survive between batches, with their tags."""

    def __init__(
        self, root: str, operator: str = "track", limits: WriteLimits = DEFAULT_LIMITS
    ) -> None:
        self.root, self.operator, self.limits = root, operator, limits
        self.tables: dict[int, DictTable] = {}
        self.tags: dict[int, str] = {}
        self.bytes_read = 0

    def run(
        self,
        previous: CommitRecord | None,
        buckets: Sequence[int],
        writes: dict[int, Rows | dict[int, None]],
        *,
        batch: int,
        slot: int = 0,
        attempt: str = "a",
    ) -> Segment:
        """A task of a batch: load, write (None drops a key), save, tag."""
        tables = {b: self.tables.setdefault(b, DictTable()) for b in buckets}
        have = {b: self.tags[b] for b in buckets if b in self.tags}
        loaded = load_buckets(FS, self.root, previous, self.operator, tables, have)
        self.tags.update({b: one.tag for b, one in loaded.items()})
        self.bytes_read = sum(one.bytes_read for one in loaded.values())
        for bucket, rows in writes.items():
            for key, value in rows.items():
                if value is None:
                    tables[bucket].drop(key)
                else:
                    tables[bucket].put(key, value)
        place = SegmentPlace(batch, 0, slot, attempt)
        segment = save_operator(
            FS, self.root, place, self.operator, tables, previous, keys=["user"], limits=self.limits
        )
        for table in tables.values():
            table.mark_saved()
        self.tags.update(segment.tags())
        return segment

    def state(self, buckets: Sequence[int]) -> dict[int, Rows]:
        return {b: copy.copy(self.tables[b].rows) for b in buckets}


def commit(
    root: str, previous: CommitRecord | None, batch: int, *segments: Segment
) -> CommitRecord:
    """The driver's end of a batch."""
    made = records.next_record(previous, batch, "a", segments, {}, slots=len(segments))
    records.write(FS, root, made)
    return made


def stored(root: str, record: CommitRecord | None, buckets: Sequence[int]) -> dict[int, Rows]:
    """The state that a record names, read by a process that has seen nothing."""
    tables = {b: DictTable() for b in buckets}
    load_buckets(FS, root, record, "track", tables, {})
    return {b: table.rows for b, table in tables.items()}
