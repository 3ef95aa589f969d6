"""The experiments of Schneider & Wu, section 5.1 to 5.3: a pipeline, data parallelism, and both."""

from __future__ import annotations

from typing import Final

from thalweg.bench.measure import Report, run
from thalweg.datagen import parametric
from thalweg.flow import Flow
from thalweg.runtime.options import Options

#: A floating point operation of the papers' cost is one turn of the loop here.
PIPELINE_FLOPS: Final = (1, 100, 1_000)
PARALLEL_FLOPS: Final = (1, 10_000, 100_000)


def _us(flops: int) -> float:
    return flops / parametric.turns_of_us()


def wide(width: int, cost_us: float) -> Flow:
    """A source that feeds so many operators side by side, each with a sink of its own."""
    flow = Flow("parametric_wide")
    tuples = flow.source("tuples", parametric.Tuple, order_by="ts")
    work = parametric.stateless(cost_us)
    for i in range(width):
        tuples.map(work, name=f"work{i}").sink(f"out{i}")
    return flow


def both(width: int, depth: int, cost_us: float) -> Flow:
    """So many pipelines side by side."""
    flow = Flow("parametric_both")
    tuples = flow.source("tuples", parametric.Tuple, order_by="ts")
    work = parametric.stateless(cost_us)
    for i in range(width):
        stream = tuples
        for k in range(depth):
            stream = stream.map(work, name=f"work{i}_{k}", errors="reject" if k % 2 else "fail")
        stream.sink(f"out{i}")
    return flow


def streams(
    report: Report, *, threads: int, operators: int, budget_s: float, chunk_rows: int
) -> str:
    """Runs all shapes and costs under the three threading models; the summary.

    Args:
        operators: of a graph; the papers have 1,000.
        budget_s: about how long one run takes on one thread.
        chunk_rows: rows of a step; the papers' tuples travel alone.
    """
    side = max(2, round(operators ** (1 / 3)))
    shapes = [
        ("pipeline", PIPELINE_FLOPS),
        ("data parallel", PARALLEL_FLOPS),
        ("both", PIPELINE_FLOPS),
    ]
    rows = []
    best_dynamic = 0.0
    for shape, flops in shapes:
        for cost in flops:
            us = _us(cost)
            makes = {
                "pipeline": lambda us=us: parametric.pipeline(operators, us),
                "data parallel": lambda us=us: wide(operators, us),
                "both": lambda us=us: both(side, operators // side, us),
            }
            flow = makes[shape]()
            # The runtime's own share is about a microsecond an operator and step.
            count = max(chunk_rows, round(budget_s * 1e6 / (operators * (us + 2.0 / chunk_rows))))
            inputs = {"tuples": parametric.table(min(count, 200_000))}
            ways: dict[str, Options | None] = {"manual": None}
            ways["dedicated"] = Options(threading="dedicated")
            ways |= {f"dynamic {n}": Options(threads=n) for n in sorted({1, threads})}
            manual = 0.0
            for name, how in ways.items():
                one = run(flow, inputs, how, chunk_rows=chunk_rows)
                manual = one.rows_per_s if name == "manual" else manual
                best_dynamic = max(
                    best_dynamic, one.rows_per_s / manual if "dynamic" in name else 0.0
                )
                rows.append(
                    {
                        "graph": f"{shape}, {operators} operators", "flops": str(cost), "threading": name,
                        "rows/s": one.rows_per_s,
                        "cpu ns an operator and row": 1e9 * one.cpu_s / one.rows / operators,
                    }
                )  # fmt: skip
    report.add(f"threading models, {chunk_rows} rows a step (Figures 8 to 10)", rows)
    return f"streams: dynamic with {threads} threads is up to {best_dynamic:.1f}x the calling thread alone"
