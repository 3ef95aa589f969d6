"""Loads that change over virtual time, and what is drawn for each tuple."""

from __future__ import annotations

import dataclasses
import itertools
import random
import statistics
from typing import Any

import pytest

from thalweg.errors import BuildError
from thalweg.scheduling import FreeList
from thalweg.simulate import (
    At,
    Graph,
    Levels,
    Load,
    Operator,
    Periodic,
    Ramp,
    Source,
    Varying,
    simulate,
)
from thalweg.simulate.draws import Draw, factors


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (Levels(((1.0, 10.0), (3.0, 0.5))), {0.0: 1.0, 0.99: 1.0, 1.0: 10.0, 2.9: 10.0, 5.0: 0.5}),
        (Levels(()), {0.0: 1.0}),
        (Ramp(1.0, 3.0, 5.0), {0.0: 1.0, 1.0: 1.0, 1.5: 2.0, 2.0: 3.0, 3.0: 5.0, 9.0: 5.0}),
        (Periodic(4.0, 3.0), {0.0: 1.0, 1.0: 2.0, 2.0: 3.0, 3.0: 2.0, 4.0: 1.0, 6.0: 3.0}),
        (Periodic(4.0, 3.0, "steps"), {0.0: 1.0, 1.9: 1.0, 2.0: 3.0, 3.9: 3.0, 4.0: 1.0}),
    ],
)
def test_factors_over_time(load: Load, expected: dict[float, float]) -> None:
    assert {at: load.factor(at) for at in expected} == pytest.approx(expected)


def test_a_tuple_costs_what_it_does_when_work_on_it_begins() -> None:
    """Three tuples of 100 ns; from 150 ns on ten times as much: the second has begun, the third has not."""
    work = Operator(name="a", reads=("in",), cost_ns=100, load=Levels(((150e-9, 10.0),)))
    graph = Graph((Source("in", At((0, 0, 0))),), (work,))
    result = simulate(graph, policy=FreeList(), seconds=1e-5)
    assert result.sink("a").left_ns.tolist() == [100, 200, 1_200]
    assert result.operator("a").busy_ns == 1_200


def test_arrivals_follow_a_load() -> None:
    """1,000 a second, from 10 ms on twice as many."""
    arrivals = Varying(1_000, Levels(((0.01, 2.0),)))
    times = list(itertools.islice(arrivals.times_ns(random.Random(0)), 15))
    assert times[:11] == [i * 1_000_000 for i in range(11)]
    assert times[11:] == [10_500_000 + i * 500_000 for i in range(4)]


def test_arrivals_follow_a_load_at_random() -> None:
    """As many on average, at distances that differ; the same ones under a seed."""
    arrivals = Varying(1_000, Ramp(0.0, 10.0, 3.0), at_random=True)
    times = list(itertools.islice(arrivals.times_ns(random.Random(1)), 40_000))
    assert times == list(itertools.islice(arrivals.times_ns(random.Random(1)), 40_000))
    assert 20_000 * 0.97 < sum(at < 10e9 for at in times) < 20_000 * 1.03
    gaps = [late - early for early, late in itertools.pairwise(times[-1_000:])]
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.15)


@pytest.mark.parametrize(
    ("draw", "spread", "expected"),
    [
        ("constant", 0.5, 0.0), ("uniform", 0.4, 0.4), ("exponential", 0.5, 1.0), ("lognormal", 0.4, 0.4),
        ("lognormal", 1.5, 1.5),
    ],
)  # fmt: skip
def test_draws_have_their_mean_and_spread(draw: Draw, spread: float, expected: float) -> None:
    make = factors(draw, spread, random.Random(5))
    drawn = [make() for _ in range(100_000)]
    assert statistics.fmean(drawn) == pytest.approx(1.0, abs=0.02)
    assert statistics.pstdev(drawn) == pytest.approx(expected, rel=0.1)
    assert min(drawn) >= 0


@pytest.mark.parametrize("draw", ["random", "uniform", "exponential", "lognormal"])
def test_selectivities_are_drawn(draw: str) -> None:
    """So many on average, whole numbers that differ, and the same under every number of threads."""
    fields: dict[str, Any] = {"draw_selectivity": draw, "selectivity_spread": 0.4}
    work = Operator(name="a", reads=("in",), cost_ns=10, selectivity=1.6, **fields)
    graph = Graph((Source("in", At(tuple(range(20_000)))),), (work,))
    one, four = (
        simulate(graph, policy=FreeList(), threads=threads, seconds=1e-3) for threads in (1, 4)
    )
    assert one.rows_out == pytest.approx(32_000, rel=0.03)
    assert one.sink("a").born_ns.tolist() == four.sink("a").born_ns.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Levels(((1.0, 2.0), (1.0, 3.0))), "Levels: times must rise"),
        (lambda: Levels(((1.0, 0.0),)), "Levels: factors must be above 0"),
        (lambda: Ramp(2.0, 2.0, 3.0), "Ramp: begin_s must be less than end_s"),
        (lambda: Ramp(1.0, 2.0, 0.0), "Ramp: factors must be above 0"),
        (lambda: Periodic(0.0, 2.0), "Periodic: period_s must be above 0"),
        (lambda: Varying(0.0, Ramp(1.0, 2.0, 2.0)), "Varying: per_s must be above 0"),
        (
            lambda: Operator(name="a", reads=("in",), draw_cost="uniform", cost_spread=0.6),
            "operator a: cost_spread must be from 0 to 0.577",
        ),
        (
            lambda: Operator(name="a", reads=("in",), selectivity_spread=-1.0),
            "operator a: selectivity_spread must be from 0",
        ),
    ],
)
def test_wrong_loads_are_refused(make: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        make()


def test_loads_change_no_output() -> None:
    """Who costs more at some time gives out the same."""
    plain = Operator(name="a", reads=("in",), cost_ns=50, selectivity=0.5)
    graph = Graph((Source("in", At(tuple(range(0, 9_000, 3)))),), (plain,))
    load = Periodic(1e-6, 20.0)
    varied = Graph(graph.sources, (dataclasses.replace(plain, load=load, draw_cost="lognormal"),))
    runs = [simulate(one, policy=FreeList(), threads=3, seconds=1e-2) for one in (graph, varied)]
    born = [run.sink("a").born_ns.tolist() for run in runs]
    assert born[0] == born[1] and len(born[0]) == 1_500
