"""The token of interpreted code: one worker at a time holds it, and more while the holder seems to block."""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import add, cas, load, shared, store
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.memory.layout import (
    ACTIVE,
    BESIDE,
    BUSY,
    FREELY,
    HOLDS_TOKEN,
    RUNS_BESIDE,
    RUNS_FREELY,
    TOKEN,
    TOKEN_HELD,
    TOKEN_SINCE,
    Int64s,
)
from thalweg.workers.memory.places import op_at
from thalweg.workers.worker_loop.waking import wake_worker

#: Interpreted code that holds the token for longer than this is probably waiting for something.
STALE_NS: Final = 10_000_000


@shared
def take_token(mem: Int64s, w: int, me: int, op: int) -> bool:
    """Whether the worker may run interpreted code of an operator that it is in.

    It may alone, or beside one that has done so for so long that it probably waits.
    Of an operator that was seen to wait so many workers may as its time is a multiple of its CPU time
    (:mod:`thalweg.elasticity.waiting`).

    However many workers wait in an operator, one stays free for the others, unless nobody else is in it.
    """
    if mem[me + TOKEN_HELD]:
        return True
    o = op_at(mem, op)
    if load(mem, o + BUSY) <= load(mem, o + FREELY):
        mem[me + TOKEN_HELD] = RUNS_FREELY
        return True
    if cas(mem, TOKEN, 0, w + 1):
        store(mem, TOKEN_SINCE, now_ns())
        mem[me + TOKEN_HELD] = HOLDS_TOKEN
        return True
    if now_ns() - load(mem, TOKEN_SINCE) <= STALE_NS:
        return False
    others = add(mem, BESIDE, 1)
    if load(mem, o + BUSY) > 1 and others + 2 >= load(mem, ACTIVE):
        add(mem, BESIDE, -1)
        return False
    mem[me + TOKEN_HELD] = RUNS_BESIDE
    return True


@shared
def leave_token(mem: Int64s, me: int) -> None:
    """The worker has run its interpreted code."""
    if mem[me + TOKEN_HELD] == HOLDS_TOKEN:
        store(mem, TOKEN, 0)
        wake_worker(mem)
    elif mem[me + TOKEN_HELD] == RUNS_BESIDE:
        add(mem, BESIDE, -1)
        wake_worker(mem)
    mem[me + TOKEN_HELD] = 0
