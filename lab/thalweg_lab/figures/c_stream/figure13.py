"""Against a system with a thread for each operator, with adaptation (Figure 13)."""

from __future__ import annotations

from typing import Final

from thalweg_lab import elastic_simulated as virtual
from thalweg_lab.figures.c_stream import waits
from thalweg_lab.figures.c_stream.adapting import adapted, waiting
from thalweg_lab.figures.c_stream.shape import PAPER, above, between
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

#: Busy operators, and their cost, µs (section 5.3).
_CASES: Final = ((1, 100.0), (2, 140.0))
_PUBLISHED: Final = {1: 6.2, 2: 3.8}
#: With a thread an operator, virtual time: as many as there are operators, one replica each.
_ENDS: Final = 2
_REAL_S: Final = 1.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time with one and two busy operators; with one that waits, on real threads."""
    times = {}
    for busy, cost in _CASES:
        progress(f"{busy} busy of {cost:.0f} µs, virtual time")
        executors = virtual.chain_static(busy, cost, 1, busy + _ENDS)
        times[busy] = adapted(busy, cost, effort).elastic / executors
    busy, cost = _CASES[0]
    here = waiting(busy, cost, effort, progress)
    executors = waits.dedicated(busy, cost, _REAL_S).rows_per_s
    real = here.elastic.rows_per_s / executors
    checks = (
        between("one busy operator: about 6.2 times", times[1], 4.5, 8),
        between("two busy operators: several times", times[2], 2.5, 7),
        above("the gain is greater with one, where there are threads enough", times[1], times[2]),
        above("real threads, waiting: adaptation beats a thread an operator", real, 1.5),
    )
    x = (1.0, 2.0)
    panel = Panel(
        "virtual time",
        "busy operators",
        "times a thread an operator",
        (
            Line("here", x, (times[1], times[2])),
            Line("published, against Storm", x, (_PUBLISHED[1], _PUBLISHED[2])),
        ),
    )
    ours = (
        f"{times[1]:.1f}x with one busy operator of 100 µs, {times[2]:.1f}x with two of 140; waiting on real threads "
        f"{here.elastic.rows_per_s:.0f}/s against {executors:.0f} ({real:.1f}x)"
    )
    return FigureResult(ours, (panel,), checks, {"real, times": real})


FIGURE = PaperFigure(
    paper=PAPER,
    number=13,
    claim="With adaptation throughput is several times that of a system with a thread an operator",
    published="6.2x Storm with one busy operator of 100 µs, 3.8x with two of 140 µs",
    kind="real and simulated",
    through="thalweg.simulate.ElasticHost, tw.run(threading='dedicated')",
    on="chains with one and two busy operators, 12 cores; one that waits 10 ms, 12 real threads",
    measure=measure,
)
