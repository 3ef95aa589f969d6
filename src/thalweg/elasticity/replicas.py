"""How many threads may work on an operator: more on a bottleneck (Sahin & Gedik, *C-Stream*, section 4.2).

An operator is a bottleneck if its input is congested and none of its readers' is: then it is not slow because it is
held up, but because it has too few threads. It gets one replica more. What the paper leaves to others, or out:

- Where the threads are too few for all operators, inputs fill up anywhere. An operator whose replicas are not at work
  most of the time would gain nothing from one more.
- An operator that gains nothing from one more and is still the bottleneck, as one that waits for a device, loses it
  again and is left alone for some time (blacklisting; the paper names Tang & Gedik 2013).
- An operator whose replicas have little to do loses one. If that makes it a bottleneck, it does not lose one again.

A replica is one more thread that may be in a stateless or keyed operator at a time. Order needs no merge that waits
for each replica: operators give out in order what was worked on in any.
"""

from __future__ import annotations

import dataclasses

from thalweg.brief import brief_repr
from thalweg.checks import require_int, require_share
from thalweg.elasticity.controller import Controller
from thalweg.elasticity.measures import relative_difference
from thalweg.elasticity.samples import Limits, OperatorSample, Sample, Suggestion


@dataclasses.dataclass(slots=True)
class _Story:
    """What was tried with an operator.

    Attributes:
        bans: how often it gained nothing from one.
        banned_until: the period before which it gets no replica more.
        cost_ns: what a tuple cost when it was banned, or when its floor was found.
        floor: it keeps so many replicas.
        calm: for how many periods in a row it has had little to do.
        lost_at: the period in which it last lost a replica for that; -1: never.
    """

    bans: int = 0
    banned_until: int = -1
    cost_ns: float = 0.0
    floor: int = 1
    calm: int = 0
    lost_at: int = -1


@dataclasses.dataclass(frozen=True, slots=True)
class _Trial:
    """A replica was added: to which operator, how many it had, what it got done before, and in which period."""

    operator: int
    replicas: int
    throughput: float
    period: int


@brief_repr
class Replicas(Controller):
    """Replicas by congestion, one change a period.

    Args:
        initial: how many replicas operators have at first.
        congestion: the share of a period from which on an input that is full counts as congested (τ; section 5.2).
        gain: a replica more must give the operator so much more throughput, as a share, or it is taken back, unless
            the bottleneck is elsewhere since.
        trial_periods: for how many periods a new replica works before that is asked.
        ban_periods: for how many an operator that did not gain gets no other replica, the first time; each time
            twice as many. It may earlier where its cost a tuple changes by ``cost_change``.
        cost_change: by which share of the smaller one costs must differ to count as changed.
        at_work: an operator whose replicas are at work for less than this share of the period gets no other one.
        busy: none does while there are as many threads as may be, and they are busy for more than this share.
        low: an operator loses a replica if those left would be busy for less than this share of the period ...
        calm_periods: ... for so many periods in a row. 0: never.

    Raises:
        BuildError: a parameter makes no sense.
    """

    def __init__(
        self,
        *,
        initial: int = 1,
        congestion: float = 0.01,
        gain: float = 0.05,
        trial_periods: int = 1,
        ban_periods: int = 30,
        cost_change: float = 0.2,
        at_work: float = 0.7,
        busy: float = 0.95,
        low: float = 0.7,
        calm_periods: int = 3,
    ) -> None:
        super().__init__()
        require_share(
            self,
            congestion=congestion,
            gain=gain,
            cost_change=cost_change,
            at_work=at_work,
            busy=busy,
            low=low,
        )
        require_int(self, 1, initial=initial, trial_periods=trial_periods, ban_periods=ban_periods)
        require_int(self, 0, calm_periods=calm_periods)
        self.initial_replicas = initial
        self.congestion = congestion
        self.gain = gain
        self.trial_periods = trial_periods
        self.ban_periods = ban_periods
        self.cost_change = cost_change
        self.at_work = at_work
        self.busy = busy
        self.low = low
        self.calm_periods = calm_periods
        self.start(self.limits)

    def start(self, limits: Limits) -> None:
        super().start(limits)
        self._period = 0
        self._stories: dict[int, _Story] = {}
        self._trial: _Trial | None = None

    @property
    def settled(self) -> bool:
        return self._trial is None

    def blacklisted(self) -> frozenset[int]:
        """The operators that gained nothing from a replica and get none for now."""
        return frozenset(
            index for index, story in self._stories.items() if story.banned_until > self._period
        )

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if not sample.whole:
            return ()
        self._period += 1
        for operator in sample.operators:
            self._observe(operator, sample)
        if self._trial is not None:
            if self._period - self._trial.period < self.trial_periods:
                return ()
            found = self._judge(self._trial, sample)
            if found:
                return found
        return self._add(sample) or self._remove(sample)

    def refused(self, suggestion: Suggestion, reason: str) -> None:
        """The operator is left alone for some time."""
        if suggestion.what == "replicas" and suggestion.operator is not None:
            self._trial = None
            story = self._stories[suggestion.operator]
            story.calm = 0
            self._ban(story)
            story.floor = max(story.floor, suggestion.current)

    # --- more -----------------------------------------------------------------------------------------------------

    def bottleneck(self, operators: tuple[OperatorSample, ...]) -> OperatorSample | None:
        """The most congested operator whose readers are not (Algorithm 9), the earliest of equals; None: none.

        The paper takes the first one it finds.
        """
        found = [
            one
            for one in operators
            if one.replicable
            and one.write_blocked >= self.congestion
            and one.output_blocked < self.congestion
        ]
        return min(found, key=lambda one: (-one.write_blocked, one.index), default=None)

    def _add(self, sample: Sample) -> tuple[Suggestion, ...]:
        if sample.threads >= self.limits.maximum and sample.utilization > self.busy:
            return ()
        banned = self.blacklisted()
        found = self.bottleneck(
            tuple(
                one
                for one in sample.operators
                if one.index not in banned
                and one.replicas < self._most(one)
                and one.busy_ns >= self.at_work * one.replicas * sample.period_ns
            )
        )
        if found is None:
            return ()
        throughput = found.tuples * 1e9 / sample.period_ns
        self._trial = _Trial(found.index, found.replicas, throughput, self._period)
        story = self._stories[found.index]
        if story.lost_at >= 0 and self._period - story.lost_at <= self.ban_periods:
            # It was taken for idle, and was not.
            story.floor, story.cost_ns, story.lost_at = found.replicas + 1, found.cost_ns, -1
        why = (
            f"the input of {found.name} was full for {found.write_blocked:.0%} of the time, "
            f"those of its readers for {found.output_blocked:.0%}"
        )
        return (_suggest(found, found.replicas + 1, why),)

    def _most(self, operator: OperatorSample) -> int:
        """More replicas than threads would not run."""
        return min(operator.max_replicas, self.limits.maximum)

    def _judge(self, trial: _Trial, sample: Sample) -> tuple[Suggestion, ...]:
        """Whether the replica was worth it."""
        self._trial = None
        operator = next(one for one in sample.operators if one.index == trial.operator)
        throughput = operator.tuples * 1e9 / sample.period_ns
        if throughput > (1 + self.gain) * trial.throughput or operator.replicas <= trial.replicas:
            return ()
        if self.bottleneck((operator,)) is None:
            return ()
        story = self._stories[operator.index]
        self._ban(story)
        story.cost_ns = operator.cost_ns
        why = (
            f"{operator.name} gained nothing from its last replica: {trial.throughput:,.0f} tuples/s before, "
            f"{throughput:,.0f} after"
        )
        return (_suggest(operator, trial.replicas, why),)

    def _ban(self, story: _Story) -> None:
        story.banned_until = self._period + self.ban_periods * 2**story.bans
        story.bans += 1

    # --- less -----------------------------------------------------------------------------------------------------

    def _observe(self, operator: OperatorSample, sample: Sample) -> None:
        """Counts periods with little to do, and forgets what was tried under another cost."""
        story = self._stories.setdefault(operator.index, _Story())
        costs = (operator.cost_ns, story.cost_ns)
        if min(costs) > 0 and relative_difference(*costs) > self.cost_change:
            story.bans, story.banned_until, story.floor, story.cost_ns = 0, -1, 1, 0.0
        others = operator.replicas - 1
        idle = (
            others > 0
            and operator.write_blocked < self.congestion
            and operator.busy_ns < self.low * others * sample.period_ns
        )
        story.calm = story.calm + 1 if idle else 0

    def _remove(self, sample: Sample) -> tuple[Suggestion, ...]:
        for operator in sample.operators:
            story = self._stories[operator.index]
            if (
                operator.replicable
                and self.calm_periods
                and story.calm >= self.calm_periods
                and operator.replicas > story.floor
            ):
                story.calm, story.lost_at = 0, self._period
                busy = operator.busy_ns / sample.period_ns
                why = f"{operator.name} keeps {busy:.2f} threads busy and has {operator.replicas}"
                return (_suggest(operator, operator.replicas - 1, why),)
        return ()


def _suggest(operator: OperatorSample, target: int, why: str) -> Suggestion:
    return Suggestion("replicas", operator.index, operator.replicas, target, why)
