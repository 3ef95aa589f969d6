"""Runs a stage in a slot, on every host: merges what arrives, runs it, counts keys, and routes the output.

Slots of one process (:mod:`thalweg.slots.stage_slot`) and Spark's tasks (:mod:`thalweg.spark.tasks`) both run their
stages so; they differ in how chunks travel, and in what they do between two steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.columns.ordering import merge
from thalweg.engine.build import Prepared
from thalweg.engine.contract import Engine, Leaving
from thalweg.engine.units import Moment
from thalweg.flow.records import Schema
from thalweg.plan.plan import Edge, stream_schema
from thalweg.slots.key_counting import KeyCounter
from thalweg.slots.router import Router
from thalweg.slots.routes import SlotRoutes


def tell_slot(engine: Engine, routes: SlotRoutes, slot: int) -> None:
    """Tells the operators of an engine that run in one slot whether this is it."""
    for unit in engine.coroutines:
        unit.here = routes.slot_of(unit.node) == slot


class StageRunner:
    """Runs a stage in a slot, a step after the other.

    Args:
        engine: of the stage, with the state that the slot owns.
        prepared: the flow.
        slot: which one.
        counts_for: for so many slots keys and pairs of keys are counted; None: they are not.
    """

    def __init__(
        self, engine: Engine, prepared: Prepared, slot: int, *, counts_for: int | None = None
    ) -> None:
        self.engine = engine
        self.slot = slot
        self.counter = None if counts_for is None else KeyCounter(engine, counts_for)
        self.router = Router(prepared, self.counter)

    def schema(self, edge: Edge) -> Schema:
        """Of the rows of an edge."""
        plan = self.engine.plan
        return stream_schema(plan, plan.node(edge.node).inputs[edge.port])

    def order(self, edge: Edge) -> tuple[str, ...]:
        """The order columns of an edge."""
        ref = self.engine.plan.node(edge.node).inputs[edge.port]
        return self.engine.edge_columns(ref, edge)

    def merged(self, edge: Edge, chunks: Sequence[Chunk]) -> Chunk:
        """The rows of an edge from several slots, or of several goes, in the order of the stream."""
        return merge(chunks, self.order(edge))

    def run(self, moment: Moment, arriving: Mapping[Edge, Chunk]) -> Iterator[Leaving]:
        """Runs what has arrived; what leaves is to be routed before it is closed."""
        if self.counter is not None:
            self.counter.arrived(arriving)
        yield self.engine.step(
            {}, moment.watermarks, ending=moment.ending, round=moment.round, arriving=arriving
        )
        yield from self.engine.settle()

    def close(self, moment: Moment) -> Moment:
        """What the stages behind are told: with the watermarks that the stage's order_by operators have set."""
        if self.counter is not None:
            self.counter.end_step()
        own = self.engine.own_clocks()
        # Of an order_by only the slot that gets its rows has something to say.
        arrived = {gate.node.index for gate in self.engine.gates.values() if gate.arrived}
        mine = {index: watermark for index, watermark in own.items() if index in arrived}
        return dataclasses.replace(moment, watermarks={**moment.watermarks, **mine})

    def split(
        self, edge: Edge, chunk: Chunk, routes: SlotRoutes
    ) -> Iterator[tuple[int, Int64s | None]]:
        """The slots that rows go on to: see :meth:`thalweg.slots.router.Router.split`."""
        return self.router.split(edge, chunk, self.slot, routes)
