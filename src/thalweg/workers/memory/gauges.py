"""Measures running workers for elasticity, from counts that they keep anyway.

How long an inbox is full (Sahin & Gedik, 4.2.1: the write blocked ratio) is found by looking often. A worker that
counted it would have to read the clock, and to write what others read, exactly where it is held up.
"""

from __future__ import annotations

from thalweg.workers.lockfree.atomics import EMPTY, load, shared
from thalweg.workers.memory.layout import (
    ACTIVE,
    FIRST_PORT,
    GONE,
    KIND,
    N_IN,
    N_OPS,
    N_WORKERS,
    OP,
    PORT_WORDS,
    PORTS,
    Int64s,
)
from thalweg.workers.memory.places import op_at, worker_at
from thalweg.workers.memory.room import room_behind


@shared
def count_full(mem: Int64s, counts: Int64s) -> None:
    """Adds one to the count of each operator that has a full inbox now; ``counts`` has a word an operator."""
    for op in range(min(load(mem, N_OPS), len(counts))):
        o = op_at(mem, op)
        if mem[o + KIND] == GONE:
            continue
        for i in range(mem[o + N_IN]):
            if room_behind(mem, mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS) <= 0:
                counts[op] += 1
                break


@shared
def still_running(mem: Int64s) -> int:
    """How many workers are in an operator though they are told to suspend."""
    count = 0
    for worker in range(load(mem, ACTIVE), load(mem, N_WORKERS)):
        if load(mem, worker_at(mem, worker) + OP) != EMPTY:
            count += 1
    return count
