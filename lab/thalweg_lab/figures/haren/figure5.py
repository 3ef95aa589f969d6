"""Haren, Figure 5: what all of the scheduling task costs."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)
from thalweg_lab.figures.haren.compared import SINGLE, paper_placed
from thalweg_lab.figures.haren.overheads import shares

_QUERIES: Final[dict[Effort, tuple[int, ...]]] = {"quick": (20,), "full": (5, 10, 15, 20)}
_SECONDS: Final[dict[Effort, float]] = {"quick": 1.5, "full": 4.0}
#: What the paper says of the total, %.
PUBLISHED: Final = 2.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Times the parts of rounds at P = 100 ms."""
    counts, found = _QUERIES[effort], dict[tuple[str, int], dict[str, float]]()
    for count in counts:
        for name, policy in SINGLE.items():
            progress(f"{count} queries, {name}")
            found[name, count] = shares(paper_placed(policy), count, seconds=_SECONDS[effort])
    parts = next(iter(found.values()))
    x = tuple(map(float, counts))
    panels = tuple(
        Panel(
            part, "queries", "% of the workers' time",
            tuple(Line(name, x, tuple(found[name, count][part] for count in counts)) for name in SINGLE),
        )
        for part in parts
    )  # fmt: skip
    worst = max(one["total"] for one in found.values())
    updates = max(one["update"] for one in found.values())
    checks = (
        ShapeCheck(f"rounds take at most {PUBLISHED:g} % of the workers' time", worst <= PUBLISHED, f"{worst:.2f} %"),
        ShapeCheck("reading features takes less than 1 %", updates < 1, f"{updates:.2f} %"),
    )  # fmt: skip
    return FigureResult(
        f"{worst:.2f} % at most, without waiting for the last to come",
        panels,
        checks,
        {"total": worst},
    )


FIGURE = PaperFigure(
    paper="haren",
    number=5,
    claim="A round costs little: almost always below 2 % of the threads' time.",
    published="total almost always below 2 %; sorting and updating independent features each below 1 % (section 7.3)",
    kind="real",
    through="tw.start",
    on="chains of 12 compiled operators at 0.7 of what the workers can do, P = 100 ms, b = 10, f at random",
    measure=measure,
)
