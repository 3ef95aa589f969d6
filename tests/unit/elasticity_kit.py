"""Hosts that exist on paper only: throughput as a function of the thread level, and a pipeline at its steady state."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Sequence

from thalweg.elasticity import Controller, OperatorSample, Sample, Suggestion

PERIOD_NS = 10_000_000_000
#: Tuples a second by the thread level.
Throughput = Callable[[int], float]


def linear(_: int = 0) -> Throughput:
    """Each thread adds as much as the first."""
    return lambda level: 1e6 * level


def plateau(knee: int) -> Throughput:
    """Linear up to a level, then flat."""
    return lambda level: 1e6 * min(level, knee)


def amdahl(serial: float) -> Throughput:
    """A serial share bounds it."""
    return lambda level: 1e6 * level / (1 + serial * (level - 1))


def scalability(contention: float, coherence: float) -> Throughput:
    """Gunther's universal scalability law: rising, then falling."""
    return lambda level: (
        1e6 * level / (1 + contention * (level - 1) + coherence * level * (level - 1))
    )


def tent(peak: int, fall: float) -> Throughput:
    """Linear up to a level, then falling by a share of that slope, to 0 at last."""
    return lambda level: 1e6 * (min(level, peak) - min(max(level - peak, 0) * fall, peak))


def costs(share: float) -> Throughput:
    """Each thread more only costs."""
    return lambda level: 1e6 / (1 + share * (level - 1))


def best_of(curve: Throughput, minimum: int, maximum: int) -> float:
    """The most that any level gives."""
    return max(map(curve, range(minimum, maximum + 1)))


def period(threads: int, throughput: float, **more: object) -> Sample:
    """A period at a level, with so many tuples a second."""
    tuples = round(throughput * PERIOD_NS / 1e9)
    base = Sample(now_ns=0, period_ns=PERIOD_NS, threads=threads, tuples=tuples)
    return dataclasses.replace(base, **more)  # type: ignore[arg-type]


class Host:
    """Carries out what a controller of threads suggests, on a curve.

    Attributes:
        levels: the level of each period so far.
        suggestions: all of them.
    """

    def __init__(
        self, controller: Controller, *, level: int = 1, noise: float = 0.0, seed: int = 0
    ) -> None:
        self.controller = controller
        self.level = level
        self.levels: list[int] = []
        self.suggestions: list[Suggestion] = []
        self._noise = noise
        self._random = random.Random(seed)

    def run(self, curve: Throughput, periods: int) -> int:
        """So many periods; gives the level then."""
        for _ in range(periods):
            self.levels.append(self.level)
            factor = 1 + self._random.uniform(-self._noise, self._noise)
            self.tell(period(self.level, curve(self.level) * factor))
        return self.level

    def tell(self, sample: Sample) -> None:
        """One period, and what comes of it."""
        for suggestion in self.controller.decide(sample):
            assert suggestion.what == "threads" and suggestion.current == self.level
            assert suggestion.target != self.level and suggestion.reason
            self.suggestions.append(suggestion)
            self.level = suggestion.target


@dataclasses.dataclass
class Stage:
    """An operator of a pipeline.

    Attributes:
        cost_ns: time of a thread a tuple.
        device: waits for something of which there is one: more threads do not help.
    """

    cost_ns: float
    replicable: bool = True
    replicas: int = 1
    max_replicas: int = 16
    device: bool = False

    @property
    def rate(self) -> float:
        """The most tuples a second with as many threads as may work on it."""
        return (1 if self.device else self.replicas) * 1e9 / self.cost_ns


class Pipeline:
    """Operators in a row at their steady state: the slowest, or the threads, set the pace.

    All in front of the slowest are congested: of equals the last one counts as the slowest.

    Attributes:
        source: tuples a second that there are at most.
    """

    def __init__(self, stages: Sequence[Stage], *, source: float = 1e9, threads: int = 1) -> None:
        self.stages = list(stages)
        self.source = source
        self.threads = threads

    @property
    def rate(self) -> float:
        """Tuples a second through it."""
        by_threads = self.threads * 1e9 / sum(stage.cost_ns for stage in self.stages)
        return min(self.source, by_threads, *(stage.rate for stage in self.stages))

    def sample(self) -> Sample:
        """A period."""
        rate, slowest = self.rate, self._slowest()
        operators = tuple(
            OperatorSample(
                index=index,
                name=f"stage{index}",
                replicable=stage.replicable,
                replicas=stage.replicas,
                max_replicas=stage.max_replicas,
                tuples=round(rate * 10),
                busy_ns=round(rate * stage.cost_ns * 10),
                cost_ns=stage.cost_ns,
                write_blocked=float(index <= slowest),
                output_blocked=float(index + 1 <= slowest),
            )
            for index, stage in enumerate(self.stages)
        )
        busy = rate * sum(stage.cost_ns for stage in self.stages) / 1e9
        return Sample(
            now_ns=0,
            period_ns=PERIOD_NS,
            threads=self.threads,
            tuples=sum(one.tuples for one in operators),
            utilizations=(min(busy / self.threads, 1.0),) * self.threads,
            operators=operators,
        )

    def apply(self, suggestions: Iterable[Suggestion]) -> None:
        """Does what a controller suggests."""
        for one in suggestions:
            if one.operator is None:
                assert one.current == self.threads
                self.threads = one.target
            else:
                assert one.current == self.stages[one.operator].replicas
                self.stages[one.operator].replicas = one.target

    def run(self, controller: Controller, periods: int) -> list[Suggestion]:
        """So many periods; gives what was done."""
        done: list[Suggestion] = []
        for _ in range(periods):
            found = controller.decide(self.sample())
            self.apply(found)
            done.extend(found)
        return done

    def _slowest(self) -> int:
        """The last operator that sets the pace; the first where threads do; -1: the source does."""
        if self.rate >= self.source:
            return -1
        setting = [i for i, stage in enumerate(self.stages) if stage.rate <= self.rate * (1 + 1e-9)]
        return setting[-1] if setting else 0
