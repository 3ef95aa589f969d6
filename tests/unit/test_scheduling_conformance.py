"""What holds for every policy, those that pick and those that plan rounds, on any view."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pick_kit import columns_of, compiled, view_of, views
from round_kit import round_view
from tests.sizes import sized

from thalweg import scheduling as s
from thalweg.scheduling import FlowView, PickPolicy, RoundPolicy, RoundView

PICKS: list[PickPolicy] = [
    s.QueueSizeThrottling(capacity=100),
    s.LastInPipeline(),
    s.EstimatedTime(),
    s.CurrentThroughput(slice_ns=1_000),
    s.CurrentThroughput(slice_ns=1_000, normalize="output"),
    s.FreeList(),
    s.Random(seed=5),
    s.RoundRobin(),
    s.MaxQueueLength(),
    s.MinLatency(),
    s.LeastRecentlyRun(),
    s.MaxRunningTime(),
]
PLACEMENTS: list[s.Placement] = [
    s.Balanced(),
    s.Balanced(shares_at_most=1),
    s.RoundRobinPlacement(),
    s.RandomPlacement(seed=3),
    s.FlowPlacement(),
]


def longest_cheapest(operator: s.OperatorStats, view: RoundView) -> tuple[float, ...]:
    return operator.worklist, -operator.cost_ns


def round_policies(**parameters: Any) -> list[RoundPolicy]:
    return [
        s.FirstComeFirstServed(**parameters),
        s.HighestRate(**parameters),
        s.MostUrgentFirst(**parameters),
        s.Chain(fanout="max", **parameters),
        s.Chain(fanout="max", end="kept", **parameters),
        s.MultiClass(
            {0: s.FirstComeFirstServed(), 1: s.HighestRate(), 2: s.Chain(fanout="max")},
            **parameters,
        ),
        s.by(longest_cheapest, **parameters),
    ]


ROUNDS = [policy for placement in PLACEMENTS for policy in round_policies(placement=placement)]
exact = settings(deadline=None, derandomize=True, database=None, max_examples=sized(60))
by_pick = pytest.mark.parametrize("policy", PICKS, ids=repr)
by_round = pytest.mark.parametrize(
    "policy", ROUNDS, ids=lambda policy: f"{policy.name} {policy.placement!r}"
)


def test_every_policy_is_here() -> None:
    """A policy or placement that is exported and not tried here would be nobody's."""
    exported = [getattr(s, name) for name in s.__all__]
    concrete = {
        one
        for one in exported
        if isinstance(one, type) and issubclass(one, PickPolicy | RoundPolicy | s.Placement)
    } - {PickPolicy, RoundPolicy, s.Placement}
    assert concrete <= {type(one) for one in [*PICKS, *ROUNDS, *PLACEMENTS]}


@pytest.mark.parametrize(
    "policy", [*PICKS, *round_policies()], ids=lambda policy: type(policy).__name__
)
def test_policies_are_frozen_records(policy: Any) -> None:
    """Equal parameters, equal policy; none changes under an engine."""
    assert dataclasses.replace(policy) == policy
    field = dataclasses.fields(policy)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(policy, field, 7)


# -- picks ---------------------------------------------------------------------------------------------------------


@by_pick
@exact
@given(view=views(), worker=st.integers(0, 63))
@example(view=view_of(runnable=[0, 0, 0]), worker=0)
def test_picks(policy: PickPolicy, view: FlowView, worker: int) -> None:
    """A pick gives one that can run, -1 only where none can; it changes nothing, and compiled it gives the same."""
    before = [column.copy() for column in columns_of(view)]
    chosen = policy.pick_function()(view, worker)
    can_run = np.flatnonzero(view.runnable).tolist()
    assert chosen in (can_run or [-1])
    assert policy.pick_function()(view, worker) == chosen
    assert compiled(policy)(view, worker) == chosen
    assert all(np.array_equal(a, b) for a, b in zip(before, columns_of(view), strict=True))


# -- rounds --------------------------------------------------------------------------------------------------------


@st.composite
def crowds(draw: st.DrawFn) -> RoundView:
    """Flows of up to nine operators, with branches, sources of both sorts, several classes and late workers."""
    n = draw(st.integers(1, 9))

    def column(element: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(element, min_size=n, max_size=n))

    kinds = column(st.integers(0, 3))
    flows = column(st.sampled_from("xy"))
    pairs = [(i, j) for j in range(n) for i in range(j) if flows[i] == flows[j] and kinds[j] != 3]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=9)) if pairs else []
    return round_view(
        n,
        sorted(edges),
        kind=kinds,
        flow=flows,
        priority_class=column(st.integers(0, 2)),
        cost_ns=column(st.sampled_from([10.0, 1e3]) | st.floats(10, 1e9)),
        selectivity=column(st.sampled_from([0.5, 1.0]) | st.floats(1e-6, 1e3)),
        worklist=column(st.integers(0, 3) | st.integers(0, 10**7)),
        head_ns=column(st.integers(-1, 3) | st.integers(10**15 - 10**10, 10**15)),
        last_run_ns=column(st.integers(0, 10**15)),
        limit=column(st.integers(0, 3)),
        workers=column(st.integers(0, 1)),
    )


@by_round
@exact
@given(view=crowds(), threads=st.integers(1, 5))
def test_rounds(policy: RoundPolicy, view: RoundView, threads: int) -> None:
    """Every operator with a place stands in as many lists as it has shares, at most once in each; lists are in the
    order of the vectors, equal ones share a level; nothing is changed, and the same view gives the same round."""
    before = copy.deepcopy(view)
    planned = s.plan_round(policy, view, threads)
    shares = policy.placement.shares(view, threads)
    assert len(planned.lists) == len(planned.levels) == threads
    assert Counter(i for mine in planned.lists for i in mine) == +Counter(dict(enumerate(shares)))
    for operator, count in zip(view.operators, shares, strict=True):
        assert min(operator.places, 1) <= count <= operator.places
    vectors = policy.priorities(view)
    for mine, levels in zip(planned.lists, planned.levels, strict=True):
        assert len(set(mine)) == len(mine) == len(levels)
        for (a, of_a), (b, of_b) in zip(
            zip(mine, levels, strict=True), list(zip(mine, levels, strict=True))[1:], strict=False
        ):
            assert vectors[a] > vectors[b] or (vectors[a] == vectors[b] and a < b)
            assert (of_a == of_b) == (vectors[a] == vectors[b])
            assert of_a <= of_b
    assert s.plan_round(policy, view, threads) == planned
    assert view == before


@by_round
def test_what_a_policy_needs_is_measured(policy: RoundPolicy) -> None:
    """A policy sees what it asks for: what it does not ask for may be anything."""
    asked = {one.name for one in s.required_features(policy)}
    plain = round_view(4, [(0, 1), (2, 3)], flow=list("xxyy"), priority_class=[0, 1, 2, 0])
    others: dict[str, Sequence[Any]] = {
        "rank": [3, 2, 1, 0],
        "kind": [3, 1, 2, 1],
        "flow": list("abcd"),
        "priority_class": [2, 2, 0, 1],
        "cost_ns": [7.0, 70.0, 1.0, 11.0],
        "selectivity": [0.1, 3.0, 0.2, 1.0],
        "worklist": [7, 1, 900, 3],
        "output_room": [1, 2, 3, 4],
        "head_ns": [4, 3, 2, 1],
        "last_run_ns": [9, 7, 5, 3],
        "tags": [{"a": i} for i in range(4)],
    }
    changed = tuple(
        operator._replace(
            **{name: of[operator.index] for name, of in others.items() if name not in asked}
        )
        for operator in plain.operators
    )
    other = dataclasses.replace(plain, operators=changed)
    assert s.plan_round(policy, other, 2) == s.plan_round(policy, plain, 2)


# -- aging ---------------------------------------------------------------------------------------------------------

VISIT_NS = 1_000
OPERATORS = 5


def longest_wait(choose: Callable[[list[int], int], int], starve_after_ns: int | None) -> int:
    """The longest that an operator that could run all the time waited, in a run of one thread that visits for
    ``VISIT_NS`` what is overdue, else what is chosen of (since when each waits, now)."""
    since, now, longest = [0] * OPERATORS, 0, 0
    for _ in range(400):
        overdue = s.overdue(since, now, starve_after_ns)
        operator = overdue if overdue >= 0 else choose(since, now)
        longest = max(longest, now - since[operator])
        now += VISIT_NS
        since[operator] = now
    return max(longest, now - min(since))


@by_pick
@pytest.mark.parametrize("starve_after_ns", [1, 20_000, 57_000])
def test_no_pick_starves_an_operator(policy: PickPolicy, starve_after_ns: int) -> None:
    """With aging, one that can run waits at most for that long, and a visit of each other operator."""
    pick = policy.pick_function()

    def choose(since: list[int], now: int) -> int:
        view = view_of(
            {"operator": [1, 2, 3, 4, 5], "length": [5, 4, 3, 2, 1]},
            worklist=[0, 5, 4, 3, 2, 1],
            last_run_ns=[0, *since],
            now_ns=[now],
            output=[0, 0, 0, 0, 0, -1],
        )
        return pick(view, 0) - 1

    assert longest_wait(choose, starve_after_ns) <= starve_after_ns + OPERATORS * VISIT_NS


@pytest.mark.parametrize("policy", round_policies(starve_after_s=50e-6), ids=lambda p: p.name)
def test_no_round_starves_an_operator(policy: RoundPolicy) -> None:
    """The same for round policies, whose first operator could run all the time."""
    view = round_view(
        OPERATORS,
        cost_ns=[10.0, 20.0, 30.0, 40.0, 50.0],
        worklist=[9, 8, 7, 6, 5],
        head_ns=[1, 2, 3, 4, 5],
    )
    (order,) = s.plan_round(policy, view, 1).lists

    def choose(since: list[int], now: int) -> int:
        return order[0]

    assert policy.starve_after_ns == 50_000
    assert longest_wait(choose, policy.starve_after_ns) <= 50_000 + OPERATORS * VISIT_NS
    assert longest_wait(choose, None) == 400 * VISIT_NS
