"""Haren's policies in virtual time (Palyvos-Giannas et al., section 7): four threads as in the paper, and no machine.

What an experiment gives is the same each time; costs and selectivities are drawn as the paper draws them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from thalweg.scheduling import (
    Chain,
    FirstComeFirstServed,
    HighestRate,
    MultiClass,
    RandomPlacement,
    RoundPolicy,
)
from thalweg.simulate import (
    Bursts,
    Constant,
    Dedicated,
    Graph,
    Overhead,
    Simulated,
    simulate,
)
from thalweg.simulate.arrivals import Arrivals
from thalweg_lab.haren_queries import (
    BURST_MEAN_PER_S,
    BURST_PER_S,
    HIGH,
    HIGH_PER_S,
    LENGTH,
    LOAD,
    LOW,
    LOW_PER_S,
    QUERIES,
    single_class,
    two_classes,
)
from thalweg_lab.measure import LabReport

#: The paper's worker threads, one a big core of its machine.
THREADS: Final = 4
#: The dynamic scenario, s.
BURST: Final = Bursts(BURST_PER_S, on_s=5, off_s=15)
#: Tuples of a simulated unit of work: as many as the paper's b.
_UNIT: Final = 10
#: What threads of the operating system cost: a switch, as measured on common machines.
_OS: Final = Dedicated(switch_ns=3_000)
#: What rounds cost, measured on real workers (see :meth:`thalweg_lab.haren.Haren.overhead`).
_ROUNDS: Final = Overhead(visit_ns=500, operator_ns=4_000, round_ns=100_000)


def _paper(policy: type[RoundPolicy]) -> RoundPolicy:
    """A policy with the paper's placement and without aging."""
    return policy(placement=RandomPlacement(), starve_after_s=None)


class SimulatedHaren:
    """The experiments in virtual time, of a size.

    Args:
        report: takes the results.
        seconds: virtual time of a run.
    """

    def __init__(self, report: LabReport, *, seconds: float) -> None:
        self._report = report
        self._seconds = seconds

    def all(self) -> str:
        """Runs every experiment; the summary."""
        single = self.single_class()
        self.periods()
        self.multi_class("steady state", 0.7, Constant(HIGH_PER_S), HIGH_PER_S)
        gain, kept = self.multi_class("dynamic, high load", LOAD, BURST, BURST_MEAN_PER_S)
        return (
            f"haren, simulated: against a thread an operator, FCFS has {single['FCFS']:.2f}x the maximum latency, "
            f"HR {single['HR']:.2f}x the mean, Chain {single['Chain']:.2f}x the queued tuples; "
            f"MultiClass has {gain:.0f}x less maximum latency for HIGH, LOW keeps {100 * kept:.0f} % of its "
            "throughput"
        )

    def single_class(self) -> dict[str, float]:
        """Figure 4: four ways to schedule 5 to 20 queries; with 20 the ratio of each policy's aim to the first way."""
        rows, ratios = [], {}
        for queries in QUERIES:
            graph = single_class(queries, LOW_PER_S, cores=THREADS)
            found: dict[str, Simulated] = {}
            for name, policy in self._policies().items():
                found[name] = self._run(graph, policy)
                rows.append({"queries": str(queries), "policy": name, **_measures(found[name])})
            if queries == max(QUERIES):
                aims = {"FCFS": "max ms", "HR": "mean ms", "Chain": "queued"}
                first = _measures(found["OS"])
                ratios = {
                    name: _measures(found[name])[aim] / first[aim] for name, aim in aims.items()
                }
        self._report.add(f"single class, {THREADS} simulated threads (Figure 4)", rows)
        return ratios

    def _policies(self) -> Mapping[str, RoundPolicy | Dedicated]:
        return {
            "OS": _OS,
            "FCFS": _paper(FirstComeFirstServed),
            "HR": _paper(HighestRate),
            "Chain": _paper(Chain),
        }

    def periods(self) -> None:
        """What a period P that is longer does to latency: older priorities, less overhead."""
        graph = single_class(max(QUERIES), LOW_PER_S, cores=THREADS)
        rows = []
        for period_ms in (10, 50, 100, 200, 500, 1_000):
            policy = FirstComeFirstServed(
                placement=RandomPlacement(), starve_after_s=None, period_s=period_ms / 1e3
            )
            rows.append({"P, ms": str(period_ms), **_measures(self._run(graph, policy))})
        self._report.add("periods under FCFS, simulated", rows)

    def multi_class(
        self, scenario: str, load: float, high: Arrivals, high_per_s: float
    ) -> tuple[float, float]:
        """Figures 8 and 9: HIGH queries by FCFS before LOW ones by HR.

        Args:
            scenario: its name.
            load: work that arrives, as a multiple of what the threads can do.
            high: arrivals of each HIGH query, on average ``high_per_s``.

        Returns:
            How many times smaller the maximum latency of HIGH is than with a thread an operator, and what share of
            that way's tuples LOW puts out.
        """
        graph = two_classes(load, high, high_per_s, cores=THREADS)
        policy = MultiClass(
            {0: FirstComeFirstServed(), 1: HighestRate()},
            placement=RandomPlacement(),
            starve_after_s=None,
        )
        ways: dict[str, RoundPolicy | Dedicated] = {"OS": _OS, "MultiClass": policy}
        rows, found = [], {}
        for name, way in ways.items():
            run = self._run(graph, way)
            for group, queries in (("HIGH", range(HIGH)), ("LOW", range(HIGH, HIGH + LOW))):
                sinks = [run.sink(f"q{q}_{LENGTH - 1}") for q in queries]
                latencies = [one.latency for one in sinks if one.latency is not None]
                found[name, group] = (
                    1e3 * max((one.max for one in latencies), default=0.0),
                    sum(len(one.left_ns) for one in sinks),
                )
                count = sum(one.count for one in latencies)
                rows.append(
                    {
                        "policy": name, "class": group,
                        "rows/s": sum(run.operator(f"q{q}_0").rows_in for q in queries) / run.seconds,
                        "mean ms": 1e3 * sum(one.mean * one.count for one in latencies) / max(count, 1),
                        "max ms": found[name, group][0],
                    }
                )  # fmt: skip
        self._report.add(f"multi-class, {scenario}, simulated (Figures 8 and 9)", rows)
        gain = found["OS", "HIGH"][0] / max(found["MultiClass", "HIGH"][0], 1e-9)
        return gain, found["MultiClass", "LOW"][1] / max(found["OS", "LOW"][1], 1)

    def _run(self, graph: Graph, policy: RoundPolicy | Dedicated) -> Simulated:
        overhead = None if isinstance(policy, Dedicated) else _ROUNDS
        return simulate(
            graph,
            policy=policy,
            threads=THREADS,
            seconds=self._seconds,
            overhead=overhead,
            unit_tuples=_UNIT,
        )


def _measures(run: Simulated) -> dict[str, float]:
    latency = run.latency
    return {
        "rows/s": run.throughput,
        "mean ms": 1e3 * latency.mean if latency else 0.0,
        "max ms": 1e3 * latency.max if latency else 0.0,
        "queued": run.mean_queued,
    }
