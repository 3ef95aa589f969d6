"""Operators while they are simulated: work is taken in order, done in any, and leaves in order.

What a tuple costs, and what comes of it, is settled by its place in the operator's input and not by when it is worked
on. So the output is the same under every policy and any number of threads, as in the node runtime.
"""

from __future__ import annotations

import heapq
import math
import random
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from thalweg.simulate.draws import factors
from thalweg.simulate.graph import KIND_CODES, Operator
from thalweg.simulate.network import Feeder, Network, Port, born_ns, holder

#: More workers than any run has.
UNLIMITED: Final = 1 << 30
#: Products of counts and selectivities are whole numbers within this.
_WHOLE: Final = 1e-9


class WorkUnit:
    """A piece of work: tuples that follow each other in an operator's input, of one bucket if it is keyed.

    Attributes:
        port: where the last of them waited.
        taken_ns: when a worker took the first of them; -1 before.
    """

    __slots__ = ("bucket", "cost_ns", "done", "keys", "port", "taken_ns")

    def __init__(self, keys: list[int], cost_ns: int, port: Port, bucket: int = 0) -> None:
        self.keys = keys
        self.port = port
        self.cost_ns = cost_ns
        self.bucket = bucket
        self.done = False
        self.taken_ns = -1


class SimulatedNode(Feeder):
    """A running operator, stateless or stateful.

    Attributes:
        index: its place in a view; the first operator is 1.
        inboxes: one a port; one for all ports where tuples are taken as they come.
        units: the reorder buffer: what was taken and has not left, in order (Prasaad et al., Fig. 4).
        waiting: tuples that nobody works on yet.
        workers: how many are in it.
        worked: tuples that were worked on; ``rows_in``: of these, those that have left the reorder buffer.
        held_ns: for how long tuples were in it, from when a worker took them until they left the reorder buffer, ns,
            added up over all that have left.
        sender: the worker that sends what has left, where that takes time; locked_out: who waits for it.
    """

    __slots__ = (
        "busy_ns", "cost_factor", "empty", "exits", "grain", "heads", "held_ns", "inboxes", "index", "key_draws", "kind",
        "last_run_ns", "limit", "locked_out", "most_waiting", "operator", "output_draws", "output_factor", "rows_in", "rows_out", "sender",
        "taken", "units", "visits", "waiting", "window_ns", "worked", "workers",
    )  # fmt: skip

    def __init__(
        self, net: Network, operator: Operator, index: int, seed: int, grain: int = 1
    ) -> None:
        super().__init__(net, deals=operator.split == "deal")
        self.operator = operator
        self.kind = KIND_CODES[operator.kind]
        self.index = index
        self.grain = grain
        # Draws of one kind do not depend on when those of another are made.
        cost_draws, self.output_draws, self.key_draws = (
            random.Random(f"{seed} {operator.name} {what}") for what in ("cost", "output", "key")
        )
        self.cost_factor = factors(operator.draw_cost, operator.cost_spread, cost_draws)
        self.output_factor = _output_factor(operator, self.output_draws)
        self.inboxes: list[Port] = []
        #: Where tuples of several ports are merged by order: a heap of the first tuple of each port that has some,
        #: with the port's place; and the places of all others.
        self.heads: list[tuple[int, int]] = []
        self.empty: dict[int, None] = {}
        self.units: deque[WorkUnit] = deque()
        self.limit = 1 if operator.kind == "stateful" else operator.limit or UNLIMITED
        self.waiting = self.most_waiting = self.workers = self.visits = 0
        self.taken = self.worked = self.rows_in = self.rows_out = 0
        self.busy_ns = self.window_ns = self.last_run_ns = self.held_ns = 0
        self.sender: Any = None
        self.locked_out: deque[Any] = deque()
        #: Of a sink: when each tuple left and which it was, int64 ns and keys one after the other.
        self.exits = array("q")

    # -- input ---------------------------------------------------------------------------------------------------

    def next_inbox(self) -> Port | None:
        """Where the next tuple waits; None if none does, or an earlier one can still come at another port."""
        if len(self.inboxes) == 1:
            return self.inboxes[0] if self.inboxes[0].queue else None
        if not self.heads:
            return None
        key, first = self.heads[0]
        for place in self.empty:
            behind = holder(self.inboxes[place], key)
            if behind is not None:
                behind.watchers.add(self)
                return None
        return self.inboxes[first]

    def head_came(self, port: Port) -> None:
        """An inbox has a first tuple: of several inboxes only."""
        del self.empty[port.place]
        heapq.heappush(self.heads, (port.queue[0], port.place))

    def head_left(self, port: Port) -> None:
        """The first tuple of all was taken: of several inboxes only."""
        if port.queue:
            heapq.heapreplace(self.heads, (port.queue[0], port.place))
        else:
            heapq.heappop(self.heads)
            self.empty[port.place] = None

    def next_key(self, previous: WorkUnit | None = None) -> int | None:
        """The first tuple of the work that :meth:`take` would give; None without any."""
        if len(self.units) >= self.operator.window:
            return None
        port = self.next_inbox()
        return port.queue[0] if port else None

    def can_run(self) -> bool:
        """Whether a worker may come: fewer workers than the limit, input, and room for what comes of it."""
        return self.workers < self.limit and self.waiting > 0 and self._next_fits(None)

    def _next_fits(self, previous: WorkUnit | None) -> bool:
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

    def take(self, tuples: int, previous: WorkUnit | None) -> WorkUnit | None:
        """The next work of at most so many tuples, behind what the same worker did last.

        None if there is no input, or no room for what would come of it.
        """
        return self._begun(self._pop_unit(tuples)) if self._next_fits(previous) else None

    def finish(self, unit: WorkUnit) -> None:
        """A worker has done a unit: it leaves when those before it have."""
        self.add(unit)
        while self.next_done() is not None:
            self._send()
        self.flush()

    def add(self, unit: WorkUnit) -> None:
        """A unit is done, and waits in the reorder buffer."""
        unit.done = True
        self.worked += len(unit.keys)
        self.busy_ns += unit.cost_ns
        self.window_ns += unit.cost_ns
        self.net.changed.add(self)

    def next_done(self) -> WorkUnit | None:
        """The unit that is next to leave, if it is done."""
        return self.units[0] if self.units and self.units[0].done else None

    def send_next(self) -> None:
        """The unit that is next to leave does."""
        self._send()
        self.flush()
        self.net.changed.add(self)

    def waited(self, ns: int) -> None:
        """A worker was in it for so much longer than its unit took."""
        self.busy_ns += ns
        self.window_ns += ns

    def _send(self) -> None:
        unit = self.units.popleft()
        self.held_ns += len(unit.keys) * (self.net.now_ns - unit.taken_ns)
        for key in unit.keys:
            self._leave(key)

    def release(self, previous: WorkUnit | None) -> None:
        """A worker goes."""
        self.workers -= 1
        self.last_run_ns = self.net.now_ns
        self.net.changed.add(self)

    def _pop_unit(self, tuples: int) -> WorkUnit:
        """The next tuples, where there are some, as a unit of the reorder buffer."""
        port = self.next_inbox()
        assert port is not None
        last, keys = port, [port.pop()]
        while len(keys) < tuples and (port := self.next_inbox()) is not None:
            last = port
            keys.append(port.pop())
        unit = WorkUnit(keys, self._cost_ns(len(keys)), last, self._bucket())
        self.units.append(unit)
        return unit

    def _begun(self, unit: WorkUnit) -> WorkUnit:
        unit.taken_ns = self.net.now_ns
        self.waiting -= len(unit.keys)
        self.net.queued -= len(unit.keys)
        self.net.changed.add(self)
        if self.operator.load is not None:
            unit.cost_ns = round(unit.cost_ns * self.operator.load.factor(self.net.now_ns * 1e-9))
        return unit

    def _cost_ns(self, tuples: int) -> int:
        cost = self.operator.cost_ns
        tuples *= self.grain
        if self.operator.draw_cost != "constant":
            return round(sum(self.cost_factor() for _ in range(tuples)) * cost)
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
        if self.output_factor is not None:
            expected = selectivity * self.output_factor()
            whole = math.floor(expected)
            return whole + (self.output_draws.random() < expected - whole)
        return math.floor(self.rows_in * selectivity + _WHOLE) - math.floor(
            (self.rows_in - 1) * selectivity + _WHOLE
        )


def _output_factor(operator: Operator, rng: random.Random) -> Callable[[], float] | None:
    """What is drawn for each tuple that is through; None where the number of outputs is no matter of chance."""
    draw = operator.draw_selectivity
    if draw == "exact":
        return None
    return factors("constant" if draw == "random" else draw, operator.selectivity_spread, rng)
