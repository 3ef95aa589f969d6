"""The loop in which a worker lives: find an operator, run units of it, send on what they put out.

The loop is compiled and holds no Python object, so workers do not meet at the interpreter's lock. A unit whose
operator has no machine code makes it *return* (:data:`PYTHON`); the caller runs the unit in plain Python, with
nothing of the runtime locked, and calls again.

A worker visits operators (:mod:`thalweg.workers.worker_loop.visits`); one that finds a worklist empty returns at once
and looks for another operator.
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import (
    EMPTY,
    brief,
    fence,
    give_way,
    load,
    relax,
    shared,
    store,
)
from thalweg.workers.lockfree.parking import cancel, park, prepare
from thalweg.workers.lockfree.rings import (
    mpmc_pop,
    spsc_peek,
    spsc_pop,
)
from thalweg.workers.memory.layout import (
    BLOCKED,
    CHOOSE,
    COLLECT,
    FIRST_PORT,
    FIXED,
    FLAG,
    GOES_ON,
    HELP,
    IDLE,
    INGRESS,
    INPUTS,
    KEYED,
    KIND,
    MEETING,
    N_IN,
    NATIVE,
    NOTHING,
    OP,
    PART,
    PARTITIONS,
    PASSES,
    PHASE,
    PICKED,
    PORT_WORDS,
    PORTS,
    PREEMPTS,
    PYTHON,
    QUEUE,
    QUEUE_KIND,
    RING,
    STATELESS,
    STAYING,
    STOPPED,
    STOPS,
    SUSPENDED,
    SUSPENDS,
    TOKEN_HELD,
    WHOLE,
    Int64s,
)
from thalweg.workers.memory.places import op_at, worker_at
from thalweg.workers.memory.room import without_room
from thalweg.workers.worker_loop.dispatch import help_next
from thalweg.workers.worker_loop.next_operator import ASK, if_runnable, next_operator
from thalweg.workers.worker_loop.round_barrier import ASK_ROUND
from thalweg.workers.worker_loop.runnable import any_work, has_input
from thalweg.workers.worker_loop.tokens import leave_token
from thalweg.workers.worker_loop.unit_runs import (
    has_spare,
    resume_unit,
    run_ingress,
    run_range,
    run_whole,
)
from thalweg.workers.worker_loop.visits import (
    asks_whether_to_stay,
    begin_visit,
    end_visit,
    leave_listed,
    stays,
)
from thalweg.workers.worker_loop.waking import pass_on, prepare_sleep, sleep, stay_awake
from thalweg.workers.worker_loop.worklists import queue_front, queue_take

#: A sleeping worker looks for itself from time to time, microseconds.
_NAP_US: Final = 50_000


@shared
def _go_on_stateless(mem: Int64s, w: int, me: int, op: int) -> int:
    queue = mem[op_at(mem, op) + QUEUE]
    while stays(mem, w, me):
        if not has_spare(mem, me):
            return COLLECT
        handle = mpmc_pop(mem, queue)
        if handle == EMPTY:
            return 0
        mem[me + INPUTS] = handle
        code = run_whole(mem, w, me, op)
        if code:
            return code
    return 0


@shared
def _all_ports(mem: Int64s, o: int) -> bool:
    """Whether each port has a chunk, by the one consumer."""
    for i in range(mem[o + N_IN]):
        ring = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + RING]
        if spsc_peek(mem, ring) == EMPTY:
            return False
    return True


@shared
def _go_on_stateful(mem: Int64s, w: int, me: int, op: int) -> int:
    o = op_at(mem, op)
    while stays(mem, w, me):
        if not has_spare(mem, me):
            return COLLECT
        if not _all_ports(mem, o):
            return 0
        full = without_room(mem, op)
        if full != EMPTY:
            store(mem, o + BLOCKED, 1)
            fence()
            full = without_room(mem, op)
            if full != EMPTY:
                help_next(mem, me, full)
                return 0
            store(mem, o + BLOCKED, 0)
        for i in range(mem[o + N_IN]):
            ring = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + RING]
            mem[me + INPUTS + i] = spsc_pop(mem, ring)
        code = run_whole(mem, w, me, op)
        if code:
            return code
    return 0


@shared
def _go_on_keyed(mem: Int64s, w: int, me: int, op: int) -> int:
    o = op_at(mem, op)
    kind, queue = mem[o + QUEUE_KIND], mem[o + QUEUE]
    while stays(mem, w, me):
        if not has_spare(mem, me):
            return COLLECT
        if mem[me + PART] == EMPTY:
            mem[me + PART] = queue_take(mem, kind, queue, w % mem[o + PARTITIONS])
            if mem[me + PART] == EMPTY:
                return 0
        code = run_range(mem, w, me, op, queue_front(mem, kind, queue, mem[me + PART]))
        if code:
            return code
    return 0


@shared
def _go_on(mem: Int64s, w: int, me: int) -> int:
    """Runs units of the operator at hand until the visit is over; a code for Python, or 0."""
    op = mem[me + OP]
    kind = mem[op_at(mem, op) + KIND]
    if kind == STATELESS:
        return _go_on_stateless(mem, w, me, op)
    if kind == KEYED:
        return _go_on_keyed(mem, w, me, op)
    if kind == INGRESS:
        run_ingress(mem, w, me, op)
        return 0
    return _go_on_stateful(mem, w, me, op)


@brief
def go_on_in_python(mem: Int64s, w: int) -> int:
    """Finishes the unit that Python has run, and begins the next one of the same visit if Python runs it, too: PYTHON.

    Else STOPPED, and :func:`work` is to be called. It keeps the interpreter's lock, since each call without it is
    followed by a wait for it: where many threads read sources, one a chunk is what the whole run waits for.
    """
    me = worker_at(mem, w)
    if mem[me + PHASE] == NOTHING or mem[me + TOKEN_HELD] == 0 or load(mem, me + FLAG) == STOPS:
        return STOPPED
    op = mem[me + OP]
    if mem[me + PHASE] != WHOLE or mem[op_at(mem, op) + NATIVE] or mem[PREEMPTS]:
        return STOPPED
    resume_unit(mem, w, me)
    code = _go_on(mem, w, me)
    return PYTHON if code == PYTHON else STOPPED


@shared
def _rest(mem: Int64s, w: int, me: int) -> None:
    """Exponential back-off that ends in a sleep on a condition; a push wakes."""
    idle, own = mem[me + IDLE], mem[me + FIXED]
    mem[me + IDLE] = idle + 1
    if idle < 40:
        relax()
    elif idle < 60 and own == EMPTY:
        # Where each operator has a thread there are others, which have work.
        give_way()
    else:
        key = prepare_sleep(mem, w)
        if load(mem, me + FLAG) != GOES_ON:
            stay_awake(mem, w)
        elif has_input(mem, own) if own != EMPTY else any_work(mem):
            if idle < 100:
                stay_awake(mem, w)
                give_way()
            else:
                # There is work, but others have what it needs.
                sleep(mem, w, key, min(1 << min(idle - 100, 10), 1000))
        else:
            sleep(mem, w, key, _NAP_US)


@shared
def _suspended(mem: Int64s, w: int, me: int) -> None:
    # Who woke it before it was told to suspend counts on another one.
    pass_on(mem, w)
    key = prepare(mem, mem[SUSPENDED])
    if load(mem, me + FLAG) != SUSPENDS:
        cancel(mem, mem[SUSPENDED])
    else:
        park(mem, mem[SUSPENDED], key, _NAP_US)


@shared
def work(mem: Int64s, w: int) -> int:
    """Runs the worker until it stops, or Python is needed: STOPPED, PYTHON, COLLECT, CHOOSE, MEETING, STAYING."""
    me = worker_at(mem, w)
    picked = mem[me + PHASE] == PICKED
    if mem[me + PHASE]:
        code = resume_unit(mem, w, me)
        if code:
            return code
    while True:
        if load(mem, me + FLAG) == STOPS:
            return STOPPED
        if mem[me + OP] == EMPTY and mem[me + HELP] == EMPTY:
            store(mem, me + PASSES, mem[me + PASSES] + 1)
        if mem[me + OP] != EMPTY:
            code = _go_on(mem, w, me)
            if code:
                return code
            if asks_whether_to_stay(mem, w, me):
                return STAYING
            end_visit(mem, w, me)
        if load(mem, me + FLAG) == SUSPENDS:
            mem[me + HELP] = EMPTY
            _suspended(mem, w, me)
            continue
        if not has_spare(mem, me):
            return COLLECT
        op = mem[me + HELP]
        mem[me + HELP] = EMPTY
        helping = op != EMPTY and not picked
        if picked:
            op = if_runnable(mem, op)
        elif op == EMPTY:
            op = next_operator(mem, w, me)
            if op == ASK:
                return CHOOSE
            if op == ASK_ROUND:
                return MEETING
        picked = False
        if op == EMPTY:
            _rest(mem, w, me)
        elif not begin_visit(mem, w, me, op, helping):
            leave_listed(mem, me, op)
            leave_token(mem, me)
            _rest(mem, w, me)
        else:
            pass_on(mem, w)
