"""The loop in which a worker lives: find an operator, run units of it, send on what they put out.

The loop is compiled and holds no Python object, so workers do not meet at the interpreter's lock. A unit whose
operator has no machine code makes it *return* (:data:`PYTHON`); the caller runs the unit in plain Python, with
nothing of the runtime locked, and calls again.

A visit to an operator lasts a time slice (Prasaad et al., section 6), counted in tuples by the measured cost, or
a quarter of a queue where a worker helps a full reader (Schneider & Wu, section 4.1.4). A worker that finds a
worklist empty returns at once and looks for another operator.
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.dispatch import help_next, relieve
from thalweg.workers.lockfree.atomics import (
    EMPTY,
    add,
    brief,
    fence,
    give_way,
    load,
    relax,
    shared,
    store,
)
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.lockfree.parking import cancel, park, prepare, unpark
from thalweg.workers.lockfree.rings import (
    lock_consumer,
    mpmc_pop,
    mpmc_push,
    spsc_peek,
    spsc_pop,
    unlock_consumer,
)
from thalweg.workers.memory.layout import (
    BATCH,
    BEGAN,
    BLOCKED,
    BUDGET,
    BUSY,
    BY_ROUND,
    CAPACITY,
    CHOOSE,
    COLLECT,
    FIRST_PORT,
    FIXED,
    FLAG,
    FREE_OPS,
    FREELY,
    GOES_ON,
    HELP,
    IDLE,
    INGRESS,
    INPUTS,
    KEYED,
    KIND,
    LIMIT,
    LISTED,
    LOOKED,
    MEETING,
    MODE,
    N_IN,
    N_OUT,
    NATIVE,
    NEEDS_TOKEN,
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
    RUNS_FREELY,
    S_NS,
    S_TIMED,
    SETTLED,
    SLICE,
    STATEFUL,
    STATELESS,
    STAYING,
    STOPPED,
    STOPS,
    SUSPENDED,
    SUSPENDS,
    TOKEN_HELD,
    UNITS,
    WHOLE,
    Int64s,
)
from thalweg.workers.memory.places import op_at, stat_at, worker_at
from thalweg.workers.memory.room import without_room
from thalweg.workers.next_operator import ASK, if_runnable, next_operator
from thalweg.workers.rounds.round_barrier import ASK_ROUND, tell_leader
from thalweg.workers.runnable import any_work, has_input
from thalweg.workers.tokens import leave_token, take_token
from thalweg.workers.unit_runs import has_spare, resume_unit, run_ingress, run_range, run_whole
from thalweg.workers.views import refresh_view
from thalweg.workers.waking import (
    pass_on,
    prepare_sleep,
    sleep,
    stay_awake,
    wake_worker,
)
from thalweg.workers.worklists import queue_front, queue_hand_over, queue_take

#: A sleeping worker looks for itself from time to time, microseconds.
_NAP_US: Final = 50_000
_MANY: Final = 1 << 60
#: So long a visit within a round may go on in an operator that Python runs, ns.
_INTERPRETED_NS: Final = 1_000_000


@shared
def _begin_visit(mem: Int64s, w: int, me: int, op: int, helping: bool) -> bool:
    o = op_at(mem, op)
    # It counts as in the operator before it asks for the token: of two that come at once one sees the other.
    if add(mem, o + BUSY, 1) >= mem[o + LIMIT]:
        add(mem, o + BUSY, -1)
        return False
    if mem[o + NEEDS_TOKEN] and not take_token(mem, w, me, op):
        add(mem, o + BUSY, -1)
        return False
    if mem[o + KIND] == STATEFUL:
        ring = mem[mem[PORTS] + mem[o + FIRST_PORT] * PORT_WORDS + RING]
        if not lock_consumer(mem, ring):
            add(mem, o + BUSY, -1)
            return False
    mem[me + OP] = op
    mem[me + PART] = EMPTY
    mem[me + UNITS] = max(mem[o + CAPACITY] // 4, 1) if helping else _MANY
    mem[me + BUDGET] = _tuples_of_visit(mem, w, op)
    mem[me + LOOKED] = 0
    if mem[PREEMPTS] and not helping and mem[me + FIXED] == EMPTY:
        mem[me + BUDGET] = mem[me + LOOKED] = _MANY
        mem[me + BEGAN] = now_ns()
    return True


@shared
def _tuples_of_visit(mem: Int64s, w: int, op: int) -> int:
    """How many tuples a visit is for: as many as fit the time slice; within a round the policy's b."""
    if mem[MODE] != BY_ROUND:
        return _tuples_in(mem, w, op, mem[SLICE])
    if mem[op_at(mem, op) + NEEDS_TOKEN] == 0:
        return mem[BATCH]
    # To come by the interpreter's lock may take as long as many tuples do.
    return max(mem[BATCH], _tuples_in(mem, w, op, _INTERPRETED_NS))


@shared
def _tuples_in(mem: Int64s, w: int, op: int, ns: int) -> int:
    """How many tuples take so long, by this worker's own measure of the cost."""
    stat = stat_at(mem, w, op)
    if mem[stat + S_TIMED] == 0 or mem[stat + S_NS] == 0:
        return 1
    return max(ns * mem[stat + S_TIMED] // mem[stat + S_NS], 1)


@shared
def _end_visit(mem: Int64s, w: int, me: int) -> None:
    op = mem[me + OP]
    o = op_at(mem, op)
    if mem[o + KIND] == STATEFUL:
        relieve(mem, w, op)
        unlock_consumer(mem, mem[mem[PORTS] + mem[o + FIRST_PORT] * PORT_WORDS + RING])
    elif mem[o + KIND] == KEYED and mem[me + PART] != EMPTY:
        queue_hand_over(mem, mem[o + QUEUE_KIND], mem[o + QUEUE], mem[me + PART])
        mem[me + PART] = EMPTY
    add(mem, o + BUSY, -1)
    mem[me + OP] = EMPTY
    _leave_listed(mem, me, op)
    leave_token(mem, me)
    wake_worker(mem)
    if mem[o + N_OUT] == 0:
        unpark(mem, mem[o + SETTLED])
    if mem[MODE] == BY_ROUND:
        tell_leader(mem)


@shared
def _leave_listed(mem: Int64s, me: int, op: int) -> None:
    if mem[me + LISTED]:
        mem[me + LISTED] = 0
        while not mpmc_push(mem, mem[FREE_OPS], op):
            relax()


@shared
def _stays(mem: Int64s, w: int, me: int) -> bool:
    """Whether the visit goes on: one to a queue that never empties ends when the worker is to suspend."""
    if mem[me + UNITS] <= 0 or mem[me + BUDGET] <= 0 or mem[me + HELP] != EMPTY:
        return False
    if mem[me + TOKEN_HELD] == RUNS_FREELY and _are_too_many(mem, mem[me + OP]):
        return False
    return mem[me + UNITS] >= mem[me + LOOKED] and load(mem, me + FLAG) != SUSPENDS


@shared
def _are_too_many(mem: Int64s, op: int) -> bool:
    """Whether fewer workers may run an operator's Python than are in it: it waits less than it did."""
    o = op_at(mem, op)
    return load(mem, o + BUSY) > max(load(mem, o + FREELY), 1)


@shared
def _asks_whether_to_stay(mem: Int64s, w: int, me: int) -> bool:
    """Whether the policy is to say if the visit goes on: it has ended for no other reason than that a unit is done."""
    if (
        mem[me + UNITS] >= mem[me + LOOKED]
        or mem[me + HELP] != EMPTY
        or load(mem, me + FLAG) == SUSPENDS
    ):
        return False
    mem[me + LOOKED] = mem[me + UNITS]
    refresh_view(mem, w)
    return True


@shared
def _go_on_stateless(mem: Int64s, w: int, me: int, op: int) -> int:
    queue = mem[op_at(mem, op) + QUEUE]
    while _stays(mem, w, me):
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
    while _stays(mem, w, me):
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
    while _stays(mem, w, me):
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
            if _asks_whether_to_stay(mem, w, me):
                return STAYING
            _end_visit(mem, w, me)
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
        elif not _begin_visit(mem, w, me, op, helping):
            _leave_listed(mem, me, op)
            leave_token(mem, me)
            _rest(mem, w, me)
        else:
            pass_on(mem, w)
