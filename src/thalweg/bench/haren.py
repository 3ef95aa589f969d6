"""The experiments of Haren (Palyvos-Giannas et al., section 7): policies in virtual time, and what rounds really cost.

The policies are compared on simulated threads, four as in the paper, so that the machine plays no part; costs and
selectivities are drawn as the paper draws them. What rounds cost is measured on real workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from thalweg.bench import graphs
from thalweg.bench.measure import Report
from thalweg.runtime.rounds import RoundCosts
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
    haren_chains,
    simulate,
    work_ns,
)
from thalweg.simulate.arrivals import Arrivals

#: The paper's worker threads, one a big core of its machine.
THREADS: Final = 4
#: Operators of a chain.
LENGTH: Final = 12
QUERIES: Final = (5, 10, 15, 20)
#: Work that arrives, in cores, with 20 queries: less with fewer.
LOAD: Final = 1.15
#: The paper's queries of class HIGH, and of class LOW, and tuples a second of each.
HIGH: Final = 3
LOW: Final = 10
HIGH_PER_S: Final = 500.0
LOW_PER_S: Final = 1_000.0
#: The dynamic scenario: for 5 of 20 seconds ten times as much of class HIGH.
BURST: Final = Bursts(10 * HIGH_PER_S, on_s=5, off_s=15)
#: Of the threads so much at most is what HIGH needs in a burst.
_BURST_SHARE: Final = 0.7
#: Tuples of a simulated unit of work: as many as the paper's b.
_UNIT: Final = 10
#: What threads of the operating system cost: a switch, as measured on common machines.
_OS: Final = Dedicated(switch_ns=3_000)
#: What rounds cost, measured here (see :meth:`Haren.overhead`).
_ROUNDS: Final = Overhead(visit_ns=500, operator_ns=4_000, round_ns=100_000)


def _paper(policy: type[RoundPolicy]) -> RoundPolicy:
    """A policy with the paper's placement and without aging."""
    return policy(placement=RandomPlacement(), starve_after_s=None)


class Haren:
    """All experiments, of a size.

    Args:
        report: takes the results.
        seconds: virtual time of a run.
        real_s: about how long a run on real workers takes.
        threads: real workers at most.
    """

    def __init__(self, report: Report, *, seconds: float, real_s: float, threads: int) -> None:
        self._report = report
        self._seconds = seconds
        self._real_s = real_s
        self._threads = threads

    def all(self) -> str:
        """Runs every experiment; the summary."""
        single = self.single_class()
        self.periods()
        self.multi_class("steady state", 0.7, Constant(HIGH_PER_S), HIGH_PER_S)
        gain, kept = self.multi_class("dynamic, high load", LOAD, BURST, 2.5 * HIGH_PER_S)
        share = self.overhead()
        return (
            f"haren: against a thread an operator, FCFS has {single['FCFS']:.2f}x the maximum latency, "
            f"HR {single['HR']:.2f}x the mean, Chain {single['Chain']:.2f}x the queued tuples; "
            f"MultiClass has {gain:.0f}x less maximum latency for HIGH, LOW keeps {100 * kept:.0f} % of its "
            f"throughput; rounds take {100 * share:.1f} % of worker time"
        )

    # -- policies, in virtual time --------------------------------------------------------------------------

    def single_class(self) -> dict[str, float]:
        """Figure 4: four ways to schedule 5 to 20 queries; with 20 the ratio of each policy's aim to the first way."""
        rows, ratios = [], {}
        base = _base_ns(max(QUERIES))
        for queries in QUERIES:
            graph = _chains(queries, base, Constant(LOW_PER_S))
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
        graph = _chains(max(QUERIES), _base_ns(max(QUERIES)), Constant(LOW_PER_S))
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
        graph = _classes(load, high, high_per_s)
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

    # -- rounds, on real workers ----------------------------------------------------------------------------

    def overhead(self) -> float:
        """Figures 5 to 7: the share of worker time that rounds take; the greatest at 20 queries and P = 100 ms."""
        rows, worst = [], 0.0
        for queries in (5, 20):
            for name, policy in (
                ("FCFS", FirstComeFirstServed),
                ("HR", HighestRate),
                ("Chain", Chain),
            ):
                for period_ms in (10, 100, 1_000):
                    costs, shares = self._shares(
                        queries, policy(period_s=period_ms / 1e3, batch_rows=10)
                    )
                    total = sum(shares.values()) - shares["wait"]
                    if queries == max(QUERIES) and period_ms == 100:
                        worst = max(worst, total)
                    rows.append(
                        {
                            "queries": str(queries), "policy": name, "P, ms": str(period_ms), "rounds": costs.rounds,
                            **{part: 100 * share for part, share in shares.items()}, "CPU": 100 * total,
                        }
                    )  # fmt: skip
        self._report.add(
            f"what rounds take of {self._threads} real workers, % of their time (Figures 5 to 7)",
            rows,
        )
        return worst

    def _shares(self, queries: int, policy: RoundPolicy) -> tuple[RoundCosts, dict[str, float]]:
        """What parts of rounds take of all workers' time: while one prepares a round, the others wait.

        Waiting is by the clock, from the first that comes to a meeting to the last. The other parts are CPU time of
        who prepares the round, since other programs may use the machine: features are read, f gives operators to
        workers, g ranks and sorts them, and lists are written.
        """
        reads = graphs.pipelines(queries, LENGTH)
        steps = max(100, round(self._real_s * self._threads * 1e9 / len(reads) / 2_300))
        ran = graphs.run(reads, 2_000, "dynamic", threads=self._threads, steps=steps, policy=policy)
        costs = ran.rounds
        assert costs is not None
        parts = {
            "wait": costs.meet_ns,
            "features": costs.refresh_ns,
            "f": costs.assign_ns,
            "g": costs.order_ns,
            "lists": costs.write_ns,
        }
        return costs, {part: ns / 1e9 / ran.wall_s for part, ns in parts.items()}


def _chains(queries: int, base_ns: float, arrivals: Arrivals) -> Graph:
    return haren_chains([arrivals] * queries, base_ns=base_ns, length=LENGTH)


def _base_ns(queries: int) -> float:
    """The base cost B at which so many queries are more than the threads can do, ns."""
    return LOAD * THREADS * 1e9 / LOW_PER_S / work_ns(_chains(queries, 1.0, Constant(1.0)))


def _classes(load: float, high: Arrivals, high_per_s: float) -> Graph:
    """HIGH and LOW queries: of the paper's draws the first in which a burst of HIGH alone is not too much."""
    classes = dict.fromkeys(range(HIGH, HIGH + LOW), 1)
    for seed in itertools.count():
        drawn = [
            work_ns(haren_chains([Constant(1.0)] * count, base_ns=1.0, seed=seed))
            for count in (HIGH, HIGH + LOW)
        ]
        per_s = drawn[0] * high_per_s + (drawn[1] - drawn[0]) * LOW_PER_S
        base = load * THREADS * 1e9 / per_s
        if drawn[0] * base * BURST.per_s <= _BURST_SHARE * THREADS * 1e9:
            break
    arrivals: list[Arrivals] = [high] * HIGH + [Constant(LOW_PER_S)] * LOW
    return haren_chains(arrivals, base_ns=base, classes=classes, seed=seed)


def _measures(run: Simulated) -> dict[str, float]:
    latency = run.latency
    return {
        "rows/s": run.throughput,
        "mean ms": 1e3 * latency.mean if latency else 0.0,
        "max ms": 1e3 * latency.max if latency else 0.0,
        "queued": run.mean_queued,
    }
