"""Writes what a flow does to a checkpoint: state first, then the commit record, whose rename is the moment it counts.

A kill before that moment leaves the old checkpoint with some files that no record names; behind it the new one, and
whoever opens it next writes down in ``thalweg.json`` what the record says already. The record of the batch before is
deleted: it is of the older form, so the batch can no longer be run again.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.evolution.evolving import Evolution
from thalweg.checkpoint.paths import FileSystem, delete, join
from thalweg.checkpoint.record import ChainPart, CommitRecord
from thalweg.checkpoint.segments import Segment, write_segment


def commit(fs: FileSystem, root: str, found: Evolution) -> CommitRecord | None:
    """Writes all of it; gives the record to go on from.

    Args:
        fs, root: where the state is; nobody else works on it.
        found: what is to be done, and is not refused.
    """
    record = found.record
    if record is not None and found.is_new_record:
        record = _written(fs, root, found, record)
    manifests.write(fs, root, found.manifest)
    if record is not None and manifests.MEANING in record.extra:
        for batch in records.batches(fs, root):
            if batch < record.batch:
                delete(fs, join(root, records.record_path(batch)))
    return record


def _written(fs: FileSystem, root: str, found: Evolution, record: CommitRecord) -> CommitRecord:
    attempt = uuid.uuid4().hex[:8]
    segments = [
        write_segment(
            fs, root, batch=record.batch, stage=0, slot=0, attempt=attempt, operator=name,
            metadata=_about(found, name), units=units,
        )
        for name, units in found.units.items()
    ]  # fmt: skip
    # Another try than the one that was committed: nobody has the state of this one in memory.
    made = dataclasses.replace(
        record,
        attempt=attempt,
        chains=_chains(record, segments),
        extra={**record.extra, manifests.MEANING: _plain(found)},
    )
    records.write(fs, root, made)
    return made


def _about(found: Evolution, name: str) -> dict[str, str]:
    one = found.manifest.operators.get(name)
    keys = [field.name for field in one.keys] if one else []
    return {"flow": found.manifest.flow, "keys": ",".join(keys)}


def _chains(record: CommitRecord, segments: list[Segment]) -> dict[str, Any]:
    """The chains, those of rewritten operators with one snapshot a bucket."""
    chains: dict[str, Any] = dict(record.chains)
    for segment in segments:
        made = {
            unit.bucket: (ChainPart(segment.file, unit.number, "snapshot", unit.bytes, unit.rows),)
            for unit in segment.units
            if unit.number >= 0
        }
        chains.pop(segment.operator, None)
        if made:
            chains[segment.operator] = made
    return chains


def _plain(found: Evolution) -> Mapping[str, Any]:
    said: Mapping[str, Any] = orjson.loads(found.manifest.encode())
    return said
