"""Measures of a run: markers between percentiles, weighted percentiles, histograms that add up."""

from __future__ import annotations

import dataclasses
import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

from thalweg.stats import (
    BUCKETS,
    Latency,
    LatencyHistogram,
    MarkerLog,
    Markers,
    OperatorProgress,
    weighted_quantile,
)

MS = 1_000_000
checked = settings(deadline=None, derandomize=True, database=None, max_examples=sized(100))


def markers(*steps: tuple[int, int, int]) -> Markers:
    """Markers of (entry, exit, rows), times in ms."""
    log = MarkerLog()
    for entry, leaves, rows in steps:
        log.add(entry * MS, leaves * MS, rows)
    return log.markers()


# -- weighted percentiles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "weights", "q", "expected"),
    [
        ([7], [1], 0.5, 7),
        ([1, 2, 3, 4], [1, 1, 1, 1], 0.5, 2),
        ([1, 2, 3, 4], [1, 1, 1, 1], 0.51, 3),
        ([3, 1, 2], [1, 98, 1], 0.98, 1),
        ([3, 1, 2], [1, 98, 1], 0.99, 2),
        ([3, 1, 2], [1, 98, 1], 1.0, 3),
        ([3, 1, 2], [0, 5, 5], 1.0, 2),
        ([2, 1], [1, 0], 0.0, 2),
        (list(range(1, 101)), [1] * 100, 0.07, 7),
    ],
)
def test_weighted_quantile(values: list[int], weights: list[int], q: float, expected: int) -> None:
    """The least value that the share q of the weight does not exceed."""
    assert weighted_quantile(np.array(values), np.array(weights), q) == expected


@checked
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1),
    st.sampled_from([0.0, 0.2, 0.5, 0.8, 0.99, 1.0]),
)
def test_a_weight_is_so_many_equal_values(pairs: list[tuple[int, int]], q: float) -> None:
    """A value of weight w is the same as the value w times."""
    each = sorted(value for value, weight in pairs for _ in range(weight))
    if not each:
        return
    values, weights = np.array(pairs).T
    expected = each[max(math.ceil(q * len(each) - 1e-6), 1) - 1]
    assert weighted_quantile(values, weights, q) == expected


# -- markers -------------------------------------------------------------------------------------------------------

# Ten markers of 100 tuples, one every 10 ms, but slow at the start and at the end.
ENTRIES = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
EXITS = [500, 600, 610, 620, 630, 640, 650, 660, 900, 1500]
RUN = [(entry, leaves, 100) for entry, leaves in zip(ENTRIES, EXITS, strict=True)]


def test_start_and_end_are_left_out() -> None:
    """The third to eighth of ten markers count: 600 tuples from the exit of the second to that of the eighth."""
    assert markers(*RUN).throughput() == pytest.approx(600 / 0.060)
    latency = markers(*RUN).latency()
    assert latency is not None
    assert (latency.count, latency.mean) == (600, pytest.approx(0.590))
    assert (latency.p50, latency.p99, latency.max) == pytest.approx((0.590, 0.590, 0.590))


def test_percentiles_count_tuples() -> None:
    """Markers of 20, 60 and 20 tuples: the second one alone lies between the 20th and 80th percentile."""
    steps = markers((0, 100, 20), (10, 160, 60), (20, 900, 20))
    assert steps.throughput() == pytest.approx(60 / 0.060)
    assert steps.latency() == Latency(60, *[pytest.approx(0.150)] * 4)


def test_latency_is_weighted_by_tuples() -> None:
    """98 tuples of 10 ms, one of 20 and one of 90: each tuple counts."""
    steps = markers((0, 10, 98), (0, 20, 1), (0, 90, 1)).latency(0, 1)
    assert steps is not None
    assert steps.mean == pytest.approx((98 * 10 + 20 + 90) / 100 / 1e3)
    assert (steps.p50, steps.p99, steps.max) == pytest.approx((0.010, 0.020, 0.090))


def test_all_of_a_run() -> None:
    """From the 0th to the 100th percentile the time begins with the first entry."""
    assert markers(*RUN).throughput(0, 1) == pytest.approx(1_000 / 1.5)


@pytest.mark.parametrize(
    ("steps", "throughput", "mean", "count"),
    [
        ([(100, 300, 50)], 50 / 0.2, 0.2, 50),
        ([(100, 300, 50), (200, 500, 50)], 100 / 0.4, 0.25, 100),
        ([(0, 10, 1), (0, 20, 98), (0, 30, 1)], 100 / 0.03, 0.02, 100),
    ],
)
def test_few_markers_all_count(
    steps: list[tuple[int, int, int]], throughput: float, mean: float, count: int
) -> None:
    """Where no marker lies within the percentiles, all are taken, from the first entry on."""
    latency = markers(*steps).latency()
    assert latency is not None
    assert markers(*steps).throughput() == pytest.approx(throughput)
    assert (latency.mean, latency.count) == (pytest.approx(mean), count)


def test_no_tuples() -> None:
    """A run without tuples has no throughput and no latency; steps without tuples do not count."""
    for steps in (markers(), markers((0, 1, 0), (0, 2, 0))):
        assert steps.throughput() == 0.0
        assert steps.latency() is None
    empty = [(5 * step, 5 * step + 1, 0) for step in range(400)]
    assert markers(*RUN, *empty).throughput() == markers(*RUN).throughput()


def test_no_time() -> None:
    """A clock that stands still measures nothing."""
    assert markers((1, 1, 5)).throughput() == math.inf


def test_the_order_of_collecting_does_not_count() -> None:
    """Workers may be out of step when they add: markers are taken by exit."""
    shuffled = RUN[:]
    random.Random(3).shuffle(shuffled)
    assert markers(*shuffled).throughput() == markers(*RUN).throughput()
    assert markers(*shuffled).latency() == markers(*RUN).latency()


@checked
@given(st.integers(20, 60), st.integers(1, 50), st.integers(1, 5 * MS), st.integers(0, 9 * MS))
def test_a_steady_run(steps: int, rows: int, every_ns: int, latency_ns: int) -> None:
    """Equal steps at equal times: any percentiles give the same."""
    entries = np.arange(steps) * every_ns
    run = Markers(entries, entries + latency_ns, np.full(steps, rows))
    assert run.throughput() == pytest.approx(rows / every_ns * 1e9)
    assert run.throughput(0.4, 0.6) == pytest.approx(run.throughput())
    assert run.latency() == Latency(
        run.latency().count,
        *[pytest.approx(latency_ns / 1e9)] * 4,  # type: ignore[union-attr]
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0, 1], [1], [1]), "one length"),
        (([5], [4], [1]), "left before it entered"),
        (([5], [6], [-1]), "fewer rows than none"),
    ],
)
def test_markers_are_checked(columns: tuple[list[int], ...], message: str) -> None:
    """What cannot be a run is refused."""
    with pytest.raises(ValueError, match=message):
        Markers(*map(np.array, columns))


# -- histograms ----------------------------------------------------------------------------------------------------

latencies = st.lists(
    st.tuples(st.integers(1, 10**4) | st.integers(1, 2**62), st.integers(1, 1_000)), min_size=1
)


def histogram(pairs: list[tuple[int, int]]) -> LatencyHistogram:
    made = LatencyHistogram()
    for latency_ns, rows in pairs:
        made.add(latency_ns, rows)
    return made


@checked
@given(latencies)
def test_percentiles_are_within_one_percent(pairs: list[tuple[int, int]]) -> None:
    """Against the exact, weighted ones; count, mean and maximum are exact."""
    made = histogram(pairs)
    values, rows = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    for q in (0.01, 0.5, 0.9, 0.99, 1.0):
        exact = weighted_quantile(values, rows, q)
        assert made.quantile_ns(q) == pytest.approx(exact, rel=0.0101)
    latency = made.latency()
    assert latency is not None
    total = sum(latency_ns * rows for latency_ns, rows in pairs)
    assert latency.count == rows.sum()
    assert latency.mean == pytest.approx(total / rows.sum() / 1e9)
    assert latency.max == pytest.approx(values.max() / 1e9)
    assert latency.p50 == pytest.approx(made.quantile_ns(0.5) / 1e9)
    assert latency.p99 == pytest.approx(made.quantile_ns(0.99) / 1e9)


@checked
@given(st.lists(latencies, min_size=1, max_size=4))
def test_merged_is_as_one(parts: list[list[tuple[int, int]]]) -> None:
    """Histograms of parts, merged in any order, are the histogram of all; the merged ones stay as they are."""
    whole = histogram([pair for part in parts for pair in part])
    for order in (parts, parts[::-1]):
        made = LatencyHistogram()
        for part in map(histogram, order):
            before = part.counts.copy()
            made.merge(part)
            assert np.array_equal(part.counts, before)
        assert np.array_equal(made.counts, whole.counts)
        assert (made.total_ns, made.max_ns) == (whole.total_ns, whole.max_ns)
        assert made.latency() == whole.latency()


def test_an_empty_histogram() -> None:
    """Nothing was measured."""
    assert LatencyHistogram().latency() is None
    assert math.isnan(LatencyHistogram().quantile_ns(0.5))


def test_the_ends_of_a_histogram() -> None:
    """It holds whatever an int64 of nanoseconds can be, in a size that does not grow."""
    made = histogram([(0, 1), (2**63 - 1, 1)])
    assert made.counts[0] == made.counts[-2:].sum() == 1
    assert made.quantile_ns(0.5) == pytest.approx(1, rel=0.0101)
    assert made.quantile_ns(1.0) == pytest.approx(2**63, rel=0.0101)
    assert made.counts.nbytes == BUCKETS * 8 < 18_000


def test_a_histogram_travels() -> None:
    """Those of other processes come pickled."""
    made = histogram([(5 * MS, 3), (7 * MS, 1)])
    assert pickle.loads(pickle.dumps(made)).latency() == made.latency()


def test_records_are_frozen() -> None:
    """Progress is a record by name."""
    progress = OperatorProgress(name="parse", kind="stateless", rows_in=3, rows_out=2)
    assert progress == dataclasses.replace(progress)
    with pytest.raises(dataclasses.FrozenInstanceError):
        progress.rows_in = 4  # type: ignore[misc]
