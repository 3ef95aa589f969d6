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
_FAR: Final = 1 << 62


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
def _slowdown(s: LargeState, threads: int, now: float) -> float:
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
def _use(
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
def _is_full(s: LargeState, op: int) -> bool:
    given: bool = s.ops[op, WAITING] >= s.ops[op, CAPACITY]
    return given


@njit
def _has_room(s: LargeState, op: int) -> bool:
    """Whether whoever gets the next tuple has room; what is in work elsewhere may go over it."""
    begin, end = s.ops[op, READERS], s.ops[op, READERS_END]
    if s.ops[op, DEALS]:
        begin += s.ops[op, TURN]
        end = begin + 1
    # A loop: machine code has no all().
    for e in range(begin, end):  # noqa: SIM110
        if _is_full(s, s.edges[e]):
            return False
    return True


@njit
def _look(s: LargeState, op: int) -> None:
    """Whether an operator can run now."""
    can = 0
    if s.ops[op, BUSY] == 0 and s.ops[op, WAITING] > 0 and _has_room(s, op):
        can = 1
    s.run[N_READY] += can - s.ops[op, READY]
    s.ops[op, READY] = can


@njit
def _look_at_writers(s: LargeState, op: int) -> None:
    for e in range(s.ops[op, WRITERS], s.ops[op, WRITERS_END]):
        _look(s, s.sources[e])


@njit
def _take(s: LargeState, op: int) -> int:
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
    _look(s, op)
    if s.ops[op, WAITING] == s.ops[op, CAPACITY]:
        _look_at_writers(s, op)


@njit
def _finish(s: LargeState, op: int, to: int) -> None:
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
def _push(s: LargeState, who: int, at: float) -> None:
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
def _pop(s: LargeState) -> int:
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
def _held_up(
    s: LargeState, now: float, who: int, op: int, to: int, slow: float, meets_others: int, most: int
) -> float:
    """As ``share_queues``."""
    tuples = s.machine[GRAIN] * slow
    held = _use(s, op, now, who, tuples, 1, most)
    for e in range(s.ops[op, READERS], s.ops[op, READERS_END]):
        reader = s.edges[e]
        if to >= 0 and reader != to:
            continue
        held += _use(s, reader, now, who, tuples, 0, most)
        if meets_others or s.ops[reader, WRITERS_END] - s.ops[reader, WRITERS] > 1:
            held += s.machine[ATOMIC_NS] * tuples
        if to >= 0:
            break
    return held


# -- threads that go from operator to operator ---------------------------------------------------------------------


@njit
def _begin(s: LargeState, w: int) -> bool:
    """The next tuple of the operator that a worker is in, if there is any and room for what comes of it."""
    op, now = s.workers[w, WHERE], s.clock[NOW]
    if s.ops[op, WAITING] <= 0 or not _has_room(s, op):
        return False
    to = _take(s, op)
    s.goes[op] = to
    s.workers[w, STATE] = WORKING
    s.run[N_WORKING] += 1
    slow = _slowdown(s, s.run[N_WORKING], now)
    most = int(s.machine[PROCESSORS]) - 1
    cost = s.costs[op] * s.machine[GRAIN] * slow
    cost += _held_up(s, now, w, op, to, slow, 1, most)
    s.spent[w] += cost
    s.busy[op] += cost
    _push(s, w, now + cost)
    return True


@njit
def _decide_soon(s: LargeState, w: int) -> None:
    """Puts the operator back into the list, and takes another one from it."""
    now, cost = s.clock[NOW], s.machine[VISIT_NS]
    slow, free_list = _slowdown(s, s.run[N_WORKING], now), s.lines.shape[0] - 1
    for takes in range(2):
        cost += _use(s, free_list, now, w, slow, takes, 0)
    s.workers[w, STATE] = DECIDING
    s.run[N_DECIDING] += 1
    _push(s, w, now + cost)


@njit
def _enter(s: LargeState, w: int, op: int) -> None:
    s.ops[op, BUSY] = 1
    s.run[RUNS] += 1
    s.ops[op, RAN] = s.run[RUNS]
    s.workers[w, WHERE] = op
    _look(s, op)


@njit
def _full_reader(s: LargeState, op: int) -> int:
    """A reader without room that can run, of an operator that has input."""
    if s.ops[op, WAITING] <= 0:
        return -1
    for e in range(s.ops[op, READERS], s.ops[op, READERS_END]):
        reader = s.edges[e]
        if _is_full(s, reader) and s.ops[reader, READY]:
            given: int = reader
            return given
    return -1


@njit
def _leave(s: LargeState, w: int) -> int:
    """A worker leaves; the reader that it should help, or -1."""
    op = s.workers[w, WHERE]
    s.ops[op, BUSY] = 0
    s.run[RUNS] += 1
    s.ops[op, RAN] = s.run[RUNS]
    s.workers[w, LEFT] = -1
    _look(s, op)
    return _full_reader(s, op) if w < s.run[LEVEL] else -1


@njit
def _pick(s: LargeState) -> int:
    """The operator that can run and has not for longest."""
    found, oldest = -1, _FAR
    for op in range(len(s.ops)):
        if s.ops[op, READY] and s.ops[op, RAN] < oldest:
            found, oldest = op, s.ops[op, RAN]
    return found


@njit
def _wake(s: LargeState) -> None:
    """Sleeping workers look, as many as there are operators that nobody is about to take."""
    if s.run[N_DECIDING] >= s.run[N_READY]:
        return
    for w in range(s.run[LEVEL]):
        if s.run[N_DECIDING] >= s.run[N_READY]:
            return
        if s.workers[w, STATE] == IDLE:
            _decide_soon(s, w)


@njit
def run_workers(s: LargeState, until: float, most_events: int) -> bool:
    """Goes on up to a time, or for so many events; whether the time was reached."""
    last = s.run[EVENTS] + most_events
    for w in range(s.run[LEVEL]):
        if s.workers[w, STATE] == GONE:
            _decide_soon(s, w)
    _wake(s)
    while s.run[HEAP] and s.times[s.heap[0]] <= until:
        if s.run[EVENTS] >= last:
            return False
        w = _pop(s)
        s.clock[NOW] = s.times[w]
        s.run[EVENTS] += 1
        op = s.workers[w, WHERE]
        if s.workers[w, STATE] == WORKING:
            s.run[N_WORKING] -= 1
            _finish(s, op, s.goes[op])
            stays = w < s.run[LEVEL] and s.workers[w, LEFT] != 1
            if s.workers[w, LEFT] > 0:
                s.workers[w, LEFT] -= 1
            if stays and _begin(s, w):
                _wake(s)
                continue
            reader = _leave(s, w)
            if reader >= 0:
                _enter(s, w, reader)
                s.workers[w, LEFT] = max(s.ops[reader, CAPACITY] // 4, 1)
                if _begin(s, w):
                    _wake(s)
                    continue
                _leave(s, w)
        else:
            s.run[N_DECIDING] -= 1
            if w >= s.run[LEVEL]:
                s.workers[w, STATE] = GONE
                continue
            op = _pick(s)
            if op < 0:
                s.workers[w, STATE] = IDLE
                continue
            _enter(s, w, op)
            if _begin(s, w):
                _wake(s)
                continue
            _leave(s, w)
        if w >= s.run[LEVEL]:
            s.workers[w, STATE] = GONE
        else:
            _decide_soon(s, w)
        _wake(s)
    s.clock[NOW] = until
    return True


# -- a thread an operator ------------------------------------------------------------------------------------------


@njit
def _shares(s: LargeState, working: int, now: float) -> float:
    """Of a core, what each thread with work gets done."""
    level = int(s.machine[PROCESSORS])
    slow = _slowdown(s, min(working, level), now)
    if working <= level:
        return 1.0 / slow
    useful = s.machine[QUANTUM_NS] / (s.machine[QUANTUM_NS] + s.machine[SWITCH_NS])
    given: float = level / working / slow * useful
    return given


@njit
def _next_of(s: LargeState, op: int, switch: float) -> None:
    """An operator's thread begins its next tuple, or sleeps."""
    if s.ops[op, WAITING] <= 0 or not _has_room(s, op):
        s.ops[op, BUSY] = 0
        s.run[N_WORKING] -= 1
        _look(s, op)
        return
    to = _take(s, op)
    s.goes[op] = to
    most = int(s.machine[PROCESSORS]) - 1
    cost = s.costs[op] * s.machine[GRAIN]
    cost += _held_up(s, s.clock[NOW], op, op, to, 1.0, 0, most)
    s.busy[op] += cost
    _push(s, op, s.clock[SERVICE] + cost + switch)


@njit
def run_dedicated(s: LargeState, until: float, most_events: int) -> bool:
    """As :func:`run_workers`; the times of the heap are of service, which all threads with work get alike."""
    last = s.run[EVENTS] + most_events
    while True:
        if s.run[N_READY]:
            for op in range(len(s.ops)):
                if s.ops[op, READY]:
                    s.ops[op, BUSY] = 1
                    s.run[N_WORKING] += 1
                    _look(s, op)
                    _next_of(s, op, s.machine[SWITCH_NS])
        if not s.run[HEAP]:
            break
        got = _shares(s, s.run[N_WORKING], s.clock[NOW])
        at = s.clock[NOW] + max(s.times[s.heap[0]] - s.clock[SERVICE], 0.0) / got
        if at > until:
            s.clock[SERVICE] += got * (until - s.clock[NOW])
            break
        if s.run[EVENTS] >= last:
            return False
        op = _pop(s)
        s.run[EVENTS] += 1
        s.clock[SERVICE] = max(s.times[op], s.clock[SERVICE])
        s.clock[NOW] = at
        _finish(s, op, s.goes[op])
        _next_of(s, op, 0.0)
    s.clock[NOW] = until
    return True


def blank(shape: Any) -> Ints:
    """Words, all 0."""
    return np.zeros(shape, np.int64)
