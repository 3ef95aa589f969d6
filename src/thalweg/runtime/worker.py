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

from thalweg.runtime.atomics import EMPTY, add, cas, fence, give_way, load, relax, shared, store
from thalweg.runtime.clocks import now_ns
from thalweg.runtime.dispatch import (
    OWNS_BLOCK,
    block_word,
    clock_of,
    handle_at,
    inherit,
    join_clocks,
    new_handle,
    op_at,
    publish,
    queue_done,
    queue_front,
    queue_hand_over,
    queue_take,
    release,
    relieve,
    relieve_waiting,
    stat_at,
    without_room,
    worker_at,
)
from thalweg.runtime.finding import ASK, if_runnable, next_operator
from thalweg.runtime.layout import (
    ACTIVE,
    BASE,
    BATCH,
    BEGAN,
    BESIDE,
    BLOCKED,
    BUDGET,
    BUSY,
    BY_ROUND,
    CAPACITY,
    COUNT,
    CTX,
    ENDING,
    ENDING_NO,
    FIRST_PORT,
    FIXED,
    FN,
    FREE_OPS,
    HELP,
    HOLDS,
    HOLDS_TOKEN,
    IDLE,
    INPUTS,
    IS_SPLIT,
    KEPT,
    KEPT_HANDLES,
    KEYED,
    KIND,
    LEFT,
    LIMIT,
    LISTED,
    LOOKED,
    MERGE,
    MODE,
    N_IN,
    N_OUT,
    NATIVE,
    NEEDS_TOKEN,
    OBJECT,
    OP,
    PARK,
    PARKED,
    PART,
    PARTITIONS,
    PARTS,
    PASSES,
    PAYLOAD_MASK,
    PAYLOAD_WORD,
    PHASE,
    PORT_WORDS,
    PORTS,
    PREEMPTS,
    QUEUE,
    QUEUE_KIND,
    READERS,
    REF,
    REFUSED,
    RING,
    RUNS_BESIDE,
    S_BUSY,
    S_IN,
    S_LAST,
    S_NS,
    S_OUT,
    S_TIMED,
    S_UNITS,
    S_WINDOW,
    SCRATCH,
    SETTLED,
    SLICE,
    SPARE,
    SPLIT_ROWS,
    STARTED,
    STATEFUL,
    STATELESS,
    STOP,
    TOKEN,
    TOKEN_HELD,
    TOKEN_SINCE,
    UNITS,
    Int64s,
)
from thalweg.runtime.meeting import ASK_ROUND, tell_leader
from thalweg.runtime.native.calls import call3, get_i
from thalweg.runtime.parking import cancel, park, prepare, unpark
from thalweg.runtime.rings import (
    lock_consumer,
    mpmc_pop,
    mpmc_push,
    spsc_peek,
    spsc_pop,
    unlock_consumer,
)
from thalweg.runtime.runnable import any_work, has_input, is_runnable
from thalweg.runtime.views import refresh_view
from thalweg.scheduling.measures import SAMPLE_TUPLES

#: What the loop returns.
STOPPED: Final = 0
PYTHON: Final = 1
COLLECT: Final = 2
CHOOSE: Final = 3
MEETING: Final = 4
STAYING: Final = 5

#: Values of PHASE: what a worker's unit in Python is.
NOTHING: Final = 0
WHOLE: Final = 1  # a chunk of a stateless or stateful operator
RANGE: Final = 2  # one partition of a chunk
JOIN: Final = 3  # the merge of a chunk's ranges
PICKED: Final = 4  # the policy was asked

#: Interpreted code that holds the token for longer than this is probably waiting for something.
STALE_NS: Final = 10_000_000
#: A sleeping worker looks for itself from time to time, microseconds.
_NAP_US: Final = 50_000
_MANY: Final = 1 << 60
#: Units with fewer rows are timed only now and then, once the cost is known.
_TIMED_ROWS: Final = 64
_TIMED_EVERY: Final = 15
#: A cost is that of about so many tuples and units of late: what small first steps cost is soon forgotten.
_REMEMBERED_TUPLES: Final = 4_096
_REMEMBERED_UNITS: Final = 8
#: A cost so many times that of the unit that was just timed is forgotten faster.
_OUTLIER: Final = 4


# -- the token of interpreted code -----------------------------------------------------------------------------


@shared
def take_token(mem: Int64s, w: int, me: int, alone: bool) -> bool:
    """Whether the worker may run interpreted code: alone, or beside one that has done so for so long that it waits.

    However many workers wait in an operator, one stays free for the others: ``alone`` says that nobody else is in it.
    """
    if mem[me + TOKEN_HELD]:
        return True
    if cas(mem, TOKEN, 0, w + 1):
        store(mem, TOKEN_SINCE, now_ns())
        mem[me + TOKEN_HELD] = HOLDS_TOKEN
        return True
    if now_ns() - load(mem, TOKEN_SINCE) <= STALE_NS:
        return False
    others = add(mem, BESIDE, 1)
    if not alone and others + 2 >= load(mem, ACTIVE):
        add(mem, BESIDE, -1)
        return False
    mem[me + TOKEN_HELD] = RUNS_BESIDE
    return True


@shared
def leave_token(mem: Int64s, me: int) -> None:
    """The worker has run its interpreted code."""
    if mem[me + TOKEN_HELD] == HOLDS_TOKEN:
        store(mem, TOKEN, 0)
        unpark(mem, mem[PARKED])
    elif mem[me + TOKEN_HELD] == RUNS_BESIDE:
        add(mem, BESIDE, -1)
        unpark(mem, mem[PARKED])
    mem[me + TOKEN_HELD] = 0


# -- visits ----------------------------------------------------------------------------------------------------


@shared
def _begin_visit(mem: Int64s, w: int, me: int, op: int, helping: bool) -> bool:
    o = op_at(mem, op)
    if mem[o + NEEDS_TOKEN] and not take_token(mem, w, me, load(mem, o + BUSY) == 0):
        return False
    if add(mem, o + BUSY, 1) >= mem[o + LIMIT]:
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
    mem[me + BUDGET] = mem[BATCH] if mem[MODE] == BY_ROUND else _tuples_of_slice(mem, w, op)
    mem[me + LOOKED] = 0
    if mem[PREEMPTS] and not helping:
        mem[me + BUDGET] = mem[me + LOOKED] = _MANY
        mem[me + BEGAN] = now_ns()
    return True


@shared
def _tuples_of_slice(mem: Int64s, w: int, op: int) -> int:
    """How many tuples fit a time slice, by this worker's own measure of the cost."""
    stat = stat_at(mem, w, op)
    if mem[stat + S_TIMED] == 0 or mem[stat + S_NS] == 0:
        return 1
    return max(mem[SLICE] * mem[stat + S_TIMED] // mem[stat + S_NS], 1)


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
    unpark(mem, mem[PARKED])
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
def is_timed(mem: Int64s, stat: int, rows: int) -> bool:
    """Whether the time of a unit of so many tuples is taken: always, until the operator's cost is known."""
    if rows >= _TIMED_ROWS or mem[stat + S_TIMED] < SAMPLE_TUPLES:
        return True
    return mem[stat + S_UNITS] & _TIMED_EVERY == 0


@shared
def _started(mem: Int64s, stat: int, rows: int) -> int:
    """The time, where this unit's is taken; else 0."""
    return now_ns() if is_timed(mem, stat, rows) else 0


@shared
def _remember_cost(mem: Int64s, stat: int, rows: int, took: int) -> None:
    """Adds a unit to the times of tuples; older ones count less and less."""
    many = mem[stat + S_TIMED] > _REMEMBERED_TUPLES + _REMEMBERED_UNITS * rows
    # A first unit that made tables or met cold code says little about the next ones.
    much = mem[stat + S_NS] * rows > _OUTLIER * took * mem[stat + S_TIMED]
    if many or much:
        mem[stat + S_NS] >>= 1
        mem[stat + S_TIMED] >>= 1
    mem[stat + S_NS] += took
    mem[stat + S_TIMED] += rows


@shared
def _note(mem: Int64s, me: int, stat: int, started: int, rows_in: int, rows_out: int) -> None:
    mem[stat + S_UNITS] += 1
    mem[stat + S_IN] += rows_in
    mem[stat + S_OUT] += rows_out
    mem[me + BUDGET] -= max(rows_in, 1)
    mem[me + UNITS] -= 1
    mem[me + IDLE] = 0
    mem[me + REFUSED] = 0
    took = 0
    if started:
        now = now_ns()
        took = now - started
        mem[stat + S_LAST] = now
        # An empty chunk says nothing about what a tuple costs.
        if rows_in:
            _remember_cost(mem, stat, rows_in, took)
    elif mem[stat + S_TIMED]:
        took = rows_in * mem[stat + S_NS] // mem[stat + S_TIMED]
    mem[stat + S_WINDOW] += took
    mem[stat + S_BUSY] += took


@shared
def _input_address(mem: Int64s, o: int, number: int, handle: int) -> int:
    port = mem[PORTS] + (mem[o + FIRST_PORT] + number) * PORT_WORDS
    return mem[block_word(mem, handle_at(mem, handle), mem[port + REF])]


@shared
def _take_block(mem: Int64s, o: int, handle: int, block: int) -> None:
    """Makes a handle the owner of a block that machine code returned."""
    at = handle_at(mem, handle)
    mem[block_word(mem, at, 0)] = block
    if mem[o + IS_SPLIT]:
        mem[at + PARTS] = get_i(block + 8 * SPLIT_ROWS)
        return
    mem[at + OBJECT] = OWNS_BLOCK
    mem[at + COUNT] = get_i(block)
    if mem[o + PAYLOAD_WORD]:
        payload = get_i(block + 8 * mem[o + PAYLOAD_WORD])
        if payload >= 0:
            mem[at + HOLDS] = payload & PAYLOAD_MASK
            add(mem, handle_at(mem, payload & PAYLOAD_MASK) + READERS, 1)


@shared
def _finish_whole(mem: Int64s, w: int, me: int, started: int) -> None:
    """The unit of a stateless or stateful operator is done: its inputs are let go, its output goes on."""
    op, out = mem[me + OP], mem[me + SPARE]
    o = op_at(mem, op)
    rows_in = 0
    for i in range(mem[o + N_IN]):
        handle = mem[me + INPUTS + i]
        rows_in += mem[handle_at(mem, handle) + COUNT]
        if mem[o + IS_SPLIT]:
            # What was split stays until its ranges are merged.
            mem[handle_at(mem, out) + HOLDS] = handle
            mem[handle_at(mem, out) + COUNT] = rows_in
        else:
            release(mem, w, handle)
    mem[me + SPARE] = EMPTY
    _note(mem, me, stat_at(mem, w, op), started, rows_in, mem[handle_at(mem, out) + COUNT])
    publish(mem, w, op, out)
    if mem[o + KIND] == STATEFUL:
        relieve_waiting(mem, w, op)


@shared
def _run_whole(mem: Int64s, w: int, me: int, op: int) -> int:
    """Runs a unit on the inputs in INPUTS; 0, or PYTHON."""
    o, out = op_at(mem, op), mem[me + SPARE]
    first = mem[me + INPUTS]
    inherit(mem, op, first, out)
    for i in range(1, mem[o + N_IN]):
        join_clocks(mem, mem[me + INPUTS + i], out)
    rows = mem[handle_at(mem, first) + COUNT]
    started = _started(mem, stat_at(mem, w, op), rows)
    if mem[o + NATIVE]:
        at = handle_at(mem, first)
        scratch = me + SCRATCH
        mem[scratch] = 0
        mem[scratch + 1] = clock_of(mem, o, at)
        mem[scratch + 2] = 1 if mem[at + ENDING] and mem[at + ENDING] == mem[o + ENDING_NO] else 0
        address = _input_address(mem, o, 0, first)
        status, block = call3(mem[o + FN], mem[o + CTX], address, mem[BASE] + 8 * scratch)
        if status == 0 and block != 0:
            _take_block(mem, o, out, block)
            _finish_whole(mem, w, me, started)
            return 0
    mem[me + PHASE] = WHOLE
    mem[me + STARTED] = now_ns() if started == 0 else started
    return PYTHON


@shared
def _has_spare(mem: Int64s, me: int) -> bool:
    if mem[me + SPARE] == EMPTY:
        kept = mem[me + KEPT]
        if kept:
            mem[me + SPARE] = mem[me + KEPT_HANDLES + kept - 1]
            mem[me + KEPT] = kept - 1
        else:
            mem[me + SPARE] = new_handle(mem)
    return mem[me + SPARE] != EMPTY


@shared
def _stays(mem: Int64s, w: int, me: int) -> bool:
    """Whether the visit goes on: one to a queue that never empties ends when the worker is to suspend."""
    if mem[me + UNITS] <= 0 or mem[me + BUDGET] <= 0 or mem[me + HELP] != EMPTY:
        return False
    return mem[me + UNITS] >= mem[me + LOOKED] and w < load(mem, ACTIVE)


@shared
def _asks_whether_to_stay(mem: Int64s, w: int, me: int) -> bool:
    """Whether the policy is to say if the visit goes on: it has ended for no other reason than that a unit is done."""
    if mem[me + UNITS] >= mem[me + LOOKED] or mem[me + HELP] != EMPTY or w >= load(mem, ACTIVE):
        return False
    mem[me + LOOKED] = mem[me + UNITS]
    refresh_view(mem, w)
    return True


@shared
def _go_on_stateless(mem: Int64s, w: int, me: int, op: int) -> int:
    queue = mem[op_at(mem, op) + QUEUE]
    while _stays(mem, w, me):
        if not _has_spare(mem, me):
            return COLLECT
        handle = mpmc_pop(mem, queue)
        if handle == EMPTY:
            return 0
        mem[me + INPUTS] = handle
        code = _run_whole(mem, w, me, op)
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
        if not _has_spare(mem, me):
            return COLLECT
        if not _all_ports(mem, o):
            return 0
        full = without_room(mem, op)
        if full != EMPTY:
            store(mem, o + BLOCKED, 1)
            fence()
            full = without_room(mem, op)
            if full != EMPTY:
                mem[me + HELP] = full
                return 0
            store(mem, o + BLOCKED, 0)
        for i in range(mem[o + N_IN]):
            ring = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + RING]
            mem[me + INPUTS + i] = spsc_pop(mem, ring)
        code = _run_whole(mem, w, me, op)
        if code:
            return code
    return 0


@shared
def _finish_range(mem: Int64s, w: int, me: int, op: int, started: int) -> int:
    """A range is done; the chunk's last one merges. 0, or PYTHON for a merge there."""
    o, handle, part = op_at(mem, op), mem[me + INPUTS], mem[me + PART]
    at = handle_at(mem, handle)
    rows = get_i(mem[at + PARTS] + 8 * part)
    _note(mem, me, stat_at(mem, w, op), started, rows, 0)
    if not queue_done(mem, mem[o + QUEUE_KIND], mem[o + QUEUE], part):
        mem[me + PART] = EMPTY
    if add(mem, at + LEFT, -1) != 1:
        return 0
    out = mem[me + SPARE]
    inherit(mem, op, handle, out)
    if mem[o + NATIVE]:
        address = mem[block_word(mem, at, 0)]
        status, block = 1, 0
        if address:
            status, block = call3(
                mem[o + MERGE], mem[o + CTX], address, mem[BASE] + 8 * (me + SCRATCH)
            )
        if status == 0 and block != 0:
            _take_block(mem, o, out, block)
            _finish_join(mem, w, me, op)
            return 0
    if mem[me + PART] != EMPTY:
        # Merging may take long: others go on with the partition.
        queue_hand_over(mem, mem[o + QUEUE_KIND], mem[o + QUEUE], mem[me + PART])
        mem[me + PART] = EMPTY
    mem[me + PHASE] = JOIN
    mem[me + STARTED] = now_ns()
    return PYTHON


@shared
def _finish_join(mem: Int64s, w: int, me: int, op: int) -> None:
    out = mem[me + SPARE]
    mem[me + SPARE] = EMPTY
    mem[stat_at(mem, w, op) + S_OUT] += mem[handle_at(mem, out) + COUNT]
    release(mem, w, mem[me + INPUTS])
    publish(mem, w, op, out)


@shared
def _go_on_keyed(mem: Int64s, w: int, me: int, op: int) -> int:
    o = op_at(mem, op)
    kind, queue = mem[o + QUEUE_KIND], mem[o + QUEUE]
    while _stays(mem, w, me):
        if not _has_spare(mem, me):
            return COLLECT
        if mem[me + PART] == EMPTY:
            mem[me + PART] = queue_take(mem, kind, queue, w % mem[o + PARTITIONS])
            if mem[me + PART] == EMPTY:
                return 0
        code = _run_range(mem, w, me, op, queue_front(mem, kind, queue, mem[me + PART]))
        if code:
            return code
    return 0


@shared
def _run_range(mem: Int64s, w: int, me: int, op: int, handle: int) -> int:
    o, at, part = op_at(mem, op), handle_at(mem, handle), mem[me + PART]
    mem[me + INPUTS] = handle
    started = _started(mem, stat_at(mem, w, op), get_i(mem[at + PARTS] + 8 * part))
    if mem[o + NATIVE]:
        scratch = me + SCRATCH
        mem[scratch] = part
        mem[scratch + 1] = clock_of(mem, o, at)
        mem[scratch + 2] = 1 if mem[at + ENDING] and mem[at + ENDING] == mem[o + ENDING_NO] else 0
        address = mem[block_word(mem, at, 0)]
        status, code = 1, 0
        if address:
            status, code = call3(mem[o + FN], mem[o + CTX], address, mem[BASE] + 8 * scratch)
        if status == 0 and code != 0:
            return _finish_range(mem, w, me, op, started)
    mem[me + PHASE] = RANGE
    mem[me + STARTED] = now_ns() if started == 0 else started
    return PYTHON


@shared
def _resume(mem: Int64s, w: int, me: int) -> int:
    """Takes up the unit that Python has run; its output, if it has one, is the handle in SPARE."""
    phase, op = mem[me + PHASE], mem[me + OP]
    mem[me + PHASE] = NOTHING
    if mem[me + TOKEN_HELD] == HOLDS_TOKEN:
        store(mem, TOKEN_SINCE, now_ns())
    if phase == WHOLE:
        _finish_whole(mem, w, me, mem[me + STARTED])
    elif phase == RANGE:
        return _finish_range(mem, w, me, op, mem[me + STARTED])
    elif phase == JOIN:
        _finish_join(mem, w, me, op)
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
    return _go_on_stateful(mem, w, me, op)


@shared
def _rest(mem: Int64s, me: int) -> None:
    """Exponential back-off that ends in a sleep on a condition; a push wakes."""
    idle, own = mem[me + IDLE], mem[me + FIXED]
    mem[me + IDLE] = idle + 1
    if idle < 40:
        relax()
    elif idle < 60 and own == EMPTY:
        # Where each operator has a thread there are others, which have work.
        give_way()
    else:
        at = mem[PARKED] if own == EMPTY else mem[op_at(mem, own) + PARK]
        key = prepare(mem, at)
        if load(mem, STOP):
            cancel(mem, at)
        elif has_input(mem, own) if own != EMPTY else any_work(mem):
            if idle < 100:
                cancel(mem, at)
                give_way()
            else:
                # There is work, but others have what it needs.
                park(mem, at, key, min(1 << min(idle - 100, 10), 1000))
        else:
            park(mem, at, key, _NAP_US)


@shared
def _suspended(mem: Int64s) -> None:
    key = prepare(mem, mem[PARKED])
    park(mem, mem[PARKED], key, _NAP_US)


@shared
def work(mem: Int64s, w: int) -> int:
    """Runs the worker until it stops, or Python is needed: STOPPED, PYTHON, COLLECT, CHOOSE, MEETING, STAYING."""
    me = worker_at(mem, w)
    picked = mem[me + PHASE] == PICKED
    if mem[me + PHASE]:
        code = _resume(mem, w, me)
        if code:
            return code
    while True:
        if load(mem, STOP):
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
        if w >= load(mem, ACTIVE):
            mem[me + HELP] = EMPTY
            _suspended(mem)
            continue
        if not _has_spare(mem, me):
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
            _rest(mem, me)
        elif not _begin_visit(mem, w, me, op, helping):
            _leave_listed(mem, me, op)
            leave_token(mem, me)
            _rest(mem, me)


__all__ = [
    "CHOOSE",
    "COLLECT",
    "JOIN",
    "PYTHON",
    "RANGE",
    "STALE_NS",
    "STAYING",
    "STOPPED",
    "WHOLE",
    "is_runnable",
    "is_timed",
    "leave_token",
    "take_token",
    "work",
]
