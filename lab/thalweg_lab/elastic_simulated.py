"""The papers' experiments on elasticity in virtual time: Schneider & Wu, section 5, and Sahin & Gedik, section 5.2."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Final

from thalweg.elasticity import Combined, Controller, Limits, Replicas, ThreadLevels, Utilization
from thalweg.scheduling import FreeList, Random
from thalweg.simulate import (
    TWO_SIXES,
    XEON,
    Dedicated,
    ElasticHost,
    Graph,
    Hardware,
    Operator,
    Overhead,
    Saturated,
    Simulation,
    Source,
    data_parallel,
    mesh,
    pipeline,
    work_ns,
)
from thalweg.simulate.simulation import Policy

#: An operator is left when its input is drained, as in IBM Streams.
_DRAIN: Final = FreeList(slice_ns=1_000_000_000)
#: What a visit costs apart from the queues, and a switch of the operating system's threads.
_OVERHEAD: Final = Overhead(visit_ns=300)
_DEDICATED: Final = Dedicated(switch_ns=3_000)
#: Tuples that travel as one, and how many of these a queue holds.
_GRAIN: Final = 100
_ROOM: Final = 4
#: Queues are full when what leaves a flow is at least this share of what an operator takes; so many periods are waited.
_FULL: Final = 0.95
_MOST_FILLING: Final = 100
#: What queues add to a flop's nanosecond, about: only lengths of periods depend on it.
_QUEUES_NS: Final = 600.0
#: Sahin & Gedik's source gives a tuple in this time: 80 µs a tuple end at five replicas (Figure 9b).
READ_NS: Final = 16_000.0
MOST_THREADS: Final = 12
#: Their periods, in virtual seconds: 600 tuples or so.
_CHAIN_PERIOD_S: Final = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A graph of Schneider & Wu with one cost.

    Attributes:
        hops: operators that a tuple passes.
        period_s: virtual s; as long as the graph makes it necessary.
    """

    shape: str
    flops: int
    graph: Graph
    hops: int
    period_s: float

    @property
    def manual(self) -> float:
        """Tuples a second by one thread that calls one operator after the other, without queues."""
        return 1e9 / work_ns(self.graph)


def cases(operators: int, side: int, depth: int) -> list[Case]:
    """The three graphs with three costs each, a flop being a nanosecond.

    In data parallelism operators differ, so a period is what one thread takes to go round once and a half. Else all are
    alike, and a part of that will do. Where more threads get no more done, a longer one costs little.
    """
    makers: dict[str, tuple[Callable[..., Graph], int, tuple[int, ...]]] = {
        "pipeline": (lambda **f: pipeline(operators, **f), operators, (1, 100, 1_000)),
        "data parallel": (
            lambda **f: data_parallel(operators, merge="arrival", **f), 3, (1, 10_000, 100_000),
        ),
        "both": (lambda **f: mesh(side, depth, merge="arrival", **f), depth + 2, (1, 100, 1_000)),
    }  # fmt: skip
    found = []
    for shape, (make, hops, all_flops) in makers.items():
        for flops in all_flops:
            # Where a tuple takes long enough, half the room shows the same with half the events.
            room = _ROOM // 2 if shape == "data parallel" else _ROOM
            graph = make(cost_ns=flops, kind="stateful", capacity=room * _GRAIN)
            grains = operators * room * 1.5 if shape == "data parallel" else operators / 2
            grains = max(grains, 1_000 if flops <= 100 else 200)
            period_s = grains * _GRAIN * (flops + _QUEUES_NS) * 1e-9
            found.append(Case(shape, flops, graph, hops, period_s))
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Static:
    """A level of threads that stays: tuples a second through the flow, and of all operators together."""

    threads: int
    rows_per_s: float
    throughput: float


def flowing(case: Case, hardware: Hardware, threads: int, policy: Policy = _DRAIN) -> Simulation:
    """A graph at a level for so long that its queues are as full as they get: as much leaves as an operator takes.

    Before, operators mostly fill queues and nobody waits for room, which in long pipelines gives up to twice as much.
    """
    simulation = Simulation(
        case.graph, policy=policy, threads=threads, hardware=hardware, grain=_GRAIN, overhead=_OVERHEAD
    )  # fmt: skip
    host = _still(simulation, case, threads)
    for _ in range(_MOST_FILLING):
        host.run(1)
        if host.rows_per_s(1) >= _FULL * host.throughput(1) / case.hops:
            break
    return simulation


def static(simulation: Simulation, case: Case, threads: int) -> Static:
    """What a flow gives at a level, over a period behind one that is left out."""
    simulation.set_threads(threads)
    host = _still(simulation, case, threads)
    host.run(2)
    return Static(threads, host.throughput(1) / case.hops, host.throughput(1))


def elastic(simulation: Simulation, case: Case, most: int, periods: int) -> ElasticHost:
    """A flow under :class:`ThreadLevels` from one thread on."""
    simulation.set_threads(1)
    host = ElasticHost(simulation, ThreadLevels(), limits=Limits(1, most), period_s=case.period_s)
    host.run(periods)
    return host


def dedicated(case: Case, hardware: Hardware) -> Static:
    """A thread an operator."""
    threads = hardware.processors
    return static(flowing(case, hardware, threads, _DEDICATED), case, threads)


def _still(simulation: Simulation, case: Case, threads: int) -> ElasticHost:
    limits = Limits(threads, threads)
    return ElasticHost(simulation, Still(), limits=limits, period_s=case.period_s)


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


def levels_up_to(most: int) -> Sequence[int]:
    """Powers of two, what is half-way between, and the most."""
    steps = [1, *(n for i in range(1, 10) for n in (2**i, 3 * 2 ** (i - 1)))]
    return sorted({n for n in steps if n < most} | {most})


def machine_of(most: int) -> Hardware:
    """The Xeon where so many threads need it, or one with as many processors that is else the same."""
    if most > XEON.processors // 2:
        return XEON
    return dataclasses.replace(XEON, cores=max(most // XEON.smt, 1))
