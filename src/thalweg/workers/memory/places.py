"""The offsets of operators, handles, workers and their counts in the shared memory."""

from __future__ import annotations

from thalweg.workers.lockfree.atomics import brief
from thalweg.workers.memory.layout import (
    CLOCKS,
    HANDLE_WORDS,
    HANDLES,
    MAX_OPS,
    N_CLOCKS,
    OP_WORDS,
    OPS,
    STAT_WORDS,
    STATS,
    WORKER_WORDS,
    WORKERS,
    Int64s,
)


@brief
def op_at(mem: Int64s, op: int) -> int:
    """Where an operator's words begin."""
    return mem[OPS] + op * OP_WORDS


@brief
def handle_at(mem: Int64s, handle: int) -> int:
    """Where a handle's words begin."""
    return mem[HANDLES] + handle * mem[HANDLE_WORDS]


@brief
def worker_at(mem: Int64s, worker: int) -> int:
    """Where a worker's words begin."""
    return mem[WORKERS] + worker * mem[WORKER_WORDS]


@brief
def stat_at(mem: Int64s, worker: int, op: int) -> int:
    """Where the counts of a worker for an operator begin."""
    return mem[STATS] + (worker * mem[MAX_OPS] + op) * STAT_WORDS


@brief
def block_word(mem: Int64s, at: int, ref: int) -> int:
    """Where a handle keeps the address of one of its streams' blocks."""
    return at + CLOCKS + mem[N_CLOCKS] + ref
