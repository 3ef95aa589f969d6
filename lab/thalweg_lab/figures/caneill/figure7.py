"""Figure 7: rows a second by the number of servers, for sizes of tuples and shares of partners."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.caneill.checks import PAPER, rises
from thalweg_lab.figures.caneill.compared import (
    BATCH_MB,
    SLOW,
    SLOWEST,
    all_of,
    kept,
    lines,
    order,
    ratio,
    told,
)
from thalweg_lab.figures.caneill.measured import CaneillSetting, Found, network_of
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)

#: Panels: kB a tuple, the share of partners, and the rate of a card.
_PANELS: Final[dict[Effort, tuple[tuple[int, float, float], ...]]] = {
    "quick": ((12, 0.8, SLOW),),
    "full": ((12, 0.8, SLOWEST), (20, 0.6, SLOW)),
}
_WORKERS: Final[dict[Effort, tuple[int, ...]]] = {"quick": (3, 2), "full": (4, 3, 2)}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """From the most workers down, so that the cluster only shrinks; one worker last, where it is asked for."""
    settings = [
        CaneillSetting(workers, ("hashed", "table"), kb * 1_000, BATCH_MB["quick"], share, rate)
        for workers in _WORKERS[effort]
        for kb, share, rate in _PANELS[effort]
    ]
    found: dict[str, dict[float, Found]] = {}
    limited = ""
    for setting, ran in all_of(settings, progress):
        label = f"{setting.padding // 1_000} kB, {setting.locality:.0%} partners, {network_of(setting.gbit_s)}"
        limited = label if setting.gbit_s == SLOWEST else limited
        found.setdefault(label, {})[setting.workers] = ran
    panels, checks, said = [], [], []
    numbers: dict[str, float] = {}
    for label, unsorted in found.items():
        points = dict(sorted(unsorted.items()))
        panels.append(Panel(label, "workers", "rows/s", lines(points)))
        checks += _checks(label, points, is_limited=label == limited)
        said.append(
            f"{label}: {', '.join(f'{n:.0f} workers {told(one)}' for n, one in points.items())}"
        )
        numbers |= {f"{label}, {n:.0f} workers": ratio(one) for n, one in points.items()}
    return FigureResult("; ".join(said), tuple(panels), tuple(checks), numbers)


def _checks(label: str, points: dict[float, Found], *, is_limited: bool) -> list[ShapeCheck]:
    """Who wins, on any number of workers; rows/s over workers are compared where the network is all that limits."""
    found = [
        check for n, one in points.items() for check in order(f"{label}, {n:.0f} workers", one)
    ]
    kept_off = [kept(one) for one in points.values()]
    found.append(rises(f"{label}: the more workers, the more bytes are spared", kept_off))
    if is_limited:
        aware = [one["table"].rows_per_s for one in points.values()]
        lead = [one["table"].rows_per_s - one["hashed"].rows_per_s for one in points.values()]
        found.append(rises(f"{label}: locality-aware grows with workers", aware, slack=0.15))
        found.append(rises(f"{label}: so does its lead, in rows/s", lead, slack=0.15))
    return found


FIGURE: Final = PaperFigure(
    paper=PAPER,
    number=7,
    claim="Where the network limits, only locality-aware routing grows in step with servers, and its lead grows.",
    published="1 to 6 servers, 0 to 20 kB: at 20 kB hash-based falls from 1 server to 2; without padding the network"
    " costs 22 %; locality-aware is linear beyond 2 servers",
    kind="real",
    through="tw.spark.start",
    on="a cluster on this machine, a network namespace a worker, links of 10 and 2 Mbit/s; workers share its"
    " processors, so that more of them do more only where the network limits",
    measure=measure,
)
