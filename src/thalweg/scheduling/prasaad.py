"""The four heuristics of Prasaad et al., *Scaling Ordered Stream Processing on Shared-Memory Multicores*, section 6.

Two push or pull tuples through the pipeline (QST, LP), two go by a priority (ET, CT). They choose among the operators
that can run, as the paper does; of equals the earliest in the flow is taken. Sizes count tuples.

Each pick is one closure over numbers, formulas written out in it: that is what Numba compiles.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final, Literal

from thalweg.checks import require_int
from thalweg.errors import BuildError
from thalweg.scheduling.policy import FlowView, Pick, PickPolicy

#: Tuples that a flow may hold in its worklists under QST. The paper names no value; chunks of some thousand tuples
#: need room for several, or each one that is put out goes past a threshold.
CAPACITY: Final = 100_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueSizeThrottling(PickPolicy):
    """QST: the earliest operator whose successors have too little input (section 6.1, eq. 1).

    An operator's output queue is bounded by T_i = C·cs_i / Σ cs, where cs is the cumulative selectivity with the
    operator's own. An operator at the egress is below its bound always. Where all are above theirs, the last one
    that can run is taken; the paper is silent there.

    Attributes:
        capacity: the paper's C, tuples.
    """

    capacity: int = CAPACITY

    def __post_init__(self) -> None:
        PickPolicy.__post_init__(self)
        require_int(self, 1, capacity=self.capacity)

    def pick_function(self) -> Pick:
        capacity = self.capacity

        def queue_size_throttling(view: FlowView, worker: int) -> int:
            total = 0.0
            for i in range(1, len(view.kind)):
                total += view.cumulative_out[i]
            earliest, last = -1, -1
            for i in range(1, len(view.kind)):
                if view.runnable[i] == 0:
                    continue
                if last < 0 or view.rank[i] >= view.rank[last]:
                    last = i
                # output < T_i, without a division; -1 at the egress is below any.
                below = view.output[i] * total < capacity * view.cumulative_out[i]
                if below and (earliest < 0 or view.rank[i] < view.rank[earliest]):
                    earliest = i
            return earliest if earliest >= 0 else last

        return queue_size_throttling


@dataclasses.dataclass(frozen=True, kw_only=True)
class LastInPipeline(PickPolicy):
    """LP: the latest operator that can run (section 6.2). The lowest latency in the paper's measurements."""

    def pick_function(self) -> Pick:
        def last_in_pipeline(view: FlowView, worker: int) -> int:
            last = -1
            for i in range(1, len(view.kind)):
                if view.runnable[i] != 0 and (last < 0 or view.rank[i] >= view.rank[last]):
                    last = i
            return last

        return last_in_pipeline


@dataclasses.dataclass(frozen=True, kw_only=True)
class EstimatedTime(PickPolicy):
    """ET: the operator whose worklist would take longest, with one more worker on it (section 6.3, eq. 2).

    p_i = I_i·c_i / (w_i + 1), and 0 at the limit of workers; the highest is taken.
    """

    def pick_function(self) -> Pick:
        def estimated_time(view: FlowView, worker: int) -> int:
            best, highest = -1, 0.0
            for i in range(1, len(view.kind)):
                if view.runnable[i] == 0:
                    continue
                priority = 0.0
                if view.workers[i] < view.limit[i]:
                    priority = view.worklist[i] * view.cost_ns[i] / (view.workers[i] + 1)
                if best < 0 or priority > highest:
                    best, highest = i, priority
            return best

        return estimated_time


@dataclasses.dataclass(frozen=True, kw_only=True)
class CurrentThroughput(PickPolicy):
    """CT: the operator that is furthest behind in the current window (section 6.4, eq. 3).

    n_i = (T_i + w_i·s) / (c_i·cs_i), where T_i is the worker time that it had in the window and w_i·s what it is
    about to get: the tuples of the source that it has kept up with. The lowest is taken, so all operators advance
    together. The highest throughput in the paper's measurements.

    Attributes:
        normalize: by which cumulative selectivity. ``input`` leaves the operator's own out: only then are operators
            that keep up with each other equal, which is the aim that the paper states. ``output`` is eq. 3 as
            printed, with the cs of eq. 1, which takes a filter to be further on than it is.
    """

    normalize: Literal["input", "output"] = "input"

    def __post_init__(self) -> None:
        PickPolicy.__post_init__(self)
        if self.normalize not in ("input", "output"):
            raise BuildError(
                f"CurrentThroughput: normalize must be 'input' or 'output', not {self.normalize!r}"
            )

    def pick_function(self) -> Pick:
        slice_ns, by_output = self.slice_ns, self.normalize == "output"

        def current_throughput(view: FlowView, worker: int) -> int:
            cumulative = view.cumulative_out if by_output else view.cumulative_in
            best, lowest = -1, math.inf
            for i in range(1, len(view.kind)):
                if view.runnable[i] == 0:
                    continue
                needed = view.cost_ns[i] * cumulative[i]
                given = view.window_ns[i] + view.workers[i] * slice_ns
                # What no tuple of the source reaches cannot fall behind.
                tuples = given / needed if needed > 0 else math.inf
                if best < 0 or tuples < lowest:
                    best, lowest = i, tuples
            return best

        return current_throughput
