"""The life of handles, by which chunks are known: taken, made the output of a step, read, and free again."""

from __future__ import annotations

from typing import Any, Final

from thalweg.compiler.runtime.calls import call3
from thalweg.times import BEFORE_ALL, NEVER
from thalweg.workers.lockfree.atomics import EMPTY, add, brief, give_way, load, shared
from thalweg.workers.lockfree.parking import unpark
from thalweg.workers.lockfree.rings import mpmc_pop, mpmc_push
from thalweg.workers.memory.layout import (
    CLOCK,
    CLOCKS,
    COUNT,
    ENDING,
    ENDING_NO,
    ENTRY,
    FREE,
    FREE_FN,
    GARBAGE,
    HOLDS,
    KEEP,
    KEPT,
    KEPT_HANDLES,
    MAKER,
    N_CLOCKS,
    OBJECT,
    PARTS,
    READERS,
    ROOM,
    ROUND,
    ROWS,
    SERIAL,
    SOURCE,
    Int64s,
)
from thalweg.workers.memory.places import block_word, handle_at, op_at, worker_at

#: Bits of a handle's OBJECT word: a Python object stands under its number; it owns a native block.
HAS_OBJECT: Final = 1
OWNS_BLOCK: Final = 2
#: Chunks with fewer rows do not count towards the rows on their way: the capacities bound them well enough.
FEW_ROWS: Final = 256


@brief
def new_handle(mem: Int64s) -> int:
    """A handle nobody uses, or EMPTY: then Python must let go of objects first."""
    return mpmc_pop(mem, mem[FREE])


@shared
def inherit(mem: Int64s, op: int, source: int, handle: int) -> None:
    """Makes a handle the output of an operator for the step of its input."""
    at, old = handle_at(mem, handle), handle_at(mem, source)
    mem[at + SERIAL] = mem[old + SERIAL]
    mem[at + ENTRY] = mem[old + ENTRY]
    mem[at + ENDING] = mem[old + ENDING]
    mem[at + ROUND] = mem[old + ROUND]
    mem[at + OBJECT] = 0
    mem[at + COUNT] = 0
    mem[at + PARTS] = 0
    mem[at + HOLDS] = EMPTY
    mem[at + MAKER] = op
    mem[block_word(mem, at, 0)] = 0
    for i in range(mem[N_CLOCKS]):
        mem[at + CLOCKS + i] = mem[old + CLOCKS + i]


@shared
def join_clocks(mem: Int64s, source: int, handle: int) -> None:
    """Takes over later clocks of another input of the same step."""
    at, old = handle_at(mem, handle), handle_at(mem, source)
    for i in range(mem[N_CLOCKS]):
        mem[at + CLOCKS + i] = max(mem[at + CLOCKS + i], mem[old + CLOCKS + i])


@shared
def clock_of(mem: Int64s, o: int, at: int) -> int:
    """Timers of an operator below this time are due in a step."""
    if mem[at + ENDING] and mem[at + ENDING] == mem[o + ENDING_NO]:
        return NEVER
    if mem[o + CLOCK] < 0:
        return BEFORE_ALL
    return mem[at + CLOCKS + mem[o + CLOCK]]


@shared
def recycle(mem: Int64s, worker: int, handle: int) -> None:
    """A handle is free: it stays with the worker for its next output, or goes back to all."""
    me = worker_at(mem, worker)
    kept = mem[me + KEPT]
    if kept < KEEP:
        mem[me + KEPT_HANDLES + kept] = handle
        mem[me + KEPT] = kept + 1
    else:
        give_back(mem, mem[FREE], handle)


@shared
def give_back(mem: Int64s, ring: int, handle: int) -> None:
    # Only a thread that stopped in the middle of taking a handle can make a push fail, for a moment.
    while not mpmc_push(mem, ring, handle):
        give_way()


@shared
def release(mem: Int64s, worker: int, handle: int) -> None:
    """One reader less; the last one frees the handle, its block and its hold on another handle."""
    while handle >= 0:
        at = handle_at(mem, handle)
        # Who finds itself the only reader needs no atomic operation: only readers make more readers.
        if load(mem, at + READERS) != 1 and add(mem, at + READERS, -1) != 1:
            return
        what, holds = mem[at + OBJECT], mem[at + HOLDS]
        if mem[at + COUNT] >= FEW_ROWS:
            o = op_at(mem, mem[at + MAKER])
            add(mem, op_at(mem, mem[o + SOURCE]) + ROWS, -mem[at + COUNT])
            unpark(mem, mem[o + ROOM])
        if what & OWNS_BLOCK:
            call3(mem[op_at(mem, mem[at + MAKER]) + FREE_FN], mem[block_word(mem, at, 0)], 0, 0)
        if what & HAS_OBJECT:
            give_back(mem, mem[GARBAGE], handle)
        else:
            recycle(mem, worker, handle)
        handle = holds


@brief
def collected(mem: Int64s, out: Any) -> int:
    """Handles whose objects may be let go, into ``out``; they are free from then on by :func:`free_handles`."""
    count = 0
    while count < len(out):
        handle = mpmc_pop(mem, mem[GARBAGE])
        if handle == EMPTY:
            break
        out[count] = handle
        count += 1
    return count


@brief
def free_handles(mem: Int64s, handles: Any, count: int) -> None:
    for i in range(count):
        give_back(mem, mem[FREE], handles[i])
