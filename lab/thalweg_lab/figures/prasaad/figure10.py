"""Figure 10: processing latency by the cost of a tuple, from when a worker takes it until it leaves in order."""

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

_COSTS_US: Final = (10.0, 100.0, 1_000.0, 10_000.0)
_QUEUES: Final = ("hybrid", "partitioned")
_THREADS: Final = 16
#: How much the costs of tuples differ: the paper's are of one matrix operation.
_SPREAD: Final = 0.05
_ROWS: Final = {"quick": 1_200, "full": 6_000}
#: CPU time of a real run, s.
_BUDGET_S: Final = {"quick": 0.25, "full": 4.0}
Held = dict[tuple[str, float], float]


def measure(effort: Effort, progress: Progress) -> FigureResult:
    """Both queues at four costs; in virtual time with sixteen workers, here with two."""
    found: Held = {}
    for queue in _QUEUES:
        parts = simulated.RANGES if queue == "hybrid" else _THREADS
        for cost in _COSTS_US:
            progress(f"simulated, {queue}, {cost:g} µs")
            graph = simulated.alone(
                "keyed", cost, queue=queue, buckets=parts, draw_cost="uniform", cost_spread=_SPREAD
            )
            run = simulated.run(graph, CurrentThroughput(), _THREADS, _ROWS[effort])
            found[queue, cost] = 1e6 * run.result.operator("work").latency_s
    here, cpu = _real(effort, progress)
    ours = "; ".join(
        f"{cost:g} µs: hybrid {found['hybrid', cost]:,.0f}, partitioned {found['partitioned', cost]:,.0f} µs"
        for cost in _COSTS_US
    )
    return FigureResult(
        f"simulated, {ours}",
        (_panel("simulated, 16 threads", found), _panel("this machine, 2 threads (real)", here)),
        (*_checks(found), *_real_checks(here, cpu)),
        {f"real {queue}, {cost:g} µs, held µs": round(us, 1) for (queue, cost), us in here.items()},
    )


def _real(effort: Effort, say: Progress) -> tuple[Held, Held]:
    held: Held = {}
    cpu: Held = {}
    for cost in _COSTS_US:
        flow = parametric.one_operator("keyed", cost)
        rows = max(24, min(4_000, int(_BUDGET_S[effort] * 1e6 / cost)))
        ways = {
            "hybrid": real.Way(threads=2, partitions=parametric.RANGES, times_held=True),
            "partitioned": real.Way(threads=2, queue="partitioned", partitions=2, times_held=True),
        }
        runs = real.run_tuples(flow, parametric.table(rows), ways, 1, 1, say)
        for queue, one in runs.items():
            held[queue, cost] = real.held_us(one, "work")
            cpu[queue, cost] = one.cpu_us
    return held, cpu


def _checks(found: Held) -> tuple[ShapeCheck, ...]:
    ratios = {cost: found["partitioned", cost] / found["hybrid", cost] for cost in _COSTS_US}
    close = {cost: found["hybrid", cost] / cost for cost in _COSTS_US[1:]}
    return (
        ShapeCheck(
            "simulated: partitioned holds tuples longer than hybrid at each cost, and twice as long from 100 µs on",
            min(ratios.values()) > 1.1 and min(ratios[cost] for cost in _COSTS_US[1:]) >= 2,
            ", ".join(f"{ratio:.1f} x ({cost:g} µs)" for cost, ratio in ratios.items()),
        ),
        ShapeCheck(
            "simulated: with hybrid it is within three times what a tuple costs, from 100 µs on",
            max(close.values()) <= 3,
            ", ".join(f"{ratio:.2f} x ({cost:g} µs)" for cost, ratio in close.items()),
        ),
    )


def _real_checks(held: Held, cpu: Held) -> tuple[ShapeCheck, ...]:
    dear = _COSTS_US[-1]
    ratio = cpu["hybrid", dear] / cpu["partitioned", dear]
    took = sum(held[key] > key[1] / 2 for key in held)
    return (
        ShapeCheck(
            "real: hybrid costs no more CPU time a row than partitioned at 10,000 µs (within 15 %)",
            ratio <= 1.15,
            f"{cpu['hybrid', dear]:,.0f} µs against {cpu['partitioned', dear]:,.0f}",
        ),
        ShapeCheck(
            "real: a chunk is in the operator for at least half of what it costs",
            took == len(held),
            f"in {took} of {len(held)}",
        ),
    )


def _panel(title: str, found: Held) -> Panel:
    lines = tuple(
        Line(queue, _COSTS_US, tuple(found[queue, cost] for cost in _COSTS_US)) for queue in _QUEUES
    )
    return Panel(title, "cost of a tuple, µs", "processing latency, µs", lines, log="xy")


FIGURE = PaperFigure(
    paper="Prasaad",
    number=10,
    claim="With the hybrid queue processing latency is close to a tuple's cost; by partitions far higher",
    published="hybrid close to 10, 100, 1,000 and 10,000 µs; partitioned much higher, from waiting in order",
    kind="real and simulated",
    through="tw.run(options=Options(times_held=True)); thalweg.simulate",
    on="a keyed operator with even keys, tuples alone; 16 simulated workers, 2 here",
    measure=measure,
)
