"""Figure 13: rows a second over time, with and without tables made while the stream runs."""

from __future__ import annotations

import statistics
from typing import Final

from thalweg_lab.figures.caneill.checks import PAPER, wins, within
from thalweg_lab.figures.caneill.compared import BATCH_MB, SLOW, all_of
from thalweg_lab.figures.caneill.measured import CaneillSetting, Found, MeasuredRun, network_of
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)

#: Batches before and behind the first table; as many seconds as the paper has minutes, about.
_EVERY: Final[dict[Effort, int]] = {"quick": 2, "full": 4}
#: kB a tuple and rate of the cards.
_PANELS: Final[dict[Effort, tuple[tuple[int, float], ...]]] = {
    "quick": ((12, SLOW),),
    "full": ((4, SLOW), (12, SLOW), (12, 0.1)),
}
#: Flights that are counted in front: a destination's numbers come some times each by then.
_COUNTED: Final = 12_000


def settings_of(effort: Effort) -> list[CaneillSetting]:
    """The panels; what is counted in front is a batch of its own."""
    every = _EVERY[effort]
    return [
        CaneillSetting(
            2, ("hashed", "online"), kb * 1_000, BATCH_MB[effort] * max(1.0, rate / SLOW / 2), 0.8, rate, 3 * every,
            flights=True, counted=_COUNTED, every=every,
        )
        for kb, rate in _PANELS[effort]
    ]  # fmt: skip


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Two workers, both ways in turn batch by batch."""
    panels, checks, said = [], [], []
    numbers: dict[str, float] = {}
    gains: dict[str, float] = {}
    for setting, found in all_of(settings_of(effort), progress):
        label = f"{setting.padding // 1_000} kB, {network_of(setting.gbit_s)}"
        gain = gain_of(found)
        gains[label] = gain
        panels += _panels(label, found)
        checks += _checks(label, found, gain)
        said.append(f"{label}: {gain:.2f}× behind the first table")
        numbers[f"{label}: gain"] = gain
    if effort == "full":
        slow, fast = (gains[f"12 kB, {network_of(rate)}"] for rate in (SLOW, 0.1))
        checks.append(wins("the slower network has the greater gain", slow, fast))
    return FigureResult("; ".join(said), tuple(panels), tuple(checks), numbers)


def first_table(run: MeasuredRun) -> int:
    """The first batch that is routed by a table; as many as there are where there is none."""
    moved = [i + 1 for i, one in enumerate(run.batches) if one.moved]
    stays = [i for i, one in enumerate(run.batches) if one.stay > 0.7]
    return min([*moved, *stays], default=len(run.batches))


def gain_of(found: Found) -> float:
    """Rows a second behind the first table, by those of hashing in the same batches; 0 where no table came."""
    start = first_table(found["online"])
    pairs = list(zip(found["online"].batches[start:], found["hashed"].batches[start:], strict=True))
    return statistics.median(one.rate / other.rate for one, other in pairs) if pairs else 0.0


def _panels(label: str, found: Found) -> list[Panel]:
    names = {"hashed": "without reconfiguration", "online": "with reconfiguration"}
    batches = tuple(float(i + 1) for i in range(len(found["hashed"].batches)))
    rates = [
        Line(names[way], batches, tuple(b.rate for b in run.batches)) for way, run in found.items()
    ]
    stays = [
        Line(names[way], batches, tuple(b.stay for b in run.batches)) for way, run in found.items()
    ]
    return [
        Panel(label, "batch", "rows/s", tuple(rates)),
        Panel(label, "batch", "share that stays", tuple(stays)),
    ]


def _checks(label: str, found: Found, gain: float) -> list[ShapeCheck]:
    online, hashed = found["online"], found["hashed"]
    start = first_table(online)
    behind = [one.stay for one in online.batches[start:]] or [0.0]
    around = [
        online.batches[i].wall_s / hashed.batches[i].wall_s
        for i in range(max(start - 1, 0), min(start + 1, len(online.batches)))
    ]
    return [
        within(f"{label}: a table comes while the stream runs", start, 1, len(online.batches) - 1),
        wins(f"{label}: from then on it is faster", gain, 1.1),
        wins(f"{label}: and stays so: tuples of a slot", min(behind), 0.75),
        within(f"{label}: hashing keeps half", hashed.batches[-1].stay, 0.4, 0.6),
        wins(f"{label}: a batch that hands over state is not twice as long", 2.0, max(around, default=9)),
    ]  # fmt: skip


FIGURE: Final = PaperFigure(
    paper=PAPER,
    number=13,
    claim="Throughput rises at once with the first table, which is deployed without a stop, and stays high.",
    published="six servers, tables each 10 of 30 minutes: a rise at t = 10 min, greater at 1 than at 10 Gbit/s and the"
    " larger tuples are",
    kind="real",
    through="tw.spark.start(locality=Online(every=...))",
    on="bundled flights by number and then destination, shuffled; 2 workers, links of 10 (and 100) Mbit/s",
    measure=measure,
)
