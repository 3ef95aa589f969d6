"""Policies that pick: each formula against tables worked by hand, and against its definition on any view."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from pick_kit import picked, view_of, views
from tests.sizes import sized

from thalweg import scheduling
from thalweg.errors import BuildError
from thalweg.scheduling import FlowView, PortView
from thalweg.scheduling.policy import INGRESS
from thalweg.workers.memory import layout

# -- queue-size-throttling ---------------------------------------------------------------------------------------

# A map, a filter and a filter: cs = 1, 1/2, 1/4, so with C = 100 T = 57.1, 28.6, 14.3.
CHAIN = {"cumulative_in": [1, 1, 1, 0.5], "cumulative_out": [1, 1, 0.5, 0.25]}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([0, 57, 0, 0], 1),
        ([0, 58, 28, 0], 2),
        ([0, 58, 29, 14], 3),
        ([0, 58, 29, 15], 3),
        ([0, 0, 29, 15], 1),
    ],
)
def test_qst_takes_the_earliest_below_its_threshold(output: list[int], expected: int) -> None:
    """T_i = C·cs_i / Σ cs over the operators, not the ingress; with none below, the last."""
    policy = scheduling.QueueSizeThrottling(capacity=100)
    assert picked(policy, output=output, **CHAIN) == expected


def test_qst_stops_at_the_threshold() -> None:
    """With C = 175 T = 100, 50, 25: an operator that has put out as much is not below."""
    policy = scheduling.QueueSizeThrottling(capacity=175)
    assert picked(policy, output=[0, 100, 49, 0], **CHAIN) == 2
    assert picked(policy, output=[0, 99, 49, 0], **CHAIN) == 1


def test_qst_counts_the_egress_as_below() -> None:
    """An operator that nobody reads has no queue to fill, also where nothing is expected to reach it."""
    policy = scheduling.QueueSizeThrottling(capacity=1)
    assert picked(policy, output=[0, -1, 99, 99]) == 1
    assert picked(policy, output=[0, 99, -1], cumulative_out=[1, 1, 0]) == 2


def test_qst_leaves_those_that_cannot_run() -> None:
    """What is below its threshold but cannot run is passed over, and so it is when all are above."""
    policy = scheduling.QueueSizeThrottling(capacity=100)
    assert picked(policy, output=[0, 0, 0, 0], runnable=[0, 0, 1, 1], **CHAIN) == 2
    assert picked(policy, output=[0, 99, 99, 99], runnable=[0, 1, 1, 0], **CHAIN) == 2


def test_qst_goes_by_rank() -> None:
    """The earliest is the one of least rank; of equal ranks, of least index."""
    policy = scheduling.QueueSizeThrottling()
    assert picked(policy, output=[0, 0, 0, 0], rank=[0, 2, 1, 1]) == 2


# -- last-in-pipeline --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runnable", "rank", "expected"),
    [
        ([0, 1, 1, 1], [0, 1, 2, 3], 3),
        ([0, 1, 1, 0], [0, 1, 2, 3], 2),
        ([0, 1, 0, 0], [0, 1, 2, 3], 1),
        ([0, 1, 1, 1], [0, 3, 2, 1], 1),
        ([0, 1, 1, 1], [0, 1, 1, 1], 3),
    ],
)
def test_lp_takes_the_last(runnable: list[int], rank: list[int], expected: int) -> None:
    """The latest that can run."""
    assert picked(scheduling.LastInPipeline(), runnable=runnable, rank=rank) == expected


# -- estimated time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worklist", "workers", "expected"),
    [
        # p = I·c / (w + 1), with c = 100, 200, 400
        ([0, 50, 20, 11], [0, 0, 0, 0], 1),  # 5000, 4000, 4400
        ([0, 50, 20, 11], [0, 1, 0, 0], 3),  # 2500, 4000, 4400
        ([0, 50, 20, 11], [0, 1, 0, 1], 2),  # 2500, 4000, 2200
        ([0, 40, 20, 10], [0, 0, 0, 0], 1),  # equal
        ([0, 50, 90, 11], [0, 0, 8, 0], 1),  # 5000, 0 at the limit, 4400
    ],
)
def test_et_takes_the_longest(worklist: list[int], workers: list[int], expected: int) -> None:
    """The worklist that takes longest with one more worker."""
    columns = {"worklist": worklist, "workers": workers, "cost_ns": [10, 100, 200, 400]}
    assert picked(scheduling.EstimatedTime(), **columns) == expected


# -- current throughput ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "workers", "expected"),
    [
        # n = (T + w·s) / (c·cs), with s = 1000, c = 100, 400, 200 and cs = 1, 1, 1/2, so c·cs = 100, 400, 100
        ([0, 900, 4_000, 950], [0, 0, 0, 0], 1),  # 9, 10, 9.5
        ([0, 900, 4_000, 950], [0, 1, 0, 0], 3),  # 19, 10, 9.5
        ([0, 900, 4_000, 950], [0, 1, 0, 2], 2),  # 19, 10, 29.5
        ([0, 0, 0, 0], [0, 0, 0, 0], 1),
    ],
)
def test_ct_takes_the_lowest(window: list[int], workers: list[int], expected: int) -> None:
    """Effective tuples of the source in the window: worker time had and allotted over the time each one needs."""
    policy = scheduling.CurrentThroughput(slice_ns=1_000)
    columns = {"window_ns": window, "workers": workers, "cost_ns": [10, 100, 400, 200]}
    assert picked(policy, **columns, **CHAIN) == expected


def test_ct_normalizes_by_what_reaches_an_operator() -> None:
    """A filter of 1 in 10 and its reader that are equally far on (100 tuples of the source) are equal by the
    selectivity before them; by eq. 3 as printed the filter is taken to be ten times further on."""
    columns = {
        "cost_ns": [10, 100, 100],
        "cumulative_in": [1, 1, 0.1],
        "cumulative_out": [1, 0.1, 0.1],
        "window_ns": [0, 100 * 100, 10 * 100],
    }
    assert picked(scheduling.CurrentThroughput(), **columns) == 1
    assert picked(scheduling.CurrentThroughput(normalize="output"), **columns) == 2
    columns["window_ns"] = [0, 100 * 100 + 1, 10 * 100]
    assert picked(scheduling.CurrentThroughput(), **columns) == 2


def test_ct_takes_what_nothing_reaches_last() -> None:
    """An operator that no tuple of the source is expected to reach is behind nobody, but is run if it can be."""
    policy = scheduling.CurrentThroughput()
    assert picked(policy, window_ns=[0, 0, 9], cumulative_in=[1, 0, 1]) == 2
    assert picked(policy, window_ns=[0, 0, 9], cumulative_in=[1, 0, 1], runnable=[0, 1, 0]) == 1


def test_ct_makes_all_advance_together() -> None:
    """Run slice by slice, operators of unequal cost and selectivity end the window with the same n."""
    costs, reached = np.array([10, 100, 700, 50]), np.array([1, 1, 0.5, 3])
    window, pick = (
        np.zeros(4),
        scheduling.CurrentThroughput(slice_ns=1_000).pick_function(),
    )
    for _ in range(5_000):
        columns = {"window_ns": window, "cost_ns": costs, "cumulative_in": reached}
        window[pick(view_of(**columns), 0)] += 1_000
    tuples = (window / (costs * reached))[1:]
    assert tuples.max() - tuples.min() <= 1_000 / (costs * reached)[1:].min()


# -- free list, round robin, random ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last_run", "runnable", "expected"),
    [
        ([0, 30, 10, 20], [0, 1, 1, 1], 2),
        ([0, 30, 10, 20], [0, 1, 0, 1], 3),
        ([0, 10, 10, 20], [0, 1, 1, 1], 1),
    ],
)
def test_free_list_takes_the_least_recently_run(
    last_run: list[int], runnable: list[int], expected: int
) -> None:
    """The one that has waited longest for its turn."""
    assert picked(scheduling.FreeList(), last_run_ns=last_run, runnable=runnable) == expected


def test_free_list_asks_for_the_hosts_own() -> None:
    """A host that has the list itself can tell, and the mark is no parameter."""
    assert scheduling.FreeList().native == "free_list"
    assert [field.name for field in dataclasses.fields(scheduling.FreeList)] == [
        "slice_ns",
        "window_ns",
    ]


@pytest.mark.parametrize(
    ("last_run", "runnable", "expected"),
    [
        ([0, 0, 0, 0], [0, 1, 1, 1], 1),
        ([0, 1, 0, 0], [0, 1, 1, 1], 2),
        ([0, 1, 2, 0], [0, 1, 1, 0], 1),
        ([0, 1, 2, 3], [0, 0, 1, 1], 2),
        ([0, 1, 2, 3], [0, 0, 0, 1], 3),
    ],
)
def test_round_robin_goes_on_behind_the_last(
    last_run: list[int], runnable: list[int], expected: int
) -> None:
    """In the order of the flow, around its end, past those that cannot run."""
    assert picked(scheduling.RoundRobin(), last_run_ns=last_run, runnable=runnable) == expected


def test_random_is_even_and_seeded() -> None:
    """Each operator that can run is as likely as the others, whatever else; seeds and workers differ."""

    def sequence(seed: int, worker: int, start: int) -> list[int]:
        pick = scheduling.Random(seed=seed).pick_function()
        return [
            pick(view_of(runnable=[0, 1, 0, 1, 1], now_ns=[start + 977 * step]), worker)
            for step in range(600)
        ]

    first = sequence(1, 0, 10**15)
    assert first == sequence(1, 0, 10**15)
    others = [sequence(2, 0, 10**15), sequence(1, 1, 10**15), sequence(1, 0, 10**15 + 2**40)]
    for other in others:
        assert 100 < sum(a == b for a, b in zip(first, other, strict=True)) < 300
    for choices in [first, *others]:
        counts = Counter(choices)
        assert set(counts) == {1, 3, 4}
        assert all(150 < count < 250 for count in counts.values())


# -- definitions, parameters, names --------------------------------------------------------------------------------


@settings(deadline=None, derandomize=True, database=None, max_examples=sized(300))
@given(view=views())
def test_picks_are_the_papers_definitions(view: FlowView) -> None:
    """Each heuristic is the best of the operators that can run by its own measure, of equals the first."""
    can_run = np.flatnonzero(view.runnable).tolist()
    total = view.cumulative_out[1:].sum()

    def below(i: int) -> bool:
        return bool(view.output[i] * total < 100 * view.cumulative_out[i])

    def worker_time(i: int) -> float:
        needed = view.cost_ns[i] * view.cumulative_in[i]
        had = view.window_ns[i] + view.workers[i] * 1_000
        return float(had / needed) if needed else math.inf

    def longest(i: int) -> float:
        if view.workers[i] >= view.limit[i]:
            return 0.0
        return float(view.worklist[i] * view.cost_ns[i] / (view.workers[i] + 1))

    last = max(can_run, key=lambda i: (view.rank[i], i), default=-1)
    expected = {
        scheduling.QueueSizeThrottling(capacity=100): min(
            filter(below, can_run), key=lambda i: view.rank[i], default=last
        ),
        scheduling.LastInPipeline(): last,
        scheduling.EstimatedTime(): max(can_run, key=longest, default=-1),
        scheduling.CurrentThroughput(slice_ns=1_000): min(can_run, key=worker_time, default=-1),
        scheduling.FreeList(): min(can_run, key=lambda i: view.last_run_ns[i], default=-1),
    }
    for policy, operator in expected.items():
        assert policy.pick_function()(view, 0) == operator, policy


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scheduling.LastInPipeline(slice_ns=0), "slice_ns must be an int of at least 1"),
        (lambda: scheduling.FreeList(window_ns=1.5), "FreeList: window_ns .* not 1.5"),
        (lambda: scheduling.QueueSizeThrottling(capacity=0), "capacity .* at least 1, not 0"),
        (lambda: scheduling.QueueSizeThrottling(slice_ns=-1), "slice_ns .* not -1"),
        (lambda: scheduling.CurrentThroughput(window_ns=True), "window_ns .* not True"),
        (lambda: scheduling.CurrentThroughput(normalize="own"), "'input' or 'output', not 'own'"),
        (lambda: scheduling.Random(seed=-1), "seed .* at least 0, not -1"),
        (lambda: scheduling.Random(slice_ns="1 ms"), "slice_ns .* not '1 ms'"),
    ],
)
def test_parameters_are_checked(make: Callable[[], object], message: str) -> None:
    """A wrong parameter is refused when the policy is made, by name."""
    with pytest.raises(BuildError, match=message):
        make()


def test_names() -> None:
    """The package's names are sorted, and there."""
    assert sorted(scheduling.__all__) == scheduling.__all__
    assert all(hasattr(scheduling, name) for name in scheduling.__all__)


def test_the_view_is_the_engines() -> None:
    """The engine's view has as many columns, then the time, then the ports, with as many and one an operator."""
    assert len(FlowView._fields) == layout.VIEW_FIELDS + 2
    assert FlowView._fields[-2:] == ("now_ns", "ports")
    assert len(PortView._fields) == layout.PORT_FIELDS + 1
    assert PortView._fields[-1] == "conjunctive"
    assert layout.INGRESS == INGRESS


def test_views_know_their_old_names() -> None:
    """The names of 0.1 give the same columns and warn."""
    view = view_of(cost_ns=[10.0, 20.0], priority_class=[0, 2])
    with pytest.warns(DeprecationWarning, match=r"FlowView\.cost is FlowView\.cost_ns now"):
        assert view.cost is view.cost_ns
    with pytest.warns(DeprecationWarning, match=r"FlowView\.priority_class now"):
        assert view.priority is view.priority_class
