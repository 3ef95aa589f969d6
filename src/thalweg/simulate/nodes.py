"""Operators while they are simulated: work is taken in order, done in any, and leaves in order.

What a tuple costs, and what comes of it, is settled by its place in the operator's input and not by when it is worked
on. So the output is the same under every policy and any number of threads, as in the node runtime.
"""

from __future__ import annotations

import math
import random
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Final

from thalweg.simulate.graph import KIND_CODES, Operator
from thalweg.simulate.network import Feeder, Network, Port, born_ns, holder

#: More workers than any run has.
UNLIMITED: Final = 1 << 30
#: Products of counts and selectivities are whole numbers within this.
_WHOLE: Final = 1e-9


class Unit:
    """A piece of work: tuples that follow each other in an operator's input, of one bucket if it is keyed."""

    __slots__ = ("bucket", "cost_ns", "done", "keys")

    def __init__(self, keys: list[int], cost_ns: int, bucket: int = 0) -> None:
        self.keys = keys
        self.cost_ns = cost_ns
        self.bucket = bucket
        self.done = False


class Node(Feeder):
    """A running operator, stateless or stateful.

    Attributes:
        index: its place in a view; the first operator is 1.
        inboxes: one a port; one for all ports where tuples are taken as they come.
        units: the reorder buffer: what was taken and has not left, in order (Prasaad et al., Fig. 4).
        waiting: tuples that nobody works on yet.
        workers: how many are in it.
        worked: tuples that were worked on; ``rows_in``: of these, those that have left the reorder buffer.
    """

    __slots__ = (
        "busy_ns", "cost_draws", "exits", "inboxes", "index", "key_draws", "kind", "last_run_ns", "limit",
        "most_waiting", "operator", "output_draws", "rows_in", "rows_out", "taken", "units", "visits", "waiting",
        "window_ns", "worked", "workers",
    )  # fmt: skip

    def __init__(self, net: Network, operator: Operator, index: int, seed: int) -> None:
        super().__init__(net, deals=operator.split == "deal")
        self.operator = operator
        self.kind = KIND_CODES[operator.kind]
        self.index = index
        # Draws of one kind do not depend on when those of another are made.
        self.cost_draws, self.output_draws, self.key_draws = (
            random.Random(f"{seed} {operator.name} {what}") for what in ("cost", "output", "key")
        )
        self.inboxes: list[Port] = []
        self.units: deque[Unit] = deque()
        self.limit = 1 if operator.kind == "stateful" else operator.limit or UNLIMITED
        self.waiting = self.most_waiting = self.workers = self.visits = 0
        self.taken = self.worked = self.rows_in = self.rows_out = 0
        self.busy_ns = self.window_ns = self.last_run_ns = 0
        #: Of a sink: when each tuple left and which it was, int64 ns and keys one after the other.
        self.exits = array("q")

    # -- input ---------------------------------------------------------------------------------------------------

    def next_inbox(self) -> Port | None:
        """Where the next tuple waits; None if none does, or an earlier one can still come at another port."""
        if len(self.inboxes) == 1:
            return self.inboxes[0] if self.inboxes[0].queue else None
        first = min((port for port in self.inboxes if port.queue), key=_head, default=None)
        if first is None:
            return None
        for port in self.inboxes:
            behind = None if port.queue else holder(port, first.queue[0])
            if behind is not None:
                behind.watchers.add(self)
                return None
        return first

    def next_key(self, previous: Unit | None = None) -> int | None:
        """The first tuple of the work that :meth:`take` would give; None without any."""
        if len(self.units) >= self.operator.window:
            return None
        port = self.next_inbox()
        return port.queue[0] if port else None

    def can_run(self) -> bool:
        """Whether a worker may come: fewer workers than the limit, input, and room for what comes of it."""
        return self.workers < self.limit and self._next_fits(None)

    def _next_fits(self, previous: Unit | None) -> bool:
        key = self.next_key(previous)
        return key is not None and self.has_room(key)

    def oldest_ns(self) -> int:
        """When the oldest tuple in the inboxes entered the flow, ns; -1 without any."""
        return born_ns(min((port.queue[0] for port in self.inboxes if port.queue), default=-1))

    def in_work(self) -> int:
        """Tuples that were begun but have not left the reorder buffer."""
        inboxes = sum(len(port.queue) for port in self.inboxes)
        taken = sum(len(unit.keys) for unit in self.units)
        return taken + inboxes - self.waiting

    def first_held(self) -> int | None:
        if self.out:
            return self.out[0]
        return self.units[0].keys[0] if self.units else None

    def inboxes_before(self, key: int) -> Iterator[Port]:
        return (port for port in self.inboxes if not port.queue or port.queue[0] <= key)

    # -- work ----------------------------------------------------------------------------------------------------

    def take(self, tuples: int, previous: Unit | None) -> Unit | None:
        """The next work of at most so many tuples, behind what the same worker did last.

        None if there is no input, or no room for what would come of it.
        """
        return self._begun(self._pop_unit(tuples)) if self._next_fits(previous) else None

    def finish(self, unit: Unit) -> None:
        """A worker has done a unit: it leaves when those before it have."""
        unit.done = True
        self.worked += len(unit.keys)
        self.busy_ns += unit.cost_ns
        self.window_ns += unit.cost_ns
        while self.units and self.units[0].done:
            for key in self.units.popleft().keys:
                self._leave(key)
        self.flush()
        self.net.touched.add(self)

    def release(self, previous: Unit | None) -> None:
        """A worker goes."""
        self.workers -= 1
        self.last_run_ns = self.net.now_ns
        self.net.touched.add(self)

    def _pop_unit(self, tuples: int) -> Unit:
        """The next tuples, where there are some, as a unit of the reorder buffer."""
        keys: list[int] = []
        while len(keys) < tuples and (port := self.next_inbox()) is not None:
            keys.append(port.pop())
        unit = Unit(keys, self._cost_ns(len(keys)), self._bucket())
        self.units.append(unit)
        return unit

    def _begun(self, unit: Unit) -> Unit:
        self.waiting -= len(unit.keys)
        self.net.queued -= len(unit.keys)
        self.net.touched.add(self)
        return unit

    def _cost_ns(self, tuples: int) -> int:
        cost = self.operator.cost_ns
        if self.operator.draw_cost == "exponential":
            return round(sum(self.cost_draws.expovariate(1.0) for _ in range(tuples)) * cost)
        # Rounded over all tuples, not each: costs below a nanosecond add up.
        self.taken += tuples
        return round(self.taken * cost) - round((self.taken - tuples) * cost)

    def _bucket(self) -> int:
        return 0

    # -- output --------------------------------------------------------------------------------------------------

    def _leave(self, key: int) -> None:
        """A tuple is through: what comes of it goes to the readers, or out."""
        self.rows_in += 1
        count = self._outputs()
        self.rows_out += count
        if self.ports:
            self.out.extend([key] * count)
        else:
            for _ in range(count):
                self.exits.append(self.net.now_ns)
                self.exits.append(born_ns(key))

    def _outputs(self) -> int:
        selectivity = self.operator.selectivity
        if self.operator.draw_selectivity == "random":
            whole = math.floor(selectivity)
            return whole + (self.output_draws.random() < selectivity - whole)
        return math.floor(self.rows_in * selectivity + _WHOLE) - math.floor(
            (self.rows_in - 1) * selectivity + _WHOLE
        )


class KeyedNode(Node):
    """A running keyed operator: the hybrid queue of Prasaad et al., Fig. 7.

    A worker that meets a tuple whose bucket another one is in leaves it to that one, and takes the next.

    Attributes:
        held: buckets that are worked on, or will be again, and what waits for them.
        resumed: of these, those that a worker has left.
    """

    __slots__ = ("held", "resumed")

    def __init__(self, net: Network, operator: Operator, index: int, seed: int) -> None:
        super().__init__(net, operator, index, seed)
        self.held: dict[int, deque[Unit]] = {}
        self.resumed: deque[int] = deque()

    def next_key(self, previous: Unit | None = None) -> int | None:
        if previous is not None and self.held[previous.bucket]:
            return self.held[previous.bucket][0].keys[0]
        keys = [key for key in (self._resumed_key(), Node.next_key(self)) if key is not None]
        return min(keys, default=None)

    def take(self, tuples: int, previous: Unit | None) -> Unit | None:
        if not self._next_fits(previous):
            return None
        if previous is not None:
            left = self.held[previous.bucket]
            if left:
                return self._begun(left.popleft())
            del self.held[previous.bucket]
        while (key := self.next_key()) is not None and self.has_room(key):
            if key == self._resumed_key():
                return self._begun(self.held[self._take_resumed()].popleft())
            unit = self._pop_unit(tuples)
            if unit.bucket not in self.held:
                self.held[unit.bucket] = deque()
                return self._begun(unit)
            self.held[unit.bucket].append(unit)
        return None

    def _resumed_key(self) -> int | None:
        """The first tuple of those that a worker has left."""
        return min((self.held[bucket][0].keys[0] for bucket in self.resumed), default=None)

    def _take_resumed(self) -> int:
        bucket = min(self.resumed, key=lambda bucket: self.held[bucket][0].keys[0])
        self.resumed.remove(bucket)
        return bucket

    def release(self, previous: Unit | None) -> None:
        if previous is not None and previous.bucket in self.held:
            if self.held[previous.bucket]:
                self.resumed.append(previous.bucket)
            else:
                del self.held[previous.bucket]
        Node.release(self, previous)

    def _bucket(self) -> int:
        if self.key_draws.random() < self.operator.top:
            return 0
        return self.key_draws.randrange(self.operator.buckets)


def _head(port: Port) -> int:
    return port.queue[0]
