"""Figure 8: a pipeline and data parallelism of a thousand operators, under each threading model."""

from __future__ import annotations

from typing import Any, Final

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

#: Operators of the real graphs, quick and full.
_OPERATORS: Final = {"quick": 20, "full": 100}
_WIDTH: Final = {"quick": 10, "full": 32}


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Simulated at full size on the paper's machines; real ones on this machine's processors."""
    found = curves.found(("pipeline", "data parallel"), effort, progress)
    pipe, wide = _real_pipeline(effort, progress), _real_parallel(effort, progress)
    real = [_real_panel("pipeline", pipe), _real_panel("data parallel", wide)]
    checks = [
        *_pipeline_checks(found),
        *_parallel_checks(found),
        curves.finds_the_best(found),
        flows.manual_check("pipeline, 1 flop", pipe["1"]),
        flows.cpu_check("pipeline, 1,000 flops", pipe["1,000"], 0.5),
        flows.cpu_check("data parallel, 10,000 flops", wide["10,000"], 0.5),
    ]
    if effort == "quick":
        checks.append(curves.still_so("pipeline", 1_000, 96, progress))
    ours = (
        f"{_ours(found)}; here, pipeline of {_OPERATORS[effort]}, 1 flop: {flows.told(pipe['1'])}"
    )
    return FigureResult(ours, (*curves.panels(found), *real), tuple(checks), curves.numbers(found))


def _real_pipeline(effort: Effort, say: Progress) -> dict[str, dict[str, Driven]]:
    count, found = _OPERATORS[effort], {}
    costs = (1, 1_000) if effort == "quick" else simulated.PIPELINE_FLOPS
    for flops in costs:
        us = flops * flows.FLOP_US
        flow = flows.pipeline(count, us)
        what = f"pipeline of {count}, {flops:,} flops"
        found[f"{flops:,}"] = flows.run_models(flow, count * us, effort, say, what)
    return found


def _real_parallel(effort: Effort, say: Progress) -> dict[str, dict[str, Driven]]:
    width, found = _WIDTH[effort], {}
    costs = (1, 10_000) if effort == "quick" else simulated.PARALLEL_FLOPS
    for flops in costs:
        us = flops * flows.FLOP_US
        flow = flows.dealt(width, 1, us)
        what = f"data parallel, {width} wide, {flops:,} flops"
        found[f"{flops:,}"] = flows.run_models(flow, us, effort, say, what, keys=width)
    return found


def _real_panel(shape: str, found: dict[str, dict[str, Driven]]) -> Panel:
    lines = [
        Line(
            f"{model}, {flops} flops",
            (1.0, 2.0) if model != "dynamic 2" else (2.0,),
            (one.rows_per_s,) * (2 if model != "dynamic 2" else 1),
        )
        for flops, models in found.items()
        for model, one in models.items()
    ]
    return Panel(f"{shape}, this machine (real)", "threads", "rows/s", tuple(lines), log="y")


def _pipeline_checks(found: curves.Found) -> list[ShapeCheck]:
    rows = {
        f"{machine}, {case}": row
        for machine, cases in found.items()
        for case, row in cases.items()
        if case.startswith("pipeline")
    }
    order = {
        name: row["manual"] < max(curves.curve(row).values()) < row["dedicated"]
        for name, row in rows.items()
    }
    bad = [name for name, holds in order.items() if not holds]
    shares = {
        flops: _share(found["Xeon"][f"pipeline {flops:,}"]) for flops in simulated.PIPELINE_FLOPS
    }
    level = curves.best_level(found["Xeon"]["pipeline 1"])
    return [
        ShapeCheck(
            "pipeline: manual is worst, dedicated best, dynamic between",
            not bad,
            f"not so: {', '.join(bad)}" if bad else f"in all {len(order)}",
        ),
        ShapeCheck(
            "pipeline on the Xeon: dynamic gives 40 to 60 % of dedicated with 1 flop, and more the dearer tuples are",
            0.4 <= shares[1] <= 0.6 and shares[1] < shares[100] < shares[1_000],
            ", ".join(f"{share:.0%} ({flops:,})" for flops, share in shares.items()),
        ),
        ShapeCheck(
            "pipeline, 1 flop, on the Xeon: the best level is from 72 to 132 threads",
            72 <= level <= 132,
            f"{level}",
        ),
    ]


def _share(row: Any) -> float:
    return float(max(curves.curve(row).values()) / row["dedicated"])


def _parallel_checks(found: curves.Found) -> list[ShapeCheck]:
    cheap = {machine: rows["data parallel 1"] for machine, rows in found.items()}
    few = {machine: curves.best_level(row) for machine, row in cheap.items()}
    dear = {machine: rows["data parallel 10,000"] for machine, rows in found.items()}
    levels = {machine: curves.best_level(row) for machine, row in dear.items()}
    flipped = {
        machine: max(curves.curve(row).values()) > max(row["dedicated"], row["manual"])
        for machine, row in dear.items()
    }
    return [
        ShapeCheck(
            "data parallel, 1 flop: dedicated is worst, and dynamic best with few threads",
            all(row["dedicated"] < row["manual"] for row in cheap.values())
            and all(level <= 4 for level in few.values()),
            ", ".join(
                f"{machine}: {cheap[machine]['manual'] / cheap[machine]['dedicated']:.0f} x manual over dedicated,"
                f" best at {level}"
                for machine, level in few.items()
            ),
        ),
        ShapeCheck(
            "data parallel, 10,000 flops: dynamic is best, at 8 to 10 threads (Xeon) and 16 to 24 (Power8), within a"
            " third",
            all(flipped.values()) and 6 <= levels["Xeon"] <= 13 and 11 <= levels["Power8"] <= 32,
            ", ".join(f"{machine}: best at {level}" for machine, level in levels.items()),
        ),
        ShapeCheck(
            "data parallel, 10,000 flops: 16 threads on the Xeon are much worse than the best",
            curves.curve(dear["Xeon"])[16] < 0.8 * max(curves.curve(dear["Xeon"]).values()),
            f"{curves.curve(dear['Xeon'])[16] / max(curves.curve(dear['Xeon']).values()):.0%}",
        ),
    ]


def _ours(found: curves.Found) -> str:
    xeon = found["Xeon"]
    shares = [_share(xeon[f"pipeline {flops:,}"]) for flops in simulated.PIPELINE_FLOPS]
    return (
        f"simulated Xeon, pipeline: dynamic {shares[0]:.0%} to {shares[-1]:.0%} of dedicated, best at"
        f" {curves.best_level(xeon['pipeline 1'])} threads; data parallel, 10,000 flops: best at"
        f" {curves.best_level(xeon['data parallel 10,000'])}"
    )


FIGURE = PaperFigure(
    paper="Schneider & Wu",
    number=8,
    claim="Dynamic threads are a middle ground: between manual and dedicated in a pipeline, best in data parallelism",
    published=(
        "pipeline: manual worst, dedicated best, dynamic 40-60 % of it, 75 % with dear tuples; data parallel: 1 flop:"
        " few threads are best and dedicated is bad, then 8-10 threads (Xeon) and 16-24 (Power8)"
    ),
    kind="real and simulated",
    through="tw.run; thalweg.simulate",
    on="1,000 operators on the Xeon and the Power8, simulated; pipelines and dealt flows on this machine's processors",
    measure=measure,
)
