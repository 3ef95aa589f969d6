"""What leaves a stage, on its way to the stages and slots behind: routed by key, with the punctuations."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import orjson

from thalweg.columns.chunks import Chunk
from thalweg.engine.build import Builder, Prepared
from thalweg.engine.keyed_unit import KeyFinder
from thalweg.engine.serial import Engine, Leaving
from thalweg.flow.operators.nodes import Coroutine, Keyed, OrderBy, Sink
from thalweg.plan.plan import Closing, Edge
from thalweg.slots.key_counting import KeyCounter
from thalweg.spark.keys.routes import Routes, node_slot
from thalweg.spark.tasks.transport import DRIVER, Blob, encode, pieces, taken, to_json
from thalweg.spark.tasks.worker import StageJob, plan_of, routes_of
from thalweg.times import BEFORE_ALL


@dataclasses.dataclass(slots=True)
class CommonStep:
    """A step that all slots take at the same place: the clocks behind it, the domain that ends, and in which round."""

    clocks: dict[int, int]
    ending: list[int]
    round: int = 0


class Router:
    """Where chunks that leave a stage go: which slots, split by the owner of each row's state unit."""

    def __init__(
        self, prepared: Prepared, slots: int, routes: Routes, counter: KeyCounter | None = None
    ) -> None:
        self._plan = prepared.plan
        self._counter = counter
        #: by operator, the rows routed to it: those that stay in this slot, and all
        self.routed: dict[str, list[int]] = {}
        self._builder = Builder(prepared)
        self._slots = slots
        self._routes = routes
        self._finders: dict[int, KeyFinder] = {}

    def route(self, edge: Edge, chunk: Chunk, here: int) -> Iterator[tuple[int, Chunk]]:
        """The parts of a chunk, none too large for a blob, with the slot that each goes to."""
        node = self._plan.node(edge.node)
        if isinstance(node, Keyed) and node.key.fields:
            yield from self._by_key(node, chunk, here)
            return
        one_slot = isinstance(node, (OrderBy, Coroutine, Keyed))
        one_slot = one_slot or (isinstance(node, Sink) and node.ordered)
        slot = node_slot(node, self._slots) if one_slot else here
        for piece in pieces(chunk):
            yield slot, piece

    def _by_key(self, node: Keyed, chunk: Chunk, here: int) -> Iterator[tuple[int, Chunk]]:
        slots = self._slots_of(node, chunk)
        routed = self.routed.setdefault(node.name, [0, 0])
        routed[0] += int(np.count_nonzero(slots == here))
        routed[1] += len(slots)
        for slot in range(self._slots):
            places = np.flatnonzero(slots == slot)
            for piece in taken(chunk, places):
                yield slot, piece

    def _slots_of(self, node: Keyed, chunk: Chunk) -> Any:
        if node.index not in self._finders:
            function = self._builder.key(dataclasses.replace(node, errors="reject"))
            self._finders[node.index] = KeyFinder(node, function)
        finder = self._finders[node.index]
        # Rows whose key function raises are rejected where they arrive; any slot will do.
        columns, places, _ = finder.find(chunk)
        hashes = finder.spec.hashes(columns, len(places))
        if self._counter is not None:
            self._counter.left(node, chunk, places, finder.spec, columns, hashes)
        slots = np.zeros(len(chunk), np.int64)
        slots[places] = self._routes[node.name].slots(hashes)
        return slots


def merge_phases(phases: list[CommonStep], data: bytes) -> None:
    """Adds what one sender knows: of an order_by's clock only the slot that runs it knows more than nothing."""
    for place, (clocks, ending, number) in enumerate(orjson.loads(bytes(data))):
        if place == len(phases):
            phases.append(CommonStep({}, ending, number))
        for domain, clock in clocks:
            known = phases[place].clocks.get(domain, BEFORE_ALL)
            phases[place].clocks[domain] = max(known, clock)


class Sender:
    """Turns what leaves a stage into blobs for the stages behind it."""

    def __init__(
        self,
        engine: Engine,
        job: StageJob,
        stage: int,
        slot: int,
        counter: KeyCounter | None = None,
    ) -> None:
        self._engine = engine
        self._router = Router(plan_of(job), job.slots, routes_of(job), counter)
        self._slots = job.slots
        self._wanted = job.wanted
        self._stage = stage
        self._slot = slot
        self._phase = 0
        self._closings = engine.plan.closings

    @property
    def routed(self) -> dict[str, list[int]]:
        """By keyed operator, the rows sent to it so far: those that stay in this slot, and all."""
        return self._router.routed

    def ending(self, domains: Collection[int], number: int) -> None:
        """Tells the phase: 0 while rows flow, then one for each step of the end."""
        self._phase = 1 + self._closings.index(Closing(min(domains), number)) if domains else 0

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
                    yield from sink_blobs(node.index, chunk, self._slot)
                    continue
                for slot, piece in self._router.route(edge, chunk, self._slot):
                    data = encode(piece, order)
                    yield Blob(stage, slot, "chunk", edge.node, edge.port, self._phase, data)

    def clocks(self, phases: list[CommonStep]) -> Iterator[Blob]:
        """The punctuations: the phases for every later stage and slot, also those without rows."""
        data = to_json([[sorted(p.clocks.items()), p.ending, p.round] for p in phases])
        for stage in range(self._stage + 1, self._engine.plan.depth):
            for slot in range(self._slots):
                yield Blob(stage, slot, "clock", 0, 0, 0, data)


def sink_blobs(sink: int, chunk: Chunk, here: int) -> Iterator[Blob]:
    """A sink's rows for the driver's frame, without order columns; they pass later stages in this slot."""
    for piece in pieces(chunk):
        yield Blob(DRIVER, here, "sink", sink, len(piece), 0, encode(piece, ()))
