"""What leaves a stage, on its way to the stages and slots behind: routed by key, with the punctuations."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.engine.contract import Leaving
from thalweg.engine.units import Moment
from thalweg.flow.operators.nodes import Sink
from thalweg.plan.plan import Closing, Edge, Plan
from thalweg.slots.routes import leaves_one_slot
from thalweg.slots.runner import StageRunner
from thalweg.spark.tasks.transport import DRIVER, Blob, encode, pieces, taken, to_json
from thalweg.spark.tasks.worker import StageJob, routes_of


def merge_phases(phases: list[Moment], data: bytes) -> None:
    """Adds what one sender knows: of an order_by's clock only the slot that runs it knows more than nothing."""
    for place, (clocks, ending, number) in enumerate(orjson.loads(bytes(data))):
        if place == len(phases):
            phases.append(Moment({}, frozenset(ending), number))
        phases[place] = phases[place].later(dict(clocks))


class Sender:
    """Turns what leaves a stage into blobs for the stages behind it.

    Args:
        runner: of the stage.
        job: the batch.
        stage: which one.
        held: the stage and slot that run in this task beside the sender: what is for them stays as it is.

    Attributes:
        sent: by stage, the bytes of chunks and punctuations for it.
    """

    def __init__(
        self, runner: StageRunner, job: StageJob, stage: int, held: tuple[int, int] | None = None
    ) -> None:
        self._runner = runner
        self._plan = runner.engine.plan
        self._routes = routes_of(job)
        self._wanted = job.wanted
        self._packed = not job.mailboxes
        self._stage = stage
        self._held = held
        #: by stage and slot, the rows sent since the last step
        self._rows: collections.Counter[tuple[int, int]] = collections.Counter()
        self._phase = 0
        self.sent: collections.Counter[int] = collections.Counter()

    def ending(self, domains: Collection[int], number: int) -> None:
        """Tells the phase: 0 while rows flow, then one for each step of the end."""
        closings = self._plan.closings
        self._phase = 1 + closings.index(Closing(min(domains), number)) if domains else 0

    def send(self, leaving: Leaving) -> Iterator[Blob]:
        """The blobs of a step."""
        for edge, chunks in leaving.items():
            node = self._plan.node(edge.node)
            if not isinstance(node, Sink):
                stage = self._plan.stage(edge.node)
            elif node.index in self._wanted:
                stage = self._plan.depth
            else:
                continue
            for chunk in chunks:
                if isinstance(node, Sink) and not is_merged(self._plan, node):
                    yield from sink_blobs(node.index, chunk, self._runner.slot)
                else:
                    yield from self._chunk(stage, edge, chunk)

    def _chunk(self, stage: int, edge: Edge, chunk: Chunk) -> Iterator[Blob]:
        order = self._runner.order(edge)
        for slot, places in self._runner.split(edge, chunk, self._routes):
            size = len(chunk) if places is None else len(places)
            self._rows[stage, slot] += size
            if (stage, slot) == self._held:
                # A copy: the chunk may be in buffers of the operator that gave it.
                rows: Any = chunk.take(np.arange(size) if places is None else places)
                yield Blob(stage, slot, "chunk", edge.node, edge.port, self._phase, rows)
                continue
            for piece in self._pieces(chunk, places):
                data = encode(piece, order, packed=self._packed)
                self.sent[stage] += data.size
                yield Blob(stage, slot, "chunk", edge.node, edge.port, self._phase, data)

    def _pieces(self, chunk: Chunk, places: Int64s | None) -> Iterator[Chunk]:
        """The rows at these places; what crosses the JVM in pieces."""
        if not self._packed:
            yield chunk if places is None else chunk.take(places)
            return
        yield from pieces(chunk) if places is None else taken(chunk, places)

    @property
    def rows(self) -> int:
        """How many were sent since the last step."""
        return self._rows.total()

    def step(self, moment: Moment) -> Iterator[Blob]:
        """Says that all rows up to a moment are sent: the next stage may run them, if no other one sends it rows."""
        data = to_json(sorted(moment.watermarks.items()))
        stage = self._stage + 1
        # Last the one that runs here: the others need not wait until it has.
        for slot in sorted(range(self._routes.slots), key=lambda slot: (stage, slot) == self._held):
            if rows := self._rows[stage, slot]:
                yield Blob(stage, slot, "step", 0, rows, 0, data)
        self._rows.clear()

    def clocks(self, phases: Sequence[Moment]) -> Iterator[Blob]:
        """The punctuations: the phases for every later stage and slot, also those without rows."""
        data = to_json([[sorted(p.watermarks.items()), sorted(p.ending), p.round] for p in phases])
        for stage in range(self._stage + 1, self._plan.depth):
            for slot in range(self._routes.slots):
                self.sent[stage] += len(data)
                yield Blob(stage, slot, "clock", 0, 0, 0, data)


def is_merged(plan: Plan, sink: Sink) -> bool:
    """Whether a sink's rows come from several slots and must be brought into one order."""
    return sink.ordered and not leaves_one_slot(plan, sink.index)


def sink_blobs(sink: int, chunk: Chunk, here: int) -> Iterator[Blob]:
    """A sink's rows for the driver's frame, without order columns; they pass later stages in this slot."""
    for piece in pieces(chunk):
        yield Blob(DRIVER, here, "sink", sink, len(piece), 0, encode(piece, ()))
