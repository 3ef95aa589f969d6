"""Haren's figures: the queries are the paper's, sources keep to their time, and what is measured is what left."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from thalweg_lab.figures.haren import compared, queries, runs
from thalweg_lab.figures.haren.queries import Rate, Tuple, chain, drawn, two_classes

import thalweg as tw
from thalweg.scheduling import FirstComeFirstServed


def test_tuples_are_due_at_their_rate_and_in_bursts() -> None:
    """A rate is tuples a second; bursts have the same, for a share of each period."""
    steady = list(Rate(100.0).due_s(1.0))
    assert len(steady) == 100 and steady[1] - steady[0] == pytest.approx(0.01)
    bursts = Rate(100.0, on_s=0.25, every_s=1.0)
    due = list(bursts.due_s(3.0))
    assert bursts.mean_per_s == 25 and len(due) == pytest.approx(75, abs=3)
    assert all(at_s % 1.0 < 0.26 for at_s in due)


def test_queries_are_drawn_as_in_the_paper() -> None:
    """Shares from 0.01 to 1 leave, costs are classes from 1 to 16 times the base; the same seed draws the same."""
    made = drawn([Rate(1.0)] * 200, seed=1, high=3)
    assert made == drawn([Rate(1.0)] * 200, seed=1, high=3)
    shares = [one.kept**one.length for one in made]
    assert 0.009 < min(shares) < 0.05 and 0.95 < max(shares) <= 1
    assert {round(math.log2(one.weight)) for one in made} == {0, 1, 2, 3, 4}
    assert [one.priority_class for one in made[:5]] == [0, 0, 0, 1, 1]


def test_a_burst_alone_is_not_too_much() -> None:
    """Else nothing could be on time; the whole is still more than the cores can do."""
    made = two_classes(Rate(5_000.0, 1.0, 4.0), seed=0, load=1.3)
    base = compared.base_ns(made, 1.3, 2.0)
    burst = sum(one.weight_a_tuple * one.rate.per_s for one in made[: queries.HIGH])
    assert burst * base <= 0.7 * 2e9
    assert sum(one.load for one in made) * base == pytest.approx(1.3 * 2e9)


def test_an_operator_lets_through_its_share() -> None:
    """Of 10,000 tuples it passes on ``kept``; they are others' own work otherwise unchanged."""
    rows = [Tuple(number, 1, 2_500) for number in range(10_000)]
    out = tw.run(chain("share", 1), {"in": rows}, threading="manual").rows("out")
    assert len(out) == 2_500 and set(out) <= set(rows)


def test_a_run_counts_what_left_in_each_way_and_by_both_ends() -> None:
    """With next to nothing to do all tuples that are kept leave, none before it was due."""
    made = drawn([Rate(200.0)] * 2, seed=3, length=2)
    ways: list[Any] = ["dedicated", FirstComeFirstServed()]
    for way, by_batch in itertools.product(ways, (False, True)):
        ran = runs.run(
            made, way, base_ns=1.0, seconds=0.2, threads=2, by_batch=by_batch, warm_up_s=0.1,
            to_the_end=True,
        )  # fmt: skip
        for q in range(2):
            late = ran.left_s[q] - ran.due_s[q]
            assert np.all(late > 0) and np.all(ran.due_s[q] >= 0.1)
        assert ran.out_per_s([0, 1]) > 0
        assert (ran.rounds is None) == (way == "dedicated")


def test_a_check_can_fail() -> None:
    """It compares two numbers, and says both."""
    assert compared.check("less", 1.0, 2.0).holds and not compared.check("less", 2.0, 1.0).holds
    assert "2 beside 1" in compared.check("less", 2.0, 1.0).seen
