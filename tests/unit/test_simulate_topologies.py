"""The papers' graphs in virtual time, and that policies do there what their authors promise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from thalweg import simulate as package
from thalweg.errors import BuildError
from thalweg.scheduling import (
    Chain,
    CurrentThroughput,
    EstimatedTime,
    FirstComeFirstServed,
    FreeList,
    HighestRate,
    LastInPipeline,
    MultiClass,
    PickPolicy,
    QueueSizeThrottling,
    RandomPlacement,
    RoundPolicy,
    RoundRobin,
)
from thalweg.simulate import (
    Bursts,
    Constant,
    Dedicated,
    Graph,
    Poisson,
    Simulated,
    data_parallel,
    haren_chains,
    mesh,
    pipeline,
    reverse_tree,
    simulate,
    tree,
    work_ns,
)

#: As in the papers' evaluations: nobody is run because it has waited long, or to look how it does.
AS_PAPER: Mapping[str, Any] = {
    "period_s": 5e-3,
    "placement": RandomPlacement(),
    "starve_after_s": None,
    "stale_after_s": 1e3,
}


def overloaded(queries: int, load: float, seed: int) -> Graph:
    """Haren's chains with so much to do for one thread."""
    base_ns = 10_000
    alone = haren_chains([Constant(1.0)] * queries, base_ns=base_ns, seed=seed)
    arrivals = Constant(load * 1e9 / work_ns(alone))
    return haren_chains([arrivals] * queries, base_ns=base_ns, seed=seed)


def mean_s(result: Simulated) -> float:
    """Mean latency, s."""
    assert result.latency is not None
    return result.latency.mean


def longest(result: Simulated, sinks: Sequence[str]) -> float:
    """The maximum latency of these sinks together, s."""
    latencies = [result.sink(sink).latency for sink in sinks]
    return max(latency.max for latency in latencies if latency is not None)


# -- what policies promise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(0, marks=pytest.mark.merge),
        *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3)),
    ],
)
def test_each_policy_is_best_at_what_it_aims_at(seed: int) -> None:
    """20 % more than a thread can do: FCFS has the least maximum latency, HR the least mean, Chain the least queues.

    Against taking turns, tuple by tuple, and against each other.
    """
    graph = overloaded(20, load=1.2, seed=seed)
    turns = simulate(graph, policy=RoundRobin(slice_ns=1), seconds=2)
    fcfs = simulate(graph, policy=FirstComeFirstServed(**AS_PAPER), seconds=2)
    rate = simulate(graph, policy=HighestRate(**AS_PAPER), seconds=2)
    chain = simulate(graph, policy=Chain(**AS_PAPER), seconds=2)
    assert fcfs.latency and turns.latency and rate.latency and chain.latency
    assert fcfs.latency.max < turns.latency.max
    assert fcfs.latency.max < 0.6 * min(rate.latency.max, chain.latency.max)
    assert mean_s(rate) < 0.7 * min(mean_s(turns), mean_s(fcfs))
    assert rate.rows_out > 1.08 * max(turns.rows_out, fcfs.rows_out)
    assert chain.mean_queued < 0.66 * min(turns.mean_queued, fcfs.mean_queued)
    for result in (turns, fcfs, rate, chain):
        assert result.threads[0].busy_ns > 0.97 * 2e9


def test_an_urgent_class_does_not_notice_the_others() -> None:
    """Bursts for 3 urgent queries amid 10 others, overloaded (Palyvos-Giannas et al., 7.4): their maximum is a tenth.

    With a thread an operator they wait as long as everyone.
    """
    arrivals = [Bursts(500, on_s=0.25, off_s=0.75)] * 3 + [Constant(400)] * 10
    classes = {query: 1 for query in range(3, 13)}
    graph = haren_chains(arrivals, base_ns=30_000, classes=classes, seed=2)
    fields = {**AS_PAPER, "period_s": 1e-2}
    policy = MultiClass({0: FirstComeFirstServed(), 1: HighestRate()}, **fields)
    ours = simulate(graph, policy=policy, threads=1, seconds=1)
    theirs = simulate(graph, policy=Dedicated(), threads=1, seconds=1)
    assert theirs.most_queued > 1_000, "the thread must be overloaded"
    urgent = [f"q{query}_11" for query in range(3)]
    assert longest(ours, urgent) < 0.1 * longest(theirs, urgent)


def test_the_last_first_has_the_least_latency() -> None:
    """Of the policies of Prasaad et al. LP (section 6.2), on a pipeline that is nine tenths busy; QST has the most."""
    graph = pipeline(6, arrivals=Poisson(0.9 * 4e6 / 6), cost_ns=1_000)
    mean = {
        policy.__name__: mean_s(simulate(graph, policy=policy(), threads=4, seconds=0.01))
        for policy in (LastInPipeline, CurrentThroughput, EstimatedTime, QueueSizeThrottling)
    }
    assert sorted(mean, key=lambda name: mean[name])[0] == "LastInPipeline"
    assert mean["QueueSizeThrottling"] > 1.5 * mean["LastInPipeline"]


def test_without_contention_dedicated_threads_are_at_least_as_good() -> None:
    """Palyvos-Giannas et al., 7.3: with little to do a thread an operator is faster than threads that back off."""
    graph = haren_chains([Constant(100)] * 5, base_ns=10_000)
    dedicated = simulate(graph, policy=Dedicated(), threads=4, seconds=1)
    rounds = simulate(graph, policy=FirstComeFirstServed(), threads=4, seconds=1)
    assert mean_s(dedicated) < 0.1 * mean_s(rounds)
    assert dedicated.rows_out >= rounds.rows_out


def test_the_free_list_gives_everyone_a_turn() -> None:
    """Sixteen threads among 32 operators with work: those that come at once go to different ones."""
    graph = data_parallel(30, cost_ns=10_000)
    result = simulate(graph, policy=FreeList(slice_ns=100_000), threads=16, seconds=0.5e-3)
    assert min(operator.visits for operator in result.operators) >= 2


# -- graphs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "operators", "sinks"),
    [
        (pipeline(5), 5, 1),
        (data_parallel(7), 9, 1),
        (mesh(), 1_002, 1),
        (tree(), 63, 32),
        (reverse_tree(), 63, 1),
        (haren_chains([Constant(1)] * 3, base_ns=10), 36, 3),
    ],
)
def test_sizes(graph: Graph, operators: int, sinks: int) -> None:
    """As many operators as in the papers, and ends."""
    assert len(graph.operators) == operators
    read = {name for operator in graph.operators for name in operator.reads}
    assert sum(operator.name not in read for operator in graph.operators) == sinks


@pytest.mark.parametrize("policy", [FreeList(), LastInPipeline(), Dedicated()], ids=repr)
@pytest.mark.parametrize(
    "graph",
    [
        pipeline(5, arrivals=Constant(1e6), cost_ns=900),
        data_parallel(8, arrivals=Poisson(1e6), cost_ns=5_000, limit=1),
        mesh(3, 4, arrivals=Constant(1e6), cost_ns=500),
        tree(4, arrivals=Constant(1e6), cost_ns=300),
        reverse_tree(4, arrivals=Poisson(1e5), cost_ns=300),
    ],
    ids=["pipeline", "data parallel", "mesh", "tree", "reverse tree"],
)
def test_graphs_keep_up(graph: Graph, policy: PickPolicy | RoundPolicy) -> None:
    """With threads to spare all that enters leaves, in order at each sink."""
    result = simulate(graph, policy=policy, threads=16, seconds=5e-3, seed=1)
    assert result.rows_out > 2_000
    assert result.rows_in - result.rows_out < 200
    for sink in result.sinks:
        assert sink.born_ns.tolist() == sorted(sink.born_ns.tolist())


def test_a_tree_deals_its_tuples() -> None:
    """Each level has as many tuples as the one before, half of them on each side."""
    result = simulate(
        tree(3, arrivals=Constant(1e6), cost_ns=100), policy=FreeList(), threads=4, seconds=1e-3
    )
    rows = {operator.name: operator.rows_in for operator in result.operators}
    assert rows["o1_0"] == pytest.approx(500, abs=2)
    assert rows["o2_3"] == pytest.approx(250, abs=2)


def test_work_of_a_graph() -> None:
    """Costs by how many tuples of one that enters arrive: over chains, branches that are dealt, and copies."""
    assert work_ns(pipeline(3, cost_ns=100, selectivity=0.5)) == 175
    assert work_ns(tree(3, cost_ns=100)) == pytest.approx(300)
    assert work_ns(tree(3, cost_ns=100, split="copy")) == 700
    assert work_ns(data_parallel(4, cost_ns=100)) == pytest.approx(102)


def test_the_work_is_what_threads_are_busy_with() -> None:
    """A rate times the work of a graph is the busy threads."""
    graph = haren_chains([Poisson(200)] * 10, base_ns=10_000, seed=3)
    result = simulate(graph, policy=FreeList(), threads=8, seconds=1)
    busy = sum(thread.busy_ns for thread in result.threads) / 1e9
    assert busy == pytest.approx(200 * work_ns(graph) / 1e9, rel=0.05)


def test_chains_differ_as_said() -> None:
    """Costs from B to 16 B within 10 %, selectivities within 10 % of a root of 0.01 to 1; by seed."""
    graph = haren_chains([Constant(1)] * 50, base_ns=1_000, seed=1, classes={4: 2})
    for operator in graph.operators:
        z = math.log2(operator.cost_ns / 1_000)
        assert abs(z - round(z)) < 0.16
        assert 0.01 ** (1 / 12) * 0.9 <= operator.selectivity <= 1.1
        assert operator.priority_class == (2 if operator.flow == "q4" else 0)
    costs = {round(math.log2(operator.cost_ns / 1_000)) for operator in graph.operators}
    assert costs == {0, 1, 2, 3, 4}
    again = haren_chains([Constant(1)] * 50, base_ns=1_000, seed=1, classes={4: 2})
    assert graph == again != haren_chains([Constant(1)] * 50, base_ns=1_000, seed=2)


def test_counts_are_checked() -> None:
    """No graph is made of nothing."""
    with pytest.raises(BuildError, match="length must be"):
        pipeline(0)
    with pytest.raises(BuildError, match="width must be"):
        data_parallel(-1)
    with pytest.raises(BuildError, match="branches must be"):
        tree(3, 0)


def test_the_package_lists_its_names() -> None:
    """Sorted, and all there."""
    assert package.__all__ == sorted(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)
