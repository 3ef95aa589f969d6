"""The scheduler plug-ins of C-Stream (Sahin & Gedik, *C-Stream*, 3.2.6), asked at each visit.

All five preempt by a quantum: an operator stays until it is used up. The fifth, random scheduling, is ``Random``. Where
the paper draws among equals, the earliest in the flow is taken, so that runs can be repeated.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from thalweg.scheduling.policy import INGRESS, FlowView, Pick, PickPolicy
from thalweg.scheduling.simple import least_recently_run

#: The quantum. The paper has one and names no value: long enough that a decision costs nothing beside it.
QUANTUM_NS: Final = 50_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class CStreamPolicy(PickPolicy):
    """What C-Stream's plug-ins share.

    Attributes:
        slice_ns: the quantum, ns.
    """

    slice_ns: int = QUANTUM_NS


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxQueueLength(CStreamPolicy):
    """The operator with the longest queue at any of its input ports; a source that can run comes first."""

    def pick_function(self) -> Pick:
        def max_queue_length(view: FlowView, worker: int) -> int:
            first = -1
            for i in range(len(view.kind)):
                if view.runnable[i] != 0:
                    if view.kind[i] == INGRESS:
                        return i
                    if first < 0:
                        first = i
            best, longest = first, -1
            ports = view.ports
            for port in range(len(ports.operator)):
                i = ports.operator[port]
                if view.runnable[i] != 0 and (
                    ports.length[port] > longest or (ports.length[port] == longest and i < best)
                ):
                    best, longest = i, ports.length[port]
            return best

        return max_queue_length


@dataclasses.dataclass(frozen=True, kw_only=True)
class MinLatency(CStreamPolicy):
    """The operator with the oldest tuple at the front of any of its input ports; a source counts from its last run."""

    def pick_function(self) -> Pick:
        def min_latency(view: FlowView, worker: int) -> int:
            best, oldest = -1, 0
            for i in range(len(view.kind)):
                if view.runnable[i] == 0:
                    continue
                since = view.last_run_ns[i] if view.kind[i] == INGRESS else view.head_ns[i]
                if best < 0 or since < oldest:
                    best, oldest = i, since
            return best

        return min_latency


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeastRecentlyRun(CStreamPolicy):
    """The operator that has not run for the longest time."""

    def pick_function(self) -> Pick:
        return least_recently_run


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaxRunningTime(CStreamPolicy):
    """The operator with the longest expected running time before it must wait.

    It can read until an input port is empty, and write until a reader's port is full; each takes the tuples over the
    rate, and the least of all counts. One that mostly waits for *any* of its ports can read until all are empty, as in
    the authors' code; the paper says nothing of it.
    """

    def pick_function(self) -> Pick:
        def max_running_time(view: FlowView, worker: int) -> int:
            ports, n = view.ports, len(view.kind)
            # Until the first port is empty, until the last one is, and until a reader is full, s.
            soonest, latest, full = np.full(n, np.inf), np.zeros(n), np.full(n, np.inf)
            for port in range(len(ports.operator)):
                i = ports.operator[port]
                if ports.reads[port] > 0:
                    seconds = ports.length[port] / ports.reads[port]
                    soonest[i] = min(soonest[i], seconds)
                    latest[i] = max(latest[i], seconds)
            for edge in range(len(ports.writer)):
                i, port = ports.writer[edge], ports.target[edge]
                if ports.writes[edge] > 0:
                    room = max(ports.capacity[port] - ports.length[port], 0)
                    full[i] = min(full[i], room / ports.writes[edge])
            best, longest = -1, -1.0
            for i in range(n):
                if view.runnable[i] == 0:
                    continue
                reading = soonest[i] if ports.conjunctive[i] > 0.5 else latest[i]
                running = min(reading, full[i])
                if best < 0 or running > longest:
                    best, longest = i, running
            return best

        return max_running_time
