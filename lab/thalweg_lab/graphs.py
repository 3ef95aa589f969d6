"""Graphs of machine-code operators, tuples alone: what the runtime itself costs (Schneider & Wu, sections 5.1 to 5.3).

The worker loop, the queues and the reorder buffers are those of every run; only rows are left out. An operator
does floating point work and hands on the block that it got, and a compiled loop feeds one step after the other,
so nothing that is measured here runs in Python.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeVar

import numpy as np

from thalweg.compiler.runtime.calls import address_of, call3
from thalweg.jit import njit
from thalweg.scheduling import RoundPolicy
from thalweg.workers.lockfree.atomics import shared, store
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import new_handle
from thalweg.workers.memory.layout import MEETING, Int64s, OpSpec
from thalweg.workers.memory.memory import lay_out
from thalweg.workers.memory.places import block_word, handle_at
from thalweg.workers.rounds import OperatorTraits, RoundCosts, Rounds
from thalweg.workers.worker_loop.loop import work
from thalweg.workers.worker_loop.steps import submit, wait_for_room, wait_until_settled, wake_all

T = TypeVar("T")
Model = Literal["manual", "dedicated", "dynamic"]
#: Steps that fit into an operator; IBM Streams gives a queue 1,000 tuples, twice that was no faster here.
CAPACITY: Final = 64
_ROOM_NS: Final = 50_000


@dataclasses.dataclass(frozen=True, slots=True)
class GraphRun:
    """So many steps through ``units`` operators in all: seconds by the clock and of CPU, and what rounds cost."""

    steps: int
    units: int
    wall_s: float
    cpu_s: float
    rounds: RoundCosts | None = None

    @property
    def steps_per_s(self) -> float:
        return self.steps / self.wall_s

    @property
    def cpu_ns_a_unit(self) -> float:
        """CPU time an operator and step, ns, the work of the operator included."""
        return 1e9 * self.cpu_s / self.units


@njit
def flops(count: int, block: int, scratch: int) -> int:
    """An operator's work: so many dependent additions and multiplications; then it hands on its input."""
    value = float(scratch & 7)
    for _ in range(count // 2):
        value = value * 0.999 + 1.0
    # No turn of the loop can be left out, since the result seems to matter.
    return block if value >= 0.0 else scratch


@njit
def _free(context: int, block: int, scratch: int) -> int:
    return 0


@shared
def _feed(mem: Int64s, block: int, steps: int) -> None:
    """Hands over one step after the other, and waits until the last has passed."""
    for _ in range(steps):
        handle = new_handle(mem)
        while handle < 0:
            wait_for_room(mem, 0, _ROOM_NS)
            handle = new_handle(mem)
        place = handle_at(mem, handle)
        mem[place + at.OBJECT] = 0
        mem[place + at.COUNT] = 1
        mem[place + at.ENDING] = 0
        mem[block_word(mem, place, 0)] = block
        while not submit(mem, 0, handle):
            wait_for_room(mem, 0, _ROOM_NS)
    while not wait_until_settled(mem, 0, _ROOM_NS):
        pass


@njit
def _by_hand(fn: int, count: int, operators: int, block: int, steps: int) -> int:
    """Threading ``manual``: the calling thread runs every operator of a step, without a queue."""
    for _ in range(steps):
        for _ in range(operators):
            _, block = call3(fn, count, block, 0)
    return block


def pipeline(operators: int) -> list[int]:
    """Whom each operator reads: one after the other (section 5.1)."""
    return list(range(operators))


def parallel(width: int) -> list[int]:
    """Side by side, behind the source (section 5.2)."""
    return [0] * width


def pipelines(width: int, depth: int) -> list[int]:
    """So many pipelines side by side (section 5.3)."""
    return [0 if d == 0 else 1 + w * depth + d - 1 for w in range(width) for d in range(depth)]


def run(
    reads: Sequence[int],
    work_flops: int,
    model: Model,
    *,
    threads: int,
    steps: int,
    kind: int = at.STATEFUL,
    capacity: int = CAPACITY,
    policy: RoundPolicy | None = None,
) -> GraphRun:
    """Runs so many steps of one tuple through a graph.

    Args:
        reads: by operator whom it reads; 0 is the source, i the i-th operator.
        work_flops: floating point operations of an operator and tuple.
        model: the threading model.
        threads: workers of ``dynamic``; ``dedicated`` has one an operator, ``manual`` none.
        steps: tuples.
        kind: ``layout.STATEFUL`` (its inbox is an SPSC ring) or ``layout.STATELESS`` (an MPMC ring and a reorder
            buffer, any number of workers at once).
        capacity: steps of an operator on their way.
        policy: of rounds; None is the free list.
    """
    function = address_of(flops)
    block = _tuple()
    where = int(block.ctypes.data)
    units = len(reads) * steps
    if model == "manual":
        _by_hand(function, work_flops, len(reads), where, 1)
        wall, cpu = time.perf_counter(), time.process_time()
        _by_hand(function, work_flops, len(reads), where, steps)
        return GraphRun(steps, units, time.perf_counter() - wall, time.process_time() - cpu)
    mem = _memory(reads, work_flops, model, threads, kind, capacity)
    warm_up()
    rounds = None
    if policy is not None:
        names = ["source", *(f"work{i}" for i in range(len(reads)))]
        traits = {rank: OperatorTraits(name, rank=rank) for rank, name in enumerate(names)}
        rounds = Rounds(mem, traits, policy)
        mem[at.MODE] = at.BY_ROUND
    _, wall, cpu = run_workers(mem, rounds, functools.partial(_feed, mem, where, steps))
    return GraphRun(steps, units, wall, cpu, rounds.costs if rounds is not None else None)


def run_workers(
    mem: Int64s, rounds: Rounds | None, feed: Callable[[], T]
) -> tuple[T, float, float]:
    """What ``feed`` returns while a memory's workers run, and its time by the clock and of the process's CPU, s."""
    workers = [
        threading.Thread(target=_work, args=(mem, w, rounds))
        for w in range(int(mem[at.MAX_WORKERS]))
    ]
    for one in workers:
        one.start()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        fed = feed()
        return fed, time.perf_counter() - wall, time.process_time() - cpu
    finally:
        store(mem, at.STOP, 1)
        wake_all(mem)
        for one in workers:
            one.join()


def _work(mem: Int64s, w: int, rounds: Rounds | None) -> None:
    while work(mem, w) == MEETING and rounds is not None:
        rounds.prepare(w)


@functools.cache
def warm_up() -> None:
    """Compiles the loops, which is not to be measured."""
    block = _tuple()
    mem = _memory(pipeline(1), 1, "dynamic", 1, at.STATEFUL, CAPACITY)
    run_workers(mem, None, functools.partial(_feed, mem, int(block.ctypes.data), 1))


def _tuple() -> Int64s:
    """A block of one tuple."""
    return np.array([1, *[0] * 8], np.int64)


def _memory(
    reads: Sequence[int], work_flops: int, model: Model, threads: int, kind: int, capacity: int
) -> Int64s:
    specs = [OpSpec("source", at.INGRESS, capacity=capacity)]
    specs += [
        OpSpec(
            f"work{i}", kind, reads=[(feeder, 0)], capacity=capacity, native=True, needs_token=False,
            fn=address_of(flops), ctx=work_flops, free_fn=address_of(_free),
            limit=1 if kind == at.STATEFUL else 1 << 30, own_thread=model == "dedicated",
        )
        for i, feeder in enumerate(reads)
    ]  # fmt: skip
    workers = 0 if model == "dedicated" else threads
    mem = lay_out(specs, workers=workers, clocks=1, refs=1, rows_limit=1 << 40)
    mem[at.MODE] = at.BY_FREE_LIST
    mem[at.SLICE] = mem[at.WINDOW] = 1 << 40
    return mem
