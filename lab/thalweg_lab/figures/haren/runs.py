"""Runs queries side by side by ``tw.start``, and says what left them, how late, and what it cost."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

import thalweg as tw
from thalweg.embedded.flow_run import FlowRun
from thalweg.scheduling import RoundPolicy
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.rounds import RoundCosts
from thalweg_lab.figures.haren.queries import (
    ChainQuery,
    Clock,
    LeftTimes,
    Tuple,
    chain,
    ends,
    ns_a_turn,
)

#: How operators get to threads: a thread each, left to the operating system, or workers by a policy.
Way: TypeAlias = Literal["dedicated", "free list"] | RoundPolicy
Floats = npt.NDArray[np.float64]
#: Tuples that were due before this are left out: code is cold, and costs are not known yet, s.
WARM_UP_S: Final = 1.0
#: Flows have so long to get ready, s.
_READY_S: Final = 0.3
#: How often waiting tuples and memory are looked at, s.
_LOOK_S: Final = 0.2
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass(frozen=True)
class RanFlows:
    """A run of several queries.

    Attributes:
        queries: which.
        due_s: by query, when the tuples that left were due, s after the begin, without those of the warm-up.
        left_s: by query, when they left.
        given: by query, tuples that its first operator has taken.
        seconds: how long it was looked at, the warm-up left out.
        queued: tuples in inboxes and on their way to a source's turn, by look.
        memory: resident bytes at most, beyond those before flows were made.
        cores: CPU time of the process a second.
        rounds: what rounds have cost, where there were any.
    """

    queries: Sequence[ChainQuery]
    due_s: Sequence[Floats]
    left_s: Sequence[Floats]
    given: Sequence[int]
    seconds: float
    queued: Floats
    memory: float
    cores: float
    rounds: RoundCosts | None

    def latencies_ms(self, members: Sequence[int]) -> Floats:
        """Of all tuples of some queries that left."""
        parts = [1e3 * (self.left_s[q] - self.due_s[q]) for q in members]
        return np.concatenate(parts) if parts else np.zeros(0)

    def mean_ms(self, members: Sequence[int]) -> float:
        """The mean latency."""
        found = self.latencies_ms(members)
        return float(found.mean()) if len(found) else float("inf")

    def max_ms(self, members: Sequence[int]) -> float:
        """The greatest latency; a query of which nothing has left counts with all the time that there was."""
        found = [
            float((self.left_s[q] - self.due_s[q]).max()) if len(self.due_s[q]) else self.seconds
            for q in members
        ]
        return 1e3 * max(found)

    def out_per_s(self, members: Sequence[int]) -> float:
        """Tuples that left a second."""
        return sum(len(self.due_s[q]) for q in members) / self.seconds

    def in_per_s(self, members: Sequence[int]) -> float:
        """Tuples a second that first operators took: the paper's throughput, at its ingress operators."""
        return sum(self.given[q] for q in members) / self.seconds


def members(queries: Sequence[ChainQuery], priority_class: int) -> list[int]:
    """The queries of a class."""
    return [at for at, one in enumerate(queries) if one.priority_class == priority_class]


def run(
    queries: Sequence[ChainQuery],
    way: Way,
    *,
    base_ns: float,
    seconds: float,
    threads: int,
    by_batch: bool = False,
    warm_up_s: float = WARM_UP_S,
    to_the_end: bool = False,
    own_ends: bool = False,
) -> RanFlows:
    """Runs queries for so many seconds and a warm-up.

    Args:
        base_ns: what an operator of weight 1 costs a tuple, CPU ns (the paper's B).
        threads: workers, where each operator has no thread of its own.
        by_batch: whether ends handle a batch at a time.
        to_the_end: whether what is on its way at the end is waited for, and counts.
        own_ends: whether sinks have a thread each, so that no worker waits for the interpreter's lock.
    """
    whole_s = warm_up_s + seconds
    clock, lefts = Clock(), [LeftTimes() for _ in queries]
    before = _resident()
    turn_ns = ns_a_turn()
    how: dict[str, Any] = {"threads": threads, "policy": None if way == "free list" else way}
    if way == "dedicated":
        how = {
            "threading": "dedicated",
            "reserve": Reserve(operators=512, ports=1_024, own_threads=512),
        }
    with tw.start(**how) as running:
        flows = []
        for query, left in zip(queries, lefts, strict=True):
            turns = max(1, round(base_ns * query.weight / turn_ns))
            given, sink = ends(query, turns, whole_s, clock, left, by_batch=by_batch)
            flows.append(
                running.prepare(
                    chain(query.name, query.length, own_ends=own_ends), {"in": given}, {"out": sink},
                    priority_class=query.priority_class,
                )
            )  # fmt: skip
        running.begin()
        clock.begins_s = time.monotonic() + _READY_S
        clock.wait_for(warm_up_s)
        taken, cpu = [_taken(one) for one in flows], time.process_time()
        looks = _Looks(flows, until_s=clock.begins_s + whole_s)
        clock.wait_for(whole_s - 0.01)
        cores = (time.process_time() - cpu) / seconds
        given_now = [_taken(one) for one in flows]
        if to_the_end:
            for flow in flows:
                flow.result()
        noted = [list(left.noted) for left in lefts]
        looks.join()
        costs = running.round_costs
    due_s, left_s = [], []
    for one in noted:
        found = np.array(one, np.float64).reshape(-1, 2)
        found = found / 1e9 - clock.begins_s
        found = found[found[:, 1] >= warm_up_s]
        left_s.append(found[:, 0])
        due_s.append(found[:, 1])
    return RanFlows(
        queries, due_s, left_s, [now - was for now, was in zip(given_now, taken, strict=True)],
        seconds, np.array(looks.queued), max(looks.resident) - before, cores, costs,
    )  # fmt: skip


def _taken(flow: FlowRun) -> int:
    """Tuples that a query's first operator has taken."""
    return flow.progress().operators[0].rows_in


class _Looks(threading.Thread):
    """Looks now and then at tuples that wait, and at the memory of the process."""

    def __init__(self, flows: Sequence[FlowRun], *, until_s: float) -> None:
        super().__init__(daemon=True)
        self._flows, self._until_s = flows, until_s
        self.queued: list[int] = []
        self.resident: list[int] = [_resident()]
        self.start()

    def run(self) -> None:
        """Looks until it is time to stop."""
        while time.monotonic() < self._until_s - _LOOK_S:
            time.sleep(_LOOK_S)
            found = [flow.progress().operators for flow in self._flows]
            self.queued.append(sum(one.queue_rows or 0 for operators in found for one in operators))
            self.resident.append(_resident())


def _resident() -> int:
    """Bytes of memory that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def capacity(*, threads: int) -> float:
    """How many cores' worth of machine code so many workers get done now: other programs may run, too."""
    # Long beside what it takes to begin a run.
    turn_ns, rows = ns_a_turn(), [Tuple(0, 20_000, 0)] * 30_000
    flows = [chain(f"capacity{number}", 1) for number in range(threads)]
    given = {flow.name: {"in": rows[:1]} for flow in flows}
    tw.run(flows, given, threads=threads)
    began = time.monotonic_ns()
    tw.run(flows, {flow.name: {"in": rows} for flow in flows}, threads=threads)
    return threads * len(rows) * 20_000 * turn_ns / (time.monotonic_ns() - began)
