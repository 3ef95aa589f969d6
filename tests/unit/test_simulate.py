"""The simulator: schedules worked by hand, conservation, order, back-pressure, and formulas of queueing."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

from thalweg.errors import BuildError
from thalweg.scheduling import (
    CurrentThroughput,
    EstimatedTime,
    FlowView,
    FreeList,
    LastInPipeline,
    MaxQueueLength,
    MaxRunningTime,
    MinLatency,
    Pick,
    PickPolicy,
    QueueSizeThrottling,
    Random,
    RoundRobin,
)
from thalweg.simulate import (
    Arrivals,
    At,
    Bursts,
    Constant,
    Graph,
    Operator,
    Overhead,
    Poisson,
    Saturated,
    Simulated,
    Simulation,
    Source,
    Steps,
    simulate,
)
from thalweg.simulate.board import Board

PICKS = [
    QueueSizeThrottling(),
    LastInPipeline(),
    EstimatedTime(),
    CurrentThroughput(),
    FreeList(),
    Random(seed=3),
    RoundRobin(),
    MaxQueueLength(slice_ns=1_000),
    MinLatency(slice_ns=1_000),
    MaxRunningTime(slice_ns=1_000),
]
by_pick = pytest.mark.parametrize("policy", PICKS, ids=lambda policy: type(policy).__name__)


def chain(arrivals: Arrivals, *operators: dict[str, Any]) -> Graph:
    """Operators ``a``, ``b``, ... one behind the other."""
    names = "abcdefghij"
    made = [
        Operator(name=name, reads=(before,), **fields)
        for before, name, fields in zip(("in", *names), names, operators, strict=False)
    ]
    return Graph((Source("in", arrivals),), tuple(made))


def exits(result: Simulated, sink: str) -> list[tuple[int, int]]:
    """When each tuple entered and left, ns."""
    found = result.sink(sink)
    return list(zip(found.born_ns.tolist(), found.left_ns.tolist(), strict=True))


# -- schedules worked by hand ------------------------------------------------------------------------------------


def test_one_thread_takes_the_last_first() -> None:
    """LP with a slice of one tuple pulls each tuple through: a 3, b 5, so one leaves each 8 ns."""
    graph = chain(At((0, 0, 0)), {"cost_ns": 3}, {"cost_ns": 5})
    result = simulate(graph, policy=LastInPipeline(slice_ns=1), seconds=1e-7)
    assert exits(result, "b") == [(0, 8), (0, 16), (0, 24)]
    assert result.threads[0].busy_ns == 24
    assert result.threads[0].idle_ns == 76


def test_one_thread_stays_for_its_slice() -> None:
    """With a slice of 6 ns the thread does two tuples of a (ends at 6), then b's two, then the third's."""
    graph = chain(At((0, 0, 0)), {"cost_ns": 3}, {"cost_ns": 5})
    result = simulate(graph, policy=FreeList(slice_ns=6), seconds=1e-7)
    assert exits(result, "b") == [(0, 11), (0, 16), (0, 24)]
    assert result.operator("a").visits == 2


def test_two_threads_of_a_stateless_operator_keep_the_order() -> None:
    """At 0 and 1 both threads begin a tuple of 10 ns; the second waits for nobody, and the third for a thread."""
    graph = chain(At((0, 1, 2)), {"cost_ns": 10})
    result = simulate(graph, policy=FreeList(), threads=2, seconds=1e-7)
    assert exits(result, "a") == [(0, 10), (1, 11), (2, 20)]


def test_a_tuple_leaves_when_its_predecessors_have() -> None:
    """With drawn costs a short tuple behind a long one waits in the reorder buffer."""
    graph = chain(At((0, 0)), {"cost_ns": 1_000, "draw_cost": "exponential"})
    alone = simulate(graph, policy=FreeList(), threads=1, seconds=1, seed=3)
    first, second = (left for _, left in exits(alone, "a"))
    assert second - first < first, "the seed must give a short tuple behind a long one"
    both = simulate(graph, policy=FreeList(), threads=2, seconds=1, seed=3)
    assert exits(both, "a") == [(0, first), (0, first)]


def test_a_stateful_operator_has_one_worker() -> None:
    """A second thread is of no use to it."""
    graph = chain(At((0, 0, 0)), {"cost_ns": 10, "kind": "stateful"})
    result = simulate(graph, policy=FreeList(), threads=2, seconds=1e-7)
    assert [left for _, left in exits(result, "a")] == [10, 20, 30]
    assert sorted(thread.busy_ns for thread in result.threads) == [0, 30]


def test_tuples_of_a_bucket_follow_each_other() -> None:
    """With all tuples in one bucket a keyed operator is serial; with many it takes as many workers as there are."""
    for top, last_ns in ((1.0, 40), (0.0, 20)):
        graph = chain(
            At((0, 0, 0, 0)), {"cost_ns": 10, "kind": "keyed", "top": top, "buckets": 10**9}
        )
        result = simulate(graph, policy=FreeList(), threads=2, seconds=1e-7)
        assert exits(result, "a")[-1] == (0, last_ns)


def test_deciding_costs_time() -> None:
    """5 ns a visit and 2 an operator, before each of two visits of one tuple; the thread that slept wakes for 3."""
    graph = chain(At((100, 200)), {"cost_ns": 10})
    overhead = Overhead(visit_ns=5, operator_ns=2, wake_ns=3)
    result = simulate(graph, policy=FreeList(), overhead=overhead, seconds=1e-6)
    assert exits(result, "a") == [(100, 120), (200, 220)]
    # One decision at the start, and after each visit one that finds nothing.
    assert result.decisions == 5
    assert result.threads[0].scheduling_ns == 5 * 7 + 2 * 3


def test_a_full_inbox_holds_back_the_feeder() -> None:
    """b takes 10 ns and has room for one: a (1 ns) goes on when b has taken, and the source's tuples wait."""
    graph = chain(
        At((0,) * 5),
        {"cost_ns": 1, "capacity": 1},
        {"cost_ns": 10, "capacity": 1, "kind": "stateful"},
    )
    simulation = Simulation(graph, policy=LastInPipeline(slice_ns=1), threads=2)
    simulation.run(5e-9)
    result = simulation.result()
    # The first is in b, the second before b, the third before a: a has put two out.
    assert result.operator("a").rows_out == 2
    assert (result.operator("b").waiting, result.operator("a").waiting) == (1, 1)
    assert result.sources[0].backlog == 2
    simulation.run(1e-6)
    assert [left for _, left in exits(simulation.result(), "b")] == [11, 21, 31, 41, 51]


def test_a_window_bounds_the_reorder_buffer() -> None:
    """Only so many units are between entry and exit of an operator, however many threads there are."""
    graph = chain(Saturated(), {"cost_ns": 100, "window": 3})
    simulation = Simulation(graph, policy=FreeList(), threads=8)
    simulation.run(50e-9)
    assert simulation.result().operator("a").in_work == 3


# -- what must hold of any graph ---------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """One or two sources and up to six operators of all kinds, with branches that meet again."""
    sources = [Source("s0", Constant(2e6)), Source("s1", Poisson(1e6))][: draw(st.integers(1, 2))]
    names = [source.name for source in sources]
    operators = []
    for i in range(draw(st.integers(1, 6))):
        reads = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        operators.append(
            Operator(
                name=f"o{i}",
                reads=tuple(reads),
                kind=draw(st.sampled_from(["stateless", "keyed", "stateful"])),
                cost_ns=draw(st.sampled_from([50, 300, 1_000])),
                draw_cost=draw(st.sampled_from(["constant", "exponential"])),
                selectivity=draw(st.sampled_from([0, 0.3, 1, 1, 2.5])),
                draw_selectivity=draw(st.sampled_from(["exact", "random"])),
                capacity=draw(st.sampled_from([1, 2, 50])),
                window=draw(st.sampled_from([1, 5, 1_000])),
                split=draw(st.sampled_from(["copy", "deal"])),
                buckets=4,
                top=0.3,
            )
        )
        names.append(f"o{i}")
    return Graph(tuple(sources), tuple(operators))


def finite(graph: Graph, tuples: int) -> Graph:
    """The same with so many tuples a source."""
    sources = []
    for i, source in enumerate(graph.sources):
        at = tuple(100 * (n + i) for n in range(tuples))
        sources.append(Source(source.name, At(at)))
    return dataclasses.replace(graph, sources=tuple(sources))


def rows_before(graph: Graph, result: Simulated, name: str) -> tuple[int, int]:
    """How many tuples an operator got by what those that it reads put out, at least and at most."""
    readers = Counter(read for operator in graph.operators for read in operator.reads)
    low = high = 0
    operator = next(operator for operator in graph.operators if operator.name == name)
    for read in operator.reads:
        for source in result.sources:
            if source.name == read:
                low, high = (
                    low + source.arrived - source.backlog,
                    high + source.arrived - source.backlog,
                )
        for before, spec in zip(result.operators, graph.operators, strict=True):
            if before.name == read:
                out = before.rows_out - before.held
                share = readers[read] if spec.split == "deal" else 1
                low, high = low + out // share, high + -(-out // share)
    return low, high


@settings(max_examples=sized(80), deadline=None)
@given(graphs(), st.sampled_from(PICKS), st.integers(1, 5), st.integers(0, 3))
def test_no_tuple_is_lost(graph: Graph, policy: PickPolicy, threads: int, seed: int) -> None:
    """At any time what an operator got is what it did, has in work, and has waiting."""
    result = simulate(graph, policy=policy, threads=threads, seconds=3e-5, seed=seed)
    for operator in result.operators:
        got = operator.rows_in + operator.in_work + operator.waiting
        low, high = rows_before(graph, result, operator.name)
        assert low <= got <= high
    busy = sum(operator.busy_ns for operator in result.operators)
    assert busy <= sum(thread.busy_ns for thread in result.threads) <= threads * 30_000


@settings(max_examples=sized(80), deadline=None)
@given(graphs(), st.integers(1, 5), st.sampled_from(PICKS), st.integers(0, 3))
def test_the_output_is_that_of_one_thread(
    graph: Graph, threads: int, policy: PickPolicy, seed: int
) -> None:
    """All tuples get through, and at each sink the same ones in the same order, in order of entry."""
    graph = finite(graph, 40)
    serial = simulate(graph, policy=LastInPipeline(), seconds=1, seed=seed)
    result = simulate(graph, policy=policy, threads=threads, seconds=1, seed=seed)
    assert all(o.waiting == o.in_work == o.held == 0 for o in result.operators)
    assert all(source.backlog == 0 for source in result.sources)
    for ours, theirs in zip(result.sinks, serial.sinks, strict=True):
        assert ours.born_ns.tolist() == theirs.born_ns.tolist() == sorted(theirs.born_ns.tolist())
        assert ours.left_ns.tolist() == sorted(ours.left_ns.tolist())


@settings(max_examples=sized(30), deadline=None)
@given(graphs(), st.sampled_from(PICKS), st.integers(1, 4))
def test_inboxes_are_bounded(graph: Graph, policy: PickPolicy, threads: int) -> None:
    """No inbox holds more than its capacity and the outputs of one tuple beyond the first."""
    result = simulate(graph, policy=policy, threads=threads, seconds=3e-5)
    # Outputs of one tuple of a source on a way of up to six operators of selectivity 2.5, which meet again.
    beyond = (3 * 3) ** len(graph.operators)
    for operator, spec in zip(result.operators, graph.operators, strict=True):
        capacity = spec.capacity
        assert capacity is not None
        if all(one.selectivity <= 1 and len(one.reads) == 1 for one in graph.operators):
            beyond = 0
        # A keyed operator's workers may have taken tuples that wait for their bucket.
        taken = spec.window if spec.kind == "keyed" else 0
        assert operator.waiting <= len(spec.reads) * (capacity + beyond) + taken


@by_pick
def test_the_same_seed_gives_the_same_run(policy: PickPolicy) -> None:
    """Everything that is drawn hangs on the seed, and nothing else does."""
    fields = {"draw_cost": "exponential", "draw_selectivity": "random", "selectivity": 0.7}
    graph = chain(Poisson(1e6), *[{**fields, "kind": "keyed"}] * 3)
    runs = [
        simulate(graph, policy=policy, threads=3, seconds=1e-3, seed=seed) for seed in (1, 1, 2)
    ]
    assert runs[0].sampled_queued.tolist() == runs[1].sampled_queued.tolist()
    assert exits(runs[0], "c") == exits(runs[1], "c") != exits(runs[2], "c")
    assert runs[0].events == runs[1].events


# -- formulas ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "draw_cost", "seconds", "tolerance"),
    [
        (0.5, "constant", 0.04, 0.03),
        (0.5, "exponential", 0.04, 0.05),
        pytest.param(0.8, "constant", 0.5, 0.03, marks=pytest.mark.slow),
        pytest.param(0.8, "exponential", 0.5, 0.05, marks=pytest.mark.slow),
    ],
)
def test_one_worker_is_a_queue(
    load: float, draw_cost: str, seconds: float, tolerance: float
) -> None:
    """M/D/1 and M/M/1: the mean wait is ρc / (1 − ρ), half of it if each tuple costs the same (Pollaczek, Khinchine).

    And by Little's law the waiting tuples are their rate times their wait.
    """
    cost_ns = 1_000
    graph = chain(
        Poisson(load * 1e6), {"cost_ns": cost_ns, "draw_cost": draw_cost, "capacity": None}
    )
    result = simulate(graph, policy=FreeList(), seconds=seconds, seed=4)
    wait_ns = load * cost_ns / (1 - load) / (2 if draw_cost == "constant" else 1)
    assert result.latency is not None
    assert result.latency.mean * 1e9 == pytest.approx(cost_ns + wait_ns, rel=tolerance)
    assert result.mean_queued == pytest.approx(load / cost_ns * wait_ns, rel=2 * tolerance)
    assert result.threads[0].busy_ns == pytest.approx(load * seconds * 1e9, rel=0.02)


@by_pick
def test_a_saturated_pipeline_keeps_all_threads_busy(policy: PickPolicy) -> None:
    """Four stateless operators of 1 µs: four threads take a million tuples a second, under each policy."""
    graph = chain(Saturated(), *[{"cost_ns": 1_000}] * 4)
    simulation = Simulation(graph, policy=policy, threads=4)
    simulation.run(0.01)
    before = simulation.result()
    simulation.run(0.01)
    result = simulation.result()
    assert all(thread.busy_ns >= 0.999 * 0.02e9 for thread in result.threads)
    queued = result.rows_in - result.rows_out
    assert result.rows_out - before.rows_out == pytest.approx(10_000, abs=queued + 4_000)


def test_the_slowest_stateful_operator_sets_the_pace() -> None:
    """Four threads, stateful operators of 1, 2 and 1 µs: half a million tuples a second."""
    fields = [{"cost_ns": cost, "kind": "stateful"} for cost in (1_000, 2_000, 1_000)]
    graph = chain(Saturated(), *fields)
    result = simulate(graph, policy=FreeList(), threads=4, seconds=0.02)
    assert result.rows_out == pytest.approx(10_000, rel=0.01)


# -- merges, arrivals, changes -----------------------------------------------------------------------------------


def diamond(**merge: Any) -> Graph:
    """A split that deals, a slow and a fast branch, and a merge."""
    return Graph(
        (Source("in", At((0, 1, 2, 3))),),
        (
            Operator(name="split", reads=("in",), cost_ns=1, split="deal"),
            Operator(name="slow", reads=("split",), cost_ns=100),
            Operator(name="fast", reads=("split",), cost_ns=1),
            Operator(name="merge", reads=("slow", "fast"), cost_ns=1, **merge),
        ),
    )


def test_a_merge_waits_for_earlier_tuples() -> None:
    """By order what went the fast way waits for what went the slow one; as they come it does not."""
    policy = LastInPipeline(slice_ns=1)
    ordered = simulate(diamond(), policy=policy, threads=5, seconds=1e-6)
    assert [born for born, _ in exits(ordered, "merge")] == [0, 1, 2, 3]
    loose = simulate(diamond(merge="arrival"), policy=policy, threads=5, seconds=1e-6)
    assert [born for born, _ in exits(loose, "merge")] == [1, 3, 0, 2]


def test_a_merge_goes_on_when_a_branch_has_filtered() -> None:
    """A tuple that nothing comes of still lets those behind it pass."""
    graph = Graph(
        (Source("in", At((0, 1, 2, 3))),),
        (
            Operator(name="none", reads=("in",), cost_ns=50, selectivity=0),
            Operator(name="far", reads=("none",), cost_ns=1),
            Operator(name="merge", reads=("in", "far"), cost_ns=1),
        ),
    )
    result = simulate(graph, policy=FreeList(), threads=8, seconds=1e-6)
    assert exits(result, "merge") == [(0, 51), (1, 52), (2, 53), (3, 54)]


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        (Constant(4.0), [0, 250, 500, 750, 1_000]),
        (Bursts(10.0, on_s=0.2, off_s=0.3), [0, 100, 500, 600, 1_000]),
        (Steps(((0.5, 4.0), (0.5, 10.0))), [0, 250, 500, 600, 700, 800, 900]),
        (At((5_000_000,)), [5]),
    ],
)
def test_arrivals(arrivals: Arrivals, expected: list[int]) -> None:
    """Times of arrival in the first second, ms."""
    result = simulate(chain(arrivals, {"cost_ns": 1}), policy=FreeList(), seconds=1.001)
    assert [born // 1_000_000 for born, _ in exits(result, "a")] == expected


def test_poisson_arrivals() -> None:
    """On average as many as said, with distances whose deviation is their mean."""
    result = simulate(chain(Poisson(1e5), {"cost_ns": 1}), policy=FreeList(), seconds=0.2)
    born = [time for time, _ in exits(result, "a")]
    assert len(born) == pytest.approx(20_000, rel=0.03)
    gaps = [late - early for early, late in itertools.pairwise(born)]
    square = sum(gap * gap for gap in gaps) / len(gaps)
    assert square == pytest.approx(2 * 10_000**2, rel=0.1)


def test_threads_change_while_it_runs() -> None:
    """More threads do more; fewer end what they have in hand; one that comes back goes on living."""
    graph = chain(Constant(10e6), {"cost_ns": 1_000, "capacity": None})
    simulation = Simulation(graph, policy=FreeList(), threads=1)
    counts = []
    for threads in (1, 4, 2):
        simulation.set_threads(threads)
        simulation.run(1e-3)
        counts.append(simulation.result().rows_out)
    assert [counts[0], counts[1] - counts[0]] == [1_000, 4_000]
    assert counts[2] - counts[1] == pytest.approx(2_000, abs=3)
    lives = [t.busy_ns + t.scheduling_ns + t.idle_ns for t in simulation.result().threads]
    assert lives == pytest.approx([3e6, 2e6, 1e6, 1e6], abs=1_000)
    assert simulation.threads == 2


def test_sleeping_threads_are_suspended_and_resumed() -> None:
    """A thread that sleeps when the level falls is not woken any more, until the level rises."""
    graph = chain(At((0,) * 3 + (11_000,) * 3 + (21_000,) * 3), {"cost_ns": 100})
    simulation = Simulation(graph, policy=FreeList(), threads=3)
    lefts = []
    for threads in (3, 1, 3):
        simulation.set_threads(threads)
        simulation.run(10e-6)
        lefts.append(simulation.result().sink("a").left_ns.tolist()[-3:])
    assert lefts == [[100] * 3, [11_100, 11_200, 11_300], [21_100] * 3]


def test_the_limit_changes_while_it_runs() -> None:
    """Two workers at a time instead of one, from the moment on."""
    graph = chain(Constant(10e6), {"cost_ns": 1_000, "capacity": None, "limit": 1})
    simulation = Simulation(graph, policy=FreeList(), threads=4)
    simulation.run(1e-3)
    assert simulation.result().rows_out == 1_000
    simulation.set_limit("a", 2)
    simulation.run(1e-3)
    assert simulation.result().rows_out == pytest.approx(3_000, abs=2)


def test_larger_units_are_fewer() -> None:
    """A unit of ten tuples puts out when it ends."""
    graph = chain(At((0,) * 20), {"cost_ns": 10})
    result = simulate(graph, policy=FreeList(), unit_tuples=10, seconds=1e-6)
    assert [left for _, left in exits(result, "a")] == [100] * 10 + [200] * 10


# -- views and refusals ------------------------------------------------------------------------------------------


def test_what_a_policy_sees() -> None:
    """Worklists, the fullest reader, workers and cumulative selectivities, over branches, on the way."""
    views: list[FlowView] = []

    class Look(LastInPipeline):
        """LP that keeps what it saw last."""

        def pick_function(self) -> Pick:
            pick = LastInPipeline.pick_function(self)

            def look(view: FlowView, worker: int) -> int:
                views[:] = [deepcopy(view)]
                return pick(view, worker)

            return look

    graph = Graph(
        (Source("in", At(tuple(range(200)))),),
        (
            Operator(name="many", reads=("in",), cost_ns=10, selectivity=3),
            Operator(name="few", reads=("in",), cost_ns=20, selectivity=0.25),
            Operator(name="both", reads=("many", "few"), cost_ns=10, priority_class=2, limit=3),
        ),
    )
    simulate(graph, policy=Look(slice_ns=1), threads=1, seconds=1e-4)
    (view,) = views
    assert view.kind.tolist() == [3, 0, 0, 0]
    assert view.worklist.tolist() == [0, 0, 0, 0]
    assert view.output.tolist() == [0, 0, 0, -1]
    assert view.cost_ns.tolist()[1:] == [10, 20, 10]
    assert view.selectivity.tolist()[1:3] == [3, 0.25]
    assert view.cumulative_in.tolist() == [1, 1, 1, 3.25]
    assert view.cumulative_out.tolist() == [1, 3, 0.25, 3.25]
    assert view.limit[3] == 3
    assert view.priority_class[3] == 2
    assert view.runnable.tolist() == [0, 0, 0, 0]
    assert view.head_ns.tolist() == [view.now_ns[0]] * 4
    ports = view.ports
    assert ports.operator.tolist() == [1, 2, 3, 3]
    assert ports.length.tolist() == [0] * 4
    assert ports.capacity.tolist() == [1_000] * 4
    assert ports.head_ns.tolist() == [view.now_ns[0]] * 4
    assert ports.enqueued_ns.tolist() == [view.now_ns[0]] * 4
    assert ports.reads.tolist() == [1e8, 5e7, 5e7, 5e7]
    assert ports.writer.tolist() == [0, 0, 1, 2]
    assert ports.target.tolist() == [0, 1, 2, 3]
    assert ports.writes.tolist() == [0, 0, 3e8, 1.25e7]
    assert ports.conjunctive.tolist() == [1] * 4


@settings(max_examples=sized(40), deadline=None)
@given(graphs(), st.integers(1, 4))
def test_what_a_policy_sees_is_as_it_is(graph: Graph, threads: int) -> None:
    """Only what has changed is looked at again, and nothing that has is missed."""

    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Look(LastInPipeline):
        """LP that compares its view with one made anew."""

        def pick_function(self) -> Pick:
            pick = LastInPipeline.pick_function(self)

            def look(view: FlowView, worker: int) -> int:
                for simulation in simulations:
                    board = Board(simulation._net, simulation._nodes, self.window_ns)
                    assert not simulation._net.touched and not simulation._net.changed
                    simulation._net.touched.update(simulation._nodes)
                    *anew, ports = board.view()
                    for name, shown, fresh in zip(FlowView._fields, view, anew, strict=False):
                        # Cumulative selectivities may lag by the drift that is allowed.
                        rel = 0.1 if name.startswith("cumulative") else 0.0
                        assert shown.tolist() == pytest.approx(fresh.tolist(), rel=rel, abs=0)
                    for shown, fresh in zip(view.ports, ports, strict=True):
                        assert shown.tolist() == fresh.tolist()
                return pick(view, worker)

            return look

    simulations: list[Simulation] = []
    simulations.append(Simulation(graph, policy=Look(slice_ns=200), threads=threads))
    simulations[0].run(1e-5)
    assert simulations[0].result().decisions > threads


def test_many_operators_are_picked_by_machine_code_alike() -> None:
    """Above a size picks are compiled; a policy that Numba refuses runs as it is; both give the same run."""

    class Interpreted(LastInPipeline):
        def pick_function(self) -> Pick:
            pick = LastInPipeline.pick_function(self)
            return lambda view, worker: int(str(pick(view, worker)))

    operators = [Operator(name="o0", reads=("in",))]
    for i in range(1, 80):
        operators.append(Operator(name=f"o{i}", reads=(f"o{i - 1}",)))
    graph = Graph((Source("in", Constant(1e5)),), tuple(operators))
    runs = [
        simulate(graph, policy=p, threads=9, seconds=1e-3)
        for p in (LastInPipeline(), Interpreted())
    ]
    assert exits(runs[0], "o79") == exits(runs[1], "o79")
    assert runs[0].rows_out > 0


def test_a_policy_that_picks_what_cannot_run_is_refused() -> None:
    """The message says what it picked, and what it could have."""

    class Wrong(LastInPipeline):
        def pick_function(self) -> Pick:
            return lambda view, worker: 2

    graph = chain(At((0,)), {}, {})
    with pytest.raises(BuildError, match=r"Wrong: it picked 2.*\n.*\[1\]"):
        simulate(graph, policy=Wrong(), seconds=1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cost_ns": 0}, "cost_ns must be above 0"),
        ({"selectivity": -1}, "selectivity must be 0 or more"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"kind": "stateful", "limit": 2}, "limit must be 1 for a stateful"),
        ({"capacity": 0}, "capacity must be"),
        ({"reads": ()}, "reads must be at least one"),
        ({"reads": ("in", "in")}, "reads must be names that differ"),
        ({"kind": "other"}, "kind must be"),
        ({"top": 2}, "top must be"),
        ({"reads": ("b",)}, "reads b, which is not before it"),
    ],
)
def test_wrong_operators_are_refused(fields: dict[str, Any], message: str) -> None:
    """When they are described, with the field and what was expected."""
    with pytest.raises(BuildError, match=message):
        Graph(
            (Source("in", Constant(1)),), (Operator(**{"name": "a", "reads": ("in",), **fields}),)
        )


def test_wrong_graphs_and_runs_are_refused() -> None:
    """Names that stand twice, unbounded saturation, order asked for where it is lost, no threads."""
    a = Operator(name="a", reads=("in",), capacity=None)
    with pytest.raises(BuildError, match="two sources or operators are named a"):
        Graph((Source("in", Constant(1)),), (a, a))
    with pytest.raises(BuildError, match="saturated in"):
        Graph((Source("in", Saturated()),), (a,))
    loose = Operator(name="b", reads=("in", "a"), merge="arrival")
    with pytest.raises(BuildError, match="merges by order, but b"):
        Graph((Source("in", Constant(1)),), (a, loose, Operator(name="c", reads=("b", "a"))))
    graph = chain(Constant(1), {})
    with pytest.raises(BuildError, match="threads must be"):
        simulate(graph, policy=FreeList(), threads=0, seconds=1)
    with pytest.raises(BuildError, match="unit_tuples"):
        simulate(graph, policy=FreeList(), unit_tuples=0, seconds=1)
    with pytest.raises(BuildError, match="per_s must be above 0"):
        Constant(0)
    with pytest.raises(BuildError, match="must not fall"):
        At((3, 2))


# -- preemption ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LongerQueue(MaxQueueLength):
    """Leaves an operator as soon as another has the longer queue; notes what it was asked."""

    asked: list[tuple[int, int]] = dataclasses.field(default_factory=list, hash=False)

    def preempt(self, view: FlowView, operator: int, began_ns: int) -> bool:
        self.asked.append((operator, int(view.now_ns[0]) - began_ns))
        return bool(view.worklist[operator] < view.worklist.max())


def test_own_preemption() -> None:
    """A policy with its own ``preempt`` is asked after each tuple; without one the quantum alone ends a visit."""
    graph = chain(Saturated(), {"cost_ns": 100, "capacity": 64}, {"cost_ns": 100, "capacity": 64})
    policy = LongerQueue(slice_ns=50_000)
    own, quantum = (
        simulate(graph, policy=one, seconds=1e-4)
        for one in (policy, MaxQueueLength(slice_ns=50_000))
    )
    assert own.decisions > 5 * quantum.decisions
    assert len(policy.asked) >= own.decisions
    assert {operator for operator, _ in policy.asked} == {1, 2}
    assert all(0 < ran <= 100_000 for _, ran in policy.asked)
