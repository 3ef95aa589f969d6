"""Haren, Figure 9: bursts of urgent queries while there is more work than the processors can do."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.contract import Effort, FigureResult, PaperFigure, Progress, ShapeCheck
from thalweg_lab.figures.haren.compared import (
    ENDS,
    OVERLOAD,
    check,
    class_measures,
    over_time,
    run_both,
)
from thalweg_lab.figures.haren.queries import BURST_PER_S, BURST_SHARE, Rate, two_classes

#: How many times less HIGH's maximum is to be, by how tuples come and go: a batch, or a row of plain Python at a time.
_TIMES: Final = {"batches": 10.0, "rows": 5.0}
_SECONDS: Final[dict[Effort, float]] = {"quick": 4.0, "full": 20.0}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Runs both ways with two bursts of HIGH."""
    seconds = _SECONDS[effort]
    high = Rate(BURST_PER_S, seconds / 2 * BURST_SHARE, seconds / 2)
    queries = two_classes(high, seed=0, load=OVERLOAD)
    found = run_both(queries, OVERLOAD, seconds, ENDS[effort], progress)
    numbers, first = class_measures(found), ENDS[effort][0]
    checks = []
    for ends in ENDS[effort]:
        ours, os = (numbers[f"max ms, HIGH, {way}, {ends}"] for way in ("Haren", "OS"))
        times = _TIMES[ends]
        checks += [
            ShapeCheck(
                f"HIGH's maximum is {times:g} times smaller than with a thread an operator, ends by {ends}",
                os >= times * ours, f"{os:.0f} ms to {ours:.0f} ms, {os / ours:.1f} times",
            ),
            check(
                f"HIGH puts out at least as much, ends by {ends}",
                numbers[f"tuples out, HIGH, OS, {ends}"], numbers[f"tuples out, HIGH, Haren, {ends}"], at_most=1.02,
            ),
            check(
                f"LOW's mean stays below HIGH's with a thread an operator, ends by {ends}",
                numbers[f"mean ms, LOW, Haren, {ends}"], numbers[f"mean ms, HIGH, OS, {ends}"],
            ),
        ]  # fmt: skip
    ours, os = (numbers[f"max ms, HIGH, {way}, {first}"] for way in ("Haren", "OS"))
    return FigureResult(
        f"HIGH's maximum {os:.0f} ms with a thread an operator, {ours:.0f} ms under MultiClass",
        over_time(found, first, seconds), tuple(checks), numbers,
    )  # fmt: skip


FIGURE = PaperFigure(
    paper="haren",
    number=9,
    claim="In overload HIGH's maximum latency stays small under Multi-Class; with a thread an operator it grows.",
    published=(
        "HIGH's maximum 17.4 s smaller, near-constant at 0.1 s; LOW's mean 2.6 s, below HIGH's 3.5 s with a thread an"
        " operator; HIGH's throughput better, LOW's slightly worse (section 7.4)"
    ),
    kind="real",
    through="tw.start",
    on="HIGH 5000/s for a quarter of the time, LOW 1000/s, 12 compiled operators each, 1.3 times what two workers do",
    measure=measure,
)
