"""Inboxes between operators: bounded, with back-pressure, and what any change of theirs makes others look at.

A tuple is an int, its *key*: when it entered the flow and how many entered at that moment before it. Keys are the
order of the flow, and what an operator puts out for a tuple carries its key.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from thalweg.simulate.graph import Operator
from thalweg.simulate.hardware import SLOTS, Line

_TIE_BITS: Final = 24


def born_ns(key: int) -> int:
    """When a tuple entered the flow: its clock time, ns."""
    return key >> _TIE_BITS


class PortReader(Protocol):
    """What reads an inbox: a node (:mod:`thalweg.simulate.nodes`).

    Attributes:
        net: what all nodes share.
        operator: as the graph has it.
        index: its place in a view; the first operator is 1.
        empty: the inboxes without tuples, by place.
        waiting, most_waiting: tuples in its inboxes, now and at most.
    """

    net: Network
    operator: Operator
    index: int
    empty: dict[int, None]
    waiting: int
    most_waiting: int

    def head_came(self, port: Port) -> None:
        """An inbox has a first tuple."""

    def head_left(self, port: Port) -> None:
        """An inbox has lost its first tuple."""


class Network:
    """What all nodes share: the time, the keys given so far, and the count of waiting tuples.

    Attributes:
        now_ns: virtual time.
        queued: tuples in all inboxes.
        changed: nodes whose figures have changed since the last look; so may have whether they can run.
        touched: nodes of which only the latter may have changed.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.queued = 0
        self.changed: set[Any] = set()
        self.touched: set[Any] = set()
        self.last_key = -1

    def new_key(self) -> int:
        """The key of a tuple that enters now."""
        self.last_key = max(self.last_key + 1, self.now_ns << _TIE_BITS)
        return self.last_key


class Port:
    """An input port: the inbox in front of an operator, filled by one feeder, or by several as they come.

    Attributes:
        place: its number among those of the reader; merges: whether there are others, which are merged by order.
        full_ns: for how long it was full, up to when it was last found not to be.
        full_since_ns: since when it is full; -1 while it is not.
        line: what those who use it share.
    """

    __slots__ = (
        "came_ns", "capacity", "feeders", "full_ns", "full_since_ns", "line", "merges", "nodes", "place", "queue",
        "reader", "sum_came_ns",
    )  # fmt: skip

    def __init__(
        self, reader: PortReader, feeders: list[Feeder], nodes: Sequence[Any], place: int = 0, *, merges: bool = False
    ) -> None:  # fmt: skip
        """``nodes`` are those of the feeders that are operators."""
        capacity = reader.operator.capacity
        self.place = place
        self.merges = merges
        if merges:
            reader.empty[place] = None
        self.queue: deque[int] = deque()
        #: When each tuple of the queue came, and the sum of these times.
        self.came_ns: deque[int] = deque()
        self.sum_came_ns = 0
        self.reader = reader
        self.feeders = feeders
        self.nodes = nodes
        self.capacity = sys.maxsize if capacity is None else capacity
        self.full_ns = 0
        self.full_since_ns = -1
        alone = len(feeders) == 1 and reader.operator.kind == "stateful"
        self.line = Line(slots=SLOTS if alone else 1)

    def congested_ns(self) -> int:
        """For how long it was full so far."""
        now = self.reader.net.now_ns
        return self.full_ns + (now - self.full_since_ns if self.full_since_ns >= 0 else 0)

    def push(self, key: int) -> None:
        """Adds a tuple, whether there is room or not."""
        queue = self.queue
        queue.append(key)
        reader = self.reader
        if self.merges and len(queue) == 1:
            reader.head_came(self)
        if len(queue) == self.capacity:
            self.full_since_ns = reader.net.now_ns
            for feeder in self.feeders:
                feeder.full += 1
        reader.waiting += 1
        if reader.waiting > reader.most_waiting:
            reader.most_waiting = reader.waiting
        net = reader.net
        self.came_ns.append(net.now_ns)
        self.sum_came_ns += net.now_ns
        net.queued += 1
        net.changed.add(reader)

    def pop(self) -> int:
        """Takes the first tuple; where that makes room, feeders go on."""
        queue = self.queue
        key = queue.popleft()
        self.sum_came_ns -= self.came_ns.popleft()
        if self.merges:
            self.reader.head_left(self)
        if len(queue) + 1 == self.capacity:
            self.full_ns = self.congested_ns()
            self.full_since_ns = -1
            for feeder in self.feeders:
                feeder.full -= 1
            for feeder in self.feeders:
                if feeder.out or feeder.watchers or feeder.saturated:
                    feeder.flush()
            self.reader.net.touched.update(self.nodes)
        return key


class Feeder:
    """Puts tuples into the inboxes of its readers, in order; they wait in ``out`` while one has no room.

    Attributes:
        full: how many of its readers' inboxes have no room.
        watchers: those behind it, however far, that merge by order and wait for a tuple that is here now.
        saturated: whether it has a tuple whenever there is room, as some sources do.
    """

    __slots__ = ("deals", "full", "net", "out", "ports", "saturated", "turn", "watchers")

    def __init__(self, net: Network, *, deals: bool, saturated: bool = False) -> None:
        self.net = net
        self.saturated = saturated
        self.out: deque[int] = deque()
        self.ports: list[Port] = []
        self.deals = deals
        self.turn = 0
        self.full = 0
        self.watchers: set[Any] = set()

    def has_room(self, key: int) -> bool:
        """Whether what comes of a tuple could be handed on: nothing waits in ``out``, and readers have room."""
        return not self.out and (not self.full or _accept(self.ports, key))

    def flush(self) -> None:
        """Hands on what waits as far as there is room.

        What comes of one tuple of a source counts as one, and goes over the capacity if need be. If it did not, a merge
        could wait for the second output of a tuple while the way there is full of the first.
        """
        out = self.out
        while out and self._next_has_room(out[0]):
            self._hand_on(out.popleft())
        if self.watchers:
            self.net.touched |= self.watchers
            self.watchers.clear()

    def _next_has_room(self, key: int) -> bool:
        if self.deals:
            return _accept(self.ports[self.turn : self.turn + 1], key)
        return not self.full or _accept(self.ports, key)

    def _hand_on(self, key: int) -> None:
        if self.deals:
            self.ports[self.turn].push(key)
            self.turn = (self.turn + 1) % len(self.ports)
        else:
            for port in self.ports:
                port.push(key)

    def first_held(self) -> int | None:
        """The first tuple that is here; None without any, or where only inboxes have some."""
        return self.out[0] if self.out else None

    def inboxes_before(self, key: int) -> Iterator[Port]:
        """Inboxes through which a tuple up to a key can still come, or in which it waits."""
        return iter(())


class SourceNode(Feeder):
    """A running source; ``out`` is its backlog.

    Attributes:
        arrived: tuples so far.
    """

    __slots__ = ("arrived", "name", "times")

    def __init__(self, net: Network, name: str, times: Iterator[int], *, saturated: bool) -> None:
        super().__init__(net, deals=False, saturated=saturated)
        self.name = name
        self.times = times
        self.arrived = 0

    def arrive(self) -> None:
        """A tuple enters now, or waits here."""
        self.out.append(self.net.new_key())
        self.arrived += 1
        self.flush()

    def flush(self) -> None:
        Feeder.flush(self)
        while self.saturated and self.ports and not self.full:
            self.arrived += 1
            self._hand_on(self.net.new_key())


def _accept(ports: list[Port], key: int) -> bool:
    """Whether all these have room, or have taken what came of the same tuple before."""
    for port in ports:  # A loop: all() takes twice the time, and this is asked very often.
        queue = port.queue
        if len(queue) >= port.capacity and queue[-1] != key:
            return False
    return True


def holder(port: Port, key: int) -> Feeder | None:
    """Who holds a tuple up to a key that may still come to an inbox, where none waits; None if there is none.

    Tuples pass in order, so whoever has a later one at hand has passed on all earlier ones. Sources give only later
    ones than there are.
    """
    seen: set[Feeder] = set()
    ahead = list(port.feeders)
    while ahead:
        feeder = ahead.pop()
        if feeder in seen:
            continue
        seen.add(feeder)
        held = feeder.first_held()
        if held is not None:
            if held <= key:
                return feeder
            continue
        for inbox in feeder.inboxes_before(key):
            if inbox.queue:
                return feeder
            ahead.extend(inbox.feeders)
    return None
