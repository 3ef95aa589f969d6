"""Threads that ask a policy at each visit, and sleep while nothing can run."""

from __future__ import annotations

import heapq
from typing import Final

from numba.core.errors import NumbaError

from thalweg.errors import BuildError
from thalweg.jit import njit
from thalweg.scheduling.policy import FlowView, Pick, PickPolicy, own_preempt
from thalweg.simulate.nodes import SimulatedNode
from thalweg.simulate.threads.workers import SimulatedMachine, Worker, WorkerModel

#: With so many operators a pick is compiled: it loops over all of them.
COMPILE_FROM: Final = 64


class PickThreads(WorkerModel):
    """A thread picks, stays for a time slice or until input or room runs out, and picks again.

    A policy that has a ``preempt`` of its own says at each unit's end whether the thread must leave, in place of the
    time slice (Sahin & Gedik, section 3.2.4).

    Attributes:
        idle: numbers of the workers that sleep, a heap: the first one is woken first.
        deciding: how many workers are about to pick.
    """

    def __init__(self, policy: PickPolicy, machine: SimulatedMachine) -> None:
        super().__init__(machine)
        self.policy = policy
        self.idle: list[int] = []
        self.deciding = 0
        self._pick = _compiled(policy.pick_function(), self.board.view())
        self._preempt = own_preempt(policy)
        self._self_help = machine.self_help
        #: By worker that helps a reader, how many tuples it may still do.
        self._left: dict[int, int] = {}

    def settle(self) -> None:
        self.board.settle()
        wakes_all = self.signals is not None and self.deciding < len(self.board.ready)
        while self.idle and (wakes_all or self.deciding < len(self.board.ready)):
            self._decide_soon(self.workers[heapq.heappop(self.idle)], self.overhead.wake_ns)

    def set_threads(self, threads: int) -> None:
        resumed = self.resume_below(threads)
        for worker in resumed:
            self._decide_soon(worker, 0)
        for index in [index for index in self.idle if index >= threads]:
            self.suspend(self.workers[index])
        self.idle = sorted(index for index in self.idle if index < threads)

    def unit_done(self, worker: Worker) -> None:
        node = self.end_unit(worker)
        stays = worker.index < self.level and not self._preempts(worker, node)
        stays = stays and not self._has_helped(worker)
        if not (stays and self.begin_unit(worker, node, self.unit_tuples)):
            self._go(worker)

    def _has_helped(self, worker: Worker) -> bool:
        """Whether a worker that helps has done its share."""
        left = self._left.get(worker.index)
        if left is None:
            return False
        assert worker.unit is not None
        self._left[worker.index] = left - len(worker.unit.keys)
        return left <= len(worker.unit.keys)

    def _full_reader(self, node: SimulatedNode) -> SimulatedNode | None:
        """A reader of an operator that has no room, and can run."""
        if not self._self_help or not node.waiting or not (node.full or node.out):
            return None
        self.board.settle()
        readers = (port.reader for port in node.ports if len(port.queue) >= port.capacity)
        return next((one for one in readers if one in self.board.ready), None)

    def _help(self, worker: Worker, reader: SimulatedNode) -> None:
        """Schneider & Wu, Fig. 5: who finds a queue full runs its reader, for a quarter of the queue."""
        self.enter(worker, reader)
        worker.until_ns = self.now_ns + self.policy.slice_ns
        capacity = max(port.capacity for port in reader.inboxes)
        self._left[worker.index] = max(capacity // 4, 1)
        if not self.begin_unit(worker, reader, self.unit_tuples):
            self._go(worker)

    def _preempts(self, worker: Worker, node: SimulatedNode) -> bool:
        """Whether the operator must let others run: asked where it waits for its next tuple."""
        if self._preempt is None:
            return self.now_ns >= worker.until_ns
        began_ns = worker.until_ns - self.policy.slice_ns
        return bool(self._preempt(self.board.view(), node.index, began_ns))

    def _go(self, worker: Worker) -> None:
        left = worker.node
        assert left is not None
        self.leave(worker)
        self._left.pop(worker.index, None)
        reader = self._full_reader(left) if worker.index < self.level else None
        if reader is not None:
            self._help(worker, reader)
        else:
            self._decide_soon(worker, 0)

    def _decide_soon(self, worker: Worker, wake_ns: int) -> None:
        cost = wake_ns + self.pick_ns(worker.index)
        worker.scheduling_ns += cost
        self.deciding += 1
        self.events.plan(self.now_ns + cost, self._decide, worker)

    def _decide(self, worker: Worker) -> None:
        self.deciding -= 1
        if worker.index >= self.level:
            self.suspend(worker)
            return
        self.decisions += 1
        picked = int(self._pick(self.board.view(), worker.index))
        if picked < 0:
            heapq.heappush(self.idle, worker.index)
            return
        node = self._checked(picked)
        self.enter(worker, node)
        worker.until_ns = self.now_ns + self.policy.slice_ns
        if not self.begin_unit(worker, node, self.unit_tuples):
            self._go(worker)

    def _checked(self, picked: int) -> SimulatedNode:
        """The node that was picked.

        Raises:
            BuildError: it is none that can run.
        """
        if 0 < picked <= len(self.nodes) and self.nodes[picked - 1] in self.board.ready:
            return self.nodes[picked - 1]
        runnable = sorted(node.index for node in self.board.ready)
        raise BuildError(
            f"policy {type(self.policy).__name__}: it picked {picked}, which cannot run\n"
            f"  expected: one of {runnable}, or -1"
        )


def _compiled(pick: Pick, view: FlowView) -> Pick:
    """The pick as machine code where there are many operators and Numba can; what it picks is the same."""
    if len(view.kind) <= COMPILE_FROM:
        return pick
    compiled: Pick = njit(pick)
    try:
        compiled(view, 0)
    except NumbaError:
        return pick
    return compiled
