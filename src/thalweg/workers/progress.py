"""Counts of what the operators of a flow have done."""

from __future__ import annotations

from collections.abc import Iterator

from thalweg.stats import OperatorProgress
from thalweg.workers.contract import FlowEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.riding import Rider
from thalweg.workers.worker_loop.views import tuples_waiting


def operator_progress(engine: FlowEngine) -> list[OperatorProgress]:
    """What each operator has done, and how it stands; the ends of streams are not among them."""
    totals, found = at.counts_of(engine.mem).sum(axis=0)[engine.source :], []
    for index, task in enumerate(engine.tasks):
        if index and not task.leaves:
            found.append(_of_leader(engine, index, totals[index]))
        found += _of_riders(engine, task.riders)
    return found


def _of_leader(engine: FlowEngine, index: int, mine: at.Int64s) -> OperatorProgress:
    mem, task = engine.mem, engine.tasks[index]
    timed, ns = int(mine[at.S_TIMED]), int(mine[at.S_NS])
    rows_in, rows_out = int(mine[at.S_IN]), int(mine[at.S_OUT])
    counts = engine.counts.get(task.spec.name, {})
    if task.riders:
        # What leaves its calls is what its riders give.
        rows_out = counts.get("out", 0)
    return OperatorProgress(
        name=task.spec.name,
        kind=task.kind,
        rows_in=rows_in,
        rows_out=rows_out,
        rejected=counts.get("rejected", 0),
        late=counts.get("late", 0),
        units=int(mine[at.S_UNITS]),
        busy_ns=int(mine[at.S_BUSY]) - sum(rider.busy_ns for rider in task.riders),
        cost_ns=ns / timed if timed else None,
        selectivity=rows_out / rows_in if rows_in else 1.0,
        workers=int(mem[engine.op_at(index) + at.BUSY]),
        queue_rows=int(tuples_waiting(mem, engine.source + index)),
        held_ns=mine[at.S_HELD] / mine[at.S_SENT] if mine[at.S_SENT] else None,
    )


def _of_riders(engine: FlowEngine, riders: list[Rider]) -> Iterator[OperatorProgress]:
    for rider in riders:
        if rider.call is None:
            continue
        counts = engine.counts.get(rider.name, {})
        rows_in = engine.counts.get(rider.first, {}).get("in", 0)
        rows_out = counts.get("out", 0)
        yield OperatorProgress(
            name=rider.name,
            kind=rider.kind,
            rows_in=rows_in,
            rows_out=rows_out,
            rejected=counts.get("rejected", 0),
            late=counts.get("late", 0),
            busy_ns=rider.busy_ns,
            cost_ns=rider.busy_ns / rows_in if rows_in else None,
            selectivity=rows_out / rows_in if rows_in else 1.0,
        )
