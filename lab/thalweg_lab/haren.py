"""The experiments of Haren (Palyvos-Giannas et al., section 7) on real threads: policies against a thread an operator.

Queries are chains of machine-code operators, drawn as the paper draws them and scaled to what this machine can do,
which is measured first: the work that arrives is 15 % more. Runs of one
draw of queries follow each other and are compared with each other only. Times count from when a tuple was due, so
nothing is hidden by a source that must wait.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from thalweg.scheduling import (
    Chain,
    FirstComeFirstServed,
    HighestRate,
    MultiClass,
    RoundPolicy,
)
from thalweg.simulate import Bursts, Constant, Graph
from thalweg.simulate.arrivals import Arrivals
from thalweg.workers.rounds.rounds import RoundCosts
from thalweg_lab import chains, graphs
from thalweg_lab.chains import ChainRun, Way
from thalweg_lab.haren_queries import (
    BURST_MEAN_PER_S,
    BURST_PER_S,
    BURST_TIME,
    HIGH,
    HIGH_PER_S,
    LENGTH,
    LOAD,
    LOW,
    QUERIES,
    single_class,
    two_classes,
)
from thalweg_lab.measure import LabReport

#: Tuples a second of each query where all are of one class: half of the paper's, each twice as dear.
PER_S: Final = 500.0
#: The steady scenario's work, as a multiple of what the cores can do.
STEADY_LOAD: Final = 0.7
#: Bursts of class HIGH in a run.
_BURSTS: Final = 2
#: How long the machine's capacity is measured, s.
_CAPACITY_S: Final = 1.0
#: Below this share of CPU time runs say little about each other.
_COMPARABLE: Final = 0.8
#: What each policy aims at, of :func:`_measures`.
AIMS: Final[Mapping[str, str]] = {"FCFS": "max ms", "HR": "mean ms", "Chain": "queued"}
#: Without aging, as in the paper.
WAYS: Final[Mapping[str, Way]] = {
    "dedicated": "dedicated",
    "free list": "free list",
    "FCFS": FirstComeFirstServed(starve_after_s=None),
    "HR": HighestRate(starve_after_s=None),
    "Chain": Chain(starve_after_s=None),
}
CLASS_WAYS: Final[Mapping[str, Way]] = {
    "dedicated": "dedicated",
    "MultiClass": MultiClass({0: FirstComeFirstServed(), 1: HighestRate()}, starve_after_s=None),
}
_CLASSES: Final = {"HIGH": range(HIGH), "LOW": range(HIGH, HIGH + LOW)}
#: Figures that are compared.
RATIOS: Final = ("out/s", "mean ms", "max ms", "queued")
#: Figures of a draw of queries, by way and class.
_Group = dict[tuple[str, str], dict[str, float]]


class Haren:
    """All experiments, of a size.

    Args:
        report: takes the results.
        seconds: of a run.
        repeats: groups of runs; what is shown is the median.
        queries: how many run side by side, one number after the other; the last is 15 % more than the cores can do.
        overhead_s: about how long a run takes in which rounds are timed.
        threads: workers, and cores.
    """

    def __init__(
        self,
        report: LabReport,
        *,
        seconds: float,
        repeats: int,
        queries: Sequence[int],
        overhead_s: float,
        threads: int,
    ) -> None:
        self._report = report
        self._seconds = seconds
        self._repeats = repeats
        self._queries = queries
        self._overhead_s = overhead_s
        self._threads = threads
        #: of runs with too much to do: the least CPU time that a way got, as a share of another's with the same queries
        self._least_share = 1.0

    def all(self) -> str:
        """Runs every experiment; the summary."""
        single = self.single_class()
        self.multi_class("steady state", STEADY_LOAD, Constant(HIGH_PER_S), HIGH_PER_S)
        on_s = self._seconds / _BURSTS * BURST_TIME
        burst = Bursts(BURST_PER_S, on_s=on_s, off_s=on_s * (1 / BURST_TIME - 1))
        gain, kept = self.multi_class("dynamic, high load", LOAD, burst, BURST_MEAN_PER_S)
        share = self.overhead()
        return (
            f"haren: against a thread an operator, FCFS has {single['FCFS']:.2f}x the maximum latency, "
            f"HR {single['HR']:.2f}x the mean, Chain {single['Chain']:.2f}x the queued tuples; "
            f"MultiClass has {gain:.0f}x less maximum latency for HIGH, LOW keeps {100 * kept:.0f} % of its "
            f"throughput; rounds take {100 * share:.1f} % of worker time{self._warning()}"
        )

    def _warning(self) -> str:
        """More threads get more CPU time than few where other programs want it, too."""
        if self._least_share >= _COMPARABLE:
            return ""
        return (
            f"; beware: other programs were busy, and some ways got {100 * self._least_share:.0f} % of the CPU time "
            "that others got (cores)"
        )

    # -- policies -------------------------------------------------------------------------------------------

    def single_class(self) -> dict[str, float]:
        """Figure 4: ways to schedule few and many queries; of the most the ratio of each policy's aim to dedicated."""
        rows: list[dict[str, str | float]] = []
        ratios: list[dict[str, str | float]] = []
        aims = {}
        for count in self._queries:
            groups = [self._one_class(count, seed) for seed in range(self._repeats)]
            for name in WAYS:
                compared = _Compared.of(groups, name, "all")
                first: dict[str, str | float] = {"queries": str(count), "way": name}
                rows.append({**first, **compared.figures})
                aim = AIMS.get(name)
                if aim:
                    aims[name] = compared.ratio(aim)
                runs = compared.each(aim) if aim else ""
                ratios.append({**first, **compared.ratios, "aim, each run": runs})
        self._report.add(f"single class, {self._threads} workers (Figure 4)", rows)
        self._report.add("single class, ratios to dedicated threads", ratios)
        return aims

    def _one_class(self, queries: int, seed: int) -> _Group:
        most = single_class(max(QUERIES), PER_S, cores=self._threads, seed=seed)
        graph = single_class(queries, PER_S, cores=self._capacity(most), seed=seed)
        group = self._group(graph, WAYS, {"all": range(queries)})
        if queries == max(QUERIES):
            self._note_shares(group)
        return group

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
            that way's tuples LOW puts out: medians.
        """
        groups = []
        for seed in range(0, 100 * self._repeats, 100):
            full = two_classes(1.0, high, high_per_s, cores=self._threads, seed=seed)
            cores = self._capacity(full)
            graph = two_classes(load, high, high_per_s, cores=cores, seed=seed)
            groups.append(self._group(graph, CLASS_WAYS, _CLASSES))
            if load > 1:
                self._note_shares(groups[-1])
        compared = {key: _Compared.of(groups, *key) for key in groups[0]}
        rows, ratios = [], []
        for (name, own), one in compared.items():
            first: dict[str, str | float] = {"way": name, "class": own}
            rows.append({**first, **one.figures})
            ratios.append({**first, **one.ratios, "max, each run": one.each("max ms")})
        title = f"multi-class, {scenario}"
        self._report.add(f"{title}, {self._threads} workers (Figures 8 and 9)", rows)
        self._report.add(f"{title}, ratios to dedicated threads", ratios)
        gain = 1 / compared["MultiClass", "HIGH"].ratio("max ms")
        return gain, compared["MultiClass", "LOW"].ratio("out/s")

    def _group(
        self, graph: Graph, ways: Mapping[str, Way], classes: Mapping[str, Sequence[int]]
    ) -> _Group:
        """One draw of queries, run in each way."""
        found = {}
        for name, way in ways.items():
            ran = chains.run(graph, way, threads=self._threads, seconds=self._seconds)
            for own, queries in classes.items():
                found[name, own] = _figures(ran, queries)
        return found

    def _note_shares(self, group: _Group) -> None:
        cores = [figures["cores"] for figures in group.values()]
        self._least_share = min(self._least_share, min(cores) / max(cores))

    def _capacity(self, graph: Graph) -> float:
        """How many cores' worth of operators' work the workers do while there is always some, under the free list."""
        seconds = min(_CAPACITY_S, self._seconds)
        ran = chains.run(graph, "free list", threads=self._threads, seconds=seconds, at_once=True)
        done = sum(ran.taken[operator.name] * operator.cost_ns for operator in graph.operators)
        return done / 1e9 / ran.seconds

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
        steps = max(100, round(self._overhead_s * self._threads * 1e9 / len(reads) / 2_300))
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


def _figures(ran: ChainRun, queries: Sequence[int]) -> dict[str, float]:
    """What is compared: of some queries, but cores and queued tuples of all.

    Rows in are those that a first operator has taken. Latency is of tuples that have left; its maximum is also of
    those that still wait, or a policy could do well by letting them wait for ever.
    """
    latencies = np.concatenate([ran.latencies_ns[q] for q in queries]) / 1e6
    oldest = max(ran.oldest_ns[q] for q in queries) / 1e6
    return {
        "cores": ran.cores,
        "in/s": sum(ran.taken[f"q{q}_0"] for q in queries) / ran.seconds,
        "out/s": len(latencies) / ran.seconds,
        "mean ms": float(latencies.mean()) if len(latencies) else 0.0,
        "max ms": max(float(latencies.max(initial=0.0)), oldest),
        "queued": float(ran.queued.mean()),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _Compared:
    """A way's figures in several groups, and those of dedicated threads in the same groups."""

    runs: Sequence[Mapping[str, float]]
    against: Sequence[Mapping[str, float]]

    @staticmethod
    def of(groups: Sequence[_Group], way: str, own: str) -> _Compared:
        return _Compared(
            [group[way, own] for group in groups], [group["dedicated", own] for group in groups]
        )

    @property
    def figures(self) -> dict[str, float]:
        """Medians."""
        return {key: statistics.median(run[key] for run in self.runs) for key in self.runs[0]}

    @property
    def ratios(self) -> dict[str, float]:
        return {key.removesuffix(" ms"): self.ratio(key) for key in RATIOS}

    def ratio(self, key: str) -> float:
        """The median of the groups' ratios, since the machine may be another one from group to group."""
        return statistics.median(self._each(key))

    def each(self, key: str) -> str:
        """Every group's ratio."""
        return " ".join(f"{ratio:.3g}" for ratio in self._each(key))

    def _each(self, key: str) -> list[float]:
        return [
            run[key] / max(other[key], 1e-9)
            for run, other in zip(self.runs, self.against, strict=True)
        ]
