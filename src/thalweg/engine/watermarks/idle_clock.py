"""Decides when sources and lanes are idle. Pure: times are arguments; hosts tell what came, and when they looked.

A lane is silent from its last row up to the last *look* that found nothing more to read of its source. So time in which
nobody looked, since the flow was busy or a peer did not answer, is no silence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from thalweg.engine.watermarks.ingress import Gate
from thalweg.errors import BuildError
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import Plan
from thalweg.times import BEFORE_ALL, EXTREME

#: Where all sources are idle, time goes on in steps of a quarter of ``idle=``, seconds: at least and at most so long.
STEP_S: Final = (0.05, 1.0)
#: But in steps of a share of the silence so far, one in so many, where that is longer: a silence of a day is not a
#: thousand steps of which each may be a batch.
SILENCE_SHARE: Final = 16


@dataclasses.dataclass(slots=True)
class LaneSilence:
    """What is known of a lane: when its last row came, and from which time its own goes on."""

    since_s: float
    base: int


class IdleClock:
    """The silence of all sources of a flow that may be idle.

    Args:
        plan: the flow's.
        live: the sources whose rows come as they come; others are never idle.
        now_s: when the run begins, by any clock that only goes on; before that nobody has looked.
        least_step_s: of time where all are idle, seconds.
    """

    def __init__(
        self, plan: Plan, live: Collection[str], now_s: float, *, least_step_s: float = STEP_S[0]
    ) -> None:
        self._least_step_s = least_step_s
        self._plan = plan
        self._sources = [s for s in plan.sources if s.idle is not None and s.name in live]
        self._began_s = now_s
        self._looked_s = {source.name: now_s for source in self._sources}
        self._silence: dict[tuple[str, Any], LaneSilence] = {}
        self._stepped_s: dict[int, float] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to decide."""
        return bool(self._sources)

    @property
    def names(self) -> list[str]:
        """The sources that may be idle."""
        return [source.name for source in self._sources]

    @property
    def step_s(self) -> float:
        """How often it is worth asking, seconds."""
        return min((self._step_s(source) for source in self._sources), default=STEP_S[1])

    def came(self, gate: Gate, now_s: float) -> None:
        """Rows have come to the lanes that the gate has noted, which it forgets."""
        for lane in gate.came:
            self._silence[gate.node.name, lane] = LaneSilence(now_s, gate.lanes[lane])
        gate.came.clear()

    def looked(self, source: str, now_s: float) -> None:
        """There is nothing more to read of a source now."""
        if source in self._looked_s:
            self._looked_s[source] = max(now_s, self._looked_s[source])

    def decide(self, gates: Mapping[str, Gate]) -> list[IdleDecision]:
        """What follows from the silence so far, to be taken in this order."""
        found = [one for s in self._sources for one in self._pauses(s, gates[s.name])]
        idle = {(one.source, one.lane) for one in found}
        return found + list(self._steps(gates, idle))

    def _pauses(self, source: Source, gate: Gate) -> Iterator[IdleDecision]:
        """Lanes that are idle from now on."""
        for lane in _lanes_of(source, gate):
            silence_us = self._silent_us(source, gate, lane)
            if not gate.closed and lane not in gate.idle and silence_us >= (source.idle or 0):
                yield self._decision(source, gate, lane)

    def _steps(
        self, gates: Mapping[str, Gate], idle: set[tuple[str, Any]]
    ) -> Iterator[IdleDecision]:
        """Where all of a domain are idle, time goes on with the lane that is farthest."""
        for domain in sorted({self._plan.domains[s.index - 1] for s in self._sources}):
            members = [
                one
                for one in self._plan.sources
                if self._plan.domains[one.index - 1] == domain and not gates[one.name].closed
            ]
            lanes = [(s, lane) for s in members for lane in _lanes_of(s, gates[s.name])]
            if not all(
                lane in gates[s.name].idle or (s.name, lane) in idle for s, lane in lanes
            ) or not all(s.name in self._looked_s for s in members):
                self._stepped_s.pop(domain, None)
                continue
            yield from self._step(domain, lanes, gates, idle)

    def _step(
        self,
        domain: int,
        lanes: list[tuple[Source, Any]],
        gates: Mapping[str, Gate],
        idle: set[tuple[str, Any]],
    ) -> Iterator[IdleDecision]:
        now_s = max(self._looked_s[s.name] for s, _ in lanes)
        clocked = [one for one in lanes if one[0].is_clocked]
        if domain not in self._stepped_s:
            self._stepped_s[domain] = now_s
        if not clocked:
            return
        step_s = min(self._step_s(source) for source, _ in clocked)
        silent_s = min(self._silent_us(s, gates[s.name], lane) for s, lane in clocked) * 1e-6
        if now_s - self._stepped_s[domain] < max(step_s, silent_s / SILENCE_SHARE):
            return
        self._stepped_s[domain] = now_s
        made = [self._decision(s, gates[s.name], lane) for s, lane in clocked]
        by_name = {s.name: s for s, _ in clocked}
        farthest = max(made, key=lambda one: one.time - by_name[one.source].lateness)
        known = gates[farthest.source].idle.get(farthest.lane, BEFORE_ALL)
        if (farthest.source, farthest.lane) not in idle and farthest.time > known:
            yield farthest

    def _decision(self, source: Source, gate: Gate, lane: Any) -> IdleDecision:
        return IdleDecision(source.name, lane, "idle", self._time(source, gate, lane), gate.arrived)

    def _time(self, source: Source, gate: Gate, lane: Any) -> int:
        """How far a lane is taken to be: its time goes on with the clock since its last row, if it has a unit."""
        base = self._of(source, gate, lane).base
        if base == BEFORE_ALL or not source.is_clocked:
            return base
        return max(base, min(base + self._silent_us(source, gate, lane), EXTREME))

    def _silent_us(self, source: Source, gate: Gate, lane: Any) -> int:
        since_s = self._of(source, gate, lane).since_s
        return round((self._looked_s[source.name] - since_s) * 1e6)

    def _step_s(self, source: Source) -> float:
        return max(min((source.idle or 0) / 4e6, STEP_S[1]), self._least_step_s)

    def _of(self, source: Source, gate: Gate, lane: Any) -> LaneSilence:
        """Of a lane without rows in this run: silent since its beginning, from where the state has it."""
        known = self._silence.get((source.name, lane))
        if known is None:
            base = max(gate.lanes.get(lane, BEFORE_ALL), gate.idle.get(lane, BEFORE_ALL))
            known = self._silence[source.name, lane] = LaneSilence(self._began_s, base)
        return known


def _lanes_of(source: Source, gate: Gate) -> tuple[Any, ...]:
    """The lanes that may be idle; of a source whose lanes appear, before the first one, the source itself."""
    return gate.known_lanes or (None,) if source.lane is not None else (None,)


def refuse_useless(plan: Plan) -> None:
    """Refuses ``idle=`` where it could change nothing: time that is counted by an int does not run with a clock.

    Raises:
        BuildError: a source of that kind shares its watermark with no other, and has no lanes.
    """
    for source in plan.sources:
        domain = plan.domains[source.index - 1]
        alone = sum(plan.domains[other.index - 1] == domain for other in plan.sources) == 1
        if source.idle is not None and alone and source.lane is None and not source.is_clocked:
            raise BuildError(
                f"source {source.name!r}: idle= does nothing here: order_by={source.order_by!r} is an int, whose unit"
                " nobody says, so time cannot run on with the clock, and no other source or lane waits for it; make the"
                " field a tw.Timestamp, or leave idle= out"
            )
