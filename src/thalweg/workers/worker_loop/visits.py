"""A visit of a worker to an operator: how it begins, how many tuples it is for, when it ends.

It lasts a time slice (Prasaad et al., section 6), counted in tuples by the measured cost, or a quarter of a queue where
a worker helps a full reader (Schneider & Wu, section 4.1.4).
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import (
    EMPTY,
    add,
    load,
    relax,
    shared,
)
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.lockfree.parking import unpark
from thalweg.workers.lockfree.rings import (
    lock_consumer,
    mpmc_push,
    unlock_consumer,
)
from thalweg.workers.memory.layout import (
    BATCH,
    BEGAN,
    BUDGET,
    BUSY,
    BY_ROUND,
    CAPACITY,
    FIRST_PORT,
    FIXED,
    FLAG,
    FREE_OPS,
    FREELY,
    HELP,
    KEYED,
    KIND,
    LIMIT,
    LISTED,
    LOOKED,
    MODE,
    N_OUT,
    NEEDS_TOKEN,
    OP,
    PART,
    PORT_WORDS,
    PORTS,
    PREEMPTS,
    QUEUE,
    QUEUE_KIND,
    RING,
    RUNS_FREELY,
    S_NS,
    S_TIMED,
    SETTLED,
    SLICE,
    STATEFUL,
    SUSPENDS,
    TOKEN_HELD,
    UNITS,
    Int64s,
)
from thalweg.workers.memory.places import op_at, stat_at
from thalweg.workers.worker_loop.dispatch import relieve
from thalweg.workers.worker_loop.round_barrier import tell_leader
from thalweg.workers.worker_loop.tokens import leave_token, take_token
from thalweg.workers.worker_loop.views import refresh_view
from thalweg.workers.worker_loop.waking import wake_worker
from thalweg.workers.worker_loop.worklists import queue_hand_over

_MANY: Final = 1 << 60
#: So long a visit within a round may go on in an operator that Python runs, ns.
_INTERPRETED_NS: Final = 1_000_000


@shared
def begin_visit(mem: Int64s, w: int, me: int, op: int, helping: bool) -> bool:
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
    mem[me + BUDGET] = tuples_of_visit(mem, w, op)
    mem[me + LOOKED] = 0
    if mem[PREEMPTS] and not helping and mem[me + FIXED] == EMPTY:
        mem[me + BUDGET] = mem[me + LOOKED] = _MANY
        mem[me + BEGAN] = now_ns()
    return True


@shared
def tuples_of_visit(mem: Int64s, w: int, op: int) -> int:
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
def end_visit(mem: Int64s, w: int, me: int) -> None:
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
    leave_listed(mem, me, op)
    leave_token(mem, me)
    wake_worker(mem)
    if mem[o + N_OUT] == 0:
        unpark(mem, mem[o + SETTLED])
    if mem[MODE] == BY_ROUND:
        tell_leader(mem)


@shared
def leave_listed(mem: Int64s, me: int, op: int) -> None:
    if mem[me + LISTED]:
        mem[me + LISTED] = 0
        while not mpmc_push(mem, mem[FREE_OPS], op):
            relax()


@shared
def stays(mem: Int64s, w: int, me: int) -> bool:
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
def asks_whether_to_stay(mem: Int64s, w: int, me: int) -> bool:
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
