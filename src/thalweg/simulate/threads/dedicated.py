"""A thread an operator, on so many cores that the operating system shares out among those that have work."""

from __future__ import annotations

import dataclasses
import heapq
import math

from thalweg.errors import BuildError
from thalweg.simulate.nodes import SimulatedNode, WorkUnit
from thalweg.simulate.result import SimulatedThread
from thalweg.simulate.threads.workers import SimulatedMachine, ThreadModel, require_threads

#: Work within this of its end is done, ns: sums of shares are not exact.
_DONE_NS = 1e-3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dedicated:
    """No policy: each operator has a thread of its own, and ``threads`` says how many cores there are.

    The operating system is taken to be fair: threads that have work share the cores equally (processor sharing).

    Attributes:
        switch_ns: what it costs to put another thread on a core: when a thread begins behind a sleep, and each
            quantum while there are more threads with work than cores.
        quantum_ns: how long a thread keeps a core while others wait.

    Raises:
        BuildError: the switch costs less than nothing, or the quantum is not positive.
    """

    switch_ns: int = 0
    quantum_ns: int = 3_000_000

    def __post_init__(self) -> None:
        if self.switch_ns < 0 or self.quantum_ns <= 0:
            raise BuildError(f"Dedicated: switch_ns from 0 on, quantum_ns above 0, not {self!r}")


@dataclasses.dataclass(slots=True, eq=False)
class OwnThread:
    """An operator's thread: the unit in hand, what it lost to switches, and the loss clock when that began, ns."""

    node: SimulatedNode
    unit: WorkUnit | None = None
    lost_ns: float = 0.0
    loss_began_ns: float = 0.0


class DedicatedThreads(ThreadModel):
    """Processor sharing in *attained service*: what each thread with work got since the start, all getting the same.

    A unit ends when the service has grown by its cost, so shares need no reckoning by thread.

    Attributes:
        level: how many cores there are; with hardware, how many processors of it.
    """

    meets_others = False

    def __init__(self, model: Dedicated, machine: SimulatedMachine) -> None:
        super().__init__(machine)
        self.model = model
        self.sleeps_ns = model.switch_ns
        self.threads = [OwnThread(node) for node in self.nodes]
        self._service_ns = 0.0
        self._loss_ns = 0.0
        self._at_ns = 0
        self._ends: list[tuple[float, int, OwnThread]] = []
        self._planned = 0
        for node in self.nodes:
            node.limit = 1

    def settle(self) -> None:
        self.board.settle()
        ready = sorted(self.board.ready, key=lambda node: node.index)
        if not ready:
            return
        self._advance()
        for node in ready:
            self._wake(self.threads[node.index - 1])
        self.board.settle()
        self._plan()

    def set_threads(self, threads: int) -> None:
        require_threads(threads)
        self._advance()
        self.level = threads
        self._plan()

    def figures(self) -> tuple[SimulatedThread, ...]:
        return tuple(self._figures(thread) for thread in self.threads)

    def _figures(self, thread: OwnThread) -> SimulatedThread:
        busy, life = thread.node.busy_ns, self.now_ns
        lost = min(round(thread.lost_ns), life - busy)
        return SimulatedThread(busy, lost, life - busy - lost)

    def _shares(self) -> tuple[float, float]:
        """Of a core, what each thread with work gets, and what it loses to switches."""
        running = min(self.working, self.level)
        slow = 1.0 if self.hardware is None else self.hardware.slowdown(running, self.now_ns)
        if self.working <= self.level:
            return 1.0 / slow, 0.0
        share = self.level / self.working / slow
        useful = self.model.quantum_ns / (self.model.quantum_ns + self.model.switch_ns)
        return share * useful, share * (1 - useful)

    def _advance(self) -> None:
        """Brings the service up to now."""
        got, lost = self._shares()
        elapsed = self.now_ns - self._at_ns
        self._service_ns += got * elapsed
        self._loss_ns += lost * elapsed
        self._at_ns = self.now_ns

    def _plan(self) -> None:
        """Looks up again when the next unit should end; what was planned before is void."""
        self._planned += 1
        if self._ends:
            left = max(self._ends[0][0] - self._service_ns, 0.0)
            at_ns = self.now_ns + math.ceil(left / self._shares()[0] - _DONE_NS)
            self.events.plan(at_ns, self._end, self._planned)

    def _end(self, planned: int) -> None:
        if planned != self._planned:
            return
        self._advance()
        while self._ends and self._ends[0][0] <= self._service_ns + _DONE_NS:
            thread = heapq.heappop(self._ends)[2]
            assert thread.unit is not None
            thread.node.finish(thread.unit)
            thread.lost_ns += self._loss_ns - thread.loss_began_ns
            self._next(thread, 0)
        self._plan()

    def _wake(self, thread: OwnThread) -> None:
        """A thread that slept has work."""
        thread.node.workers += 1
        thread.node.visits += 1
        self.working += 1
        thread.lost_ns += self.model.switch_ns
        self._next(thread, self.model.switch_ns)

    def _next(self, thread: OwnThread, switch_ns: int) -> None:
        """The next unit of a thread, or sleep."""
        node = thread.node
        unit = node.take(self.unit_tuples, thread.unit)
        if unit is None:
            node.release(thread.unit)
            thread.unit = None
            self.working -= 1
            return
        thread.unit, thread.loss_began_ns = unit, self._loss_ns
        unit.cost_ns += self.overhead.unit_ns
        unit.cost_ns += round(self.share_queues(node, unit, node.index, 1.0))
        end = self._service_ns + unit.cost_ns + switch_ns
        heapq.heappush(self._ends, (end, node.index, thread))
