"""Runs a unit of work by machine code or leaves it to Python, times and counts it, and sends its output on."""

from __future__ import annotations

from typing import Final

from thalweg.compiler.runtime.calls import call3, get_i
from thalweg.scheduling.measures import SAMPLE_TUPLES
from thalweg.workers.lockfree.atomics import EMPTY, add, load, shared, store
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.memory.handles import (
    OWNS_BLOCK,
    clock_of,
    inherit,
    join_clocks,
    new_handle,
    release,
)
from thalweg.workers.memory.layout import (
    BASE,
    BUDGET,
    COUNT,
    CTX,
    ENDING,
    ENDING_NO,
    FIRST_PORT,
    FN,
    HOLDS,
    HOLDS_TOKEN,
    IDLE,
    INPUTS,
    IS_SPLIT,
    JOIN,
    KEPT,
    KEPT_HANDLES,
    KIND,
    LEFT,
    MERGE,
    N_IN,
    NATIVE,
    NOTHING,
    OBJECT,
    OFFERED,
    OP,
    PART,
    PARTS,
    PAYLOAD_MASK,
    PAYLOAD_WORD,
    PHASE,
    PORT_WORDS,
    PORTS,
    PYTHON,
    QUEUE,
    QUEUE_KIND,
    RANGE,
    READERS,
    REF,
    REFUSED,
    S_BUSY,
    S_IN,
    S_LAST,
    S_NS,
    S_OUT,
    S_TIMED,
    S_UNITS,
    S_WINDOW,
    SCRATCH,
    SPARE,
    SPLIT_ROWS,
    STARTED,
    STATEFUL,
    TAKEN,
    TIMES_HELD,
    TOKEN_HELD,
    TOKEN_SINCE,
    UNITS,
    WHOLE,
    Int64s,
)
from thalweg.workers.memory.places import block_word, handle_at, op_at, stat_at
from thalweg.workers.worker_loop.dispatch import publish, relieve_waiting
from thalweg.workers.worker_loop.steps import admit
from thalweg.workers.worker_loop.worklists import queue_done, queue_hand_over

#: Units with fewer rows are timed only now and then, once the cost is known.
_TIMED_ROWS: Final = 64
_TIMED_EVERY: Final = 15
#: A cost is that of about so many tuples and units of late: what small first steps cost is soon forgotten.
_REMEMBERED_TUPLES: Final = 4_096
_REMEMBERED_UNITS: Final = 8
#: A cost so many times that of the unit that was just timed is forgotten faster.
_OUTLIER: Final = 4


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
def has_spare(mem: Int64s, me: int) -> bool:
    if mem[me + SPARE] == EMPTY:
        kept = mem[me + KEPT]
        if kept:
            mem[me + SPARE] = mem[me + KEPT_HANDLES + kept - 1]
            mem[me + KEPT] = kept - 1
        else:
            mem[me + SPARE] = new_handle(mem)
    return mem[me + SPARE] != EMPTY


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
def run_whole(mem: Int64s, w: int, me: int, op: int) -> int:
    """Runs a unit on the inputs in INPUTS; 0, or PYTHON."""
    o, out = op_at(mem, op), mem[me + SPARE]
    first = mem[me + INPUTS]
    inherit(mem, op, first, out)
    for i in range(1, mem[o + N_IN]):
        join_clocks(mem, mem[me + INPUTS + i], out)
    rows = mem[handle_at(mem, first) + COUNT]
    started = _started(mem, stat_at(mem, w, op), rows)
    if mem[TIMES_HELD]:
        mem[handle_at(mem, out) + TAKEN] = now_ns()
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
def run_ingress(mem: Int64s, w: int, me: int, op: int) -> None:
    """Lets in the step that a source offers, which is all that a visit to an ingress is."""
    offered, stat = load(mem, op_at(mem, op) + OFFERED), stat_at(mem, w, op)
    if offered:
        rows = mem[handle_at(mem, offered - 1) + COUNT]
        started = _started(mem, stat, rows)
        if admit(mem, w, op):
            _note(mem, me, stat, started, rows, rows)
    mem[me + UNITS] = 0


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
    mem[handle_at(mem, out) + TAKEN] = mem[at + TAKEN]
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
def run_range(mem: Int64s, w: int, me: int, op: int, handle: int) -> int:
    o, at, part = op_at(mem, op), handle_at(mem, handle), mem[me + PART]
    mem[me + INPUTS] = handle
    if mem[TIMES_HELD] and mem[at + TAKEN] == 0:
        # Where two begin at once either time will do.
        mem[at + TAKEN] = now_ns()
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
def resume_unit(mem: Int64s, w: int, me: int) -> int:
    """Takes up the unit that Python has run; its output, if it has one, is the handle in SPARE."""
    phase, op = mem[me + PHASE], mem[me + OP]
    mem[me + PHASE] = NOTHING
    if mem[me + TOKEN_HELD] == HOLDS_TOKEN:
        store(mem, TOKEN_SINCE, now_ns())
    if phase == WHOLE:
        _finish_whole(mem, w, me, mem[me + STARTED])
    elif phase == RANGE:
        # Where machine code gave up, Python made tables or called a function again: that says little about other units.
        started = 0 if mem[op_at(mem, op) + NATIVE] else mem[me + STARTED]
        return _finish_range(mem, w, me, op, started)
    elif phase == JOIN:
        _finish_join(mem, w, me, op)
    return 0
