"""Finds the next operator of a worker; compiled into the worker loop."""

from __future__ import annotations

from typing import Final

from thalweg.compiler.runtime.calls import call3
from thalweg.workers.lockfree.atomics import EMPTY, load, relax, shared
from thalweg.workers.lockfree.rings import mpmc_pop, mpmc_push
from thalweg.workers.memory.layout import (
    BY_FREE_LIST,
    BY_PICK,
    BY_ROUND,
    FIXED,
    FREE_OPS,
    LISTED,
    MODE,
    N_OPS,
    PICK,
    REFUSED,
    VIEW,
    VIEW_OPS,
    Int64s,
)
from thalweg.workers.worker_loop.round_barrier import from_round
from thalweg.workers.worker_loop.runnable import is_runnable, may_run
from thalweg.workers.worker_loop.views import refresh_view

#: Instead of an operator: Python must ask the policy.
ASK: Final = -2
#: So often in a row a policy may leave work undone until a worker no longer heeds it: with the rests between, that
#: is a tenth of a second.
_PATIENCE: Final = 200


@shared
def _from_free_list(mem: Int64s, w: int, me: int) -> int:
    """Schneider & Wu, Fig. 4: the operator that has waited longest and can run; stops at the first one seen."""
    first = EMPTY
    while True:
        op = mpmc_pop(mem, mem[FREE_OPS])
        if op == EMPTY:
            return EMPTY
        if is_runnable(mem, op):
            mem[me + LISTED] = 1
            return op
        while not mpmc_push(mem, mem[FREE_OPS], op):
            relax()
        if op == first:
            return EMPTY
        if first == EMPTY:
            first = op


@shared
def next_operator(mem: Int64s, w: int, me: int) -> int:
    """An operator that can run, EMPTY, ASK, or ASK_ROUND."""
    own = load(mem, me + FIXED)
    if own != EMPTY:
        return own if may_run(mem, own) else EMPTY
    mode = mem[MODE]
    if mode == BY_FREE_LIST:
        return _from_free_list(mem, w, me)
    if mode == BY_ROUND:
        return from_round(mem, w, me)
    if not refresh_view(mem, w):
        mem[me + REFUSED] = 0
        return EMPTY
    mem[me + REFUSED] += 1
    if mem[me + REFUSED] > _PATIENCE:
        return _any_runnable(mem)
    if mode == BY_PICK:
        status, op = call3(mem[PICK], mem[me + VIEW], w, mem[me + VIEW_OPS])
        if status == 0 and EMPTY <= op < mem[me + VIEW_OPS]:
            return if_runnable(mem, op)
    # Also where compiled code raised, or named no operator: Python says what is wrong.
    return ASK


@shared
def if_runnable(mem: Int64s, op: int) -> int:
    """What a policy picked, or EMPTY where it cannot run (any more)."""
    return op if op > 0 and is_runnable(mem, op) else EMPTY


@shared
def _any_runnable(mem: Int64s) -> int:
    """Some operator that can run: a policy that goes on picking none, or one that cannot run, must not end the run."""
    for op in range(1, load(mem, N_OPS)):
        if is_runnable(mem, op):
            return op
    return EMPTY
