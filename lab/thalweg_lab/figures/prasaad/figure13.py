"""Figure 13: an operator that puts out fifty tuples for one, and a keyed one behind it."""

from __future__ import annotations

import dataclasses
from typing import Final

from thalweg.datagen import parametric
from thalweg.simulate import Graph, Operator
from thalweg_lab.figures.contract import Effort, FigureResult, PaperFigure, Progress, ShapeCheck
from thalweg_lab.figures.prasaad import real, reordering, simulated
from thalweg_lab.figures.rig import Finite

_COST_US: Final = 100.0
_SELECTIVITY: Final = 50
#: Tuples that the keyed operator is through with.
_ROWS: Final = {"quick": 4_000, "full": 20_000}
_COUNTS: Final = {"quick": (1, 4, 16), "full": simulated.THREADS}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """SL(100 µs, x 50) to PS(100 µs): speed-up of both together, and what a tuple costs the first one."""
    counts = _COUNTS[effort]
    found = reordering.simulate(_graph(), counts, _ROWS[effort], progress)
    here = _real(effort, progress)
    free, locked = (reordering.speed_up(found, scheme, 16) for scheme in reordering.SCHEMES)
    cost = {s: reordering.cost_us(found, s, 16) for s in reordering.SCHEMES}
    ours = (
        f"simulated, 16 threads: {free:.1f} x against {locked:.1f}, {cost['non-blocking']:.0f} µs a tuple of the first"
        f" against {cost['lock-based']:.0f}; here, 2 threads: {here['non-blocking'].cpu_us:,.0f} µs CPU a row against"
        f" {here['lock-based'].cpu_us:,.0f}"
    )
    expected = _COST_US * (1 + _SELECTIVITY)
    checks = (
        ShapeCheck(
            "simulated: non-blocking scales at least as well as lock-based at 16 threads (98 %)",
            free >= 0.98 * locked,
            f"{free:.1f} x against {locked:.1f}",
        ),
        ShapeCheck(
            "simulated: with the lock a tuple costs the first operator clearly more",
            cost["lock-based"] > 1.2 * cost["non-blocking"],
            f"{cost['lock-based']:.0f} µs against {cost['non-blocking']:.0f}, of {_COST_US:g}",
        ),
        ShapeCheck(
            f"real: a row takes the processors what its operators cost, {expected:,.0f} µs (75 to 250 %)",
            all(0.75 * expected <= one.cpu_us <= 2.5 * expected for one in here.values()),
            ", ".join(f"{scheme} {one.cpu_us:,.0f} µs" for scheme, one in here.items()),
        ),
    )
    return FigureResult(ours, reordering.panels(found, counts), checks)


def _graph() -> Graph:
    graph = simulated.alone("stateless", _COST_US, float(_SELECTIVITY), capacity=64, window=64)
    first = dataclasses.replace(graph.operators[0], name="expand")
    second = Operator(
        name="work", reads=("expand",), kind="keyed", cost_ns=1e3 * _COST_US, buckets=simulated.RANGES,
        capacity=2_000, window=2_000,
    )  # fmt: skip
    return Graph(graph.sources, (first, second))


def _real(effort: Effort, say: Progress) -> dict[str, Finite]:
    """Two operators that are not fused: the second is keyed."""
    flow = real.unfused(_COST_US, _SELECTIVITY, _COST_US)
    rows, repeats = (100, 1) if effort == "quick" else (1_500, 3)
    ways = {scheme: real.Way(threads=2, reorder=scheme) for scheme in reordering.SCHEMES}
    return real.run_tuples(flow, parametric.table(rows), ways, 1, repeats, say)


FIGURE = PaperFigure(
    paper="Prasaad",
    number=13,
    claim="Behind an operator of selectivity 50 the lock-based reorder buffer blocks its workers, the other does not",
    published="speed-up higher and the first operator's cost far lower with non-blocking",
    kind="real and simulated",
    through="tw.run(options=Options(reorder=)); thalweg.simulate",
    on="SL(100 µs, x 50) to PS(100 µs), not fused; 1 to 16 simulated workers, 2 here",
    measure=measure,
)
