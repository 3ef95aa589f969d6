"""Simulated threads under policies of rounds, and with a thread an operator: schedules worked by hand, and laws."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized
from tests.unit.test_simulate import chain, exits, finite, graphs

from thalweg.errors import BuildError, SchedulingError
from thalweg.scheduling import (
    Balanced,
    Feature,
    LastInPipeline,
    Placement,
    RoundPolicy,
    RoundView,
    feature,
)
from thalweg.simulate import (
    At,
    Constant,
    Dedicated,
    Graph,
    Operator,
    Overhead,
    Poisson,
    Saturated,
    Simulation,
    Source,
    simulate,
)
from thalweg.simulate.threads.rounds import RoundFeatures

US = 1_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(RoundPolicy):
    """Priorities that are given, the same in each round."""

    order: tuple[float, ...]
    needs: frozenset[str | Feature] = frozenset()

    def features(self) -> frozenset[str | Feature]:
        return self.needs

    def priorities(self, view: RoundView) -> Sequence[tuple[float, ...]]:
        return [(number,) for number in self.order]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ByOrder(Placement):
    """The i-th operator goes to thread i mod n."""

    def assign(self, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
        placed: list[list[int]] = [[] for _ in range(threads)]
        for operator in view.operators:
            if operator.places:
                placed[operator.index % threads].append(operator.index)
        return placed


def fixed(*order: float, **fields: Any) -> Fixed:
    return Fixed(order=order, **{"placement": ByOrder(), "starve_after_s": None, **fields})


def sides(cost_ns: int = 10, arrivals: int = 6) -> Graph:
    """Two operators side by side, tuples for both at once."""
    return Graph(
        (Source("in", At((0,) * arrivals)),),
        tuple(Operator(name=name, reads=("in",), cost_ns=cost_ns, limit=1) for name in "ab"),
    )


# -- the loop ----------------------------------------------------------------------------------------------------


def test_the_higher_priority_goes_first() -> None:
    """b is done with before a begins, in visits of two tuples."""
    result = simulate(sides(), policy=fixed(1, 2, batch_rows=2), seconds=1e-3)
    assert [left for _, left in exits(result, "b")] == [10, 20, 30, 40, 50, 60]
    assert [left for _, left in exits(result, "a")] == [70, 80, 90, 100, 110, 120]
    assert result.operator("b").visits == 3


def test_equal_priorities_take_turns() -> None:
    """Two tuples of a, two of b, and so on."""
    result = simulate(sides(), policy=fixed(1, 1, batch_rows=2), seconds=1e-3)
    assert [left for _, left in exits(result, "a")] == [10, 20, 50, 60, 90, 100]
    assert [left for _, left in exits(result, "b")] == [30, 40, 70, 80, 110, 120]


def test_a_visit_that_ends_starts_at_the_top() -> None:
    """The one below runs for a batch, then the one above is asked again: a's output is taken first."""
    graph = chain(At((0,) * 4), {"cost_ns": 10}, {"cost_ns": 10})
    result = simulate(graph, policy=fixed(1, 2, batch_rows=2), seconds=1e-3)
    assert [left for _, left in exits(result, "b")] == [30, 40, 70, 80]


def test_a_thread_that_finds_nothing_backs_off() -> None:
    """It looks after 10, 30, 70, 150 µs: a tuple that comes at 71 µs begins at 150 µs."""
    graph = chain(At((71 * US,)), {"cost_ns": 10})
    result = simulate(graph, policy=fixed(1), seconds=1e-3)
    assert exits(result, "a") == [(71 * US, 150 * US + 10)]


def test_back_off_ends_with_the_round() -> None:
    """With a period of 100 µs the next look is at its end, and the back-off begins anew:

    110, 130 µs, each 10 ns later for the first tuple.
    ."""
    graph = chain(At((71 * US, 111 * US)), {"cost_ns": 10})
    result = simulate(graph, policy=fixed(1, period_s=1e-4), seconds=1e-3)
    assert exits(result, "a") == [(71 * US, 100 * US + 10), (111 * US, 130 * US + 20)]


def test_priorities_change_with_the_rounds() -> None:
    """Longest worklist first: with a period of a batch the two take turns."""

    class Longest(Fixed):
        __slots__ = ()

        def priorities(self, view: RoundView) -> Sequence[tuple[float, ...]]:
            return [(operator.worklist,) for operator in view.operators]

    policy = Longest(order=(), placement=ByOrder(), period_s=2e-8, batch_rows=2)
    result = simulate(sides(), policy=policy, seconds=1e-6)
    assert [left for _, left in exits(result, "a")] == [10, 20, 50, 60, 90, 100]
    assert result.decisions > 6


def test_starved_operators_come_first() -> None:
    """Under a flood for b, a runs for a batch 50 µs after its last one."""
    graph = Graph(
        (Source("flood", Saturated()), Source("in", At((0,) * 10))),
        (
            Operator(name="a", reads=("in",), cost_ns=US),
            Operator(name="b", reads=("flood",), cost_ns=US),
        ),
    )
    policy = fixed(1, 2, batch_rows=2, starve_after_s=5e-5)
    result = simulate(graph, policy=policy, seconds=2e-4)
    assert [left // US for _, left in exits(result, "a")] == [51, 52, 103, 104, 155, 156]
    assert simulate(graph, policy=fixed(1, 2), seconds=1e-3).operator("a").rows_in == 0


@pytest.mark.parametrize(("needs", "runs"), [({"cost_ns"}, True), ({"worklist"}, False)])
def test_delayed_operators_run_once_a_round(needs: set[str], runs: bool) -> None:
    """Only where the policy needs what only running shows: a runs at the begin of a round, 2 P after it last ran."""
    graph = Graph(
        (Source("flood", Saturated()), Source("in", At((0,) * 10))),
        (
            Operator(name="a", reads=("in",), cost_ns=US),
            Operator(name="b", reads=("flood",), cost_ns=US),
        ),
    )
    policy = fixed(1, 2, batch_rows=1, period_s=1e-5, needs=frozenset(needs))
    result = simulate(graph, policy=policy, seconds=1e-4)
    lefts = [left // US for _, left in exits(result, "a")]
    assert lefts == ([31, 61, 91] if runs else [])


# -- the meeting -------------------------------------------------------------------------------------------------


def test_all_threads_wait_for_the_round() -> None:
    """Deciding costs 7 µs a round and 2 an operator, for each of two threads, before the first tuple too."""
    graph = sides(cost_ns=US, arrivals=1)
    overhead = Overhead(round_ns=7 * US, operator_ns=2 * US)
    result = simulate(graph, policy=fixed(1, 1), threads=2, overhead=overhead, seconds=1e-4 - 1e-9)
    assert exits(result, "a") == exits(result, "b") == [(0, 12 * US)]
    assert [thread.scheduling_ns for thread in result.threads] == [11 * US] * 2


def test_a_round_waits_for_who_is_a_little_late() -> None:
    """a's thread comes 4 µs after the end of the round, within the grace, and b's waits for it."""
    graph = Graph(
        (Source("in", At((0, 1, 102 * US))),),
        (
            Operator(name="a", reads=("in",), cost_ns=52 * US, limit=1),
            Operator(name="b", reads=("in",), cost_ns=US, limit=1),
        ),
    )
    policy = fixed(1, 1, period_s=1e-4, round_grace_s=1e-5, batch_rows=2)
    result = simulate(graph, policy=policy, threads=2, seconds=150e-6)
    assert [left for _, left in exits(result, "b")][-1] == 105 * US
    assert result.decisions == 2


def test_who_is_very_late_is_left_out_and_keeps_its_operator() -> None:
    """a is in a tuple of 250 µs: rounds go on without its thread after 110 µs, and nobody else gets a."""
    graph = Graph(
        (Source("in", At((0,) * 3)), Source("later", At((150 * US, 160 * US)))),
        (
            Operator(name="a", reads=("in",), cost_ns=250 * US, limit=1),
            Operator(name="b", reads=("later",), cost_ns=US, limit=1),
        ),
    )
    policy = fixed(1, 2, period_s=1e-4, round_grace_s=1e-5, batch_rows=1)
    result = simulate(graph, policy=policy, threads=2, seconds=2e-3)
    # Each of a's tuples ends amid a round in which its thread has nothing else.
    assert [left for _, left in exits(result, "a")] == [250 * US, 500 * US, 750 * US]
    # The second round begins at 110 µs; b's thread backs off until 120, 140, 180.
    assert [left for _, left in exits(result, "b")] == [181 * US, 182 * US]


def test_who_comes_while_the_round_is_made_waits_for_the_next() -> None:
    """Rounds take 20 µs to make. The second one is made from 130 on, without a's thread, which comes at 135."""
    graph = Graph(
        (Source("in", At((0, 0))),),
        (
            Operator(name="a", reads=("in",), cost_ns=115 * US, limit=1),
            Operator(name="b", reads=("in",), cost_ns=US, limit=1),
        ),
    )
    policy = fixed(1, 2, period_s=1e-4, round_grace_s=1e-5, batch_rows=1)
    simulation = Simulation(graph, policy=policy, threads=2, overhead=Overhead(round_ns=20 * US))
    simulation.run(200e-6)
    assert simulation.result().decisions == 2
    simulation.run(800e-6)
    # It begins at 150, and the other thread has a now.
    assert [left for _, left in exits(simulation.result(), "a")] == [135 * US, 265 * US]
    assert [thread.busy_ns // US for thread in simulation.result().threads] == [115, 117]


def test_threads_change_at_the_meeting() -> None:
    """Four threads do four times as much, from the next round on; then one again."""
    operators = tuple(
        Operator(name=name, reads=("in",), cost_ns=US, limit=1, capacity=None) for name in "abcd"
    )
    graph = Graph((Source("in", Constant(1e6)),), operators)
    simulation = Simulation(graph, policy=fixed(1, 1, 1, 1, period_s=1e-4), threads=1)
    counts = [0]
    for threads in (1, 4, 1):
        simulation.set_threads(threads)
        simulation.run(1e-3)
        counts.append(simulation.result().rows_out)
    done = [late - early for early, late in itertools.pairwise(counts)]
    assert done == [pytest.approx(n, abs=450) for n in (1_000, 4_000, 1_000)]
    assert [thread.idle_ns + thread.busy_ns > 2.9e6 for thread in simulation.result().threads] == [
        True, False, False, False,
    ]  # fmt: skip


def test_shares_let_several_threads_run_an_operator() -> None:
    """A stateless operator with all the work stands in all lists; with one share it has one thread."""
    graph = chain(Saturated(), {"cost_ns": US})
    for most, expected in ((None, 4_000), (1, 1_000)):
        policy = fixed(1, placement=Balanced(shares_at_most=most))
        result = simulate(graph, policy=policy, threads=4, seconds=1e-3)
        assert result.rows_out == pytest.approx(expected, rel=0.02)


def test_own_features_are_read_when_they_can_have_changed() -> None:
    """An external one in each round, an intrinsic one when the operator has run, a constant one once."""
    reads: list[tuple[str, str]] = []

    def reader(kind: str) -> Feature:
        def read(name: str) -> float:
            reads.append((kind, name))
            return 1.0

        return feature(f"own_{kind}", kind=kind, read=read)

    needs = frozenset(reader(kind) for kind in ("external", "intrinsic", "constant"))
    graph = chain(At((0, 250 * US)), {"cost_ns": 10})
    simulate(graph, policy=fixed(1, period_s=1e-4, needs=needs), seconds=399e-6)
    assert [reads.count((kind, "a")) for kind in ("external", "intrinsic", "constant")] == [4, 3, 1]


def test_a_feature_that_cannot_be_read_is_named() -> None:
    """With the operator and the policy that asks for it."""

    def read(name: str) -> float:
        raise OSError("no battery")

    needs = frozenset({feature("level", kind="constant", read=read)})
    with pytest.raises(
        SchedulingError, match=r"Fixed: feature 'level' of 'a' raised OSError"
    ) as caught:
        simulate(sides(), policy=fixed(1, 2, needs=needs), seconds=1e-3)
    assert (caught.value.policy, caught.value.operator) == ("Fixed", "a")


@settings(max_examples=sized(40), deadline=None)
@given(graphs(), st.integers(1, 4))
def test_what_is_shown_of_an_operator_is_as_it_is(graph: Graph, threads: int) -> None:
    """Only what has changed is looked at again, and nothing that has is missed."""
    compared = []

    class Look(Fixed):
        """Takes the view, and one that is made anew."""

        __slots__ = ()

        def priorities(self, view: RoundView) -> Sequence[tuple[float, ...]]:
            nodes = simulations[0]._nodes
            anew = RoundFeatures(self, nodes).view(view.now_ns, set(nodes))
            compared.append((view.operators, anew.operators))
            return [(0.0,) for _ in view.operators]

    simulations = [
        Simulation(graph, policy=Look(order=(), period_s=1e-6, batch_rows=2), threads=threads)
    ]
    simulations[0].run(5e-5)
    assert len(compared) > 3
    for shown, fresh in compared:
        assert shown == fresh


def test_a_policy_that_gives_no_round_is_refused() -> None:
    """The error names policy and operator, and comes when the round is made."""
    with pytest.raises(SchedulingError, match="Fixed"):
        simulate(sides(), policy=fixed(1), seconds=1e-3)
    with pytest.raises(BuildError, match="is no policy"):
        simulate(sides(), policy=object(), seconds=1e-3)  # type: ignore[arg-type]


# -- a thread an operator ----------------------------------------------------------------------------------------


def test_threads_share_the_cores() -> None:
    """One tuple each on one core: both end at 20, with two cores at 10; a third comes in at 12 and takes turns."""
    shared = simulate(sides(arrivals=1), policy=Dedicated(), threads=1, seconds=1e-6)
    assert exits(shared, "a") == exits(shared, "b") == [(0, 20)]
    alone = simulate(sides(arrivals=1), policy=Dedicated(), threads=2, seconds=1e-6)
    assert exits(alone, "a") == exits(alone, "b") == [(0, 10)]


def test_a_thread_that_comes_later_shares_from_then_on() -> None:
    """a runs alone for 6 of its 10, then at half speed with b: it ends at 14, and b, alone again, at 16."""
    graph = Graph(
        (Source("first", At((0,))), Source("second", At((6,)))),
        (
            Operator(name="a", reads=("first",), cost_ns=10),
            Operator(name="b", reads=("second",), cost_ns=6),
        ),
    )
    result = simulate(graph, policy=Dedicated(), threads=1, seconds=1e-6)
    assert exits(result, "a") == [(0, 14)]
    assert exits(result, "b") == [(6, 16)]


def test_switches_cost_time() -> None:
    """A thread that slept pays a switch; and while there are more threads than cores each quantum does."""
    policy = Dedicated(switch_ns=5, quantum_ns=20)
    alone = simulate(chain(At((0, 0)), {"cost_ns": 10}), policy=policy, seconds=1e-6)
    assert exits(alone, "a") == [(0, 15), (0, 25)]
    assert alone.threads[0].scheduling_ns == 5
    both = simulate(sides(arrivals=1, cost_ns=35), policy=policy, seconds=1e-6)
    # Each has 40 to do, gets half a core, of which 20 of 25 are of use: 100.
    assert exits(both, "a") == [(0, 100)]
    assert both.threads[0].busy_ns == 35
    assert both.threads[0].scheduling_ns == 15


def test_processor_sharing_forgets_how_work_is_spread() -> None:
    """M/G/1 with processor sharing: the mean time is c / (1 − ρ), here of many operators that each get few tuples.

    Tuples of one operator queue, so it is only near, with a hundred operators.
    """
    operators = [Operator(name="deal", reads=("in",), cost_ns=1, split="deal")]
    for i in range(100):
        operators.append(Operator(name=f"o{i}", reads=("deal",), cost_ns=US))
    graph = Graph((Source("in", Poisson(0.5e6)),), tuple(operators))
    result = simulate(graph, policy=Dedicated(), threads=1, seconds=0.02, seed=1)
    assert result.latency is not None
    assert result.latency.mean == pytest.approx(2e-6, rel=0.1)


def test_cores_change_while_it_runs() -> None:
    """Of four operators two cores do twice as much as one."""
    operators = tuple(
        Operator(name=name, reads=("in",), cost_ns=US, capacity=None) for name in "abcd"
    )
    simulation = Simulation(
        Graph((Source("in", Constant(1e6)),), operators), policy=Dedicated(), threads=1
    )
    counts = [0]
    for cores in (1, 2):
        simulation.set_threads(cores)
        simulation.run(1e-3)
        counts.append(simulation.result().rows_out)
    assert [counts[1], counts[2] - counts[1]] == pytest.approx([1_000, 2_000], abs=5)


# -- what must hold of any graph ---------------------------------------------------------------------------------


@settings(max_examples=sized(60), deadline=None)
@given(graphs(), st.integers(1, 4), st.integers(0, 3), st.booleans(), st.data())
def test_the_output_is_that_of_one_thread(
    graph: Graph, threads: int, seed: int, dedicated: bool, data: st.DataObject
) -> None:
    """Rounds of any priorities, with shares, and dedicated threads: the same tuples in the same order."""
    graph = finite(graph, 40)
    serial = simulate(graph, policy=LastInPipeline(), seconds=1, seed=seed)
    numbers = st.tuples(*[st.integers(0, 2)] * len(graph.operators))
    rounds = Fixed(order=data.draw(numbers), period_s=1e-5, batch_rows=3)
    policy = Dedicated(switch_ns=7, quantum_ns=100) if dedicated else rounds
    simulation = Simulation(graph, policy=policy, threads=threads, seed=seed)
    simulation.run(1e-3)
    while simulation.seconds < 0.3 and simulation.result().rows_out < serial.rows_out:
        simulation.run(1e-3)
    result = simulation.result()
    for ours, theirs in zip(result.sinks, serial.sinks, strict=True):
        assert ours.born_ns.tolist() == theirs.born_ns.tolist()
    assert sum(t.busy_ns for t in result.threads) >= sum(o.busy_ns for o in result.operators)
