"""Figure 9: load imbalance: range partitions of Gaussian keys, hybrid against partitioned queue."""

from __future__ import annotations

from typing import Final

from thalweg.datagen import parametric
from thalweg.scheduling import CurrentThroughput
from thalweg_lab.figures.contract import (
    Effort,
    FigureResult,
    Line,
    Panel,
    PaperFigure,
    Progress,
    ShapeCheck,
)
from thalweg_lab.figures.prasaad import real, simulated
from thalweg_lab.figures.rig import Finite

_SIGMAS: Final = (0.05, 0.15, 0.3, 1.0)
_COST_US: Final = 100.0
_KEYS: Final = 10_000
_REAL_THREADS: Final = 2
_ROWS: Final = {"quick": 1_500, "full": 6_000}
_COUNTS: Final = {"quick": (1, 16), "full": simulated.THREADS}
Speeds = dict[tuple[str, float, int], float]


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Speed-up over one worker by skew, for each queue."""
    found: Speeds = {}
    counts = _COUNTS[effort]
    for queue in ("hybrid", "partitioned"):
        for sigma in _SIGMAS:
            for threads in counts:
                progress(f"simulated, {queue}, sigma {sigma}, {threads} threads")
                parts = simulated.RANGES if queue == "hybrid" else threads
                graph = simulated.alone("keyed", _COST_US, queue=queue, sigma=sigma, buckets=parts)
                run = simulated.run(graph, CurrentThroughput(), threads, _ROWS[effort])
                found[queue, sigma, threads] = run.rows_per_s
    here = _real(effort, progress)
    most = counts[-1]
    ups = {(queue, sigma): found[queue, sigma, most] / found[queue, sigma, 1] for queue, sigma, _ in found}  # fmt: skip
    told = ", ".join(f"{queue} {up:.1f} x (sigma {sigma})" for (queue, sigma), up in ups.items())
    checks = (*_checks(ups), _real_check(here))
    return FigureResult(f"simulated, {most} threads: {told}", _panels(found, counts), checks)


def _checks(ups: dict[tuple[str, float], float]) -> tuple[ShapeCheck, ...]:
    flat, skewed = _SIGMAS[-1], _SIGMAS[1]
    alike = ups["partitioned", flat] / ups["hybrid", flat]
    gain = ups["hybrid", skewed] / ups["partitioned", skewed]
    falls = ups["partitioned", _SIGMAS[0]] / ups["partitioned", flat]
    return (
        ShapeCheck(
            "simulated: with almost even keys both scale alike (within a half)",
            0.5 <= alike <= 1.1,
            f"partitioned {alike:.0%} of hybrid",
        ),
        ShapeCheck(
            f"simulated: with skew (sigma {skewed}) hybrid is at least 1.5 x partitioned",
            gain >= 1.5,
            f"{gain:.2f} x",
        ),
        ShapeCheck(
            "simulated: partitioned loses more than half by skew",
            falls < 0.5,
            f"{falls:.0%} of what it does with even keys",
        ),
    )


def _real(effort: Effort, say: Progress) -> dict[str, Finite]:
    flow = parametric.one_operator("keyed", _COST_US)
    rows, repeats = (3_000, 1) if effort == "quick" else (30_000, 3)
    ways = {
        "hybrid": _ranged("hybrid", parametric.RANGES),
        "partitioned": _ranged("partitioned", _REAL_THREADS),
    }
    table = parametric.table(rows, sigma=_SIGMAS[1], keys=_KEYS)
    return real.run_tuples(flow, table, ways, 16, repeats, say)


def _ranged(queue: str, parts: int) -> real.Way:
    """Range partitioning: ranges of equal width over the key space, whatever keys come."""
    boundaries = {"work": parametric.equal_ranges(parts, _KEYS)}
    return real.Way(threads=_REAL_THREADS, queue=queue, partition="range", boundaries=boundaries)


def _real_check(here: dict[str, Finite]) -> ShapeCheck:
    ratio = here["hybrid"].cpu_us / here["partitioned"].cpu_us
    return ShapeCheck(
        "real, 2 threads: hybrid takes no more than 1.3 x the CPU time of partitioned",
        ratio <= 1.3,
        f"{here['hybrid'].cpu_us:.0f} µs a row against {here['partitioned'].cpu_us:.0f}",
    )


def _panels(found: Speeds, counts: tuple[int, ...]) -> tuple[Panel, ...]:
    x = tuple(float(threads) for threads in counts)
    return tuple(
        Panel(
            f"sigma {sigma} (simulated)", "threads", "speed-up",
            tuple(
                Line(queue, x, tuple(found[queue, sigma, n] / found[queue, sigma, 1] for n in counts))
                for queue in ("hybrid", "partitioned")
            ),
        )
        for sigma in _SIGMAS
    )  # fmt: skip


FIGURE = PaperFigure(
    paper="Prasaad",
    number=9,
    claim="The hybrid queue scales under skew, the partitioned one does not; with even keys they are alike",
    published="alike at large sigma; under skew hybrid consistent, partitioned drops heavily",
    kind="real and simulated",
    through="tw.run(options=Options(queue=, partition='range', boundaries=)); thalweg.simulate",
    on="a keyed operator of 100 µs, keys of N(0, sigma); 100 equal ranges (hybrid) or one a worker (partitioned);"
    " up to 16 simulated workers, 2 here",
    measure=measure,
)
