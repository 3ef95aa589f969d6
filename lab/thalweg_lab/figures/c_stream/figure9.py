"""Adaptation with one busy operator (Figure 9)."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.c_stream.adapting import PACE, adapted, trace, waiting
from thalweg_lab.figures.c_stream.shape import PAPER, above, between, falls, rises
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

_COSTS: Final[dict[Effort, tuple[float, ...]]] = {
    "quick": (20.0, 80.0, 140.0),
    "full": (20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0),
}
_SHOWN_US: Final = 80.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time by cost; waiting operators on real threads."""
    found = {}
    for cost in _COSTS[effort]:
        progress(f"one busy operator of {cost:.0f} µs, virtual time")
        found[cost] = adapted(1, cost, effort)
    here = waiting(1, _SHOWN_US, effort, progress)
    shown, replicas = found[_SHOWN_US], here.elastic.replicas("busy 0")
    checks = (
        falls(
            "one thread, one replica: throughput falls as cost rises",
            [one.alone for one in found.values()],
        ),
        between(
            "elastic: it stays at the source's pace at every cost",
            min(one.elastic for one in found.values()) / PACE,
            0.85,
            1.05,
        ),
        rises(
            "replicas rise with cost", [float(one.replicas[0]) for one in found.values()], slack=0
        ),
        rises("threads rise with cost", [float(one.threads) for one in found.values()], slack=0),
        between("80 µs: five replicas", shown.replicas[0], 4, 6),
        between("80 µs: seven threads", shown.threads, 6, 8),
        above(
            "real threads: replicas of an operator that waits give more than one thread does",
            here.times,
            1.5,
        ),
        above("real threads: it has replicas", replicas, 2),
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
        Panel(
            "virtual time",
            "cost, µs",
            "threads, replicas",
            (
                Line("threads", x, tuple(float(one.threads) for one in found.values())),
                Line("replicas", x, tuple(float(one.replicas[0]) for one in found.values())),
            ),
        ),
        trace(1, _SHOWN_US, effort),
    )
    ours = (
        f"80 µs: {shown.replicas[0]} replicas, {shown.threads} threads, {shown.elastic:,.0f}/s "
        f"against {shown.alone:,.0f}; waiting on "
        f"real threads: {here.elastic.rows_per_s:.0f}/s with {replicas} replicas, "
        f"{here.elastic.threads} threads, against {here.alone:.0f}"
    )
    return FigureResult(ours, panels, checks, {"real, times": here.times})


FIGURE = PaperFigure(
    paper=PAPER,
    number=9,
    claim="Replicas and threads rise with an operator's cost and hold throughput, which collapses with one thread",
    published="80 µs: 5 replicas and 7 threads; throughput stable over all costs",
    kind="real and simulated",
    through="thalweg.simulate.ElasticHost, tw.run",
    on="chain with one busy operator of 20 to 140 µs, 12 cores; one that waits 8 ms, 12 real threads",
    measure=measure,
)
