"""The experiments of Prasaad et al., section 7, as far as the machine goes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from thalweg import datagen, scheduling
from thalweg.datagen import parametric
from thalweg.flow.flow import Flow
from thalweg.workers.options import Options
from thalweg_lab.measure import LabReport, Measured, best, run

HEURISTICS: Final = {
    "QST": scheduling.QueueSizeThrottling(),
    "LP": scheduling.LastInPipeline(),
    "ET": scheduling.EstimatedTime(),
    "CT": scheduling.CurrentThroughput(),
}
QUERIES: Final = ("q01", "q02", "q03", "q04", "q15")
CHUNK_ROWS: Final = 4_096
#: Rows of a step where one tuple takes 100 µs.
_FEW: Final = 16


class Prasaad:
    """All experiments, of a size.

    Args:
        report: takes the results.
        threads: workers at most.
        rows: clicks or sales of a query.
        repeats: runs of each; the median counts.
    """

    def __init__(self, report: LabReport, *, threads: int, rows: int, repeats: int) -> None:
        self._report = report
        self._threads = threads
        self._rows = rows
        self._repeats = repeats
        self._queries: dict[str, tuple[Flow, dict[str, pa.Table]]] = {}

    def all(self) -> str:
        """Runs every experiment; the summary."""
        self.heuristics()
        self.queues()
        self.latency()
        self.reorder()
        speeds = self.scaling()
        order = self.order()
        return (
            f"prasaad: {self._threads} threads over one: {speeds['stateless']:.2f}x stateless, "
            f"{speeds['keyed']:.2f}x keyed, {speeds['keyed, top key half']:.2f}x keyed under skew; "
            f"order costs {100 * (order - 1):.1f} %"
        )

    def _query(self, name: str) -> tuple[Flow, dict[str, pa.Table]]:
        if name not in self._queries:
            module: Any = importlib.import_module(f"thalweg.examples.tpcx_bb.{name}")
            (source,) = [node.name for node in module.flow.nodes if type(node).__name__ == "Source"]
            make = datagen.clickstream if source == "clicks" else datagen.store_sales
            batches = list(make(self._rows, seed=1, disorder_s=60))
            self._queries[name] = module.flow, {source: pa.Table.from_batches(batches)}
        return self._queries[name]

    def _alternating(
        self, flow: Flow, inputs: dict[str, pa.Table], ways: dict[str, Options], chunk_rows: int
    ) -> dict[str, Measured]:
        """Runs the ways in turn, so that all of them meet the same machine."""
        run(flow, {name: one.slice(0, 200) for name, one in inputs.items()}, next(iter(ways.values())),
            chunk_rows=chunk_rows)  # fmt: skip
        found: dict[str, list[Measured]] = {name: [] for name in ways}
        for _ in range(self._repeats):
            for name, how in ways.items():
                found[name].append(run(flow, inputs, how, chunk_rows=chunk_rows))
        return {name: best(runs) for name, runs in found.items()}

    def _levels(self) -> Iterator[int]:
        level = 1
        while level < self._threads:
            yield level
            level *= 2
        yield self._threads

    def heuristics(self) -> None:
        """Figure 8: throughput and latency of the heuristics on the queries; and the workers' time by operator."""
        rows, shares = [], []
        for query in QUERIES:
            flow, inputs = self._query(query)
            for threads in self._levels():
                ways = {k: Options(threads=threads, policy=p) for k, p in HEURISTICS.items()}
                for name, one in self._alternating(flow, inputs, ways, CHUNK_ROWS).items():
                    rows.append(
                        {"query": query, "heuristic": name, "threads": threads, **_numbers(one)}
                    )
            top = sorted(one.shares.items(), key=lambda item: -item[1])[:3]
            shares.append(
                {"query": query, "worker time": ", ".join(f"{k} {v:.0%}" for k, v in top)}
            )
        self._report.add("heuristics (Figure 8)", rows)
        self._report.add("worker time by operator, CT", shares)

    def _queue_ways(self) -> dict[str, Options]:
        n = self._threads
        return {
            "hybrid": Options(threads=n, partitions=parametric.RANGES),
            "partitioned": Options(threads=n, queue="partitioned", partitions=n),
            "shared": Options(threads=n, queue="shared", partitions=parametric.RANGES),
        }

    def queues(self) -> None:
        """Figures 9 and 11: the queues of keyed operators under skew, and on the queries."""
        flow = parametric.one_operator("keyed", 100.0)
        rows = []
        for sigma in (0.05, 0.15, 0.3, 1.0):
            inputs = {"tuples": parametric.table(self._rows // 50, sigma=sigma)}
            for name, one in self._alternating(flow, inputs, self._queue_ways(), _FEW).items():
                rows.append({"sigma": str(sigma), "queue": name, **_numbers(one)})
        self._report.add("queues under Gaussian skew, 100 µs a tuple (Figure 9)", rows)
        rows = []
        for query in QUERIES:
            flow, inputs = self._query(query)
            for name, one in self._alternating(
                flow, inputs, self._queue_ways(), CHUNK_ROWS
            ).items():
                rows.append({"query": query, "queue": name, **_numbers(one)})
        self._report.add("queues on the queries (Figure 11)", rows)

    def latency(self) -> None:
        """Figure 10: processing latency by the cost of a tuple."""
        rows = []
        for cost in (10.0, 100.0, 1_000.0, 10_000.0):
            flow = parametric.one_operator("keyed", cost)
            count = max(32, min(self._rows // 50, round(2e6 / cost)))
            inputs = {"tuples": parametric.table(count)}
            for name, one in self._alternating(flow, inputs, self._queue_ways(), 1).items():
                rows.append({"cost µs": str(cost), "queue": name, **_numbers(one)})
        self._report.add("latency by cost of a tuple, chunks of one (Figure 10)", rows)

    def reorder(self) -> None:
        """Figures 12 to 14: the reorder buffers on a light operator, with selectivity 50, and on the queries."""
        n = self._threads
        ways = {
            "non-blocking": Options(threads=n),
            "lock-based": Options(threads=n, reorder="lock-based"),
        }
        rows = []
        light = {"tuples": parametric.table(self._rows // 10)}
        few = {"tuples": parametric.table(self._rows // 100)}
        cases: list[tuple[str, Flow, dict[str, pa.Table], int]] = [
            ("light", parametric.one_operator("stateless", 1.0), light, _FEW),
            (
                "selectivity 50",
                parametric.one_operator("stateless", 1.0, selectivity=50),
                few,
                _FEW,
            ),
            *((query, *self._query(query), CHUNK_ROWS) for query in QUERIES),
        ]
        for case, flow, inputs, chunk_rows in cases:
            found = self._alternating(flow, inputs, ways, chunk_rows)
            ratio = found["non-blocking"].rows_per_s / found["lock-based"].rows_per_s
            for name, one in found.items():
                rows.append({"case": case, "reorder": name, **_numbers(one), "ratio": ratio})
        self._report.add("reorder buffers (Figures 12 to 14)", rows)

    def scaling(self) -> dict[str, float]:
        """All threads over one, for an operator of 100 µs a tuple."""
        rows: list[dict[str, Any]] = []
        speeds: dict[str, float] = {}
        count = self._rows // 20
        cases = {
            "stateless": ("stateless", parametric.table(count)),
            "keyed": ("keyed", parametric.table(count)),
            "keyed, top key half": ("keyed", parametric.table(count, top=0.5)),
        }
        for case, (shape, tuples) in cases.items():
            flow = parametric.one_operator(shape, 100.0)  # type: ignore[arg-type]
            for queue in ("hybrid", "partitioned") if shape == "keyed" else ("hybrid",):
                pieces = parametric.RANGES if queue == "hybrid" else self._threads
                ways = {
                    str(n): Options(threads=n, queue=queue, partitions=pieces)
                    for n in (1, self._threads)
                }
                found = self._alternating(flow, {"tuples": tuples}, ways, _FEW)
                one, many = found["1"], found[str(self._threads)]
                speed = many.rows_per_s / one.rows_per_s
                cpu = many.cpu_s / one.cpu_s
                rows.append({"operator": case, "queue": queue, "speed-up": speed, "cpu ratio": cpu})
                speeds.setdefault(case, speed)
        self._report.add(f"{self._threads} threads over one, 100 µs a tuple", rows)
        return speeds

    def order(self) -> float:
        """What order costs: CPU time against the same run whose outputs go on as they come."""
        rows, ratios = [], []
        n = self._threads
        ways = {"ordered": Options(threads=n), "as they come": Options(threads=n, ordered=False)}
        cases: list[tuple[str, Flow, dict[str, pa.Table], int]] = [
            ("stateless, 10 µs", parametric.one_operator("stateless", 10.0),
             {"tuples": parametric.table(self._rows // 5)}, 64),
            ("q04", *self._query("q04"), CHUNK_ROWS),
        ]  # fmt: skip
        for case, flow, inputs, chunk_rows in cases:
            found = self._alternating(flow, inputs, ways, chunk_rows)
            ratio = found["ordered"].cpu_s / found["as they come"].cpu_s
            ratios.append(ratio)
            for name, one in found.items():
                rows.append({"case": case, "outputs": name, **_numbers(one), "ratio": ratio})
        self._report.add("what order costs", rows)
        return max(ratios)


def _numbers(one: Measured) -> dict[str, float]:
    return {
        "rows/s": one.rows_per_s, "cpu µs a row": 1e6 * one.cpu_s / one.rows, "mean ms": one.mean_ms,
        "p50 ms": one.p50_ms, "p99 ms": one.p99_ms,
    }  # fmt: skip
