"""Haren, Figure 6: what the sequential part of a round costs."""

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

_QUERIES: Final[dict[Effort, tuple[int, ...]]] = {"quick": (5, 20), "full": (5, 10, 15, 20)}
_SECONDS: Final[dict[Effort, float]] = {"quick": 1.2, "full": 4.0}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Times the parts that one worker does while the others wait."""
    counts, found = _QUERIES[effort], dict[tuple[str, int], dict[str, float]]()
    policies = {name: SINGLE[name] for name in (["FCFS"] if effort == "quick" else SINGLE)}
    for count in counts:
        for name, policy in policies.items():
            progress(f"{count} queries, {name}")
            found[name, count] = shares(paper_placed(policy), count, seconds=_SECONDS[effort])
    x = tuple(map(float, counts))
    panels = tuple(
        Panel(
            part, "queries", "% of the workers' time",
            tuple(Line(name, x, tuple(found[name, count][part] for count in counts)) for name in policies),
        )
        for part in ("update", "assign", "total")
    )  # fmt: skip
    few, many = (
        max(found[name, at]["total"] for name in policies) for at in (counts[0], counts[-1])
    )
    seen = f"{few:.2f} % with {counts[0]} queries, {many:.2f} % with {counts[-1]}"
    checks = (
        ShapeCheck("more queries cost more", many > few, seen),
        ShapeCheck("the sequential part stays below 2 %", many < 2, f"{many:.2f} %"),
    )
    return FigureResult(seen, panels, checks, {"few": few, "many": many})


FIGURE = PaperFigure(
    paper="haren",
    number=6,
    claim="What one thread does alone in a round grows with the queries, and stays small.",
    published="usually more with more queries; the sequential part is less than all of Algorithm 3, which is below 2 %",
    kind="real",
    through="tw.start",
    on="as Figure 5; here also ranking is sequential, since it takes less time than to share it",
    measure=measure,
)
