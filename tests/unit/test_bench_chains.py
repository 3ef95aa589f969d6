"""Chains of machine-code operators on real workers: what is measured is the work that was asked for, all of it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from thalweg_lab import chains
from thalweg_lab.chains import ChainRun, Way
from thalweg_lab.haren import CLASS_WAYS, WAYS
from thalweg_lab.haren_queries import BURST_PER_S, HIGH, LENGTH, single_class, two_classes

from thalweg.scheduling import FirstComeFirstServed
from thalweg.simulate import Bursts, Constant, Graph, haren_chains, work_ns

ALL_WAYS = {**WAYS, **CLASS_WAYS}
QUERIES = 3


def graph() -> Graph:
    """Queries that differ in costs, selectivities and class, and have next to nothing to do."""
    return haren_chains(
        [Constant(2_000.0), Constant(1_000.0), Bursts(4_000.0, on_s=0.02, off_s=0.02)],
        base_ns=50.0,
        classes={1: 1, 2: 1},
        seed=3,
    )


@functools.cache
def ran(name: str) -> ChainRun:
    return chains.run(graph(), ALL_WAYS[name], threads=2, seconds=0.1, to_the_end=True, capacity=16)


@pytest.mark.parametrize("name", ALL_WAYS)
def test_each_way_does_the_same_work_and_loses_nothing(name: str) -> None:
    """What an operator gives is what the next one takes, and each tuple that is not dropped has left."""
    one = ran(name)
    assert [one.taken[f"q{q}_0"] for q in range(QUERIES)] == [200, 100, 240]
    for q in range(QUERIES):
        for i in range(1, LENGTH):
            assert one.taken[f"q{q}_{i}"] == one.given[f"q{q}_{i - 1}"]
        assert 0 < len(one.latencies_ns[q]) <= one.given[f"q{q}_{LENGTH - 1}"]
        assert np.all(one.latencies_ns[q] > 0)
        assert one.oldest_ns[q] == 0
    assert one.given == ran("dedicated").given
    assert np.all(one.queued >= 0)


def test_operators_let_through_what_their_selectivity_says() -> None:
    """Also above one tuple a tuple; drawn evenly by place and operator."""
    made = haren_chains([Constant(20_000.0)], base_ns=5.0, seed=5)
    one = chains.run(made, "free list", threads=1, seconds=0.5, to_the_end=True)
    assert one.taken["q0_0"] == 10_000
    for operator in made.operators:
        taken = one.taken[operator.name]
        expected, spread = operator.selectivity * taken, 4 * np.sqrt(taken / 4)
        assert abs(one.given[operator.name] - expected) < spread, operator.name


def test_what_waits_at_the_end_is_seen() -> None:
    """A tuple would need twice as long to pass the chain as there is time: latency alone would not tell."""
    made = haren_chains([Constant(2_000.0)], base_ns=10_000_000.0)
    way = FirstComeFirstServed(batch_rows=1)
    one = chains.run(made, way, threads=1, seconds=0.05)
    assert len(one.latencies_ns[0]) == 0 and one.given["q0_11"] == 0
    assert one.oldest_ns[0] >= 0.05e9 and one.queued[-1] > 0


def test_tuples_that_are_all_due_at_once() -> None:
    """So much that workers never wait: what they do is what the machine can."""
    made = haren_chains([Constant(1_000.0)] * 2, base_ns=1_000.0)
    one = chains.run(made, "free list", threads=2, seconds=0.1, at_once=True, to_the_end=True)
    assert [one.taken[f"q{q}_0"] for q in range(2)] == [400, 400]


def test_queries_are_scaled_to_cores() -> None:
    """Work that arrives in a second is the load times the cores, and a burst of HIGH alone fits."""
    full = single_class(20, 500.0, cores=2.0, seed=1)
    assert work_ns(full) * 500.0 == pytest.approx(1.15 * 2e9)
    assert single_class(5, 500.0, cores=2.0, seed=1).operators == full.operators[: 5 * LENGTH]
    both = two_classes(0.5, Constant(500.0), 500.0, cores=2.0)
    assert {one.priority_class for one in both.operators[: HIGH * LENGTH]} == {0}
    assert {one.priority_class for one in both.operators[HIGH * LENGTH :]} == {1}
    high = Graph(both.sources[:HIGH], both.operators[: HIGH * LENGTH])
    assert work_ns(high) * BURST_PER_S < 2e9


@pytest.mark.parametrize("way", ["dedicated", "free list"])
def test_a_full_inbox_holds_back_its_source_only(way: Way) -> None:
    """Room for one tuple: all get through."""
    one = chains.run(graph(), way, threads=2, seconds=0.02, to_the_end=True, capacity=1)
    assert [one.taken[f"q{q}_0"] for q in range(QUERIES)] == [40, 20, 80]
