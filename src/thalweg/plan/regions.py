"""Who runs each unit of a plan: a thread of its own, the workers, or the unit in front on which it rides.

Pure: from the regions of a flow (:mod:`thalweg.flow.regions`) and the threading of the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

from thalweg.flow.operators.nodes import Coroutine, Keyed, OrderBy, Ref, Sink, Source, Union
from thalweg.flow.regions import ThreadingModel
from thalweg.plan.plan import Edge, Plan
from thalweg.plan.units import Unit

#: Instead of a unit's first node: where steps enter.
INGRESS: Final = 0
#: Instead of one: it leads.
LEADS: Final = -1


@dataclasses.dataclass(frozen=True, slots=True)
class Riders:
    """Who leads and who rides.

    Attributes:
        leaders: by a unit's first node, the first node of the unit whose call runs it: its own, another's, or INGRESS.
        ends: by an edge to where a stream leaves the engine, the unit whose call runs what is there, or LEADS.
        has_riders: the leaders that others ride on.
        in_order: the leaders that run one step after the other for the sake of a rider.
        several: manual units that cannot ride, since their inputs come from several leaders.
    """

    leaders: Mapping[int, int]
    ends: Mapping[Edge, int]
    has_riders: frozenset[int]
    in_order: frozenset[int]
    several: frozenset[int]


def model_of(plan: Plan, index: int, default: ThreadingModel) -> ThreadingModel:
    """What was said of an operator, or else of the run."""
    region = plan.region_of(index)
    return default if region is None else region.model


def fallback(default: ThreadingModel) -> ThreadingModel:
    """How a manual unit runs that cannot ride: by workers, or where a run has none by a thread of its own."""
    return "dynamic" if default == "dynamic" else "dedicated"


def needs_order(plan: Plan, unit: Unit) -> bool:
    """Whether a unit must be run one step after the other."""
    node = plan.node(unit.nodes[0])
    return unit.loop or isinstance(node, (Keyed, OrderBy, Union, Coroutine))


def riders_of(
    plan: Plan, units: Sequence[Unit], stage: int | None, default: ThreadingModel
) -> Riders:
    """Who leads and who rides, of the units of an engine in topological order."""
    leaders: dict[int, int] = {}
    by_node: dict[int, int] = {}
    several: set[int] = set()
    ordered: set[int] = set()
    followed: set[int] = set()

    def leader_of(ref: Ref) -> int:
        return by_node.get(ref.node, INGRESS)

    for unit in units:
        first = unit.nodes[0]
        node = plan.node(first)
        if isinstance(node, (Sink, Source)):
            continue
        leader = first
        if model_of(plan, first, default) == "manual":
            found = {leader_of(ref) for ref, _ in plan.inputs_of(unit.nodes)}
            if len(found) == 1:
                (leader,) = found
                followed.add(leader)
                if needs_order(plan, unit):
                    ordered.add(leader)
            else:
                several.add(first)
        leaders[first] = leader
        by_node |= dict.fromkeys(unit.nodes, leader)
    ends = {
        edge: leader_of(ref) if end_model(plan, edge, default) == "manual" else LEADS
        for ref, edge in ends_of(plan, units, stage)
    }
    riding = {leader for leader in ends.values() if leader != LEADS}
    return Riders(
        leaders, ends, frozenset(followed | riding), frozenset(ordered | riding), frozenset(several)
    )


def end_model(plan: Plan, edge: Edge, default: ThreadingModel) -> ThreadingModel:
    """How what is at an edge by which a stream leaves is run: as its sink, or as the run where it goes on elsewhere."""
    is_sink = isinstance(plan.node(edge.node), Sink)
    return model_of(plan, edge.node, default) if is_sink else default


def ends_of(plan: Plan, units: Sequence[Unit], stage: int | None) -> list[tuple[Ref, Edge]]:
    """Where streams leave an engine: to sinks, and to readers in later stages."""
    mine = {index for unit in units for index in unit.nodes}
    return [
        (ref, edge)
        for ref, edges in plan.readers.items()
        for edge in edges
        if ref.node in mine
        and (
            isinstance(plan.node(edge.node), Sink)
            or (stage is not None and plan.stage(edge.node) > stage)
        )
    ]


def in_one_piece(plan: Plan, node: Keyed, riders: Riders, default: ThreadingModel) -> bool:
    """Whether a keyed operator has one thread at a time for all keys."""
    leads = riders.leaders.get(node.index) == node.index
    model = model_of(plan, node.index, default)
    alone = model == "dedicated" or (model == "manual" and fallback(default) == "dedicated")
    return not leads or alone or node.index in riders.in_order
