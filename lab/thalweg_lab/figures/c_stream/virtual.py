"""The paper's topologies on its machine, two times six cores, in virtual time: what left after the warm-up counts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from thalweg.scheduling import (
    LeastRecentlyRun,
    MaxQueueLength,
    MaxRunningTime,
    MinLatency,
    PickPolicy,
    Random,
)
from thalweg.simulate import (
    TWO_SIXES,
    Graph,
    Overhead,
    data_parallel,
    pipeline,
    reverse_tree,
    simulate,
    tree,
)
from thalweg_lab.figures.contract import Effort, Progress

#: What a value of a sweep makes of the operators.
Fields = Callable[[float], Mapping[str, Any]]

#: Busy operators take 100 µs a tuple unless something else is said (section 5.1).
COST_NS: Final = 100_000
#: What a queue holds; the paper names no number.
CAPACITY: Final = 30
#: Threads where they are not what varies.
FIXED_THREADS: Final = 4
THREADS: Final = (1, 2, 3, 4, 6, 8, 9, 10, 11, 12)
FEW_THREADS: Final = (1, 4, 12)
#: The quantum (section 5): 50 ms.
QUANTUM_NS: Final = 50_000_000
PLUG_INS: Final[dict[str, PickPolicy]] = {
    "Random": Random(slice_ns=QUANTUM_NS),
    "MaxQueue": MaxQueueLength(slice_ns=QUANTUM_NS),
    "MinLatency": MinLatency(slice_ns=QUANTUM_NS),
    "LeastRecently": LeastRecentlyRun(slice_ns=QUANTUM_NS),
    "MaxRunningTime": MaxRunningTime(slice_ns=QUANTUM_NS),
}
#: What the merge of the data-parallel topology takes for a tuple. Fitted to Figure 4(b), whose throughput turns between
#: 9 and 11 threads; the others are what shows whether it is right.
_MERGE_NS: Final = 10_500


def _data_parallel(*, width: int = 12, **fields: Any) -> Graph:
    graph = data_parallel(width, **fields)
    *inner, merge = graph.operators
    return dataclasses.replace(
        graph, operators=(*inner, dataclasses.replace(merge, cost_ns=_MERGE_NS))
    )


TOPOLOGIES: Final[dict[str, Callable[..., Graph]]] = {
    "chain": lambda **fields: pipeline(12, **fields),
    "data parallel": _data_parallel,
    "tree": lambda **fields: tree(6, 2, **fields),
    "reverse tree": lambda **fields: reverse_tree(6, 2, **fields),
}
#: A pick looks at every operator, and a switch of coroutines costs about as much as a call.
_OVERHEAD: Final = Overhead(visit_ns=300, operator_ns=30, wake_ns=5_000)
#: Tuples that stand for one another: fewer events.
_GRAIN: Final = 10
#: So much of the virtual time is warm-up: queues fill, which takes a tree's root half a second a level.
_WARM_UP: Final = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Flowed:
    """Tuples a second that left after the warm-up, and how long they had been on their way, ms."""

    rows_per_s: float
    mean_ms: float


@functools.cache
def measured(topology: str, plug_in: str, threads: int, *, seconds: float, **fields: Any) -> Flowed:
    """Runs a topology for so many virtual seconds, the first half of them to warm up.

    An operator is a coroutine: one thread at a time runs it.
    """
    graph = TOPOLOGIES[topology](
        **{"cost_ns": COST_NS, "capacity": CAPACITY, "kind": "stateful", **fields}
    )
    run = simulate(
        graph,
        policy=PLUG_INS[plug_in],
        threads=threads,
        seconds=seconds,
        overhead=_OVERHEAD,
        hardware=TWO_SIXES,
        grain=_GRAIN,
    )
    late = [sink.after(_WARM_UP * seconds) for sink in run.sinks]
    known = [one.latency for one in late if one.latency is not None]
    count = sum(one.count for one in known)
    mean = sum(one.mean * one.count for one in known) / max(count, 1)
    return Flowed(_GRAIN * count / ((1 - _WARM_UP) * seconds), 1e3 * mean)


def plug_ins(effort: Effort) -> tuple[str, ...]:
    """All five, or those that the paper says most about."""
    return tuple(PLUG_INS) if effort == "full" else ("Random", "MaxQueue", "LeastRecently")


def threads_of(effort: Effort) -> tuple[int, ...]:
    """Levels of threads."""
    return THREADS if effort == "full" else FEW_THREADS


def seconds_of(topology: str, effort: Effort) -> float:
    """Virtual seconds: trees hold most tuples, and are filled last."""
    usual = {"chain": 2.0, "data parallel": 1.0, "tree": 2.5, "reverse tree": 2.5}[topology]
    return usual if effort == "quick" else 2 * usual


def sweep(
    topology: str, effort: Effort, progress: Progress, values: Sequence[float], fields: Fields
) -> dict[str, dict[float, Flowed]]:
    """By plug-in and value what a topology gives with a fixed number of threads.

    Args:
        fields: of the operators, by value.
    """
    found: dict[str, dict[float, Flowed]] = {}
    for name in plug_ins(effort):
        progress(f"{topology}, {name}, virtual time")
        found[name] = {
            one: measured(
                topology, name, FIXED_THREADS, seconds=seconds_of(topology, effort), **fields(one)
            )
            for one in values
        }
    return found


def by_threads(effort: Effort, progress: Progress) -> dict[str, dict[str, dict[int, Flowed]]]:
    """By topology, plug-in and threads: what Figures 4 and 5 show."""
    found: dict[str, dict[str, dict[int, Flowed]]] = {}
    for topology in TOPOLOGIES:
        seconds = seconds_of(topology, effort)
        found[topology] = {}
        for name in plug_ins(effort):
            progress(f"{topology}, {name}, virtual time")
            found[topology][name] = {
                count: measured(topology, name, count, seconds=seconds)
                for count in threads_of(effort)
            }
    return found
