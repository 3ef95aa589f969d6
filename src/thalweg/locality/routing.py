"""Routing tables: which slot each key of each keyed operator goes to (Caneill et al., 3.3 and 3.4).

A *state unit* is what one slot owns and writes: a bucket, or a *pin group*. A key that the table names is pinned to a
group and out of its bucket; every other key goes by its bucket, hence by its hash. Groups and buckets are given to
slots. Groups are common to all operators, so keys that were brought together stay together when a group moves; and
another number of slots gives groups and buckets other owners and touches no pin.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence, Set
from typing import Final

import numpy as np

from thalweg.brief import brief_repr, counted
from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Keyed, Node
from thalweg.hashing import Int64s, UInt64s, bucket_of
from thalweg.locality.assignment import Assignment, Report
from thalweg.locality.key_hash import KeyTypes, canonical_key, hash_key, require_hashable
from thalweg.locality.sharing import shared, spread
from thalweg.locality.statistics import Key, OperatorKey
from thalweg.plan.plan import Plan

#: Pin groups for each slot of the largest number of slots that a checkpoint is expected to have.
GROUPS_A_SLOT: Final = 4


@brief_repr
@dataclasses.dataclass(frozen=True)
class Routes:
    """Where the keys of one operator go.

    Attributes:
        types: of the key's fields.
        buckets: by bucket, the slot that owns it.
        pins: by pinned key, its group. Keys are canonical.

    Raises:
        SchemaError: keys of these types have no stable hash.
        BuildError: a pinned key has other types.
    """

    types: KeyTypes
    buckets: tuple[int, ...]
    pins: Mapping[Key, int] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def _hashes(self) -> dict[Key, int]:
        return {key: hash_key(self.types, key) for key in self.pins}

    @functools.cached_property
    def pinned(self) -> dict[int, int]:
        """By stable hash, the group of each pinned key; keys of one hash go together."""
        return {self._hashes[key]: group for key, group in self.pins.items()}

    @functools.cached_property
    def _sorted(self) -> tuple[UInt64s, Int64s]:
        """The hashes of pinned keys, ascending, with their groups."""
        found = sorted(self.pinned.items())
        hashes = np.array([one for one, _ in found], np.uint64)
        return hashes, np.array([group for _, group in found], np.int64)

    def units_of(self, hashes: UInt64s) -> Int64s:
        """The state unit of each hash: its bucket, or the number of buckets plus its pin group."""
        units = bucket_of(hashes, len(self.buckets))
        known, groups = self._sorted
        if len(known):
            places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            is_pinned = known[places] == hashes
            units[is_pinned] = len(self.buckets) + groups[places[is_pinned]]
        return units

    def unit_of(self, key: Key) -> int:
        """The state unit of a canonical key."""
        hashed = self._hashes.get(key)
        if hashed is not None:
            return len(self.buckets) + self.pinned[hashed]
        return int(self.units_of(np.array([hash_key(self.types, key)], np.uint64))[0])


@brief_repr
@dataclasses.dataclass(frozen=True)
class RoutingTable:
    """Where every key of a flow goes while one epoch holds.

    Attributes:
        epoch: counts the tables of a checkpoint, from 0.
        slots: how many there are.
        groups: by pin group, the slot that owns it.
        operators: by name of the keyed operators.

    Raises:
        BuildError: there are more slots than any operator has buckets, or an owner or a group that does not exist.
    """

    epoch: int
    slots: int
    groups: tuple[int, ...]
    operators: Mapping[str, Routes]

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise BuildError(f"a routing table has one slot or more, got {self.slots}")
        self._require_slots("the pin groups", self.groups)
        for name, routes in self.operators.items():
            require_hashable(routes.types, name)
            self._require_slots(f"the buckets of operator {name!r}", routes.buckets)
            self._require_pins(name, routes)
        _require_work(self.slots, {name: len(r.buckets) for name, r in self.operators.items()})

    def _require_slots(self, what: str, owners: Sequence[int]) -> None:
        wrong = [slot for slot in owners if not 0 <= slot < self.slots]
        if wrong:
            raise BuildError(f"{what} belong to slots 0 to {self.slots - 1}, got {wrong[0]}")

    def _require_pins(self, name: str, routes: Routes) -> None:
        for key, group in routes.pins.items():
            if not 0 <= group < len(self.groups):
                raise BuildError(
                    f"operator {name!r}: the key {key!r} is in pin group {group} of {len(self.groups)}"
                )
            try:
                canonical_key(routes.types, key)
            except TypeError as error:
                raise BuildError(
                    f"operator {name!r}: the pinned key {key!r:.60}: {error}"
                ) from None

    @classmethod
    def hashed(
        cls, operators: Mapping[str, tuple[KeyTypes, int]], slots: int, *, groups: int | None = None
    ) -> RoutingTable:
        """The table of plain hash routing: no key is pinned, each slot owns an equal run of buckets.

        Args:
            operators: key types and number of buckets, by name; see :func:`keyed_operators`.
            slots: how many.
            groups: how many pin groups there will be; None: four a slot.
        """
        _require_work(slots, {name: buckets for name, (_, buckets) in operators.items()})
        count = GROUPS_A_SLOT * slots if groups is None else groups
        routes = {
            name: Routes(types, tuple(spread(buckets, slots)))
            for name, (types, buckets) in operators.items()
        }
        return cls(0, slots, tuple(spread(count, slots)), routes)

    # -- where keys go -------------------------------------------------------------------------------------

    @functools.cached_property
    def _owners(self) -> dict[str, Int64s]:
        return {
            name: np.array([*routes.buckets, *self.groups], np.int64)
            for name, routes in self.operators.items()
        }

    def owners(self, operator: str) -> Int64s:
        """The slot of each state unit of an operator: its buckets, then the pin groups."""
        return self._owners[operator]

    def owned(self, operator: str, slot: int) -> list[int]:
        """The state units of an operator that a slot owns."""
        units: list[int] = np.flatnonzero(self.owners(operator) == slot).tolist()
        return units

    def units_of(self, operator: str, hashes: UInt64s) -> Int64s:
        """The state unit of each key, told by stable hash."""
        return self.operators[operator].units_of(hashes)

    def slots_of(self, operator: str, hashes: UInt64s) -> Int64s:
        """The slot of each key, told by stable hash."""
        slots: Int64s = self.owners(operator)[self.units_of(operator, hashes)]
        return slots

    def unit_of(self, operator: str, key: Key) -> int:
        """The state unit of a key as users see it."""
        routes = self.operators[operator]
        return routes.unit_of(canonical_key(routes.types, key))

    def slot_of(self, operator: str, key: Key) -> int:
        """The slot of a key as users see it."""
        return int(self.owners(operator)[self.unit_of(operator, key)])

    def assignment(self) -> Assignment:
        """Where keys and buckets are, as :func:`thalweg.locality.partition` takes it; made from no statistics."""
        keys = {
            (name, key): self.groups[group]
            for name, routes in self.operators.items()
            for key, group in routes.pins.items()
        }
        buckets = {name: routes.buckets for name, routes in self.operators.items()}
        return Assignment(self.slots, keys, buckets, Report(1.0, {}, math.inf))

    # -- the next table ------------------------------------------------------------------------------------

    def assigned(self, assignment: Assignment, *, epoch: int | None = None) -> RoutingTable:
        """The table that follows this one, by an assignment of keys and buckets to its slots.

        A pinned key stays in its group if that is where it is to be; else it goes to the group of that slot with the
        fewest keys, in the assignment's order. Operators that the assignment does not know stay as they are.

        Raises:
            BuildError: the assignment is for another number of slots or buckets, or pins to a slot without a group.
        """
        if assignment.parts != self.slots:
            raise BuildError(
                f"an assignment to {counted(assignment.parts, 'part')} for {counted(self.slots, 'slot')}"
            )
        pins = self._pins(assignment)
        operators = {
            name: dataclasses.replace(
                routes,
                buckets=tuple(assignment.buckets[name]),
                pins=pins.get(name, {}),
            )
            if name in assignment.buckets
            else routes
            for name, routes in self.operators.items()
        }
        self._require_buckets({name: len(one.buckets) for name, one in operators.items()})
        return dataclasses.replace(
            self, epoch=self.epoch + 1 if epoch is None else epoch, operators=operators
        )

    def _pins(self, assignment: Assignment) -> dict[str, dict[Key, int]]:
        stay: dict[str, dict[Key, int]] = {}
        move: dict[OperatorKey, int] = {}
        for (name, key), slot in assignment.keys.items():
            routes = self._routes(name)
            key = canonical_key(routes.types, key)
            group = routes.pins.get(key)
            if group is not None and self.groups[group] == slot:
                stay.setdefault(name, {})[key] = group
            else:
                move[name, key] = slot
        return self._grouped(stay, move)

    def _grouped(
        self, pins: dict[str, dict[Key, int]], added: Mapping[OperatorKey, int]
    ) -> dict[str, dict[Key, int]]:
        """The pins with further keys, each in that group of its slot that has the fewest."""
        used = [0] * len(self.groups)
        for group in (group for mine in pins.values() for group in mine.values()):
            used[group] += 1
        mine = [[g for g, owner in enumerate(self.groups) if owner == s] for s in range(self.slots)]
        for (name, key), slot in added.items():
            if not mine[slot]:
                raise BuildError(f"slot {slot} owns none of the {len(self.groups)} pin groups")
            group = min(mine[slot], key=used.__getitem__)
            pins.setdefault(name, {})[key] = group
            used[group] += 1
        return pins

    def placed(
        self,
        keys: Mapping[OperatorKey, int],
        *,
        freed: Set[OperatorKey] = frozenset(),
        epoch: int | None = None,
    ) -> RoutingTable:
        """The table with newly seen keys pinned.

        No state moves: the caller knows that none of these keys has any.

        Args:
            keys: the slot of each.
            freed: keys that are no longer pinned.
            epoch: of the new table; None: the next one.
        """
        pins = {
            name: {key: group for key, group in routes.pins.items() if (name, key) not in freed}
            for name, routes in self.operators.items()
        }
        new = {(n, canonical_key(self._routes(n).types, k)): slot for (n, k), slot in keys.items()}
        pins = self._grouped(pins, new)
        operators = {
            name: dataclasses.replace(routes, pins=pins[name])
            for name, routes in self.operators.items()
        }
        return dataclasses.replace(
            self, epoch=self.epoch + 1 if epoch is None else epoch, operators=operators
        )

    def rescaled(self, slots: int, *, epoch: int | None = None) -> RoutingTable:
        """The table for another number of slots: other owners of buckets and groups, as few moved as possible.

        Pinned keys stay in their groups. Slots that are new and find no pin group get new ones.

        Raises:
            BuildError: no operator has as many buckets.
        """
        # A new group belongs to the first new slot, from which the others take.
        groups = (*self.groups, *(self.slots for _ in range(slots - len(self.groups))))
        operators = {
            name: dataclasses.replace(
                routes, buckets=tuple(shared(routes.buckets, self.slots, slots))
            )
            for name, routes in self.operators.items()
        }
        return RoutingTable(
            self.epoch + 1 if epoch is None else epoch,
            slots,
            tuple(shared(groups, self.slots, slots)),
            operators,
        )

    # -- checks --------------------------------------------------------------------------------------------

    def require(self, operators: Mapping[str, tuple[KeyTypes, int]], slots: int) -> None:
        """Raises unless the table is for these operators and slots.

        Raises:
            BuildError: it is for another number of slots, or the flow's operators, key types or buckets are others.
        """
        if slots != self.slots:
            raise BuildError(
                f"the routing table is for {counted(self.slots, 'slot')}, and {slots} are asked for: start with"
                f" slots={self.slots}, or make the table for {slots}"
            )
        missing, unknown = (
            operators.keys() - self.operators.keys(),
            self.operators.keys() - operators.keys(),
        )
        if missing or unknown:
            raise BuildError(
                "the routing table is for another flow: it knows the operators"
                f" {', '.join(sorted(self.operators)) or 'none'}, the flow has {', '.join(sorted(operators)) or 'none'}"
            )
        for name, (types, _) in operators.items():
            if types != self.operators[name].types:
                raise BuildError(
                    f"operator {name!r}: the routing table has keys of {type_names(self.operators[name].types)}, the"
                    f" flow of {type_names(types)}"
                )
        self._require_buckets({name: buckets for name, (_, buckets) in operators.items()})

    def _require_buckets(self, buckets: Mapping[str, int]) -> None:
        for name, count in buckets.items():
            mine = len(self._routes(name).buckets)
            if count != mine:
                raise BuildError(
                    f"operator {name!r}: {counted(count, 'bucket')}, but its routing table has {mine}; the number of"
                    " buckets never changes"
                )

    def _routes(self, name: str) -> Routes:
        if name not in self.operators:
            known = ", ".join(sorted(self.operators)) or "none"
            raise BuildError(f"no keyed operator {name!r} in the routing table, which has {known}")
        return self.operators[name]


def type_names(types: KeyTypes) -> str:
    """Key types as the user writes them."""
    return ", ".join(map(str, types)) or "no fields"


def keyed_operators(plan: Plan) -> dict[str, tuple[KeyTypes, int]]:
    """The operators of a plan that are routed by key: the types of their keys, and how many buckets they have."""
    routed = routed_by(plan)
    return {
        node.name: (tuple(field.type for field in node.key.fields), node.key.buckets)
        for node in plan.keyed
        if routed.get(node.name) == node.name
    }


def routed_by(plan: Plan) -> dict[str, str]:
    """The operator whose routes each keyed operator's keys follow.

    Most often itself; but an operator whose tuples were just brought to its key's slot, to be put in order there, has
    its state where they are. One inside a feedback loop is where the loop is, and not among these.
    """
    found: dict[str, str] = {}
    for node in plan.keyed:
        if node.key.fields:
            home: Node = node
            before = plan.node(node.input.node)
            while plan.stage(before.index) == plan.stage(node.index):
                home, before = before, plan.node(before.inputs[0].node)
            if isinstance(home, Keyed) and home.key.fields:
                found[node.name] = home.name
    return found


def _require_work(slots: int, buckets: Mapping[str, int]) -> None:
    """Refuses slots that no operator has a bucket for."""
    most = max(buckets, key=buckets.__getitem__, default=None)
    if most is not None and slots > buckets[most]:
        raise BuildError(
            f"{counted(slots, 'slot')}, but operator {most!r} has {counted(buckets[most], 'bucket')}, and no other"
            f" one has more: a slot without a bucket has nothing to do; take {counted(buckets[most], 'slot')} or fewer"
        )
