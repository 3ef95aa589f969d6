"""The common part of all engines: a plan's units with their state, and the ingress that cuts input into steps."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from thalweg.columns.chunks import Chunk
from thalweg.columns.ordering import empty_order, serials
from thalweg.engine.asynchronous.unit import ROWS_A_CALL, AsyncUnit
from thalweg.engine.bad_rows import KEPT
from thalweg.engine.build import Builder, Prepared
from thalweg.engine.built_in import BuiltInUnit
from thalweg.engine.contract import CHUNK_ROWS, Leaving
from thalweg.engine.coroutines.unit import CoroutineUnit
from thalweg.engine.feedback_unit import LoopUnit
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.units import (
    BatchesUnit,
    ChainUnit,
    Counts,
    Given,
    Moment,
    OrderByUnit,
    Setting,
    UnionUnit,
    late_order,
)
from thalweg.engine.watermarks.ingress import Gate, Ingress, event_columns
from thalweg.engine.watermarks.lanes import gate_of
from thalweg.engine.watermarks.release import cuts
from thalweg.flow.operators.asynchronous import MapAsync
from thalweg.flow.operators.built_in import BuiltIn
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.nodes import (
    Batches,
    Coroutine,
    Keyed,
    OrderBy,
    Ref,
    Source,
    Stateless,
    Union,
)
from thalweg.flow.operators.rejected import REJECTED, Rejected
from thalweg.plan.plan import LEVEL, OWN, Edge, Plan, branch, stream_schema
from thalweg.plan.units import Unit
from thalweg.stats import FaultyRow
from thalweg.times import BEFORE_ALL


class UnitsEngine(abc.ABC):
    """The units of one stage of a plan, or of all, with their state.

    Args:
        prepared: what to run.
        stage: the stage to run; None runs the whole plan in this slot.
        chunk_rows: about how many rows a step has.

    The streams that leave — to sinks, or to readers in later stages — come back by edge.
    """

    def __init__(
        self, prepared: Prepared, *, stage: int | None = None, chunk_rows: int = CHUNK_ROWS
    ) -> None:
        plan = prepared.plan
        self.plan = plan
        self._builder = Builder(prepared)
        self.stage = stage
        called = [node.concurrency for node in plan.nodes if isinstance(node, MapAsync)]
        self.chunk_rows = min([chunk_rows, *(most * ROWS_A_CALL for most in called)])
        self.counts: Counts = {}
        self.setting = Setting(plan, whole=stage is not None, counts=self.counts)
        self.units = [
            (unit, self._make(unit)) for unit in plan.units if stage is None or unit.stage == stage
        ]
        self.ingresses = self._ingresses() if stage in (None, 0) else {}
        #: what the last step said about time
        self.moment = Moment({})
        #: what was decided since rows came to lanes that were idle; a host that logs decisions takes them out
        self.woken: list[IdleDecision] = []
        #: operators that Python runs though the compiler was to, by index, and why
        self.fallen = self._builder.fallen

    # -- state --------------------------------------------------------------------------------------------

    @property
    def keyed(self) -> dict[str, KeyedUnit | CoroutineUnit]:
        """The operators of this engine that have state, by name: keyed, stateful and coroutine operators."""
        return {u.node.name: u for u in self._single() if isinstance(u, (KeyedUnit, CoroutineUnit))}

    @property
    def by_key(self) -> dict[str, KeyedUnit]:
        """Those of them that have a state for each key."""
        found = ((name, unit) for name, unit in self.keyed.items() if isinstance(unit, KeyedUnit))
        return {name: unit for name, unit in found if unit.node.key.fields}

    @property
    def coroutines(self) -> list[CoroutineUnit]:
        """The coroutine operators of this engine."""
        return [unit for unit in self._single() if isinstance(unit, CoroutineUnit)]

    def _single(self) -> Iterator[Any]:
        """All units, those of a loop one by one."""
        for _, unit in self.units:
            yield from unit.members.values() if isinstance(unit, LoopUnit) else [unit]

    @functools.cached_property
    def gates(self) -> dict[str, Gate]:
        """The sources and order_by operators of this engine, by name; also sources without event time."""
        found = {
            gate.node.name: gate for ing in self.ingresses.values() for gate in ing.gates.values()
        }
        found |= {u.node.name: u.gate for _, u in self.units if isinstance(u, OrderByUnit)}
        return found

    def own_clocks(self) -> dict[int, int]:
        """The watermarks that order_by operators set in their last step, by the operator's index."""
        units = [unit for _, unit in self.units if isinstance(unit, OrderByUnit)]
        return {u.node.index: u.watermark for u in units if u.watermark is not None}

    def resume(self) -> None:
        """Goes on with state that a host has put into tables and gates; counts start from nothing.

        No step may be on its way.
        """
        self.counts.clear()
        self.moment = Moment({})
        for ingress in self.ingresses.values():
            ingress.reached = BEFORE_ALL

    # -- running ------------------------------------------------------------------------------------------

    @functools.cached_property
    def _sources(self) -> dict[str, Source]:
        return {source.name: source for source in self.plan.sources}

    def step_rows(self) -> int:
        """How many rows the next step should have."""
        return self.chunk_rows

    def feed(
        self, source: str, chunk: Chunk, rejected: Sequence[tuple[str, str, str]] = ()
    ) -> Leaving:
        """Rows of a source in arrival order, with rows that did not fit as (reason, position, text).

        Rows with event time wait in the gate until :meth:`advance`; others run through at once.
        """
        gate = self.gates[source]
        node = self._sources[source]
        given: Given = {}
        self.setting.count(node.name, **{"in": len(chunk) + len(rejected)})
        if rejected:
            self.setting.count(node.name, rejected=len(rejected))
            last = [(reason, text) for reason, _, text in rejected[-KEPT:]]
            self.setting.bad_rows.reject(node.name, last)
            given[Ref(node.index, "rejected")] = self._rejected(node, gate.arrived, rejected)
        if not node.sorts:
            order = {"_seq": serials(node.index, gate.arrived, len(chunk))}
            if node.order_by is not None:
                order[OWN] = chunk.column(node.order_by).values
            gate.arrived += len(chunk)
            self.setting.count(node.name, out=len(chunk))
            rows = Chunk(chunk.schema, chunk.columns, len(chunk), order)
            rows = event_columns(rows, self.setting.columns(Ref(node.index)))
            return self._enter(given, Ref(node.index), rows)
        for decision in gate.active_again(chunk):
            self.decide(decision)
            self.woken.append(decision)
        before = gate.late
        late = gate.accept(chunk)
        self.setting.count(node.name, late=gate.late - before)
        if len(late):
            self.setting.bad_rows.late(node.name, late, gate.time_field, node.lateness)
            given |= self._late(node.index, late)
        return self.step(given, {}) if given else {}

    def _late(self, index: int, rows: Chunk) -> Given:
        ref = Ref(index, "late")
        return {ref: event_columns(late_order(rows), self.setting.columns(ref))}

    def _enter(self, given: Given, ref: Ref, rows: Chunk) -> Leaving:
        """Rows that need not wait, a step at a time; with the first, what else the source gave."""
        leaving: Leaving = {}
        parts = (
            [rows]
            if not len(rows)
            else (rows.slice(*cut) for cut in cuts(len(rows), self.step_rows))
        )
        for part in parts:
            for edge, chunks in self.step({**given, ref: part}, {}).items():
                leaving.setdefault(edge, []).extend(chunks)
            given = {}
        return leaving

    def decide(self, decision: IdleDecision) -> None:
        """Takes a decision about a source of this engine; what follows from it comes with :meth:`advance`."""
        gate = self.gates[decision.source]
        if gate.decide(decision):
            self.setting.count(decision.source, idle=1)
        self.ingresses[self.plan.domains[gate.node.index - 1]].give_out()

    def watermarks(self) -> dict[int, int]:
        """The watermark of each domain that begins at a source."""
        return {domain: ingress.watermark for domain, ingress in self.ingresses.items() if domain}

    def advance(self, *, everything: bool = False) -> Iterator[Leaving]:
        """Releases what the watermarks allow (or everything) through the flow, a step at a time."""
        for domain, ingress in self.ingresses.items():
            if not domain or (ingress.ended and not everything):
                continue
            steps = ingress.release(self.step_rows, everything=everything)
            for index, gate in ingress.gates.items():
                late = gate.take_late()
                if late is not None:
                    for start, end in cuts(len(late), self.step_rows):
                        yield self.step(self._late(index, late.slice(start, end)), {})
            for released, watermark in steps:
                given: Given = {}
                for index, rows in released.items():
                    self.setting.count(self.plan.node(index).name, out=len(rows))
                    given[Ref(index)] = event_columns(rows, self.setting.columns(Ref(index)))
                yield self.step(given, {domain: watermark})

    def finish(self) -> Iterator[Leaving]:
        """The end of all streams: waiting rows, then the remaining timers, domain by domain.

        What a domain's end gives is out before the next domain ends.
        """
        yield from self.advance(everything=True)
        for domain, number in self.plan.closings:
            yield from self.settle()
            yield self.step({}, {}, ending=frozenset([domain]), round=number)
        yield from self.settle()

    @abc.abstractmethod
    def step(
        self,
        given: Given,
        watermarks: Mapping[int, int],
        *,
        ending: frozenset[int] = frozenset(),
        round: int = 0,
        arriving: Mapping[Edge, Chunk] | None = None,
    ) -> Leaving:
        """See :meth:`thalweg.engine.contract.Engine.step`."""

    @abc.abstractmethod
    def settle(self) -> Iterator[Leaving]:
        """See :meth:`thalweg.engine.contract.Engine.settle`."""

    def totals(self) -> Counts:
        """See :meth:`thalweg.engine.contract.Engine.totals`."""
        return {name: dict(its) for name, its in list(self.counts.items())}

    def bad_rows(self) -> tuple[FaultyRow, ...]:
        """See :meth:`thalweg.engine.contract.Engine.bad_rows`."""
        return self.setting.bad_rows.last()

    def held_tables(self) -> dict[str, list[Any]]:
        """See :meth:`thalweg.engine.contract.Engine.held_tables`."""
        return {name: list(unit.tables.values()) for name, unit in self.keyed.items()}

    def pressed(self) -> Sequence[str] | None:
        """See :meth:`thalweg.engine.contract.Engine.pressed`."""
        return None

    def edge_columns(self, ref: Ref, edge: Edge) -> tuple[str, ...]:
        """The order columns of a stream as one of its readers sees it."""
        return (*self.setting.columns(ref), *self.branch_of(ref, edge))

    def branch_of(self, ref: Ref, edge: Edge) -> dict[str, int]:
        """Which of a stream's readers that is, by order column; nothing where it makes no difference to the order."""
        readers = self.plan.readers[ref]
        if len(readers) < 2 or LEVEL not in self.setting.columns(ref):
            return {}
        return {branch(ref.node): readers.index(edge)}

    def branched(self, chunk: Chunk, ref: Ref, edge: Edge) -> Chunk:
        """The stream for one of several readers: with its branch number, where the order key is whole."""
        readers = self.plan.readers[ref]
        if len(readers) < 2 or LEVEL not in chunk.order:
            return chunk
        order = {**chunk.order, **empty_order([branch(ref.node)], len(chunk))}
        order[branch(ref.node)] += readers.index(edge)
        return Chunk(chunk.schema, chunk.columns, len(chunk), order)

    def _rejected(self, node: Source, arrived: int, rows: Sequence[tuple[str, str, str]]) -> Chunk:
        made = Chunk.from_rows(REJECTED, [Rejected(node.name, *row) for row in rows])
        made.order = {"_seq": serials(node.index, arrived, len(rows))}
        return event_columns(made, self.setting.columns(Ref(node.index, "rejected")))

    # -- calls to others ------------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Cancels the calls that operators have open; see :meth:`thalweg.engine.contract.Engine.give_up`."""
        for unit in self._single():
            if isinstance(unit, AsyncUnit):
                unit.give_up()

    def stop(self) -> None:
        """As :meth:`give_up`, and leaves the clients of the calls."""
        for unit in self._single():
            if isinstance(unit, AsyncUnit):
                unit.close()

    # -- making -------------------------------------------------------------------------------------------

    def _ingresses(self) -> dict[int, Ingress]:
        gates: dict[int, list[Gate]] = {}
        for source in self.plan.sources:
            gates.setdefault(self.plan.domains[source.index - 1], []).append(gate_of(source))
        return {domain: Ingress(domain, members) for domain, members in sorted(gates.items())}

    def _make(self, unit: Unit) -> Any:
        if unit.loop:
            return self._loop(unit)
        node = self.plan.node(unit.nodes[0])
        if isinstance(node, Stateless):
            nodes = [one for i in unit.nodes if isinstance(one := self.plan.node(i), Stateless)]
            return ChainUnit(self.setting, nodes, self._builder.chain(unit))
        if isinstance(node, Keyed):
            return self._keyed(node)
        if isinstance(node, BuiltIn):
            return BuiltInUnit(self.setting, node)
        if isinstance(node, Coroutine):
            return CoroutineUnit(self.setting, node)
        simple: dict[type, Callable[..., Any]] = {
            Batches: BatchesUnit,
            Union: UnionUnit,
            OrderBy: OrderByUnit,
            MapAsync: AsyncUnit,
        }
        make = simple.get(type(node))
        return make(self.setting, node) if make else None

    def _loop(self, unit: Unit) -> LoopUnit:
        members = {
            # Within a loop there is nobody to share a keyed operator's pieces with.
            index: UnitsEngine._keyed(self, node)
            if isinstance(node := self.plan.node(index), Keyed)
            else self._make(Unit((index,), unit.stage))
            for index in unit.nodes
        }
        return LoopUnit(self.setting, unit, members, branched=self.branched, nothing=self._nothing)

    def _nothing(self, ref: Ref, edge: Edge) -> Chunk:
        """A stream without rows, as the reader at an edge sees it."""
        return Chunk.empty(stream_schema(self.plan, ref), self.edge_columns(ref, edge))

    def _keyed(self, node: Keyed) -> KeyedUnit:
        """A keyed operator, in one piece."""
        return KeyedUnit(self.setting, node, [self._builder.keyed(node)], self._builder.key(node))


def works_without_rows(plan: Plan, unit: Unit) -> bool:
    """Whether a unit without rows may have something to do: timers, rows that wait, the end of its inputs."""
    node = plan.node(unit.nodes[0])
    return (
        unit.loop
        or isinstance(node, (OrderBy, Coroutine))
        or (isinstance(node, Keyed) and node.on_timer is not None)
    )
