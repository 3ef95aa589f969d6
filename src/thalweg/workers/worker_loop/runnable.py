"""Which operators can run now."""

from __future__ import annotations

from thalweg.workers.lockfree.atomics import EMPTY, load, shared
from thalweg.workers.lockfree.rings import spsc_len
from thalweg.workers.memory.layout import (
    BUSY,
    FIRST_PORT,
    INGRESS,
    KIND,
    LIMIT,
    N_IN,
    N_OPS,
    OWNER,
    PORT_WORDS,
    PORTS,
    RING,
    STATEFUL,
    Int64s,
)
from thalweg.workers.memory.places import op_at
from thalweg.workers.memory.room import full_reader, may_enter
from thalweg.workers.worker_loop.worklists import waiting_units


@shared
def has_input(mem: Int64s, op: int) -> bool:
    """Whether an operator has a unit to run: something in its worklist, of a stateful one at each port."""
    o = op_at(mem, op)
    if mem[o + KIND] == INGRESS:
        return may_enter(mem, op)
    if mem[o + KIND] == STATEFUL:
        for i in range(mem[o + N_IN]):
            if spsc_len(mem, mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + RING]) <= 0:
                return False
        return True
    return waiting_units(mem, o) > 0


@shared
def is_runnable(mem: Int64s, op: int) -> bool:
    """Whether any worker may run an operator now: it is none that has a thread of its own."""
    return mem[op_at(mem, op) + OWNER] == 0 and may_run(mem, op)


@shared
def may_run(mem: Int64s, op: int) -> bool:
    """Input there, room at every reader, and fewer workers than its limit."""
    o = op_at(mem, op)
    if load(mem, o + BUSY) >= mem[o + LIMIT]:
        return False
    return has_input(mem, op) and full_reader(mem, op) == EMPTY


@shared
def any_work(mem: Int64s) -> bool:
    """Whether any operator has input and may have one more worker; one with a thread of its own may not."""
    for op in range(load(mem, N_OPS)):
        o = op_at(mem, op)
        if mem[o + OWNER] == 0 and load(mem, o + BUSY) < mem[o + LIMIT] and has_input(mem, op):
            return True
    return False
