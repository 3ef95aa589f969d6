"""A flow that takes rows by hand and shows outputs and state in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa

from thalweg.brief import brief, brief_repr
from thalweg.checks import is_int_from, known_keywords_of, refuse, require_instance, require_rows
from thalweg.columns.chunks import Chunk, Column
from thalweg.columns.keys import KeySpec
from thalweg.connectors import BadRow, as_source, never
from thalweg.embedded import collect
from thalweg.engine.build import prepare
from thalweg.engine.contract import CHUNK_ROWS, Leaving
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.serial import SerialEngine
from thalweg.errors import BuildError
from thalweg.flow.flow import Flow
from thalweg.flow.operators.arguments import choice
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.nodes import (
    Coroutine,
    Keyed,
    Node,
    Source,
    Stateless,
)
from thalweg.plan.plan import Plan, make_plan
from thalweg.times import BEFORE_ALL
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.options import Options

Mode = Literal["auto", "never"]


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class CheckedResult:
    """The outputs, counts and state of a checked run.

    Attributes:
        sinks: rows by sink name, in the order of the flow.
        states: by the name of a keyed operator, the state of each key that is left.
        counts: by operator, the numbers of rows in, out, late, rejected, and of timers disarmed at the end;
            only those that are not zero.
    """

    sinks: dict[str, list[Any]]
    states: dict[str, dict[Any, Any]]
    counts: dict[str, dict[str, int]]

    def rows(self, sink: str) -> list[Any]:
        """A sink's rows as records of the flow's classes."""
        found: list[Any] = named(self.sinks, sink, "sink")
        return found


@known_keywords_of
class Session:
    """Runs a flow by hand, with a manual clock, for unit tests.

    Rows of a source with ``order_by`` wait until :meth:`advance`; others run through at once.

    Example::

        >>> import thalweg as tw
        >>> from typing import NamedTuple
        >>> class Click(NamedTuple):
        ...     ts: tw.Timestamp
        ...     user: int
        >>> flow = tw.Flow("visits")
        >>> clicks = flow.source("clicks", Click, order_by="ts")
        >>> clicks.key_by("user").sessions("1 minute", pages=tw.agg.count()).sink("visits")
        >>> session = tw.testing.Session(flow)
        >>> session.push("clicks", Click(0, 7), Click(tw.seconds(5), 7))
        >>> session.advance()
        >>> session.state("sessions", 7).pages_
        2
        >>> session.rows("visits")
        []
        >>> session.tick(tw.minutes(2))
        >>> session.rows("visits")
        [Session(user=7, start=0, end=5000000, pages=2)]
    """

    def __init__(
        self,
        flow: Flow,
        *,
        chunk_rows: int | None = CHUNK_ROWS,
        compile: Mode = "auto",
        options: Options | None = None,
        restart_every: int = 0,
    ) -> None:
        if chunk_rows is not None:
            require_rows("testing", chunk_rows=chunk_rows)
        if not is_int_from(restart_every, 0):
            raise refuse("testing", "restart_every", "a whole number from 0 on", restart_every)
        if options is not None:
            require_instance("testing", Options, "Options", options=options)
        self.plan = _plan(flow, compile)
        self._chunk_rows = chunk_rows or CHUNK_ROWS
        prepared = prepare(self.plan)
        self._engine = (
            SerialEngine(prepared, chunk_rows=self._chunk_rows)
            if options is None
            else ParallelEngine(prepared, chunk_rows=chunk_rows, options=options)
        )
        for unit in self._engine.coroutines:
            unit.restart_every = restart_every
        self._out: dict[str, list[Chunk]] = {sink.name: [] for sink in self.plan.sinks}
        self._taken = dict.fromkeys(self._out, 0)
        self._fed = {source.name: 0 for source in self.plan.sources}
        self._ended = False
        #: what was decided of idle sources and lanes: by :meth:`decide`, and since their rows came again
        self.decisions: list[IdleDecision] = []

    @property
    def by_key(self) -> Mapping[str, KeyedUnit]:
        """The operators that have a state for each key."""
        return self._engine.by_key

    def push(self, source: str, *rows: Any) -> None:
        """Gives rows to a source, in arrival order."""
        self._feed(source, rows)

    def feed(self, source: str, data: Any) -> None:
        """Gives many rows (a list or a pyarrow table) to a source, and releases what the clock allows."""
        self._feed(source, data, advance=True)

    def advance(self) -> None:
        """Releases the rows that the clocks have passed, and fires the timers that are due."""
        self._collect(self._engine.advance())

    def tick(self, time: int) -> None:
        """Moves the clock as if a row at ``time`` had arrived in every lane, and advances."""
        for gate in self._engine.gates.values():
            if isinstance(gate.node, Source) and gate.node.sorts:
                gate.tick(time)
        self.advance()

    def decide(self, source: str, lane: Any = None, *, time: int | None = None) -> None:
        """Declares a source, or a lane of it, idle, and advances; it has ``idle=`` (docs/idle.md).

        Args:
            source: its name.
            lane: one of its lanes; None where it has none.
            time: how far it is taken to be, which counts where all are idle: of a Timestamp, what the clock would have
                made of the last row's time. None: the greatest time of its rows.
        """
        named({one.name: one for one in self.plan.sources if one.idle}, source, "source with idle=")
        gate = self._engine.gates[source]
        reached = gate.lanes.get(lane, BEFORE_ALL) if time is None else time
        decision = IdleDecision(source, lane, "idle", reached, gate.arrived)
        self.decisions.append(decision)
        self._engine.decide(decision)
        self.advance()

    def end(self) -> None:
        """Ends all streams: waiting rows are released, the remaining timers fire once."""
        if not self._ended:
            self._collect(self._engine.finish())
        self._ended = True

    def close(self) -> None:
        """Stops the session's threads, if it has any."""
        self._engine.stop()

    def rows(self, sink: str) -> list[Any]:
        """All rows of a sink so far."""
        self._collect(self._engine.settle())
        chunks = named(self._out, sink, "sink")
        return [row for chunk in chunks for row in chunk.schema.shown(chunk.rows())]

    def take(self, sink: str) -> list[Any]:
        """The rows of a sink since the last take."""
        rows = self.rows(sink)[self._taken[sink] :]
        self._taken[sink] += len(rows)
        return rows

    def state(self, operator: str, key: Any = ()) -> Any | None:
        """The state of a key, or of an operator without key; None where there is no state."""
        return self.states(operator).get(key)

    def states(self, operator: str) -> dict[Any, Any]:
        """The states of a keyed or stateful operator by key: bare for one key field, else a tuple."""
        self._collect(self._engine.settle())
        return _states(named(self._engine.keyed, operator, "keyed operator"))

    def result(self) -> CheckedResult:
        """Everything so far."""
        self._collect(self._engine.settle())
        return CheckedResult(
            {name: self.rows(name) for name in self._out},
            {name: self.states(name) for name in self._engine.keyed},
            without_zeros(self._engine.counts),
        )

    def __repr__(self) -> str:
        rows = {name: sum(map(len, chunks)) for name, chunks in self._out.items()}
        return f"<Session of flow {self.plan.flow!r}, rows at its sinks: {brief(rows)}>"

    def _feed(self, source: str, data: Any, *, advance: bool = False) -> None:
        node = named({one.name: one for one in self.plan.sources}, source, "source")
        if self._ended:
            raise BuildError(f"source {source!r}: the streams have ended; start a new Session")
        first = self._fed[source]
        for chunk, bad in as_source(source, data).rows(node, self._chunk_rows, never()):
            self._fed[source] += len(chunk) + len(bad)
            leaving = self._engine.feed(source, chunk, _shifted(bad, first))
            self.decisions += self._engine.woken
            self._engine.woken.clear()
            collect(self.plan, leaving, self._out)
            if advance:
                self.advance()

    def _collect(self, leaving: Iterator[Leaving]) -> None:
        for one in leaving:
            collect(self.plan, one, self._out)


def _shifted(bad: list[BadRow], first: int) -> list[BadRow]:
    """Rows that did not fit, those of lists and tables (``row 3``) counted from the first row ever fed."""
    return [
        (reason, f"row {first + int(place[4:])}" if place.startswith("row ") else place, text)
        for reason, place, text in bad
    ]


def _plan(flow: Flow, compile: Mode) -> Plan:
    """The flow's plan; with ``"never"`` nothing in it is compiled."""
    choice("compile", compile, ("auto", "never"), "testing")
    require_instance("testing", Flow, "a tw.Flow", flow=flow)
    plan = make_plan(flow)
    if compile != "never":
        return plan
    return dataclasses.replace(plan, nodes=tuple(map(not_compiled, plan.nodes)))


def not_compiled(node: Node) -> Node:
    """The node with no function of it compiled."""
    if isinstance(node, (Keyed, Stateless)):
        return dataclasses.replace(node, compile="never")
    return node


def named(found: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise BuildError(f"there is no {what} {name!r}; there are: {known}")
    return found[name]


def _states(unit: Any) -> dict[Any, Any]:
    """The states in a keyed unit's tables, whatever their form: through the form they have on disk."""
    snapshots = [unit.tables[bucket].snapshot() for bucket in sorted(unit.tables)]
    return states_of(unit.node, snapshots)


def states_of(node: Keyed | Coroutine, batches: Iterable[pa.RecordBatch]) -> dict[Any, Any]:
    """The states by key that Arrow batches of key fields and state fields hold, as state files have them."""
    out: dict[Any, Any] = {}
    spec, state = KeySpec(node.key.fields), node.state
    for batch in batches:
        fields = [*spec.fields, *state.schema.fields]
        columns = [Column.from_arrow(f.type, batch.column(i)) for i, f in enumerate(fields)]
        keys = spec.python_keys(columns[: len(spec.fields)], batch.num_rows)
        values = [column.to_python() for column in columns[len(spec.fields) :]]
        for place, key in enumerate(keys):
            out[key] = state.restore([one[place] for one in values])
    return out


def without_zeros(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    kept = {name: {what: n for what, n in mine.items() if n} for name, mine in counts.items()}
    return {name: mine for name, mine in kept.items() if mine}
