"""One thread that runs every operator of a tuple, one call after the other: threading ``manual``, without queues."""

from __future__ import annotations

import dataclasses

from thalweg.errors import BuildError
from thalweg.simulate.nodes import SimulatedNode
from thalweg.simulate.result import SimulatedThread
from thalweg.simulate.threads.workers import SimulatedMachine, ThreadModel, Worker, require_threads


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """No policy: one thread runs all operators of a tuple before it takes the next (Schneider & Wu, 2.2).

    Attributes:
        call_ns: what it costs to hand a tuple to the next operator by a call: the call itself, a copy of the tuple
            where the operator may change it, and what the runtime counts.

    Raises:
        BuildError: a call costs less than nothing.
    """

    call_ns: float = 0.0

    def __post_init__(self) -> None:
        if self.call_ns < 0:
            raise BuildError(f"Manual: call_ns from 0 on, not {self!r}")


class ManualThread(ThreadModel):
    """The operator furthest down that has a tuple is next, so a tuple is through before another one is begun.

    Attributes:
        worker: the thread.
    """

    def __init__(self, model: Manual, machine: SimulatedMachine) -> None:
        super().__init__(machine)
        self.model = model
        self.worker = Worker(0, since_ns=0)

    def set_threads(self, threads: int) -> None:
        require_threads(threads)
        self.level = threads

    def settle(self) -> None:
        self.board.settle()
        if self.worker.working_ns < 0 and self.board.ready:
            self._run(max(self.board.ready, key=lambda node: node.index))

    def figures(self) -> tuple[SimulatedThread, ...]:
        return (self.worker.figures(self.now_ns),)

    def _run(self, node: SimulatedNode) -> None:
        unit = node.take(self.unit_tuples, None)
        if unit is None:
            return
        node.workers += 1
        node.visits += 1
        worker = self.worker
        worker.node, worker.unit, worker.working_ns = node, unit, self.now_ns
        call_ns = self.model.call_ns * len(unit.keys) * self.grain
        unit.cost_ns += round(call_ns) + self.overhead.unit_ns
        self.events.plan(self.now_ns + unit.cost_ns, self._done, worker)

    def _done(self, worker: Worker) -> None:
        assert worker.node is not None and worker.unit is not None
        worker.busy_ns += worker.unit.cost_ns
        worker.working_ns = -1
        worker.node.finish(worker.unit)
        worker.node.release(worker.unit)
        self.board.restart(worker.node)
        worker.node = worker.unit = None
