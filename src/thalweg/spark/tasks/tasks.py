"""What runs inside Spark's tasks: the whole flow in one slot, or one stage of it in one of several.

Each function here becomes the body of a ``mapInArrow``. A failure that is the user's (a row, a function) is
*reported*, not raised: the driver then stops the query with that one error, and Spark neither retries the task
nor wraps the message into a Java stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cloudpickle
import orjson
import pyarrow as pa
from pyspark import TaskContext

from thalweg.columns.chunks import Chunk
from thalweg.engine.contract import Engine, Leaving
from thalweg.engine.serial import SerialEngine
from thalweg.engine.stamps import stamped
from thalweg.engine.units import Moment
from thalweg.errors import ThalwegError
from thalweg.flow.failures import left_by
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import Edge
from thalweg.slots.runner import StageRunner
from thalweg.slots.slot_state import clocks_of
from thalweg.spark.reading.received import receive, source_chunks
from thalweg.spark.tasks.sender import Sender, merge_phases, sink_blobs
from thalweg.spark.tasks.transport import DRIVER, Blob, decode, from_batch, report, to_batches
from thalweg.spark.tasks.worker import StageJob, hot_engine, plan_of, routes_of, save

Body = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Started(NamedTuple):
    """When a task began, by the wall and by the CPU time of this process."""

    wall_s: float
    cpu_s: float

    @classmethod
    def now(cls) -> _Started:
        return cls(time.perf_counter(), time.process_time())

    def spent(self) -> dict[str, float]:
        """Both times since then, for the report."""
        wall, cpu = time.perf_counter() - self.wall_s, time.process_time() - self.cpu_s
        return {"task_s": wall, "task_cpu_s": cpu}


def task_id() -> str:
    context = TaskContext.get()
    return "0" if context is None else str(context.taskAttemptId())


def task_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def guarded(stage: int, blobs: Iterator[Blob]) -> Iterator[Blob]:
    """The blobs, or the error that stopped them as a report."""
    try:
        yield from blobs
    except ThalwegError as error:
        yield report(stage, 0, {"error": cloudpickle.dumps(error).hex()})
    except GeneratorExit:  # nobody wants more of them
        raise
    except BaseException as error:
        if isinstance(error, Exception):
            raise
        # sys.exit() in a function of the user's: Spark would try it again.
        yield report(stage, 0, {"error": cloudpickle.dumps(left_by(error)).hex()})


# -- one slot --------------------------------------------------------------------------------------------


def whole_flow(job: StageJob) -> Body:
    """The body that runs the whole flow in this task."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(guarded(0, _whole_flow(job, batches)))

    return body


def _whole_flow(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    started = _Started.now()
    facts: dict[str, Any] = {}
    with hot_engine(job, None, 0) as hot:
        for leaving in _ingest(job, hot.engine, batches, facts):
            yield from _sink_blobs(job, leaving)
        said = save(job, None, 0, hot, task_id())
        facts |= _slowest(hot.engine)
    yield report(0, 0, {**said, **facts, **started.spent()})


def _ingest(
    job: StageJob, engine: Engine, batches: Iterator[pa.RecordBatch], facts: dict[str, Any]
) -> Iterator[Leaving]:
    """Feeds the rows of a batch and releases what the clocks allow; ends the streams if they end.

    At the end nothing is on its way any more.
    """
    plan = engine.plan
    received = receive(batches, len(plan.sources))
    facts["arrived"] = {
        plan.sources[place].name: sum(table.num_rows for table in tables)
        for place, tables in received.frames.items()
    }
    for decision in job.decisions:
        engine.decide(decision)
        yield from engine.advance()
    for place, source in enumerate(plan.sources):
        tables = received.frames.get(place)
        if tables:
            options = job.options[source.name]
            for chunk, bad in source_chunks(
                source.given, options, tables, job.chunk_rows, engine.gates[source.name].arrivals
            ):
                rows = stamped(source, chunk, job.stamps.get(source.name, 0))
                yield engine.feed(source.name, rows, bad)
                yield from engine.advance()
    for command in received.commands:
        if command.get("command") == "tick":
            _tick(engine, int(command["time"]))
            yield from engine.advance()
    facts["came"] = {
        name: list(gate.came) for name, gate in engine.gates.items() if gate.may_be_idle
    }
    # What follows from the rows, and from where they are cut; a repeat finds the same.
    facts["woken"] = [list(one) for one in engine.woken]
    engine.woken.clear()
    asked = any(c.get("command") == "end" for c in received.commands)
    # Sources may have more rows than fit into this batch, so the end waits for a batch without any.
    facts["postponed"] = asked and bool(received.frames)
    facts["ends"] = job.ends or (asked and not received.frames)
    yield from engine.settle()
    facts["clocks"] = clocks_of(routes_of(job), engine, 0)
    if facts["ends"]:
        yield from engine.finish()


def _tick(engine: Engine, now: int) -> None:
    """A clock tick: no row before ``now`` minus the lateness will come, whatever the lanes have seen."""
    for gate in engine.gates.values():
        if isinstance(gate.node, Source) and gate.node.sorts:
            gate.tick(now)


def _slowest(engine: Engine) -> dict[str, Any]:
    """For the report: the lanes that hold back the clocks."""
    slowest = {
        name: str(gate.slowest)
        for name, gate in engine.gates.items()
        if isinstance(gate.node, Source) and gate.node.lane and gate.slowest is not None
    }
    return {"slowest": slowest}


def _sink_blobs(job: StageJob, leaving: Leaving) -> Iterator[Blob]:
    for edge, chunks in leaving.items():
        if edge.node in job.wanted:
            for chunk in chunks:
                yield from sink_blobs(edge.node, chunk, 0)


# -- several slots ---------------------------------------------------------------------------------------


def first_stage(job: StageJob) -> Body:
    """The body of stage 0: ingress, the stateless operators before the first key, routing."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(guarded(0, run_first_stage(job, batches)))

    return body


def run_first_stage(
    job: StageJob, batches: Iterator[pa.RecordBatch], held: tuple[int, int] | None = None
) -> Iterator[Blob]:
    """Stage 0 over the input.

    Args:
        job: the batch.
        batches: the tagged input.
        held: the stage and slot that this task runs beside it, step by step: then they report the time of both.
    """
    started = _Started.now()
    facts: dict[str, Any] = {}
    rows = Moment({})
    with hot_engine(job, 0, 0) as hot:
        engine = hot.engine
        sender = Sender(StageRunner(engine, plan_of(job), 0), job, 0, held)
        for leaving in _ingest(job, engine, batches, facts):
            sender.ending(engine.moment.ending, engine.moment.round)
            yield from sender.send(leaving)
            if not engine.moment.ending:
                # The slots behind take all steps of a batch as one, whose clock is the furthest of theirs.
                rows = rows.later(engine.moment.watermarks)
                if job.mailboxes and engine.plan.depth > 1 and sender.rows >= job.chunk_rows:
                    # Rows of steps up to this clock may still be on their way through an engine of several threads.
                    for leaving in engine.settle():
                        yield from sender.send(leaving)
                    yield from sender.step(rows)
        ends = engine.plan.closings if facts["ends"] else ()
        yield from sender.clocks([rows, *(Moment({}, frozenset([at]), n) for at, n in ends)])
        said = save(job, 0, 0, hot, task_id())
        facts |= {"sent": sender.sent, **_slowest(engine)}
    yield report(0, 0, {**said, **facts, **({} if held else started.spent())})


def later_stage(job: StageJob, stage: int) -> Body:
    """The body of a later stage: merges what it receives by the order key, runs its operators, routes on."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arriving = received_blobs(batches)
        yield from to_batches(guarded(stage, run_later_stage(job, stage, task_number(), arriving)))

    return body


def received_blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    """The blobs that Spark hands to a task."""
    for batch in batches:
        yield from from_batch(batch)


def run_later_stage(
    job: StageJob, stage: int, slot: int, arriving: Iterator[Blob]
) -> Iterator[Blob]:
    """A stage in a slot over what arrives; gives on what is for others."""
    started = _Started.now()
    with hot_engine(job, stage, slot) as hot:
        counts_for = None if job.told is None else job.slots
        runner = StageRunner(hot.engine, plan_of(job), slot, counts_for=counts_for)
        work = _StageWork(runner, Sender(runner, job, stage), stage, job.chunk_rows)
        yield from work.take(arriving)
        yield from work.end()
        said = save(job, stage, slot, hot, task_id())
        facts = {"clocks": clocks_of(routes_of(job), hot.engine, slot), **_slowest(hot.engine)}
        facts |= {"sent": work.sender.sent, "routed": runner.router.routed}
        if (counter := runner.counter) is not None:
            job.told.add([(job.attempt, stage, slot, counter.summary().to_bytes())])
            facts["pairs"] = [counter.hashed, counter.pairs]
            counter.close()
    yield report(stage, slot, {**said, **facts, **started.spent()})


class _StageWork:
    """What arrives at a stage in a slot, by phase and edge, and what is done with it."""

    def __init__(self, runner: StageRunner, sender: Sender, stage: int, step_rows: int) -> None:
        self.sender = sender
        self._step_rows = step_rows
        self._rows = 0
        self._runner = runner
        self._stage = stage
        self._mine: dict[tuple[int, Edge], list[Any]] = {}
        self._phases: list[Moment] = []

    def take(self, arriving: Iterator[Blob]) -> Iterator[Blob]:
        """Takes all that there is, and runs the steps that are whole; gives on what others read."""
        for blob in arriving:
            if blob.stage != self._stage:
                yield blob
            elif blob.kind == "clock":
                merge_phases(self._phases, blob.data)
            elif blob.kind == "step":
                yield from self._step(blob)
            else:
                edge = Edge(blob.node, blob.port)
                self._mine.setdefault((blob.phase, edge), []).append(blob.data)

    def _step(self, blob: Blob) -> Iterator[Blob]:
        """Runs what has come, once it is as much as a step has where there is one slot: steps cost by their number."""
        self._rows += blob.port
        if self._rows < self._step_rows:
            return
        self._rows = 0
        moment = Moment(dict(orjson.loads(bytes(blob.data))))
        yield from self._run(moment, 0)
        self._runner.close(moment)

    def end(self) -> Iterator[Blob]:
        """Runs the phases of the batch, and tells the stages behind."""
        for number, phase in enumerate(self._phases):
            self.sender.ending(phase.ending, phase.round)
            yield from self._run(phase, number)
            self._phases[number] = self._runner.close(phase)
        yield from self.sender.clocks(self._phases)

    def _run(self, moment: Moment, number: int) -> Iterator[Blob]:
        mine = {edge: self._mine.pop((at, edge)) for at, edge in list(self._mine) if at == number}
        rows = {edge: _merged(self._runner, edge, blobs) for edge, blobs in mine.items()}
        for leaving in self._runner.run(moment, rows):
            yield from self.sender.send(leaving)


def _merged(runner: StageRunner, edge: Edge, blobs: list[Any]) -> Chunk:
    """The rows of an edge; blobs are taken out of the list, so that what is unpacked need not be kept."""
    schema, order = runner.schema(edge), runner.order(edge)
    blobs.reverse()
    chunks = []
    while blobs:
        data = blobs.pop()
        # What this very task has sent to itself was never packed.
        chunks.append(data if isinstance(data, Chunk) else decode(data, schema, order))
    return runner.merged(edge, chunks)


def last_merge(job: StageJob) -> Body:
    """The body behind the last stage: each ordered sink's rows, from all slots, in one order."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arriving = received_blobs(batches)
        yield from to_batches(guarded(DRIVER, run_last_merge(job, task_number(), arriving)))

    return body


def run_last_merge(job: StageJob, slot: int, arriving: Iterator[Blob]) -> Iterator[Blob]:
    """The rows of the ordered sinks of a slot, each in one order; gives on what the driver reads."""
    prepared = plan_of(job)
    parts: dict[tuple[int, int], list[Chunk]] = {}
    runner = StageRunner(SerialEngine(prepared, stage=prepared.plan.depth), prepared, slot)
    for blob in arriving:
        if blob.stage == DRIVER:
            yield blob
        elif blob.kind == "chunk":
            edge = Edge(blob.node, blob.port)
            chunk = decode(blob.data, runner.schema(edge), runner.order(edge))
            parts.setdefault((blob.node, blob.phase), []).append(chunk)
    for (sink, _phase), chunks in sorted(parts.items(), key=lambda one: one[0]):
        yield from sink_blobs(sink, runner.merged(Edge(sink, 0), chunks), runner.slot)
