"""Operators that cost more: data parallelism under four threads (Figure 6)."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.c_stream.flows import data_parallel, run, tuples, under
from thalweg_lab.figures.c_stream.shape import PAPER, above, between, falls, lines, rises
from thalweg_lab.figures.c_stream.virtual import PLUG_INS, sweep
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

_COSTS_US: Final = (50.0, 100.0, 200.0, 400.0)
_HERE_US: Final = (100.0, 300.0)
#: Operators side by side here, and rows of a step: one each.
_WIDTH: Final = 4
_ROWS: Final[dict[Effort, int]] = {"quick": 2_000, "full": 20_000}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time by cost; here, the CPU time of a tuple."""
    found = sweep(
        "data parallel", effort, progress, _COSTS_US, lambda us: {"cost_ns": round(1_000 * us)}
    )
    here = {}
    for cost in (_HERE_US[0], *_HERE_US):
        progress(f"data parallel of {cost:.0f} µs, this machine")
        table = tuples(_ROWS[effort], lanes=_WIDTH, cost_us=cost)
        here[cost] = run(
            data_parallel(_WIDTH), table, step_rows=8 * _WIDTH, **under(PLUG_INS["Random"], 2)
        )
    checks = []
    for name, of in found.items():
        rates = [one.rows_per_s for one in of.values()]
        times = [one.mean_ms for one in of.values()]
        checks += [
            falls(f"{name}: throughput falls as cost rises", rates),
            between(
                f"{name}: four times the cost is a quarter of the throughput",
                rates[-1] / rates[1],
                0.2,
                0.3,
            ),
            rises(f"{name}: latency rises with cost", times),
            between(f"{name}: and linearly, from 100 to 400 µs", times[-1] / times[1], 2.8, 5.2),
        ]
    high = _COSTS_US[-1]
    checks.append(
        above(
            "MaxQueue's latency is highest where operators are dearest",
            found["MaxQueue"][high].mean_ms,
            found["LeastRecently"][high].mean_ms,
        )
    )
    more = here[_HERE_US[1]].cpu_us - here[_HERE_US[0]].cpu_us
    checks.append(
        between("here: 200 µs more cost are as much more CPU time a tuple", more, 130, 320)
    )
    panels = (
        Panel("virtual time", "cost, µs", "tuples/s", lines(found, "rows_per_s"), log="xy"),
        Panel("virtual time", "cost, µs", "mean latency, ms", lines(found, "mean_ms")),
        Panel(
            "this machine",
            "cost, µs",
            "CPU time a tuple, µs",
            (Line("Random", _HERE_US, tuple(one.cpu_us for one in here.values())),),
        ),
    )
    rates = [one.rows_per_s for one in found["Random"].values()]
    ours = (
        f"Random, 50 to 400 µs: {rates[0]:,.0f} → {rates[-1]:,.0f}/s; here 200 µs more take "
        f"{more:.0f} µs more of CPU a tuple"
    )
    return FigureResult(ours, panels, tuple(checks), {"more CPU, µs": more})


FIGURE = PaperFigure(
    paper=PAPER,
    number=6,
    claim="Throughput falls and latency rises linearly with the cost of operators; MaxQueue's latency is the highest",
    published="linear in both; MaxQueue's latency rises fastest at first",
    kind="real and simulated",
    through="thalweg.simulate.simulate, tw.run",
    on="12 busy operators side by side, 4 threads; here 4 side by side, 2 threads",
    measure=measure,
)
