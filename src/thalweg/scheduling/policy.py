"""What a policy may see of a running flow, and what it is asked: which operator a worker should run next.

A policy is a frozen record of its parameters. Its ``pick_function()`` gives a plain function over arrays, which
the node runtime compiles and calls at each visit of a worker, and which a simulator or a test calls as it is.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from thalweg.checks import require_int
from thalweg.renamed import warn_renamed

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

#: The kind of a source, in ``FlowView.kind`` and ``OperatorStats.kind``.
INGRESS: Final = 3
#: The fields of views that hold float64.
FLOATS: Final = frozenset(
    {
        "cost_ns", "selectivity", "cumulative_in", "cumulative_out", "window_ns",
        "reads", "writes", "conjunctive",
    }
)  # fmt: skip
#: The time slice s. Prasaad et al. keep it constant and name no value; at 1 ms a pick (microseconds) costs little
#: and a decision is not old for long.
SLICE_NS: Final = 1_000_000
#: The window w, of which they say only that it must not be too low: a hundred slices.
WINDOW_NS: Final = 100_000_000


class PortView(NamedTuple):
    """The queues of a flow, for policies that tell an operator's inputs and outputs apart (Sahin & Gedik, 3.2.6).

    Three groups of arrays: an entry an input port, ports of an operator in a row; an entry an edge, which leads from
    a writer to a port; an entry an operator. The tuples of sizes are estimates where queues hold chunks.

    Attributes:
        operator: whose input port it is.
        length: tuples that wait in it.
        capacity: tuples that it may hold.
        head_ns: clock time of the oldest of them, monotonic ns; now where none waits.
        enqueued_ns: when those that wait came into it, on average, monotonic ns; now where none waits.
        reads: tuples a second that its operator takes from it while it runs.
        writer: the operator that writes along an edge.
        target: the port that it leads to.
        writes: tuples a second that the writer sends along it while it runs.
        conjunctive: the share of an operator's waits that are for all of its ports, not for any of them.
    """

    operator: Int64s
    length: Int64s
    capacity: Int64s
    head_ns: Int64s
    enqueued_ns: Int64s
    reads: Float64s
    writer: Int64s
    target: Int64s
    writes: Float64s
    conjunctive: Float64s


class FlowView(NamedTuple):
    """A flow at one moment: an array per measure, indexed by operator in topological order; 0 is the ingress.

    Attributes:
        kind: 0 stateless, 1 keyed, 2 stateful, 3 the ingress, which never runs.
        rank: topological rank.
        worklist: tuples that wait in its inbox.
        output: tuples that wait in the worklist that it feeds, the largest of several; -1 at the egress.
        cost_ns: CPU time a tuple, ns, at least 10.
        selectivity: tuples out a tuple in.
        cumulative_in: tuples that reach it for one tuple of the source, summed over paths.
        cumulative_out: tuples that it puts out for one tuple of the source.
        workers: how many work on it now.
        limit: how many may (the paper's M).
        window_ns: worker time that it had in the current window, ns.
        last_run_ns: when it last ran, monotonic ns.
        head_ns: when the source handed over its oldest waiting tuple, monotonic ns.
        priority_class: 0 is the most urgent.
        runnable: 1 when input is there, every output has room, and workers < limit.
        now_ns: the time, int64[1].
        ports: the queues one by one.
    """

    kind: Int64s
    rank: Int64s
    worklist: Int64s
    output: Int64s
    cost_ns: Float64s
    selectivity: Float64s
    cumulative_in: Float64s
    cumulative_out: Float64s
    workers: Int64s
    limit: Int64s
    window_ns: Float64s
    last_run_ns: Int64s
    head_ns: Int64s
    priority_class: Int64s
    runnable: Int64s
    now_ns: Int64s
    ports: PortView

    @property
    def cost(self) -> Float64s:
        """The name of ``cost_ns`` in 0.1."""
        warn_renamed("FlowView.cost", "FlowView.cost_ns")
        return self.cost_ns

    @property
    def priority(self) -> Int64s:
        """The name of ``priority_class`` in 0.1."""
        warn_renamed("FlowView.priority", "FlowView.priority_class")
        return self.priority_class


#: ``(view, worker) -> operator``, a runnable one, or -1 where none is. It neither writes to the view nor keeps
#: anything between calls. Numba compiles it where it can: a function of a module, or a closure over numbers, that
#: loops over arrays and calls no other Python function.
Pick = Callable[[FlowView, int], int]
#: ``(view, operator, since when it runs, monotonic ns) -> whether it must let others run``.
Preempt = Callable[[FlowView, int, int], bool]


class PickLike(Protocol):
    """The protocol of policies that a host asks at each visit."""

    @property
    def slice_ns(self) -> int: ...

    @property
    def window_ns(self) -> int: ...

    def pick_function(self) -> Pick: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class PickPolicy(abc.ABC):
    """A policy that picks an operator at each visit; a visit lasts a time slice, or until the input is empty.

    A host needs no more of a policy than these two numbers and the function, so a user's own may be any class that has
    them.

    Attributes:
        slice_ns: the time slice, ns (the paper's s; Prasaad et al., section 6).
        window_ns: over what time the worker time of an operator is added up, ns (the paper's w; section 6.4).

    Raises:
        BuildError: a parameter makes no sense.
    """

    slice_ns: int = SLICE_NS
    window_ns: int = WINDOW_NS

    def __post_init__(self) -> None:
        require_int(self, 1, slice_ns=self.slice_ns, window_ns=self.window_ns)

    @abc.abstractmethod
    def pick_function(self) -> Pick:
        """The function that picks the next operator."""

    def preempt(self, view: FlowView, operator: int, began_ns: int) -> bool:
        """Whether an operator must yield; by default when its time slice is over (Sahin & Gedik, 3.2.4: the quantum).

        Hosts keep the time slice without asking. A policy that overrides this is asked in its place: by the simulator
        where the operator waits for its next tuple, by the engine where it waits for its next chunk. Chunks take 2 ms
        at most by default. The method changes nothing that another call could see.

        Args:
            view: the flow now.
            operator: the one that runs.
            began_ns: since when, monotonic ns.
        """
        return bool(view.now_ns[0] - began_ns >= self.slice_ns)


def own_preempt(policy: object) -> Preempt | None:
    """How a policy preempts if it is not by its time slice."""
    found: Preempt | None = getattr(policy, "preempt", None)
    by_slice = getattr(type(policy), "preempt", None) is PickPolicy.preempt
    return None if by_slice else found
