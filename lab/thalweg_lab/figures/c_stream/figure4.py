"""Throughput by the number of threads: four topologies under the plug-ins (Figure 4)."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.c_stream.base import COST_US, HOPS, chain_here
from thalweg_lab.figures.c_stream.shape import PAPER, above, between, lines
from thalweg_lab.figures.c_stream.virtual import by_threads
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)

#: What a step of two rows costs beside the work, at most, as a multiple of it.
_MOST_CPU: Final = 1.8


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """In virtual time over threads; the chain here, too, with one thread and two."""
    found = by_threads(effort, progress)
    here = chain_here(effort, progress)
    most, cpu = 12, min(one.cpu_us for one in here.values())
    checks: list[ShapeCheck] = []
    for name, of_threads in found["chain"].items():
        says = f"chain, {name}: throughput rises linearly with threads"
        checks.append(
            above(says, of_threads[most].rows_per_s, of_threads[1].rows_per_s, 0.85 * most)
        )
    ends = [of_threads[most].rows_per_s for of_threads in found["chain"].values()]
    checks.append(above("chain: the plug-ins are alike with 12 threads", min(ends), max(ends), 0.9))
    for topology, bound in {"data parallel": 0.9, "tree": 0.75, "reverse tree": 0.75}.items():
        at = found[topology]["Random"]
        gain, early = at[most].rows_per_s / at[1].rows_per_s, at[4].rows_per_s / at[1].rows_per_s
        checks.append(
            between(f"{topology}: four threads give more than three times one", early, 3, 4.8)
        )
        checks.append(
            between(
                f"{topology}: twelve do not give twelve times one, as one operator is full",
                gain,
                1,
                bound * most,
            )
        )
    checks.append(
        between(
            "chain here: its CPU time a tuple is that of twelve operators, and some",
            cpu,
            0.8 * HOPS * COST_US,
            _MOST_CPU * HOPS * COST_US,
        )
    )
    panels = [
        Panel(f"{topology}, virtual time", "threads", "tuples/s", lines(of, "rows_per_s"))
        for topology, of in found.items()
    ]
    real = tuple(
        Line(
            name,
            tuple(float(n) for one, n in here if one == name),
            tuple(ran.rows_per_s for (one, _), ran in here.items() if one == name),
        )
        for name in dict.fromkeys(one for one, _ in here)
    )
    panels.append(Panel("chain, this machine", "threads", "tuples/s", real))
    tree = found["tree"]
    ours = (
        f"chain 1 → 12 threads {found['chain']['Random'][1].rows_per_s:,.0f} → "
        f"{found['chain']['Random'][most].rows_per_s:,.0f}/s; "
        "tree MaxQueue/Random with one thread "
        f"{tree['MaxQueue'][1].rows_per_s / tree['Random'][1].rows_per_s:.2f} (not three "
        "times); none falls beyond its peak: threads without work sleep. Here the chain takes "
        f"{cpu:,.0f} µs of CPU a tuple"
    )
    return FigureResult(ours, tuple(panels), tuple(checks), {"chain CPU, µs": cpu})


FIGURE = PaperFigure(
    paper=PAPER,
    number=4,
    claim=(
        "Throughput of a chain rises linearly with threads under every plug-in; data "
        "parallelism and trees rise until one operator is full"
    ),
    published=(
        "linear to 12 threads; data parallel falls after 9 to 11; trees peak earlier; "
        "MaxQueue up to 3x Random in trees, 40 % below it in reverse trees"
    ),
    kind="real and simulated",
    through="thalweg.simulate.simulate, tw.run",
    on="chain of 12, data parallel of 12, trees of 63 busy operators of 100 µs",
    measure=measure,
)
