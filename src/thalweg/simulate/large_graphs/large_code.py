"""Large graphs in machine code: a thousand operators under hundreds of threads, a million events a second.

The same rules as :mod:`thalweg.simulate.simulation` has for stateful operators that take tuples as they come, of which
only counts are kept: how many wait where, who works on what, who holds up whom at a queue. What is the same has the
same name there.

A word of an operator, a worker or the run is a column or an entry of an int64 array; times are float64, ns.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.jit import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Of an operator: waiting tuples; its room; whose turn it is and whether it deals; whether a
#: worker is in it; when it last ran, as a number; where its readers and its writers stand; tuples done; whether its
#: input never ends; whether it can run.
WAITING: Final = 0
CAPACITY: Final = 1
TURN: Final = 2
DEALS: Final = 3
BUSY: Final = 4
RAN: Final = 5
READERS: Final = 6
READERS_END: Final = 7
WRITERS: Final = 8
WRITERS_END: Final = 9
DONE: Final = 10
ENDLESS: Final = 11
READY: Final = 12
OP_WORDS: Final = 13
#: Of a worker: what it does, where, and how many tuples of a reader it may still do (-1: any number).
STATE: Final = 0
WHERE: Final = 1
LEFT: Final = 2
WORKER_WORDS: Final = 3
GONE: Final = 0
IDLE: Final = 1
DECIDING: Final = 2
WORKING: Final = 3
#: Of a run: the level of threads; how many work, decide and can be run; the clock of runs; events; entries of the heap;
#: tuples that have left.
LEVEL: Final = 0
N_WORKING: Final = 1
N_DECIDING: Final = 2
N_READY: Final = 3
RUNS: Final = 4
EVENTS: Final = 5
HEAP: Final = 6
LEFT_FLOW: Final = 7
RUN_WORDS: Final = 8
#: Of a run, floats: now; the service that every thread with work has got, where each operator has one.
NOW: Final = 0
SERVICE: Final = 1
TIME_WORDS: Final = 2
#: Of a cache line: the first and the number of those in its ring; who last put in and took out; tuples a line brings.
RING_FIRST: Final = 0
RING_COUNT: Final = 1
LAST_IN: Final = 2
LAST_OUT: Final = 3
SLOTS: Final = 4
LOCKED: Final = 5
LINE_WORDS: Final = 6
#: Of a machine and its costs.
CORES: Final = 0
PROCESSORS: Final = 1
SMT_GAIN: Final = 2
BUS: Final = 3
QUEUE_NS: Final = 4
LINE_NS: Final = 5
ATOMIC_NS: Final = 6
NOISE: Final = 7
NOISE_NS: Final = 8
VISIT_NS: Final = 9
GRAIN: Final = 10
SWITCH_NS: Final = 11
QUANTUM_NS: Final = 12
FUTEX_NS: Final = 13
MACHINE_WORDS: Final = 14
_LEAST_MOOD: Final = 0.5


class LargeState(NamedTuple):
    """A run: the words of what takes part in it.

    Attributes:
        ops: words by operator; costs: of a tuple, ns.
        edges: readers, all operators' one behind the other; sources: writers.
        workers: words by worker; spent: time in operators by worker, ns; busy: the same by operator.
        lines: words by cache line, that of an operator's inbox and that of the free list; rings: when those who use it
            are through.
        machine: what it costs; draws: of its noise.
        run: words of the run; clock: its times.
        heap: workers (or operators) by when they are through; times: when that is.
        goes: by operator the reader to which the tuple in work is dealt.
    """

    ops: Ints
    costs: Floats
    edges: Ints
    sources: Ints
    workers: Ints
    spent: Floats
    busy: Floats
    lines: Ints
    rings: Floats
    machine: Floats
    draws: Floats
    run: Ints
    clock: Floats
    heap: Ints
    times: Floats
    goes: Ints


@njit
def slowdown(s: LargeState, threads: int, now: float) -> float:
    if threads <= 1:
        return 1.0
    cores, processors = s.machine[CORES], s.machine[PROCESSORS]
    on = min(float(threads), processors)
    capacity = on
    if threads > cores:
        capacity = cores
        if processors > cores:
            capacity *= 1 + (s.machine[SMT_GAIN] - 1) * (on - cores) / (processors - cores)
    mood = 1.0
    if s.machine[NOISE] > 0:
        drawn = s.draws[int(now / s.machine[NOISE_NS]) % len(s.draws)]
        mood = max(1 + s.machine[NOISE] * on / processors * drawn, _LEAST_MOOD)
    given: float = (1 + s.machine[BUS] * max(on - 1, 0.0)) * threads / capacity * mood
    return given


@njit
def use(
    s: LargeState, line: int, now: float, who: int, uses: float, takes: int, most: int
) -> float:
    """How long a thread is held up by so many operations on a queue."""
    size = s.rings.shape[1]
    first, count = s.lines[line, RING_FIRST], s.lines[line, RING_COUNT]
    while count and s.rings[line, first] <= now:
        first = (first + 1) % size
        count -= 1
    spinning = min(count, most) if s.lines[line, LOCKED] else 0
    misses = 1.0 if s.lines[line, LAST_IN] != who or s.lines[line, LAST_OUT] != who else 0.0
    s.lines[line, LAST_IN + takes] = who
    # Who has a processor of its own only at times sleeps where another has the queue, and is woken.
    sleeps = s.machine[FUTEX_NS] if count and s.lines[line, SLOTS] == 1 and takes == 0 else 0.0
    each = (
        sleeps
        + s.machine[QUEUE_NS]
        + s.machine[LINE_NS] * (misses / s.lines[line, SLOTS] + spinning / 2)
    )
    begin = s.rings[line, (first + count - 1) % size] if count else now
    end = begin + uses * each
    if count < size:
        s.rings[line, (first + count) % size] = end
        count += 1
    s.lines[line, RING_FIRST], s.lines[line, RING_COUNT] = first, count
    given: float = end - now
    return given


@njit
def is_full(s: LargeState, op: int) -> bool:
    given: bool = s.ops[op, WAITING] >= s.ops[op, CAPACITY]
    return given


@njit
def has_room(s: LargeState, op: int) -> bool:
    """Whether whoever gets the next tuple has room; what is in work elsewhere may go over it."""
    begin, end = s.ops[op, READERS], s.ops[op, READERS_END]
    if s.ops[op, DEALS]:
        begin += s.ops[op, TURN]
        end = begin + 1
    # A loop: machine code has no all().
    for e in range(begin, end):  # noqa: SIM110
        if is_full(s, s.edges[e]):
            return False
    return True


@njit
def look(s: LargeState, op: int) -> None:
    """Whether an operator can run now."""
    can = 0
    if s.ops[op, BUSY] == 0 and s.ops[op, WAITING] > 0 and has_room(s, op):
        can = 1
    s.run[N_READY] += can - s.ops[op, READY]
    s.ops[op, READY] = can


@njit
def _look_at_writers(s: LargeState, op: int) -> None:
    for e in range(s.ops[op, WRITERS], s.ops[op, WRITERS_END]):
        look(s, s.sources[e])


@njit
def take(s: LargeState, op: int) -> int:
    """One tuple of an operator is begun; gives the reader that it is dealt to, or -1: all."""
    if s.ops[op, ENDLESS] == 0:
        s.ops[op, WAITING] -= 1
        if s.ops[op, WAITING] == s.ops[op, CAPACITY] - 1:
            _look_at_writers(s, op)
    if s.ops[op, DEALS] == 0:
        return -1
    begin, end = s.ops[op, READERS], s.ops[op, READERS_END]
    to = s.edges[begin + s.ops[op, TURN]]
    s.ops[op, TURN] = (s.ops[op, TURN] + 1) % (end - begin)
    given: int = to
    return given


@njit
def _come(s: LargeState, op: int) -> None:
    """A tuple has come."""
    s.ops[op, WAITING] += 1
    look(s, op)
    if s.ops[op, WAITING] == s.ops[op, CAPACITY]:
        _look_at_writers(s, op)


@njit
def finish(s: LargeState, op: int, to: int) -> None:
    """The tuple in work is done: its readers have it."""
    s.ops[op, DONE] += 1
    begin, end = s.ops[op, READERS], s.ops[op, READERS_END]
    if begin == end:
        s.run[LEFT_FLOW] += 1
    if to >= 0:
        _come(s, to)
        return
    for e in range(begin, end):
        _come(s, s.edges[e])


@njit
def push(s: LargeState, who: int, at: float) -> None:
    s.times[who] = at
    i = s.run[HEAP]
    s.run[HEAP] += 1
    while i:
        above = (i - 1) // 2
        if s.times[s.heap[above]] <= at:
            break
        s.heap[i] = s.heap[above]
        i = above
    s.heap[i] = who


@njit
def pop(s: LargeState) -> int:
    first = s.heap[0]
    s.run[HEAP] -= 1
    size = s.run[HEAP]
    last = s.heap[size]
    at, i = s.times[last], 0
    while 2 * i + 1 < size:
        below = 2 * i + 1
        if below + 1 < size and s.times[s.heap[below + 1]] < s.times[s.heap[below]]:
            below += 1
        if s.times[s.heap[below]] >= at:
            break
        s.heap[i] = s.heap[below]
        i = below
    s.heap[i] = last
    given: int = first
    return given


@njit
def held_up(
    s: LargeState, now: float, who: int, op: int, to: int, slow: float, meets_others: int, most: int
) -> float:
    """As ``share_queues``."""
    tuples = s.machine[GRAIN] * slow
    held = use(s, op, now, who, tuples, 1, most)
    for e in range(s.ops[op, READERS], s.ops[op, READERS_END]):
        reader = s.edges[e]
        if to >= 0 and reader != to:
            continue
        held += use(s, reader, now, who, tuples, 0, most)
        if meets_others or s.ops[reader, WRITERS_END] - s.ops[reader, WRITERS] > 1:
            held += s.machine[ATOMIC_NS] * tuples
        if to >= 0:
            break
    return held


# -- threads that go from operator to operator ---------------------------------------------------------------------


# -- a thread an operator ------------------------------------------------------------------------------------------


def blank(shape: Any) -> Ints:
    """Words, all 0."""
    return np.zeros(shape, np.int64)
