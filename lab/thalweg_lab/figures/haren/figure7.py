"""Haren, Figure 7: what rounds cost by period, queries and base cost."""

from __future__ import annotations

from typing import Final

from thalweg.scheduling import FirstComeFirstServed
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)
from thalweg_lab.figures.haren.compared import paper_placed
from thalweg_lab.figures.haren.overheads import shares

_PERIODS_S: Final[dict[Effort, tuple[float, ...]]] = {
    "quick": (0.02, 0.1, 0.5),
    "full": (0.01, 0.05, 0.1, 0.5, 1.0),
}
_QUERIES: Final[dict[Effort, tuple[int, ...]]] = {"quick": (20,), "full": (5, 20)}
#: The paper's B from 100 to 1600 as loads: what each doubling does to the work that arrives.
_LOADS: Final[dict[Effort, tuple[float, ...]]] = {"quick": (0.6,), "full": (0.05, 0.2, 0.8)}
_SECONDS: Final[dict[Effort, float]] = {"quick": 1.5, "full": 2.0}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Times rounds under FCFS."""
    lines, found = list[Line](), dict[tuple[int, float, float], float]()
    periods = _PERIODS_S[effort]
    for queries in _QUERIES[effort]:
        for load in _LOADS[effort]:
            for period_s in periods:
                progress(f"{queries} queries, load {load:g}, P = {1e3 * period_s:g} ms")
                policy = paper_placed(FirstComeFirstServed, period_s)
                seconds = max(_SECONDS[effort], 2.5 * period_s)
                cost = shares(policy, queries, seconds=seconds, load=load)
                found[queries, load, period_s] = cost["total"]
            y = tuple(found[queries, load, period_s] for period_s in periods)
            lines.append(Line(f"{queries} queries, load {load:g}", tuple(1e3 * one for one in periods), y))  # fmt: skip
    longer = all(line.y[-1] < line.y[0] for line in lines)
    usual = max(found[key] for key in found if key[2] >= 0.1)
    seen = "; ".join(f"{line.y[0]:.2f} to {line.y[-1]:.2f} %" for line in lines)
    checks = (
        ShapeCheck("a longer period costs less", longer, seen),
        ShapeCheck("at P = 100 ms and more it is below 5 %", usual < 5, f"{usual:.2f} %"),
    )
    panel = Panel("cost of rounds under FCFS", "P, ms", "% of the workers' time", tuple(lines), "x")
    return FigureResult(f"{usual:.2f} % at most from P = 100 ms on", (panel,), checks, {"usual": usual})  # fmt: skip


FIGURE = PaperFigure(
    paper="haren",
    number=7,
    claim="A shorter period costs more, and so do more queries; the cost stays below 5 %.",
    published="below 5 % in all cases, inverse to P, more with more queries; B from 100 to 1600 (section 7.3)",
    kind="real",
    through="tw.start",
    on="as Figure 5, FCFS; base costs as shares of what the workers can do",
    measure=measure,
)
