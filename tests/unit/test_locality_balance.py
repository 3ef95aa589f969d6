"""The second half of a cut: what repairing and improving do to a given one."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from locality_kit import count
from tests.sizes import sized

from thalweg.locality.balance import Cut, improve, loads_of, repair
from thalweg.locality.key_graph import KeyGraph, key_graph

PARTS = 3


def graph_of(rows: list[tuple[int, int]]) -> KeyGraph:
    return key_graph(count(rows, ("a", "b")), parts=PARTS)


def cut_of(graph: KeyGraph, seed: int, *, limit: int, move_cost: float = 0.0) -> Cut:
    """A random cut in which everything is at home, with a limit of tuples for both operators."""
    rng = np.random.default_rng(seed)
    parts = rng.integers(0, PARTS, len(graph.vertices))
    limits = np.array([[limit, 100]] * 2, np.int64)
    costs = np.full(len(parts), move_cost)
    return Cut(graph, parts, loads_of(graph, parts, 2, PARTS), limits, parts.copy(), costs)


def best_move(cut: Cut) -> float:
    """What the best single move that fits gains."""
    best = 0.0
    for vertex, weights in enumerate(cut.graph.weights):
        home, operator = cut.parts[vertex], cut.graph.operators[vertex]
        before = cut.gain
        for part in range(PARTS):
            loads = cut.loads[:, operator, part]
            fits = ((weights == 0) | (loads == 0) | (loads + weights <= cut.limits[operator])).all()
            if part != home and fits:
                cut.parts[vertex] = part
                best = max(best, cut.gain - before)
        cut.parts[vertex] = home
    return best


ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40)


@settings(max_examples=sized(40), deadline=None)
@given(ROWS, st.integers(0, 99), st.sampled_from([0.0, 0.5, 2.0]))
def test_all_moves_that_gain_are_made(
    rows: list[tuple[int, int]], seed: int, move_cost: float
) -> None:
    """Afterwards no single move within the limits gains, what was gained is kept, and no limit is broken."""
    graph = graph_of(rows)
    cut = cut_of(graph, seed, limit=len(rows), move_cost=move_cost)
    before = cut.gain
    improve(cut, np.random.default_rng(seed).permutation(len(graph.vertices)))
    assert cut.gain >= before
    assert best_move(cut) == 0.0
    assert cut.excess == 0
    assert (cut.loads == loads_of(graph, cut.parts, 2, PARTS)).all()


def test_what_costs_more_than_it_gains_stays() -> None:
    """Two keys apart that came together twice: at a cost of 3 nothing moves, at a cost of 1 one of them."""
    graph = graph_of([("k", "x"), ("k", "x")])  # type: ignore[list-item]
    [left] = [i for i, one in enumerate(graph.vertices) if one.key and one.key.key == "k"]
    [right] = [i for i, one in enumerate(graph.vertices) if one.key and one.key.key == "x"]
    for move_cost, together in ((3.0, False), (1.0, True)):
        cut = cut_of(graph, 0, limit=2, move_cost=move_cost)
        for vertex, part in ((left, 0), (right, 1)):
            cut.parts[vertex] = cut.homes[vertex] = part
        cut.loads = loads_of(graph, cut.parts, 2, PARTS)
        improve(cut, np.arange(len(graph.vertices)))
        assert (cut.parts[left] == cut.parts[right]) == together


def test_those_leave_first_that_lose_least() -> None:
    """A part that is too full gives away keys without partners there, and keeps those that have them."""
    rng = random.Random(0)
    rows = [(key, key) for key in range(6)] + [(key, rng.randrange(10, 90)) for key in range(6, 12)]
    graph = graph_of(rows)
    cut = cut_of(graph, 0, limit=6)
    for vertex, one in enumerate(graph.vertices):
        if one.key is not None:
            # All left keys are in part 0, of the right ones only the partners of the first six.
            cut.parts[vertex] = 0 if one.operator == 0 or one.key.key < 6 else 1 + one.key.key % 2
    cut.loads = loads_of(graph, cut.parts, 2, PARTS)
    assert cut.excess > 0
    repair(cut)
    assert cut.excess == 0
    stayed = {
        one.key.key
        for vertex, one in enumerate(graph.vertices)
        if one.key is not None and one.operator == 0 and cut.parts[vertex] == 0
    }
    assert stayed == set(range(6))
