"""What figures 9, 10 and 13 share: a chain that adapts, in virtual time, and where operators wait on real threads."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

from thalweg.simulate import ElasticHost
from thalweg_lab import elastic_simulated as virtual
from thalweg_lab.figures.c_stream import waits
from thalweg_lab.figures.contract import Effort, Line, Panel, Progress

#: Periods until a chain has come to rest, and those by which it is judged.
PERIODS: Final[dict[Effort, int]] = {"quick": 45, "full": 120}
LAST: Final = 3
#: How long a run on real threads takes, s: with fewer periods than the paper's, which are of 10 s.
_REAL_S: Final[dict[Effort, float]] = {"quick": 5.0, "full": 20.0}
_ALONE_S: Final = 1.0
#: Tuples a second that the source gives, at most.
PACE: Final = 1e9 / virtual.READ_NS


@dataclasses.dataclass(frozen=True, slots=True)
class AdaptedRun:
    """A chain at rest: tuples a second with one thread, and elastically; threads, and replicas of each operator."""

    alone: float
    elastic: float
    threads: int
    replicas: tuple[int, ...]


@functools.cache
def host_of(busy: int, cost_us: float, effort: Effort) -> ElasticHost:
    """The elastic run in virtual time."""
    return virtual.chain_elastic(busy, cost_us, PERIODS[effort])


def adapted(busy: int, cost_us: float, effort: Effort) -> AdaptedRun:
    """In virtual time."""
    host = host_of(busy, cost_us, effort)
    last = host.periods[-1].sample
    replicas = tuple(one.replicas for one in last.operators if one.name.startswith("busy"))
    alone = virtual.chain_static(busy, cost_us, 1, 1)
    return AdaptedRun(alone, host.rows_per_s(LAST), last.threads, replicas)


def trace(busy: int, cost_us: float, effort: Effort) -> Panel:
    """Threads and replicas over periods (Figures 9b and 10b)."""
    periods = host_of(busy, cost_us, effort).periods
    x = tuple(float(number) for number in range(len(periods)))
    lines = [Line("threads", x, tuple(float(one.sample.threads) for one in periods))]
    for number, operator in enumerate(periods[0].sample.operators):
        if operator.name.startswith("busy"):
            y = tuple(float(one.sample.operators[number].replicas) for one in periods)
            lines.append(Line(f"replicas of {operator.name}", x, y))
    return Panel(f"{cost_us:.0f} µs, virtual time", "period", "threads, replicas", tuple(lines))


@dataclasses.dataclass(frozen=True, slots=True)
class RealWaits:
    """A chain that waits, on real threads: tuples a second of each way, and the elastic run."""

    alone: float
    elastic: waits.Waited

    @property
    def times(self) -> float:
        """How much faster the elastic run is."""
        return self.elastic.rows_per_s / max(self.alone, 1e-9)


def waiting(busy: int, cost_us: float, effort: Effort, progress: Progress) -> RealWaits:
    """On real threads, each wait a hundred times the paper's cost."""
    progress(f"{busy} operators that wait for {cost_us * waits.SCALE / 1_000:.0f} ms, real threads")
    alone = waits.alone(busy, cost_us, _ALONE_S)
    return RealWaits(alone.rows_per_s, waits.elastic(busy, cost_us, _REAL_S[effort]))
