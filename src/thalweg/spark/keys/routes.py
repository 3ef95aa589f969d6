"""Where the keys of a flow are: which state unit each is in, and which slot owns the unit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from thalweg.columns.state_units import StateUnits
from thalweg.flow.operators.nodes import Coroutine, Keyed, Node
from thalweg.hashing import Int64s, UInt64s
from thalweg.locality.routing import RoutingTable, routed_by
from thalweg.plan.plan import Plan


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The state units of an operator and their owners.

    Attributes:
        units: buckets, and groups of pinned keys.
        owners: by unit, the slot that owns it.
    """

    units: StateUnits
    owners: Int64s

    def slots(self, hashes: UInt64s) -> Int64s:
        """The slot that each of these keys goes to, by their hashes."""
        return self.owners[self.units.of(hashes)]

    def owned(self, slot: int) -> list[int]:
        """The units of a slot."""
        found: list[int] = np.flatnonzero(self.owners == slot).tolist()
        return found


#: By operator, of those with state.
Routes: TypeAlias = Mapping[str, Route]


def hash_routes(plan: Plan, slots: int) -> Routes:
    """Routes without a table: equal contiguous shares of the buckets."""
    found = {}
    for node in plan.nodes:
        if isinstance(node, Keyed) and node.key.fields:
            owners = np.arange(node.key.buckets) * slots // node.key.buckets
            found[node.name] = Route(StateUnits.of_buckets(node.key.buckets), owners)
        elif isinstance(node, (Keyed, Coroutine)):
            found[node.name] = Route(StateUnits.of_buckets(1), np.array([node_slot(node, slots)]))
    return found


def table_routes(plan: Plan, table: RoutingTable) -> Routes:
    """Routes by a table, for its number of slots."""
    found = dict(hash_routes(plan, table.slots))
    for name, home in routed_by(plan).items():
        routes = table.operators[home]
        units = StateUnits.pinning(len(routes.buckets), len(table.groups), routes.pinned)
        found[name] = Route(units, table.owners(home))
    return found


def node_slot(node: Node, slots: int) -> int:
    """The slot of a stateful operator (or order_by), spread by its index."""
    return node.index % slots
