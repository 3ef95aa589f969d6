"""What Haren's figures share: how much work there is for the cores that there are, and ways to schedule it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from thalweg.scheduling import (
    Chain,
    FirstComeFirstServed,
    HighestRate,
    MultiClass,
    RandomPlacement,
    RoundPolicy,
)
from thalweg_lab.figures.contract import Effort, Line, Panel, Progress, ShapeCheck
from thalweg_lab.figures.haren.queries import ChainQuery
from thalweg_lab.figures.haren.runs import WARM_UP_S, Floats, RanFlows, Way, capacity, members, run

#: Workers of real runs.
THREADS: Final = 2
#: Work that arrives with the most queries, as a multiple of what the cores can do.
OVERLOAD: Final = 1.3
#: How long runs are looked at, s.
SECONDS: Final[Mapping[Effort, float]] = {"quick": 2.0, "full": 5.0}
#: Single-class policies of 7.2, by the names of the paper.
SINGLE: Final[Mapping[str, Callable[..., RoundPolicy]]] = {
    "FCFS": FirstComeFirstServed,
    "HR": HighestRate,
    "Chain": Chain,
}


def multi_class() -> RoundPolicy:
    """The policy of 7.4: HIGH by FCFS before LOW by HR."""
    return MultiClass({0: FirstComeFirstServed(), 1: HighestRate()}, starve_after_s=None)


def single_class_ways() -> dict[str, Way]:
    """A thread an operator, and the policies of 7.2 without aging."""
    made: dict[str, Way] = {"OS": "dedicated"}
    return made | {name: policy(starve_after_s=None) for name, policy in SINGLE.items()}


def paper_placed(policy: Callable[..., RoundPolicy], period_s: float = 0.1) -> RoundPolicy:
    """A policy with all of the paper's settings."""
    return policy(placement=RandomPlacement(), starve_after_s=None, period_s=period_s)


def cores() -> float:
    """How many cores' worth of work the workers get done: other programs may run on this machine."""
    return capacity(threads=THREADS)


def base_ns(queries: Sequence[ChainQuery], load: float, of_cores: float) -> float:
    """The paper's B, so that all queries together are so much of what the cores can do, CPU ns."""
    total: float = sum(one.load for one in queries)
    return load * of_cores * 1e9 / total


def check(says: str, ours: float, than: float, *, at_most: float = 1.0) -> ShapeCheck:
    """Whether a number is at most a share of another one."""
    return ShapeCheck(
        says, ours <= at_most * than, f"{ours:.4g} beside {than:.4g}, {ours / than if than else 0:.2g} x"
    )  # fmt: skip


def two_ways() -> dict[str, Way]:
    """The ways of 7.4."""
    return {"OS": "dedicated", "Haren": multi_class()}


#: By effort, how tuples come and go: a batch at a time, or a row of plain Python.
ENDS: Final[dict[Effort, tuple[str, ...]]] = {"quick": ("batches",), "full": ("batches", "rows")}


def run_both(
    queries: Sequence[ChainQuery],
    load: float,
    seconds: float,
    ends: Sequence[str],
    progress: Progress,
) -> dict[tuple[str, str], RanFlows]:
    """Runs the queries both ways with each kind of ends, at a load; by way and ends."""
    each_ns, found = base_ns(queries, load, cores()), dict[tuple[str, str], RanFlows]()
    for of in ends:
        for name, way in two_ways().items():
            progress(f"{name}, ends by {of}")
            found[name, of] = run(
                queries, way, base_ns=each_ns, seconds=seconds, threads=THREADS,
                by_batch=of == "batches", own_ends=way != "dedicated",
            )  # fmt: skip
    return found


CLASSES: Final[Mapping[str, int]] = {"HIGH": 0, "LOW": 1}


def class_measures(found: Mapping[tuple[str, str], RanFlows]) -> dict[str, float]:
    """By way, ends and class: what left, and how late."""
    numbers = {}
    for (way, ends), ran in found.items():
        for name, number in CLASSES.items():
            mine = members(ran.queries, number)
            at = f"{name}, {way}, {ends}"
            numbers[f"throughput, {at}"] = ran.in_per_s(mine)
            numbers[f"tuples out, {at}"] = ran.out_per_s(mine)
            numbers[f"mean ms, {at}"] = ran.mean_ms(mine)
            numbers[f"max ms, {at}"] = ran.max_ms(mine)
        numbers[f"CPU cores, {way}, {ends}"] = ran.cores
    return numbers


def over_time(
    found: Mapping[tuple[str, str], RanFlows], ends: str, seconds: float
) -> tuple[Panel, ...]:
    """A panel a class and measure, over the time at which tuples left, as in the paper's figures."""
    step_s = max(seconds / 20, 0.25)
    edges = np.arange(WARM_UP_S, WARM_UP_S + seconds + step_s / 2, step_s)
    panels = []
    for name, number in CLASSES.items():
        for what in ("throughput, tuples/s", "mean latency, ms", "maximum latency, ms"):
            lines = []
            for (way, of), ran in found.items():
                if of == ends:
                    y = _series(ran, members(ran.queries, number), edges, what)
                    x = tuple((edges[:-1] - WARM_UP_S).tolist())
                    lines.append(Line(way, x, y))
            panels.append(Panel(f"{name}, {what}", "s", what, tuple(lines)))
    return tuple(panels)


def _series(ran: RanFlows, mine: Sequence[int], edges: Floats, what: str) -> tuple[float, ...]:
    left = np.concatenate([ran.left_s[q] for q in mine])
    late = ran.latencies_ms(mine)
    made = []
    for begin, end in itertools.pairwise(edges.tolist()):
        here = late[(left >= begin) & (left < end)]
        if what.startswith("throughput"):
            made.append(len(here) / (end - begin))
        elif not len(here):
            made.append(0.0)
        else:
            made.append(float(here.mean() if what.startswith("mean") else here.max()))
    return tuple(made)
