"""What the operators of a flow have done in all its slots, taken together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from thalweg.engine.serial import SerialEngine
from thalweg.engine.units import Counts
from thalweg.slots.messages import Instance
from thalweg.slots.stage_slot import StageSlot
from thalweg.stats import OperatorProgress


def progress_of(
    places: Mapping[Instance, StageSlot], depth: int, totals: Counts
) -> Iterator[OperatorProgress]:
    """What each operator has done that runs in slots.

    Args:
        places: the stages in all slots that ever took part; it may grow meanwhile.
        depth: stages of the plan.
        totals: the counts of all slots.
    """
    for stage in range(1, depth):
        engines = [place.engine for at, place in list(places.items()) if at.stage == stage]
        for one in places[Instance(stage, 0)].engine.operators():
            counts = totals.get(one.name, {})
            rows_in, rows_out = counts.get("in", 0), counts.get("out", 0)
            ns, timed = _busy_of(engines, one.name)
            yield dataclasses.replace(
                one, busy_ns=None if one.busy_ns is None else ns, cost_ns=ns / timed if timed else None,
                rows_in=rows_in, rows_out=rows_out, late=counts.get("late", 0), rejected=counts.get("rejected", 0),
                selectivity=rows_out / rows_in if rows_in else 1.0,
            )  # fmt: skip


def _busy_of(engines: list[SerialEngine], name: str) -> tuple[int, int]:
    """Time in an operator in all slots, ns, and for how many rows."""
    found = [
        busy
        for engine in engines
        for node, busy in list(engine.busy.items())
        if engine.plan.node(node).name == name
    ]
    return sum(ns for ns, _ in found), sum(rows for _, rows in found)
