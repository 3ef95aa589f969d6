"""The snapshot of a simulation: what other hosts say of a flow, in virtual time."""

from __future__ import annotations

from thalweg.simulate.graph import Graph
from thalweg.simulate.result import Simulated, SimulatedOperator
from thalweg.snapshot import PolicyRound, SinkProgress, Snapshot, SourceProgress, StreamEdge
from thalweg.stats import OperatorProgress


def simulated_snapshot(graph: Graph, run: Simulated, threads: int, policy: str) -> Snapshot:
    """The snapshot of a run up to now; rates and shares are of the whole run.

    Args:
        graph: what is simulated.
        run: what came of it so far.
        threads: how many there are now.
        policy: its name.
    """
    kinds = {one.name: one.kind for one in graph.operators}
    sinks = tuple(
        SinkProgress(name=one.name, rows=run.grain * len(one.left_ns), latency=one.latency)
        for one in run.sinks
    )
    return Snapshot(
        host="simulator",
        rows_in=run.rows_in,
        seconds=run.seconds,
        rows_per_s=run.throughput,
        latency={one.name: one.latency for one in sinks if one.latency is not None},
        operators=tuple(_operator(one, kinds[one.name], run.seconds) for one in run.operators),
        edges=tuple(
            StreamEdge(giver=giver, port="out", reader=one.name)
            for one in graph.operators
            for giver in one.reads
        ),
        sources=tuple(
            SourceProgress(
                name=one.name,
                rows_in=one.arrived,
                rows_out=one.arrived - one.backlog,
                rows_per_s=one.arrived / run.seconds if run.seconds else 0.0,
                waiting_rows=one.backlog,
            )
            for one in run.sources
        ),
        sinks=sinks,
        threads=threads,
        policy=PolicyRound(policy=policy, rounds=run.decisions),
    )


def _operator(one: SimulatedOperator, kind: str, seconds: float) -> OperatorProgress:
    return OperatorProgress(
        name=one.name,
        kind=kind,
        rows_in=one.rows_in,
        rows_out=one.rows_out,
        units=one.visits,
        busy_ns=one.busy_ns,
        cost_ns=one.busy_ns / one.rows_in if one.rows_in else None,
        selectivity=one.rows_out / one.rows_in if one.rows_in else 1.0,
        queue_rows=one.waiting,
        rows_per_s=one.rows_in / seconds if seconds else 0.0,
        busy=one.busy_ns * 1e-9 / seconds if seconds else 0.0,
    )
