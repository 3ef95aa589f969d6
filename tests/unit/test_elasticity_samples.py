"""Records of elasticity."""

from __future__ import annotations

import pytest

import thalweg as tw
from thalweg.elasticity import Limits, Sample


def test_throughput_is_a_second() -> None:
    """Tuples of a period of any length become tuples a second."""
    sample = Sample(now_ns=0, period_ns=500_000_000, threads=1, tuples=40)
    assert sample.throughput == 80


def test_utilization_is_the_mean_over_threads() -> None:
    """One idle thread beside a busy one makes a half; no thread known makes none."""
    sample = Sample(now_ns=0, period_ns=1, threads=2, tuples=0, utilizations=(1.0, 0.0))
    assert sample.utilization == 0.5
    assert Sample(now_ns=0, period_ns=1, threads=2, tuples=0).utilization == 0.0


@pytest.mark.parametrize(("minimum", "maximum"), [(0, 2), (3, 2), (-1, -1)])
def test_limits_are_checked(minimum: int, maximum: int) -> None:
    """There is at least one thread, and the minimum is no more than the maximum."""
    with pytest.raises(tw.BuildError, match="thread levels"):
        Limits(minimum, maximum)


def test_stuck_threads_come_on_top_of_the_minimum() -> None:
    """A stuck thread does no work, so one more must run; the maximum gives way where it must."""
    limits = Limits(2, 4)
    assert limits.with_stuck(0) == limits
    assert limits.with_stuck(1) == Limits(3, 4)
    assert limits.with_stuck(4) == Limits(6, 6)


def test_clamp() -> None:
    """A level outside becomes the nearest that is allowed."""
    assert [Limits(2, 4).clamp(level) for level in (1, 2, 3, 4, 9)] == [2, 2, 3, 4, 4]
