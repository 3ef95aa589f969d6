"""Controllers in virtual time: what they are told, what is done and refused, stuck threads, and where they settle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from thalweg.elasticity import (
    Combined,
    Controller,
    Limits,
    Sample,
    Suggestion,
    ThreadLevels,
    Utilization,
)
from thalweg.errors import BuildError
from thalweg.scheduling import FreeList
from thalweg.simulate import (
    Constant,
    ElasticHost,
    Graph,
    Hardware,
    Levels,
    Operator,
    Overhead,
    Saturated,
    Simulation,
    Source,
    data_parallel,
    mesh,
    pipeline,
)

#: An operator is left when its input is drained, as in IBM Streams.
DRAIN = FreeList(slice_ns=1_000_000_000)
#: A machine with the figures of a large one, and few cores.
SMALL = Hardware(cores=8, smt=2, smt_gain=1.2, bus=0.003, queue_ns=60, line_ns=300)


class Script(Controller):
    """Suggests one list after the other, and remembers what it is told."""

    def __init__(self, *script: Sequence[Suggestion]) -> None:
        super().__init__()
        self.script = list(script)
        self.samples: list[Sample] = []
        self.refusals: list[tuple[Suggestion, str]] = []

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        self.samples.append(sample)
        return tuple(self.script.pop(0)) if self.script else ()

    def refused(self, suggestion: Suggestion, reason: str) -> None:
        self.refusals.append((suggestion, reason))


def threads(current: int, target: int) -> Suggestion:
    return Suggestion("threads", None, current, target, "as the script says")


def replicas(operator: int, current: int, target: int) -> Suggestion:
    return Suggestion("replicas", operator, current, target, "as the script says")


def chain(*costs_ns: float, per_s: float | None = None, **fields: object) -> Graph:
    """Operators ``o0``, ``o1``, ... of these costs in a row, stateless, one worker each."""
    arrivals = Saturated() if per_s is None else Constant(per_s)
    graph = pipeline(len(costs_ns), arrivals=arrivals, limit=1, capacity=20, **fields)
    made = zip(graph.operators, costs_ns, strict=True)
    return Graph(graph.sources, tuple(dataclasses.replace(one, cost_ns=cost) for one, cost in made))


# -- what a controller is told -----------------------------------------------------------------------------------


def test_a_sample_is_what_was_counted() -> None:
    """Two threads, 1 µs and then 4 µs a tuple, one worker each: the first is busy a quarter of the time."""
    told = Script()
    machine = Hardware(cores=4)
    simulation = Simulation(chain(1_000, 4_000), policy=DRAIN, threads=2, hardware=machine)
    simulation.run(1e-3)
    ElasticHost(simulation, told, limits=Limits(1, 4), period_s=4e-3).run(1)
    (sample,) = told.samples
    assert (sample.threads, sample.unsuspendable, sample.whole) == (2, 0, True)
    assert (sample.now_ns, sample.period_ns) == (5_000_000, 4_000_000)
    first, second = sample.operators
    assert (first.name, first.index, first.replicas, first.max_replicas) == ("o0", 0, 1, 4)
    assert second.tuples == 1_000 and abs(first.tuples - 1_000) <= 21
    assert sample.tuples == first.tuples + second.tuples
    assert second.cost_ns == pytest.approx(4_000) and second.busy_ns == pytest.approx(4e6, rel=0.01)
    assert sum(sample.utilizations) == pytest.approx(1.25, abs=0.02)
    assert sample.cpu_share == pytest.approx(1.25 / 4, abs=0.01)
    # The writer refills the inbox whenever there is room: it is full most of the time, and so is the source's.
    assert first.write_blocked > 0.9 and first.output_blocked == second.write_blocked > 0.6
    assert second.output_blocked == 0


def test_an_input_that_keeps_up_is_not_congested() -> None:
    told = Script()
    graph = chain(1_000, 2_000, per_s=300_000)
    simulation = Simulation(graph, policy=DRAIN, threads=2)
    ElasticHost(simulation, told, limits=Limits(1, 4), period_s=2e-3).run(2)
    assert [one.write_blocked for one in told.samples[1].operators] == [0, 0]
    assert told.samples[1].cpu_share is None


# -- what is done ------------------------------------------------------------------------------------------------


def test_suggestions_are_carried_out_and_noted() -> None:
    script = Script([threads(1, 3)], [replicas(1, 1, 2)], [threads(3, 2)])
    host = ElasticHost(
        Simulation(chain(1_000, 4_000), policy=DRAIN), script, limits=Limits(1, 4), period_s=4e-3
    )
    host.run(5)
    assert host.levels == [1, 3, 3, 2, 2]
    assert [sample.operators[1].replicas for sample in script.samples] == [1, 1, 2, 2, 2]
    assert all(sample.whole for sample in script.samples)
    assert [len(sample.utilizations) for sample in script.samples] == host.levels
    rates = [sample.operators[1].tuples for sample in script.samples]
    assert rates[2] > 1.8 * rates[1]
    assert [
        (one.what, one.operator, one.before, one.after, one.refused) for one in host.changes
    ] == [
        ("threads", "", 1, 3, ""),
        ("replicas", "o1", 1, 2, ""),
        ("threads", "", 3, 2, ""),
    ]
    assert host.changes[0].seconds == pytest.approx(4e-3)
    assert host.settled_after == 3 and host.swing(2) == 0 and host.swing(5) == 2
    assert host.rows_per_s(1) == host.periods[-1].rows_out / 4e-3


def test_what_cannot_be_is_refused_with_a_reason() -> None:
    """A level above the limits, more threads than allowed on an operator, and what the user's function says."""
    graph = Graph(
        (Source("in", Saturated()),),
        (
            Operator(name="a", reads=("in",), kind="stateful"),
            Operator(name="b", reads=("a",), limit=1),
        ),
    )
    wished = [threads(1, 9), threads(1, 0), replicas(0, 1, 2), replicas(1, 1, 5), threads(1, 2)]
    script = Script(wished)
    host = ElasticHost(
        Simulation(graph, policy=DRAIN), script, limits=Limits(1, 4), period_s=1e-4,
        refuse=lambda one: "not now" if one.target == 2 else None,
    )  # fmt: skip
    host.run(2)
    assert script.refusals == [
        (wished[0], "levels end at 4"),
        (wished[1], "levels end at 4"),
        (wished[2], "it takes up to 1 thread"),
        (wished[3], "it takes up to 4 threads"),
        (wished[4], "not now"),
    ]
    assert [one.refused for one in host.changes] == [reason for _, reason in script.refusals]
    assert host.levels == [1, 1] and host.settled_after == 0


def test_a_thread_in_a_stuck_operator_is_counted_out() -> None:
    """From 2 ms to 9 ms a tuple of ``o1`` takes 4 ms instead of 1 µs; one of three threads told to go is in it."""
    stuck = Levels(((2e-3, 4_000.0), (9e-3, 1.0)))
    graph = chain(1_000, 1_000, 1_000)
    first, second, third = graph.operators
    graph = Graph(graph.sources, (first, dataclasses.replace(second, load=stuck), third))
    script = Script([], [], [threads(3, 1)], [], [], [threads(2, 3)])
    host = ElasticHost(
        Simulation(graph, policy=DRAIN, threads=3), script, limits=Limits(1, 3), period_s=1e-3
    )
    host.run(20)
    counted = [sample.unsuspendable for sample in script.samples]
    assert set(counted[:3]) == {0} and 1 in counted and counted[-1] == 0
    at = counted.index(1)
    # The period in which it should have gone is not whole; from the next one on the thread is in the level.
    assert not script.samples[at].whole and script.samples[at + 1].whole
    assert script.samples[at + 1].threads == 2
    assert len(script.samples[at + 1].utilizations) == 2
    assert host.levels[-1] == 3


def test_wrong_periods_are_refused() -> None:
    with pytest.raises(BuildError, match="period_s must be above 0"):
        ElasticHost(
            Simulation(chain(1_000), policy=DRAIN), Script(), limits=Limits(1, 2), period_s=0.0
        )


# -- where controllers settle ------------------------------------------------------------------------------------

GRAINS = 25
SHAPES: dict[str, Callable[..., Graph]] = {
    "pipeline": lambda **fields: pipeline(40, **fields),
    "data parallel": lambda **fields: data_parallel(24, merge="arrival", **fields),
    "both": lambda **fields: mesh(4, 20, merge="arrival", **fields),
}


def busy(shape: str, cost_ns: float, level: int) -> tuple[Simulation, float]:
    """A graph of Schneider & Wu, section 5, that has run for a period, and how long that is."""
    graph = SHAPES[shape](cost_ns=cost_ns, kind="stateful", capacity=4 * GRAINS)
    simulation = Simulation(
        graph, policy=DRAIN, threads=level, grain=GRAINS, hardware=SMALL, overhead=Overhead(visit_ns=300)
    )  # fmt: skip
    # As long as one thread takes to drain all queues about twice.
    period_s = 2 * len(graph.operators) * 4 * GRAINS * (cost_ns + 600) * 1e-9
    simulation.run(period_s)
    return simulation, period_s


def static(shape: str, cost_ns: float, level: int) -> float:
    """Tuples a second of all operators together, at a level."""
    simulation, period_s = busy(shape, cost_ns, level)
    host = ElasticHost(simulation, Script(), limits=Limits(level, level), period_s=period_s)
    host.run(1)
    return host.throughput()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "cost_ns"),
    [
        *(("pipeline", cost) for cost in (1, 100, 1_000)),
        *(("data parallel", cost) for cost in (1, 10_000, 100_000)),
        *(("both", cost) for cost in (1, 100, 1_000)),
    ],
)
def test_thread_levels_find_what_is_best(shape: str, cost_ns: float) -> None:
    """Within 15 periods, at 90 % of the best static level or more, and then they stay."""
    simulation, period_s = busy(shape, cost_ns, 1)
    host = ElasticHost(simulation, ThreadLevels(), limits=Limits(1, 16), period_s=period_s)
    host.run(20)
    best = max(static(shape, cost_ns, level) for level in (1, 4, 6, 8, 12, 16))
    assert host.settled_after <= 15
    assert host.swing(5) <= 1
    assert host.throughput() >= 0.9 * best


def adapted(busy_operators: int, cost_ns: float) -> ElasticHost:
    """Sahin & Gedik, 5.2: a chain with so many busy operators, from one thread and one replica on."""
    costs = [16_000.0, *[cost_ns] * busy_operators, 1_000.0]
    graph = chain(*costs)
    source = dataclasses.replace(graph.operators[0], kind="stateful")
    graph = Graph(graph.sources, (source, *graph.operators[1:]))
    simulation = Simulation(graph, policy=DRAIN, hardware=Hardware(cores=12))
    host = ElasticHost(simulation, Combined(), limits=Limits(1, 12), period_s=0.02)
    host.run(60)
    return host


@pytest.mark.slow
@pytest.mark.parametrize(("busy_operators", "cost_ns"), [(1, 80_000), (2, 60_000)])
def test_throughput_is_held_while_costs_rise(busy_operators: int, cost_ns: float) -> None:
    """The source gives a tuple each 16 µs: as many leave, where one thread manages a fraction (Figures 9 and 10)."""
    host = adapted(busy_operators, cost_ns)
    assert host.rows_per_s() >= 0.9 * 1e9 / 16_000
    needed = -(-cost_ns // 16_000)
    last = host.periods[-1].sample.operators
    assert all(needed <= one.replicas <= needed + 2 for one in last[1:-1])
    assert host.settled_after < 50


def test_utilization_follows_a_load() -> None:
    """Five times the cost for a while: the level rises to what is needed, and comes back."""
    load = Levels(((0.2, 5.0), (0.5, 1.0)))
    work = Operator(name="a", reads=("in",), cost_ns=100_000, load=load)
    graph = Graph((Source("in", Constant(8_000)),), (work,))
    host = ElasticHost(
        Simulation(graph, policy=DRAIN), Utilization(), limits=Limits(1, 8), period_s=0.02
    )
    host.run(40)
    assert host.levels[9] == 1 and max(host.levels[10:25]) >= 4 and host.levels[-1] <= 2
    assert host.simulation.result().rows_in == host.simulation.result().rows_out + 1


@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_is_the_same_each_time(seed: int) -> None:
    """Changes, samples and exits follow from the seed, also where costs are drawn and the load changes."""

    def run() -> ElasticHost:
        graph = chain(2_000, 8_000, 4_000, draw_cost="exponential", load=Levels(((5e-3, 3.0),)))
        simulation = Simulation(graph, policy=DRAIN, hardware=SMALL, seed=seed)
        host = ElasticHost(simulation, Combined(), limits=Limits(1, 6), period_s=1e-3)
        host.run(15)
        return host

    one, other = run(), run()
    assert one.changes == other.changes and len(one.changes) > 3
    assert one.periods == other.periods


@pytest.mark.parametrize("seed", range(3))
def test_no_tuple_is_lost_by_changes(seed: int) -> None:
    """Whatever changes, tuples that entered are in the flow or have left it, in order."""
    levels = [1 + (7 * i + seed) % 5 for i in range(20)]
    changes = [[threads(0, level), replicas(1, 1, 1 + i % 3)] for i, level in enumerate(levels)]
    script = Script(*changes)
    graph = chain(3_000, 9_000, 2_000, per_s=200_000, draw_cost="lognormal")
    simulation = Simulation(graph, policy=DRAIN, hardware=SMALL, seed=seed)
    ElasticHost(simulation, script, limits=Limits(1, 5), period_s=3e-4).run(25)
    result = simulation.result()
    inside = sum(one.waiting + one.in_work + one.held for one in result.operators)
    assert result.rows_in == result.rows_out + inside > 500
    born = result.sink("o2").born_ns
    assert (born[1:] >= born[:-1]).all()
