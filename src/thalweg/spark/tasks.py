"""What runs inside Spark's tasks: the whole flow in one slot, or one stage of it in one of several.

Each function here becomes the body of a ``mapInArrow``. A failure that is the user's (a row, a function) is
*reported*, not raised: the driver then stops the query with that one error, and Spark neither retries the task
nor wraps the message into a Java stack.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import orjson
import pyarrow as pa
from pyspark import TaskContext

from thalweg.errors import ThalwegError
from thalweg.hashing import bucket_of
from thalweg.operators.nodes import Keyed, OrderBy, Sink, Source
from thalweg.plan import Edge
from thalweg.runtime.build import Builder, Prepared
from thalweg.runtime.chunks import Chunk
from thalweg.runtime.engine import Engine, Leaving, stream_schema
from thalweg.runtime.keyed_unit import KeyFinder
from thalweg.runtime.ordering import merge
from thalweg.spark.inputs import receive, source_chunks
from thalweg.spark.transport import (
    DRIVER,
    Blob,
    decode,
    encode,
    from_batch,
    pieces,
    report,
    to_batches,
)
from thalweg.spark.worker import (
    HotEngine,
    StageJob,
    clocks_of,
    hot_engine,
    keep,
    node_slot,
    owner,
    plan_of,
    save,
)
from thalweg.times import BEFORE_ALL

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


# -- one slot --------------------------------------------------------------------------------------------


def whole_flow(job: StageJob) -> Body:
    """The body that runs the whole flow in this task."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_guarded(0, _whole_flow(job, batches)))

    return body


def _whole_flow(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    started = _Started.now()
    hot = hot_engine(job, None, 0)
    engine = hot.engine
    facts: dict[str, Any] = {}
    for leaving in _ingest(job, engine, batches, facts):
        yield from _sink_blobs(job, leaving)
    said = save(job, None, 0, hot, _task_id())
    keep(job, None, hot)
    yield report(0, 0, {**said, **_facts(engine, facts, started)})


def _ingest(
    job: StageJob, engine: Engine, batches: Iterator[pa.RecordBatch], facts: dict[str, Any]
) -> Iterator[Leaving]:
    """Feeds the rows of a batch and releases what the clocks allow; ends the streams if they end."""
    plan = engine.plan
    received = receive(batches, len(plan.sources))
    for place, source in enumerate(plan.sources):
        tables = received.frames.get(place)
        if tables:
            options = job.options[source.name]
            for chunk, bad in source_chunks(source, options, tables, job.chunk_rows):
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
    facts["clocks"] = clocks_of(job, engine, 0)
    if facts["ends"]:
        yield from engine.finish()


def _tick(engine: Engine, now: int) -> None:
    """A clock tick: no row before ``now`` minus the lateness will come, whatever the lanes have seen."""
    for gate in engine.gates.values():
        if isinstance(gate.node, Source) and gate.node.sorts:
            # Lanes that have not been seen yet cannot be told apart from ones that will never come.
            for lane in list(gate.lanes) or ([] if gate.node.lane else [None]):
                gate.lanes[lane] = max(gate.lanes.get(lane, BEFORE_ALL), now)


def _facts(engine: Engine, facts: dict[str, Any], started: _Started) -> dict[str, Any]:
    slowest = {
        name: str(gate.slowest)
        for name, gate in engine.gates.items()
        if len(gate.lanes) > 1 and gate.slowest is not None
    }
    return {**facts, "slowest": slowest, **started.spent()}


def _sink_blobs(job: StageJob, leaving: Leaving) -> Iterator[Blob]:
    for edge, chunks in leaving.items():
        if edge.node in job.wanted:
            for chunk in chunks:
                yield from sink_blobs(edge.node, chunk)


def sink_blobs(sink: int, chunk: Chunk) -> Iterator[Blob]:
    """A sink's rows for the driver's frame, without order columns."""
    for piece in pieces(chunk):
        yield Blob(DRIVER, 0, "sink", sink, len(piece), 0, encode(piece, ()))


# -- several slots ---------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Phase:
    """A step that all slots take at the same place: the clocks behind it and the domains that end."""

    clocks: dict[int, int]
    ending: list[int]


class Router:
    """Where chunks that leave a stage go: which slots, split by the owner of each row's bucket."""

    def __init__(self, prepared: Prepared, slots: int) -> None:
        self._plan = prepared.plan
        self._builder = Builder(prepared)
        self._slots = slots
        self._finders: dict[int, KeyFinder] = {}

    def route(self, edge: Edge, chunk: Chunk, here: int) -> Iterator[tuple[int, Chunk]]:
        """The parts of a chunk with the slot that each goes to."""
        node = self._plan.node(edge.node)
        if isinstance(node, OrderBy) or (isinstance(node, Sink) and node.ordered):
            yield node_slot(node, self._slots), chunk
        elif isinstance(node, Keyed) and node.key.fields:
            yield from self._by_key(node, chunk)
        elif isinstance(node, Keyed):
            yield node_slot(node, self._slots), chunk
        else:
            yield here, chunk

    def _by_key(self, node: Keyed, chunk: Chunk) -> Iterator[tuple[int, Chunk]]:
        slots = self._slots_of(node, chunk)
        for slot in range(self._slots):
            places = np.flatnonzero(slots == slot)
            if len(places):
                yield slot, chunk if len(places) == len(chunk) else chunk.take(places)

    def _slots_of(self, node: Keyed, chunk: Chunk) -> Any:
        if node.index not in self._finders:
            function = self._builder.key(dataclasses.replace(node, errors="reject"))
            self._finders[node.index] = KeyFinder(node, function)
        finder = self._finders[node.index]
        # Rows whose key function raises are rejected where they arrive; any slot will do.
        columns, places, _ = finder.find(chunk)
        buckets = bucket_of(finder.spec.hashes(columns, len(places)), node.key.buckets)
        slots = np.zeros(len(chunk), np.int64)
        slots[places] = owner(buckets, node.key.buckets, self._slots)
        return slots


def first_stage(job: StageJob) -> Body:
    """The body of stage 0: ingress, the stateless operators before the first key, routing."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_guarded(0, _first_stage(job, batches)))

    return body


def _first_stage(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    started = _Started.now()
    hot = hot_engine(job, 0, 0)
    engine = hot.engine
    facts: dict[str, Any] = {}
    sender = _Sender(engine, job, 0, 0)
    clocks: dict[int, int] = {}
    for leaving in _ingest(job, engine, batches, facts):
        sender.ending(engine.moment.ending)
        yield from sender.send(leaving)
        if not engine.moment.ending:
            clocks.update(engine.moment.clocks)
    phases = [Phase(clocks, [])]
    if facts["ends"]:
        phases += [Phase({}, [domain]) for domain in engine.plan.endings]
    yield from sender.clocks(phases)
    said = save(job, 0, 0, hot, _task_id())
    keep(job, 0, hot)
    yield report(0, 0, {**said, **_facts(engine, facts, started)})


class _Sender:
    """Turns what leaves a stage into blobs for the stages behind it."""

    def __init__(self, engine: Engine, job: StageJob, stage: int, slot: int) -> None:
        self._engine = engine
        self._router = Router(plan_of(job), job.slots)
        self._slots = job.slots
        self._wanted = job.wanted
        self._stage = stage
        self._slot = slot
        self._phase = 0
        self._endings = engine.plan.endings

    def ending(self, domains: frozenset[int]) -> None:
        """Tells the phase: 0 while rows flow, then one a domain that ends."""
        self._phase = 1 + self._endings.index(min(domains)) if domains else 0

    def send(self, leaving: Leaving) -> Iterator[Blob]:
        """The blobs of a step."""
        plan = self._engine.plan
        for edge, chunks in leaving.items():
            node = plan.node(edge.node)
            if isinstance(node, Sink) and node.index not in self._wanted:
                continue
            ref = node.inputs[edge.port]
            order = self._engine.edge_columns(ref, edge)
            stage = plan.depth if isinstance(node, Sink) else plan.stage(edge.node)
            for chunk in chunks:
                if isinstance(node, Sink) and not node.ordered:
                    yield from sink_blobs(node.index, chunk)
                    continue
                for slot, part in self._router.route(edge, chunk, self._slot):
                    for piece in pieces(part):
                        data = encode(piece, order)
                        yield Blob(stage, slot, "chunk", edge.node, edge.port, self._phase, data)

    def clocks(self, phases: list[Phase]) -> Iterator[Blob]:
        """The punctuations: the phases for every later stage and slot, also those without rows."""
        data = orjson.dumps([[sorted(p.clocks.items()), p.ending] for p in phases])
        for stage in range(self._stage + 1, self._engine.plan.depth):
            for slot in range(self._slots):
                yield Blob(stage, slot, "clock", 0, 0, 0, data)


def later_stage(job: StageJob, stage: int) -> Body:
    """The body of a later stage: merges what it receives by the order key, runs its operators, routes on."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_guarded(stage, _later_stage(job, stage, batches)))

    return body


def _later_stage(job: StageJob, stage: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    slot = _slot()
    mine: dict[tuple[int, Edge], list[bytes]] = {}
    phases: list[Phase] = []
    for batch in batches:
        for blob in from_batch(batch):
            if blob.stage != stage:
                yield blob
            elif blob.kind == "clock":
                _merge_phases(phases, blob.data)
            else:
                mine.setdefault((blob.phase, Edge(blob.node, blob.port)), []).append(blob.data)
    started = _Started.now()
    hot = hot_engine(job, stage, slot)
    sender = _Sender(hot.engine, job, stage, slot)
    for number, phase in enumerate(phases):
        arriving = {
            edge: _merged(hot.engine, edge, mine.pop((number, edge)))
            for at, edge in list(mine)
            if at == number
        }
        ending = frozenset(phase.ending)
        leaving = hot.engine.step({}, phase.clocks, ending=ending, arriving=arriving)
        sender.ending(ending)
        yield from sender.send(leaving)
        _own_clocks(hot, phase)
    yield from sender.clocks(phases)
    said = save(job, stage, slot, hot, _task_id())
    keep(job, stage, hot)
    yield report(
        stage,
        slot,
        {**said, **_facts(hot.engine, {"clocks": clocks_of(job, hot.engine, slot)}, started)},
    )


def _own_clocks(hot: HotEngine, phase: Phase) -> None:
    """The clocks that this stage's order_by operators set go to the stages behind."""
    for gate in hot.engine.gates.values():
        index = gate.node.index
        clock = hot.engine.moment.clocks.get(index)
        if clock is not None and gate.arrived:
            phase.clocks[index] = clock


def _merge_phases(phases: list[Phase], data: bytes) -> None:
    """Adds what one sender knows: of an order_by's clock only the slot that runs it knows more than nothing."""
    for place, (clocks, ending) in enumerate(orjson.loads(bytes(data))):
        if place == len(phases):
            phases.append(Phase({}, ending))
        for domain, clock in clocks:
            known = phases[place].clocks.get(domain, BEFORE_ALL)
            phases[place].clocks[domain] = max(known, clock)


def _merged(engine: Engine, edge: Edge, blobs: list[bytes]) -> Chunk:
    ref = engine.plan.node(edge.node).inputs[edge.port]
    order = engine.edge_columns(ref, edge)
    schema = stream_schema(engine.plan, ref)
    return merge([decode(data, schema, order) for data in blobs], order)


def last_merge(job: StageJob) -> Body:
    """The body behind the last stage: each ordered sink's rows, from all slots, in one order."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(_guarded(DRIVER, _last_merge(job, batches)))

    return body


def _last_merge(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    prepared = plan_of(job)
    plan = prepared.plan
    parts: dict[tuple[int, int], list[Chunk]] = {}
    orders: dict[int, tuple[str, ...]] = {}
    engine = Engine(prepared, stage=plan.depth)
    for batch in batches:
        for blob in from_batch(batch):
            if blob.stage == DRIVER:
                yield blob
            elif blob.kind == "chunk":
                ref = plan.node(blob.node).inputs[0]
                orders[blob.node] = engine.edge_columns(ref, Edge(blob.node, 0))
                chunk = decode(blob.data, stream_schema(plan, ref), orders[blob.node])
                parts.setdefault((blob.node, blob.phase), []).append(chunk)
    for (sink, _phase), chunks in sorted(parts.items(), key=lambda one: one[0]):
        yield from sink_blobs(sink, merge(chunks, orders[sink]))
