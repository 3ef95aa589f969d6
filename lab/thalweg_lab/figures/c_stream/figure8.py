"""Operators that let more through: a chain under four threads (Figure 8)."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.c_stream.flows import chain, run, tuples, under
from thalweg_lab.figures.c_stream.shape import PAPER, between, falls, lines, rises
from thalweg_lab.figures.c_stream.virtual import PLUG_INS, Flowed, sweep
from thalweg_lab.figures.contract import Effort, FigureResult, Line, Panel, PaperFigure, Progress

_SELECTIVITIES: Final = (0.8, 0.9, 0.95, 1.0)
_HERE: Final = (0.9, 1.0)
_HOPS: Final = 12
#: Whoever goes by the longest queue lets the last operators wait, whose queues are short where much is dropped: their
#: latency need not rise here, as it does in the paper.
_LONGEST_FIRST: Final = ("MaxQueue", "MaxRunningTime")
_ROWS: Final[dict[Effort, int]] = {"quick": 600, "full": 4_000}
COST_US: Final = 100.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time by selectivity; here, the CPU time of a tuple that comes."""
    left = sweep("chain", effort, progress, _SELECTIVITIES, lambda share: {"selectivity": share})
    # Of those that the flow is done with, so many leave: the others were dropped on their way.
    found = {
        name: {s: Flowed(one.rows_per_s / s**_HOPS, one.mean_ms) for s, one in of.items()}
        for name, of in left.items()
    }
    here = {}
    for share in (_HERE[1], *_HERE):
        progress(f"chain of selectivity {share}, this machine")
        table = tuples(_ROWS[effort], lanes=1, cost_us=COST_US, keeps=round(1_000 * share))
        here[share] = run(chain(_HOPS), table, **under(PLUG_INS["Random"], 2))
    checks = []
    for name, of in found.items():
        rates, times = (
            [getattr(one, what) for one in of.values()] for what in ("rows_per_s", "mean_ms")
        )
        checks.append(falls(f"{name}: throughput falls as more is let through", rates, slack=0.1))
        if name not in _LONGEST_FIRST:
            checks.append(rises(f"{name}: latency rises", times, slack=0.1))
    expected = sum(_HERE[0] ** hop for hop in range(_HOPS)) / _HOPS
    cheaper = here[_HERE[0]].cpu_us / here[_HERE[1]].cpu_us
    checks.append(
        between(
            f"here: at 0.9 a tuple costs {expected:.2f} of what it does at 1.0",
            cheaper,
            0.7 * expected,
            1.4 * expected,
        )
    )
    panels = (
        Panel("virtual time", "selectivity", "tuples/s taken", lines(found, "rows_per_s")),
        Panel("virtual time", "selectivity", "mean latency, ms", lines(found, "mean_ms")),
        Panel(
            "this machine",
            "selectivity",
            "CPU time a tuple, µs",
            (Line("Random", _HERE, tuple(here[one].cpu_us for one in _HERE)),),
        ),
    )
    usual = found["Random"]
    ours = (
        f"Random, selectivity 0.8 → 1.0: {usual[0.8].rows_per_s:,.0f} → {usual[1.0].rows_per_s:,.0f} tuples/s taken, "
        f"{usual[0.8].mean_ms:.0f} → {usual[1.0].mean_ms:.0f} ms (MaxQueue {found['MaxQueue'][0.8].mean_ms:.0f} → "
        f"{found['MaxQueue'][1.0].mean_ms:.0f}: it does not rise); here a tuple at 0.9 costs "
        f"{cheaper:.2f} of one at 1.0"
    )
    return FigureResult(ours, panels, tuple(checks), {"cost at 0.9": cheaper})


FIGURE = PaperFigure(
    paper=PAPER,
    number=8,
    claim="Throughput falls and latency rises with the selectivity of a chain's operators",
    published="both monotone under every plug-in",
    kind="real and simulated",
    through="thalweg.simulate.simulate, tw.run",
    on="chain of 12 busy operators of 100 µs, 4 threads; here 2",
    measure=measure,
)
