"""What a policy may see of a running flow, and what it is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class FlowView(NamedTuple):
    """A flow at one moment: an array a measure, index = operator in topological order, 0 the ingress.

    Attributes:
        kind: 0 stateless, 1 keyed, 2 stateful, 3 the ingress, which never runs.
        rank: topological rank.
        worklist: tuples that wait in its inbox.
        output: tuples that wait in the worklist that it feeds, the largest of several; -1 at the egress.
        cost: CPU time a tuple, ns, at least 10.
        selectivity: tuples out a tuple in.
        cumulative_in: tuples that reach it for one tuple of the source, summed over paths.
        cumulative_out: tuples that it puts out for one tuple of the source.
        workers: how many work on it now.
        limit: how many may (the paper's M).
        window_ns: worker time that it had in the current window, ns.
        last_run_ns: when it last ran, monotonic ns.
        head_ns: when the source handed over its oldest waiting tuple, monotonic ns.
        priority: its class.
        runnable: 1 when input is there, every output has room, and workers < limit.
        now_ns: the time, int64[1].
    """

    kind: Int64s
    rank: Int64s
    worklist: Int64s
    output: Int64s
    cost: Float64s
    selectivity: Float64s
    cumulative_in: Float64s
    cumulative_out: Float64s
    workers: Int64s
    limit: Int64s
    window_ns: Float64s
    last_run_ns: Int64s
    head_ns: Int64s
    priority: Int64s
    runnable: Int64s
    now_ns: Int64s


#: ``pick(view, worker) -> operator``, -1 for none.
Pick = Callable[[Any, int], int]


@dataclasses.dataclass(frozen=True, slots=True)
class PickPolicy:
    """A policy that is asked for an operator at each visit.

    Args:
        slice_ns: the time slice s of a visit, ns of an operator's measured cost.
        window_ns: the window over which an operator's worker time counts, ns.
    """

    slice_ns: int = 1_000_000
    window_ns: int = 100_000_000

    def check(self) -> None:
        """Refuses parameters that make no sense."""
        for name in ("slice_ns", "window_ns"):
            value = getattr(self, name)
            if value <= 0:
                raise ValueError(f"{name}: expected nanoseconds above 0, got {value}")

    def pick_function(self) -> Pick:
        """A plain function that Numba can compile and that is right as Python, too."""
        raise NotImplementedError
