"""Adaptation with two busy operators (Figure 10)."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.c_stream.adapting import PACE, adapted, host_of, trace, waiting
from thalweg_lab.figures.c_stream.shape import PAPER, above, between, falls, rises
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

_COSTS: Final[dict[Effort, tuple[float, ...]]] = {
    "quick": (20.0, 60.0),
    "full": (20.0, 30.0, 40.0, 50.0, 60.0),
}
_SHOWN_US: Final = 60.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time by cost; waiting operators on real threads."""
    found = {}
    for cost in _COSTS[effort]:
        progress(f"two busy operators of {cost:.0f} µs, virtual time")
        found[cost] = adapted(2, cost, effort)
    here = waiting(2, _SHOWN_US, effort, progress)
    shown = found[_SHOWN_US]
    given = [
        one.operator
        for one in host_of(2, _SHOWN_US, effort).changes
        if one.what == "replicas" and one.after > one.before
    ]
    both = [here.elastic.replicas(f"busy {number}") for number in range(2)]
    checks = (
        falls(
            "one thread, one replica: throughput falls as cost rises",
            [one.alone for one in found.values()],
        ),
        between(
            "elastic: it stays at the source's pace",
            min(one.elastic for one in found.values()) / PACE,
            0.8,
            1.05,
        ),
        rises(
            "replicas of both together rise with cost",
            [float(sum(one.replicas)) for one in found.values()],
            slack=0,
        ),
        between("60 µs: four replicas of the one", shown.replicas[0], 3, 5),
        between("60 µs: four of the other", shown.replicas[1], 3, 5),
        between("60 µs: ten threads", shown.threads, 9, 12),
        above("replicas go to both, not to one until it has all", len(set(given[:4])), 2),
        above("real threads: more than one thread gives", here.times, 1.5),
        above("real threads: both have replicas", min(both), 2),
    )
    x = tuple(found)
    panels = (
        Panel(
            "virtual time",
            "cost, µs",
            "tuples/s",
            (
                Line("elastic", x, tuple(one.elastic for one in found.values())),
                Line("one thread, one replica", x, tuple(one.alone for one in found.values())),
            ),
        ),
        trace(2, _SHOWN_US, effort),
    )
    ours = (
        f"60 µs: {shown.replicas[0]} and {shown.replicas[1]} replicas, {shown.threads} "
        f"threads, {shown.elastic:,.0f}/s against "
        f"{shown.alone:,.0f}; waiting on real threads: {here.elastic.rows_per_s:.0f}/s with "
        f"{both[0]} and {both[1]} replicas against {here.alone:.0f}"
    )
    return FigureResult(ours, panels, checks, {"real, times": here.times})


FIGURE = PaperFigure(
    paper=PAPER,
    number=10,
    claim="With two busy operators replicas go to both in turn until no input is congested",
    published="60 µs: 4 replicas each and 10 threads; throughput stable over all costs",
    kind="real and simulated",
    through="thalweg.simulate.ElasticHost, tw.run",
    on="chain with two busy operators of 20 to 60 µs, 12 cores; two that wait 6 ms, 12 real threads",
    measure=measure,
)
