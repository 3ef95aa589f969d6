"""Where state is under one routing table: the state unit of each key, and the slot that owns the unit."""

from __future__ import annotations

import dataclasses

import numpy as np

from thalweg.columns.state_units import StateUnits
from thalweg.flow.operators.feedback import loops_of
from thalweg.flow.operators.nodes import Coroutine, Keyed, Node, OrderBy, Reader, Sink, Source
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


class SlotRoutes:
    """Where the keys and the operators of a flow are.

    Args:
        plan: the flow's.
        slots: how many there are.
        table: which keys go where; None: each slot owns an equal run of buckets.
        spreads: whether operators with one state are spread over the slots; else they are in slot 0, which is there
            whatever the number of slots.
    """

    def __init__(
        self, plan: Plan, slots: int, table: RoutingTable | None = None, *, spreads: bool = False
    ) -> None:
        self.slots = slots
        self._table = table
        self._spreads = spreads
        self._homes = routed_by(plan)
        self._nodes = {
            node.name: node for node in plan.nodes if isinstance(node, Keyed | Coroutine)
        }
        #: of what runs in a loop of feedback, the first operator of it: all of them are in one slot
        self._loops = {index: loop[0] for loop in loops_of(plan.nodes) for index in loop}
        self._routes: dict[str, Route] = {}

    def __getitem__(self, operator: str) -> Route:
        """Of an operator with state."""
        if operator not in self._routes:
            self._routes[operator] = self._made(operator)
        return self._routes[operator]

    def _made(self, operator: str) -> Route:
        node, home = self._nodes[operator], self._homes.get(operator)
        buckets = node.key.buckets if node.key.fields else 1
        if home is None:
            return Route(StateUnits.of_buckets(buckets), np.full(buckets, self.slot_of(node)))
        if self._table is None:
            owners = np.arange(buckets) * self.slots // buckets
            return Route(StateUnits.of_buckets(buckets), owners)
        pins = self._table.operators[home]
        units = StateUnits.pinning(len(pins.buckets), len(self._table.groups), pins.pinned)
        return Route(units, self._table.owners(home))

    def slot_of(self, node: Node) -> int | None:
        """The slot of a node that runs in one; None of one that runs in all."""
        if node.index in self._loops:
            return self._spread(self._loops[node.index])
        is_one = isinstance(node, OrderBy | Coroutine)
        is_one = is_one or (isinstance(node, Keyed) and node.name not in self._homes)
        is_one = is_one or (isinstance(node, Sink) and node.ordered)
        return self._spread(node.index) if is_one else None

    def _spread(self, index: int) -> int:
        return index % self.slots if self._spreads else 0


def leaves_one_slot(plan: Plan, index: int) -> bool:
    """Whether all that an operator puts out comes from one slot, where it stands in its order: nobody need merge it.

    What is read and ordered first comes from the task that does so; an operator with one state is in one slot, and
    what has no state is where its rows are.
    """
    node = plan.node(index)
    if isinstance(node, Keyed | Coroutine):
        return node.name not in routed_by(plan)
    if isinstance(node, Source | OrderBy):
        return True
    return isinstance(node, Reader) and leaves_one_slot(plan, node.inputs[0].node)
