"""The four heuristics of Prasaad et al. (section 6): which operator a worker goes to, for one time slice.

Each is a frozen object with its parameters; :meth:`pick_function` gives a plain function of a
:class:`~thalweg.scheduling.policy.FlowView` that the engine compiles. Only runnable operators are chosen; -1 means
that there is none. Ties go to the earlier operator.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from thalweg.scheduling.policy import Pick, PickPolicy


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSizeThrottling(PickPolicy):
    """QST: the earliest operator whose output queue is below its threshold; pushes tuples from the ingress.

    The threshold of operator i is ``T_i = C * cs_i / sum(cs)`` tuples (eq. 1), with ``cs_i`` the tuples that it
    puts out for one tuple of the source. An operator at the egress counts as below; when none is below, the last
    runnable one is chosen.

    Args:
        capacity: C, tuples in the whole flow.
    """

    capacity: float = 100_000.0

    def __post_init__(self) -> None:
        self.check()
        if self.capacity <= 0:
            raise ValueError(f"capacity: expected a number above 0, got {self.capacity}")

    def pick_function(self) -> Pick:
        capacity = float(self.capacity)

        def queue_size_throttling(view, worker):  # type: ignore[no-untyped-def]
            total = 0.0
            for op in range(1, len(view.kind)):
                total += view.cumulative_out[op]
            last = -1
            for op in range(1, len(view.kind)):
                if view.runnable[op] == 0:
                    continue
                last = op
                threshold = capacity * view.cumulative_out[op] / total if total > 0.0 else capacity
                if view.output[op] < threshold:
                    return op
            return last

        return queue_size_throttling


@dataclasses.dataclass(frozen=True, slots=True)
class LastInPipeline(PickPolicy):
    """LP: the latest operator with something in its worklist; pulls tuples from the egress."""

    def __post_init__(self) -> None:
        self.check()

    def pick_function(self) -> Pick:
        def last_in_pipeline(view, worker):  # type: ignore[no-untyped-def]
            for op in range(len(view.kind) - 1, 0, -1):
                if view.runnable[op] != 0:
                    return op
            return -1

        return last_in_pipeline


@dataclasses.dataclass(frozen=True, slots=True)
class EstimatedTime(PickPolicy):
    """ET: the operator whose worklist would take longest with one more worker, ``I * c / (w + 1)`` (eq. 2).

    An operator at its limit of workers has priority 0; it is not runnable here.
    """

    def __post_init__(self) -> None:
        self.check()

    def pick_function(self) -> Pick:
        def estimated_time(view, worker):  # type: ignore[no-untyped-def]
            best, highest = -1, -1.0
            for op in range(1, len(view.kind)):
                if view.runnable[op] == 0 or view.workers[op] >= view.limit[op]:
                    continue
                priority = view.worklist[op] * view.cost[op] / (view.workers[op] + 1)
                if priority > highest:
                    best, highest = op, priority
            return best

        return estimated_time


@dataclasses.dataclass(frozen=True, slots=True)
class CurrentThroughput(PickPolicy):
    """CT: the operator with the lowest throughput in the current window, ``(T + w * s) / (c * cs)`` (eq. 3).

    T is the worker time that the operator had in the window, w its workers now, s the time slice, c its cost a
    tuple. The throughput is normalized by ``cs``, so that operators that see more tuples count accordingly.

    Args:
        normalize: ``"input"`` takes the tuples that reach the operator for one tuple of the source: equal
            throughputs then mean that all keep up, which is the paper's stated aim. ``"output"`` takes those that
            it puts out, as eq. 3 is printed.
    """

    normalize: Literal["input", "output"] = "input"

    def __post_init__(self) -> None:
        self.check()
        if self.normalize not in ("input", "output"):
            raise ValueError(f"normalize: expected 'input' or 'output', got {self.normalize!r}")

    def pick_function(self) -> Pick:
        slice_ns = float(self.slice_ns)
        by_input = self.normalize == "input"

        def current_throughput(view, worker):  # type: ignore[no-untyped-def]
            best, lowest = -1, 0.0
            for op in range(1, len(view.kind)):
                if view.runnable[op] == 0:
                    continue
                cs = view.cumulative_in[op] if by_input else view.cumulative_out[op]
                time = view.window_ns[op] + view.workers[op] * slice_ns
                throughput = time / (view.cost[op] * max(cs, 1e-9))
                if best < 0 or throughput < lowest:
                    best, lowest = op, throughput
            return best

        return current_throughput
