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
import pyarrow as pa
from pyspark import TaskContext

from thalweg.columns.chunks import Chunk
from thalweg.engine.contract import Engine, Leaving
from thalweg.engine.serial import SerialEngine
from thalweg.engine.units import Moment
from thalweg.errors import ThalwegError
from thalweg.flow.failures import left_by
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import Edge
from thalweg.slots.runner import StageRunner
from thalweg.spark.inputs import receive, source_chunks
from thalweg.spark.tasks.sender import Sender, merge_phases, sink_blobs
from thalweg.spark.tasks.transport import DRIVER, Blob, decode, from_batch, report, to_batches
from thalweg.spark.tasks.worker import StageJob, clocks_of, hot_engine, plan_of, save

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


def _task_id() -> str:
    context = TaskContext.get()
    return "0" if context is None else str(context.taskAttemptId())


def _slot() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _guarded(stage: int, blobs: Iterator[Blob]) -> Iterator[Blob]:
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
        yield from to_batches(_guarded(0, _whole_flow(job, batches)))

    return body


def _whole_flow(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    started = _Started.now()
    facts: dict[str, Any] = {}
    with hot_engine(job, None, 0) as hot:
        for leaving in _ingest(job, hot.engine, batches, facts):
            yield from _sink_blobs(job, leaving)
        said = save(job, None, 0, hot, _task_id())
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
    for place, source in enumerate(plan.sources):
        tables = received.frames.get(place)
        if tables:
            options = job.options[source.name]
            for chunk, bad in source_chunks(
                source, options, tables, job.chunk_rows, engine.gates[source.name].arrivals
            ):
                yield engine.feed(source.name, chunk, bad)
                yield from engine.advance()
    for command in received.commands:
        if command.get("command") == "tick":
            _tick(engine, int(command["time"]))
            yield from engine.advance()
    asked = any(c.get("command") == "end" for c in received.commands)
    # Sources may have more rows than fit into this batch, so the end waits for a batch without any.
    facts["postponed"] = asked and bool(received.frames)
    facts["ends"] = job.ends or (asked and not received.frames)
    yield from engine.settle()
    facts["clocks"] = clocks_of(job, engine, 0)
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
        yield from to_batches(_guarded(0, _first_stage(job, batches)))

    return body


def _first_stage(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    started = _Started.now()
    facts: dict[str, Any] = {}
    rows = Moment({})
    with hot_engine(job, 0, 0) as hot:
        engine = hot.engine
        sender = Sender(StageRunner(engine, plan_of(job), 0), job, 0)
        for leaving in _ingest(job, engine, batches, facts):
            sender.ending(engine.moment.ending, engine.moment.round)
            yield from sender.send(leaving)
            if not engine.moment.ending:
                # The slots behind take all steps of a batch as one, whose clock is the furthest of theirs.
                rows = rows.later(engine.moment.watermarks)
        ends = engine.plan.closings if facts["ends"] else ()
        yield from sender.clocks([rows, *(Moment({}, frozenset([at]), n) for at, n in ends)])
        said = save(job, 0, 0, hot, _task_id())
        facts |= {"sent": sender.sent, **_slowest(engine)}
    yield report(0, 0, {**said, **facts, **started.spent()})


def later_stage(job: StageJob, stage: int) -> Body:
    """The body of a later stage: merges what it receives by the order key, runs its operators, routes on."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_guarded(stage, _later_stage(job, stage, batches)))

    return body


def _later_stage(job: StageJob, stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    slot = _slot()
    mine: dict[tuple[int, Edge], list[pa.Buffer]] = {}
    phases: list[Moment] = []
    yield from _sorted_out(stage, batches, mine, phases)
    started = _Started.now()
    with hot_engine(job, stage, slot) as hot:
        counts_for = None if job.told is None else job.slots
        runner = StageRunner(hot.engine, plan_of(job), slot, counts_for=counts_for)
        sender = Sender(runner, job, stage)
        for number, phase in enumerate(phases):
            arriving = {
                edge: _merged(runner, edge, mine.pop((number, edge)))
                for at, edge in list(mine)
                if at == number
            }
            sender.ending(phase.ending, phase.round)
            for leaving in runner.run(phase, arriving):
                yield from sender.send(leaving)
            phases[number] = runner.close(phase)
        yield from sender.clocks(phases)
        said = save(job, stage, slot, hot, _task_id())
        facts = {"clocks": clocks_of(job, hot.engine, slot), **_slowest(hot.engine)}
        facts |= {"sent": sender.sent, "routed": runner.router.routed}
        if (counter := runner.counter) is not None:
            job.told.add([(job.attempt, stage, slot, counter.summary().to_bytes())])
            facts["pairs"] = [counter.hashed, counter.pairs]
            counter.close()
    yield report(stage, slot, {**said, **facts, **started.spent()})


def _sorted_out(
    stage: int,
    batches: Iterator[pa.RecordBatch],
    mine: dict[tuple[int, Edge], list[pa.Buffer]],
    phases: list[Moment],
) -> Iterator[Blob]:
    """Puts what a stage reads into ``mine``, by phase and edge, and into ``phases``; gives on what others read."""
    for batch in batches:
        for blob in from_batch(batch):
            if blob.stage != stage:
                yield blob
            elif blob.kind == "clock":
                merge_phases(phases, blob.data)
            else:
                mine.setdefault((blob.phase, Edge(blob.node, blob.port)), []).append(blob.data)


def _merged(runner: StageRunner, edge: Edge, blobs: list[pa.Buffer]) -> Chunk:
    """The rows of an edge; blobs are taken out of the list, so that what is unpacked need not be kept."""
    schema, order = runner.schema(edge), runner.order(edge)
    blobs.reverse()
    chunks = [decode(blobs.pop(), schema, order) for _ in range(len(blobs))]
    return runner.merged(edge, chunks)


def last_merge(job: StageJob) -> Body:
    """The body behind the last stage: each ordered sink's rows, from all slots, in one order."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_guarded(DRIVER, _last_merge(job, batches)))

    return body


def _last_merge(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    prepared = plan_of(job)
    parts: dict[tuple[int, int], list[Chunk]] = {}
    runner = StageRunner(SerialEngine(prepared, stage=prepared.plan.depth), prepared, _slot())
    for batch in batches:
        for blob in from_batch(batch):
            if blob.stage == DRIVER:
                yield blob
            elif blob.kind == "chunk":
                edge = Edge(blob.node, blob.port)
                chunk = decode(blob.data, runner.schema(edge), runner.order(edge))
                parts.setdefault((blob.node, blob.phase), []).append(chunk)
    for (sink, _phase), chunks in sorted(parts.items(), key=lambda one: one[0]):
        yield from sink_blobs(sink, runner.merged(Edge(sink, 0), chunks), runner.slot)
