"""Which of several queries runs its next batch: told what happens and when, it decides who is given a place.

A query that runs batch by batch is one operator whose visit is a batch, so the policies of rounds order queries, too
(Palyvos-Giannas et al., *Haren*, section 4: any unit of work with features can be scheduled). A batch arrives, waits
until it is given one of a few places, and leaves. No batch is interrupted. Two rules stand above the policy:

- A batch that has waited too long goes first, the oldest of several.
- But not before a more urgent one that a less urgent one has held up already. So under a policy that goes by class a
  batch waits for at most one of a less urgent class.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Collection, Mapping, Sequence

from thalweg.brief import brief, brief_repr, counted
from thalweg.checks import require_class, require_int
from thalweg.errors import BuildError, SchedulingError
from thalweg.scheduling.features import Feature, read_feature
from thalweg.scheduling.measures import PRIOR_COST_NS
from thalweg.scheduling.round_view import OperatorStats, RoundView
from thalweg.scheduling.rounds import RoundPolicy, overdue, plan_round, required_features

#: How much of the measured past counts still after one more batch.
_KEPT = 0.8
#: A batch that comes so soon after the last one is of input that may have waited behind that one, ns.
_AT_ONCE_NS = 1_000_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class MostUrgentFirst(RoundPolicy):
    """The most urgent class first; within it, the query with the oldest waiting input."""

    def features(self) -> frozenset[str | Feature]:
        return frozenset({"priority_class", "head_ns"})

    def priorities(self, view: RoundView) -> Sequence[tuple[float, ...]]:
        ages = view.oldest_ages_ns()
        return [(-one.priority_class, age) for one, age in zip(view.operators, ages, strict=True)]


class Phase(enum.Enum):
    """Where a query is with its current batch."""

    IDLE = "idle"
    WAITING = "waiting"
    RUNNING = "running"


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Admitted:
    """A batch was given a place.

    Attributes:
        query: whose batch.
        batch: its number.
        at_ns: when, monotonic ns.
        wait_ns: how long it had waited, ns.
        reason: why it, and not another.
        behind: the queries whose batches wait on.
    """

    query: str
    batch: int
    at_ns: int
    wait_ns: int
    reason: str
    behind: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class QueryStats:
    """What a query has got so far.

    Attributes:
        query: its name.
        priority_class: 0 is the most urgent.
        phase: of its current batch.
        batches: that were given a place.
        waited_s: for places, all batches together.
        longest_wait_s: the longest wait of one.
        ran_s: time in places, of the batches that have left theirs.
        cost_ns: a row, in the recent batches, ns of time in a place.
    """

    query: str
    priority_class: int
    phase: Phase
    batches: int
    waited_s: float
    longest_wait_s: float
    ran_s: float
    cost_ns: float


@dataclasses.dataclass(slots=True)
class _Query:
    """A query, its current batch, and sums that forget."""

    index: int
    name: str
    priority_class: int
    phase: Phase = Phase.IDLE
    batch: int = -1
    #: When it came into its phase.
    since_ns: int = 0
    #: Since when input of the current batch may have waited.
    head_ns: int = -1
    #: When the input of the current or last batch was fixed; -1 before the first.
    taken_ns: int = -1
    last_run_ns: int = 0
    #: Whether a batch of a less urgent class has held up the waiting one.
    held_up: bool = False
    #: Of the last batch, until its rows are told: time in its place, and from its input to that of the one before.
    untold_ns: tuple[int, int] | None = None
    span_ns: int = 0
    busy_sum_ns: float = 0.0
    span_sum_ns: float = 0.0
    rows_sum: float = 0.0
    batches: int = 0
    waited_ns: int = 0
    longest_wait_ns: int = 0
    ran_ns: int = 0

    @property
    def cost_ns(self) -> float:
        """Time in a place a row, ns."""
        return self.busy_sum_ns / self.rows_sum if self.rows_sum else PRIOR_COST_NS

    def backlog_rows(self, now_ns: int) -> int:
        """Rows that wait, by the recent rate: input has come in since the last batch's was fixed."""
        if self.phase is not Phase.WAITING:
            return 0
        rate = self.rows_sum / self.span_sum_ns if self.span_sum_ns else 0.0
        return max(round(rate * (now_ns - self.head_ns)), 1)


class Admission:
    """Decides by a policy which queries' batches may run; a pure state machine.

    Args:
        policy: orders the queries whose batches wait. Its lengths of time have no meaning here.
        classes: by query, its class, 0 the most urgent; without any, all queries are of class 0.
        slots: places, that is how many batches run at a time.
        reserved: places of these that only the most urgent class is given.
        starve_after_ns: a batch that has waited so long goes first; None: the policy decides always.

    Raises:
        BuildError: an argument makes no sense.
        SchedulingError: the policy needs a feature that there is not.
    """

    def __init__(
        self,
        policy: RoundPolicy,
        classes: Mapping[str, int] | None = None,
        *,
        slots: int = 1,
        reserved: int = 0,
        starve_after_ns: int | None = None,
    ) -> None:
        if not isinstance(policy, RoundPolicy):
            raise BuildError(
                "a scheduler of queries needs a round policy such as MostUrgentFirst() or"
                f" one of scheduling.by, not {policy!r}"
            )
        require_int(self, 1, slots=slots)
        require_int(self, 0, reserved=reserved)
        if not isinstance(classes, Mapping | None):
            raise BuildError(f"classes: expected a mapping, query to class, got {classes!r}")
        for query, its in (classes or {}).items():
            require_class(f"query {query!r}", its)
        if reserved >= slots:
            raise BuildError(
                f"{reserved} of {slots} places reserved: the other classes would get none"
            )
        self.policy = policy
        self._classes = dict(classes or {})
        self._slots = slots
        self._reserved = reserved
        self._starve_after_ns = starve_after_ns
        self._own = [one for one in required_features(policy) if one.read is not None]
        self._queries: dict[str, _Query] = {}
        #: The most urgent class.
        self.top = min(self._classes.values(), default=0)

    # -- events -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        queries = brief(list(self._queries))
        return f"<Admission by {type(self.policy).__name__}, {counted(self._slots, 'place')}, queries {queries}>"

    def class_of(self, query: str) -> int:
        """The priority class of a query.

        Raises:
            BuildError: there are classes, and none for it.
        """
        if self._classes and query not in self._classes:
            raise BuildError(
                f"query {query!r} has no class; classes has {', '.join(map(repr, self._classes))}"
            )
        return self._classes.get(query, 0)

    def arrive(self, query: str, batch: int, now_ns: int, *, interval_ns: int = 0) -> None:
        """A query's next batch is ready to run.

        Args:
            interval_ns: how far apart its triggers are, ns. Input of a batch that comes at once, or at the next
                trigger, may have waited since that of the last batch was fixed, other input since the trigger before.

        Raises:
            BuildError: the query has no class.
            SchedulingError: another batch of that name waits or runs.
        """
        one = self._queries.get(query)
        if one is None:
            one = _Query(len(self._queries), query, self.class_of(query))
            self._queries[query] = one
        if one.phase is not Phase.IDLE:
            raise SchedulingError(
                f"query {query!r}: batch {batch} arrived while batch {one.batch} is {one.phase.value};"
                " give each query a name of its own",
                operator=query,
            )
        waited_behind = one.taken_ns >= 0 and now_ns - one.since_ns <= interval_ns + _AT_ONCE_NS
        one.head_ns = one.taken_ns if waited_behind else now_ns - interval_ns
        one.span_ns = now_ns - one.taken_ns if one.taken_ns >= 0 else 0
        one.phase, one.since_ns, one.batch, one.taken_ns = Phase.WAITING, now_ns, batch, now_ns
        rivals = self._rivals(one)
        one.held_up = (
            not self._has_place(one)
            and bool(rivals)
            and all(rival.priority_class > one.priority_class for rival in rivals)
        )

    def leave(self, query: str, now_ns: int, rows: int | None = None) -> None:
        """A query's batch has ended or no longer waits; a second call has no effect.

        Args:
            rows: of the batch, where it ran and that is known now; else :meth:`count` may tell later.
        """
        one = self._queries[query]
        if one.phase is Phase.RUNNING:
            busy_ns = now_ns - one.since_ns
            one.ran_ns += busy_ns
            one.last_run_ns = now_ns
            one.untold_ns = busy_ns, one.span_ns
        if one.phase is not Phase.IDLE:
            one.phase, one.since_ns, one.head_ns, one.held_up = Phase.IDLE, now_ns, -1, False
        if rows is not None:
            self.count(query, rows)

    def count(self, query: str, rows: int) -> None:
        """Records the number of rows of a query's last batch; counted once."""
        one = self._queries.get(query)
        if one is None or one.untold_ns is None:
            return
        busy_ns, span_ns = one.untold_ns
        one.busy_sum_ns = one.busy_sum_ns * _KEPT + busy_ns
        one.span_sum_ns = one.span_sum_ns * _KEPT + span_ns
        one.rows_sum = one.rows_sum * _KEPT + rows
        one.untold_ns = None

    # -- decisions ----------------------------------------------------------------------------------------

    def decide(self, now_ns: int) -> Admitted | None:
        """Admits the next waiting batch if a place is free; to be called until it returns None.

        Raises:
            SchedulingError: the policy, or a feature of its own, raised or gave what is no order.
        """
        waiting = [one for one in self._queries.values() if one.phase is Phase.WAITING]
        able = [one for one in waiting if self._has_place(one)]
        if not able:
            return None
        chosen, reason = self._choose(able, now_ns)
        wait_ns = now_ns - chosen.since_ns
        chosen.batches += 1
        chosen.waited_ns += wait_ns
        chosen.longest_wait_ns = max(chosen.longest_wait_ns, wait_ns)
        chosen.phase, chosen.since_ns = Phase.RUNNING, now_ns
        waiting.remove(chosen)
        for one in waiting:
            one.held_up |= one.priority_class < chosen.priority_class
        behind = tuple(one.name for one in waiting)
        return Admitted(chosen.name, chosen.batch, now_ns, wait_ns, reason, behind)

    def _choose(self, able: Sequence[_Query], now_ns: int) -> tuple[_Query, str]:
        """Who of those that could be given a place is, and why."""
        queries = list(self._queries.values())
        since = [one.since_ns if one in able else -1 for one in queries]
        late = overdue(since, now_ns, self._starve_after_ns)
        if late >= 0:
            mine = queries[late]
            first = [
                one for one in able if one.held_up and one.priority_class < mine.priority_class
            ]
            if not first:
                return mine, f"it has waited for {(now_ns - mine.since_ns) * 1e-9:.1f} s"
            chosen = min(first, key=lambda one: (one.priority_class, one.since_ns, one.index))
            return chosen, f"a less urgent batch has held it up; {mine.name!r} is overdue"
        order = plan_round(self.policy, self.view(now_ns), 1).lists[0]
        chosen = next(queries[index] for index in order if queries[index] in able)
        if len(able) == 1:
            return chosen, "no other could run"
        return chosen, f"first of {len(able)} by {self.policy.name}"

    def _has_place(self, one: _Query) -> bool:
        """Whether a place is free that the query may be given."""
        running = self._running()
        if len(running) >= self._slots:
            return False
        return one.priority_class == self.top or not self._others_full(running)

    def _others_full(self, running: Collection[_Query]) -> bool:
        """Whether the classes that are not the most urgent have all the places that they may have."""
        others = [one for one in running if one.priority_class != self.top]
        return len(others) >= self._slots - self._reserved

    def _rivals(self, one: _Query) -> list[_Query]:
        """The running queries of which one must leave before this one is given a place, if it must wait."""
        running = self._running()
        if one.priority_class != self.top and self._others_full(running):
            return [other for other in running if other.priority_class != self.top]
        return running

    def _running(self) -> list[_Query]:
        return [one for one in self._queries.values() if one.phase is Phase.RUNNING]

    # -- looking ------------------------------------------------------------------------------------------

    def view(self, now_ns: int) -> RoundView:
        """The queries as operators, in the order of first arrival; a running query has no free place."""
        queries = self._queries.values()
        operators = tuple(
            OperatorStats(
                index=one.index, name=one.name, flow=one.name, priority_class=one.priority_class, kind=2,
                cost_ns=max(one.cost_ns, 1.0), worklist=one.backlog_rows(now_ns), head_ns=one.head_ns,
                last_run_ns=one.last_run_ns, workers=int(one.phase is Phase.RUNNING), own=self._own_of(one.name),
            )
            for one in queries
        )  # fmt: skip
        alone: tuple[tuple[int, ...], ...] = ((),) * len(operators)
        return RoundView(operators, alone, alone, now_ns)

    def _own_of(self, query: str) -> dict[str, float]:
        """The policy's own features of a query."""
        return {one.name: read_feature(one, query, self.policy.name) for one in self._own}

    @property
    def waiting(self) -> tuple[str, ...]:
        """The queries whose batches wait."""
        return tuple(one.name for one in self._queries.values() if one.phase is Phase.WAITING)

    def stats(self, query: str) -> QueryStats:
        """What a query has got so far."""
        one = self._queries[query]
        return QueryStats(
            query, one.priority_class, one.phase, one.batches, one.waited_ns * 1e-9,
            one.longest_wait_ns * 1e-9, one.ran_ns * 1e-9, one.cost_ns if one.rows_sum else math.nan,
        )  # fmt: skip

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries in the order of first arrival."""
        return tuple(self._queries)
