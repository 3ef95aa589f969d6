"""The work between two rounds: refreshes the features that the policy requires, asks it, and writes workers' lists."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from thalweg.plan.plan import Plan
from thalweg.scheduling.features import FeatureKind, read_feature, stale
from thalweg.scheduling.policy import FlowView
from thalweg.scheduling.round_view import NOTHING, UNLIMITED, OperatorStats, RoundView
from thalweg.scheduling.rounds import (
    RoundPolicy,
    assigned,
    ordered,
    plan_round,
    required_features,
)
from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.layout import Int64s
from thalweg.workers.memory.places import op_at, worker_at
from thalweg.workers.memory.room import room
from thalweg.workers.picks import view_of
from thalweg.workers.tasks import Task
from thalweg.workers.worker_loop.round_barrier import begin_round, end_round, leave_meeting
from thalweg.workers.worker_loop.views import refresh_view

#: The features that only running shows: for their sake an operator that has not run for long is run once.
_SHOWN_BY_RUNNING: Final = FeatureKind.INTRINSIC


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorTraits:
    """What never changes of an operator: its names, and what the flow's author said of it."""

    name: str
    flow: str = ""
    priority_class: int = 0
    rank: int = 0
    tags: Mapping[str, object] = dataclasses.field(default_factory=dict)
    row_bytes: int = 8


def traits_of(task: Task, plan: Plan, rank: int) -> OperatorTraits:
    """Those of an operator that is so many places behind its flow's ingress."""
    spec = task.spec
    return OperatorTraits(
        spec.name, plan.flow, spec.priority, rank, task.tags, task.row_bytes(plan)
    )


class _Fixed:
    """What never changes of several operators, a column each, for records of them.

    Attributes:
        sources: the operators at which steps enter.
    """

    def __init__(self, traits: Sequence[OperatorTraits]) -> None:
        self.sources = [number for number, one in enumerate(traits) if one.rank == 0]
        self._names = [one.name for one in traits]
        self._flows = [one.flow for one in traits]
        self._classes = [one.priority_class for one in traits]
        self._ranks = [one.rank for one in traits]
        self._tags = [one.tags for one in traits]
        self._row_bytes = [one.row_bytes for one in traits]

    def records(
        self,
        flow: FlowView,
        places: Int64s,
        busy: Sequence[int],
        rooms: Sequence[int],
        own: Sequence[Mapping[str, float]],
    ) -> tuple[OperatorStats, ...]:
        """The operators between two rounds.

        Args:
            flow: what compiled code has read.
            places: where the operators stand in it.
            busy: those that a thread is still in, once a thread.
            rooms: by operator, tuples that fit in behind it.
            own: by operator, features of the user's own.
        """
        kinds, waiting = flow.kind[places], flow.worklist[places]
        count = len(places)
        # Lists, since taking one number after the other out of arrays is what would take longest here.
        columns = (
            range(count),
            self._names,
            self._flows,
            kinds.tolist(),
            self._classes,
            self._ranks,
            flow.cost_ns[places].tolist(),
            flow.selectivity[places].tolist(),
            waiting.tolist(),
            rooms,
            np.where(waiting > 0, flow.head_ns[places], -1).tolist(),
            flow.last_run_ns[places].tolist(),
            np.bincount(np.array(busy, np.int64), minlength=count).tolist(),
            flow.limit[places].tolist(),
            self._tags,
            own,
            self._row_bytes,
        )  # as the fields of OperatorStats
        return tuple(map(OperatorStats._make, zip(*columns, strict=True)))


@dataclasses.dataclass(slots=True)
class RoundCosts:
    """What rounds have cost so far, ns: CPU time of the workers that prepared them, while the others waited.

    Attributes:
        rounds: how many there were.
        meet_ns: how long, by the clock, those workers waited for the others.
        refresh_ns: reading features.
        assign_ns: f, who runs what.
        order_ns: g, priorities, and sorting by them.
        write_ns: writing the lists.
        left_out: workers that were late, of all rounds.
    """

    rounds: int = 0
    meet_ns: int = 0
    refresh_ns: int = 0
    assign_ns: int = 0
    order_ns: int = 0
    write_ns: int = 0
    left_out: int = 0


class _Asked:
    """A policy, and what is needed of the features that it and its placement ask for."""

    def __init__(self, policy: RoundPolicy) -> None:
        features = required_features(policy)
        self.policy = policy
        self.own = [feature for feature in features if feature.read is not None]
        self.wants_room = any(feature.name == "output_room" for feature in features)
        self.wants_running = any(feature.kind is _SHOWN_BY_RUNNING for feature in features)


class Rounds:
    """The rounds of one memory under one policy, which may be replaced at any time.

    Args:
        mem: the memory, laid out.
        traits: of the operators, by their place in the memory; see :meth:`update`.
        policy: what the next round is planned by.

    Raises:
        SchedulingError: the policy asks for what there is not.
    """

    def __init__(
        self, mem: Int64s, traits: Mapping[int, OperatorTraits], policy: RoundPolicy
    ) -> None:
        self._mem = mem
        self._changing = threading.Lock()
        self.costs = RoundCosts()
        self._last: Sequence[Sequence[int]] = ()
        self.policy = policy
        self._used = self._asked
        self.update(traits)

    def update(self, traits: Mapping[int, OperatorTraits]) -> None:
        """From the next round on there are these operators and no others (flows were added or removed)."""
        with self._changing:
            #: the operators' places in the memory; to the policy they are 0, 1, and so on
            self._places = np.array(sorted(traits), np.int64)
            self._number = {place: number for number, place in enumerate(self._places.tolist())}
            self._traits = [traits[place] for place in self._places.tolist()]
            self._fixed = _Fixed(self._traits)
            self._readers, self._feeders = _neighbours(self._mem, self._number)
            self._around = [
                (*readers, *feeders)
                for readers, feeders in zip(self._readers, self._feeders, strict=True)
            ]
            self._forget()
            end_round(self._mem)

    def _forget(self) -> None:
        """Nothing is known of the operators."""
        self._new: Collection[int] = range(len(self._traits))
        self._units = np.zeros(len(self._traits), np.int64)
        self._own: list[Mapping[str, float]] = [NOTHING] * len(self._traits)

    @staticmethod
    def try_out(mem: Int64s, traits: Mapping[int, OperatorTraits], policy: RoundPolicy) -> None:
        """Plans a round for operators of which nothing is known yet, and throws it away.

        Features of the user's own are not read for it: each is 1.

        Raises:
            SchedulingError: what the policy gives for them is no round, or it raised.
        """
        own = {one.name: 1.0 for one in required_features(policy) if one.read is not None}
        places = sorted(traits)
        operators = tuple(
            _unknown(mem, place, index, traits[place])._replace(own=own)
            for index, place in enumerate(places)
        )
        number = {place: index for index, place in enumerate(places)}
        view = RoundView(operators, *_neighbours(mem, number), time.monotonic_ns())
        plan_round(policy, view, 1)

    @property
    def policy(self) -> RoundPolicy:
        """What the next round is planned by."""
        return self._asked.policy

    @policy.setter
    def policy(self, policy: RoundPolicy) -> None:
        # A round that is being prepared goes on with the policy that it began with.
        self._asked = _Asked(policy)
        mem = self._mem
        mem[at.BATCH] = policy.batch_rows
        mem[at.GRACE] = policy.round_grace_ns
        mem[at.STARVE] = policy.starve_after_ns or 0
        end_round(mem)

    def prepare(self, worker: int) -> None:
        """The sequential part: by the worker that MEETING was returned to, while others wait.

        A worker that has been suspended since, or is to stop, leaves it to the next one: who prepares a round takes
        part in it, so there is always one that does.

        Raises:
            SchedulingError: what the policy gives is no round.
        """
        with self._changing:
            self._prepare(worker)

    def _prepare(self, worker: int) -> None:
        mem = self._mem
        asked = int(mem[at.ASKED])
        active = int(min(mem[at.N_WORKERS], mem[at.ACTIVE]))
        if worker >= active or mem[at.STOP]:
            leave_meeting(mem)
            return
        times = [time.thread_time_ns()]
        policy = self._adopted()
        absent = self._absent(worker, active)
        present = [w for w in range(active) if w not in absent]
        kept = {w: self._number[op] for w, op in absent.items() if op in self._number}
        view = self._view(worker, list(kept.values()))
        times.append(time.thread_time_ns())
        lists = assigned(policy, view, len(present))
        times.append(time.thread_time_ns())
        planned = ordered(policy, view, lists)
        self._last = planned.lists
        times.append(time.thread_time_ns())
        for w in range(int(mem[at.N_WORKERS])):
            mem[worker_at(mem, w) + at.LISTED_OPS] = 0
        lagging = self._lagging(view)
        for w, operators, levels in zip(present, planned.lists, planned.levels, strict=True):
            self._write(w, operators, levels, lagging)
        for w, operator in kept.items():
            self._write(w, [operator], [0], frozenset())
        begin_round(mem, policy.period_ns, asked)
        times.append(time.thread_time_ns())
        self._note(times, len(absent))

    def last_lists(self) -> tuple[tuple[str, ...], ...]:
        """The operators that each thread got in the last round, by name, the most urgent first."""
        traits = self._traits
        return tuple(
            tuple(traits[number].name for number in one if number < len(traits))
            for one in self._last
        )

    def _note(self, times: Sequence[int], left_out: int) -> None:
        """Adds what a round has cost, given the CPU time at which each part began, and the end."""
        costs = self.costs
        refresh, assign, order, write = np.diff(times).tolist()
        costs.rounds += 1
        costs.meet_ns = int(self._mem[at.MET_NS])
        costs.refresh_ns += refresh
        costs.assign_ns += assign
        costs.order_ns += order
        costs.write_ns += write
        costs.left_out += left_out

    def _adopted(self) -> RoundPolicy:
        """The policy of this round; what was read for another one is forgotten."""
        if self._used is not self._asked:
            self._used = self._asked
            self._forget()
        return self._used.policy

    def _absent(self, leader: int, active: int) -> dict[int, int]:
        """Of the first workers those that are stuck in an operator, and in which."""
        mem = self._mem
        held = {w: int(mem[worker_at(mem, w) + at.OP]) for w in range(active)}
        return {w: op for w, op in held.items() if op != EMPTY and w != leader}

    # -- what the policy sees -------------------------------------------------------------------------------

    def _view(self, worker: int, busy: Sequence[int]) -> RoundView:
        """The operators now.

        What is built in is read of all, by compiled code: to find out what can have changed would take longer.
        """
        refresh_view(self._mem, worker)
        flow = view_of(self._mem, worker)
        if self._used.own:
            self._read_own()
        rooms = self._rooms() if self._used.wants_room else [UNLIMITED] * len(self._places)
        operators = self._fixed.records(flow, self._places, busy, rooms, self._own)
        return RoundView(operators, self._readers, self._feeders, int(flow.now_ns[0]))

    def _counts(self, word: int) -> Int64s:
        """By operator, one of the counts of all workers together."""
        counts: Int64s = at.counts_of(self._mem)[:, self._places, word].sum(axis=0)
        return counts

    def _read_own(self) -> None:
        """Reads the features of the user's own that can have changed since the last round."""
        units = self._counts(at.S_UNITS)
        ran = {*np.flatnonzero(units != self._units).tolist(), *self._fixed.sources}
        self._units = units
        policy = self._used.policy.name
        for operator, feature in stale(self._used.own, ran, self._around, changed=self._new):
            value = read_feature(feature, self._traits[operator].name, policy)
            self._own[operator] = {**self._own[operator], feature.name: value}
        self._new = ()

    def _rooms(self) -> list[int]:
        """By operator, the tuples that fit into the fullest inbox behind it: chunks, of the size that it puts out."""
        sizes = self._counts(at.S_OUT) // np.maximum(self._counts(at.S_UNITS), 1)
        return [
            int(room(self._mem, place)) * size if readers else UNLIMITED
            for place, size, readers in zip(
                self._places, np.maximum(sizes, 1).tolist(), self._readers, strict=True
            )
        ]

    # -- what the workers get -------------------------------------------------------------------------------

    def _lagging(self, view: RoundView) -> frozenset[int]:
        """The operators that must run once, or what is known of them grows old."""
        if not self._used.wants_running:
            return frozenset()
        since = view.now_ns - self._used.policy.stale_after_ns
        return frozenset(one.index for one in view.operators if one.last_run_ns < since)

    def _write(
        self, worker: int, operators: Sequence[int], levels: Sequence[int], lagging: frozenset[int]
    ) -> None:
        mem = self._mem
        me = int(worker_at(mem, worker))
        first, count = int(mem[me + at.LIST]), len(operators)
        entries = mem[first : first + count * at.LISTED_WORDS].reshape(count, at.LISTED_WORDS)
        entries[:, at.E_OP] = self._places[list(operators)]
        entries[:, at.E_LEVEL] = levels
        entries[:, at.E_SINCE] = [at.ONCE if op in lagging else EMPTY for op in operators]
        mem[me + at.LISTED_OPS] = count
        mem[me + at.LAGGING] = len(lagging.intersection(operators))


def _unknown(mem: Int64s, place: int, index: int, traits: OperatorTraits) -> OperatorStats:
    """An operator that has not run yet."""
    kind, limit = (int(mem[op_at(mem, place) + word]) for word in (at.KIND, at.LIMIT))
    return OperatorStats(
        index, traits.name, traits.flow, kind, traits.priority_class, traits.rank,
        limit=limit, tags=traits.tags, row_bytes=traits.row_bytes,
    )  # fmt: skip


def _neighbours(
    mem: Int64s, number: Mapping[int, int]
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """By operator (as the policy counts them), those that read it, and those that it reads."""
    readers: list[list[int]] = [[] for _ in number]
    feeders: list[list[int]] = [[] for _ in number]
    for place, op in number.items():
        o = int(op_at(mem, place))
        for i in range(int(mem[o + at.N_IN])):
            port = int(mem[at.PORTS] + (mem[o + at.FIRST_PORT] + i) * at.PORT_WORDS)
            feeder = number.get(int(mem[port + at.FEEDER]))
            if feeder is None:
                # It has a thread of its own, so the policy does not know it.
                continue
            feeders[op].append(feeder)
            readers[feeder].append(op)
    return tuple(map(tuple, readers)), tuple(map(tuple, feeders))
