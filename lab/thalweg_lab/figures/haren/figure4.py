"""Haren, Figure 4: four ways to schedule few and many queries."""

from __future__ import annotations

from typing import Final

from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
)
from thalweg_lab.figures.haren.compared import (
    OVERLOAD,
    SECONDS,
    THREADS,
    base_ns,
    check,
    cores,
    single_class_ways,
)
from thalweg_lab.figures.haren.queries import Rate, drawn
from thalweg_lab.figures.haren.runs import RanFlows, run

_QUERIES: Final[dict[Effort, tuple[int, ...]]] = {"quick": (20,), "full": (5, 10, 20)}
#: Tuples a second of each query: half of those of LOW queries in the paper's 7.4, which are all that it names.
_PER_S: Final = 250.0


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Runs each number of queries in each way."""
    counts, found = _QUERIES[effort], dict[tuple[str, int], RanFlows]()
    most = drawn([Rate(_PER_S)] * max(counts), seed=3)
    each_ns = base_ns(most, OVERLOAD, cores())
    for count in counts:
        for name, way in single_class_ways().items():
            progress(f"{count} queries, {name}")
            found[name, count] = run(
                most[:count], way, base_ns=each_ns, seconds=SECONDS[effort], threads=THREADS,
                by_batch=True,
            )  # fmt: skip
    return _result(found, counts)


def _result(found: dict[tuple[str, int], RanFlows], counts: tuple[int, ...]) -> FigureResult:
    names = list(dict.fromkeys(name for name, _ in found))
    x = tuple(map(float, counts))
    numbers = {
        f"{what}, {name}, {count} queries": value
        for (name, count), ran in found.items()
        for what, value in _measures(ran, count).items()
    }
    panels = tuple(
        Panel(
            what, "queries", what,
            tuple(Line(n, x, tuple(numbers[f"{what}, {n}, {c} queries"] for c in counts)) for n in names),
        )
        for what in _measures(found["OS", counts[-1]], counts[-1])
    )  # fmt: skip
    most = counts[-1]
    checks = tuple(
        check(
            f"with {most} queries, {name} has a smaller {what} than a thread an operator",
            numbers[f"{what}, {name}, {most} queries"], numbers[f"{what}, OS, {most} queries"],
        )
        for name, what in (("FCFS", "maximum latency, ms"), ("HR", "mean latency, ms"), ("Chain", "queued tuples"))
    )  # fmt: skip
    ours = "; ".join(f"{one.says.split(', ')[1]}: {one.seen}" for one in checks)
    return FigureResult(ours, panels, checks, numbers)


def _measures(ran: RanFlows, count: int) -> dict[str, float]:
    everyone = range(count)
    return {
        "throughput, tuples/s": ran.in_per_s(everyone),
        "mean latency, ms": ran.mean_ms(everyone),
        "maximum latency, ms": ran.max_ms(everyone),
        "queued tuples": float(ran.queued.mean()) if len(ran.queued) else 0.0,
        "memory, MB": max(ran.memory, 0) / 1e6,
        "CPU, cores": ran.cores,
    }


FIGURE = PaperFigure(
    paper="haren",
    number=4,
    claim="In overload FCFS has the least maximum latency, HR the least mean latency, Chain the fewest queued tuples.",
    published=(
        "5 to 20 queries on 4 cores: with 5 the operating system is as good or better; beyond, FCFS, HR and Chain each"
        " beat it in what they aim at, with less CPU (the text names no values)"
    ),
    kind="real",
    through="tw.start",
    on="chains of 12 compiled operators, sources by batches of 5 ms, 1.3 times what the workers can do with the most",
    measure=measure,
)
