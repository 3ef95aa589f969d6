"""Adaptation of the number of threads: data parallelism of twelve under two thresholds (Figure 11)."""

from __future__ import annotations

from typing import Final

from thalweg_lab import elastic_simulated as virtual
from thalweg_lab.figures.c_stream.shape import PAPER, above, between
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

_LEVELS: Final[dict[Effort, tuple[int, ...]]] = {
    "quick": (1, 4, 8, 12),
    "full": tuple(range(1, 13)),
}
_PERIODS: Final[dict[Effort, int]] = {"quick": 20, "full": 60}
_LAST: Final = 3
_HIGHS: Final = (0.95, 0.90)


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Every level by hand, and where each threshold ends."""
    static = {}
    for threads in _LEVELS[effort]:
        progress(f"{threads} threads, virtual time")
        static[threads] = virtual.wide_static(threads)
    ends = {}
    for high in _HIGHS:
        progress(f"U_h = {high:.2f}, virtual time")
        host = virtual.wide_elastic(high, _PERIODS[effort])
        ends[high] = (host.periods[-1].sample.threads, host.rows_per_s(_LAST))
    best = max(static.values())
    (calm, _), (eager, found) = ends[0.95], ends[0.90]
    checks = (
        between("U_h = 0.90 obtains the most that there is", found / best, 0.95, 1.1),
        above("and has at least as many threads as 0.95", eager, calm),
        above("more threads give more, up to the last", static[12], static[4], 2),
    )
    x = tuple(map(float, static))
    panel = Panel(
        "virtual time",
        "threads",
        "tuples/s",
        (
            Line("by hand", x, tuple(static.values())),
            *(
                Line(f"elastic, U_h = {high:.2f}", (float(ends[high][0]),), (ends[high][1],))
                for high in _HIGHS
            ),
        ),
    )
    ours = (
        f"0.95 ends at {calm} threads with {ends[0.95][1]:,.0f}/s, 0.90 at {eager} with "
        f"{found:,.0f}, of {best:,.0f} that the best "
        "number gives"
    )
    return FigureResult(ours, (panel,), checks, {"of the best": found / best})


FIGURE = PaperFigure(
    paper=PAPER,
    number=11,
    claim="U_h = 0.90 raises threads further than 0.95 and obtains the most that the system can",
    published="0.90 reaches the maximum of the curve, 0.95 stays below",
    kind="simulated",
    through="thalweg.simulate.ElasticHost",
    on="12 busy operators of 100 µs side by side, 12 cores",
    measure=measure,
)
