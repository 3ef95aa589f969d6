"""Prasaad et al., section 7, in virtual time: up to sixteen workers on the paper's sixteen cores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from thalweg.scheduling import PickPolicy
from thalweg.simulate import (
    Graph,
    Hardware,
    Operator,
    Overhead,
    Saturated,
    Simulated,
    Simulation,
    Source,
)
from thalweg.simulate.threads.sending import Reorder

#: The paper's machine. Costs of queues are those of the Xeon of Schneider & Wu.
SIXTEEN: Final = Hardware(cores=16, bus=0.002, queue_ns=60, line_ns=100)
THREADS: Final = (1, 2, 4, 8, 16)
#: What a decision costs, and handing a tuple to the next operator's queue, ns.
OVERHEAD: Final = Overhead(visit_ns=500, send_ns=1_000.0)
#: Partitions of the hybrid queue (section 7.2.1); the partitioned one has as many as there are workers.
RANGES: Final = 100
#: Keys of the queries are skewed: clicks and sales of few users and items are many.
_SIGMA: Final = 0.3
#: Tuples that an inbox holds, and outputs that a reorder buffer does.
_ROOM: Final = 64
_FIRST: Final = 0.4
_STEPS: Final = 40
_LEAST_STEP_S: Final = 1e-4

Queue = Literal["hybrid", "partitioned", "shared"]


class QueryStep(NamedTuple):
    """An operator of a query: its kind, what a tuple costs, µs, and its selectivity."""

    kind: Literal["stateless", "keyed", "stateful"]
    cost_us: float
    selectivity: float


#: Table 1 of the paper, with selectivities and proportions of costs as our queries have them on this machine, a hundred
#: times as dear as compiled ones: the paper's take some microseconds. Where an operator only gives
#: totals three tuples of ten go on.
QUERIES: Final[Mapping[str, tuple[QueryStep, ...]]] = {
    "q01": (
        QueryStep("stateless", 1.0, 0.21),
        QueryStep("keyed", 12.0, 0.97),
        QueryStep("keyed", 13.0, 0.3),
        QueryStep("stateful", 5.0, 1.0),
    ),
    "q02": (
        QueryStep("stateless", 3.0, 0.77),
        QueryStep("keyed", 8.5, 0.6),
        QueryStep("stateless", 12.0, 2.0),
        QueryStep("keyed", 9.0, 0.3),
        QueryStep("stateful", 5.0, 1.0),
    ),
    "q03": (
        QueryStep("stateless", 3.0, 0.9),
        QueryStep("keyed", 9.0, 0.5),
        QueryStep("keyed", 9.0, 0.3),
    ),
    "q04": (
        QueryStep("stateless", 3.0, 1.0),
        QueryStep("keyed", 9.0, 0.11),
        QueryStep("stateless", 3.0, 0.22),
        QueryStep("stateful", 5.0, 1.0),
    ),
    "q15": (
        QueryStep("stateless", 3.0, 0.8),
        QueryStep("stateless", 6.0, 1.0),
        QueryStep("keyed", 6.0, 0.3),
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Virtual:
    """Tuples a second that entered once queues were full, and what the run came to."""

    rows_per_s: float
    result: Simulated

    @property
    def latency_ms(self) -> float:
        """Mean, from a tuple's entry to the exit of what came of it; the whole run where nothing left."""
        latency = self.result.latency
        return 1e3 * (latency.mean if latency else self.result.seconds)


def query(name: str, *, queue: Queue = "hybrid", workers: int = 16) -> Graph:
    """One of the five; item categories of the last one are ten."""
    operators, before = [], "in"
    for place, step in enumerate(QUERIES[name]):
        keys = 10 if name == "q15" else RANGES
        parts = min(workers, keys) if queue == "partitioned" else keys
        operators.append(
            Operator(
                name=f"o{place}", reads=(before,), kind=step.kind, cost_ns=1e3 * step.cost_us,
                selectivity=step.selectivity, capacity=_ROOM, window=_ROOM, buckets=parts, queue=queue,
                draw_cost="exponential", sigma=_SIGMA,
            )
        )  # fmt: skip
        before = f"o{place}"
    return Graph((Source("in", Saturated()),), tuple(operators))


def alone(
    kind: Literal["stateless", "keyed"], cost_us: float, selectivity: float = 1.0, **fields: Any
) -> Graph:
    """One parametric operator; costs vary, or workers would fall into step and never meet."""
    given: dict[str, Any] = {
        "capacity": _ROOM,
        "window": _ROOM,
        "draw_cost": "exponential",
        **fields,
    }
    one = Operator(
        name="work", reads=("in",), kind=kind, cost_ns=1e3 * cost_us, selectivity=selectivity, **given
    )  # fmt: skip
    return Graph((Source("in", Saturated()),), (one,))


def run(
    graph: Graph,
    policy: PickPolicy,
    threads: int,
    rows: int,
    *,
    reorder: Reorder = "non-blocking",
    overhead: Overhead = OVERHEAD,
    until: Callable[[Simulated], int] | None = None,
) -> Virtual:
    """Until so many tuples have entered (or what ``until`` counts); the first two fifths of the time are left out."""
    simulation = Simulation(
        graph, policy=policy, threads=threads, hardware=SIXTEEN, overhead=overhead, reorder=reorder
    )
    counted = until or (lambda result: result.rows_in)
    step_s, seen = _LEAST_STEP_S, [(0.0, 0)]
    while seen[-1][1] < rows:
        simulation.run(step_s)
        result = simulation.result()
        seen.append((simulation.seconds, counted(result)))
        if seen[-1][1] < rows * len(seen) / _STEPS:
            step_s *= 1.5
    first = next(one for one in seen if one[0] >= _FIRST * seen[-1][0])
    if first == seen[-1]:
        first = seen[-2]
    rate = (seen[-1][1] - first[1]) / (seen[-1][0] - first[0])
    return Virtual(rate, result)
