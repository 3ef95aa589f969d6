"""Figure 7: rows a second by the number of servers, for sizes of tuples and shares of partners."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.caneill.checks import PAPER, rises, wins
from thalweg_lab.figures.caneill.compared import (
    BATCH_MB,
    ON,
    SLOW,
    all_of,
    lines,
    order,
    ratio,
    told,
)
from thalweg_lab.figures.caneill.runs import CaneillSetting, Found
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)

#: Panels: kB a tuple, and the share of partners.
_PANELS: Final[dict[Effort, tuple[tuple[int, float], ...]]] = {
    "quick": ((12, 1.0),),
    "full": ((4, 0.6), (20, 0.6), (20, 1.0)),
}
_WORKERS: Final[dict[Effort, tuple[int, ...]]] = {"quick": (3, 2), "full": (4, 3, 2)}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """From the most workers down, so that the cluster only shrinks; one worker last, where it is asked for."""
    settings = [
        CaneillSetting(workers, ("hashed", "table"), kb * 1_000, BATCH_MB[effort], share, SLOW)
        for workers in _WORKERS[effort]
        for kb, share in _PANELS[effort]
    ]
    found: dict[tuple[int, float], dict[float, Found]] = {}
    for setting, ran in all_of(settings, progress):
        panel = found.setdefault((setting.padding // 1_000, setting.locality), {})
        panel[setting.workers] = ran
    panels, checks, said = [], [], []
    numbers: dict[str, float] = {}
    for (kb, share), points in found.items():
        points = dict(sorted(points.items()))
        label = f"{kb} kB, {share:.0%} partners"
        panels.append(Panel(label, "workers", "rows/s", lines(points)))
        checks += _checks(label, points)
        said.append(
            f"{label}: {', '.join(f'{n:.0f} workers {told(one)}' for n, one in points.items())}"
        )
        numbers |= {f"{label}, {n:.0f} workers": ratio(one) for n, one in points.items()}
    return FigureResult("; ".join(said), tuple(panels), tuple(checks), numbers)


def _checks(label: str, points: dict[float, Found]) -> list[ShapeCheck]:
    found = [
        check for n, one in points.items() for check in order(f"{label}, {n:.0f} workers", one)
    ]
    aware = [one["table"].rows_per_s for one in points.values()]
    first, last = list(points.values())[0], list(points.values())[-1]
    found.append(rises(f"{label}: locality-aware grows with workers", aware, slack=0.15))
    gap = [one["table"].rows_per_s - one["hashed"].rows_per_s for one in (first, last)]
    found.append(wins(f"{label}: with more workers the lead is greater, in rows/s", gap[1], gap[0]))
    return found


FIGURE: Final = PaperFigure(
    paper=PAPER,
    number=7,
    claim="Where the network limits, only locality-aware routing grows in step with servers, and its lead grows.",
    published="1 to 6 servers, 0 to 20 kB: at 20 kB hash-based falls from 1 server to 2; without padding the network"
    " costs 22 %; locality-aware is linear beyond 2 servers",
    kind="real",
    through="tw.spark.start",
    on=ON,
    measure=measure,
)
