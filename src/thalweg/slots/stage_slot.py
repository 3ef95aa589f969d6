"""One stage in one slot: takes steps, and its part in reconfigurations (Caneill et al., Algorithm 1, poi_migration).

All that it does is the answer to a message; it has no thread of its own. A tuple whose key's state is on its way waits,
those of other keys do not; the outputs of a step leave together, in order, so nobody behind sees that some waited.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from thalweg.columns.chunks import Chunk
from thalweg.engine.build import Prepared
from thalweg.engine.contract import Leaving
from thalweg.engine.serial import SerialEngine
from thalweg.engine.units import Moment
from thalweg.flow.operators.joining.join_nodes import Join, NextRow
from thalweg.flow.operators.nodes import Keyed
from thalweg.locality import KeyMove, KeySummary, Moves, RoutingTable, UnitMove
from thalweg.plan.plan import Edge
from thalweg.slots.arrivals import StepArrivals, merged, parts_by_place, receivers
from thalweg.slots.messages import (
    AckReconf,
    Envelope,
    GetMetrics,
    Instance,
    Message,
    Migrate,
    Propagate,
    SendMetrics,
    SendReconf,
    Settled,
    Work,
)
from thalweg.slots.migration import put, take_leaving
from thalweg.slots.routes import SlotRoutes
from thalweg.slots.runner import StageRunner, tell_slot


@dataclasses.dataclass(slots=True)
class _Open:
    """A step that waits for state."""

    number: int
    moment: Moment
    held: dict[Edge, Chunk]
    leaving: list[Leaving]


class StageSlot:
    """A stage in a slot.

    Args:
        prepared: what to run.
        place: which stage and slot.
        manager: who reconfigures.
        table: the one that holds.
        joins: whether it takes no part until a reconfiguration brings it in.
        counts_keys: whether it counts keys and pairs of keys.
    """

    def __init__(
        self,
        prepared: Prepared,
        place: Instance,
        manager: Instance,
        table: RoutingTable,
        *,
        joins: bool,
        counts_keys: bool,
    ) -> None:
        self.place = place
        self.engine = SerialEngine(prepared, stage=place.stage)
        self._plan = prepared.plan
        self._manager = manager
        counts_for = table.slots if counts_keys else None
        self._runner = StageRunner(self.engine, prepared, place.slot, counts_for=counts_for)
        self._arrivals = StepArrivals(place.stage, table, None if joins else 0)
        self._reconf: SendReconf | None = None
        #: the routes that hold, and those before
        self._routes = self._before = self._routes_of(table)
        tell_slot(self.engine, self._routes, place.slot)
        #: the slots whose state has not come
        self._missing: set[int] = set()
        #: state that came before its table held, by the slot that sent it
        self._early: dict[int, Migrate] = {}
        self._open: _Open | None = None
        self._splits = all(map(self._can_wait, self.engine.plan.nodes))

    def _can_wait(self, node: Any) -> bool:
        """Whether some of a node's rows may be taken later than others of the same step."""
        if self._plan.stage(node.index) != self.place.stage:
            return True
        if isinstance(node, Join) and not isinstance(
            node, NextRow
        ):  # holds the rows of all keys in the order of their times
            return False
        stateful = node.name in self.engine.keyed or node.name in self.engine.gates
        return not stateful or (
            isinstance(node, Keyed) and bool(node.key.fields) and node.timing == "watermark"
        )

    # -- messages ------------------------------------------------------------------------------------------

    def handle(self, sender: Instance, message: Message) -> list[Envelope]:
        """What it answers to a message."""
        match message:
            case Work() | Propagate():
                self._arrivals.take(sender, message)
            case GetMetrics():
                return [self._to(self._manager, SendMetrics(self._counted()))]
            case SendReconf():
                self._reconf = message
                self._arrivals.announce(message.before, message.router)
                return [self._to(self._manager, AckReconf(message.router.epoch))]
            case Migrate():
                return [*self._receive(sender, message), *self._go_on()]
            case _:
                raise TypeError(f"a stage cannot take {type(message).__name__}")
        return list(self._go_on())

    def _to(self, receiver: Instance, message: Message) -> Envelope:
        return Envelope(self.place, receiver, message)

    def _go_on(self) -> Iterator[Envelope]:
        """Takes the steps and tables that are whole."""
        while self._open is None:
            switch = self._arrivals.switch()
            if switch is not None:
                yield from self._reconfigure(switch)
                continue
            works = self._arrivals.next_step()
            if works is None:
                return
            yield from self._step(works)

    def _counted(self) -> KeySummary | None:
        counter = self._runner.counter
        if counter is None:
            return None
        found = counter.summary()
        counter.reset()
        return found

    # -- steps ---------------------------------------------------------------------------------------------

    def _step(self, works: Sequence[Work]) -> Iterator[Envelope]:
        moment = works[0].moment
        for work in works[1:]:
            moment = moment.later(work.moment.watermarks)
        held = merged(self._runner, [work.parts for work in works])
        self._open = _Open(works[0].step, moment, held, [])
        yield from self._proceed()

    def _proceed(self) -> Iterator[Envelope]:
        """Takes the rows of the open step whose state is here; closes the step when there are no others."""
        step = self._open
        if step is None:
            return
        if self._missing:
            if self._splits and not step.moment.ending:
                self._take_ready(step)
            return
        step.leaving += self._runner.run(step.moment, step.held)
        self._open = None
        yield from self._close(step)

    def _take_ready(self, step: _Open) -> None:
        ready: dict[Edge, Chunk] = {}
        for edge, chunk in list(step.held.items()):
            node = self._runner.router.by_key(edge)
            if node is None:
                ready[edge] = step.held.pop(edge)
                continue
            waits = self._runner.router.waits(node, chunk, self._before, frozenset(self._missing))
            ready[edge] = chunk.take(np.flatnonzero(~waits))
            step.held[edge] = chunk.take(np.flatnonzero(waits))
        if any(map(len, ready.values())):
            step.leaving += self._runner.run(step.moment, ready)

    def _close(self, step: _Open) -> Iterator[Envelope]:
        leaving = merged(self._runner, step.leaving)
        parts = parts_by_place(self._runner, leaving.items(), self._routes)
        moment = self._runner.close(step.moment)
        for place in receivers(self.place.stage, self._plan.depth, self._routes.slots):
            yield self._to(place, Work(step.number, moment, parts.get(place, {})))

    # -- reconfigurations ----------------------------------------------------------------------------------

    def _reconfigure(self, word: Propagate) -> Iterator[Envelope]:
        """The new table holds: hands over what leaves, waits for what is to come, tells those behind."""
        reconf = self._reconf
        assert reconf is not None
        here, router = self.place.slot, reconf.router
        self._reconf, self._before = None, self._routes_of(reconf.before)
        self._routes = self._routes_of(router)
        states = take_leaving(self.engine, here, self._routes)
        for slot in sorted(self._slots_in(reconf.send, "receiver")):
            yield self._to(
                Instance(self.place.stage, slot), Migrate(router.epoch, states.pop(slot, {}))
            )
        assert not states, f"state of keys that no list names goes to the slots {sorted(states)}"
        self._missing = self._slots_in(reconf.receive, "sender")
        slots = max(reconf.before.slots, router.slots)
        if here < reconf.before.slots:
            for place in receivers(self.place.stage, self._plan.depth, slots):
                yield self._to(place, word)
        if here >= router.slots:
            self._arrivals.leave()
        early, self._early = self._early, {}
        for slot, message in early.items():
            yield from self._receive(Instance(self.place.stage, slot), message)
        if not early and not self._missing:
            yield self._to(self._manager, Settled(router.epoch))

    def _routes_of(self, table: RoutingTable) -> SlotRoutes:
        return SlotRoutes(self._plan, table.slots, table)

    def _slots_in(self, moves: Moves, side: str) -> set[int]:
        """The other slots that a list names for this stage."""
        both: list[KeyMove | UnitMove] = [*moves.keys, *moves.units]
        slots = {getattr(one, side) for one in both if one.operator in self.engine.keyed}
        return slots - {self.place.slot}

    def _receive(self, sender: Instance, message: Migrate) -> Iterator[Envelope]:
        if self._reconf is not None and self._reconf.router.epoch == message.epoch:
            self._early[sender.slot] = message
            return
        put(self.engine, message.states)
        self._missing.discard(sender.slot)
        yield from self._proceed()
        if not self._missing:
            yield self._to(self._manager, Settled(message.epoch))
