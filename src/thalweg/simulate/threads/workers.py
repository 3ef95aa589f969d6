"""Threads in virtual time: what all models of threading have in common."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Literal

from thalweg.checks import is_int_from
from thalweg.errors import BuildError
from thalweg.simulate.board import Board
from thalweg.simulate.events import Events
from thalweg.simulate.hardware import Hardware, Line
from thalweg.simulate.nodes import SimulatedNode, WorkUnit
from thalweg.simulate.result import Overhead, SimulatedThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from thalweg.simulate.threads.sending import Sending


#: How threads are told whether to go on, and that there is work.
Signals = Literal["own", "shared"]


@dataclasses.dataclass(slots=True, eq=False)
class Worker:
    """A thread.

    Attributes:
        node: whom it visits; unit: what it did there last, or does now.
        until_ns: when its visit should end.
        since_ns: since when it lives; -1 while it is suspended.
        life_ns: how long it lived before.
        working_ns: since when it does its unit; -1 while it does none.
    """

    index: int
    node: SimulatedNode | None = None
    unit: WorkUnit | None = None
    until_ns: int = 0
    since_ns: int = -1
    life_ns: int = 0
    working_ns: int = -1
    busy_ns: int = 0
    scheduling_ns: int = 0

    def figures(self, now_ns: int) -> SimulatedThread:
        """How it spent its time so far; a unit, and a decision, counts as far as it has come."""
        life = self.life_ns + (now_ns - self.since_ns if self.since_ns >= 0 else 0)
        busy = self.busy_ns + (now_ns - self.working_ns if self.working_ns >= 0 else 0)
        scheduling = min(self.scheduling_ns, life - busy)
        return SimulatedThread(busy, scheduling, life - busy - scheduling)


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedMachine:
    """What threads work on.

    Attributes:
        nodes: the operators.
        overhead: what deciding costs.
        unit_tuples: tuples of a unit of work at most.
        hardware: what sharing it costs; None: nothing.
        grain: for how many tuples one stands.
        reorder: who sends on what operators put out.
        self_help: whether a thread runs the reader that has no room next.
        signals: whether each thread is told what it must know by words of its own, or all by the same ones.
    """

    events: Events
    board: Board
    nodes: list[SimulatedNode]
    overhead: Overhead
    unit_tuples: int
    hardware: Hardware | None = None
    grain: int = 1
    reorder: Literal["non-blocking", "lock-based"] = "non-blocking"
    self_help: bool = False
    signals: Signals = "own"


class ThreadModel(abc.ABC):
    """Which thread works on what.

    Attributes:
        level: how many threads there are now.
        working: how many of them work on a unit.
        decisions: how often the policy was asked.
        meets_others: whether any thread may run any operator, so that a queue's writer may have to wait for another.
        sleeps_ns: what a thread loses that finds a queue of several writers taken, ns.
    """

    meets_others = True
    sleeps_ns = 0.0

    def __init__(self, machine: SimulatedMachine) -> None:
        self.events = machine.events
        self.board = machine.board
        self.nodes = machine.nodes
        self.overhead = machine.overhead
        self.unit_tuples = machine.unit_tuples
        self.hardware = machine.hardware
        self.grain = machine.grain
        self.free_list = Line(locked=False)
        self.signals = Line(locked=False) if machine.signals == "shared" else None
        self.level = self.working = 0
        self.decisions = 0

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self.events.net.now_ns

    @abc.abstractmethod
    def settle(self) -> None:
        """Something happened: whoever can work now, begins."""

    @abc.abstractmethod
    def set_threads(self, threads: int) -> None:
        """From now on so many; who is over that number ends the unit in hand first."""

    @abc.abstractmethod
    def figures(self) -> tuple[SimulatedThread, ...]:
        """How the threads spent their time."""

    def late(self) -> list[SimulatedNode]:
        """Whom those work for who are over the level and have not gone yet."""
        return []

    def share_queues(self, node: SimulatedNode, unit: WorkUnit, who: int, slow: float) -> float:
        """How long a thread is held up by the queues before and behind an operator, for a unit that it begins, ns.

        All at once, though in truth it writes when it has done the work: the time that goes by is the same.

        Args:
            slow: how much longer it takes while others run.
        """
        hardware = self.hardware
        if hardware is None or not (hardware.queue_ns or hardware.line_ns):
            return 0.0
        now, tuples = self.now_ns, len(unit.keys) * self.grain * slow
        held = unit.port.line.use_ns(hardware, now, who, tuples, takes=True)
        out = tuples * node.operator.selectivity
        for port in node.ports[node.turn : node.turn + 1] if node.deals else node.ports:
            several = len(port.feeders) > 1
            sleeps_ns = self.sleeps_ns if several else 0.0
            held += port.line.use_ns(hardware, now, who, out, takes=False, sleeps_ns=sleeps_ns)
            if self.meets_others or several:
                held += hardware.atomic_ns * out
        return held


class WorkerModel(ThreadModel):
    """Threads that go from operator to operator.

    Attributes:
        workers: all that ever were, those above the level being suspended, or about to be.
    """

    def __init__(self, machine: SimulatedMachine) -> None:
        super().__init__(machine)
        self.workers: list[Worker] = []
        self._sending = _sending(machine, self.unit_done)

    def figures(self) -> tuple[SimulatedThread, ...]:
        return tuple(worker.figures(self.now_ns) for worker in self.workers)

    def late(self) -> list[SimulatedNode]:
        over = self.workers[self.level :]
        return [one.node for one in over if one.since_ns >= 0 and one.node is not None]

    def pick_ns(self, who: int) -> int:
        """How long a decision takes: looking at all operators, and the list of those that are free.

        A thread takes an operator from it, and has put the one before back.
        """
        cost = self.overhead.visit_ns + self.overhead.operator_ns * len(self.nodes)
        if self.hardware is not None:
            slow = self.hardware.slowdown(self.working, self.now_ns)
            for takes in (False, True):
                held = self.free_list.use_ns(self.hardware, self.now_ns, who, slow, takes=takes)
                cost += round(held)
        return cost

    def look_ns(self, who: int, looks: float) -> float:
        """How long it takes to look so often whether to go on, which a thread does after each tuple, ns.

        By a word of its own that is nothing. A word that all look at comes from the core that had it last (Schneider &
        Wu, 4.1.2: its line must bounce around all of the cores), and to one at a time.
        """
        if self.signals is None or self.hardware is None:
            return 0.0
        return self.signals.use_ns(self.hardware, self.now_ns, who, looks, takes=False)

    def resume_below(self, threads: int) -> list[Worker]:
        """Sets the level, and gives the workers below it that lived not: new ones and suspended ones."""
        require_threads(threads)
        self.level = threads
        while len(self.workers) < threads:
            self.workers.append(Worker(len(self.workers)))
        resumed = [worker for worker in self.workers[:threads] if worker.since_ns < 0]
        for worker in resumed:
            worker.since_ns = self.now_ns
        return resumed

    def suspend(self, worker: Worker) -> None:
        """Ends a worker's life for now."""
        worker.life_ns += self.now_ns - worker.since_ns
        worker.since_ns = -1

    def enter(self, worker: Worker, node: SimulatedNode) -> None:
        """A visit begins."""
        node.workers += 1
        node.visits += 1
        # Else all who come at once would go to the one that has not run for longest.
        node.last_run_ns = self.now_ns
        worker.node, worker.unit = node, None
        self.board.restart(node)

    def begin_unit(self, worker: Worker, node: SimulatedNode, tuples: int) -> bool:
        """The worker does the next unit of at most so many tuples, if there is any and its output has room."""
        unit = node.take(tuples, worker.unit)
        if unit is None:
            return False
        worker.unit = unit
        worker.working_ns = self.now_ns
        self.working += 1
        if self.hardware is not None:
            slow = self.hardware.slowdown(self.working, self.now_ns)
            held = self.share_queues(node, unit, worker.index, slow)
            held += self.look_ns(worker.index, slow * len(unit.keys) * self.grain)
            unit.cost_ns = round((unit.cost_ns + self.overhead.unit_ns) * slow + held)
        else:
            unit.cost_ns += self.overhead.unit_ns
        then = self.unit_done if self._sending is None else self._sending.worked
        self.events.plan(self.now_ns + unit.cost_ns, then, worker)
        return True

    def end_unit(self, worker: Worker) -> SimulatedNode:
        """The worker has done its unit."""
        assert worker.node is not None and worker.unit is not None
        spent = self.now_ns - worker.working_ns
        worker.busy_ns += spent
        worker.working_ns = -1
        self.working -= 1
        if self._sending is None:
            worker.node.finish(worker.unit)
        else:
            worker.node.waited(spent - worker.unit.cost_ns)
        return worker.node

    def leave(self, worker: Worker) -> None:
        """A visit ends."""
        assert worker.node is not None
        worker.node.release(worker.unit)
        self.board.restart(worker.node)
        worker.node = worker.unit = None

    @abc.abstractmethod
    def unit_done(self, worker: Worker) -> None:
        """A unit is done: what next?"""


def _sending(machine: SimulatedMachine, go_on: Callable[[Worker], None]) -> Sending | None:
    """What takes care of outputs; None where they leave at once."""
    # It needs Worker.
    from thalweg.simulate.threads.sending import Sending

    if not machine.overhead.send_ns:
        return None
    return Sending(
        machine.events, machine.overhead.send_ns, machine.reorder, machine.hardware, go_on
    )


def require_threads(threads: int) -> None:
    """Refuses a level that is none."""
    if not is_int_from(threads, 1):
        raise BuildError(f"threads must be an int of at least 1, not {threads!r}")
