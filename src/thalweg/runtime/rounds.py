"""What Python does between two rounds: refreshes what the policy asks for, asks it, and writes the workers' lists."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from thalweg.runtime import layout as at
from thalweg.runtime.atomics import EMPTY
from thalweg.runtime.dispatch import op_at, room, worker_at
from thalweg.runtime.layout import Int64s
from thalweg.runtime.meeting import begin_round, end_round, leave_meeting
from thalweg.runtime.picks import view_of
from thalweg.runtime.views import refresh_view
from thalweg.scheduling.features import Feature, FeatureKind, stale
from thalweg.scheduling.policy import FlowView
from thalweg.scheduling.round_view import UNLIMITED, OperatorStats, RoundView
from thalweg.scheduling.rounds import RoundPolicy, plan_round, required_features

_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})
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


@dataclasses.dataclass(slots=True)
class RoundCosts:
    """What rounds have cost so far, CPU ns of the workers that prepared them, and how much was refreshed."""

    rounds: int = 0
    refresh_ns: int = 0
    plan_ns: int = 0
    write_ns: int = 0
    features: int = 0
    left_out: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Asked:
    """A policy, and the features that it and its placement need."""

    policy: RoundPolicy
    features: tuple[Feature, ...]


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
            self._readers, self._feeders = _neighbours(self._mem, self._number)
            self._around = [
                (*readers, *feeders)
                for readers, feeders in zip(self._readers, self._feeders, strict=True)
            ]
            self._forget()
            end_round(self._mem)

    def _forget(self) -> None:
        """Nothing is known of the operators."""
        self._known: list[OperatorStats | None] = [None] * len(self._traits)
        self._units = np.zeros(len(self._traits), np.int64)
        self._busy: set[int] = set()
        self._own: list[dict[str, float]] = [{} for _ in self._traits]

    @property
    def policy(self) -> RoundPolicy:
        """What the next round is planned by."""
        return self._asked.policy

    @policy.setter
    def policy(self, policy: RoundPolicy) -> None:
        # A round that is being prepared goes on with the policy that it began with.
        self._asked = _Asked(policy, required_features(policy))
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
        began = time.thread_time_ns()
        mem = self._mem
        asked = int(mem[at.ASKED])
        active = int(min(mem[at.N_WORKERS], mem[at.ACTIVE]))
        if worker >= active or mem[at.STOP]:
            leave_meeting(mem)
            return
        policy = self._adopted()
        absent = self._absent(worker, active)
        present = [w for w in range(active) if w not in absent]
        kept = {w: self._number[op] for w, op in absent.items() if op in self._number}
        view = self._view(worker, list(kept.values()))
        refreshed = time.thread_time_ns()
        planned = plan_round(policy, view, len(present))
        done = time.thread_time_ns()
        for w in range(int(mem[at.N_WORKERS])):
            mem[worker_at(mem, w) + at.LISTED_OPS] = 0
        lagging = self._lagging(view)
        for w, operators, levels in zip(present, planned.lists, planned.levels, strict=True):
            self._write(w, operators, levels, lagging)
        for w, operator in kept.items():
            self._write(w, [operator], [0], frozenset())
        begin_round(mem, policy.period_ns, asked)
        costs = self.costs
        costs.rounds += 1
        costs.refresh_ns += refreshed - began
        costs.plan_ns += done - refreshed
        costs.write_ns += time.thread_time_ns() - done
        costs.left_out += len(absent)

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
        """The operators; only what is asked for and can have changed is read anew."""
        refresh_view(self._mem, worker)
        flow = view_of(self._mem, worker)
        now = int(flow.now_ns[0])
        totals = at.counts_of(self._mem).sum(axis=0)[self._places]
        units = totals[:, at.S_UNITS]
        ran = set(np.flatnonzero(units != self._units).tolist())
        ran |= {number for number, traits in enumerate(self._traits) if traits.rank == 0}
        self._units = units
        new = [index for index, known in enumerate(self._known) if known is None]
        wanted = stale(self._used.features, ran, self._around, changed=new)
        self.costs.features += len(wanted)
        touched = {operator for operator, _ in wanted} | set(new) | set(busy) | self._busy
        self._busy = set(busy)
        for operator, feature in wanted:
            if feature.read is not None:
                self._own[operator][feature.name] = feature.read(self._traits[operator].name)
        self._refresh(touched, flow, busy, totals[:, at.S_OUT])
        known = tuple(one for one in self._known if one is not None)
        return RoundView(known, self._readers, self._feeders, now)

    def _refresh(
        self, touched: Iterable[int], flow: FlowView, busy: Sequence[int], rows_out: Int64s
    ) -> None:
        # Lists, since taking one number after the other out of arrays is what would take longest here.
        columns = (
            flow.kind, flow.cost, flow.selectivity, flow.worklist, flow.head_ns, flow.last_run_ns, flow.limit,
        )  # fmt: skip
        kinds, costs, selectivities, waiting, heads, last_runs, limits = (
            column[self._places].tolist() for column in columns
        )
        wants_room = any(one.name == "output_room" for one in self._used.features)
        for index in touched:
            traits, is_source = self._traits[index], kinds[index] == at.INGRESS
            self._known[index] = OperatorStats(
                index=index,
                name=traits.name,
                flow=traits.flow,
                kind=kinds[index],
                priority_class=traits.priority_class,
                rank=traits.rank,
                cost_ns=costs[index],
                selectivity=selectivities[index],
                worklist=waiting[index],
                output_room=self._room(index, int(rows_out[index])) if wants_room else UNLIMITED,
                head_ns=heads[index] if waiting[index] > 0 and not is_source else -1,
                last_run_ns=last_runs[index],
                workers=busy.count(index) if busy else 0,
                limit=0 if is_source else limits[index],
                tags=traits.tags,
                own=dict(self._own[index]) if self._own[index] else _NOTHING,
            )

    def _room(self, index: int, rows_out: int) -> int:
        """Tuples that fit into the fullest inbox behind an operator: chunks, of the size that it puts out."""
        if not self._readers[index]:
            return UNLIMITED
        chunk = max(rows_out // max(int(self._units[index]), 1), 1)
        return int(room(self._mem, self._places[index])) * chunk

    # -- what the workers get -------------------------------------------------------------------------------

    def _lagging(self, view: RoundView) -> frozenset[int]:
        """The operators that must run once, or what is known of them grows old."""
        if not any(one.kind is _SHOWN_BY_RUNNING for one in self._used.features):
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
            feeder = number[int(mem[port + at.FEEDER])]
            feeders[op].append(feeder)
            readers[feeder].append(op)
    return tuple(map(tuple, readers)), tuple(map(tuple, feeders))
