"""Figure 12: how many of the pairs must be counted for how much locality, by the number of slots."""

from __future__ import annotations

from typing import Final

from thalweg.locality import evaluate, partition
from thalweg_lab.figures.caneill.checks import PAPER, SLOTS, rises, shown, wins
from thalweg_lab.figures.caneill.samples import SAMPLES, sketched
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)

_PAIRS: Final[dict[Effort, tuple[int, ...]]] = {
    "quick": (10, 100, 1_000, 10_000),
    "full": (3, 10, 30, 100, 300, 1_000, 3_000, 10_000),
}
_SLOTS: Final[dict[Effort, tuple[int, ...]]] = {"quick": (2, SLOTS), "full": (2, 3, 4, 5, SLOTS)}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Counts the first half in sketches of a size, a slot each, and judges the table by the second half."""
    names = list(SAMPLES)[:2] if effort == "full" else ["tailnum → dest"]
    panels, told = [], []
    numbers: dict[str, float] = {}
    checks: list[ShapeCheck] = []
    for name in names:
        taken = SAMPLES[name]()
        learnt, unseen = taken.statistics(stop=0.5), taken.statistics(start=0.5)
        edges, lines = len(learnt.pairs), []
        for slots in _SLOTS[effort]:
            found, kilobytes = [], 0.0
            for pairs in _PAIRS[effort]:
                progress(f"{name}, {slots} slots, {pairs} pairs a slot")
                keys = max(100, pairs // 5)
                counted = sketched(taken, 0.0, 0.5, slots=slots, pairs=pairs, keys=keys)
                table = partition(counted.statistics, parts=slots)
                found.append(evaluate(table, unseen).locality)
                kilobytes = max(kilobytes, counted.nbytes / 1e3)
            exact = evaluate(partition(learnt, parts=slots), unseen).locality
            shares = tuple(min(slots * pairs / edges, 1.0) for pairs in _PAIRS[effort])
            lines.append(Line(f"{slots} slots", shares, tuple(found)))
            label = f"{name}, {slots} slots"
            checks += [
                rises(f"{label}: more pairs, more locality", found, slack=0.05),
                wins(f"{label}: the most pairs give what exact counts do", found[-1], exact, 0.97),
                wins(f"{label}: a slot's sketch has less than 1 MB", 1_000.0, kilobytes),
            ]
            if slots == SLOTS:
                few = next(i for i, one in enumerate(found) if one > 1.3 / slots)
                told.append(
                    f"{label}: {shown(found)} of {exact:.2f} with {shown(_PAIRS[effort])} pairs a slot"
                )
                numbers |= {
                    f"{label}, {p}": one for p, one in zip(_PAIRS[effort], found, strict=True)
                }
                half = next(i for i, one in enumerate(found) if one >= 0.6 * exact)
                checks.append(
                    ShapeCheck(
                        f"{label}: a part of the pairs gives most of the gain",
                        shares[half] < 1.0 or few < half,
                        f"{found[half]:.2f} with {shares[half]:.1%} of the pairs",
                    )
                )
        panels.append(
            Panel(name, "share of the pairs", "locality of later data", tuple(lines), "x")
        )
    return FigureResult("; ".join(told), tuple(panels), tuple(checks), numbers)


FIGURE: Final = PaperFigure(
    paper=PAPER,
    number=12,
    claim="A small part of the pairs, counted in little memory, gives much of the locality; more pairs give more.",
    published="six slots: 0.1 % of the pairs double the locality, 10⁶ are enough; a few MB a slot",
    kind="real",
    through="tw.locality.KeySketch, partition and evaluate",
    on="bundled flights; sketches of each slot merged, tables judged by the second half",
    measure=measure,
)
