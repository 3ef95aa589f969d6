"""Threads under a policy of rounds: Haren's execution and scheduling tasks (Palyvos-Giannas et al., sections 5, 6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from thalweg.scheduling.features import FeatureKind, read_feature, stale
from thalweg.scheduling.measures import cost_ns, selectivity
from thalweg.scheduling.round_view import UNLIMITED
from thalweg.scheduling.rounds import (
    OperatorStats,
    RoundPolicy,
    RoundView,
    overdue,
    plan_round,
    required_features,
)
from thalweg.simulate.nodes import SimulatedNode
from thalweg.simulate.threads.workers import SimulatedMachine, Worker, WorkerModel, require_threads

#: How long a thread that finds nothing sleeps at first, ns; then twice as long each time, until the round ends. The
#: paper says "very small".
BACK_OFF_NS: Final = 10_000


@dataclasses.dataclass(slots=True, eq=False)
class Execution:
    """A thread's execution task of one round.

    Attributes:
        operators: its list, the highest priority first; levels: a number a priority, of the same length.
        delayed: operators that did not run for so long that what is known of them is old: run once before all else,
            the last one first.
        place: where in the list it looks next; level: of the operator that ran last in this pass, -1 if none.
        left: tuples that its visit may still take.
        back_off_ns: how long it sleeps when it next finds nothing.
        hungry_ns: before that time no operator of its list has waited too long.
    """

    operators: list[SimulatedNode] = dataclasses.field(default_factory=list)
    levels: tuple[int, ...] = ()
    delayed: list[SimulatedNode] = dataclasses.field(default_factory=list)
    place: int = 0
    level: int = -1
    left: int = 0
    back_off_ns: int = BACK_OFF_NS
    hungry_ns: int = 0


class RoundThreads(WorkerModel):
    """Threads that run lists of operators for a period, and meet between periods.

    Attributes:
        tasks: by number of a worker.
        met: the workers that have come to the meeting.
        end_ns: when the round ends.
        planning: whether it is over, and the next one is being made.
    """

    def __init__(self, policy: RoundPolicy, machine: SimulatedMachine) -> None:
        super().__init__(machine)
        self.policy = policy
        self.tasks: list[Execution] = []
        self.met: list[Worker] = []
        self.end_ns = 0
        self.planning = False
        self.features = RoundFeatures(policy, self.nodes)

    def settle(self) -> None:
        self.board.settle()

    def set_threads(self, threads: int) -> None:
        require_threads(threads)
        first = not self.level
        self.level = threads
        if first:
            self._coordinate(0)

    # -- the scheduling task -------------------------------------------------------------------------------------

    def _meet(self, worker: Worker) -> None:
        """The round is over for a worker. The last one that comes makes the next round."""
        self.met.append(worker)
        if self.planning:
            return  # It was left out, and is early for the next meeting.
        late = self.now_ns >= self.end_ns + self.policy.round_grace_ns
        if late or len(self.met) == sum(worker.since_ns >= 0 for worker in self.workers):
            self._coordinate(self.decisions)

    def _coordinate(self, finished: int) -> None:
        """The sequential part, unless the round after the given one has begun; who is not there is left out."""
        if finished != self.decisions:
            return
        if finished and not self.met:
            return  # All are late: the first one that comes goes on.
        self.decisions += 1
        self.planning = True
        for worker in self.met:
            if worker.index >= self.level:
                self.suspend(worker)
        ready = [worker for worker in self.met if worker.since_ns >= 0]
        ready.extend(self.resume_below(self.level))
        self.met = []
        self.tasks.extend(Execution() for _ in range(len(self.tasks), len(self.workers)))
        cost = self.overhead.round_ns + self.overhead.operator_ns * len(self.nodes)
        for worker in ready:
            worker.scheduling_ns += cost
        self.events.plan(self.now_ns + cost, self._begin, sorted(ready, key=lambda w: w.index))

    def _begin(self, workers: list[Worker]) -> None:
        """The round begins for those who met; who is late keeps the operator that it is in, or nothing."""
        self.planning = False
        self.end_ns = self.now_ns + self.policy.period_ns
        self.events.plan(self.end_ns + self.policy.round_grace_ns, self._coordinate, self.decisions)
        self._keep_late({worker.index for worker in workers})
        if not workers:
            return  # The level has fallen to workers that are all late.
        self.board.settle()
        view = self.features.view(self.now_ns, self.board.changed)
        self.board.changed.clear()
        plan = plan_round(self.policy, view, len(workers))
        for worker, places, levels in zip(workers, plan.lists, plan.levels, strict=True):
            task = Execution([self.nodes[place] for place in places], levels)
            task.delayed = self.features.delayed(task.operators, self.now_ns)[::-1]
            self.tasks[worker.index] = task
            self._seek_soon(worker)

    def _keep_late(self, present: set[int]) -> None:
        for worker in self.workers:
            if worker.index not in present:
                left = self.tasks[worker.index].left
                kept = [worker.node] if worker.node else []
                self.tasks[worker.index] = Execution(kept, (0,) * len(kept), left=left)

    # -- the execution task --------------------------------------------------------------------------------------

    def _seek_soon(self, worker: Worker) -> None:
        worker.scheduling_ns += self.overhead.visit_ns
        self.events.plan(self.now_ns + self.overhead.visit_ns, self._seek, worker)

    def _seek(self, worker: Worker) -> None:
        """A worker looks for what to run (Algorithm 1)."""
        if self.now_ns >= self.end_ns:
            self._meet(worker)
            return
        self.board.settle()
        task = self.tasks[worker.index]
        node = self._next(task)
        if node is None:
            pause = min(task.back_off_ns, self.end_ns - self.now_ns)
            task.back_off_ns *= 2
            self.events.plan(self.now_ns + pause, self._seek, worker)
            return
        task.left = self.policy.batch_rows
        self.features.ran.add(node.index - 1)
        self.enter(worker, node)
        self._work(worker, node)

    def _next(self, task: Execution) -> SimulatedNode | None:
        """Whom to run: who is delayed, who is starved, the next one of the same priority, the first one."""
        ready = self.board.ready
        while task.delayed:
            node = task.delayed.pop()
            if node in ready:
                return node
        starved = self._starved(task)
        if starved is not None:
            task.place, task.level = 0, -1
            return starved
        listed = self._listed(task)
        if listed is None and task.level >= 0:
            task.place, task.level = 0, -1
            listed = self._listed(task)
        return listed

    def _listed(self, task: Execution) -> SimulatedNode | None:
        """The next one of the list that can run; behind one that ran only those of its priority count."""
        ready, levels = self.board.ready, task.levels
        for place in range(task.place, len(task.operators)):
            if task.level >= 0 and levels[place] != task.level:
                return None
            if task.operators[place] in ready:
                task.place, task.level = place + 1, levels[place]
                return task.operators[place]
        return None

    def _starved(self, task: Execution) -> SimulatedNode | None:
        """The one of the list that has waited longest, if too long."""
        limit = self.policy.starve_after_ns
        if limit is None or self.now_ns < task.hungry_ns:
            return None
        since = [self.board.ready.get(node, -1) for node in task.operators]
        found = overdue(since, self.now_ns, limit)
        if found >= 0:
            return task.operators[found]
        oldest = min((at for at in since if at >= 0), default=self.now_ns)
        task.hungry_ns = oldest + limit
        return None

    def _work(self, worker: Worker, node: SimulatedNode) -> None:
        """The next unit of a visit, or its end."""
        task = self.tasks[worker.index]
        if task.left > 0 and self.begin_unit(worker, node, min(task.left, self.unit_tuples)):
            assert worker.unit is not None
            task.left -= len(worker.unit.keys)
        else:
            self.leave(worker)
            self._seek_soon(worker)

    def unit_done(self, worker: Worker) -> None:
        self._work(worker, self.end_unit(worker))


class RoundFeatures:
    """What a round policy is shown of the nodes.

    Attributes:
        ran: operators that have run since the last round.
    """

    def __init__(self, policy: RoundPolicy, nodes: list[SimulatedNode]) -> None:
        required = required_features(policy)
        self._policy = policy.name
        self.ran: set[int] = set()
        self._new: Sequence[int] = range(len(nodes))
        self._nodes = nodes
        self._feeders = tuple(_feeders(node) for node in nodes)
        self._readers = tuple(_readers(node) for node in nodes)
        self._around = [r + f for r, f in zip(self._readers, self._feeders, strict=True)]
        self._own = [feature for feature in required if feature.read is not None]
        self._values: list[dict[str, float]] = [{} for _ in nodes]
        self._stats = [_stats(node, {}) for node in nodes]
        self._ages = any(feature.kind is FeatureKind.INTRINSIC for feature in required)
        self._stale_after_ns = policy.stale_after_ns

    def view(self, now_ns: int, changed: set[SimulatedNode]) -> RoundView:
        """The operators now, of which these have changed since the last time.

        Features of a user's own are read anew only where they can have changed.
        """
        places = [node.index - 1 for node in changed]
        shown = {*places, *(feeder for place in places for feeder in self._feeders[place])}
        for index, feature in stale(self._own, self.ran, self._around, changed=self._new):
            name = self._nodes[index].operator.name
            self._values[index][feature.name] = read_feature(feature, name, self._policy)
            shown.add(index)
        self.ran.clear()
        self._new = ()
        for index in shown:
            self._stats[index] = _stats(self._nodes[index], self._values[index])
        return RoundView(tuple(self._stats), self._readers, self._feeders, now_ns)

    def delayed(self, nodes: list[SimulatedNode], now_ns: int) -> list[SimulatedNode]:
        """Those that have not run for so long that what only running shows of them is old, if that is needed."""
        if not self._ages:
            return []
        return [node for node in nodes if now_ns - node.last_run_ns > self._stale_after_ns]


def _feeders(node: SimulatedNode) -> tuple[int, ...]:
    return tuple(feeder.index - 1 for port in node.inboxes for feeder in port.nodes)


def _readers(node: SimulatedNode) -> tuple[int, ...]:
    return tuple(port.reader.index - 1 for port in node.ports)


def _stats(node: SimulatedNode, own: dict[str, float]) -> OperatorStats:
    operator = node.operator
    room = min((port.capacity - len(port.queue) for port in node.ports), default=UNLIMITED)
    return OperatorStats(
        index=node.index - 1,
        name=operator.name,
        flow=operator.flow,
        kind=node.kind,
        priority_class=operator.priority_class,
        rank=node.index,
        cost_ns=cost_ns(node.busy_ns, node.worked),
        selectivity=selectivity(node.rows_in, node.rows_out),
        worklist=node.waiting,
        output_room=max(room, 0),
        head_ns=node.oldest_ns(),
        last_run_ns=node.last_run_ns,
        workers=node.workers,
        limit=node.limit,
        tags=operator.tags,
        own=dict(own),
    )
