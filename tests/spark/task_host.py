"""Batches of a flow by the very body that Spark's tasks run, without a Spark session: for state at scale."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import cloudpickle
import numpy as np
import orjson
import pyarrow as pa

import thalweg as tw
from thalweg.checkpoint import record as records
from thalweg.engine.build import prepare
from thalweg.plan.plan import make_plan
from thalweg.spark.checkpoint.store import Store
from thalweg.spark.reading import inputs as io
from thalweg.spark.tasks import tasks, worker
from thalweg.spark.tasks.pickling import pickled_plan
from thalweg.spark.tasks.transport import from_batch
from thalweg.spark.tasks.worker import StageJob, segment_of


class TaskHost:
    """One slot's batches over a checkpoint in a folder; the driver's part is done here."""

    def __init__(self, flow: tw.Flow, folder: str, threads: int = 1) -> None:
        plan = make_plan(flow)
        self._source = plan.sources[0]
        self.threads = threads
        self._pickled = pickled_plan(prepare(plan))
        self._fingerprint = hashlib.sha256(self._pickled).hexdigest()
        self._store = Store.open(folder)
        self.record: records.CommitRecord | None = None
        self.keys: dict[str, int] = {}

    def run(self, tables: Iterable[pa.RecordBatch]) -> None:
        """One batch over rows of the flow's only source; commits it."""
        job = self.job()
        said = self._report(job, tables)
        segments = [segment_of(one) for one in said["segments"]]
        self.record = records.next_record(
            self.record, job.batch, job.attempt, segments, said["counts"], slots=1,
            extra={"gates": said["gates"]},
        )  # fmt: skip
        records.write(self._store.fs, self._store.root, self.record)
        self.keys = said["keys"]

    def job(self) -> StageJob:
        """What a task of the next batch is told."""
        number = 0 if self.record is None else self.record.batch + 1
        return StageJob(
            plan=self._pickled,
            fingerprint=self._fingerprint,
            root=self._store.thalweg,
            batch=number,
            attempt=uuid.uuid4().hex[:8],
            previous=None if self.record is None else self.record.batch,
            slots=1,
            ends=False,
            options={self._source.name: io.InputOptions(None)},
            defaults={},
            chunk_rows=65_536,
            wanted=frozenset(),
            threads=self.threads,
        )

    def _report(self, job: StageJob, tables: Iterable[pa.RecordBatch]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for batch in tasks.whole_flow(job)(tagged(tables)):
            for blob in from_batch(batch):
                content = orjson.loads(memoryview(blob.data))
                if "error" in content:
                    raise cloudpickle.loads(bytes.fromhex(content["error"]))
                found = content
        return found

    def written(self, batch: int) -> int:
        """The bytes of the state files of a batch."""
        folder = os.path.join(self._store.root, "state", str(batch))
        return sum(
            os.path.getsize(os.path.join(where, name))
            for where, _, names in os.walk(folder)
            for name in names
        )

    @staticmethod
    def forget() -> None:
        """What a new worker process knows: nothing."""
        worker.forget_engines()


def tagged(tables: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of a flow's only source as Spark hands them to a task."""
    for table in tables:
        columns = [
            pa.array(np.zeros(table.num_rows, np.int32)),
            table.to_struct_array(),
            pa.nulls(table.num_rows, pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[io.SOURCE, "s0", io.CONTROL])
