"""The base experiments of C-Stream (Sahin & Gedik, section 5.1) in virtual time: five plug-ins on four topologies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from thalweg.scheduling import (
    LeastRecentlyRun,
    MaxQueueLength,
    MaxRunningTime,
    MinLatency,
    PickPolicy,
    Random,
)
from thalweg.simulate import (
    Graph,
    Overhead,
    data_parallel,
    pipeline,
    reverse_tree,
    simulate,
    tree,
)
from thalweg_lab.measure import LabReport

#: The paper's busy operators take 100 µs a tuple (5.3).
COST_NS: Final = 100_000
#: And its queues hold so many tuples here; the paper names no number.
CAPACITY: Final = 100
THREADS: Final = (1, 2, 4, 8, 12, 16)
#: Threads of the sweeps (5.1).
FIXED_THREADS: Final = 4
PLUG_INS: Final[dict[str, PickPolicy]] = {
    "Random": Random(slice_ns=50_000_000),
    "MaxQueueLength": MaxQueueLength(),
    "MinLatency": MinLatency(),
    "LeastRecentlyRun": LeastRecentlyRun(),
    "MaxRunningTime": MaxRunningTime(),
}
TOPOLOGIES: Final[dict[str, Callable[..., Graph]]] = {
    "chain": lambda **fields: pipeline(12, **fields),
    "data parallel": lambda **fields: data_parallel(12, **fields),
    "tree": lambda **fields: tree(6, 2, **fields),
    "reverse tree": lambda **fields: reverse_tree(6, 2, **fields),
}
#: What a pick costs in the runtime: it looks at every operator.
_OVERHEAD: Final = Overhead(visit_ns=300, operator_ns=30, wake_ns=5_000)


class CStream:
    """All experiments, of a size.

    Args:
        report: takes the results.
        seconds: virtual time of a run; the first fifth is left out of latencies.
        threads: how many, one after the other.
    """

    def __init__(
        self, report: LabReport, *, seconds: float, threads: Sequence[int] = THREADS
    ) -> None:
        self._report = report
        self._seconds = seconds
        self._threads = threads

    def all(self) -> str:
        """Runs every experiment; the summary."""
        gains = self.threads()
        self.sweep(
            "cost, µs",
            {str(us): {"cost_ns": us * 1_000} for us in (10, 50, 100, 200, 400)},
            "data parallel",
        )
        self.sizes()
        self.sweep(
            "selectivity", {str(s): {"selectivity": s} for s in (0.6, 0.7, 0.8, 0.9, 1.0)}, "chain"
        )
        told = ", ".join(f"{name} {gain:.1f}x" for name, gain in gains.items())
        return f"cstream: throughput of the best number of threads against one: {told}"

    def threads(self) -> dict[str, float]:
        """Figures 4 and 5; by topology the best throughput as a multiple of that of the fewest threads."""
        gains = {}
        for topology in TOPOLOGIES:
            runs = {
                (name, count): self._run(topology, policy, count)
                for name, policy in PLUG_INS.items()
                for count in self._threads
            }
            rows = [
                {"plug-in": name, "threads": str(count), **measured}
                for (name, count), measured in runs.items()
            ]
            self._report.add(f"{topology}, simulated (Figures 4 and 5)", rows)
            one = max(
                measured["rows/s"]
                for (_, count), measured in runs.items()
                if count == min(self._threads)
            )
            gains[topology] = max(measured["rows/s"] for measured in runs.values()) / one
        return gains

    def sweep(self, what: str, values: dict[str, dict[str, Any]], topology: str) -> None:
        """Figures 6 and 8: operators that are dearer, or let more through."""
        rows = [
            {"plug-in": name, what: value, **self._run(topology, policy, FIXED_THREADS, **fields)}
            for name, policy in PLUG_INS.items()
            for value, fields in values.items()
        ]
        self._report.add(f"{topology} by {what}, {FIXED_THREADS} threads, simulated", rows)

    def sizes(self) -> None:
        """Figure 7: more operators side by side."""
        rows = [
            {
                "plug-in": name, "operators": str(width),
                **self._measure(data_parallel(width, **_fields()), policy, FIXED_THREADS),
            }
            for name, policy in PLUG_INS.items()
            for width in (4, 8, 16, 32)
        ]  # fmt: skip
        self._report.add(
            f"data parallel by size, {FIXED_THREADS} threads, simulated (Figure 7)", rows
        )

    def _run(
        self, topology: str, policy: PickPolicy, threads: int, **fields: Any
    ) -> dict[str, float]:
        return self._measure(TOPOLOGIES[topology](**_fields(**fields)), policy, threads)

    def _measure(self, graph: Graph, policy: PickPolicy, threads: int) -> dict[str, float]:
        run = simulate(
            graph, policy=policy, threads=threads, seconds=self._seconds, overhead=_OVERHEAD
        )
        late = [sink.after(self._seconds / 5).latency for sink in run.sinks]
        known = [one for one in late if one is not None]
        count = sum(one.count for one in known)
        return {
            "rows/s": run.throughput,
            "mean ms": 1e3 * sum(one.mean * one.count for one in known) / max(count, 1),
        }


def _fields(**fields: Any) -> dict[str, Any]:
    return {"cost_ns": COST_NS, "capacity": CAPACITY, **fields}
