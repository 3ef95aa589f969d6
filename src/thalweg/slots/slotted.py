"""Several slots in one process: the engine of a host whose later stages run in slots that exchange messages.

The host's thread has the ingress, collects what leaves for the sinks, and is the manager of reconfigurations. The
stream never stops for one: tables are handed out while steps flow, take hold behind a step of the ingress, and go
down the flow with the tuples (Caneill et al., 3.4, Fig. 6).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.columns.keys import KeySpec
from thalweg.engine.bad_rows import newest
from thalweg.engine.build import Prepared
from thalweg.engine.contract import CHUNK_ROWS, Leaving
from thalweg.engine.serial import SerialEngine
from thalweg.engine.units import Counts, Given, Moment
from thalweg.errors import BuildError
from thalweg.locality import KeySummary, RoutingTable, Statistics, keyed_operators, moves_between
from thalweg.locality.counting.recent import RecentCounts
from thalweg.plan.plan import Edge
from thalweg.slots.arrivals import INGRESS, StepArrivals, merged, parts_by_place, receivers
from thalweg.slots.deciding import Decide, Placer
from thalweg.slots.messages import (
    AckReconf,
    Envelope,
    Failed,
    GetMetrics,
    Instance,
    Message,
    Propagate,
    SendMetrics,
    SendReconf,
    Settled,
    Work,
)
from thalweg.slots.progress import progress_of
from thalweg.slots.routes import SlotRoutes
from thalweg.slots.runner import StageRunner
from thalweg.slots.stage_slot import StageSlot
from thalweg.slots.transport import MakeTransport, Threads
from thalweg.stats import FaultyRow, OperatorProgress

#: Steps on their way at once; the ingress waits when there are more.
IN_FLIGHT: Final = 8

#: Steps between two looks at the table.
LOOK_EVERY: Final = 16


class _Stage(enum.Enum):
    """How far a reconfiguration is."""

    NONE = "none"
    #: metrics were asked for (steps 1 and 2)
    METRICS = "metrics"
    #: the table was sent (steps 3 and 4)
    ACKS = "acknowledgements"
    #: all are ready; the next step of the ingress goes by the new table
    READY = "ready"
    #: the table goes down the flow, state is exchanged (steps 5 and 6)
    EXCHANGE = "exchange"


class SlottedEngine(SerialEngine):
    """An engine whose later stages run in several slots.

    Args:
        prepared: what to run.
        slots: how many slots.
        table: which keys go where; None: by hash.
        chunk_rows: about how many rows a step has.
        recent: takes what the slots count of keys and pairs of keys, for reconfigurations; None: they count nothing.
        decide: asked for a better table every ``look_every`` steps; None: only :meth:`reconfigure` asks.
        look_every: steps.
        placer: gives new keys their places, in the step that brings them; None: they go by hash.
        transport: makes what carries messages.

    Raises:
        BuildError: there are more slots than an operator has buckets, or the table is for others.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        slots: int,
        table: RoutingTable | None = None,
        chunk_rows: int = CHUNK_ROWS,
        recent: RecentCounts | None = None,
        decide: Decide | None = None,
        look_every: int = LOOK_EVERY,
        placer: Placer | None = None,
        transport: MakeTransport = Threads,
    ) -> None:
        super().__init__(prepared, stage=0, chunk_rows=chunk_rows)
        operators = keyed_operators(prepared.plan)
        if table is None:
            table = RoutingTable.hashed(operators, slots)
        table.require(operators, slots)
        self.table = table
        self._prepared = prepared
        self._recent = recent
        #: the answers to the last look
        self._heard_counts: list[KeySummary] = []
        self._operators = operators
        self._specs = {node.name: KeySpec(node.key.fields) for node in prepared.plan.keyed}
        self._runner = StageRunner(self, prepared, 0)
        self._routes = SlotRoutes(prepared.plan, table.slots, table)
        self._collected = StepArrivals(prepared.plan.depth, table, 0)
        self._next = 0
        #: the stages in all slots that ever took part
        self.places: dict[Instance, StageSlot] = {}
        self._stage = _Stage.NONE
        self._awaited: set[Instance] = set()
        self._decide = decide
        self._looks = decide
        self._look_every = look_every
        self._placer = placer
        self._coming: RoutingTable | None = None
        self._transport = transport(self._handle, self._is_host)
        for slot in range(slots):
            self._make_slot(slot, joins=False)

    def _make_slot(self, slot: int, *, joins: bool) -> None:
        for stage in range(1, self.plan.depth):
            place = Instance(stage, slot)
            if place not in self.places:
                self.places[place] = StageSlot(
                    self._prepared,
                    place,
                    INGRESS,
                    self.table,
                    joins=joins,
                    counts_keys=self._recent is not None,
                )

    def _is_host(self, place: Instance) -> bool:
        return place.stage in (0, self.plan.depth)

    def _handle(self, envelope: Envelope) -> list[Envelope]:
        return self.places[envelope.receiver].handle(envelope.sender, envelope.message)

    # -- steps ---------------------------------------------------------------------------------------------

    def step(
        self,
        given: Given,
        watermarks: Mapping[int, int],
        *,
        ending: frozenset[int] = frozenset(),
        round: int = 0,
        arriving: Mapping[Edge, Chunk] | None = None,
    ) -> Leaving:
        """Runs the ingress and sends what it gives on its way; gives what has arrived for the sinks meanwhile."""
        leaving = super().step(given, watermarks, ending=ending, round=round, arriving=arriving)
        found: Leaving = {}
        if self._stage is _Stage.READY and not ending:
            self._propagate()
        if self._placer is not None and not ending and self._placer.look(leaving):
            self._place(self._placer, found)
        moment = Moment(dict(self.moment.watermarks), ending, round)
        pairs = ((edge, chunk) for edge, chunks in leaving.items() for chunk in chunks)
        parts = parts_by_place(self._runner, pairs, self._routes)
        self._transport.send(
            Envelope(INGRESS, place, Work(self._next, moment, parts.get(place, {})))
            for place in receivers(0, self.plan.depth, self.table.slots)
        )
        self._next += 1
        if self._looks is not None and not self._next % self._look_every:
            self.reconfigure(self._looks)
        return self._collect(IN_FLIGHT, found)

    def settle(self) -> Iterator[Leaving]:
        """What the steps give that are still on their way."""
        yield self._collect(0)
        for place in self.places.values():
            for name, counts in place.engine.counts.items():
                self.setting.count(name, **counts)
            place.engine.counts.clear()

    def _collect(self, in_flight: int, found: Leaving | None = None) -> Leaving:
        """Takes messages until at most ``in_flight`` steps are on their way.

        Args:
            in_flight: steps.
            found: what has arrived for the sinks before.
        """
        found = {} if found is None else found
        while True:
            behind = self._next - (self._collected.step or 0) > in_flight
            envelope = self._transport.receive(wait=behind)
            if envelope is None:
                if behind:
                    raise RuntimeError(f"step {self._collected.step} never comes to its end")
                return found
            self._hear(envelope.sender, envelope.message)
            self._take_steps(found)

    def _take_steps(self, found: Leaving) -> None:
        while True:
            if self._collected.switch() is not None:
                self._heard(Instance(self.plan.depth, 0))
                continue
            works = self._collected.next_step()
            if works is None:
                return
            for edge, chunk in merged(self._runner, [work.parts for work in works]).items():
                found.setdefault(edge, []).append(chunk)

    def operators(self) -> list[OperatorProgress]:
        """What each operator has done in all slots."""
        return [*super().operators(), *progress_of(self.places, self.plan.depth, self.totals())]

    def held_tables(self) -> dict[str, list[Any]]:
        """Those of all slots."""
        found = super().held_tables()
        for place in list(self.places.values()):
            for name, tables in place.engine.held_tables().items():
                found.setdefault(name, []).extend(tables)
        return found

    def bad_rows(self) -> tuple[FaultyRow, ...]:
        """The last of all slots."""
        places = (one.engine.bad_rows() for one in list(self.places.values()))
        return newest(itertools.chain(super().bad_rows(), *places))

    def totals(self) -> Counts:
        """The counts of all slots, also of steps that are on their way."""
        found = super().totals()
        for place in list(self.places.values()):
            for name, counts in place.engine.totals().items():
                its = found.setdefault(name, {})
                for what, number in counts.items():
                    its[what] = its.get(what, 0) + number
        return found

    def stop(self) -> None:
        """Ends the threads of the slots."""
        self.give_up()
        self._transport.stop()
        super().stop()
        for place in self.places.values():
            place.engine.stop()

    def give_up(self) -> None:
        """See :meth:`thalweg.engine.contract.Engine.give_up`, in all slots."""
        super().give_up()
        for place in list(self.places.values()):
            place.engine.give_up()

    # -- reconfigurations ----------------------------------------------------------------------------------

    def reconfigure(self, decide: Decide) -> bool:
        """Begins a reconfiguration; False while one is under way, which must end first.

        Args:
            decide: called in this thread when the slots have told what they counted. Its table may have another
                number of slots.
        """
        if self._stage is not _Stage.NONE:
            return False
        self._decide = decide
        self._ask(_Stage.METRICS, self._active(self.table.slots), lambda place: GetMetrics())
        return True

    def _active(self, slots: int) -> list[Instance]:
        stages = range(1, self.plan.depth)
        return [Instance(stage, slot) for stage in stages for slot in range(slots)]

    def _ask(
        self, stage: _Stage, places: list[Instance], message: Callable[[Instance], Message]
    ) -> None:
        self._stage, self._awaited = stage, set(places)
        self._transport.send(Envelope(INGRESS, place, message(place)) for place in places)
        if not places:
            self._answered()

    def _hear(self, sender: Instance, message: Message) -> None:
        match message:
            case Failed():
                raise message.error
            case Work() | Propagate():
                self._collected.take(sender, message)
                return
            case SendMetrics():
                if message.summary is not None:
                    self._heard_counts.append(message.summary)
            case AckReconf() | Settled():
                pass
            case _:
                raise TypeError(f"the host cannot take {type(message).__name__}")
        self._heard(sender)

    def _heard(self, place: Instance) -> None:
        """A place has answered what was asked last."""
        self._awaited.discard(place)
        if not self._awaited:
            self._answered()

    def _answered(self) -> None:
        """All places have answered what was asked last."""
        if self._stage is _Stage.METRICS:
            self._send_tables()
        elif self._stage is _Stage.ACKS:
            self._stage = _Stage.READY
        else:
            self._stage = _Stage.NONE

    def _send_tables(self) -> None:
        assert self._decide is not None
        router = self._decide(self._counted(), self.table)
        if router is None:
            self._stage = _Stage.NONE
            return
        self._hand_out(router)

    def _counted(self) -> Statistics | None:
        """What was counted lately, with the answers to this look; None where nothing was."""
        if self._recent is None:
            return None
        self._recent.add(self._heard_counts)
        self._heard_counts = []
        summary = self._recent.summary()
        return None if summary is None else summary.statistics(self._named)

    def _hand_out(self, router: RoutingTable) -> None:
        """Sends a table to all that it concerns, with what each of them gives and gets."""
        router.require(self._operators, router.slots)
        if router.epoch <= self.table.epoch:
            raise BuildError(
                f"a table of epoch {router.epoch} cannot follow epoch {self.table.epoch}"
            )
        before, moves = self.table, moves_between(self.table, router)
        self._coming = router
        for slot in range(before.slots, router.slots):
            self._make_slot(slot, joins=True)
        self._collected.announce(before, router)

        def told(place: Instance) -> Message:
            mine = moves.message(router, place.slot)
            return SendReconf(before, mine.router, mine.send, mine.receive)

        self._ask(_Stage.ACKS, self._active(max(before.slots, router.slots)), told)

    def _named(self, operator: str, names: pa.BinaryArray) -> list[Any]:
        """Keys by what sketches call them."""
        spec = self._specs[operator]
        return spec.python_keys(spec.decode_ordered(names), len(names))

    def _place(self, placer: Placer, found: Leaving) -> None:
        """Reconfigures in front of the step that is to be sent, behind all that is under way.

        The keys that are placed have no state as a rule; if one has, it is handed over like any other.
        """
        self._wait_for(_Stage.NONE, found)
        router = placer.table(self.table)
        if router is None:
            return
        self._hand_out(router)
        self._wait_for(_Stage.READY, found)
        # No key that was counted is elsewhere, so the counts still hold.
        self._propagate(keep=True)

    def _wait_for(self, stage: _Stage, found: Leaving) -> None:
        """Hears messages until a reconfiguration is so far."""
        while self._stage is not stage:
            if self._stage is _Stage.READY:
                self._propagate()
                continue
            envelope = self._transport.receive(wait=True)
            if envelope is None:
                raise RuntimeError(f"a reconfiguration never comes beyond its {self._stage.value}")
            self._hear(envelope.sender, envelope.message)
            self._take_steps(found)

    def _propagate(self, *, keep: bool = False) -> None:
        """From the next step on tuples go by the new table; the places are told in front of it.

        Unless counts are to be kept, they are of keys that are elsewhere now (3.2).
        """
        router = self._coming
        assert router is not None
        slots = max(self.table.slots, router.slots)
        self._stage = _Stage.EXCHANGE
        self._awaited = {*self._active(slots), Instance(self.plan.depth, 0)}
        self._transport.send(
            Envelope(INGRESS, place, Propagate(router.epoch, self._next))
            for place in receivers(0, self.plan.depth, slots)
        )
        self.table, self._coming = router, None
        self._routes = SlotRoutes(self.plan, router.slots, router)
        if self._recent is not None and not keep:
            self._recent.clear()
