"""Rounds: lists and levels from placement and priorities, aging, and what is refused."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from round_kit import chain, round_view

import thalweg as tw
from thalweg.errors import BuildError, SchedulingError
from thalweg.scheduling import (
    Balanced,
    Feature,
    Periods,
    Placement,
    Round,
    RoundPolicy,
    RoundView,
    feature,
    overdue,
    plan_round,
    required_features,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ByTag(RoundPolicy):
    """The tag ``p`` is the priority."""

    needs: frozenset[str | Feature] = frozenset({"tags"})

    def features(self) -> frozenset[str | Feature]:
        return self.needs

    def priorities(self, view: RoundView) -> list[Any]:
        return [operator.tags["p"] for operator in view.operators]


@dataclasses.dataclass(frozen=True)
class Given(Placement):
    """Lists and shares as given."""

    lists: Sequence[Any]
    counts: Sequence[int] | None = None

    def shares(self, view: RoundView, threads: int) -> Sequence[int]:
        return Placement.shares(self, view, threads) if self.counts is None else self.counts

    def assign(self, view: RoundView, threads: int) -> Sequence[Sequence[int]]:
        return self.lists


def tagged(*priorities: Any, **columns: Sequence[Any]) -> RoundView:
    return round_view(len(priorities), tags=[{"p": p} for p in priorities], **columns)


ONE = Balanced(shares_at_most=1)


# -- lists and levels ----------------------------------------------------------------------------------------------


def test_vectors_are_compared_place_by_place() -> None:
    """The greatest first; of equals the lower index; equals share a level, and others do not."""
    view = tagged((1, 5), (2, 0), (1, 9), (2, 0), (1, 5), (-math.inf,))
    assert plan_round(ByTag(), view, 1) == Round(((1, 3, 2, 0, 4, 5),), ((0, 0, 1, 2, 2, 3),))


def test_levels_are_those_of_all_threads() -> None:
    """The same number on two threads is the same priority."""
    view = tagged((3,), (2,), (2,), (1,))
    policy = ByTag(placement=Given([[3, 0], [2, 1]]))
    assert plan_round(policy, view, 2) == Round(((0, 3), (1, 2)), ((0, 2), (1, 1)))


def test_numbers_of_any_kind_are_priorities() -> None:
    """NumPy's too, also as operators' numbers; -0 is 0."""
    view = tagged((np.float64(2.0),), (np.int64(2),), (0.0,), (-0.0,))
    policy = ByTag(placement=Given([np.array([3, 2, 1, 0])]))
    assert plan_round(policy, view, 1) == Round(((0, 1, 2, 3),), ((0, 0, 1, 1),))


def test_more_threads_than_operators() -> None:
    """The others have nothing to do."""
    planned = plan_round(ByTag(placement=ONE), tagged((1,)), 3)
    assert sorted(planned.lists) == [(), (), (0,)]


def test_no_operators() -> None:
    """An engine without a flow has rounds too."""
    assert plan_round(ByTag(), tagged(), 2) == Round(((), ()), ((), ()))


def test_what_threads_cannot_go_to_is_in_no_list() -> None:
    """A source that has a thread of its own, and an operator that a late thread is still in."""
    view = tagged((1,), (1,), (1,), limit=[0, 1, 4], workers=[0, 1, 1])
    assert plan_round(ByTag(), view, 2).lists == ((2,), (2,))


# -- the placement by work -----------------------------------------------------------------------------------------


def test_balanced_gives_threads_equal_work() -> None:
    """Heaviest first, each on the lightest thread: 8, 7, 6, 5, 4 to 8+5+4 and 7+6."""
    view = round_view(5, worklist=[0, 0, 0, 0, 0], cost_ns=[8.0, 7.0, 6.0, 5.0, 4.0])
    assert [sorted(mine) for mine in ONE.assign(view, 2)] == [[0, 3, 4], [1, 2]]


def test_balanced_counts_what_reaches_an_operator() -> None:
    """W = waiting + s·W before: 9 and the source's 1 reach a, half of it and 2 b, a third of that c."""
    view = chain(3, worklist=[9, 2, 0], selectivity=[0.5, 1 / 3, 1.0], cost_ns=[7.0, 10.0, 30.0])
    # 70, 70, 70
    assert [len(mine) for mine in Balanced().assign(view, 3)] == [1, 1, 1]
    assert Balanced().shares(view, 3) == [1, 1, 1]


@pytest.mark.parametrize(
    ("costs", "limits", "most", "expected"),
    [
        ([70.0, 20.0, 10.0], [8, 8, 8], None, [3, 1, 1]),  # 2.8, 0.8, 0.4 of four threads
        ([75.0, 15.0, 10.0], [8, 8, 8], None, [3, 1, 1]),  # 3.0: not a fourth by rounding
        ([70.0, 20.0, 10.0], [2, 8, 8], None, [2, 1, 1]),
        ([70.0, 20.0, 10.0], [8, 8, 8], 1, [1, 1, 1]),
        ([98.0, 1.0, 1.0], [8, 8, 8], None, [4, 1, 1]),
        ([98.0, 1.0, 1.0], [8, 0, 8], None, [4, 0, 1]),
    ],
)
def test_shares_follow_work(
    costs: list[float], limits: list[int], most: int | None, expected: list[int]
) -> None:
    """min(M, ceil(share of the work × threads)), at least one."""
    placement = Balanced(shares_at_most=most)
    view = round_view(3, cost_ns=costs, limit=limits)
    assert placement.shares(view, 4) == expected
    planned = plan_round(
        ByTag(placement=placement), tagged((1,), (1,), (1,), cost_ns=costs, limit=limits), 4
    )
    assert [sum(i in mine for mine in planned.lists) for i in range(3)] == expected


# -- aging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "after", "expected"),
    [
        ([90, 80, 70], 40, -1),
        ([90, 60, 70], 40, 1),
        ([50, 60, 40], 40, 2),
        ([60, 60, 61], 40, 0),
        ([-1, 60, -1], 40, 1),
        ([-1, -1, -1], 0, -1),
        ([0, 0, 0], None, -1),
        ([], 40, -1),
    ],
)
def test_who_has_waited_too_long_comes_first(
    since: list[int], after: int | None, expected: int
) -> None:
    """At 100: of those that could run and did not for so long, the one that waits longest."""
    assert overdue(since, 100, after) == expected
    assert overdue(np.array(since, np.int64), 100, after) == expected


# -- parameters ----------------------------------------------------------------------------------------------------


def test_lengths_follow_the_period() -> None:
    """Those given as periods change with it, those in seconds do not."""
    policy = ByTag()
    assert (policy.period_ns, policy.batch_rows) == (100_000_000, 10)
    assert policy.starve_after_ns == 1_000_000_000
    assert (policy.stale_after_ns, policy.round_grace_ns) == (200_000_000, 10_000_000)
    slow = dataclasses.replace(policy, period_s=1, stale_after_s=0.5)
    assert slow.starve_after_ns == 10_000_000_000
    assert (slow.stale_after_ns, slow.round_grace_ns) == (500_000_000, 100_000_000)
    assert ByTag(starve_after_s=None).starve_after_ns is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"period_s": 0}, "ByTag: period_s must be a length of time above 0, not 0"),
        ({"period_s": Periods(1)}, "period_s must be a length"),
        ({"period_s": None}, "period_s must be a length"),
        ({"period_s": math.nan}, "period_s must be .* not nan"),
        ({"starve_after_s": -1}, "starve_after_s must be a length of time above 0, not -1"),
        ({"starve_after_s": "10 s"}, "starve_after_s must be .* not '10 s'"),
        ({"stale_after_s": Periods(0)}, "stale_after_s must be"),
        ({"stale_after_s": None}, "stale_after_s must be"),
        ({"round_grace_s": math.inf}, "round_grace_s must be"),
        ({"batch_rows": 0}, "batch_rows must be an int of at least 1, not 0"),
        ({"batch_rows": 2.5}, "batch_rows must be .* not 2.5"),
        ({"placement": "random"}, r"placement must be a Placement, such as Balanced\(\)"),
    ],
)
def test_parameters_are_checked(arguments: dict[str, Any], message: str) -> None:
    """When the policy is made, by name."""
    with pytest.raises(BuildError, match=message):
        ByTag(**arguments)


def test_a_placements_parameters_are_checked() -> None:
    """As a policy's are."""
    with pytest.raises(BuildError, match=r"shares_at_most must be .* not 0"):
        Balanced(shares_at_most=0)


class Weighed(RoundPolicy):
    """As a user writes it: a plain class with attributes of its own."""

    def __init__(self, weight: float) -> None:
        super().__init__(period_s=0.02)
        self.weight = weight

    def features(self) -> frozenset[str | Feature]:
        return frozenset({"worklist"})

    def priorities(self, view: RoundView) -> Sequence[tuple[float, ...]]:
        return [(self.weight * one.worklist,) for one in view.operators]


class Unprepared(Weighed):
    """Does without what its base would do."""

    def __init__(self) -> None:
        self.weight = -1.0


class NoFeatures(Weighed):
    def features(self) -> Any:
        return None


def test_a_plain_class_is_a_policy() -> None:
    """Also one whose ``__init__`` calls none of its base: it has the defaults then."""
    view = chain(3, worklist=[1, 3, 2])
    assert plan_round(Weighed(2.0), view, 1).lists == ((1, 2, 0),)
    assert plan_round(Unprepared(), view, 1).lists == ((0, 2, 1),)
    assert (Weighed(1.0).period_ns, Unprepared().period_ns) == (20_000_000, 100_000_000)
    with pytest.raises(dataclasses.FrozenInstanceError):
        ByTag().period_s = 1.0  # type: ignore[misc]


def test_features_that_are_no_set_are_refused() -> None:
    with pytest.raises(SchedulingError, match=r"policy NoFeatures: features\(\) must give a set"):
        required_features(NoFeatures(1.0))
    with pytest.raises(BuildError, match="features must be several names"):
        tw.scheduling.by(lambda operator, view: 1, features="worklist")


def test_required_features_are_those_of_both_functions() -> None:
    """F: used by f and g (Haren, 4.2), by name."""
    mine = feature("level", kind="external", read=len)
    policy = ByTag(needs=frozenset({"head_ns", mine}))
    names = [one.name for one in required_features(policy)]
    assert names == ["cost_ns", "head_ns", "level", "selectivity", "worklist"]
    assert mine in required_features(policy)


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "operator", "message"),
    [
        (lambda: ByTag(needs=frozenset({"speed"})), "", "needs an unknown feature: 'speed'"),
        (
            lambda: ByTag(
                needs=frozenset(
                    {
                        feature("x", kind="external", read=len),
                        feature("x", kind="external", read=id),
                    }
                )
            ),
            "",
            "two different features named 'x'",
        ),
        (lambda: ByTag(placement=Given([[0], [2]])), "b", "operator b is assigned to 0 threads"),
        (lambda: ByTag(placement=Given([[0, 1, 2], [1]])), "b", "operator b is assigned to 2"),
        (lambda: ByTag(placement=Given([[0, 1, 0], [2]])), "a", "a is assigned to thread 0 twice"),
        (lambda: ByTag(placement=Given([[0, 1, 2]])), "", "lists for 1 thread"),
        (lambda: ByTag(placement=Given([[0, 1], [2, 3]])), "3", "operator 3 is not below 3"),
        (lambda: ByTag(placement=Given([[0, 1], [2, -1]])), "-1", "operator -1 is not below 3"),
        (lambda: ByTag(placement=Given([[0, "b"], [2]])), "", "placement Given: it raised TypeErr"),
        (
            lambda: ByTag(placement=Given([[0, 1], [1, 2]], [1, 2, 1])),
            "b",
            "operator b has 2 shares, but 1 place",
        ),
        (
            lambda: ByTag(placement=Given([[0, 1], []], [1, 1, 0])),
            "c",
            "operator c has 0 shares, but 1 place",
        ),
    ],
)
def test_what_is_no_assignment_is_refused(
    make: Callable[[], RoundPolicy], operator: str, message: str
) -> None:
    """By policy and operator."""
    policy = make()
    with pytest.raises(SchedulingError, match=message) as caught:
        plan_round(policy, tagged((1,), (1,), (1,)), 2)
    assert (caught.value.policy, caught.value.operator) == ("ByTag", operator)
    assert "policy ByTag" in str(caught.value)


@pytest.mark.parametrize("priority", [(), 5.0, (1, math.nan), ("high",), None, [1]])
def test_what_is_no_priority_is_refused(priority: Any) -> None:
    """By policy and operator."""
    with pytest.raises(SchedulingError, match="policy ByTag, operator b: its priority is"):
        plan_round(ByTag(), tagged((1,), priority, (1,)), 2)


def test_a_policy_that_raises_is_named() -> None:
    """Its error is the cause."""
    with pytest.raises(SchedulingError, match=r"policy ByTag: it raised KeyError\('p'\)") as caught:
        plan_round(ByTag(), round_view(2), 1)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_priority_an_operator() -> None:
    """No more, no fewer."""

    class Short(ByTag):
        def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
            return [(1.0,)]

    with pytest.raises(SchedulingError, match="policy Short: 1 priority\n  expected: 3"):
        plan_round(Short(), round_view(3), 1)


def test_a_round_needs_a_thread() -> None:
    """Nobody would run the operators."""
    with pytest.raises(SchedulingError, match="at least 1 thread, not 0"):
        plan_round(ByTag(), tagged((1,)), 0)


def test_the_error_travels() -> None:
    """Between processes, with what it says."""
    error = pickle.loads(pickle.dumps(tw.SchedulingError("no", policy="p", operator="o")))
    assert (str(error), error.policy, error.operator) == ("no", "p", "o")
