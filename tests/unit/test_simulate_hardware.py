"""What a simulated machine costs: cores, hardware threads, the bus, cache lines; and grains against single tuples."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from thalweg.errors import BuildError
from thalweg.scheduling import FreeList
from thalweg.simulate import (
    XEON,
    At,
    Constant,
    Dedicated,
    Graph,
    Hardware,
    Operator,
    Overhead,
    Simulated,
    Source,
    data_parallel,
    mesh,
    pipeline,
    simulate,
)
from thalweg.simulate.hardware import Line

#: The free list as IBM Streams has it: an operator is left when its input is drained.
DRAIN = FreeList(slice_ns=1_000_000_000)


def total(result: Simulated) -> int:
    """Tuples that all operators are through with."""
    return sum(operator.rows_in for operator in result.operators)


# -- worked by hand ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "capacity"), [(1, 1.0), (4, 4.0), (6, 4.5), (8, 5.0), (20, 5.0)]
)
def test_hardware_threads_share_cores(threads: int, capacity: float) -> None:
    """Four cores, of which each does a quarter more with two threads."""
    hardware = Hardware(cores=4, smt=2, smt_gain=1.25)
    assert hardware.capacity(threads) == pytest.approx(capacity)
    assert hardware.slowdown(threads) == pytest.approx(threads / capacity)


def test_the_bus_slows_down_all() -> None:
    """Each other one that runs takes a tenth; those that do not fit on the machine do not run."""
    hardware = Hardware(cores=4, bus=0.1)
    assert [hardware.slowdown(n) for n in (1, 2, 4)] == pytest.approx([1.0, 1.1, 1.3])
    assert hardware.slowdown(8) == pytest.approx(2 * 1.3)


def test_a_line_that_one_thread_uses_stays_in_its_cache() -> None:
    """The first use fetches it; afterwards only what another one has written or read in between."""
    hardware, line = Hardware(cores=4, queue_ns=10, line_ns=100), Line()
    held = [
        line.use_ns(hardware, at, who, 2, takes=takes)
        for at, who, takes in [
            (0, 7, False),
            (1_000, 7, True),
            (2_000, 7, False),
            (3_000, 8, True),
            (4_000, 8, True),
        ]
    ]
    assert held == [220, 220, 20, 220, 220]


def test_who_waits_slows_down_who_has_it() -> None:
    """At the same moment: 110 alone; behind one, 160 more; behind two, 210 more."""
    hardware, line = Hardware(cores=4, queue_ns=10, line_ns=100), Line()
    assert [line.use_ns(hardware, 0, who, 1, takes=False) for who in (0, 1, 2)] == [110, 270, 480]
    assert line.use_ns(hardware, 480, 3, 1, takes=False) == 110


def test_threads_over_the_cores_get_turns() -> None:
    """Two tuples of 10 ns on one core: the first begins alone, the second while the first is at work."""
    graph = Graph((Source("in", At((0, 0))),), (Operator(name="a", reads=("in",), cost_ns=10),))
    result = simulate(graph, policy=FreeList(), threads=2, seconds=1e-7, hardware=Hardware(cores=1))
    assert result.sink("a").left_ns.tolist() == [10, 20]


@pytest.mark.parametrize(
    "fields",
    [
        {"cores": 0}, {"cores": 4, "smt": 0}, {"cores": 4, "smt_gain": 2.0}, {"cores": 4, "bus": -1},
        {"cores": 4, "smt": 2, "smt_gain": 0.9}, {"cores": 4, "line_ns": -1},
    ],
)  # fmt: skip
def test_wrong_machines_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BuildError, match="Hardware: "):
        Hardware(**fields)


# -- the shapes of Figures 8 and 9 -------------------------------------------------------------------------------


def curve(graph: Graph, levels: list[int], grain: int, seconds: float) -> list[float]:
    """Tuples that all operators are through with, by level of threads."""
    return [
        float(total(simulate(
            graph, policy=DRAIN, threads=level, seconds=seconds, hardware=XEON, grain=grain,
            overhead=Overhead(visit_ns=300),
        )))
        for level in levels
    ]  # fmt: skip


def test_cheap_operators_side_by_side_gain_nothing() -> None:
    """Data parallelism at a flop a tuple: all meet at the merge (Schneider & Wu, 5.2)."""
    graph = data_parallel(40, cost_ns=1, kind="stateful", merge="arrival", capacity=200)
    few, many = curve(graph, [2, 16], 100, 0.05)
    assert many < 0.5 * few


def test_dear_operators_side_by_side_gain_up_to_a_point() -> None:
    """At 10,000 flops about ten threads are best, and sixteen are much worse (5.4)."""
    graph = data_parallel(40, cost_ns=10_000, kind="stateful", merge="arrival", capacity=200)
    one, ten, many = curve(graph, [1, 10, 24], 100, 0.2)
    assert ten > 6 * one and many < 0.8 * ten


def test_pipelines_gain_until_the_cores_are_used_up() -> None:
    """With 10 pipelines side by side 88 threads gain much over 16, and twice as many next to nothing (5.3)."""
    graph = mesh(10, 30, cost_ns=1_000, kind="stateful", merge="arrival", capacity=1_000)
    few, cores, all_threads = curve(graph, [16, 88, 176], 250, 0.03)
    assert cores > 3 * few and all_threads < 1.1 * cores


# -- nothing but times -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [DRAIN, Dedicated()], ids=["free list", "dedicated"])
def test_the_output_is_that_without_hardware(policy: FreeList | Dedicated) -> None:
    """Order and what comes out are those of a machine that costs nothing."""
    graph = mesh(
        3, 4, arrivals=Constant(1_000_000), cost_ns=200, selectivity=0.7, draw_cost="lognormal"
    )
    runs = [
        simulate(graph, policy=policy, threads=4, seconds=5e-3, hardware=hardware)
        for hardware in (None, Hardware(cores=2, smt=2, smt_gain=1.3, queue_ns=5, line_ns=20))
    ]
    free, shared = (run.sink("merge").born_ns.tolist() for run in runs)
    n = min(len(free), len(shared))
    assert n > 300 and free[:n] == shared[:n]


@pytest.mark.parametrize(
    "graph",
    [
        pipeline(12, cost_ns=500, kind="stateful", capacity=200),
        data_parallel(16, cost_ns=2_000, kind="stateful", merge="arrival", capacity=200),
        mesh(4, 5, cost_ns=1_000, kind="stateful", merge="arrival", capacity=200),
    ],
    ids=["pipeline", "data parallel", "both"],
)
@pytest.mark.parametrize("threads", [1, 4])
def test_grains_give_what_single_tuples_do(graph: Graph, threads: int) -> None:
    """Throughput with 20 tuples a grain is within 8 % of that with single ones, while no queue is overrun."""
    exact, coarse = (
        total(simulate(
            graph, policy=DRAIN, threads=threads, seconds=0.01, hardware=XEON, grain=grain,
            overhead=Overhead(visit_ns=300),
        ))
        for grain in (1, 20)
    )  # fmt: skip
    assert coarse == pytest.approx(exact, rel=0.08)


def test_counts_of_grains_are_of_tuples() -> None:
    graph = pipeline(1, arrivals=Constant(1_000_000), cost_ns=100)
    result = simulate(graph, policy=FreeList(), seconds=1e-3, grain=10)
    assert result.sources[0].arrived == 1_000
    assert result.rows_out == result.operator("o0").rows_out == 1_000
    assert len(result.sink("o0").left_ns) == 100


def test_words_that_all_look_at_cost_the_more_the_more_threads_there_are() -> None:
    """Nothing to be seen with few threads, most of the throughput with a hundred; one thread has them to itself."""

    def done(threads: int, signals: Literal["own", "shared"]) -> int:
        result = simulate(
            pipeline(100, cost_ns=10_000), policy=DRAIN, threads=threads, seconds=0.004, hardware=XEON, grain=20,
            filled=0.5, signals=signals,
        )  # fmt: skip
        return sum(one.rows_out for one in result.operators)

    shares = [done(threads, "shared") / done(threads, "own") for threads in (1, 8, 90)]
    assert shares[0] > 0.9 and shares[1] > 0.85 and shares[2] < 0.5
