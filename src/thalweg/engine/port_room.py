"""The number of rows at the inputs of coroutine operators in an embedded run, and which sources wait when one is full.

C-Stream puts limited buffers on input ports, and who writes to a full one waits (Sahin & Gedik, section 3.2.2). Here
rows come in the order of the flow, so it is sources that wait: a live source without event time, while an input that it
feeds is full and the operator waits for another input, which other sources feed and some still may. All other rows must
come on, since what the operator waits for comes behind them, or from the same source: the network would stand still
though its operators could go on. Then the input grows (Parks, "Bounded scheduling of process networks", 1995), and so
does the smallest full one when all sources wait for each other. Growing is counted and logged by name; ``max_waiting``
makes it an error.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from thalweg.engine.coroutines.frame import Growth
from thalweg.engine.coroutines.unit import CoroutineUnit
from thalweg.flow.operators.nodes import Coroutine, Source
from thalweg.plan.plan import Plan

_LOG: Final = logging.getLogger("thalweg")


class PortRoom:
    """The room at the inputs of one operator.

    Attributes:
        capacity: rows that each input may hold; those that are on their way when it is full still come.
        growths: the inputs that had to grow, in order.
    """

    def __init__(self, node: Coroutine, plan: Plan, rooms: PortRooms) -> None:
        self._node = node
        self._rooms = rooms
        self.capacity = [node.capacity] * len(node.in_ports)
        self.growths: list[Growth] = []
        #: by input, the sources that it comes from; control inputs are exempt
        self._from = [
            frozenset(one.index for one in plan.upstream(port.ref) if isinstance(one, Source))
            if not (port.control or port.feedback)
            else frozenset[int]()
            for port in node.in_ports
        ]

    def is_held(self, place: int, lengths: Sequence[int], missing: Sequence[int]) -> bool:
        """Whether the sources of an input are to wait.

        Args:
            place: the input.
            lengths: by input, how many rows it holds.
            missing: the inputs that the operator waits for; none while it runs.
        """
        if lengths[place] < self.capacity[place] or not missing:
            return False
        mine, still_open = self._from[place], self._rooms.open
        return (
            bool(mine)
            and mine <= self._rooms.holdable
            and all(
                self._from[other] & still_open and not self._from[other] & mine for other in missing
            )
        )

    def holds_back(self, source: int, lengths: Sequence[int], missing: Sequence[int]) -> str:
        """The name of a full input for which a source is to wait, "" without one."""
        for place, mine in enumerate(self._from):
            if source in mine and self.is_held(place, lengths, missing):
                return self._node.in_ports[place].name
        return ""

    def arrived(self, place: int, lengths: Sequence[int], missing: Sequence[int]) -> bool:
        """Looks at an input that has got a row; whether it had to grow, since nobody may wait for it."""
        if not self._from[place] or lengths[place] <= self.capacity[place]:
            return False
        if self.is_held(place, lengths, missing):
            return False
        self.grow(place, lengths[place], missing)
        return True

    def grow(self, place: int, rows: int, missing: Sequence[int]) -> None:
        """Doubles an input, until it has room for so many rows."""
        while self.capacity[place] < rows:
            self.capacity[place] *= 2
        name = self._node.in_ports[place].name
        self.growths.append(Growth(name, self.capacity[place]))
        waits = " and ".join(self._node.in_ports[other].name for other in missing) or "nothing"
        _LOG.info(
            "operator %r: input %r grows to %d rows; it waits for %s",
            self._node.name, name, self.capacity[place], waits,
        )  # fmt: skip

    def full(self, lengths: Sequence[int], missing: Sequence[int]) -> list[int]:
        """The inputs whose sources wait."""
        return [place for place in range(len(lengths)) if self.is_held(place, lengths, missing)]


class PortRooms:
    """The room at the inputs of all coroutine operators of an engine.

    Attributes:
        open: the sources that have not ended.
        holdable: those that can be made to wait: live, and without event time.

    Args:
        units: the operators; each gets its room.
        plan: of the flow.
        live: by source name, whether its rows come when they come.
    """

    def __init__(
        self, units: Sequence[CoroutineUnit], plan: Plan, live: Mapping[str, bool]
    ) -> None:
        self.open: frozenset[int] = frozenset(
            source.index for source in plan.sources if source.name in live
        )
        self.holdable: frozenset[int] = frozenset(
            source.index for source in plan.sources if live.get(source.name) and not source.sorts
        )
        self._units = units
        for unit in units:
            unit.room = PortRoom(unit.node, plan, self)

    def end(self, source: int) -> None:
        """A source has ended."""
        self.open -= {source}

    def holds_back(self, source: int) -> str:
        """Why a source is to wait: ``input 'a' of operator 'pairs' is full``; "" when it need not."""
        for unit in self._units:
            if name := unit.holds_back(source):
                return f"input {name!r} of operator {unit.node.name!r} is full"
        return ""

    def grow_smallest(self) -> None:
        """All sources wait for each other: the smallest full input grows."""
        held = [
            (unit.room.capacity[place], number, place)
            for number, unit in enumerate(self._units)
            if unit.room is not None
            for place in unit.held_inputs()
        ]
        if held:
            _, number, place = min(held)
            self._units[number].grow(place)
