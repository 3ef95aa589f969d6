"""Two ways of a runtime on the five queries: what figures 11 and 14 share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from thalweg.scheduling import CurrentThroughput
from thalweg_lab.figures.contract import Effort, Line, Panel, Progress, ShapeCheck
from thalweg_lab.figures.prasaad import real, simulated
from thalweg_lab.figures.prasaad.simulated import Virtual
from thalweg_lab.figures.rig import Finite

ROWS: Final = {"quick": 5_000, "full": 20_000}
COUNTS: Final = {"quick": (2, 8, 16), "full": (2, 4, 8, 12, 16)}
Found = dict[tuple[str, str, int], Virtual]
#: Runs a query in a way with so many threads over so many rows.
Run = Callable[[str, str, int, int], Virtual]


def names_of(effort: Effort) -> tuple[str, ...]:
    """Queries that are simulated."""
    return ("q01", "q02", "q15") if effort == "quick" else tuple(simulated.QUERIES)


def simulate(ways: tuple[str, str], run: Run, effort: Effort, say: Progress) -> Found:
    """Both ways of each query, by threads."""
    found: Found = {}
    for name in names_of(effort):
        for way in ways:
            for threads in COUNTS[effort]:
                say(f"simulated {name}, {way}, {threads} threads")
                found[name, way, threads] = run(name, way, threads, ROWS[effort])
    return found


def peaks(found: Found, way: str) -> dict[str, float]:
    """The highest throughput of each query."""
    names = dict.fromkeys(name for name, _, _ in found)
    return {
        name: max(one.rows_per_s for (n, w, _), one in found.items() if (n, w) == (name, way))
        for name in names
    }


def latencies(found: Found, way: str, threads: int) -> dict[str, float]:
    """Mean latency of each query, ms."""
    return {name: one.latency_ms for (name, w, n), one in found.items() if (w, n) == (way, threads)}


def panels(found: Found, ways: tuple[str, str], effort: Effort) -> tuple[Panel, ...]:
    """Throughput over threads, one a query."""
    counts = COUNTS[effort]
    x = tuple(float(threads) for threads in counts)
    return tuple(
        Panel(
            f"{name} (simulated)", "threads", "tuples/s",
            tuple(Line(way, x, tuple(found[name, way, n].rows_per_s for n in counts)) for way in ways),
        )
        for name in names_of(effort)
    )  # fmt: skip


def run_here(
    ways: Mapping[str, real.Way], effort: Effort, say: Progress
) -> dict[str, dict[str, Finite]]:
    """Both ways of the queries with two threads on this machine."""
    names = ("q02",) if effort == "quick" else real.QUERIES
    return {name: real.run_query(name, ways, effort, say) for name in names}


def cpu_check(here: dict[str, dict[str, Finite]], better: str, other: str) -> ShapeCheck:
    """The better way takes hardly more CPU time a row than the other."""
    ratios = {name: ways[better].cpu_us / ways[other].cpu_us for name, ways in here.items()}
    worst = max(ratios, key=ratios.__getitem__)
    return ShapeCheck(
        f"real, 2 threads: {better} takes at most 1.5 x the CPU time a row of {other}",
        ratios[worst] <= 1.5,
        f"most {ratios[worst]:.2f} x ({worst})",
    )


def policy() -> CurrentThroughput:
    """The paper's best heuristic, which both ways have."""
    return CurrentThroughput()
