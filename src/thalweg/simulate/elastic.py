"""A host of controllers in virtual time: it samples each period, and carries out what they suggest, or refuses.

The controllers are those of :mod:`thalweg.elasticity`, unchanged. What they are told is counted as a runtime counts
it: they see no parameter of the graph or the hardware.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from thalweg.brief import brief_repr, counted
from thalweg.elasticity import Controller, Limits, OperatorSample, Sample, Suggestion
from thalweg.errors import BuildError
from thalweg.simulate.graph import Graph, Operator
from thalweg.simulate.large_graphs.large import LargeSimulation
from thalweg.simulate.result import Counters
from thalweg.simulate.simulation import Simulation
from thalweg.stats import Change

#: Within this share of a period threads that were told to suspend should have done so, or the period is not whole; the
#: host looks so many times.
_GRACE: Final = 0.1
_LOOKS: Final = 10
#: Schneider & Wu, section 5: elastic runs are judged by their last five samples.
LAST_SAMPLES: Final = 5

#: Says why something is not to be done, or None.
Refuse = Callable[[Suggestion], str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Period:
    """A period: what the controller was told, and what left the flow."""

    sample: Sample
    rows_out: int

    @property
    def rows_per_s(self) -> float:
        """Tuples a second that left the flow."""
        return self.rows_out * 1e9 / self.sample.period_ns


@brief_repr
class ElasticHost:
    """Runs a simulation under a controller, period by period.

    A thread that was told to suspend and still works when a period is over counts as unsuspendable: a level has it in
    addition. After a change the next period begins when the threads have suspended, or a tenth of a period later.

    Args:
        simulation: it may have run before; its threads are the first level.
        controller: is started here.
        limits: thread levels.
        period_s: length of a period, virtual s. The papers have 10 s; less gives the same where that is many times
            what a tuple takes through the flow.
        max_replicas: the most threads on one operator; by default, as many as there may be.
        refuse: refuses more than what cannot be.

    Attributes:
        periods: those so far.
        changes: what was done and refused so far.
        settled_after: behind how many periods the last change was; 0 without any.

    Raises:
        BuildError: the period is not above 0.
    """

    def __init__(
        self,
        simulation: Simulation | LargeSimulation,
        controller: Controller,
        *,
        limits: Limits,
        period_s: float,
        max_replicas: int | None = None,
        refuse: Refuse | None = None,
    ) -> None:
        if not period_s > 0:
            raise BuildError(f"period_s must be above 0, not {period_s!r}")
        self.simulation = simulation
        self.controller = controller
        self.periods: list[Period] = []
        self.changes: list[Change] = []
        self.settled_after = 0
        self._limits = limits
        self._period_s = period_s
        self._max_replicas = limits.maximum if max_replicas is None else max_replicas
        self._refuse = refuse or (lambda suggestion: None)
        self._readers = _readers(simulation.graph)
        #: Threads over the level that are not to be had back, since a tuple holds them.
        self._stuck = 0
        controller.start(limits)
        if controller.initial_replicas is not None:
            for operator in simulation.graph.operators:
                if operator.kind != "stateful":
                    simulation.set_limit(operator.name, controller.initial_replicas)

    @property
    def threads(self) -> int:
        """The level, with the threads that are stuck."""
        return self.simulation.threads + self._stuck

    def run(self, periods: int) -> None:
        """So many periods."""
        for _ in range(periods):
            before = self.simulation.counters()
            self.simulation.run(self._period_s)
            after = self.simulation.counters()
            whole = len(before.late) == len(after.late) == self._stuck
            self._stuck = len(after.late)
            sample = self._sample(before, after, whole)
            self.periods.append(Period(sample, after.rows_out - before.rows_out))
            for suggestion in self.controller.decide(sample):
                self._carry_out(suggestion)
            self._await_suspensions()

    # -- what a run was like ----------------------------------------------------------------------------------------

    @property
    def levels(self) -> list[int]:
        """The thread level of each period."""
        return [period.sample.threads for period in self.periods]

    def swing(self, periods: int) -> int:
        """By how much the thread level varied in the last so many periods."""
        last = self.levels[-periods:]
        return max(last) - min(last)

    def throughput(self, periods: int = LAST_SAMPLES) -> float:
        """Tuples a second of all operators together, the mean over the last so many periods."""
        last = self.periods[-periods:]
        return sum(period.sample.throughput for period in last) / len(last)

    def rows_per_s(self, periods: int = LAST_SAMPLES) -> float:
        """Tuples a second that left the flow, the mean over the last so many periods."""
        last = self.periods[-periods:]
        return sum(period.rows_per_s for period in last) / len(last)

    # -- samples ----------------------------------------------------------------------------------------------------

    def _sample(self, before: Counters, after: Counters, whole: bool) -> Sample:
        operators = self._operators(before, after)
        length = after.now_ns - before.now_ns
        born = after.threads[len(before.threads) :]
        spent = [
            (late.busy_ns - early.busy_ns, late.scheduling_ns - early.scheduling_ns)
            for early, late in zip(before.threads, after.threads, strict=False)
        ] + [(one.busy_ns, one.scheduling_ns) for one in born]
        hardware, used = self.simulation.hardware, sum(busy + other for busy, other in spent)
        # Those above the level did nothing, but for those that are stuck there.
        busiest = sorted((busy for busy, _ in spent[self.simulation.threads :]), reverse=True)
        running = [
            *(busy for busy, _ in spent[: self.simulation.threads]),
            *busiest[: self._stuck],
        ]
        return Sample(
            now_ns=after.now_ns,
            period_ns=length,
            threads=self.threads,
            tuples=sum(one.tuples for one in operators),
            utilizations=tuple(min(busy / length, 1.0) for busy in running),
            cpu_share=min(used / length / hardware.processors, 1.0) if hardware else None,
            unsuspendable=self._stuck,
            whole=whole,
            operators=operators,
        )

    def _operators(self, before: Counters, after: Counters) -> tuple[OperatorSample, ...]:
        length = after.now_ns - before.now_ns
        counted = list(zip(before.operators, after.operators, strict=True))
        blocked = [(late.congested_ns - early.congested_ns) / length for early, late in counted]
        samples = []
        for index, (early, late) in enumerate(counted):
            operator = self.simulation.graph.operators[index]
            tuples, busy_ns = late.tuples - early.tuples, late.busy_ns - early.busy_ns
            most = self._most(operator)
            samples.append(
                OperatorSample(
                    index=index,
                    name=operator.name,
                    replicable=operator.kind != "stateful",
                    replicas=min(late.limit, most),
                    max_replicas=most,
                    tuples=tuples,
                    busy_ns=busy_ns,
                    cost_ns=busy_ns / tuples if tuples else 0.0,
                    write_blocked=blocked[index],
                    output_blocked=max((blocked[r] for r in self._readers[index]), default=0.0),
                )
            )
        return tuple(samples)

    def _most(self, operator: Operator) -> int:
        return 1 if operator.kind == "stateful" else self._max_replicas

    # -- changes ----------------------------------------------------------------------------------------------------

    def _carry_out(self, suggestion: Suggestion) -> None:
        operator = ""
        if suggestion.operator is not None:
            operator = self.simulation.graph.operators[suggestion.operator].name
        refused = self._impossible(suggestion) or self._refuse(suggestion) or ""
        if refused:
            self.controller.refused(suggestion, refused)
        else:
            self.settled_after = len(self.periods)
            if operator:
                self.simulation.set_limit(operator, suggestion.target)
            else:
                self._set_threads(suggestion.target)
        self.changes.append(
            Change(
                seconds=self.simulation.seconds,
                what=suggestion.what,
                operator=operator,
                before=suggestion.current,
                after=suggestion.target,
                reason=suggestion.reason,
                refused=refused,
            )
        )

    def _impossible(self, suggestion: Suggestion) -> str | None:
        target = suggestion.target
        if suggestion.operator is None:
            most = self._limits.with_stuck(self._stuck).maximum
            return None if self._stuck < target <= most else f"levels end at {most}"
        most = self._most(self.simulation.graph.operators[suggestion.operator])
        return None if 1 <= target <= most else f"it takes up to {counted(most, 'thread')}"

    def _set_threads(self, target: int) -> None:
        """A level with the stuck threads. A higher level takes back those of them whose number is below it."""
        level = target - self._stuck
        more = level > self.simulation.threads
        self.simulation.set_threads(level)
        while more and level + len(self.simulation.late()) < target:
            level += 1
            self.simulation.set_threads(level)
        if more:
            self._stuck = len(self.simulation.late())

    def _await_suspensions(self) -> None:
        """Lets time pass until the threads over the level have gone, but no longer than the grace."""
        for _ in range(_LOOKS):
            if len(self.simulation.late()) <= self._stuck:
                return
            self.simulation.run(self._period_s * _GRACE / _LOOKS)


def _readers(graph: Graph) -> list[list[int]]:
    """By operator, the places of those that read it."""
    places: dict[str, list[int]] = {operator.name: [] for operator in graph.operators}
    for place, operator in enumerate(graph.operators):
        for read in operator.reads:
            if read in places:
                places[read].append(place)
    return [places[operator.name] for operator in graph.operators]
