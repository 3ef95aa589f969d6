"""Figure 14: the non-blocking against the lock-based reorder buffer on the queries."""

from __future__ import annotations

from typing import Any, Final

from thalweg_lab.figures.contract import Effort, FigureResult, PaperFigure, Progress, ShapeCheck
from thalweg_lab.figures.prasaad import pairs, real, simulated
from thalweg_lab.figures.prasaad.simulated import Virtual

_WAYS: Final = ("non-blocking", "lock-based")


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Peak throughput by reorder buffer."""
    found = pairs.simulate(_WAYS, _run, effort, progress)
    ways = {way: real.Way(threads=2, policy=pairs.policy(), reorder=way) for way in _WAYS}
    here = pairs.run_here(ways, effort, progress)
    free, locked = pairs.peaks(found, "non-blocking"), pairs.peaks(found, "lock-based")
    ratios = {name: free[name] / locked[name] for name in free}
    worst = min(ratios, key=ratios.__getitem__)
    best = max(ratios, key=ratios.__getitem__)
    told = ", ".join(f"{name} {ratio:.2f} x" for name, ratio in ratios.items())
    checks = (
        ShapeCheck(
            "simulated: non-blocking has the higher peak on each query (97 %)",
            ratios[worst] >= 0.97,
            f"least {ratios[worst]:.2f} x ({worst})",
        ),
        ShapeCheck(
            "simulated: on one query at least it is clearly better",
            ratios[best] >= 1.05,
            f"most {ratios[best]:.2f} x ({best})",
        ),
        pairs.cpu_check(here, "non-blocking", "lock-based"),
    )
    return FigureResult(
        f"simulated peak, non-blocking over lock-based: {told}",
        pairs.panels(found, _WAYS, effort),
        checks,
        {f"peak {name}": ratio for name, ratio in ratios.items()},
    )


def _run(name: str, way: Any, threads: int, rows: int) -> Virtual:
    graph = simulated.query(name, workers=threads)
    return simulated.run(graph, pairs.policy(), threads, rows, reorder=way)


FIGURE = PaperFigure(
    paper="Prasaad",
    number=14,
    claim="The non-blocking reorder buffer has the higher peak throughput on the queries",
    published="non-blocking above lock-based on all five queries",
    kind="real and simulated",
    through="tw.run(options=Options(reorder=)); thalweg.simulate",
    on="five queries of TPCx-BB; 2 to 16 simulated workers, 2 here",
    measure=measure,
)
