"""Figure 9: ten pipelines of a hundred operators side by side, under each threading model."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)
from thalweg_lab.figures.rig import Driven
from thalweg_lab.figures.schneider_wu import curves, flows, simulated

#: Width and depth of the real graphs.
_SIZES: Final = {"quick": (4, 4), "full": (5, 20)}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Simulated at full size on the paper's machines; real ones on this machine's processors."""
    found = curves.found(("both",), effort, progress)
    real = _real(effort, progress)
    checks = [
        *_order(found),
        curves.finds_the_best(found),
        flows.manual_check("4 pipelines, 1 flop", real["1"]),
        flows.cpu_check("side by side, 1,000 flops", real["1,000"], 0.5),
    ]
    if effort == "quick":
        checks.append(curves.still_so("both", 1_000, 96, progress))
    xeon = found["Xeon"]["both 1,000"]
    best = max(curves.curve(xeon).values())
    ours = (
        f"simulated Xeon, 1,000 flops: dynamic {best:,.0f}/s at {curves.best_level(xeon)} threads, dedicated"
        f" {xeon['dedicated']:,.0f}, manual {xeon['manual']:,.0f}; here, 1 flop: {flows.told(real['1'])}"
    )
    return FigureResult(
        ours, (*curves.panels(found), _panel(real)), tuple(checks), curves.numbers(found)
    )


def _real(effort: Effort, say: Progress) -> dict[str, dict[str, Driven]]:
    width, depth = _SIZES[effort]
    costs = (1, 1_000) if effort == "quick" else simulated.PIPELINE_FLOPS
    found = {}
    for flops in costs:
        us = flops * flows.FLOP_US
        flow = flows.dealt(width, depth, us)
        what = f"{width} pipelines of {depth}, {flops:,} flops"
        found[f"{flops:,}"] = flows.run_models(flow, depth * us, effort, say, what, keys=width)
    return found


def _panel(found: dict[str, dict[str, Driven]]) -> Panel:
    x = tuple(float(flops.replace(",", "")) for flops in found)
    lines = tuple(
        Line(model, x, tuple(models[model].rows_per_s for models in found.values()))
        for model in flows.MODELS
    )
    return Panel("side by side, this machine (real)", "flops", "rows/s", lines, log="xy")


def _order(found: curves.Found) -> list[ShapeCheck]:
    checks = []
    for machine, rows in found.items():
        wrong = [
            case
            for case, row in rows.items()
            if not row["manual"] < row["dedicated"] < max(curves.curve(row).values())
        ]
        checks.append(
            ShapeCheck(
                f"{machine}: dynamic is best, manual worst, with each cost",
                not wrong,
                f"not so: {', '.join(wrong)}" if wrong else f"in all {len(rows)}",
            )
        )
    return checks


FIGURE = PaperFigure(
    paper="Schneider & Wu",
    number=9,
    claim="With some data parallelism and deep pipelines dynamic threads are always best, and manual is worst",
    published="dynamic best on both machines with all costs; dedicated better than manual, never close to dynamic",
    kind="real and simulated",
    through="tw.run; thalweg.simulate",
    on="10 pipelines of 100 operators on the Xeon and the Power8, simulated; fewer on this machine's processors",
    measure=measure,
)
