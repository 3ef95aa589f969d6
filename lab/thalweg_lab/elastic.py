"""Elasticity as the papers measure it: how near to the best static level, how soon, and how steadily.

Schneider & Wu, sections 5.1 to 5.4: three graphs with three costs, under manual, dedicated, dynamic static and dynamic
elastic threading. Sahin & Gedik, section 5.2: one busy operator, two of them, and data parallelism, against no
adaptation and against the best setting by hand. Both on this machine's processors, and in virtual time on as many as
the papers had.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from thalweg.datagen import parametric
from thalweg.elasticity import ThreadLevels
from thalweg.flow.flow import Flow
from thalweg.simulate.elastic import LAST_SAMPLES
from thalweg.workers.options import Options
from thalweg_lab import elastic_real as real
from thalweg_lab import elastic_simulated as simulated
from thalweg_lab.figures.schneider_wu.flows import dealt
from thalweg_lab.figures.schneider_wu.simulated import PARALLEL_FLOPS, PIPELINE_FLOPS
from thalweg_lab.measure import LabReport

#: U_h, the paper's two values (Figure 11).
HIGHS: Final = (0.95, 0.90)
#: By shape and cost.
Graphs = Mapping[tuple[str, str], real.FlowOfSteps]


class ElasticExperiments:
    """All experiments, of a size.

    Args:
        report: takes the results.
        operators: of a graph; the paper has 1,000, and pipelines of a hundred side by side.
        periods: of an elastic run.
        costs_us: of busy operators, µs.
        most: simulated threads at most.
        all_costs: whether graphs are measured with all three costs on this machine, too, or with the ends.
    """

    def __init__(
        self,
        report: LabReport,
        *,
        operators: int,
        periods: int,
        costs_us: Sequence[int],
        most: int,
        all_costs: bool = True,
    ) -> None:
        self._report = report
        self._operators = operators
        self._side = max(2, round(operators ** (1 / 3)))
        self._periods = periods
        self._costs_us = costs_us
        self._most = most
        self._all_costs = all_costs
        #: By graph, how near an elastic run came to the best static level, and after how many periods it was at rest.
        self._near: dict[str, float] = {}
        self._settled: list[int] = []

    # -- in virtual time --------------------------------------------------------------------------------------------

    def simulated(self) -> str:
        """The chains and the data parallelism of Sahin & Gedik in virtual time; the summary."""
        self._near, self._settled = {}, []
        self._simulated_chains()
        self._simulated_wide()
        return f"up to {self._most} simulated threads: {self._summary()}"

    def _simulated_chains(self) -> None:
        for busy in (1, 2):
            rows = []
            for cost_us in self._costs_us:
                alone = simulated.chain_static(busy, cost_us, 1, 1)
                by_hand = simulated.chain_by_hand(busy, cost_us)
                host = simulated.chain_elastic(busy, cost_us, 2 * self._periods)
                last = host.periods[-1].sample.operators[1:-1]
                rate = host.rows_per_s()
                rows.append(
                    {
                        "cost, µs": str(cost_us), "no adaptation": alone, "by hand": by_hand, "rows/s": rate,
                        "ratio": rate / by_hand, "replicas": " ".join(str(one.replicas) for one in last),
                        **_behaviour(host.levels[-1], host.settled_after, host.swing(LAST_SAMPLES)),
                    }
                )  # fmt: skip
                self._note(f"chain {busy} x {cost_us} µs", rate / by_hand, host.settled_after)
            figure = 9 if busy == 1 else 10
            self._report.add(
                f"{busy} busy, adapted, simulated (Sahin & Gedik, Figure {figure})", rows
            )

    def _simulated_wide(self) -> None:
        levels = range(1, simulated.MOST_THREADS + 1)
        by_hand = {n: simulated.wide_static(n) for n in levels}
        best = max(by_hand.values())
        rows = [
            {"threading": f"dynamic {n}", "rows/s": rate, "ratio": rate / best, **_behaviour(n, 0, 0)}
            for n, rate in by_hand.items()
        ]  # fmt: skip
        for high in HIGHS:
            host = simulated.wide_elastic(high, self._periods)
            rate = host.rows_per_s()
            rows.append(
                {
                    "threading": f"U_h {high:.2f}", "rows/s": rate, "ratio": rate / best,
                    **_behaviour(host.levels[-1], host.settled_after, host.swing(LAST_SAMPLES)),
                }
            )  # fmt: skip
        self._report.add("data parallel, adapted, simulated (Sahin & Gedik, Figure 11)", rows)

    # -- on this machine --------------------------------------------------------------------------------------------

    def real(self, threads: int, *, period_s: float, graphs: Graphs | None = None) -> str:
        """The same graphs on this machine's processors, as flows of compiled functions; the summary.

        Nothing is held back for other programs, unlike by default: of few processors the feeding thread takes one.

        Args:
            threads: workers at most.
            period_s: of a controller, s; a level is measured for as many periods as count at the end of an elastic
                run, after one that does not count.
            graphs: by shape and cost; by default those of both papers.
        """
        self._near, self._settled = {}, []
        rows, story, chosen = [], [], {}
        for (shape, cost), graph in (graphs or self._graphs()).items():
            statically = functools.partial(real.static, graph, period_s=period_s)
            manual = statically(None)
            dedicated = statically(Options(threading="dedicated"))
            statics = {n: statically(Options(threads=n)) for n in range(1, threads + 1)}
            best = max(statics.values())
            adapted = real.adapt(
                graph, ThreadLevels(max_cpu_share=1.0), threads,
                periods=self._periods, period_s=period_s,
            )  # fmt: skip
            measured = {
                "manual": manual, "dedicated": dedicated,
                **{f"dynamic {n}": rate for n, rate in statics.items()},
            }  # fmt: skip
            rows += [_row(shape, cost, name, rate, best) for name, rate in measured.items()]
            rate = adapted.last_rows_per_s
            rows.append(
                _row(shape, cost, "elastic", rate, best)
                | _behaviour(adapted.levels[-1], adapted.settled_after, adapted.swing)
            )
            chosen[f"{shape} {cost}"] = statics[adapted.levels[-1]] / best
            self._note(f"{shape} {cost}", rate / best, adapted.settled_after)
            story += _story(f"{shape} {cost}", adapted.levels, adapted.rows_per_s)
        self._report.add("thread levels on this machine", rows)
        self._report.add("thread levels on this machine over time", story)
        worst = min(chosen, key=chosen.__getitem__)
        return (
            f"{threads} threads of this machine: {self._summary()}; at the levels that they ended at static runs reach "
            f"at least {chosen[worst]:.0%} ({worst})"
        )

    def overhead(
        self,
        threads: int,
        seconds: float,
        period_s: float,
        repeats: int,
        *,
        graphs: Graphs | None = None,
    ) -> str:
        """What measuring and deciding cost a pipeline at a level that stays; the summary.

        Args:
            threads: workers.
            seconds: of a run.
            period_s: of the controller, s; looks at the inboxes come at most 200 times a second.
            repeats: runs with it and without it, in turn.
            graphs: by shape and cost; by default a pipeline of 10 operators, and one as long as graphs are.
        """
        us = PIPELINE_FLOPS[1] / parametric.turns_of_us()
        pipelines: Graphs = {
            (f"pipeline, {count} operators", f"{PIPELINE_FLOPS[1]} flops"): real.FlowOfSteps.of(
                parametric.pipeline(count, us), count * us
            )
            for count in (10, self._operators)
        }
        rows: list[dict[str, Any]] = []
        for (name, _), one in (graphs or pipelines).items():
            real.static(one, Options(threads=threads), period_s=0.001)  # compiled here
            found = [
                real.watched(one, threads, seconds=seconds, period_s=period_s)
                for _ in range(repeats)
            ]
            shares = [run.share for run in found]
            rows.append(
                {
                    "graph": name, "period, s": str(period_s),
                    "% of CPU time": 100 * statistics.median(shares), "most, %": 100 * max(shares),
                    "CPU time a row, with / without": statistics.median(run.cpu_per_row for run in found),
                }
            )  # fmt: skip
        self._report.add("measuring and deciding", rows)
        most = max(row["% of CPU time"] for row in rows)
        return f"measuring and deciding take {most:.2g} % of CPU time (at most 1 % wanted)"

    def _graphs(self) -> Graphs:
        """By shape and cost: graphs of Schneider & Wu, and busy operators of Sahin & Gedik."""
        count, side = self._operators, self._side
        shapes: dict[str, tuple[Callable[[float], Flow], Sequence[int]]] = {
            "pipeline": (functools.partial(parametric.pipeline, count), PIPELINE_FLOPS),
            "both": (functools.partial(dealt, side, count // side), PIPELINE_FLOPS),
            "data parallel": (functools.partial(dealt, count, 1), PARALLEL_FLOPS),
        }
        made: dict[tuple[str, str], real.FlowOfSteps] = {}
        for shape, (make, all_flops) in shapes.items():
            for flops in all_flops if self._all_costs else all_flops[::2]:
                us = flops / parametric.turns_of_us()
                made[shape, f"{flops} flops"] = real.FlowOfSteps.of(make(us), count * us)
        for us in (self._costs_us[0], self._costs_us[-1]):
            one, two = parametric.one_operator("stateless", us), parametric.pipeline(2, us)
            made["1 busy", f"{us} µs"] = real.FlowOfSteps.of(one, us)
            made["2 busy", f"{us} µs"] = real.FlowOfSteps.of(two, 2 * us)
        return made

    # -- results ----------------------------------------------------------------------------------------------------

    def _note(self, what: str, near: float, settled: int) -> None:
        self._near[what] = near
        self._settled.append(settled)

    def _summary(self) -> str:
        worst = min(self._near, key=self._near.__getitem__)
        good = sum(near >= 0.9 for near in self._near.values())
        return (
            f"{good} of {len(self._near)} elastic runs reach 90 % of the best setting by hand, "
            f"the least {self._near[worst]:.0%} ({worst}); at rest after {max(self._settled)} periods at most"
        )


def _row(graph: str, cost: object, threading: str, rate: float, best: float) -> dict[str, Any]:
    return {
        "graph": graph, "cost": str(cost), "threading": threading, "rows/s": rate, "ratio": rate / best,
        **_behaviour(None, None, None),
    }  # fmt: skip


def _behaviour(threads: int | None, settled: int | None, swing: int | None) -> dict[str, str]:
    """Threads at the end, after how many periods they last changed, and by how much they varied at the end."""
    values = {"threads": threads, "settled": settled, "swing": swing}
    return {name: "" if value is None else str(value) for name, value in values.items()}


def _story(graph: str, levels: Sequence[int], rates: Sequence[float]) -> list[dict[str, Any]]:
    """Threads and throughput by period."""
    return [
        {"graph": graph, "period": period, "level": level, "tuples/s": rate}
        for period, (level, rate) in enumerate(zip(levels, rates, strict=True))
    ]


def summary(parts: Sequence[Callable[[], str]]) -> str:
    """The last line."""
    return "elastic: " + "; ".join(part() for part in parts)
