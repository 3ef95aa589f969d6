"""Figure 14: rows a second by the number of servers, with and without tables made while the stream runs."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.caneill.checks import PAPER, rises, shown, wins
from thalweg_lab.figures.caneill.compared import BATCH_MB, SLOW, all_of
from thalweg_lab.figures.caneill.figure13 import first_table, gain_of
from thalweg_lab.figures.caneill.measured import CaneillSetting, Found, MeasuredRun
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
)

_WORKERS: Final[dict[Effort, tuple[int, ...]]] = {"quick": (2, 3), "full": (2, 3, 4)}
_EVERY: Final[dict[Effort, int]] = {"quick": 1, "full": 2}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """4 kB a tuple; the mean is of the batches behind the first table."""
    every = _EVERY[effort]
    settings = [
        CaneillSetting(
            workers, ("hashed", "online"), 4_000, BATCH_MB[effort], 0.8, SLOW, 3 * every,
            flights=True, counted=12_000, every=every,
        )
        for workers in _WORKERS[effort]
    ]  # fmt: skip
    points: dict[float, Found] = {
        setting.workers: found for setting, found in all_of(settings, progress)
    }
    starts = {n: first_table(found["online"]) for n, found in points.items()}
    means = {
        way: [_mean(found[way], starts[n]) for n, found in points.items()] for way in ("hashed", "online")
    }  # fmt: skip
    gains = [gain_of(one) for one in points.values()]
    spared = [
        _remote(one["hashed"], starts[n]) - _remote(one["online"], starts[n])
        for n, one in points.items()
    ]
    workers = tuple(points)
    lines = (
        Line("without reconfiguration", workers, tuple(means["hashed"])),
        Line("with reconfiguration", workers, tuple(means["online"])),
    )
    return FigureResult(
        f"{shown(means['hashed'])} rows/s without, {shown(means['online'])} with ({shown(gains)}×), on {shown(workers)}"
        f" workers; bytes a tuple that are spared {shown(spared)}",
        (Panel("4 kB a tuple", "workers", "rows/s", lines),),
        (
            wins("with reconfiguration it is faster on any number", min(gains), 1.1),
            rises("the more workers, the more bytes a tuple are spared", spared),
        ),
        {f"gain on {n:.0f}": one for n, one in zip(workers, gains, strict=True)},
    )


def _mean(run: MeasuredRun, start: int) -> float:
    """Rows a second of all batches from one on; of all where there is none."""
    batches = run.batches[start:] or run.batches
    return sum(one.rows for one in batches) / sum(one.wall_s for one in batches)


def _remote(run: MeasuredRun, start: int) -> float:
    """Bytes a tuple between executors, from a batch on."""
    return MeasuredRun(run.batches[start:] or run.batches).remote_bytes


FIGURE: Final = PaperFigure(
    paper=PAPER,
    number=14,
    claim="The gain of reconfiguration is greater on more servers.",
    published="4 kB, 1 Gbit/s, 2 to 6 servers: the gap between with and without grows with servers",
    kind="real",
    through="tw.spark.start(locality=Online(every=...))",
    on="bundled flights by number and then destination, shuffled; links of 10 Mbit/s; workers share the processors of"
    " this machine",
    measure=measure,
)
