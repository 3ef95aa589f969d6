"""Throughput by work: what cheap operators do in bursts says nothing of a level."""

from __future__ import annotations

import dataclasses

import pytest
from elasticity_kit import PERIOD_NS, period
from hypothesis import given
from hypothesis import strategies as st

from thalweg.elasticity import Limits, OperatorSample, Sample, ThreadLevels
from thalweg.elasticity.work import Weights, rates_of


def _operator(index: int, tuples: int, cost_ns: float) -> OperatorSample:
    return OperatorSample(
        index=index, name=f"op{index}", replicable=False, replicas=1, max_replicas=1, tuples=tuples, busy_ns=0,
        cost_ns=cost_ns, write_blocked=0.0, output_blocked=0.0,
    )  # fmt: skip


def _sample(*operators: tuple[int, float], threads: int = 1) -> Sample:
    """A period in which operators took so many tuples that cost so much, ns."""
    each = tuple(_operator(i, *one) for i, one in enumerate(operators))
    total = sum(one.tuples for one in each)
    return dataclasses.replace(period(threads, 0.0), tuples=total, operators=each)


def _throughput(weights: Weights, sample: Sample) -> float:
    return weights.throughput(rates_of(sample))


class TestWeights:
    def test_equal_costs_count_tuples(self) -> None:
        weights, sample = Weights(by_cost=True), _sample((300, 50.0), (100, 50.0))
        weights.learn(sample)
        assert _throughput(weights, sample) == pytest.approx(sample.throughput)

    def test_a_tuple_counts_by_its_cost(self) -> None:
        weights = Weights(by_cost=True)
        weights.learn(_sample((1_000, 900.0), (1_000, 100.0)))
        heavy, cheap = _sample((1_000, 900.0), (0, 100.0)), _sample((0, 900.0), (1_000, 100.0))
        assert _throughput(weights, heavy) == pytest.approx(9 * _throughput(weights, cheap))

    def test_what_was_seen_counts_as_many_as_it_was(self) -> None:
        weights, sample = Weights(by_cost=True), _sample((5_000, 900.0), (1_000, 1.0))
        weights.learn(sample)
        assert _throughput(weights, sample) == pytest.approx(sample.throughput)

    @pytest.mark.parametrize(
        ("by_cost", "operators"),
        [(False, ((10, 900.0), (30, 1.0))), (True, ((10, 0.0), (30, 0.0))), (True, ())],
    )
    def test_all_count_alike(self, by_cost: bool, operators: tuple[tuple[int, float], ...]) -> None:
        """Where costs are not to count, or are not known, or operators are not."""
        weights, sample = Weights(by_cost=by_cost), _sample(*operators)
        sample = sample if operators else period(1, 4_000.0)
        weights.learn(sample)
        assert _throughput(weights, sample) == pytest.approx(sample.throughput)

    def test_costs_of_before_do_not_count(self) -> None:
        """Readings are weighed by what is known now, so an operator that is timed late does no harm."""
        weights, first = Weights(by_cost=True), _sample((1_000, 900.0), (0, 0.0))
        weights.learn(first)
        weights.learn(_sample((0, 900.0), (1_000, 900.0)))
        second = _sample((1_000, 900.0), (1_000, 900.0))
        assert _throughput(weights, second) == pytest.approx(2 * _throughput(weights, first))


@given(
    knee=st.integers(1, 8),
    bursts=st.lists(st.sampled_from((0.0, 0.5, 2.0, 3.0)), min_size=16, max_size=16),
)
def test_bursts_do_not_mislead(knee: int, bursts: list[float]) -> None:
    """A sink that costs next to nothing takes whole queues now and then; the level is that of the work all the same."""
    controller, level = ThreadLevels(), 1
    controller.start(Limits(1, 8))
    for burst in bursts:
        rows = round(1_000 * min(level, knee) * PERIOD_NS / 1e9)
        sample = _sample((rows, 140_000.0), (round(burst * rows), 20.0), threads=level)
        for suggestion in controller.decide(sample):
            level = suggestion.target
    assert controller.settled
    assert level == knee
