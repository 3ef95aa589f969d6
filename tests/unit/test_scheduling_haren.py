"""FCFS, Highest Rate, Chain, Multi-Class, policies from functions, and placements: by hand and by brute force."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from round_kit import NOW_NS, chain, round_view
from tests.sizes import sized

from thalweg.errors import BuildError, SchedulingError
from thalweg.scheduling import (
    Balanced,
    Chain,
    FirstComeFirstServed,
    FlowPlacement,
    HighestRate,
    MultiClass,
    Placement,
    RandomPlacement,
    RoundPolicy,
    RoundRobinPlacement,
    RoundView,
    by,
    feature,
    lower_envelope,
    plan_round,
    required_features,
)

exact = settings(deadline=None, derandomize=True, database=None, max_examples=sized(200))
SOURCE = 3


def order(policy: RoundPolicy, view: RoundView) -> str:
    """The names of operators as one thread runs them."""
    (mine,) = plan_round(policy, view, 1).lists
    return "".join(view.operators[i].name for i in mine)


def ago(*ages: int) -> list[int]:
    """Head times by their ages; -1 stays."""
    return [NOW_NS - age if age >= 0 else -1 for age in ages]


# -- first come, first served --------------------------------------------------------------------------------------


def test_fcfs_takes_the_earliest_clock_time() -> None:
    """The oldest waiting tuple first, operators without one last, and equals share a level."""
    view = round_view(5, head_ns=ago(10, 30, -1, 20, 30))
    assert order(FirstComeFirstServed(), view) == "bedac"
    assert plan_round(FirstComeFirstServed(), view, 1).levels == ((0, 0, 1, 2, 3),)


def test_fcfs_ranks_an_empty_operator_by_what_is_on_its_way_to_it() -> None:
    """Old tuples pass the empty inboxes b and c in one round, and then wait behind d; nothing is on its way to e."""
    edges = [(0, 1), (1, 2), (2, 3), (4, 5)]
    view = round_view(6, edges, head_ns=ago(30, -1, -1, 10, -1, 20))
    assert order(FirstComeFirstServed(), view) == "abcfde"
    assert plan_round(FirstComeFirstServed(), view, 1).levels == ((0, 0, 0, 1, 2, 3),)


def test_fcfs_behind_a_join_counts_the_oldest_of_its_inputs() -> None:
    view = round_view(4, [(0, 2), (1, 2), (2, 3)], head_ns=ago(10, 30, -1, -1))
    assert order(FirstComeFirstServed(), view) == "bcda"


def test_fcfs_tells_nanoseconds_apart() -> None:
    """Also where the clock is past the integers that a float holds."""
    view = dataclasses.replace(round_view(2, head_ns=[2**60 + 1, 2**60]), now_ns=2**60 + 10**9)
    assert order(FirstComeFirstServed(), view) == "ba"


def test_fcfs_on_the_papers_sample_query() -> None:
    """Haren, Figure 1: clock times fall from Ingress over op1 and op2 to Egress, so the Egress is first."""
    assert order(FirstComeFirstServed(), chain(4, head_ns=ago(0, 10, 20, 30))) == "dcba"


# -- highest rate --------------------------------------------------------------------------------------------------


def rates(view: RoundView) -> list[float]:
    return [rate for (rate,) in HighestRate().priorities(view)]


def test_hr_of_a_chain() -> None:
    """By hand: S = 1/8, 1/2, 1; C = 2 + 1/4·(4 + 1/2·8) = 4, 4 + 1/2·8 = 8, 8."""
    view = chain(3, cost_ns=[2.0, 4.0, 8.0], selectivity=[0.25, 0.5, 1.0])
    assert rates(view) == [1 / 32, 1 / 16, 1 / 8]
    assert order(HighestRate(), view) == "cba"


def test_hr_sums_over_branches() -> None:
    """a feeds two sinks of cost 1 and 3: S = 1/2·2, C = 1 + 1/2·4, so 1/3; the product of branches would be 1/6."""
    view = round_view(3, [(0, 1), (0, 2)], cost_ns=[1.0, 1.0, 3.0], selectivity=[0.5, 1.0, 1.0])
    assert rates(view) == pytest.approx([1 / 3, 1, 1 / 3])


def test_hr_ends_with_the_last_operator() -> None:
    """S = s and C = c where nobody reads, which may be no sink, as where a stage ends."""
    view = round_view(3, [(0, 1), (0, 2)], cost_ns=[1.0] * 3, selectivity=[0.5] * 3)
    assert rates(view) == [0.5 / 2, 0.5, 0.5]


@st.composite
def graphs(draw: st.DrawFn) -> RoundView:
    """Flows of one to seven operators in topological order, with a few paths each."""
    n = draw(st.integers(1, 7))
    pairs = list(itertools.combinations(range(n), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=9)) if pairs else []
    numbers = st.sampled_from([0.125, 0.5, 1.0, 2.0, 3.0])
    return round_view(
        n,
        sorted(edges),
        cost_ns=draw(st.lists(numbers, min_size=n, max_size=n)),
        selectivity=draw(st.lists(numbers, min_size=n, max_size=n)),
    )


def followed(view: RoundView, i: int) -> tuple[Fraction, Fraction]:
    """What one tuple makes of operator i and all behind it: tuples at the ends, and time, tuple by tuple."""
    out, time = Fraction(0), Fraction(0)
    ways = [(i, Fraction(1))]
    while ways:
        at, tuples = ways.pop()
        operator = view.operators[at]
        time += tuples * Fraction(operator.cost_ns)
        tuples *= Fraction(operator.selectivity)
        if not view.readers[at]:
            out += tuples
        ways += [(reader, tuples) for reader in view.readers[at]]
    return out, time


@exact
@given(view=graphs())
def test_hr_is_the_output_rate_of_a_tuple_that_is_followed(view: RoundView) -> None:
    """By brute force on any graph: every copy of a tuple followed to the ends."""
    for i, rate in enumerate(rates(view)):
        out, time = followed(view, i)
        assert rate == pytest.approx(float(out / time), rel=1e-12)


# -- chain ---------------------------------------------------------------------------------------------------------


def test_a_segment_may_jump_over_a_local_slope() -> None:
    """a: c = 1, s = .2; b: c = 1, s = 0. Alone a has slope .8, but with b it is 1/1.2, and both get that."""
    assert lower_envelope([1, 1], [0.2, 0]) == pytest.approx([1 / 1.2, 1 / 1.2])


def test_the_envelope_of_a_chain_by_hand() -> None:
    """Points (0, 1), (1, .9), (1.9, .2), (3.9, .2), (4.1, .1): one segment to .2 by a slope of .8/1.9, one to the end
    by .1/2.2."""
    slopes = lower_envelope([1, 1, 10, 1], [0.9, 2 / 9, 1, 0.5])
    assert slopes == pytest.approx([0.8 / 1.9, 0.8 / 1.9, 0.1 / 2.2, 0.1 / 2.2])


@pytest.mark.parametrize(
    ("end", "slopes"),
    [
        # (1, .5), (1.5, .4), (1.54, 0): one segment to the end
        ("released", [1 / 1.54] * 3),
        # (1, .5), (1.5, .4), (1.54, .4): each operator its own
        ("kept", [0.5, 0.2, 0.0]),
    ],
)
def test_chain_at_the_end(end: Any, slopes: list[float]) -> None:
    """Nothing is left behind a cheap sink, which flattens the chart, or what the sink's selectivity says."""
    view = chain(3, cost_ns=[1.0, 1.0, 0.1], selectivity=[0.5, 0.8, 1.0], head_ns=ago(1, 2, 3))
    vectors = Chain(end=end).priorities(view)
    assert [slope for slope, _ in vectors] == pytest.approx(slopes)
    assert [age for _, age in vectors] == [1, 2, 3]


def test_chain_breaks_ties_by_clock_time() -> None:
    """Of equal slopes the earliest head; d, where none waits, by what waits before it."""
    view = round_view(
        4, selectivity=[0.5, 0.5, 0.9, 0.5], head_ns=ago(5, 7, 99, -1), cost_ns=[1.0] * 4
    )
    assert order(Chain(end="kept"), view) == "badc"


def test_chain_keeps_flows_apart_and_sources_last() -> None:
    """Each chain has a chart of its own, from behind its source; a source only adds tuples."""
    view = round_view(
        6,
        [(0, 1), (1, 2), (3, 4), (3, 5)],
        kind=[SOURCE, 0, 0, SOURCE, 0, 0],
        cost_ns=[9.0, 4.0, 4.0, 9.0, 1.0, 2.0],
        selectivity=[1.0, 0.5, 0.5, 1.0, 1.0, 1.0],
        head_ns=ago(50, 10, 20, 60, 30, 40),
    )
    assert [slope for slope, _ in Chain().priorities(view)] == pytest.approx(
        [-math.inf, 1 / 6, 1 / 6, -math.inf, 1, 1 / 2]
    )
    assert order(Chain(), view) == "efcbda"


def test_chain_takes_the_best_of_all_paths() -> None:
    """a feeds b, which drops all, and c, which drops nothing more at a high cost."""
    edges = [(0, 1), (0, 2)]
    columns = {"cost_ns": [1.0, 1.0, 8.0], "selectivity": [0.5, 0.0, 1.0]}
    slopes = [
        slope
        for slope, _ in Chain(fanout="max", end="kept").priorities(round_view(3, edges, **columns))
    ]
    assert slopes == pytest.approx([1 / 1.5, 1 / 1.5, 0.0])


@pytest.mark.parametrize(
    ("edges", "kinds", "message"),
    [
        ([(0, 1), (0, 2)], [0, 0, 0], "operator a has 2 readers\n"),
        ([(0, 2), (1, 2)], [0, 0, 0], "operator c reads 2\n"),
        ([(0, 2), (1, 2)], [SOURCE, SOURCE, 0], "operator c reads 2\n"),
    ],
)
def test_chain_refuses_what_is_no_chain(
    edges: list[tuple[int, int]], kinds: list[int], message: str
) -> None:
    """With what to do; by ``fanout='max'`` the same flow has a round."""
    view = round_view(3, edges, kind=kinds)
    with pytest.raises(SchedulingError, match=f"policy Chain: {message}.*fanout='max'") as caught:
        plan_round(Chain(), view, 1)
    assert caught.value.operator == message[9]
    assert len(plan_round(Chain(fanout="max"), view, 1).lists[0]) == 3


def test_chain_looks_at_no_more_paths_than_it_can() -> None:
    """Twenty diamonds in a row have a million: refused, not waited for."""
    edges = [
        edge
        for i in range(0, 60, 3)
        for edge in ((i, i + 1), (i, i + 2), (i + 1, i + 3), (i + 2, i + 3))
    ]
    with pytest.raises(SchedulingError, match="more than 10000 paths"):
        plan_round(Chain(fanout="max"), round_view(61, edges), 1)


def steepest(costs: Sequence[Fraction], selectivities: Sequence[Fraction]) -> list[Fraction]:
    """Babcock's definition as it stands: from each point to the one with the steepest slope, the farthest of equals."""
    time, left = [Fraction(0)], [Fraction(1)]
    for cost, selectivity in zip(costs, selectivities, strict=True):
        time.append(time[-1] + cost * left[-1])
        left.append(left[-1] * selectivity)
    slopes: list[Fraction] = []
    while len(slopes) < len(costs):
        at = len(slopes)
        slope, to = max(
            ((left[at] - left[j]) / (time[j] - time[at]), j) for j in range(at + 1, len(time))
        )
        slopes += [slope] * (to - at)
    return slopes


links = st.lists(
    st.tuples(
        st.fractions(Fraction(1, 8), 8, max_denominator=8),
        st.fractions(Fraction(1, 8), 2, max_denominator=8),
    ),
    min_size=1,
    max_size=8,
)


@exact
@given(links=links)
def test_the_envelope_is_babcocks_definition(links: list[tuple[Fraction, Fraction]]) -> None:
    """Merging neighbours gives the steepest segments, in exact numbers; slopes never rise along the chain."""
    costs, selectivities = zip(*links, strict=True)
    slopes = lower_envelope(costs, selectivities)
    assert slopes == steepest(costs, selectivities)
    assert all(a >= b for a, b in itertools.pairwise(slopes))


@exact
@given(
    links=st.lists(st.tuples(st.floats(10, 1e9), st.floats(1e-6, 1e3)), min_size=1, max_size=300)
)
def test_slopes_never_rise(links: list[tuple[float, float]]) -> None:
    """Nor do they in floats, on chains so long that next to nothing reaches their end."""
    slopes = lower_envelope(*zip(*links, strict=True))
    assert len(slopes) == len(links)
    assert all(a >= b for a, b in itertools.pairwise(slopes))


# -- classes -------------------------------------------------------------------------------------------------------


def test_classes_come_in_order_and_each_has_its_policy() -> None:
    """Haren, 7.4: HIGH by FCFS before LOW by HR, whatever the numbers of the two are."""
    view = round_view(
        5,
        priority_class=[1, 0, 1, 0, 1],
        flow=list("vwxyz"),
        head_ns=ago(900, 1, 800, 2, 700),
        cost_ns=[3.0, 9.0, 1.0, 9.0, 2.0],
    )
    policy = MultiClass({0: FirstComeFirstServed(), 1: HighestRate()})
    assert order(policy, view) == "dbcea"
    names = {one.name for one in required_features(policy)}
    assert {"priority_class", "flow", "head_ns", "cost_ns", "selectivity"} <= names


def test_a_class_sees_only_its_flows_but_those_whole() -> None:
    """A flow that is no chain is nothing to a class that it has no operator of; an operator counts what is behind it
    in another class."""
    view = round_view(
        6,
        [(0, 1), (2, 3), (2, 4)],
        flow=["one", "one", "two", "two", "two", "one"],
        priority_class=[0, 2, 1, 1, 1, 0],
        cost_ns=[1.0, 3.0, 1.0, 1.0, 1.0, 2.0],
    )
    policy = MultiClass({0: HighestRate(), 1: FirstComeFirstServed(), 2: Chain()})
    vectors = policy.priorities(view)
    assert vectors[0] == (0, 1 / 4)
    assert vectors[5] == (0, 1 / 2)
    assert order(policy, view).endswith("b")
    with pytest.raises(SchedulingError, match="policy Chain: operator c has 2 readers"):
        plan_round(MultiClass({0: HighestRate(), 1: Chain(), 2: Chain()}), view, 1)


def test_every_class_needs_a_policy() -> None:
    """An operator of a class without one is named."""
    with pytest.raises(
        SchedulingError, match=r"operator b is of class 7\n.*one that has a policy: \[0\]"
    ):
        plan_round(MultiClass({0: FirstComeFirstServed()}), round_view(2, priority_class=[0, 7]), 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiClass({}), "a policy for each class, not {}"),
        (lambda: MultiClass([Chain()]), "a policy for each class, not"),
        (
            lambda: MultiClass({-1: Chain()}),
            "MultiClass: a priority class is an int, 0 the most urgent, not -1",
        ),
        (lambda: MultiClass({"a": Chain()}), "a priority class is .* not 'a'"),
        (lambda: MultiClass({0: "chain"}), "class 0 needs a round policy, not 'chain'"),
        (lambda: MultiClass({0: Chain()}, period_s=0), "MultiClass: period_s must be"),
        (lambda: Chain(fanout="sum"), "Chain: fanout must be 'error' or 'max', not 'sum'"),
        (lambda: Chain(end="lost"), "Chain: end must be 'released' or 'kept', not 'lost'"),
        (lambda: Chain(batch_rows=0), "Chain: batch_rows must be"),
        (lambda: RandomPlacement(seed=0.5), "seed must be an int, not 0.5"),
        (lambda: by("cost_ns"), "the rank must be a function .* not 'cost_ns'"),
        (lambda: by(len, period_s=-1), r"by\(len\): period_s must be"),
    ],
)
def test_parameters_are_checked(make: Callable[[], object], message: str) -> None:
    """When the policy is made, by name."""
    with pytest.raises(BuildError, match=message):
        make()


# -- policies from functions ---------------------------------------------------------------------------------------


def test_by_a_number_or_a_tuple() -> None:
    """The greatest first; by default every built-in feature is there."""
    view = round_view(3, worklist=[5, 9, 5], cost_ns=[7.0, 8.0, 2.0])
    assert order(by(lambda operator, view: operator.worklist), view) == "bac"
    assert order(by(lambda operator, view: (operator.worklist, -operator.cost_ns)), view) == "bca"
    assert {"worklist", "head_ns"} <= {one.name for one in required_features(by(len))}


def test_by_a_feature_of_ones_own() -> None:
    """Declared, and found in the record; parameters are those of every round policy."""
    level = feature("level", kind="external", read=len)
    policy = by(
        lambda operator, view: operator.own["level"],
        features=[level],
        placement=RoundRobinPlacement(),
        period_s=0.5,
    )
    assert required_features(policy) == (level,)
    assert policy.period_ns == 500_000_000
    assert order(policy, round_view(2, own=[{"level": 1.0}, {"level": 2.0}])) == "ba"


def test_by_a_function_that_raises() -> None:
    """Its operator is named, and so is a function."""

    def urgency(operator: Any, view: RoundView) -> float:
        return float(1 / operator.worklist)

    with pytest.raises(
        SchedulingError, match=r"policy by\(urgency\), operator b: it raised ZeroDiv"
    ):
        plan_round(by(urgency), round_view(2, worklist=[1, 0]), 1)


# -- placements ----------------------------------------------------------------------------------------------------


def test_round_robin_deals() -> None:
    """In turn; those without a place are passed over."""
    view = round_view(6, limit=[1, 0, 4, 1, 1, 1])
    assert [list(mine) for mine in RoundRobinPlacement().assign(view, 2)] == [[0, 3, 5], [2, 4]]


def test_flows_stay_together() -> None:
    """Each on one thread, in turn by their first operator."""
    view = round_view(6, flow=["x", "y", "x", "z", "y", "z"])
    assert [list(mine) for mine in FlowPlacement().assign(view, 2)] == [[0, 2, 3, 5], [1, 4]]


def test_random_is_seeded_even_and_new_each_round() -> None:
    """The same round by the same seed; to every thread as many; over rounds everyone meets every thread alike."""
    view = round_view(12)

    def threads(seed: int, step: int) -> list[list[int]]:
        at = dataclasses.replace(view, now_ns=view.now_ns + step)
        return [list(mine) for mine in RandomPlacement(seed=seed).assign(at, 3)]

    assert threads(1, 0) == threads(1, 0)
    assert threads(1, 0) != threads(2, 0)
    assert threads(1, 0) != threads(1, 1)
    rounds = [threads(5, step) for step in range(300)]
    assert all(len(mine) == 4 for lists in rounds for mine in lists)
    first = Counter(next(t for t, mine in enumerate(lists) if 0 in mine) for lists in rounds)
    assert all(70 < first[thread] < 130 for thread in range(3))


@st.composite
def crowds(draw: st.DrawFn) -> RoundView:
    """Many operators with work, limits and late workers."""
    n = draw(st.integers(0, 12))

    def column(element: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(element, min_size=n, max_size=n))

    return round_view(
        n,
        [(i, i + 1) for i in range(n - 1) if draw(st.booleans())],
        worklist=column(st.integers(0, 10**6)),
        cost_ns=column(st.floats(10, 1e9)),
        selectivity=column(st.floats(1e-6, 1e3)),
        limit=column(st.integers(0, 9)),
        workers=column(st.integers(0, 2)),
        flow=column(st.sampled_from("xyz")),
    )


@pytest.mark.parametrize(
    "placement",
    [
        Balanced(),
        Balanced(shares_at_most=1),
        RoundRobinPlacement(),
        RandomPlacement(),
        FlowPlacement(),
    ],
    ids=repr,
)
@exact
@given(view=crowds(), threads=st.integers(1, 9))
def test_every_share_is_placed_once(placement: Placement, view: RoundView, threads: int) -> None:
    """On different threads, as many as there are places, or one; the plan of the round accepts it."""
    shares = placement.shares(view, threads)
    for operator, count in zip(view.operators, shares, strict=True):
        assert min(operator.places, 1) <= count <= min(operator.places, threads)
    lists = plan_round(FirstComeFirstServed(placement=placement), view, threads).lists
    assert Counter(i for mine in lists for i in mine) == +Counter(dict(enumerate(shares)))


@exact
@given(view=crowds(), threads=st.integers(1, 9))
def test_no_thread_has_much_more_than_its_part(view: RoundView, threads: int) -> None:
    """Longest processing time first: the fullest thread has at most the mean and one share."""
    placement = Balanced()
    shares = placement.shares(view, threads)
    work, tuples = [0.0] * len(shares), [0.0] * len(shares)
    for i, operator in enumerate(view.operators):
        arriving = [view.operators[f].selectivity * tuples[f] for f in view.feeders[i]]
        tuples[i] = operator.worklist + (sum(arriving) if arriving else 1.0)
        work[i] = tuples[i] * operator.cost_ns / shares[i] if shares[i] else 0.0
    loads = [sum(work[i] for i in mine) for mine in placement.assign(view, threads)]
    total = sum(share * count for share, count in zip(work, shares, strict=True))
    assert max(loads) <= (total / threads + max(work, default=0.0)) * (1 + 1e-9)
