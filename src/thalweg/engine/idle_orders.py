"""Decides when an order_by inside a flow is idle: no row has come to it, and none waits to be read in front of it.

An order_by sees rows, not inputs. So it is silent from its last row up to the last look that found nothing more to read
of all the live sources that it reads, as :mod:`thalweg.engine.watermarks.idle_clock` has it for one source. Pure:
times are arguments.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping

from thalweg.engine.watermarks.idle_clock import SILENCE_SHARE, STEP_S
from thalweg.engine.watermarks.ingress import Gate
from thalweg.errors import BuildError
from thalweg.flow.operators.idle import IdleDecision
from thalweg.flow.operators.nodes import OrderBy, Source
from thalweg.plan.plan import Plan
from thalweg.times import BEFORE_ALL, EXTREME


@dataclasses.dataclass(slots=True)
class OrderSilence:
    """What is known of an order_by: how many rows had come, since when no more have, when time was last moved."""

    arrived: int
    since_s: float
    moved_s: float


class IdleOrders:
    """The silence of all order_by of a flow that may be idle.

    Args:
        plan: the flow's.
        live: the sources whose rows come as they come.
        now_s: when the run begins, by any clock that only goes on.
    """

    def __init__(self, plan: Plan, live: Collection[str], now_s: float) -> None:
        self._sources = {
            node: tuple(name for name in sources_of(plan, node) if name in live)
            for node in plan.nodes
            if isinstance(node, OrderBy) and node.idle is not None
        }
        self._looked_s = {name: now_s for names in self._sources.values() for name in names}
        self._began_s = now_s
        self._silence: dict[str, OrderSilence] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to decide."""
        return bool(self._looked_s)

    @property
    def names(self) -> list[str]:
        """The sources in front of them."""
        return list(self._looked_s)

    @property
    def step_s(self) -> float:
        """How often it is worth asking, seconds."""
        return min(map(_step_s, self._sources), default=STEP_S[1])

    def looked(self, source: str, now_s: float) -> None:
        """There is nothing more to read of a source now."""
        if source in self._looked_s:
            self._looked_s[source] = max(now_s, self._looked_s[source])

    def decide(self, gates: Mapping[str, Gate], now_s: float) -> list[IdleDecision]:
        """What follows from the silence so far; with no row on its way it is to be taken.

        Args:
            gates: those of the flow; one whose source has ended holds nothing back.
            now_s: the time by the clock.
        """
        found = []
        for node, names in self._sources.items():
            looks = [self._looked_s[name] for name in names if not gates[name].closed]
            gate = gates[node.name]
            silence = self._of(gate, now_s)
            if not looks or not gate.lanes:
                continue
            decision = self._decided(node, gate, silence, min(looks))
            found += [decision] if decision else []
        return found

    def taken(self, decision: IdleDecision, now_s: float) -> None:
        """Time was moved by a decision."""
        self._silence[decision.source].moved_s = now_s

    def _decided(
        self, node: OrderBy, gate: Gate, silence: OrderSilence, looked_s: float
    ) -> IdleDecision | None:
        silent_s = looked_s - silence.since_s
        step_s = max(_step_s(node), silent_s / SILENCE_SHARE) if gate.idle else 0.0
        if silent_s * 1e6 < (node.idle or 0) or looked_s - silence.moved_s < step_s:
            return None
        top = max(gate.lanes.values())
        time = min(top + round(silent_s * 1e6), EXTREME)
        if top == BEFORE_ALL or time <= gate.idle.get(None, BEFORE_ALL):
            return None
        return IdleDecision(node.name, None, "idle", time, gate.arrived)

    def _of(self, gate: Gate, now_s: float) -> OrderSilence:
        """Of one without rows in this run: silent since its beginning."""
        name = gate.node.name
        known = self._silence.get(name)
        if known is None:
            known = self._silence[name] = OrderSilence(gate.arrived, self._began_s, self._began_s)
        elif known.arrived != gate.arrived:
            known.arrived, known.since_s = gate.arrived, now_s
        return known


def _step_s(node: OrderBy) -> float:
    return min(max((node.idle or 0) / 4e6, STEP_S[0]), STEP_S[1])


def sources_of(plan: Plan, node: OrderBy) -> list[str]:
    """The sources that an operator reads, through others."""
    upstream = itertools.chain.from_iterable(map(plan.upstream, node.inputs))
    return list(dict.fromkeys(one.name for one in upstream if isinstance(one, Source)))


def refuse_between_slots(plan: Plan, where: str) -> None:
    """Refuses ``idle=`` of an order_by where stages run in slots: none of them knows that no row is on its way.

    Raises:
        BuildError: naming the operator.
    """
    for node in plan.nodes:
        if isinstance(node, OrderBy) and node.idle is not None:
            raise BuildError(
                f"{where}: operator {node.name!r} has idle=, which one process without slots can decide; read rows by"
                " a source with order_by= and idle=, or leave idle= of the operator out"
            )
