"""Haren, Figure 8: urgent queries and others where there is enough of everything."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.contract import Effort, FigureResult, PaperFigure, Progress, ShapeCheck
from thalweg_lab.figures.haren.compared import (
    ENDS,
    SECONDS,
    check,
    class_measures,
    over_time,
    run_both,
)
from thalweg_lab.figures.haren.queries import HIGH_PER_S, Rate, two_classes

#: Of what the workers can do; the ends need processors, too.
_LOAD: Final = 0.4


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Runs both ways, with ends by batch and, for a table, row by row."""
    queries, seconds = two_classes(Rate(HIGH_PER_S), seed=0, load=_LOAD), SECONDS[effort]
    found = run_both(queries, _LOAD, seconds, ENDS[effort], progress)
    numbers, ends = class_measures(found), ENDS[effort][0]
    checks = []
    for of in ENDS[effort]:
        for what in ("max ms", "mean ms"):
            checks.append(
                check(
                    f"HIGH's {what} is no worse than with a thread an operator, ends by {of}",
                    numbers[f"{what}, HIGH, Haren, {of}"], numbers[f"{what}, HIGH, OS, {of}"], at_most=1.1,
                )
            )  # fmt: skip
        ours, os = (numbers[f"throughput, LOW, {way}, {of}"] for way in ("Haren", "OS"))
        checks.append(
            ShapeCheck(
                f"LOW keeps its throughput, ends by {of}", ours >= 0.95 * os, f"{ours:.0f}/s beside {os:.0f}/s"
            )
        )  # fmt: skip
    ours_ms, os_ms = (numbers[f"max ms, HIGH, {way}, {ends}"] for way in ("Haren", "OS"))
    return FigureResult(
        f"HIGH's maximum {os_ms:.0f} ms with a thread an operator, {ours_ms:.0f} ms under MultiClass",
        over_time(found, ends, seconds), tuple(checks), numbers,
    )  # fmt: skip


FIGURE = PaperFigure(
    paper="haren",
    number=8,
    claim="With enough processors both ways keep up; under Multi-Class HIGH is much less late, LOW about as before.",
    published=(
        "HIGH 500/s and LOW 1000/s each: both match the rates; Haren's maximum and mean latency of HIGH much lower,"
        " LOW's mean similar, its maximum higher (the text names no values)"
    ),
    kind="real",
    through="tw.start",
    on="3 HIGH and 10 LOW chains of 12 compiled operators at 0.4 of what two workers can do, the ends not counted",
    measure=measure,
)
