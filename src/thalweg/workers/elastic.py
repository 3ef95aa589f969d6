"""Carries out elasticity: passes a controller the measures of each period, and applies what it suggests.

A change begins at once and ends when all workers that are told to suspend have left their operators. The next period
is counted from then on, so it says what the new level gives. Where some have not left after a whole period, they are
stuck in a user's function: they are counted as threads that cannot be suspended, and named by their operator
(Schneider & Wu, section 4.2.3). Nothing has to be drained: a worker leaves between two units, and what it leaves
behind in a queue others take up; the order of the output is that of the reorder buffers under any number of threads.

A thread of its own looks at the inboxes as often as the controller needs (see :mod:`thalweg.workers.memory.gauges`).
All else is differences of the counts that workers keep anyway.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Iterable
from typing import Final

import numpy as np

from thalweg.elasticity import Controller, Limits, OperatorSample, Sample, Suggestion
from thalweg.engine.machine import Machine
from thalweg.stats import Change
from thalweg.workers.lockfree.atomics import EMPTY, load
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.gauges import count_full, still_running
from thalweg.workers.memory.places import op_at, worker_at
from thalweg.workers.options import Options
from thalweg.workers.tasks import Task
from thalweg.workers.threads import Workers
from thalweg.workers.wiring import least_threads

_LOG: Final = logging.getLogger("thalweg")
#: Where so many times the threads have a use, or the other way round, the search for a level begins anew.
_OTHER_USE: Final = 1.5
#: Looks at the inboxes come no more often than this, seconds: each wakes up a thread.
_SHORTEST_LOOK_S: Final = 0.005
#: How long the thread is waited for at the end, seconds.
_GRACE_S: Final = 2.0


@dataclasses.dataclass(slots=True)
class _Period:
    """A period from its begin on.

    Attributes:
        begin_ns: monotonic ns.
        tasks: the operators that there are, by place.
        counts: what workers had counted at its begin, int64[workers, operators, words].
        cpu: CPU time of what Python ran until then, by worker and operator, ns.
        turns: by worker, how often it had gone round, and the units it had run.
        readers: by place, the operators that read it.
        full: by place, how many looks found a full inbox.
        looks: how many there were.
        waits: whether workers that were told to suspend have yet to leave their operators.
    """

    begin_ns: int
    tasks: dict[int, Task]
    counts: at.Int64s
    cpu: at.Int64s
    turns: list[tuple[int, int]]
    readers: dict[int, list[int]]
    full: at.Int64s
    looks: int = 0
    waits: bool = False


class ElasticThreads:
    """Changes threads, and how many may run an operator, as a controller says.

    :meth:`start` begins with the fewest threads that there may be, and does all in a thread of its own until
    :meth:`stop`. Who has the time in hand, as tests do, calls :meth:`begin`, :meth:`look` and :meth:`adapt` instead.

    Args:
        workers: whose threads; all flows that share them count together.
        controller: is asked after each period.
        period_s: its length, seconds.
        limits: of the threads; by default from as many as operators that block make necessary to all.
        machine: says how much of the processors is in use.

    Attributes:
        changes: what was done and refused, oldest first.
        stuck: the operators in which threads sit that cannot be suspended.
        cpu_s: processor time that measuring and deciding took so far, seconds; counted in the thread of :meth:`start`.
    """

    def __init__(
        self,
        workers: Workers,
        controller: Controller,
        *,
        period_s: float = 10.0,
        limits: Limits | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.workers = workers
        self.controller = controller
        self.changes: list[Change] = []
        self.stuck: tuple[str, ...] = ()
        self.cpu_s = 0.0
        self._mem = workers.mem
        self._period_ns = max(round(period_s * 1e9), 1)
        self._given_limits = limits
        self._limits: Limits
        self._machine = machine or Machine()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_ns = 0
        #: Threads that were told to suspend and are stuck, besides those that may run.
        self._lost = 0
        self._period: _Period

    @property
    def threads(self) -> int:
        """How many workers may run now."""
        return self.workers.threads

    # -- in a thread of its own -----------------------------------------------------------------------------

    def start(self) -> None:
        """Goes to the fewest threads, and from there on where the controller says."""
        self.begin(time.monotonic_ns())
        self._thread = threading.Thread(target=self._run, name="thalweg-elastic", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No change any more; the threads are what they are."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_GRACE_S)

    def _run(self) -> None:
        pause_s = max(self._period_ns * 1e-9 / self.controller.looks, _SHORTEST_LOOK_S)
        try:
            while not self._stop.wait(pause_s):
                now = time.monotonic_ns()
                self.look(now)
                if now - self._period.begin_ns >= self._period_ns:
                    self.adapt(now)
                self.cpu_s = time.thread_time()
        except Exception:
            # What it gives is right with any number of threads: the flow goes on.
            _LOG.exception("the controller failed: from now on there are %d threads", self.threads)

    # -- periods --------------------------------------------------------------------------------------------

    def begin(self, now_ns: int) -> None:
        """The first period begins.

        Args:
            now_ns: monotonic ns, here and below.
        """
        self._start_ns = now_ns
        self._begin_flows(now_ns)
        self.workers.set_threads(self._limits.minimum)

    def _limits_of(self, tasks: Iterable[Task]) -> Limits:
        # Threads of functions that wait come on top of the processors' as they are seen to wait.
        most = max(self.workers.useful, 1)
        return self._given_limits or Limits(min(least_threads(tasks), most), most)

    def _begin_flows(self, now_ns: int) -> None:
        """There are other operators than before, so what the controller knows is of no use."""
        self._begin_period(now_ns)
        self._limits = self._limits_of(self._period.tasks.values())
        self.controller.start(self._limits)
        if self.threads < self._limits.minimum:
            self.workers.set_threads(self._limits.minimum)
        replicas = self.controller.initial_replicas
        if replicas is not None:
            for place, task in self._period.tasks.items():
                if _is_replicable(task):
                    self.workers.set_limit(place, replicas)

    def _begin_period(self, now_ns: int, *, waits: bool = False) -> None:
        # Also the machine's share is counted from here on.
        self._machine.share_in_use(now_ns)
        tasks, counts = self.workers.tasks(), at.counts_of(self._mem).copy()
        full = np.zeros(counts.shape[1], np.int64)
        cpu = self.workers.occupancy.cpu_ns.copy()
        self._period = _Period(
            now_ns, tasks, counts, cpu, self._turns(counts), _readers(tasks), full, waits=waits
        )

    def look(self, now_ns: int) -> None:
        """Looks at the inboxes, and whether a change has come to its end: with that the period begins."""
        period = self._period
        if period.waits and still_running(self._mem) <= self._lost:
            self._begin_period(now_ns)
            period = self._period
        count_full(self._mem, period.full)
        period.looks += 1

    def adapt(self, now_ns: int) -> None:
        """A period ends: the controller is asked, what it suggests is done, and the next one begins."""
        before, tasks = self._period.tasks, self.workers.tasks()
        if before.keys() != tasks.keys() or any(before[one] is not tasks[one] for one in tasks):
            self._begin_flows(now_ns)
            return
        if self._is_other_use():
            self._begin_flows(now_ns)
            return
        sample = self._sample(now_ns)
        done = [self._carry_out(one, now_ns) for one in self.controller.decide(sample)]
        self._begin_period(now_ns, waits=any(done) or not sample.whole)

    # -- what a period was like -----------------------------------------------------------------------------

    def _sample(self, now_ns: int) -> Sample:
        period = self._period
        stuck = self._find_stuck()
        self._lost = sum(worker >= self.threads for worker in stuck)
        self._say_stuck(tuple(sorted({self._name_of(place) for place in stuck.values()})))
        counts = at.counts_of(self._mem)[:, : period.counts.shape[1]].copy()
        # Workers that have been started since had counted nothing.
        counts[: len(period.counts)] -= period.counts
        places = sorted(period.tasks)
        length = max(now_ns - period.begin_ns, 1)
        busy = counts[: self.threads, :, at.S_BUSY].sum(axis=1) / length
        busy[[worker for worker in stuck if worker < self.threads]] = 1.0
        return Sample(
            now_ns=now_ns,
            period_ns=length,
            threads=self.threads + self._lost,
            tuples=int(counts[:, places, at.S_IN].sum()),
            utilizations=tuple(np.minimum(busy, 1.0).tolist()),
            cpu_share=self._machine.share_in_use(now_ns),
            unsuspendable=len(stuck),
            whole=not period.waits,
            operators=tuple(self._operator(n, places, counts) for n in range(len(places))),
        )

    def _operator(self, number: int, places: list[int], counts: at.Int64s) -> OperatorSample:
        place, period = places[number], self._period
        task, mine = period.tasks[place], counts[:, place].sum(axis=0)
        now = at.counts_of(self._mem)[:, place].sum(axis=0)
        timed = int(now[at.S_TIMED])
        return OperatorSample(
            index=number,
            name=task.spec.name,
            replicable=_is_replicable(task),
            replicas=min(self._limit_of(place), self.workers.most),
            max_replicas=self.workers.most,
            tuples=int(mine[at.S_IN]),
            busy_ns=int(mine[at.S_BUSY]),
            cpu_ns=self._cpu_ns(place, int(mine[at.S_BUSY])),
            cost_ns=int(now[at.S_NS]) / timed if timed else 0.0,
            write_blocked=self._share(place),
            output_blocked=max(map(self._share, period.readers[place]), default=0.0),
        )

    def _cpu_ns(self, place: int, busy_ns: int) -> int:
        """CPU time in the period: of machine code all of its time, as it waits for nothing."""
        if not self._period.tasks[place].spec.needs_token:
            return busy_ns
        cpu = self.workers.occupancy.cpu_ns[:, place].sum() - self._period.cpu[:, place].sum()
        return min(int(cpu), busy_ns)

    def _is_other_use(self) -> bool:
        """Whether there is a use for clearly more threads than before, or for fewer, as functions wait or do not."""
        if self._given_limits is not None:
            return False
        before, now = self._limits.maximum, self._limits_of(self._period.tasks.values()).maximum
        return max(before, now) > _OTHER_USE * min(before, now)

    def _share(self, place: int) -> float:
        return int(self._period.full[place]) / max(self._period.looks, 1)

    def _limit_of(self, place: int) -> int:
        return int(self._mem[op_at(self._mem, place) + at.LIMIT])

    def _find_stuck(self) -> dict[int, int]:
        """Workers that sat in one unit for all of the period, and in which operator.

        Of those that may run only the first ones count, which would be left at the minimum.
        """
        now = self._turns(at.counts_of(self._mem))
        found = {}
        for worker, (before, after) in enumerate(zip(self._period.turns, now, strict=False)):
            place = int(load(self._mem, int(worker_at(self._mem, worker)) + at.OP))
            if place != EMPTY and before == after:
                found[worker] = place
        free = range(self._limits.minimum, self.threads)
        return {worker: place for worker, place in found.items() if worker not in free}

    def _say_stuck(self, operators: tuple[str, ...]) -> None:
        if operators and operators != self.stuck:
            _LOG.warning(
                "threads sit in a function of %s for more than a period: they are counted out",
                ", ".join(operators),
            )
        self.stuck = operators

    def _turns(self, counts: at.Int64s) -> list[tuple[int, int]]:
        units = counts[:, :, at.S_UNITS].sum(axis=1).tolist()
        firsts = (int(worker_at(self._mem, worker)) for worker in range(len(units)))
        return [
            (int(load(self._mem, first + at.PASSES)), count)
            for first, count in zip(firsts, units, strict=True)
        ]

    # -- what is done ---------------------------------------------------------------------------------------

    def _carry_out(self, suggestion: Suggestion, now_ns: int) -> bool:
        """Does what was suggested, or says why not; whether it did."""
        operator, place, target = "", -1, suggestion.target
        if suggestion.operator is not None:
            place = sorted(self._period.tasks)[suggestion.operator]
            operator = self._name_of(place)
        refused = self._why_not(suggestion, place)
        if refused:
            self.controller.refused(suggestion, refused)
        elif suggestion.what == "threads":
            self.workers.set_threads(target - self._lost)
        else:
            self.workers.set_limit(place, target)
        change = Change(
            seconds=(now_ns - self._start_ns) * 1e-9,
            what=suggestion.what,
            operator=operator,
            before=suggestion.current,
            after=target,
            reason=suggestion.reason,
            refused=refused,
        )
        self.changes.append(change)
        _LOG.info("%s", describe(change))
        return not refused

    def _why_not(self, suggestion: Suggestion, place: int) -> str:
        if not 1 <= suggestion.target <= self.workers.most:
            return f"there are {self.workers.most} threads"
        if suggestion.what == "replicas" and not _is_replicable(self._period.tasks[place]):
            return "one thread at a time runs it"
        return ""

    def _name_of(self, place: int) -> str:
        task = self._period.tasks.get(place)
        return task.spec.name if task is not None else "a flow that is gone"


def elastic_of(workers: Workers, options: Options) -> ElasticThreads | None:
    """What these options ask for; None where there is no controller."""
    if options.controller is None:
        return None
    return ElasticThreads(workers, options.controller, period_s=options.period_s)


def describe(change: Change) -> str:
    """A change as a line of text."""
    what = f"replicas of {change.operator}" if change.operator else change.what
    refused = f"; refused: {change.refused}" if change.refused else ""
    return f"{what} {change.before} -> {change.after}: {change.reason}{refused}"


def _readers(tasks: dict[int, Task]) -> dict[int, list[int]]:
    """By operator, those that read it; all by their places. A flow's operators stand in a row behind its ingress."""
    readers: dict[int, list[int]] = {place: [] for place in tasks}
    for place, task in tasks.items():
        for feeder, _ in task.spec.reads:
            if feeder:
                readers[place - task.index + feeder].append(place)
    return readers


def _is_replicable(task: Task) -> bool:
    return task.spec.kind in (at.STATELESS, at.KEYED) and task.spec.limit > 1
