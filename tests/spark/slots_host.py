"""Batches of a flow over several slots by the very bodies of Spark's tasks, without a Spark session.

Every second batch goes by mailboxes between two tasks at once, as on a local master, the others as on a cluster.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import cloudpickle
import numpy as np
import orjson
import pyarrow as pa

import thalweg as tw
from thalweg.checkpoint import cleaning
from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.hosts.plan_manifest import manifest_of
from thalweg.checkpoint.inspect import read_state
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.flow.operators.idle import IdleDecision
from thalweg.plan.plan import Plan, make_plan
from thalweg.slots.pairs import PAIRS, Read
from thalweg.spark.checkpoint.store import Store
from thalweg.spark.keys.locality import followed
from thalweg.spark.keys.pairs import pairs_body
from thalweg.spark.progress import sum_counts
from thalweg.spark.reading import inputs as io
from thalweg.spark.tasks import one_job, tasks, worker
from thalweg.spark.tasks.pickling import pickled_plan
from thalweg.spark.tasks.transport import Blob, decode, from_batch, to_batches
from thalweg.spark.tasks.worker import StageJob, segment_of
from thalweg.testing.reference import run_reference
from thalweg.testing.reference_keys import sort_key


class Told:
    """Stands for the accumulator of counts."""

    def __init__(self) -> None:
        self.value: list[Any] = []

    def add(self, more: list[Any]) -> None:
        """What a task has counted."""
        self.value += more


#: The rows of a batch by source; of a flow's only source without its name.
Rows = Sequence[Any] | Mapping[str, Sequence[Any]]


class SlotsHost:
    """A flow over a checkpoint in a folder; the driver's part and the shuffles are done here.

    Attributes:
        rows: of each sink, of the batches that were committed.
        options: how the tasks read the inputs, by source; None: rows of a frame.
    """

    def __init__(self, flow: tw.Flow, folder: str, threads: int = 1) -> None:
        self.threads = threads
        self.chunk_rows = 65_536
        #: what takes the tasks' counts
        self.told: Any = None
        #: of the last batch
        self.attempt = ""
        self.plan: Plan = make_plan(flow)
        self._pickled = pickled_plan(prepare(self.plan))
        self._fingerprint = hashlib.sha256(self._pickled).hexdigest()
        self.store = Store.open(folder)
        manifests.write(self.store.fs, self.store.root, manifest_of(self.plan))
        self.record: records.CommitRecord | None = None
        self.rows: dict[str, list[Any]] = {sink.name: [] for sink in self.plan.sinks}
        self.options = {source.name: io.InputOptions(None) for source in self.plan.sources}

    def batch(
        self, rows: Rows, *, slots: int, epoch: int = 0, next_epoch: int = 0,
        ends: bool = False, commit: bool = True, decisions: Sequence[IdleDecision] = (),
    ) -> list[dict[str, Any]]:  # fmt: skip
        """One batch; without ``commit`` it is lost like that of a driver that is killed before its record.

        Gives what its tasks report.
        """
        job = dataclasses.replace(self._job(slots, epoch, next_epoch, ends), decisions=decisions)
        self.attempt = job.attempt
        reports, found = [], []
        for blob in self._blobs(job, rows):
            if blob.kind == "sink":
                found.append(blob)
                continue
            content = orjson.loads(memoryview(blob.data))
            if "error" in content:
                raise cloudpickle.loads(bytes.fromhex(content["error"]))
            reports.append(content)
        if commit:
            self._commit(job, reports)
            for sink in self.plan.sinks:
                for blob in found:
                    if blob.node == sink.index:
                        self.rows[sink.name] += decode(blob.data, sink.record, ()).rows()
        return reports

    def _commit(self, job: StageJob, reports: Sequence[Any]) -> None:
        gates = {name: facts for said in reports for name, facts in said["gates"].items()}
        record = records.next_record(
            self.record, job.batch, job.attempt,
            [segment_of(one) for said in reports for one in said["segments"]],
            sum_counts(said["counts"] for said in reports), slots=job.slots,
            extra={"gates": gates, **followed(job.next_epoch or job.epoch)},
        )  # fmt: skip
        records.write(self.store.fs, self.store.root, record)
        keep = [record] if self.record is None else [self.record, record]
        cleaning.clean(self.store.fs, self.store.root, keep)
        self.record = record

    def _job(self, slots: int, epoch: int, next_epoch: int, ends: bool) -> StageJob:
        return StageJob(
            plan=self._pickled,
            fingerprint=self._fingerprint,
            root=self.store.thalweg,
            batch=0 if self.record is None else self.record.batch + 1,
            attempt=uuid.uuid4().hex[:8],
            previous=None if self.record is None else self.record.batch,
            slots=slots,
            ends=ends,
            options=self.options,
            defaults={},
            chunk_rows=self.chunk_rows,
            wanted=frozenset(sink.index for sink in self.plan.sinks),
            threads=self.threads,
            told=self.told,
            epoch=epoch,
            next_epoch=next_epoch,
        )

    def _blobs(self, job: StageJob, rows: Rows) -> list[Blob]:
        """What arrives at the driver."""
        given = iter(self._tagged(rows))
        if job.slots == 1:
            return list(_read(tasks.whole_flow(job)(given)))
        if job.batch % 2:
            return _at_once(job, given)
        there = list(_read(tasks.first_stage(job)(given)))
        for stage in range(1, self.plan.depth):
            there = _shuffled(tasks.later_stage(job, stage), there, job.slots)
        return _shuffled(tasks.last_merge(job), there, job.slots)

    def pairs(self, rows: Sequence[Any], reads: Sequence[Read]) -> pa.Table:
        """The pre-pass over a batch."""
        body = pairs_body(self._job(2, 0, 0, False), reads)
        return pa.Table.from_batches(list(body(self._tagged(rows))), PAIRS)

    def _tagged(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Rows as Spark hands them to a task: a column says of which source, each source has one for its own."""
        sources = self.plan.sources
        given = rows if isinstance(rows, Mapping) else {sources[0].name: rows}
        for place, source in enumerate(sources):
            mine = list(given.get(source.name, ()))
            if not mine:
                continue
            columns = [pa.array(np.full(len(mine), place, np.int32))]
            for other in sources:
                whole = Chunk.from_rows(other.out, mine if other is source else []).to_arrow()
                structs = whole.to_struct_array()
                columns.append(structs if other is source else pa.nulls(len(mine), structs.type))
            columns.append(pa.nulls(len(mine), pa.string()))
            names = [io.SOURCE, *(f"s{n}" for n in range(len(sources))), io.CONTROL]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    @staticmethod
    def forget() -> None:
        """What new worker processes know: nothing."""
        worker.forget_engines()


def check(flow: tw.Flow, host: SlotsHost, folder: Path, rows: Sequence[Any]) -> None:
    """Sinks and states are those of the reference runner at the end of the rows."""
    plan = make_plan(flow)
    wanted = run_reference(flow, {plan.sources[0].name: rows}, end=True)
    for sink in plan.sinks:
        assert host.rows[sink.name] == wanted.sinks[sink.name], sink.name
    for node in plan.keyed:
        held = wanted.states[node.name]
        expected = [
            (*(key if isinstance(key, tuple) else (key,)), *node.state.values(held[key]))
            for key in sorted(held, key=sort_key)
        ]
        table = read_state(str(folder), node.name)
        columns = [
            column.cast("int64") if str(column.type).startswith("timestamp") else column
            for column in table.columns
        ]
        found = list(zip(*[column.to_pylist() for column in columns], strict=True))
        assert found == expected, node.name


def _at_once(job: StageJob, given: Iterator[pa.RecordBatch]) -> list[Blob]:
    """What two tasks give that share the work of a batch; here they are threads."""
    here = threading.local()

    def task_number() -> int:
        return int(here.number)

    def task(number: int) -> list[Blob]:
        here.number = number
        return list(_read(one_job.all_stages(shared)(iter(()) if number else given)))

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(tasks, "task_number", task_number),
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        shared = dataclasses.replace(job, mailboxes=folder)
        return [blob for blobs in pool.map(task, range(2)) for blob in blobs]


def _shuffled(body: Any, blobs: Iterable[Blob], slots: int) -> list[Blob]:
    """The blobs that a stage gives, each slot of which gets its own."""
    parts: list[list[Blob]] = [[] for _ in range(slots)]
    for blob in blobs:
        parts[blob.slot].append(blob)
    out: list[Blob] = []
    for slot, part in enumerate(parts):
        with mock.patch.object(tasks, "task_number", lambda slot=slot: slot):
            out += _read(body(to_batches(iter(part))))
    return out


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[Blob]:
    for batch in batches:
        yield from from_batch(batch)
