"""Makes snapshots of an engine while it runs: reads counts that are kept anyway, from any thread, and stops nobody.

Rates and shares are of the time between two readings that lie at least a second apart, however often snapshots are
asked for: several readers do not shorten it for each other. Who wants to know what is back-pressured calls
:meth:`Meter.look` often; each snapshot is a look, too. What costs more than reading a number, the size of the state, is
measured so seldom that it takes at most a thousandth of the time.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from thalweg.checkpoint.state_tables.object_table import ObjectTable
from thalweg.checkpoint.state_tables.tables import BucketTable
from thalweg.engine.build import Prepared
from thalweg.engine.contract import Engine
from thalweg.engine.units import Counts
from thalweg.engine.watermarks.ingress import Gate, Ingress
from thalweg.flow.operators.built_in import BuiltIn
from thalweg.flow.operators.nodes import Coroutine, Node, OrderBy, Sink, Source, Union
from thalweg.plan.drawn import edges_of
from thalweg.plan.plan import Plan
from thalweg.snapshot import SinkProgress, Snapshot, SourceProgress, StateSize, StreamEdge
from thalweg.stats import FaultyRow, Latency, OperatorProgress
from thalweg.times import BEFORE_ALL, NEVER

T = TypeVar("T")

#: Rates are over at least so long, seconds.
WINDOW_S: Final = 1.0
#: The state is measured again after so many times of what that took.
_STATE_TIMES: Final = 1_000
#: How often something is read anew that another thread changes at the moment.
_TRIES: Final = 5


@dataclasses.dataclass(slots=True)
class _Reading:
    """What was counted at a moment: rows by node, and the time in an operator, ns."""

    at_ns: int
    rows: Mapping[str, int]
    busy_ns: Mapping[str, int]


class SourceGate(NamedTuple):
    """Where the time of a source stands."""

    gate: Gate
    ingress: Ingress


@dataclasses.dataclass(frozen=True, slots=True)
class EngineReading:
    """What an engine says of itself; the host adds the rest.

    Attributes:
        rows_in: of all sources, since the run began.
    """

    rows_in: int
    operators: tuple[OperatorProgress, ...]
    edges: tuple[StreamEdge, ...]
    sources: tuple[SourceProgress, ...]
    sinks: tuple[SinkProgress, ...]
    state: tuple[StateSize, ...]
    bad_rows: tuple[FaultyRow, ...]

    def snapshot(self, **more: Any) -> Snapshot:
        """The snapshot with what the host knows."""
        mine = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        seconds = more["seconds"]
        return Snapshot(**mine, rows_per_s=self.rows_in / max(seconds, 1e-9), **more)


class Meter:
    """Measures one engine; any thread may call it.

    Args:
        prepared: the flow.
        engine: what runs it.
    """

    def __init__(self, prepared: Prepared, engine: Engine) -> None:
        self._prepared, self._engine = prepared, engine
        self._plan = prepared.plan
        self._lock = threading.Lock()
        self._base = _Reading(time.monotonic_ns(), {}, {})
        self._start = self._base
        self._rates: tuple[Mapping[str, float], Mapping[str, float]] | None = None
        #: looks since the base, and by operator how many found it waiting for room; and the shares before that
        self._looks = 0
        self._pressed: dict[str, int] = {}
        self._shares: Mapping[str, float] | None = None
        self._state: tuple[StateSize, ...] = ()
        self._state_again_ns = 0

    def begin(self, totals: Counts | None = None) -> None:
        """The run begins now, with what was counted before it."""
        rows = {name: its.get("in", 0) for name, its in (totals or {}).items()}
        self._base = self._start = _Reading(time.monotonic_ns(), rows, {})
        self._rates = None

    def look(self) -> None:
        """Looks which operators wait for room."""
        pressed = self._engine.pressed()
        if pressed is None:
            return
        with self._lock:
            self._looks += 1
            for name in pressed:
                self._pressed[name] = self._pressed.get(name, 0) + 1

    def measured(
        self,
        totals: Counts | None = None,
        *,
        latency: Mapping[str, Latency] | None = None,
        idle: Sequence[str] = (),
        inputs: Mapping[str, tuple[Any, int | None]] | None = None,
        ended: bool = False,
    ) -> EngineReading:
        """What the engine does now.

        Args:
            totals: the counts; those of the engine by default.
            latency: by sink.
            idle: the sources for which others wait.
            inputs: by source, where reading goes on, and how many rows are behind that.
            ended: rates are of the whole run, and the state is let be: the engine may be gone.
        """
        engine, plan = self._engine, self._plan
        totals = again(engine.totals) if totals is None else totals
        found = {one.name: one for one in engine.operators()}
        busy = {name: one.busy_ns for name, one in found.items() if one.busy_ns is not None}
        if not ended:
            self.look()
        rates, shares, pressed = self._lately(totals, busy, ended)
        gates = {} if ended else gates_of(engine)
        return EngineReading(
            sum(
                totals.get(one.label, {}).get("in", 0) - self._start.rows.get(one.label, 0)
                for one in plan.sources
            ),
            operators_of(self._prepared, found, totals, rates, shares, pressed, engine.fallen),
            edges_of(plan),
            tuple(
                _source(one, totals, rates, gates.get(one.name), one.name in idle, inputs or {})
                for one in plan.sources
            ),
            sinks_of(plan, totals, latency or {}),
            self._state if ended else self._sizes(),
            engine.bad_rows(),
        )

    def _lately(
        self, totals: Counts, busy: Mapping[str, int], ended: bool
    ) -> tuple[Mapping[str, float], Mapping[str, float], Mapping[str, float] | None]:
        """Rows a second by node, worker time a second by operator, and shares of looks that found it waiting."""
        rows = {name: its.get("in", 0) for name, its in totals.items()}
        now = _Reading(time.monotonic_ns(), rows, busy)
        with self._lock:
            if ended:
                return *_rates(self._start, now), self._shares
            if self._rates is None or now.at_ns - self._base.at_ns >= WINDOW_S * 1e9:
                self._rates = _rates(self._base, now)
                if self._looks:
                    names = self._pressed.items()
                    self._shares = {name: count / self._looks for name, count in names}
                if now.at_ns - self._base.at_ns >= WINDOW_S * 1e9:
                    self._base, self._looks, self._pressed = now, 0, {}
                rates, self._rates = self._rates, self._rates if self._base is now else None
                return *rates, self._shares
            return *self._rates, self._shares

    def _sizes(self) -> tuple[StateSize, ...]:
        began = time.perf_counter_ns()
        if began >= self._state_again_ns:
            self._state = again(lambda: state_sizes(self._engine))
            took = time.perf_counter_ns() - began
            self._state_again_ns = began + took * _STATE_TIMES
        return self._state


def again(read: Callable[[], T]) -> T:
    """Reads what another thread may change meanwhile: a collection that grew under it is read anew."""
    for _ in range(_TRIES):
        try:
            return read()
        except (RuntimeError, KeyError):
            continue
    return read()


def _rates(base: _Reading, now: _Reading) -> tuple[Mapping[str, float], Mapping[str, float]]:
    ns = max(now.at_ns - base.at_ns, 1)
    rows = {n: max(count - base.rows.get(n, 0), 0) * 1e9 / ns for n, count in now.rows.items()}
    busy = {n: max(spent - base.busy_ns.get(n, 0), 0) / ns for n, spent in now.busy_ns.items()}
    return rows, busy


def gates_of(engine: Engine) -> dict[str, SourceGate]:
    """By source its gate, and the ingress of its time domain."""
    return {
        gate.node.name: SourceGate(gate, ingress)
        for ingress in engine.ingresses.values()
        for gate in ingress.gates.values()
    }


# -- from a plan and counts; other hosts call these, too ----------------------------------------------------------


def operators_of(
    prepared: Prepared,
    measured: Mapping[str, OperatorProgress],
    totals: Counts,
    rates: Mapping[str, float] | None,
    shares: Mapping[str, float],
    pressed: Mapping[str, float] | None,
    fallen: Mapping[int, str],
) -> tuple[OperatorProgress, ...]:
    """The operators of a plan with exact counts.

    Args:
        prepared: the plan.
        measured: by the name of a unit what its engine says; a keyed operator may be two, the first splits.
        totals: rows by node.
        rates: rows a second by node; None where nobody knows.
        shares: worker time a second by unit.
        pressed: by unit the share of looks that found it waiting for room; None where nobody looks.
        fallen: nodes that Python runs though the compiler was to, and why.
    """
    plan, out = prepared.plan, []
    for unit in plan.units:
        nodes = [plan.node(index) for index in unit.nodes]
        if isinstance(nodes[0], Source | Sink):
            continue
        names = [nodes[-1].name, f"{nodes[0].name} (split)", nodes[0].name]
        for number, node in enumerate(nodes):
            mine = names if not number else [] if not unit.loop else [node.name]
            its = totals.get(node.label, {})
            rows_in, rows_out = its.get("in", 0), its.get("out", 0)
            runs, reason = runner_of(prepared, node, fallen)
            parts = {name: measured[name] for name in dict.fromkeys(mine) if name in measured}
            told = parts.values()
            out.append(
                OperatorProgress(
                    name=node.name, kind=node.kind.value, rows_in=rows_in, rows_out=rows_out,
                    late=its.get("late", 0), rejected=its.get("rejected", 0),
                    units=max([one.units for one in told], default=0),
                    busy_ns=_sum([one.busy_ns for one in told]),
                    cost_ns=_sum([one.cost_ns for one in told]),
                    selectivity=rows_out / rows_in if rows_in else 1.0,
                    workers=_sum([one.workers for one in told]),
                    queue_rows=_sum([one.queue_rows for one in told]),
                    fused_with=nodes[0].name if number else "", runs=runs, reason=reason,
                    rows_per_s=None if rates is None else rates.get(node.label, 0.0),
                    busy=_sum([shares.get(name) for name in parts]),
                    back_pressured=None if pressed is None or not parts
                    else max([pressed.get(name, 0.0) for name in parts]),
                    held_ns=_sum([one.held_ns for one in told]),
                )
            )  # fmt: skip
    return tuple(out)


def _sum(values: Sequence[Any]) -> Any:
    known = [one for one in values if one is not None]
    return sum(known) if known else None


def runner_of(prepared: Prepared, node: Node, fallen: Mapping[int, str]) -> tuple[str | None, str]:
    """Who runs a node, and why Python does where it does."""
    if node.index in fallen:
        return "Python", fallen[node.index]
    if isinstance(node, Coroutine):
        return "Python", "it has its own driver loop"
    verdict = prepared.verdicts.get(node.index)
    if verdict is None:
        is_ours = isinstance(node, BuiltIn | Union | OrderBy)
        return ("built in", "") if is_ours else ("Python", "on Arrow batches")
    if not verdict.compiled:
        return "Python", verdict.reason
    return (
        ("machine code", "")
        if verdict.key_compiled
        else ("Python", f"its key: {verdict.key_reason}")
    )


def sinks_of(
    plan: Plan, totals: Counts, latency: Mapping[str, Latency]
) -> tuple[SinkProgress, ...]:
    """The sinks with their rows."""
    return tuple(
        SinkProgress(
            name=one.name,
            rows=totals.get(one.label, {}).get("in", 0),
            latency=latency.get(one.name),
        )
        for one in plan.sinks
    )


def known_time(watermark: int) -> int | None:
    """A watermark; None before the first row, and when the stream has ended."""
    return watermark if BEFORE_ALL < watermark < NEVER else None


def _source(
    node: Source,
    totals: Counts,
    rates: Mapping[str, float],
    gate: SourceGate | None,
    waited_for: bool,
    inputs: Mapping[str, tuple[Any, int | None]],
) -> SourceProgress:
    its = totals.get(node.label, {})
    position, lag = inputs.get(node.name, (None, None))
    return SourceProgress(
        name=node.name,
        rows_in=its.get("in", 0),
        rows_out=its.get("out", 0),
        late=its.get("late", 0),
        rejected=its.get("rejected", 0),
        rows_per_s=rates.get(node.label, 0.0),
        pauses=its.get("idle", 0),
        position=position,
        lag_rows=lag,
        **(
            {"holds": waited_for} if gate is None else again(lambda: _times(node, gate, waited_for))
        ),
    )


def _times(node: Source, source: SourceGate, waited_for: bool) -> dict[str, Any]:
    """How time stands at a source: its watermark, and who holds it or is idle."""
    if not node.sorts:
        return {"holds": waited_for}
    gate, ingress = source
    watermark, is_idle = gate.watermark, gate.is_idle
    held_by = gate.slowest if node.lane is not None else None
    return {
        "waiting_rows": gate.waiting_rows,
        "watermark": known_time(watermark),
        "holds": not (gate.closed or is_idle) and watermark == ingress.watermark,
        "held_by": None if held_by is None else str(held_by),
        "is_idle": is_idle,
        "idle_lanes": tuple(map(str, gate.idle)) if node.lane is not None else (),
    }


def state_sizes(engine: Engine) -> tuple[StateSize, ...]:
    """By operator the keys that have a state, and the bytes of their tables, as far as another thread may look."""
    return tuple(_size(name, tables) for name, tables in engine.held_tables().items())


def _size(name: str, tables: Sequence[Any]) -> StateSize:
    compiled = [one for one in tables if isinstance(one, BucketTable)]
    if len(compiled) == len(tables):
        slabs = {id(one.piece.slab): one.piece.slab.nbytes for one in compiled}
        return StateSize(
            operator=name, rows=sum(one.count for one in compiled), bytes=sum(slabs.values())
        )
    # The tables of a join put their rows into place when they are asked.
    is_plain = all(isinstance(one, ObjectTable) for one in tables)
    return StateSize(operator=name, rows=sum(map(len, tables)) if is_plain else None, bytes=None)
