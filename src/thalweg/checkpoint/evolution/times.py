"""Where a source begins that joins others which are underway: what they have passed is late."""

from __future__ import annotations

from typing import Any

from thalweg.checkpoint.evolution.renaming import GATES
from thalweg.checkpoint.record import CommitRecord
from thalweg.flow.operators.nodes import Node, OrderBy, Source
from thalweg.plan.plan import Plan
from thalweg.times import BEFORE_ALL


def floor_of(plan: Plan, node: Node, record: CommitRecord | None) -> int | None:
    """The least time that a row of a new source may have; None where it has a time of its own, or nothing has passed.

    Args:
        plan: of the flow.
        node: the source, or another node of its time.
        record: the newest, under the flow's names.
    """
    domain = plan.domains[node.index - 1]
    facts = {} if record is None else record.extra.get(GATES, {})
    if not domain or (isinstance(node, Source) and not node.sorts):
        return None
    others = [
        facts[other.name].get("released", BEFORE_ALL)
        for other in plan.nodes
        if isinstance(other, (Source, OrderBy))
        and other.name in facts
        and plan.domains[other.index - 1] == domain
    ]
    passed = max(others, default=BEFORE_ALL)
    return None if passed == BEFORE_ALL else passed + 1


def new_gate(node: Source, floor: int) -> dict[str, Any] | None:
    """The scalars of a gate before its first row, whose earlier rows are late; None where its lanes are not known."""
    top = floor + node.lateness
    lanes: list[list[Any]] = []
    if node.keeps_lanes:
        if not isinstance(node.lanes, tuple):
            return None
        lanes = [[lane, top] for lane in node.lanes]
    elif node.lane is None:
        lanes = [[None, top]]
    return {"lanes": lanes, "arrived": 0, "passed": floor, "arrivals": []}
