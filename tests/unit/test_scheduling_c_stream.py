"""C-Stream's plug-ins: each against tables by hand, and against its definition on any view."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from pick_kit import picked, view_of, views
from tests.sizes import sized

from thalweg import scheduling
from thalweg.scheduling import FlowView

exact = settings(deadline=None, derandomize=True, database=None, max_examples=sized(300))
SOURCE = 3
# b joins what a and a second input give it; c reads b.
PORTS: dict[str, Any] = {"operator": [1, 2, 2, 3], "writer": [0, 1, 0, 2], "target": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("length", "runnable", "expected"),
    [
        ([5, 3, 9, 7], [0, 1, 1, 1], 2),
        ([5, 3, 3, 7], [0, 1, 1, 1], 3),  # 6 at both ports of b do not count together
        ([5, 3, 9, 7], [0, 1, 0, 1], 3),
        ([7, 7, 0, 7], [0, 1, 1, 1], 1),
        ([0, 0, 0, 0], [0, 0, 1, 1], 2),
    ],
)
def test_max_queue_length(length: list[int], runnable: list[int], expected: int) -> None:
    """The longest queue of a port, not of an operator."""
    ports = PORTS | {"length": length}
    assert picked(scheduling.MaxQueueLength(), runnable=runnable, ports=ports) == expected


def test_a_source_that_can_run_comes_first() -> None:
    """The exception of 3.2.6, wherever the source stands; one in a thread of its own is not there to be run."""
    ports = PORTS | {"length": [5, 3, 9, 7]}
    policy = scheduling.MaxQueueLength()
    assert picked(policy, runnable=[1, 1, 1, 1], kind=[SOURCE, 0, 0, 0], ports=ports) == 0
    assert picked(policy, runnable=[0, 1, 1, 1], kind=[SOURCE, 0, 0, SOURCE], ports=ports) == 3
    assert picked(policy, runnable=[0, 1, 1, 0], kind=[SOURCE, 0, 0, SOURCE], ports=ports) == 2


@pytest.mark.parametrize(
    ("head", "kind", "runnable", "expected"),
    [
        ([0, 30, 20, 10], [SOURCE, 0, 0, 0], [0, 1, 1, 1], 3),
        ([0, 30, 20, 10], [SOURCE, 0, 0, 0], [0, 1, 1, 0], 2),
        ([0, 20, 20, 30], [SOURCE, 0, 0, 0], [0, 1, 1, 1], 1),
        ([0, 30, 20, 10], [SOURCE, 0, 0, 0], [1, 1, 1, 1], 0),  # it last ran at 5
        ([0, 30, 20, 4], [SOURCE, 0, 0, 0], [1, 1, 1, 1], 3),
        ([0, 30, 20, 4], [SOURCE, 0, 0, SOURCE], [0, 1, 1, 1], 2),  # a source that ran at 25
    ],
)
def test_min_latency(head: list[int], kind: list[int], runnable: list[int], expected: int) -> None:
    """The earliest front tuple; of a source the last run counts."""
    columns = {"head_ns": head, "kind": kind, "runnable": runnable, "last_run_ns": [5, 1, 1, 25]}
    assert picked(scheduling.MinLatency(), **columns) == expected


def test_least_recently_run() -> None:
    """The one that has been out for longest, sources among them."""
    columns = {"last_run_ns": [9, 30, 10, 20], "runnable": [0, 1, 1, 1]}
    assert picked(scheduling.LeastRecentlyRun(), **columns) == 2
    assert picked(scheduling.LeastRecentlyRun(), **columns | {"runnable": [1, 1, 1, 1]}) == 0


@pytest.mark.parametrize(
    ("length", "conjunctive", "expected"),
    [
        # read: a 400 at 100/s, b 300 at 100/s and 90 at 10/s, c 500 at 1000/s
        # write: a up to 1000 - 300 at 200/s, b up to 1000 - 500 at 50/s
        # a: min(4, 3.5); b: min(3, 9, 10); c: 0.5
        ([400, 300, 90, 500], 1.0, 1),
        # b waits for any of its ports: min(max(3, 9), 10)
        ([400, 300, 90, 500], 0.5, 2),
        # b's reader is full: min(3, 9, 0)
        ([400, 300, 90, 1_000], 0.0, 1),
        # a's reader is: min(4, 0); b: min(10, 9, 0), c: 1
        ([400, 1_000, 90, 1_000], 1.0, 3),
        # more than fits, as outputs of one tuple go together: still no room
        ([400, 1_007, 90, 1_003], 1.0, 3),
    ],
)
def test_max_running_time(length: list[int], conjunctive: float, expected: int) -> None:
    """The least of all tuples over rates, in and out; the most of inputs where any will do."""
    ports = PORTS | {
        "length": length,
        "reads": [100, 100, 10, 1_000],
        "writes": [0, 200, 0, 50],
        "conjunctive": [1, 1, conjunctive, 1],
    }
    policy = scheduling.MaxRunningTime()
    assert picked(policy, runnable=[0, 1, 1, 1], ports=ports) == expected


def test_what_never_reads_or_writes_has_no_limit() -> None:
    """A port that is not read from, and an edge along which nothing goes, keep nobody from running."""
    ports = PORTS | {
        "length": [400, 300, 0, 500],
        "reads": [100, 100, 0, 1_000],
        "writes": [0, 1e-9, 0, 0],
    }
    assert picked(scheduling.MaxRunningTime(), runnable=[0, 1, 1, 1], ports=ports) == 1
    ports["length"] = [200, 300, 0, 500]
    assert picked(scheduling.MaxRunningTime(), runnable=[0, 1, 1, 1], ports=ports) == 2


@exact
@given(view=views())
def test_plug_ins_are_the_papers_definitions(view: FlowView) -> None:
    """Each is the best of the operators that can run by its own measure, of equals the first."""
    can_run = np.flatnonzero(view.runnable).tolist()
    ports = view.ports

    def longest(i: int) -> int:
        return max(ports.length[ports.operator == i].tolist(), default=-1)

    def running(i: int) -> float:
        mine = (ports.operator == i) & (ports.reads > 0)
        reading = (ports.length[mine] / ports.reads[mine]).tolist()
        best = min if ports.conjunctive[i] > 0.5 else max
        until_read = best(reading, default=math.inf if best is min else 0.0)
        edges = (ports.writer == i) & (ports.writes > 0)
        room = np.maximum(ports.capacity - ports.length, 0)[ports.target[edges]]
        return float(min([until_read, *(room / ports.writes[edges]).tolist()]))

    expected: dict[scheduling.PickPolicy, int] = {
        scheduling.MaxQueueLength(): max(can_run, key=longest, default=-1),
        scheduling.MinLatency(): min(can_run, key=lambda i: view.head_ns[i], default=-1),
        scheduling.LeastRecentlyRun(): min(can_run, key=lambda i: view.last_run_ns[i], default=-1),
        scheduling.MaxRunningTime(): max(can_run, key=running, default=-1),
    }
    for policy, operator in expected.items():
        assert policy.pick_function()(view, 0) == operator, policy


@pytest.mark.parametrize(
    ("ran_ns", "expected"), [(0, False), (999, False), (1_000, True), (5_000, True)]
)
def test_preemption_by_quantum(ran_ns: int, expected: bool) -> None:
    """An operator gives way when its quantum is used up, 50 ms unless said otherwise."""
    view = view_of(now_ns=[10**15], kind=[SOURCE, 0])
    assert scheduling.MinLatency(slice_ns=1_000).preempt(view, 1, 10**15 - ran_ns) is expected
    assert not scheduling.MinLatency().preempt(view, 1, 10**15 - 49_999_999)
    assert scheduling.MinLatency().preempt(view, 1, 10**15 - 50_000_000)
