"""Batches of a flow on Spark: planned anew on the driver, run, written and committed.

The order of a batch: tasks read the state that the commit record of the batch before names and
write their own segments; all sinks write; the driver writes the commit record; then Spark logs the batch. A
crash anywhere in between repeats the batch from the same record, so output and state are exactly-once.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from thalweg.checkpoint import cleaning
from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.history import CheckpointHistory
from thalweg.checkpoint.hosts.evolution import go_on
from thalweg.checkpoint.hosts.handing_over import is_of_process
from thalweg.checkpoint.hosts.opened import require_unfinished
from thalweg.connectors.target_writes import TargetWrites
from thalweg.connectors.targets import Target
from thalweg.connectors.written.known_places import tell_moved
from thalweg.engine.build import prepare
from thalweg.engine.stamps import wall_us
from thalweg.plan.plan import Plan
from thalweg.spark.batch_thread import query_here
from thalweg.spark.checkpoint.store import Store
from thalweg.spark.cluster.exchanges import Exchange, exchanges, exchanges_here, tagged
from thalweg.spark.cluster.one_machine import OneMachine
from thalweg.spark.cluster.placement import SlotPlacement, cores_of_task, is_one_process
from thalweg.spark.elastic import Adaptation, BatchChange
from thalweg.spark.failures import write_failed
from thalweg.spark.idle import IdleSources
from thalweg.spark.keys.locality import Asked, KeyRouting, Routed, followed
from thalweg.spark.keys.locality_progress import locality_progress, table_changes
from thalweg.spark.keys.pairs import read_pairs
from thalweg.spark.progress import RECENT, batch_progress, parts_of, sum_counts
from thalweg.spark.reading import inputs as io
from thalweg.spark.reading.planned_files import FileInputs
from thalweg.spark.tasks.mailboxes import WORKS
from thalweg.spark.tasks.map_in_arrow import import_names, map_in_arrow
from thalweg.spark.tasks.one_job import all_stages
from thalweg.spark.tasks.pickling import pickled_plan
from thalweg.spark.tasks.sender import is_merged
from thalweg.spark.tasks.tasks import first_stage, last_merge, later_stage, whole_flow
from thalweg.spark.tasks.transport import FRAME, from_batch
from thalweg.spark.tasks.worker import StageJob, segment_of
from thalweg.spark.told import Told, persisted, require_all
from thalweg.spark.writing.sink_writes import Writing, write
from thalweg.spark.writing.sinks import (
    ConsoleSink,
    FolderSink,
    FrameSink,
    MemorySink,
    TableSink,
    refuse_used_folders,
    sinks_of,
)
from thalweg.version import __version__
from thalweg.workers.warm import is_warm


class BatchRunner:
    """Runs batches of one flow: plans the frame, collects reports, writes sinks, commits."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        inputs: Mapping[str, Any],
        sinks: Mapping[str, Any],
        store: Store | None,
        numbers: Adaptation,
        chunk_rows: int,
        locality: Asked = "off",
        drop: Sequence[str] = (),
        policy: bytes = b"",
        *,
        follows: bool = True,
    ) -> None:
        import_names(spark)
        self._drop, self._policy = drop, policy
        self.spark = spark
        self.plan = plan
        self.store = store
        #: how many slots and threads
        self.numbers = numbers
        #: tasks have one thread each until the worker loop is compiled, beside the first batches
        self.waits_for_loop = False
        self.sinks = sinks_of(sinks)
        self._targets = TargetWrites(write_failed)
        self.progress: collections.deque[dict[str, Any]] = collections.deque(maxlen=RECENT)
        #: rows of the sources in all batches of this process
        self.rows_in = 0
        self.finished = False
        self._chunk_rows = chunk_rows
        self._options = io.input_options(inputs)
        #: those of files
        self.files = [one for one in inputs.values() if isinstance(one, io.Files)]
        self._files = FileInputs([source.name for source in plan.sources], self._options)
        self.prepared = prepare(plan)
        self._pickled = pickled_plan(self.prepared)
        self._fingerprint = hashlib.sha256(self._pickled + __version__.encode()).hexdigest()[:32]
        self._defaults: Mapping[str, Any] = {}
        self.counts: dict[str, dict[str, int]] = {}
        self._one_machine = OneMachine(spark, can_pass=WORKS)
        self._placement = SlotPlacement(spark, zlib.crc32(plan.flow.encode()))
        self._routing: KeyRouting | None = None
        #: what is decided of silent sources, and stamped; None where there are none that live on or are stamped
        self.idle: IdleSources | None = None
        if store is not None:
            self._open(store, locality)
            is_stamped = any(source.stamp is not None for source in plan.sources)
            if is_stamped or (follows and any(s.idle is not None for s in plan.sources)):
                wake = functools.partial(store.command, command="look")
                live = io.live_inputs(inputs) if follows else {}
                self.idle = IdleSources(plan, live, store.fs, store.root, wake)
                self.idle.resume(store.newest_of_spark())

    @property
    def most_slots(self) -> int | None:
        """For more there can be no routing table; None where there are none."""
        return None if self._routing is None else self._routing.most_slots

    def require_slots(self, slots: int) -> None:
        """Refuses a number of slots that the query cannot have.

        Raises:
            BuildError: a routing table of so many cannot be.
        """
        if self._routing is not None:
            self._routing.require_slots(slots)

    def require_inputs(self) -> None:
        """Refuses to call the inputs read to their end where a folder of one has gone; errors name it."""
        if not self.finished:
            self._files.require_folders()

    def _open(self, store: Store, locality: Asked) -> None:
        if manifests.read(store.fs, store.root) is None:
            manifests.require_new(store.fs, store.root)
            refuse_used_folders(self.sinks)
        newest = records.latest(store.fs, store.root)
        require_unfinished(newest, store.location)
        before = store.newest_of_spark()
        found = go_on(
            store.fs, store.root, self.plan, before, drop=self._drop,
            by_place=not is_of_process(before),
        )  # fmt: skip
        self._defaults = found.defaults
        # A record that Spark has not logged is of a batch that is run again.
        is_newest = before is not None and newest is not None and before.batch == newest.batch
        latest = found.record if is_newest else newest
        tell_moved(store.fs, store.root, self.sinks)
        self.counts = {k: dict(v) for k, v in latest.counters.items()} if latest else {}
        context, slots = self.spark.sparkContext, self.numbers.slots
        self._routing = KeyRouting(
            context, self.plan, store.fs, store.root, locality, latest, slots
        )
        self.numbers.limit_slots(self._routing.most_slots)
        if latest is not None:
            self.numbers.started_after(latest.batch, latest.slots)

    def run(
        self, frame: DataFrame, batch: int, *, ends: bool, admission_wait_s: float = 0.0
    ) -> None:
        """One batch, from the frame of its inputs to the commit record.

        Args:
            admission_wait_s: how long the batch has waited for other queries, for its progress.

        Raises:
            ThalwegError: a row or a function failed; nothing of the batch is committed.
        """
        started = time.perf_counter()
        query = query_here(self.spark)
        found = CheckpointHistory() if self.store is None else self.store.history(batch, query)
        previous = found.before
        parts = {"began": started}
        job, routed = self._planned(frame, batch, previous, ends=ends)
        parts["planned"] = time.perf_counter()
        places = self._placement.next_batch(job.slots)
        with self._one_machine.mailboxes(job.slots) as folder, tagged(self.spark, job.attempt):
            result = self.lowered(frame, dataclasses.replace(job, mailboxes=folder), places)
            with persisted(result) if self._reads_twice() else contextlib.nullcontext():
                told = self._told(result)
                require_all(self.plan.depth, job.slots, told.reports)
                if self.store is not None:
                    self._files.require_planned(self.store.spark, batch, told.reports)
                    self.store.require_alone(found, batch)
                parts["ran"] = time.perf_counter()
                run = query or f"{self.plan.flow}-{self._fingerprint}-{job.attempt}"
                write(self.plan, self.sinks, result, told, Writing(batch, run, self._targets))
                parts["written"] = time.perf_counter()
        record = self._commit(found, job, told.reports, query)
        if self.idle is not None:
            self.idle.committed(record, told.reports)
        if self._routing is not None:
            self._routing.collect(job.attempt)
            self._routing.committed(batch)
        wall_s = time.perf_counter() - started
        progress = batch_progress(
            self.plan, record, told.reports, self.progress,
            wall_s=wall_s, admission_wait_s=admission_wait_s,
            locality=self._locality(job, routed, told.reports),
        )  # fmt: skip
        if self._routing is not None and (tried := self._routing.measured(routed, progress)):
            progress["locality"]["first_seen"] = tried
        progress["threads"] = job.threads
        progress["idle"] = {} if self.idle is None else self.idle.said
        progress["parts_s"] = parts_of(parts, started + wall_s)
        progress["at_s"] = time.time()
        self.rows_in += progress["rows"]
        asked = self.numbers.asked
        changes = self._adapt(progress, table_changes(batch, routed))
        most = self._placement.cores // cores_of_task(self.spark)
        changes = [*asked, *changes, *self.numbers.follow_cluster(batch, most)]
        progress["slots_reason"] = self.numbers.slots_reason
        progress["changes"] = [dataclasses.asdict(one) for one in changes]
        self.progress.append(progress)
        self.numbers.told(len(asked))

    def _adapt(
        self, said: Mapping[str, Any], tables: Sequence[BatchChange]
    ) -> Sequence[BatchChange]:
        """Changes the numbers of slots and threads for the next batch, if that is left to us; all its changes."""
        tuples = sum(counts.get("in", 0) for counts in said["operators"].values())
        batch, rows, wall_s = (said[name] for name in ("batch", "rows", "batch_s"))
        # Of several slots the CPU time: their tasks wait for each other. Of one, whose functions may wait, the time.
        work_s = said["task_s"]
        if said["slots"] > 1:
            work_s = min(work_s, said["task_cpu_s"])
        found = self.numbers.batch_done(
            batch, rows=rows, tuples=tuples, wall_s=wall_s, work_s=work_s, new_table=bool(tables)
        )
        return [*found, *tables]

    def _planned(
        self, frame: DataFrame, batch: int, previous: records.CommitRecord | None, *, ends: bool
    ) -> tuple[StageJob, Routed]:
        """What the tasks of a batch must know, and the tables by which it is routed."""
        job = self.job(batch, previous, ends=ends)
        if self.idle is not None:
            begins = self.idle.begin(batch, previous, self._chunk_rows)
            job = dataclasses.replace(job, **begins._asdict())
        if self._routing is None:
            return job, Routed()
        read = functools.partial(read_pairs, frame, job)
        routed = self._routing.plan(batch, job.slots, previous, read)
        return dataclasses.replace(
            job,
            epoch=routed.epoch,
            next_epoch=routed.next_epoch,
            told=self._routing.told if job.slots > 1 else None,
        ), routed

    def _locality(
        self, job: StageJob, routed: Routed, reports: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        found = self._exchanges(job, reports) if job.slots > 1 else []
        if not found and routed.run is None:
            return {}
        top = None if self._routing is None else self._routing.top_keys()
        return locality_progress(self.plan, job.slots, routed, reports, found, top)

    def _exchanges(self, job: StageJob, reports: Sequence[Mapping[str, Any]]) -> Sequence[Exchange]:
        if is_one_process(self.spark):
            return exchanges_here(job.slots, reports)
        return exchanges(self.spark, job.attempt)

    def job(self, batch: int, previous: records.CommitRecord | None, *, ends: bool) -> StageJob:
        """What the tasks of a batch must know, without tables."""
        return StageJob(
            plan=self._pickled,
            fingerprint=self._fingerprint,
            root="" if self.store is None else self.store.thalweg,
            batch=batch,
            attempt=uuid.uuid4().hex[:8],
            previous=None if previous is None else previous.batch,
            previous_attempt="" if previous is None else previous.attempt,
            slots=self.numbers.slots,
            ends=ends,
            options=self._options,
            defaults=self._defaults,
            chunk_rows=self._chunk_rows,
            wanted=frozenset(n.index for n in self.plan.sinks if n.name in self.sinks),
            threads=self._threads(),
            policy=self._policy,
            stamps=self._unlogged,
        )

    @property
    def _unlogged(self) -> dict[str, int]:
        """Stamps of rows that are read once, without a checkpoint."""
        names = [source.name for source in self.plan.sources if source.stamp is not None]
        return dict.fromkeys(names, wall_us()) if names else {}

    def _threads(self) -> int:
        """As many as there are to be; one while the worker loop is still being compiled on this machine."""
        self.waits_for_loop = self.waits_for_loop and not is_warm()
        return 1 if self.waits_for_loop else self.numbers.threads

    def lowered(self, frame: DataFrame, job: StageJob, places: Sequence[str] = ()) -> DataFrame:
        """The linear chain of stages over the tagged frame.

        Args:
            frame: the tagged inputs.
            job: what the tasks are told.
            places: where the slots prefer to run; a streaming frame has no choice.
        """
        if job.mailboxes:
            tasks = self._one_machine.with_tasks(frame, job.slots)
            return map_in_arrow(tasks, all_stages(job), FRAME)
        bodies = [whole_flow(job) if job.slots == 1 else first_stage(job)]
        if job.slots > 1:
            bodies += [later_stage(job, stage) for stage in range(1, self.plan.depth)]
            wanted = [sink for sink in self.plan.sinks if sink.index in job.wanted]
            if any(is_merged(self.plan, sink) for sink in wanted):
                bodies.append(last_merge(job))
        out = self._placement.placed(frame.coalesce(1), places[:1])
        for number, body in enumerate(bodies):
            if number:
                # Rows for the driver have slots too, so that every row has a place.
                out = self._placement.placed(out.repartitionById(job.slots, out["slot"]), places)
            out = map_in_arrow(out, body, FRAME)
        return out

    def _reads_twice(self) -> bool:
        """Whether Spark reads what the tasks made for a sink, besides what the driver takes."""
        return any(isinstance(sink, (FolderSink, FrameSink)) for sink in self.sinks.values())

    def _told(self, result: DataFrame) -> Told:
        """Runs the batch: what the tasks reported, rows by sink, and the rows of sinks on the driver.

        Raises:
            ThalwegError: a task reported a failure.
        """
        here = [
            node.index
            for node in self.plan.sinks
            if isinstance(self.sinks.get(node.name), (MemorySink, ConsoleSink, TableSink, Target))
        ]
        if self._reads_twice():
            wanted = (result["kind"] == "report") | result["node"].isin(here)
            data = f.when(wanted, result["data"]).alias("data")
            result = result.select(*[name for name in result.columns if name != "data"], data)
        told = Told([], collections.Counter(), {})
        for batch in result.toArrow().to_batches():
            for blob in from_batch(batch):
                told.add(blob)
        return told

    def close(self) -> None:
        """Ends the connections with targets; the next batch makes new ones."""
        self._targets.close()

    # -- commit -------------------------------------------------------------------------------------------

    def _commit(
        self,
        found: CheckpointHistory,
        job: StageJob,
        reports: list[dict[str, Any]],
        query: str,
    ) -> records.CommitRecord:
        previous = found.before
        gates = {name: facts for said in reports for name, facts in said["gates"].items()}
        old_gates = previous.extra.get("gates", {}) if previous else {}
        record = records.next_record(
            previous,
            job.batch,
            job.attempt,
            [segment_of(one) for said in reports for one in said["segments"]],
            sum_counts(said["counts"] for said in reports),
            slots=job.slots,
            clock={d: c for said in reports for d, c in said.get("clocks", {}).items()},
            finished=any(said.get("ends") for said in reports),
            plan=self._fingerprint,
            epoch=job.epoch,
            extra={
                "gates": {**old_gates, **gates},
                **followed(job.next_epoch or job.epoch),
                **({} if self.store is None else self.store.said(query)),
            },
        )
        if self.store is not None:
            if any(said.get("postponed") for said in reports):
                # Before the record: a crash in between repeats the command, and does not forget it.
                self.store.command(command="end")
            self.store.commit(record, found)
            keep = [record] if previous is None else [previous, record]
            cleaning.clean(self.store.fs, self.store.root, keep)
        self.finished = record.finished
        self.counts = {name: dict(counts) for name, counts in record.counters.items()}
        return record
