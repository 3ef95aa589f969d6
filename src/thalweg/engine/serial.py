"""The engine of one slot: a plan's units run a step at a time, in one thread (threading model ``manual``).

A *step* is a piece of the input in stream order with the watermarks behind it; it passes through all units in
topological order, so every operator sees its tuples, timers and punctuations in the order of the serial run.
A host that runs several slots gives each engine one stage of the plan and carries chunks between them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from typing import Any

from thalweg.columns.chunks import Chunk
from thalweg.engine.base import UnitsEngine, works_without_rows
from thalweg.engine.contract import Leaving
from thalweg.engine.units import (
    Given,
    Moment,
)
from thalweg.flow.operators.nodes import (
    Node,
    Ref,
    Sink,
    Source,
)
from thalweg.plan.plan import Edge
from thalweg.stats import OperatorProgress


class SerialEngine(UnitsEngine):
    """Runs a step through all units before it returns.

    The streams that leave come back by edge.
    """

    @functools.cached_property
    def busy(self) -> dict[int, tuple[int, int]]:
        """By a unit's first node the time that it took, ns, and for how many rows, since the engine was made."""
        return {}

    @property
    def beside(self) -> None:
        """Nothing: all is done in the caller's thread."""

    def step(
        self,
        given: Given,
        watermarks: Mapping[int, int],
        *,
        ending: frozenset[int] = frozenset(),
        round: int = 0,
        arriving: Mapping[Edge, Chunk] | None = None,
    ) -> Leaving:
        """Runs all units once; see :meth:`thalweg.engine.contract.Engine.step`."""
        streams, arriving = dict(given), arriving or {}
        moment = Moment(dict(watermarks), ending, round)
        self.moment = moment
        for node, runner, inputs_of, always in self._runners:
            if not always and not any(
                ref in streams or edge in arriving for ref, edge in inputs_of
            ):
                continue
            inputs = [self._input(streams, arriving, ref, edge) for ref, edge in inputs_of]
            if always or any(map(len, inputs)):
                began = time.perf_counter_ns()
                streams.update(runner.run(inputs, moment))
                ns, rows = self.busy.get(node, (0, 0))
                ns += time.perf_counter_ns() - began
                self.busy[node] = ns, rows + sum(map(len, inputs))
        return self._leaving(streams)

    @functools.cached_property
    def _runners(self) -> list[tuple[int, Any, list[tuple[Ref, Edge]], bool]]:
        """Units by their first node, with what they read and whether they run without rows; no sources and sinks."""
        return [
            (
                unit.nodes[0],
                runner,
                list(self.plan.inputs_of(unit.nodes)),
                works_without_rows(self.plan, unit),
            )
            for unit, runner in self.units
            if not isinstance(self.plan.node(unit.nodes[0]), (Sink, Source))
        ]

    def operators(self) -> list[OperatorProgress]:
        """What each operator has done; the first one of a fused chain has the time of all."""
        found = []
        for unit, runner in self.units:
            for node in map(self.plan.node, unit.nodes):
                if runner is None:
                    continue
                counts = self.counts.get(node.name, {})
                rows_in, rows_out = counts.get("in", 0), counts.get("out", 0)
                ns, timed = self.busy.get(node.index, (0, 0))
                found.append(
                    OperatorProgress(
                        name=node.name,
                        kind=node.kind.value,
                        rows_in=rows_in,
                        rows_out=rows_out,
                        late=counts.get("late", 0),
                        rejected=counts.get("rejected", 0),
                        busy_ns=ns if node.index == unit.nodes[0] else None,
                        cost_ns=ns / timed if timed else None,
                        selectivity=rows_out / rows_in if rows_in else 1.0,
                        queue_rows=self._waiting_at(node),
                    )
                )
        return found

    def _waiting_at(self, node: Node) -> int:
        """How many rows wait at a coroutine operator's inputs."""
        mine = (unit for unit in self.coroutines if unit.node.name == node.name)
        return sum(sum(unit.waiting().values()) for unit in mine)

    def settle(self) -> Iterator[Leaving]:
        """Nothing is on its way."""
        yield from ()

    def _input(self, streams: Given, arriving: Mapping[Edge, Chunk], ref: Ref, edge: Edge) -> Chunk:
        if edge in arriving:
            return arriving[edge]
        chunk = streams.get(ref)
        return self._nothing(ref, edge) if chunk is None else self.branched(chunk, ref, edge)

    def _leaving(self, streams: Given) -> Leaving:
        out: Leaving = {}
        for ref, chunk in streams.items():
            for edge in self.plan.readers.get(ref, ()):
                node = self.plan.node(edge.node)
                gone = self.stage is not None and self.plan.stage(edge.node) > self.stage
                if len(chunk) and (gone or isinstance(node, Sink)):
                    if isinstance(node, Sink):
                        self.setting.count(node.label, **{"in": len(chunk)})
                    out.setdefault(edge, []).append(self.branched(chunk, ref, edge))
        return out
