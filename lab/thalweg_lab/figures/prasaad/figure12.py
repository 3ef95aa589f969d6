"""Figure 12: a light operator under the two reorder buffers."""

from __future__ import annotations

from typing import Final

from thalweg.datagen import parametric
from thalweg_lab.figures.contract import Effort, FigureResult, PaperFigure, Progress, ShapeCheck
from thalweg_lab.figures.prasaad import real, reordering, simulated
from thalweg_lab.figures.rig import Finite

#: "In the order of 10s of microseconds".
_COST_US: Final = 20.0
_ROWS: Final = {"quick": 2_500, "full": 20_000}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Speed-up and cost of a tuple by scheme, one to sixteen workers simulated; one and two here."""
    graph = simulated.alone("stateless", _COST_US)
    counts = simulated.THREADS
    found = reordering.simulate(graph, counts, _ROWS[effort], progress)
    here = _real(effort, progress)
    free, locked = (reordering.speed_up(found, scheme, 16) for scheme in reordering.SCHEMES)
    cost = {s: reordering.cost_us(found, s, 16) for s in reordering.SCHEMES}
    ours = (
        f"simulated, 16 threads: {free:.1f} x against {locked:.1f}, {cost['non-blocking']:.1f} µs a tuple against"
        f" {cost['lock-based']:.1f}; here, 2 threads: {here['non-blocking 2'].cpu_us:.1f} µs CPU against"
        f" {here['lock-based 2'].cpu_us:.1f}"
    )
    checks = (
        ShapeCheck(
            "simulated: non-blocking scales better than lock-based at 16 threads, by a tenth",
            free >= 1.1 * locked,
            f"{free:.1f} x against {locked:.1f}",
        ),
        ShapeCheck(
            "simulated: the lock-based cost of a tuple rises more steeply",
            cost["lock-based"] > 1.2 * cost["non-blocking"],
            f"{cost['lock-based']:.1f} µs against {cost['non-blocking']:.1f}, of {_COST_US:g}",
        ),
        _real_check(here),
    )
    return FigureResult(ours, reordering.panels(found, counts), checks)


def _real(effort: Effort, say: Progress) -> dict[str, Finite]:
    flow = parametric.one_operator("stateless", _COST_US)
    rows, repeats = (12_000, 1) if effort == "quick" else (100_000, 3)
    ways = {
        f"{scheme} {threads}": real.Way(threads=threads, reorder=scheme)
        for scheme in reordering.SCHEMES
        for threads in (1, 2)
    }
    return real.run_tuples(flow, parametric.table(rows), ways, 16, repeats, say)


def _real_check(here: dict[str, Finite]) -> ShapeCheck:
    one, two = here["non-blocking 1"].cpu_us, here["non-blocking 2"].cpu_us
    return ShapeCheck(
        "real: two threads take at most 1.4 x the CPU time a row of one, non-blocking",
        two <= 1.4 * one,
        f"{two:.1f} µs against {one:.1f}",
    )


FIGURE = PaperFigure(
    paper="Prasaad",
    number=12,
    claim="For a light operator the non-blocking reorder buffer scales better, and a tuple's cost rises less",
    published="non-blocking above lock-based in speed-up; cost with the lock rises steeply with threads",
    kind="real and simulated",
    through="tw.run(options=Options(reorder=)); thalweg.simulate",
    on="a stateless operator of 20 µs; 1 to 16 simulated workers, 1 and 2 here",
    measure=measure,
)
