"""The experiments of Schneider & Wu, section 5.1 to 5.3: a pipeline, data parallelism, and both."""

from __future__ import annotations

from typing import Final

from thalweg.datagen import parametric
from thalweg.flow.flow import Flow
from thalweg.workers.memory.layout import STATEFUL, STATELESS
from thalweg.workers.options import Options
from thalweg_lab import graphs
from thalweg_lab.measure import LabReport, run

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


#: Shapes of graphs, and the work of their operators.
GRAPHS: Final = (
    ("pipeline", PIPELINE_FLOPS),
    ("data parallel", PARALLEL_FLOPS),
    ("both", PIPELINE_FLOPS),
)


class Streams:
    """All experiments, of a size.

    Args:
        report: takes the results.
        threads: workers at most.
        operators: of a graph; the papers have 1,000.
        budget_s: about how long one run takes on one thread.
        chunk_rows: rows of a step of a flow; the papers' tuples travel alone.
        repeats: runs of each; the median counts.
    """

    def __init__(
        self,
        report: LabReport,
        *,
        threads: int,
        operators: int,
        budget_s: float,
        chunk_rows: int,
        repeats: int = 1,
    ) -> None:
        self._report = report
        self._counts = sorted({1, threads})
        self._threads = threads
        self._operators = operators
        self._budget_s = budget_s
        self._chunk_rows = chunk_rows
        self._repeats = repeats
        #: Pipelines side by side, as 10 x 100 for a thousand.
        self._side = max(2, round(operators ** (1 / 3)))

    def all(self) -> str:
        """Runs every experiment; the summary."""
        one, many = self.units()
        gain = self.tuples_alone()
        self.flows()
        return (
            f"streams: an operator and tuple take {one:.0f} ns CPU on one thread, {many:.0f} on {self._threads}; "
            f"dynamic is up to {gain:.1f}x manual"
        )

    def units(self) -> tuple[float, float]:
        """What the runtime costs an operator and tuple, ns CPU: on one thread, and on all, in a pipeline."""
        rows = []
        costs = dict.fromkeys(self._counts, 0.0)
        for name, kind in (("SPSC ring", STATEFUL), ("MPMC ring, reorder buffer", STATELESS)):
            for length in (10, self._operators):
                for threads in self._counts:
                    ran = self._ran(graphs.pipeline(length), 1, "dynamic", threads, kind=kind)
                    if kind == STATEFUL:
                        costs[threads] = max(costs[threads], ran.cpu_ns_a_unit)
                    rows.append(
                        {
                            "inbox": name, "operators": str(length), "threads": str(threads),
                            "cpu ns an operator and tuple": ran.cpu_ns_a_unit,
                            "ns by the clock": 1e9 * ran.wall_s / ran.units,
                        }
                    )  # fmt: skip
        self._report.add("what the runtime costs, tuples alone", rows)
        return costs[1], costs[self._threads]

    def tuples_alone(self) -> float:
        """The papers' graphs of machine-code operators, tuples alone; the best ratio of dynamic to manual."""
        rows = []
        best_gain = 0.0
        shapes = {
            "pipeline": graphs.pipeline(self._operators),
            "data parallel": graphs.parallel(self._operators),
            "both": graphs.pipelines(self._side, self._operators // self._side),
        }
        for shape, all_flops in GRAPHS:
            for flops in all_flops:
                manual = self._ran(shapes[shape], flops, "manual", 1)
                for name, model, threads in self._models():
                    ran = (
                        manual
                        if model == "manual"
                        else self._ran(shapes[shape], flops, model, threads)
                    )
                    ratio = ran.steps_per_s / manual.steps_per_s
                    best_gain = max(best_gain, ratio if model == "dynamic" else 0.0)
                    rows.append(
                        {
                            "graph": f"{shape}, {self._operators} operators", "flops": str(flops), "threading": name,
                            "rows/s": ran.steps_per_s, "ratio": ratio,
                            "cpu ns an operator and tuple": ran.cpu_ns_a_unit,
                        }
                    )  # fmt: skip
        self._report.add("threading models, tuples alone (Figures 8 to 10)", rows)
        return best_gain

    def flows(self) -> None:
        """The same graphs as flows of compiled functions."""
        rows = []
        for shape, all_flops in GRAPHS:
            for flops in all_flops:
                us = _us(flops)
                flow = {
                    "pipeline": lambda us=us: parametric.pipeline(self._operators, us),
                    "data parallel": lambda us=us: wide(self._operators, us),
                    "both": lambda us=us: both(self._side, self._operators // self._side, us),
                }[shape]()
                # The runtime's own share is about a microsecond an operator and step.
                cost_us = self._operators * (us + 2.0 / self._chunk_rows)
                count = max(self._chunk_rows, round(self._budget_s * 1e6 / cost_us))
                inputs = {"tuples": parametric.table(min(count, 200_000))}
                manual = 0.0
                for name, model, threads in self._models():
                    how = None if model == "manual" else Options(threading=model, threads=threads)
                    one = run(flow, inputs, how, chunk_rows=self._chunk_rows)
                    manual = one.rows_per_s if model == "manual" else manual
                    ratio = one.rows_per_s / manual
                    rows.append(
                        {
                            "graph": f"{shape}, {self._operators} operators", "flops": str(flops), "threading": name,
                            "rows/s": one.rows_per_s, "ratio": ratio,
                            "cpu ns an operator and row": 1e9 * one.cpu_s / one.rows / self._operators,
                        }
                    )  # fmt: skip
        self._report.add(f"threading models, flows with {self._chunk_rows} rows a step", rows)

    def _models(self) -> list[tuple[str, graphs.Model, int]]:
        dynamic: list[tuple[str, graphs.Model, int]] = [
            (f"dynamic {n}", "dynamic", n) for n in self._counts
        ]
        return [("manual", "manual", 1), ("dedicated", "dedicated", 1), *dynamic]

    def _ran(
        self,
        reads: list[int],
        flops: int,
        model: graphs.Model,
        threads: int,
        *,
        kind: int = STATEFUL,
    ) -> graphs.GraphRun:
        """The median of some runs, of about the time that there is for each."""
        unit_ns = flops + {"manual": 2.0, "dynamic": 120.0, "dedicated": 1_000.0}[model]
        steps = max(2, round(self._budget_s * 1e9 / unit_ns / len(reads)))
        runs = [
            graphs.run(reads, flops, model, threads=threads, steps=steps, kind=kind)
            for _ in range(self._repeats)
        ]
        return sorted(runs, key=lambda one: one.steps_per_s)[len(runs) // 2]
