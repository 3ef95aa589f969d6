"""What changes hands between two routing tables: the lists that a reconfiguration sends (Caneill et al., 3.4).

Two things move. A *unit*, that is a bucket or a pin group, gets another owner with all its keys. A *key* gets another
unit: it is pinned, pinned elsewhere or no longer pinned. Both are independent: a key may stay in its slot and
still change its unit, which is written by whoever owns it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from thalweg.brief import brief_repr
from thalweg.errors import BuildError
from thalweg.locality.routing import Routes, RoutingTable
from thalweg.locality.statistics import Key


@dataclasses.dataclass(frozen=True, slots=True)
class KeyMove:
    """A key that moves to another state unit.

    Attributes:
        operator: its operator.
        key: the key.
        left, entered: the units that it leaves and enters.
        sender: the slot that owns the unit left, by the table before.
        receiver: the slot that owns the unit entered, by the table after.
    """

    operator: str
    key: Key
    left: int
    entered: int
    sender: int
    receiver: int


@dataclasses.dataclass(frozen=True, slots=True)
class UnitMove:
    """A state unit that gets another owner, with its keys before and after."""

    operator: str
    unit: int
    sender: int
    receiver: int


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Moves:
    """All keys and state units that change their owner, by operator in the order of the table."""

    keys: tuple[KeyMove, ...] = ()
    units: tuple[UnitMove, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys or self.units)

    @property
    def between_slots(self) -> int:
        """The number of moving keys that change their slot."""
        return sum(one.sender != one.receiver for one in self.keys)

    def message(self, router: RoutingTable, slot: int) -> Reconfiguration:
        """The message to a slot."""
        return Reconfiguration(
            router,
            Moves(
                tuple(one for one in self.keys if one.sender == slot),
                tuple(one for one in self.units if one.sender == slot),
            ),
            Moves(
                tuple(one for one in self.keys if one.receiver == slot),
                tuple(one for one in self.units if one.receiver == slot),
            ),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Reconfiguration:
    """The message to a slot (Caneill et al., 3.4).

    Attributes:
        router: the table that is to hold.
        send: what leaves the slot, and to whom; with the keys that only change their unit inside it.
        receive: what is to come, and from whom; likewise.
    """

    router: RoutingTable
    send: Moves
    receive: Moves


def moves_between(before: RoutingTable, after: RoutingTable) -> Moves:
    """The keys and state units that move when one table replaces another.

    Raises:
        BuildError: they are of different flows.
    """
    after.require(
        {name: (one.types, len(one.buckets)) for name, one in before.operators.items()}, after.slots
    )
    if len(after.groups) < len(before.groups):
        raise BuildError(f"{len(before.groups)} pin groups cannot become {len(after.groups)}")
    return Moves(tuple(_key_moves(before, after)), tuple(_unit_moves(before, after)))


def _key_moves(before: RoutingTable, after: RoutingTable) -> Iterator[KeyMove]:
    for name, old in before.operators.items():
        new = after.operators[name]
        senders, receivers = before.owners(name), after.owners(name)
        for key in changed_keys(old, new):
            left, entered = old.unit_of(key), new.unit_of(key)
            yield KeyMove(name, key, left, entered, int(senders[left]), int(receivers[entered]))


def changed_keys(before: Routes, after: Routes) -> list[Key]:
    """The keys that have another unit, those that were pinned first."""
    gone = [key for key, group in before.pins.items() if after.pins.get(key) != group]
    return gone + [key for key in after.pins if key not in before.pins]


def _unit_moves(before: RoutingTable, after: RoutingTable) -> Iterator[UnitMove]:
    for name in before.operators:
        pairs = zip(before.owners(name).tolist(), after.owners(name).tolist(), strict=False)
        for unit, (sender, receiver) in enumerate(pairs):
            if sender != receiver:
                yield UnitMove(name, unit, sender, receiver)
