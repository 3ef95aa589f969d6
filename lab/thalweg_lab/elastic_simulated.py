"""The experiments of Sahin & Gedik, section 5.2, on elasticity in virtual time."""

from __future__ import annotations

import math
from typing import Final

from thalweg.elasticity import Combined, Controller, Limits, Replicas, Utilization
from thalweg.scheduling import Random
from thalweg.simulate import (
    TWO_SIXES,
    ElasticHost,
    Graph,
    Operator,
    Overhead,
    Saturated,
    Simulation,
    Source,
    data_parallel,
)

#: What a visit costs apart from the queues, and a switch of the operating system's threads.
_OVERHEAD: Final = Overhead(visit_ns=300)
#: Sahin & Gedik's source gives a tuple in this time: 80 µs a tuple end at five replicas (Figure 9b).
READ_NS: Final = 16_000.0
MOST_THREADS: Final = 12
#: Their periods, in virtual seconds: 600 tuples or so.
_CHAIN_PERIOD_S: Final = 0.01


class Still(Controller):
    """Changes nothing."""

    def decide(self, sample: object) -> tuple[()]:
        return ()


# -- Sahin & Gedik, section 5.2 ----------------------------------------------------------------------------------


def chain(busy: int, cost_us: float, replicas: int = 1) -> Graph:
    """A source operator, so many busy ones, and a sink."""
    operators = [
        Operator(name="read", reads=("in",), kind="stateful", cost_ns=READ_NS, capacity=20)
    ]
    for i in range(busy):
        before = operators[-1].name
        operators.append(
            Operator(name=f"busy{i}", reads=(before,), limit=replicas, cost_ns=1e3 * cost_us, capacity=20)
        )  # fmt: skip
    last = operators[-1].name
    operators.append(
        Operator(name="write", reads=(last,), kind="stateful", cost_ns=1_000, capacity=20)
    )
    return Graph((Source("in", Saturated()),), tuple(operators))


def chain_static(busy: int, cost_us: float, replicas: int, threads: int) -> float:
    """Tuples a second with so many replicas and threads, set by hand."""
    simulation = _chain_simulation(chain(busy, cost_us, replicas), threads)
    host = ElasticHost(
        simulation, Still(), limits=Limits(threads, threads), period_s=5 * _CHAIN_PERIOD_S
    )
    host.run(2)
    return host.rows_per_s(1)


def chain_by_hand(busy: int, cost_us: float) -> float:
    """The most that any setting gives: as many replicas as keep up with the source, some less or one more."""
    needed = math.ceil(1e3 * cost_us / READ_NS)
    counts = {max(min(n, MOST_THREADS // busy), 1) for n in (needed // 2, needed, needed + 1)}
    return max(chain_static(busy, cost_us, n, MOST_THREADS) for n in counts)


def chain_elastic(busy: int, cost_us: float, periods: int) -> ElasticHost:
    """From one thread and one replica on, by utilization and congestion as in the paper."""
    simulation = _chain_simulation(chain(busy, cost_us), 1)
    controller = Combined(Utilization(), Replicas())
    host = ElasticHost(
        simulation, controller, limits=Limits(1, MOST_THREADS), period_s=_CHAIN_PERIOD_S
    )
    host.run(periods)
    return host


def wide_elastic(high: float, periods: int) -> ElasticHost:
    """Twelve busy operators side by side, under utilization with this U_h."""
    controller = Utilization(low=min(0.9, high - 0.05), high=high)
    host = ElasticHost(
        _wide(1), controller, limits=Limits(1, MOST_THREADS), period_s=_CHAIN_PERIOD_S
    )
    host.run(periods)
    return host


def wide_static(threads: int) -> float:
    """The same at a level: tuples a second."""
    host = ElasticHost(
        _wide(threads), Still(), limits=Limits(threads, threads), period_s=5 * _CHAIN_PERIOD_S
    )
    host.run(2)
    return host.rows_per_s(1)


def _wide(threads: int) -> Simulation:
    graph = data_parallel(12, cost_ns=100_000, kind="stateful", merge="arrival", capacity=20)
    return _chain_simulation(graph, threads)


def _chain_simulation(graph: Graph, threads: int) -> Simulation:
    return Simulation(
        graph, policy=Random(slice_ns=1_000_000), threads=threads, hardware=TWO_SIXES, overhead=_OVERHEAD
    )  # fmt: skip
