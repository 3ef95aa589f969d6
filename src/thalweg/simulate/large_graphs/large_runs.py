"""How a large graph runs on, in machine code: under workers that visit operators, or with a thread an operator."""

from __future__ import annotations

from typing import Final

from thalweg.jit import njit
from thalweg.simulate.large_graphs.large_code import (
    BUSY,
    CAPACITY,
    DECIDING,
    EVENTS,
    GONE,
    GRAIN,
    HEAP,
    IDLE,
    LEFT,
    LEVEL,
    N_DECIDING,
    N_READY,
    N_WORKING,
    NOW,
    PROCESSORS,
    QUANTUM_NS,
    RAN,
    READERS,
    READERS_END,
    READY,
    RUNS,
    SERVICE,
    STATE,
    SWITCH_NS,
    VISIT_NS,
    WAITING,
    WHERE,
    WORKING,
    LargeState,
    finish,
    has_room,
    held_up,
    is_full,
    look,
    pop,
    push,
    slowdown,
    take,
    use,
)

_FAR: Final = 1 << 62


@njit
def _begin(s: LargeState, w: int) -> bool:
    """The next tuple of the operator that a worker is in, if there is any and room for what comes of it."""
    op, now = s.workers[w, WHERE], s.clock[NOW]
    if s.ops[op, WAITING] <= 0 or not has_room(s, op):
        return False
    to = take(s, op)
    s.goes[op] = to
    s.workers[w, STATE] = WORKING
    s.run[N_WORKING] += 1
    slow = slowdown(s, s.run[N_WORKING], now)
    most = int(s.machine[PROCESSORS]) - 1
    cost = s.costs[op] * s.machine[GRAIN] * slow
    cost += held_up(s, now, w, op, to, slow, 1, most)
    s.spent[w] += cost
    s.busy[op] += cost
    push(s, w, now + cost)
    return True


@njit
def _decide_soon(s: LargeState, w: int) -> None:
    """Puts the operator back into the list, and takes another one from it."""
    now, cost = s.clock[NOW], s.machine[VISIT_NS]
    slow, free_list = slowdown(s, s.run[N_WORKING], now), s.lines.shape[0] - 1
    for takes in range(2):
        cost += use(s, free_list, now, w, slow, takes, 0)
    s.workers[w, STATE] = DECIDING
    s.run[N_DECIDING] += 1
    push(s, w, now + cost)


@njit
def _enter(s: LargeState, w: int, op: int) -> None:
    s.ops[op, BUSY] = 1
    s.run[RUNS] += 1
    s.ops[op, RAN] = s.run[RUNS]
    s.workers[w, WHERE] = op
    look(s, op)


@njit
def _full_reader(s: LargeState, op: int) -> int:
    """A reader without room that can run, of an operator that has input."""
    if s.ops[op, WAITING] <= 0:
        return -1
    for e in range(s.ops[op, READERS], s.ops[op, READERS_END]):
        reader = s.edges[e]
        if is_full(s, reader) and s.ops[reader, READY]:
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
    look(s, op)
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
        w = pop(s)
        s.clock[NOW] = s.times[w]
        s.run[EVENTS] += 1
        op = s.workers[w, WHERE]
        if s.workers[w, STATE] == WORKING:
            s.run[N_WORKING] -= 1
            finish(s, op, s.goes[op])
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


@njit
def _shares(s: LargeState, working: int, now: float) -> float:
    """Of a core, what each thread with work gets done."""
    level = int(s.machine[PROCESSORS])
    slow = slowdown(s, min(working, level), now)
    if working <= level:
        return 1.0 / slow
    useful = s.machine[QUANTUM_NS] / (s.machine[QUANTUM_NS] + s.machine[SWITCH_NS])
    given: float = level / working / slow * useful
    return given


@njit
def _next_of(s: LargeState, op: int, switch: float) -> None:
    """An operator's thread begins its next tuple, or sleeps."""
    if s.ops[op, WAITING] <= 0 or not has_room(s, op):
        s.ops[op, BUSY] = 0
        s.run[N_WORKING] -= 1
        look(s, op)
        return
    to = take(s, op)
    s.goes[op] = to
    most = int(s.machine[PROCESSORS]) - 1
    cost = s.costs[op] * s.machine[GRAIN]
    cost += held_up(s, s.clock[NOW], op, op, to, 1.0, 0, most)
    s.busy[op] += cost
    push(s, op, s.clock[SERVICE] + cost + switch)


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
                    look(s, op)
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
        op = pop(s)
        s.run[EVENTS] += 1
        s.clock[SERVICE] = max(s.times[op], s.clock[SERVICE])
        s.clock[NOW] = at
        finish(s, op, s.goes[op])
        _next_of(s, op, 0.0)
    s.clock[NOW] = until
    return True
