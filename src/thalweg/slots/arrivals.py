"""Collects messages from the slots upstream until a step is complete or a new table takes effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from thalweg.columns.chunks import Chunk
from thalweg.engine.contract import Leaving
from thalweg.flow.operators.nodes import Sink
from thalweg.locality import RoutingTable
from thalweg.plan.plan import Edge
from thalweg.slots.messages import Instance, Propagate, Work
from thalweg.slots.routes import SlotRoutes
from thalweg.slots.runner import StageRunner

#: Where all tuples come from.
INGRESS: Final = Instance(0, 0)


def senders(stage: int, slots: int) -> Iterator[Instance]:
    """The places that a stage hears from."""
    yield INGRESS
    for before in range(1, stage):
        for slot in range(slots):
            yield Instance(before, slot)


def receivers(stage: int, depth: int, slots: int) -> Iterator[Instance]:
    """The places that hear from a stage; the last is where the sinks' rows are collected."""
    for later in range(stage + 1, depth):
        for slot in range(slots):
            yield Instance(later, slot)
    yield Instance(depth, 0)


def merged(runner: StageRunner, leaving: Iterable[Leaving]) -> dict[Edge, Chunk]:
    """What came from several places, or left in several goes, each edge in the order of its stream."""
    found: Leaving = {}
    for one in leaving:
        for edge, chunks in one.items():
            found.setdefault(edge, []).extend(chunks)
    return {edge: runner.merged(edge, chunks) for edge, chunks in found.items()}


def parts_by_place(
    runner: StageRunner, leaving: Iterable[tuple[Edge, Chunk]], routes: SlotRoutes
) -> dict[Instance, Leaving]:
    """What leaves a stage in a slot, by the place that it goes to; what leaves for sinks is collected in one."""
    plan = runner.engine.plan
    found: dict[Instance, Leaving] = {}

    def add(place: Instance, edge: Edge, part: Chunk) -> None:
        found.setdefault(place, {}).setdefault(edge, []).append(part)

    for edge, chunk in leaving:
        if isinstance(plan.node(edge.node), Sink):
            add(Instance(plan.depth, 0), edge, chunk)
            continue
        for slot, places in runner.split(edge, chunk, routes):
            part = chunk if places is None else chunk.take(places)
            add(Instance(plan.stage(edge.node), slot), edge, part)
    return found


@dataclasses.dataclass(slots=True)
class StepArrivals:
    """Steps in their order, and tables between them.

    A step is whole when each sender of the table that holds has said what it has; a new table holds in front of a step
    when each sender of the table before has said so (Caneill et al., 3.4: the predecessors have reconfigured
    first). Since messages between two places keep their order, the first such word comes before that step is whole.

    Attributes:
        stage: of the place that they come to.
        table: the one that holds.
        step: the next one; None for a place that takes no part yet, or any more.
        router: the table that is to hold next, once announced.
    """

    stage: int
    table: RoutingTable
    step: int | None
    router: RoutingTable | None = None
    #: by step, what has come
    _works: dict[int, dict[Instance, Work]] = dataclasses.field(default_factory=dict)
    #: those that go by ``router``
    _switched: set[Instance] = dataclasses.field(default_factory=set)
    _switch: Propagate | None = None

    def announce(self, before: RoutingTable, router: RoutingTable) -> None:
        """A table that is to hold; a place that takes no part learns which one holds before."""
        self.table, self.router = before, router

    def take(self, sender: Instance, message: Work | Propagate) -> None:
        """Takes a message."""
        if isinstance(message, Work):
            self._works.setdefault(message.step, {})[sender] = message
        else:
            self._switched.add(sender)
            self._switch = message
            if self.step is None:
                self.step = message.step

    def switch(self) -> Propagate | None:
        """The word that the new table holds from here on, once all have said it; then it holds."""
        if self._switch is None or self._switch.step != self.step or self.router is None:
            return None
        if not self._switched.issuperset(senders(self.stage, self.table.slots)):
            return None
        message, self._switch, self._switched = self._switch, None, set()
        self.table, self.router = self.router, None
        return message

    def next_step(self) -> list[Work] | None:
        """The next step once it is whole, what the ingress says first."""
        if self.step is None or (self._switch is not None and self._switch.step == self.step):
            return None
        works = self._works.get(self.step, {})
        wanted = list(senders(self.stage, self.table.slots))
        if not all(place in works for place in wanted):
            return None
        del self._works[self.step]
        self.step += 1
        return [works[place] for place in wanted]

    def leave(self) -> None:
        """The place takes no part any more."""
        self.step = None
