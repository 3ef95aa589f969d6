"""A flow as a streaming query: each batch is planned anew on the driver, run, written and committed.

The order of a batch (DECISIONS F46): tasks read the state that the commit record of the batch before names and
write their own segments; all sinks write; the driver writes the commit record; then Spark logs the batch. A
crash anywhere in between repeats the batch from the same record, so output and state are exactly-once.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import cloudpickle
import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.errors import BuildError, CheckpointError, ThalwegError
from thalweg.flow import Flow
from thalweg.operators.nodes import Sink
from thalweg.plan import Plan, make_plan
from thalweg.runtime.build import prepare
from thalweg.runtime.engine import CHUNK_ROWS, Engine
from thalweg.spark import inputs as io
from thalweg.spark.failures import function_failed, readable, tell_once, write_failed
from thalweg.spark.lease import Lease
from thalweg.spark.manifest import manifest_of
from thalweg.spark.map_in_arrow import map_in_arrow
from thalweg.spark.pickling import pickled_plan
from thalweg.spark.sinks import (
    ConsoleSink,
    FileSink,
    FrameSink,
    MemorySink,
    TableSink,
    as_sink,
    decode_frame,
    refuse_used_folders,
)
from thalweg.spark.tasks import first_stage, last_merge, later_stage, whole_flow
from thalweg.spark.transport import FRAME, Blob, decode, from_batch
from thalweg.spark.worker import StageJob
from thalweg.state import cleaning, paths
from thalweg.state import manifest as manifests
from thalweg.state import record as records
from thalweg.state.paths import FileSystem, join, resolve, write_atomic
from thalweg.state.segments import Segment, SegmentUnit
from thalweg.version import __version__

log = logging.getLogger("thalweg")

End = Literal["keep", "drain"]
#: How many batches' progress a query keeps.
RECENT = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """A checkpoint: its folder as Spark writes it, and the Thalweg folder inside it."""

    location: str
    thalweg: str
    fs: FileSystem
    root: str
    lease: Lease

    @classmethod
    def open(cls, location: str, state: str | None = None) -> Store:
        """The store of a checkpoint folder, which is probed for what commits need and then ours alone."""
        location = paths.absolute(location)
        thalweg = paths.absolute(state) if state else f"{location.rstrip('/')}/thalweg"
        paths.probe(thalweg)
        fs, path = resolve(thalweg)
        fs.create_dir(join(path, "control"), recursive=True)
        lease = Lease(location, fs, path)
        lease.take()
        return cls(location.rstrip("/"), thalweg, fs, path, lease)

    @property
    def control(self) -> str:
        return f"{self.thalweg}/control"

    def command(self, **content: Any) -> None:
        """Puts a command into the control folder: the next batch reads it."""
        name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}.json"
        write_atomic(self.fs, join(self.root, "control", name), orjson.dumps(content) + b"\n")


@dataclasses.dataclass(slots=True)
class _Told:
    """What the tasks of a batch told the driver: reports, rows by sink, and the blobs of sinks kept here."""

    reports: list[dict[str, Any]]
    rows: collections.Counter[int]
    data: dict[int, list[Any]]

    def add(self, blob: Blob) -> None:
        """Takes one row of the frame; a reported failure is raised."""
        if blob.kind == "sink":
            self.rows[blob.node] += blob.port
            if len(memoryview(blob.data)):
                self.data.setdefault(blob.node, []).append(blob.data)
            return
        content = orjson.loads(memoryview(blob.data))
        if "error" in content:
            raise cloudpickle.loads(bytes.fromhex(content["error"]))
        self.reports.append(content)


class Batches:
    """Runs batches of one flow: plans the frame, collects reports, writes sinks, commits."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        inputs: Mapping[str, Any],
        sinks: Mapping[str, Any],
        store: Store | None,
        slots: int,
        chunk_rows: int,
    ) -> None:
        self.spark = spark
        self.plan = plan
        self.store = store
        self.slots = slots
        self.sinks = {name: as_sink(name, given) for name, given in sinks.items()}
        self.progress: collections.deque[dict[str, Any]] = collections.deque(maxlen=RECENT)
        self.finished = False
        self._chunk_rows = chunk_rows
        self._options = io.input_options(inputs)
        self.prepared = prepare(plan)
        self._pickled = pickled_plan(self.prepared)
        self._fingerprint = hashlib.sha256(self._pickled + __version__.encode()).hexdigest()[:32]
        self._defaults: dict[str, Any] = {}
        self.counts: dict[str, dict[str, int]] = {}
        if store is not None:
            self._open(store)

    def _open(self, store: Store) -> None:
        new = manifest_of(self.plan)
        if manifests.read(store.fs, store.root) is None:
            refuse_used_folders(self.sinks)
        carried = manifests.reconcile(store.fs, store.root, new)
        self._defaults = {name: carried.defaults(name) for name in carried.operators}
        latest = records.latest(store.fs, store.root)
        if latest is not None and latest.finished:
            raise CheckpointError(
                f"the checkpoint {store.location} is finished: its input was drained in batch {latest.batch}.\n"
                "Start with a new checkpoint folder to process more."
            )
        self.counts = {k: dict(v) for k, v in latest.counters.items()} if latest else {}

    def run(self, frame: DataFrame, batch: int, *, ends: bool) -> None:
        """One batch, from the frame of its inputs to the commit record.

        Raises:
            ThalwegError: a row or a function failed; nothing of the batch is committed.
        """
        started = time.perf_counter()
        previous = (
            None if self.store is None else records.previous(self.store.fs, self.store.root, batch)
        )
        job = self.job(batch, previous, ends=ends)
        with self._persisted(self.lowered(frame, job)) as result:
            told = self._told(result)
            self._write(result, told, batch)
        record = self._commit(previous, job, told.reports)
        self._note(batch, record, told.reports, time.perf_counter() - started)

    def job(self, batch: int, previous: records.CommitRecord | None, *, ends: bool) -> StageJob:
        """What the tasks of a batch must know."""
        return StageJob(
            plan=self._pickled,
            fingerprint=self._fingerprint,
            root="" if self.store is None else self.store.thalweg,
            batch=batch,
            attempt=uuid.uuid4().hex[:8],
            previous=None if previous is None else previous.batch,
            slots=self.slots,
            ends=ends,
            options=self._options,
            defaults=self._defaults,
            chunk_rows=self._chunk_rows,
            wanted=frozenset(n.index for n in self.plan.sinks if n.name in self.sinks),
        )

    def lowered(self, frame: DataFrame, job: StageJob) -> DataFrame:
        """The linear chain of stages over the tagged frame."""
        if job.slots == 1:
            return map_in_arrow(frame.coalesce(1), whole_flow(job), FRAME)
        out = map_in_arrow(frame.coalesce(1), first_stage(job), FRAME)
        for stage in range(1, self.plan.depth):
            out = _to_slots(out, job.slots)
            out = map_in_arrow(out, later_stage(job, stage), FRAME)
        if any(sink.ordered for sink in self.plan.sinks):
            out = map_in_arrow(_to_slots(out, job.slots), last_merge(job), FRAME)
        return out

    @contextlib.contextmanager
    def _persisted(self, frame: DataFrame) -> Iterator[DataFrame]:
        """The frame, kept where it is used more than once: by sinks that get a DataFrame."""
        if not any(isinstance(sink, (FileSink, FrameSink)) for sink in self.sinks.values()):
            yield frame
            return
        frame.persist()
        try:
            yield frame
        finally:
            frame.unpersist()

    def _told(self, result: DataFrame) -> _Told:
        """Runs the batch: what the tasks reported, rows by sink, and the rows of sinks on the driver.

        Raises:
            ThalwegError: a task reported a failure.
        """
        here = [
            node.index
            for node in self.plan.sinks
            if isinstance(self.sinks.get(node.name), (MemorySink, ConsoleSink, TableSink))
        ]
        wanted = (result["kind"] == "report") | result["node"].isin(here)
        data = f.when(wanted, result["data"]).alias("data")
        names = [name for name in result.columns if name != "data"]
        told = _Told([], collections.Counter(), {})
        for batch in result.select(*names, data).toArrow().to_batches():
            for blob in from_batch(batch):
                told.add(blob)
        return told

    # -- sinks --------------------------------------------------------------------------------------------

    def _write(self, result: DataFrame, told: _Told, batch: int) -> None:
        for node in self.plan.sinks:
            sink = self.sinks.get(node.name)
            if isinstance(sink, FileSink):
                self._write_files(sink, node, result, told, batch)
            elif isinstance(sink, FrameSink):
                rows = decode_frame(result, node.record, node.index)
                _call(node.name, sink.function, rows, batch)
            elif sink is not None:
                self._write_here(sink, node, told, batch)

    def _write_files(
        self, sink: FileSink, node: Sink, result: DataFrame, told: _Told, batch: int
    ) -> None:
        try:
            if told.rows[node.index]:
                sink.write(decode_frame(result, node.record, node.index), batch)
            else:
                sink.clear(batch)
        except Exception as error:
            raise write_failed(node.name, sink.path, batch, error) from error

    def _write_here(
        self, sink: MemorySink | ConsoleSink | TableSink, node: Sink, told: _Told, batch: int
    ) -> None:
        table = pa.Table.from_batches(
            [decode(data, node.record, ()).to_arrow() for data in told.data.get(node.index, [])],
            schema=node.record.arrow,
        )
        if isinstance(sink, MemorySink):
            sink.put(node.record, table, batch)
        elif isinstance(sink, ConsoleSink):
            sink.show(node.name, node.record, table, batch)
        else:
            _call(node.name, sink.function, table, batch)

    # -- commit -------------------------------------------------------------------------------------------

    def _commit(
        self,
        previous: records.CommitRecord | None,
        job: StageJob,
        reports: list[dict[str, Any]],
    ) -> records.CommitRecord:
        gates = {name: facts for said in reports for name, facts in said["gates"].items()}
        old_gates = previous.extra.get("gates", {}) if previous else {}
        record = records.next_record(
            previous,
            job.batch,
            job.attempt,
            [_segment(one) for said in reports for one in said["segments"]],
            _sum_counts(said["counts"] for said in reports),
            slots=job.slots,
            clock={d: c for said in reports for d, c in said.get("clocks", {}).items()},
            finished=any(said.get("ends") for said in reports),
            plan=self._fingerprint,
            extra={"gates": {**old_gates, **gates}},
        )
        if self.store is not None:
            if any(said.get("postponed") for said in reports):
                # Before the record: a crash in between repeats the command, and does not forget it.
                self.store.command(command="end")
            records.write(self.store.fs, self.store.root, record)
            keep = [record] if previous is None else [previous, record]
            cleaning.clean(self.store.fs, self.store.root, keep)
        self.finished = record.finished
        self.counts = {name: dict(counts) for name, counts in record.counters.items()}
        return record

    def _note(
        self, batch: int, record: records.CommitRecord, reports: list[dict[str, Any]], wall_s: float
    ) -> None:
        """Remembers the batch's progress."""
        added = _sum_counts(said["counts"] for said in reports)
        rows = sum(added.get(source.name, {}).get("in", 0) for source in self.plan.sources)
        keys: collections.Counter[str] = collections.Counter()
        for said in reports:
            keys.update(said["keys"])
        self.progress.append(
            {
                "batch": batch,
                "rows": rows,
                "rows_per_s": rows / wall_s if wall_s else 0.0,
                "batch_s": wall_s,
                "task_s": sum(said.get("task_s", 0.0) for said in reports),
                "task_cpu_s": sum(said.get("task_cpu_s", 0.0) for said in reports),
                "slots": record.slots,
                "operators": added,
                "totals": self.counts,
                "clock": dict(record.clock),
                "waiting": {n: g["waiting"] for s in reports for n, g in s["gates"].items()},
                "slowest_lane": {
                    n: lane for s in reports for n, lane in s.get("slowest", {}).items()
                },
                "state": {
                    name: {
                        "keys": keys.get(name, 0),
                        "bytes": sum(unit.bytes for chain in chains.values() for unit in chain),
                    }
                    for name, chains in record.chains.items()
                },
                "finished": record.finished,
            }
        )


def _call(sink: str, function: Any, rows: Any, batch: int) -> None:
    """A sink's function on a batch; what it raises names it."""
    try:
        function(rows, batch)
    except ThalwegError:
        raise
    except Exception as error:
        raise function_failed(sink, function, batch, error) from error


def _to_slots(frame: DataFrame, slots: int) -> DataFrame:
    # Rows for the driver have slots too, so that every row has a place.
    return frame.repartitionById(slots, frame["slot"])


def _segment(said: list[Any]) -> Segment:
    operator, file, units = said
    return Segment(operator, file, tuple(SegmentUnit(*unit) for unit in units))


def _sum_counts(parts: Any) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for counts in parts:
        for name, mine in counts.items():
            sums = out.setdefault(name, {})
            for what, number in mine.items():
                sums[what] = sums.get(what, 0) + number
    return out


class Query:
    """A running flow, with the verbs of Spark's StreamingQuery in snake case, and Thalweg's own.

    Made by :func:`thalweg.spark.start`.
    """

    def __init__(
        self, batches: Batches, flow: Flow, frame: DataFrame, trigger: Any, end: End
    ) -> None:
        self._batches = batches
        self._flow = flow
        self._frame = frame
        self._trigger = trigger
        self._end = end
        self._failure: BaseException | None = None
        self._query: StreamingQuery | None = None
        self._stopped = False

    # -- life ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        assert self._batches.store is not None
        self._batches.store.lease.take(lambda: self.is_active)
        self._failure, self._stopped = None, False
        tell_once()
        writer = (
            self._frame.writeStream.foreachBatch(self._run_batch)
            .queryName(f"{self._flow.name}-{uuid.uuid4().hex[:6]}")
            .option("checkpointLocation", f"{self._batches.store.location}/spark")
            .trigger(**self._trigger)
        )
        self._query = writer.start()

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        if self._batches.finished:
            # Input came in while the query was being stopped after its end.
            raise CheckpointError(
                f"flow {self._flow.name!r} is finished; batch {batch} is left out"
            )
        try:
            self._batches.run(frame, batch, ends=False)
        except BaseException as error:
            if self._stopped:
                # Spark cancelled its jobs; it searches the text of a long error until its stack overflows.
                raise CheckpointError(f"batch {batch} was given up: the query is stopped") from None
            self._failure = readable(error, f"flow {self._flow.name!r}: batch {batch}")
            raise self._failure from None

    def run_now(self) -> None:
        """Runs a bounded input as one batch in the calling thread (batch frames)."""
        try:
            self._batches.run(self._frame, 0, ends=True)
        except BaseException as error:
            self._failure = readable(error, f"flow {self._flow.name!r}")
            raise self._failure from None

    @property
    def is_active(self) -> bool:
        """Whether the query still runs."""
        return self._query is not None and self._query.isActive

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits until the query ends; whether it did within the timeout.

        Raises:
            ThalwegError: a row, a function or the checkpoint failed; the one readable error.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        ended = self._wait(deadline)
        if ended and self._wants_drain():
            self.drain()
            ended = self._wait(deadline)
        return ended

    def _wait(self, deadline: float | None) -> bool:
        if self._query is None:
            return True
        try:
            if deadline is None:
                self._query.awaitTermination()
                ended = True
            else:
                left: Any = max(0.001, deadline - time.monotonic())
                ended = bool(self._query.awaitTermination(left))
        except Exception as error:
            self._raise(error)
            ended = True
        if ended:
            self._raise(None)
        return ended

    def _wants_drain(self) -> bool:
        bounded = "availableNow" in self._trigger or "once" in self._trigger
        return self._end == "drain" and bounded and not self._batches.finished and not self._stopped

    def process_all_available(self) -> None:
        """Waits until all input that is there now has been processed; errors as await_termination."""
        if self._query is None:
            return
        if "availableNow" in self._trigger:
            self.await_termination()
            return
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self._raise(error)

    def drain(self) -> None:
        """Ends the input: what waits is released, the remaining timers fire, the checkpoint is finished.

        The end comes behind all input that is there: it is the first batch without rows. So a source that never
        pauses must be stopped first.
        """
        store = self._batches.store
        if store is None:
            return
        while not self._batches.finished:
            store.command(command="end")
            if not self.is_active:
                self._start()
            if "availableNow" in self._trigger:
                self._wait(None)
            else:
                self.process_all_available()
            if self._stopped:
                return
        self.stop()

    def tick(self, now: int) -> None:
        """Moves the clock: from now on rows before ``now`` minus the lateness are late, in all lanes."""
        self._command(command="tick", time=now)

    def rescale(self, *, slots: int) -> None:
        """Runs with another number of slots from the next batch on; the state moves with its buckets."""
        if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
            raise BuildError(f"rescale: slots is a number of 1 or more, got {slots!r}")
        self._batches.slots = slots
        self._command(command="rescale", slots=slots)

    def _command(self, **content: Any) -> None:
        if self._batches.store is None:
            raise BuildError("this query has no checkpoint, so there is nothing to command")
        self._batches.store.command(**content)

    def stop(self) -> None:
        """Stops the query after the running batch is given up; a later start repeats that batch."""
        self._stopped = True
        if self._query is not None:
            self._query.stop()
        self._ended()

    def exception(self) -> BaseException | None:
        """What stopped the query, None when nothing did."""
        if self._failure is not None or self._query is None or self._stopped:
            return self._failure
        error = self._query.exception()
        return None if error is None else readable(error, f"flow {self._flow.name!r}")

    def _raise(self, error: Exception | None) -> None:
        """Raises the query's own failure rather than Spark's wrapping of it."""
        self._ended()
        if self._failure is not None:
            raise self._failure.with_traceback(None) from None
        if error is not None and not self._stopped and not self._batches.finished:
            raise readable(error, f"flow {self._flow.name!r}") from None

    def _ended(self) -> None:
        if self._batches.store is not None and not self.is_active:
            self._batches.store.lease.give_back()

    # -- looking ------------------------------------------------------------------------------------------

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """The last batch: rows by operator, rows/s, times, state size, clock; None before the first."""
        return self._batches.progress[-1] if self._batches.progress else None

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The last batches, oldest first."""
        return list(self._batches.progress)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Exact rows in, out, late and rejected by operator since the first batch."""
        return self._batches.counts

    @property
    def finished(self) -> bool:
        """Whether the end of the input was processed."""
        return self._batches.finished

    def sink(self, name: str) -> Any:
        """What was given for a sink, say a memory sink to read."""
        return self._batches.sinks[name]

    def explain(self) -> str:
        """The flow's plan, see :meth:`thalweg.Flow.explain`."""
        return self._flow.explain()

    def __repr__(self) -> str:
        state = "active" if self.is_active else "ended"
        return f"Query({self._flow.name!r}, {state}, {len(self._batches.progress)} batches here)"


def start(
    flow: Flow,
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any],
    *,
    checkpoint: str | None = None,
    state: str | None = None,
    slots: int = 1,
    trigger: str | None = None,
    end: End = "keep",
    chunk_rows: int = CHUNK_ROWS,
) -> Query:
    """Runs a flow on Spark.

    Args:
        flow: the flow.
        inputs: by source name: a streaming or batch DataFrame, or ``tw.spark.files(...)``.
        sinks: by sink name: ``tw.spark.parquet(path)``, json, csv, console(), memory(), or a function
            ``(frame, batch_id)``. A sink without an entry is computed and counted only.
        checkpoint: the folder of offsets and state; needed for streams.
        state: another folder for the state, say on a faster file system; it belongs to this checkpoint alone.
        slots: partitions of the keyed stages; any number at any start, see :meth:`Query.rescale`.
        trigger: ``"available_now"`` (what is there, then stop), an interval such as ``"5 seconds"``, or None for
            batch after batch. Batch inputs run once, here, and end.
        end: what the end of an available-now run means: ``"keep"`` leaves sessions and windows open for the
            next run, ``"drain"`` ends the input for good.
        chunk_rows: about how many rows move at once.

    Raises:
        BuildError: names or arguments do not fit the flow.
        CheckpointMismatch: the checkpoint belongs to another flow.
        ThalwegError: batch inputs only: a row or function failed.
    """
    plan = make_plan(flow)
    _check(plan, inputs, sinks, slots, end)
    streaming = io.is_streaming(inputs)
    if streaming and checkpoint is None:
        raise BuildError(
            "a streaming query needs checkpoint='folder': its state and offsets live there"
        )
    spark = _session()
    store = Store.open(checkpoint, state) if streaming and checkpoint is not None else None
    try:
        frame = io.tagged_frame(spark, plan, inputs, store.control if store else None)
        batches = Batches(spark, plan, inputs, sinks, store, slots, chunk_rows)
        _warn(spark, slots, inputs, plan)
        if str(spark.sparkContext.master).startswith("local"):
            # The workers are on this machine: what is compiled here, with a message, they find in the cache.
            Engine(batches.prepared)
        query = Query(batches, flow, frame, _trigger(trigger), end)
        if store is None:
            query.run_now()
        else:
            query._start()
    except BaseException:
        if store is not None:
            store.lease.give_back()
        raise
    return query


def _check(
    plan: Plan, inputs: Mapping[str, Any], sinks: Mapping[str, Any], slots: int, end: str
) -> None:
    from thalweg.embedded import check_names

    check_names(plan, inputs)
    names = {sink.name for sink in plan.sinks}
    for extra in sorted(sinks.keys() - names):
        raise BuildError(
            f"flow {plan.flow!r} has no sink {extra!r}; it has {', '.join(sorted(names))}"
        )
    if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
        raise BuildError(f"slots is a number of 1 or more, got {slots!r}")
    if end not in ("keep", "drain"):
        raise BuildError(f"end is 'keep' or 'drain', got {end!r}")


def _trigger(trigger: str | None) -> dict[str, Any]:
    if trigger is None:
        return {"processingTime": "0 seconds"}
    if trigger in ("available_now", "once"):
        return {"availableNow": True}
    return {"processingTime": trigger}


def _session() -> SparkSession:
    from thalweg.spark.session import session

    return SparkSession.getActiveSession() or session()


def _warn(spark: SparkSession, slots: int, inputs: Mapping[str, Any], plan: Plan) -> None:
    cores = spark.sparkContext.defaultParallelism
    task = int(spark.conf.get("spark.task.cpus", "1") or "1")
    if slots > 1 and slots * task < cores:
        log.info(
            "%d slots of %d cores leave %d of %d cores idle",
            slots,
            task,
            cores - slots * task,
            cores,
        )
    for source in plan.sources:
        if source.order_by and not source.arrival and not isinstance(inputs[source.name], io.Files):
            log.info(
                "source %r: rows arrive in Spark's partition order; name the columns of arrival order by arrival="
                " or read with tw.spark.files for lateness that does not depend on how Spark cuts files",
                source.name,
            )
