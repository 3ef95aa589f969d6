"""Counts of what the operators of a flow have done."""

from __future__ import annotations

from typing import Final

from thalweg.stats import OperatorProgress
from thalweg.workers.contract import FlowEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.worker_loop.views import tuples_waiting

_KINDS: Final = {at.STATELESS: "stateless", at.KEYED: "keyed", at.STATEFUL: "stateful"}


def operator_progress(engine: FlowEngine) -> list[OperatorProgress]:
    """What each operator has done, and how it stands; the ends of streams are not among them."""
    mem, found = engine.mem, []
    totals = at.counts_of(mem).sum(axis=0)[engine.source :]
    for index, task in enumerate(engine.tasks):
        if not index or task.leaves:
            continue
        mine = totals[index]
        timed, ns = int(mine[at.S_TIMED]), int(mine[at.S_NS])
        rows_in, rows_out = int(mine[at.S_IN]), int(mine[at.S_OUT])
        counts = engine.counts.get(task.spec.name, {})
        found.append(
            OperatorProgress(
                name=task.spec.name,
                kind=_KINDS[task.spec.kind],
                rows_in=rows_in,
                rows_out=rows_out,
                rejected=counts.get("rejected", 0),
                late=counts.get("late", 0),
                units=int(mine[at.S_UNITS]),
                busy_ns=int(mine[at.S_BUSY]),
                cost_ns=ns / timed if timed else None,
                selectivity=rows_out / rows_in if rows_in else 1.0,
                workers=int(mem[engine.op_at(index) + at.BUSY]),
                queue_rows=int(tuples_waiting(mem, engine.source + index)),
                held_ns=mine[at.S_HELD] / mine[at.S_SENT] if mine[at.S_SENT] else None,
            )
        )
    return found
