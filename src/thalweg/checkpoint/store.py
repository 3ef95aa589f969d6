"""Loading and saving the buckets of an operator: what a task does with its state tables before and after a batch.

A table in memory carries the *tag* of the state it equals (the last unit of a chain). A tag that the record's
chain names is proof: nothing is read if it is the chain's last, and only what follows it otherwise.
A table written since is dirty and proves nothing. State of a try that was not committed has a tag that no
record names, so it is loaded anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from thalweg.checkpoint.compaction import (
    DEFAULT_LIMITS,
    BucketView,
    Choice,
    WriteLimits,
    choose_snapshots,
)
from thalweg.checkpoint.merging import merge_units
from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import Chain, ChainPart, CommitRecord
from thalweg.checkpoint.segments import NewUnit, Segment, read_units, write_segment

if TYPE_CHECKING:
    from thalweg.columns.contracts import BucketState

#: Brings rows of an older state class into today's form (see :func:`thalweg.checkpoint.manifest.migrate_batch`).
Migrate: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


class Loaded(NamedTuple):
    """What loading a bucket came to: the tag the table has now, and the bytes of the units read."""

    tag: str
    bytes_read: int


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Which file a slot writes: see :func:`thalweg.checkpoint.segments.write_segment`."""

    batch: int
    stage: int
    slot: int
    attempt: str


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def load_buckets(
    fs: FileSystem,
    root: str,
    record: CommitRecord | None,
    operator: str,
    tables: Mapping[int, BucketState],
    have: Mapping[int, str],
    *,
    migrate: Migrate = _same,
) -> dict[int, Loaded]:
    """Makes tables equal to the state that a record names, each file opened once.

    Args:
        record: of the batch before; None in the first batch.
        tables: by bucket; new ones, or ones kept from an earlier batch.
        have: the tags of those that were kept.

    Raises:
        CheckpointError: a state file is missing or torn.
    """
    chains = {b: record.chain(operator, b) if record else () for b in tables}
    starts = {b: _first_needed(chains[b], tables[b], have.get(b)) for b in tables}
    needed = [u for b in tables for u in chains[b][starts[b] or 0 :]]
    units = iter(read_units(fs, root, [(unit.file, unit.number) for unit in needed]))
    loaded = {}
    for bucket, table in tables.items():
        chain, start = chains[bucket], starts[bucket]
        batches = [migrate(next(units)) for _ in chain[start or 0 :]]
        if start is None:
            table.load(batches)
        elif batches:
            table.apply(batches)
        size = sum(unit.bytes for unit in chain[start or 0 :])
        loaded[bucket] = Loaded(chain[-1].tag if chain else "", size)
    return loaded


def _first_needed(chain: Chain, table: BucketState, tag: str | None) -> int | None:
    """The first unit that a table with this tag lacks; None if it must be loaded from the start."""
    if tag is None or table.dirty:
        return None
    if not chain:
        return 0 if tag == "" else None
    for i in range(len(chain) - 1, -1, -1):
        if tag and tag in (chain[i].tag, chain[i].same_as):
            # A table without apply (one that a user's test wrote) can only start anew.
            return i + 1 if i + 1 == len(chain) or hasattr(table, "apply") else None
    return None


def save_operator(
    fs: FileSystem,
    root: str,
    place: SegmentPlace,
    operator: str,
    tables: Mapping[int, BucketState],
    previous: CommitRecord | None,
    *,
    keys: Sequence[str],
    metadata: Mapping[str, str] | None = None,
    moved: Mapping[int, pa.RecordBatch] | None = None,
    limits: WriteLimits = DEFAULT_LIMITS,
    migrate: Migrate = _same,
) -> Segment:
    """Writes what changed in the buckets that a slot owns, and some snapshots and merges to keep chains short.

    The tables are not touched. When this has returned, the caller calls ``mark_saved`` on all of them and
    gives those in ``segment.tags()`` their new tag.

    Args:
        tables: all buckets the slot owns of this operator and holds, dirty or not, equal to ``previous`` plus
            this batch's writes.
        previous: the record the batch started from.
        keys: the key fields, which are the first columns; empty for rows without keys, whose deltas are never merged.
        metadata: said in the file; ``keys`` is added.
        moved: keys that were taken out of ``tables``, by the bucket that has them from the next batch on.
    """
    deltas = {b: table.delta() for b, table in tables.items() if table.dirty}
    views = _views(tables, deltas, previous, operator)
    choice = choose_snapshots(views, place.batch, limits, merging=bool(keys))
    merged = _merge(fs, root, views, choice, len(keys), migrate)
    units = []
    for bucket in views:
        if bucket in choice.snapshots:
            units.append(NewUnit(bucket, "snapshot", tables[bucket].snapshot()))
            continue
        if bucket in merged:
            units.append(NewUnit(bucket, "merge", merged[bucket], choice.merges[bucket]))
        if views[bucket].delta_rows:
            units.append(NewUnit(bucket, "delta", deltas[bucket]))
    units += [NewUnit(bucket, "moved", rows) for bucket, rows in sorted((moved or {}).items())]
    about = {**(metadata or {}), "keys": ",".join(keys)}
    where = dataclasses.asdict(place)
    return write_segment(fs, root, operator=operator, metadata=about, units=units, **where)


def _views(
    tables: Mapping[int, BucketState],
    deltas: Mapping[int, pa.RecordBatch],
    previous: CommitRecord | None,
    operator: str,
) -> dict[int, BucketView]:
    views = {}
    for bucket, table in sorted(tables.items()):
        chain = previous.chain(operator, bucket) if previous else ()
        delta = deltas.get(bucket)
        changed = (0, 0) if delta is None else (delta.num_rows, delta.nbytes)
        views[bucket] = BucketView(chain, len(table), *changed)
    return views


def _merge(
    fs: FileSystem,
    root: str,
    views: Mapping[int, BucketView],
    choice: Choice,
    keys: int,
    migrate: Migrate,
) -> dict[int, pa.RecordBatch]:
    """The merged deltas of the buckets chosen for it."""
    parts: dict[int, Chain] = {b: views[b].chain[start:] for b, start in choice.merges.items()}
    wanted: list[ChainPart] = [unit for part in parts.values() for unit in part]
    units = iter(read_units(fs, root, [(unit.file, unit.number) for unit in wanted]))
    return {
        bucket: merge_units([migrate(next(units)) for _ in part], keys)
        for bucket, part in parts.items()
    }
