"""Figure 10: threads and throughput over time while the controller looks for the best level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import thalweg as tw
from thalweg.elasticity import ThreadLevels
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)
from thalweg_lab.figures.rig import drive
from thalweg_lab.figures.schneider_wu import curves, flows

#: By row of the figure: machine and case.
_ROWS: Final = (
    ("Xeon", "pipeline 1"),
    ("Power8", "pipeline 1"),
    ("Xeon", "data parallel 10,000"),
    ("Power8", "data parallel 100,000"),
    ("Xeon", "both 1,000"),
    ("Power8", "both 1,000"),
)
#: Periods of a run that count as settled.
_TAIL: Final = 15


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Our controller and the paper's rules on the simulated machines; our controller on this machine's processors."""
    rows = {
        (machine, case): curves.case(machine, case, effort, progress) for machine, case in _ROWS
    }
    panels = [
        panel for (machine, case), row in rows.items() for panel in _panels(machine, case, row)
    ]
    checks = [*_checks(rows), _real(effort, progress)]
    ends = ", ".join(
        f"{machine} {case}: {row['elastic']['threads'][-1]}"
        for (machine, case), row in rows.items()
    )
    numbers = {
        f"{machine}, {case}, {how}: swing of threads": float(_swing(row, how))
        for (machine, case), row in rows.items()
        for how in ("elastic", "paper")
    }
    return FigureResult(f"simulated, threads at the end: {ends}", tuple(panels), tuple(checks), numbers)  # fmt: skip


def _tail(row: Mapping[str, Any], how: str) -> list[int]:
    return [int(level) for level in row[how]["threads"][-_TAIL:]]


def _swing(row: Mapping[str, Any], how: str) -> int:
    tail = _tail(row, how)
    return max(tail) - min(tail)


def _panels(machine: str, case: str, row: Mapping[str, Any]) -> list[Panel]:
    titles = {"elastic": "our controller", "paper": "the paper's rules"}
    panels = []
    for how, title in titles.items():
        x = tuple(float(i) for i in range(len(row[how]["threads"])))
        rates = row[how]["tuples_per_s"]
        most = max(rates)
        lines = (
            Line("threads", x, tuple(float(level) for level in row[how]["threads"])),
            Line("tuples/s, % of the most", x, tuple(100 * rate / most for rate in rates)),
        )
        panels.append(Panel(f"{machine}, {case} flops, {title}", "period", "threads; %", lines))
    return panels


def _checks(rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[ShapeCheck]:
    pipe, pipe8 = rows["Xeon", "pipeline 1"], rows["Power8", "pipeline 1"]
    wide, wide8 = rows["Xeon", "data parallel 10,000"], rows["Power8", "data parallel 100,000"]
    both, both8 = rows["Xeon", "both 1,000"], rows["Power8", "both 1,000"]
    named = {"pipe": pipe, "pipe8": pipe8, "wide": wide, "both": both, "both8": both8}
    end = {name: row["elastic"]["threads"] for name, row in named.items()}
    after = curves.curve(wide)[16] / max(curves.curve(wide).values())
    return [
        ShapeCheck(
            "Xeon, pipeline: it goes up to more threads than it keeps, and keeps 72 to 132",
            72 <= end["pipe"][-1] <= 132 and max(end["pipe"]) >= end["pipe"][-1],
            f"up to {max(end['pipe'])}, then {end['pipe'][-1]}",
        ),
        ShapeCheck(
            "Power8, pipeline: at least 128 threads",
            end["pipe8"][-1] >= 128,
            f"{end['pipe8'][-1]}",
        ),
        ShapeCheck(
            "Xeon, data parallel: it tries 16 threads, which are much worse, and goes back to 8 to 10, within a third",
            max(end["wide"]) == 16 and 6 <= end["wide"][-1] <= 13 and after < 0.8,
            f"tried {max(end['wide'])} ({after:.0%} of the best), then {end['wide'][-1]}",
        ),
        ShapeCheck(
            "Power8, data parallel of 100,000 flops: by the paper's rules it oscillates, by at least 20 threads",
            _swing(wide8, "paper") >= 20,
            f"from {min(_tail(wide8, 'paper'))} to {max(_tail(wide8, 'paper'))} in the last {_TAIL} periods",
        ),
        ShapeCheck(
            "the same under our controller: it keeps a level",
            _swing(wide8, "elastic") == 0,
            f"from {min(_tail(wide8, 'elastic'))} to {max(_tail(wide8, 'elastic'))}",
        ),
        ShapeCheck(
            "side by side: the Power8 takes more threads than the Xeon, which goes back from 176",
            end["both8"][-1] > end["both"][-1] and max(end["both"]) > end["both"][-1],
            f"Power8 {end['both8'][-1]}; Xeon up to {max(end['both'])}, then {end['both'][-1]}",
        ),
    ]


def _real(effort: Effort, say: Progress) -> ShapeCheck:
    """A controller on real threads: it gives most of what the best static level does."""
    periods, period_s = (8, 0.25) if effort == "quick" else (24, 1.0)
    us = 10.0
    flow = flows.pipeline(4, us)
    rates = {}
    for threads in (1, 2):
        say(f"pipeline of 4, {us:.0f} µs, {threads} threads")
        rates[threads] = drive(
            flow, seconds=4 * period_s, warm_s=period_s, chunk_rows=16, options=tw.Options(threads=threads)
        ).rows_per_s  # fmt: skip
    say("the same under a controller")
    options = tw.Options(threads=2, controller=ThreadLevels(max_cpu_share=1.0), period_s=period_s)
    elastic = drive(
        flow, seconds=5 * period_s, warm_s=periods * period_s, chunk_rows=16, options=options
    ).rows_per_s
    share = elastic / max(rates.values())
    return ShapeCheck(
        "real, pipeline of 4, 10 µs: elastic gives at least 60 % of the best static level",
        share >= 0.6,
        f"{share:.0%} of {max(rates.values()):,.0f}/s",
    )


FIGURE = PaperFigure(
    paper="Schneider & Wu",
    number=10,
    claim="The controller goes up fast, backs off from what is worse, and keeps a level; under noise it oscillates",
    published=(
        "pipeline: 72-132 (Xeon), 128-160 (Power8); data parallel: up to 16, then 8-10 (Xeon), between 130 and 184"
        " (Power8, 100,000 flops); side by side: 80 after 176 (Xeon), 184 (Power8)"
    ),
    kind="real and simulated",
    through="thalweg.simulate; tw.run(controller=)",
    on="1,000 operators on the Xeon and the noisy Power8, simulated; a pipeline on this machine's processors",
    measure=measure,
)
