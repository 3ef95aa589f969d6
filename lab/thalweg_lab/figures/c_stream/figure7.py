"""More operators side by side, under four threads (Figure 7)."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.c_stream.flows import data_parallel, run, tuples, under
from thalweg_lab.figures.c_stream.shape import PAPER, above, between, lines
from thalweg_lab.figures.c_stream.virtual import PLUG_INS, sweep
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

_WIDTHS: Final = (4.0, 8.0, 16.0, 24.0)
_HERE: Final = (2, 6)
_ROWS: Final[dict[Effort, int]] = {"quick": 2_000, "full": 20_000}
COST_US: Final = 100.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time by size; here, what an operator more costs a tuple."""
    found = sweep("data parallel", effort, progress, _WIDTHS, lambda width: {"width": int(width)})
    here = {}
    for width in (_HERE[0], *_HERE):
        progress(f"data parallel of {width}, this machine")
        table = tuples(_ROWS[effort], lanes=width, cost_us=COST_US)
        here[width] = run(data_parallel(width), table, step_rows=48, **under(PLUG_INS["Random"], 2))
    checks = []
    for name, of in found.items():
        rates = [one.rows_per_s for one in of.values()]
        checks.append(
            between(
                f"{name}: throughput hardly depends on the number of operators",
                min(rates) / max(rates),
                0.75,
                1,
            )
        )
    few, many = _WIDTHS[0], _WIDTHS[-1]
    queued = found["MaxQueue"]
    checks += [
        above(
            "MaxQueue: latency rises with the number of operators",
            queued[many].mean_ms,
            queued[few].mean_ms,
            1.5,
        ),
        above(
            "MaxQueue: at least as much as LeastRecently's where there are most",
            queued[many].mean_ms,
            found["LeastRecently"][many].mean_ms,
        ),
    ]
    times = here[_HERE[1]].cpu_us / here[_HERE[0]].cpu_us
    checks.append(
        between("here: three times the operators do not cost a tuple much more", times, 0.7, 2.0)
    )
    panels = (
        Panel("virtual time", "operators", "tuples/s", lines(found, "rows_per_s")),
        Panel("virtual time", "operators", "mean latency, ms", lines(found, "mean_ms")),
        Panel(
            "this machine",
            "operators",
            "CPU time a tuple, µs",
            (Line("Random", tuple(map(float, _HERE)), tuple(one.cpu_us for one in here.values())),),
        ),
    )
    ours = (
        f"MaxQueue's latency {queued[few].mean_ms:.0f} → {queued[many].mean_ms:.0f} ms from 4 "
        "to 24 operators, LeastRecently's "
        f"{found['LeastRecently'][few].mean_ms:.0f} → {found['LeastRecently'][many].mean_ms:.0f}; throughput within "
        f"{1 - min(one.rows_per_s for one in queued.values()) / max(one.rows_per_s for one in queued.values()):.0%}"
    )
    return FigureResult(ours, panels, tuple(checks), {"CPU, times": times})


FIGURE = PaperFigure(
    paper=PAPER,
    number=7,
    claim="More operators side by side change throughput little; MaxQueue's latency rises with them",
    published=(
        "throughput nearly flat (MaxQueue rises); MaxQueue's and MaxRunningTime's latency "
        "rise linearly, others are stable"
    ),
    kind="real and simulated",
    through="thalweg.simulate.simulate, tw.run",
    on="4 to 24 busy operators of 100 µs side by side, 4 threads; here 2 and 6, 2 threads",
    measure=measure,
)
