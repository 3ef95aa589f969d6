"""What a simulated runtime is made of: outputs that take time to send, keyed queues, calls, help, noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from thalweg.errors import BuildError
from thalweg.scheduling import FreeList
from thalweg.simulate import (
    At,
    Dedicated,
    Graph,
    Hardware,
    Manual,
    Operator,
    Overhead,
    Saturated,
    Simulated,
    Simulation,
    Source,
    data_parallel,
    pipeline,
    simulate,
)
from thalweg.simulate.large_graphs.large import LargeSimulation

DRAIN = FreeList(slice_ns=1_000_000_000)
MACHINE = Hardware(cores=16, bus=0.002, queue_ns=60, line_ns=100, atomic_ns=50)


def alone(**fields: Any) -> Graph:
    """One operator behind a source that always has a tuple."""
    given: dict[str, Any] = {"cost_ns": 1_000, "capacity": 100, **fields}
    return Graph((Source("in", Saturated()),), (Operator(name="work", reads=("in",), **given),))


# -- worked by hand ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reorder", "left_ns", "held_ns"),
    [("non-blocking", [130, 160, 190, 220], 175), ("lock-based", [130, 160, 190, 220], 175)],
)
def test_outputs_are_sent_one_after_the_other(
    reorder: Any, left_ns: list[int], held_ns: int
) -> None:
    """Four workers end at 100; each output takes 30 to send, in order. A tuple is held from 0 until it has left."""
    one = Operator(name="work", reads=("in",), cost_ns=100)
    graph = Graph((Source("in", At((0, 0, 0, 0))),), (one,))
    ran = simulate(
        graph, policy=FreeList(), threads=4, seconds=1e-6, overhead=Overhead(send_ns=30), reorder=reorder,
    )  # fmt: skip
    assert ran.sink("work").left_ns.tolist() == left_ns
    assert ran.operator("work").latency_s == pytest.approx(held_ns * 1e-9)
    assert ran.operator("work").busy_ns == 4 * 100 + (
        4 * 30 if reorder == "non-blocking" else 30 + 60 + 90 + 120
    )


def test_an_operator_by_calls_has_no_queues() -> None:
    """Three operators of 100 ns and calls of 50: a tuple is through every 450 ns, whatever the machine costs."""
    graph = pipeline(3, cost_ns=100, kind="stateful", capacity=10)
    ran = simulate(graph, policy=Manual(call_ns=50), seconds=1e-4, hardware=MACHINE)
    assert ran.rows_out == pytest.approx(1e5 / 450, abs=1)


def test_a_unit_costs_something_by_itself() -> None:
    """One worker, tuples of 1 µs, and 4 µs a unit of four: two microseconds each."""
    ran = simulate(
        alone(), policy=FreeList(), seconds=0.01, unit_tuples=4, overhead=Overhead(unit_ns=4_000)
    )
    assert ran.rows_out == pytest.approx(5_000, rel=0.01)


def test_a_reader_without_room_is_helped_for_a_quarter_of_its_queue() -> None:
    """With one thread the reader's inbox of eight fills, and loses two tuples at a time."""
    first = Operator(name="first", reads=("in",), kind="stateful", cost_ns=100, capacity=8)
    second = Operator(name="second", reads=("first",), kind="stateful", cost_ns=100, capacity=8)
    simulation = Simulation(
        Graph((Source("in", Saturated()),), (first, second)), policy=DRAIN, self_help=True
    )
    waiting = []
    for _ in range(60):
        simulation.run(1e-7)
        waiting.append(simulation.result().operator("second").waiting)
    # It is filled once, and from then on is never less than three quarters full.
    assert max(waiting) == 7 and min(waiting[waiting.index(7) :]) in (5, 6)


def test_queues_begin_as_full_as_they_are_to_be() -> None:
    """Half of each inbox, but for the first one, which the source fills; not where tuples are merged by order."""
    graph = pipeline(5, cost_ns=1_000, kind="stateful", capacity=40)
    full = Simulation(graph, policy=FreeList(), filled=0.5).result()
    assert [one.waiting for one in full.operators] == [40, 20, 20, 20, 20]
    merged = data_parallel(2, cost_ns=1_000)
    with pytest.raises(BuildError, match="merges by order"):
        Simulation(merged, policy=FreeList(), filled=0.5)


def test_noise_is_the_same_each_time() -> None:
    """Speeds vary from interval to interval, by the same draws; one thread is not disturbed."""
    noisy = dataclasses.replace(MACHINE, noise=0.2, noise_s=0.001)
    speeds = [noisy.slowdown(16, at * 1_000_000) for at in range(20)]
    assert len(set(speeds)) == 20
    assert speeds == [noisy.slowdown(16, at * 1_000_000 + 5) for at in range(20)]
    assert noisy.slowdown(1) == 1.0
    with pytest.raises(BuildError, match="noise_s"):
        Hardware(cores=1, noise_s=0)


# -- queues of keyed operators -----------------------------------------------------------------------------------


def keyed(queue: Any, **fields: Any) -> Simulated:
    """Eight workers in a keyed operator."""
    graph = alone(kind="keyed", queue=queue, draw_cost="exponential", **fields)
    return simulate(graph, policy=DRAIN, threads=8, seconds=0.002)


def test_queues_give_the_same_tuples_in_the_same_order() -> None:
    """What leaves is what entered, in order, by each queue."""
    for queue in ("hybrid", "partitioned", "shared"):
        ran = keyed(queue, buckets=8)
        born = ran.sink("work").born_ns
        assert len(born) > 2_000 and (born[1:] >= born[:-1]).all(), queue


def test_tuples_wait_longer_in_the_partitioned_queue() -> None:
    """A worker that stays in its partition is ahead of others, whose outputs are waited for (Figure 10)."""
    hybrid = keyed("hybrid", buckets=100).operator("work").latency_s
    partitioned = keyed("partitioned", buckets=8).operator("work").latency_s
    assert partitioned > 2 * hybrid


def test_skew_costs_the_partitioned_queue_more() -> None:
    """Ranges of a normal distribution: a hundred of them leave room to balance, eight do not (Figure 9)."""
    hybrid = keyed("hybrid", buckets=100, sigma=0.15).rows_out
    partitioned = keyed("partitioned", buckets=8, sigma=0.15).rows_out
    assert hybrid > 1.5 * partitioned


def test_the_shared_queue_waits_for_its_first_tuple() -> None:
    """While a bucket has a worker, its next tuple holds up all behind it."""
    assert keyed("shared", buckets=8).rows_out < 0.7 * keyed("hybrid", buckets=8).rows_out


# -- large graphs ------------------------------------------------------------------------------------------------


def rates(graph: Graph, threads: int | None) -> tuple[float, float]:
    """Tuples a second of all operators: by the simulation, and by the one for large graphs."""
    policy = DRAIN if threads else Dedicated(switch_ns=500)
    count = threads or MACHINE.processors
    exact = Simulation(
        graph, policy=policy, threads=count, hardware=MACHINE, grain=10, filled=0.5, self_help=True,
        overhead=Overhead(visit_ns=300),
    )  # fmt: skip
    large = LargeSimulation(
        graph, hardware=MACHINE, policy=None if threads else Dedicated(switch_ns=500), threads=count,
        grain=10, visit_ns=300,
    )  # fmt: skip
    found = []
    for one in (exact, large):
        one.run(0.002)
        before = sum(op.tuples for op in one.counters().operators)
        one.run(0.004)
        found.append((sum(op.tuples for op in one.counters().operators) - before) / 0.004)
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4, 12, None])
def test_large_graphs_go_as_fast_as_small_ones(threads: int | None) -> None:
    """A pipeline and data parallelism give the same within a tenth, by either simulation."""
    fields: dict[str, Any] = {"kind": "stateful", "cost_ns": 2_000, "capacity": 80}
    for graph in (pipeline(20, **fields), data_parallel(20, merge="arrival", **fields)):
        exact, large = rates(graph, threads)
        assert large == pytest.approx(exact, rel=0.1)


def test_large_graphs_are_the_same_each_time_and_of_one_kind() -> None:
    """A run gives the same twice; what it cannot do is refused."""
    graph = pipeline(30, cost_ns=500, kind="stateful", capacity=8)

    def done() -> list[int]:
        simulation = LargeSimulation(graph, hardware=MACHINE, threads=5)
        simulation.run(0.001)
        simulation.set_threads(2)
        simulation.run(0.001)
        assert len(simulation.late()) <= 3
        return [one.tuples for one in simulation.counters().operators]

    assert done() == done()
    for wrong in (pipeline(2), data_parallel(2, kind="stateful")):
        with pytest.raises(BuildError, match="large simulation"):
            LargeSimulation(wrong, hardware=MACHINE)
    with pytest.raises(BuildError, match="up to 16"):
        LargeSimulation(graph, hardware=MACHINE).set_threads(17)
