"""How chunks move between operators on shared memory: through reorder buffers, in order, where there is room.

Every operator sees every step of the flow, in the order of the steps; so a step's number is its serial everywhere,
and an operator with several inputs takes the same step from each. A chunk is an int64 *handle* here.

What a unit of work put out waits in the operator's reorder buffer (Prasaad et al., Fig. 4) until it is its turn,
and is then sent downstream if every reader has room. Where one has none the output stays, the flag is cleared and
the reader becomes the worker's next operator (Schneider & Wu, Fig. 5: reSchedule, without its recursion). Whoever
makes room sends on what waited for it.
"""

from __future__ import annotations

from typing import Final

from thalweg.compiler.runtime.calls import get_i
from thalweg.times import BEFORE_ALL
from thalweg.workers.lockfree.atomics import EMPTY, add, fence, give_way, load, relax, shared, store
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.lockfree.parking import unpark
from thalweg.workers.lockfree.reorder import advance, begin, clear, pending, try_add
from thalweg.workers.lockfree.rings import mpmc_push, spsc_push
from thalweg.workers.memory.handles import FEW_ROWS, clock_of, release
from thalweg.workers.memory.layout import (
    BLOCKED,
    BY_PICK,
    BY_PYTHON,
    BY_ROUND,
    CAPACITY,
    COUNT,
    CREDIT,
    EARLIEST,
    EDGES,
    ENTERED,
    ENTRIES,
    ENTRIES_MASK,
    ENTRY,
    ENTRY_WORDS,
    FEEDER,
    FIRST_PORT,
    HELP,
    IN,
    INGRESS,
    KIND,
    LEFT,
    LOCKING,
    MAX_WORKERS,
    MODE,
    N_IN,
    N_OUT,
    ORDERED,
    OUT,
    OWNER,
    PARK,
    PARTITIONS,
    PARTS,
    PORT_WORDS,
    PORTS,
    QUEUE,
    QUEUE_KIND,
    READER,
    READERS,
    REORDER,
    RING,
    ROOM,
    ROWS,
    S_HELD,
    S_SENT,
    SERIAL,
    SETTLED,
    SOURCE,
    STACK_WORDS,
    STACKS,
    STATEFUL,
    STATELESS,
    TAKEN,
    TIMERS,
    TIMES_HELD,
    Int64s,
)
from thalweg.workers.memory.places import handle_at, op_at, stat_at, worker_at
from thalweg.workers.memory.room import full_reader, sent, without_room
from thalweg.workers.worker_loop.waking import wake_for, wake_worker
from thalweg.workers.worker_loop.worklists import queue_add, queue_pending

_UNKNOWN: Final = 1 << 40


@shared
def _enqueue_ranges(mem: Int64s, o: int, handle: int) -> None:
    """A unit for each partition that has rows or may have a timer due; at least one, which will merge."""
    at, queue, kind = handle_at(mem, handle), mem[o + QUEUE], mem[o + QUEUE_KIND]
    rows, clock, partitions = mem[at + PARTS], clock_of(mem, o, at), mem[o + PARTITIONS]
    timers = mem[o + TIMERS] != 0 and clock > BEFORE_ALL
    store(mem, at + LEFT, _UNKNOWN)
    mem[at + TAKEN] = 0
    held, count = EMPTY, 0
    for p in range(partitions):
        wanted = get_i(rows + 8 * p) > 0
        if not wanted and timers:
            # An idle partition's bound is exact; of a busy one nobody knows what it will arm.
            busy = queue_pending(mem, kind, queue, p) > 0
            wanted = busy or load(mem, mem[o + EARLIEST] + p) < clock
        if wanted:
            if held != EMPTY:
                queue_add(mem, kind, queue, held, handle)
            held = p
            count += 1
    if held == EMPTY:
        held, count = mem[at + SERIAL] % partitions, 1
    # The last unit is kept back until the number is known, so it cannot fall to zero before.
    add(mem, at + LEFT, count - _UNKNOWN)
    queue_add(mem, kind, queue, held, handle)


@shared
def _note_entry(mem: Int64s, port: int, entry: int) -> None:
    """Remembers what policies ask of a queue: its chunks' clock times, and when they came."""
    number, ring, mask = mem[port + ENTERED], mem[port + ENTRIES], mem[port + ENTRIES_MASK]
    mem[ring + ENTRY_WORDS * (number & mask)] = entry
    if mem[MODE] == BY_PICK or mem[MODE] == BY_PYTHON:
        before = mem[ring + ENTRY_WORDS * ((number - 1) & mask) + 1]
        mem[ring + ENTRY_WORDS * (number & mask) + 1] = before + (now_ns() >> 10)
    store(mem, port + ENTERED, number + 1)


@shared
def _enqueue(mem: Int64s, number: int, handle: int) -> None:
    port = mem[PORTS] + number * PORT_WORDS
    o = op_at(mem, mem[port + READER])
    mem[port + CREDIT] -= 1
    _note_entry(mem, port, mem[handle_at(mem, handle) + ENTRY])
    if mem[o + KIND] == STATEFUL:
        spsc_push(mem, mem[port + RING], handle)
    elif mem[o + KIND] == STATELESS:
        mpmc_push(mem, mem[o + QUEUE], handle)
    else:
        _enqueue_ranges(mem, o, handle)
    store(mem, o + IN, mem[o + IN] + 1)
    if mem[o + OWNER]:
        unpark(mem, mem[o + PARK])


@shared
def _note_held(mem: Int64s, worker: int, op: int, handle: int) -> None:
    """For how long a chunk was in an operator that is not a source."""
    if worker < mem[MAX_WORKERS] and mem[op_at(mem, op) + KIND] != INGRESS:
        stat = stat_at(mem, worker, op)
        mem[stat + S_HELD] += now_ns() - mem[handle_at(mem, handle) + TAKEN]
        mem[stat + S_SENT] += 1


@shared
def send_downstream(mem: Int64s, worker: int, op: int, handle: int) -> None:
    """To all readers, which have room."""
    o = op_at(mem, op)
    count = mem[o + N_OUT]
    if mem[TIMES_HELD]:
        _note_held(mem, worker, op, handle)
    if count == 0:
        release(mem, worker, handle)
    for e in range(count):
        _enqueue(mem, mem[mem[o + EDGES] + e], handle)


@shared
def _send_held(mem: Int64s, worker: int, op: int) -> tuple[int, int]:
    """Sends what is next while there is room, by the flag's holder: (how much was sent, the full reader)."""
    o = op_at(mem, op)
    buffer = mem[o + REORDER]
    moved = 0
    while True:
        handle = pending(mem, buffer)
        if handle == EMPTY:
            return moved, EMPTY
        full = without_room(mem, op)
        if full != EMPTY:
            store(mem, o + BLOCKED, 1)
            fence()
            full = without_room(mem, op)
            if full != EMPTY:
                return moved, full
        if load(mem, o + BLOCKED):
            store(mem, o + BLOCKED, 0)
        send_downstream(mem, worker, op, handle)
        advance(mem, buffer)
        moved += 1


@shared
def drain(mem: Int64s, worker: int, op: int) -> tuple[int, int]:
    """Sends what is next in an operator's reorder buffer, as long as there is room.

    Gives how much was sent, and the reader without room (EMPTY when that did not end it).

    Prasaad et al., Fig. 4, with room: an output that finds none stays in the buffer, and whoever makes room
    drains again. Whoever blocks says so before looking at the room a last time, so that one of both sees it.
    """
    buffer = mem[op_at(mem, op) + REORDER]
    moved, full = 0, EMPTY
    while begin(mem, buffer):
        more, full = _send_held(mem, worker, op)
        moved += more
        clear(mem, buffer)
        if full != EMPTY:
            if full_reader(mem, op) != EMPTY:
                break
        elif pending(mem, buffer) == EMPTY:
            break
    _tell(mem, op, moved)
    return moved, full


@shared
def _drain_locked(mem: Int64s, worker: int, op: int, serial: int, handle: int) -> tuple[int, int]:
    """As :func:`drain`, but adding and sending stand behind one lock, for which workers wait (Fig. 2)."""
    buffer = mem[op_at(mem, op) + REORDER]
    spins = 0
    while not begin(mem, buffer):
        spins += 1
        if spins < 40:
            relax()
        else:
            give_way()
    try_add(mem, buffer, serial, handle)
    moved, full = _send_held(mem, worker, op)
    clear(mem, buffer)
    _tell(mem, op, moved)
    if full != EMPTY:
        # Whoever made room since found the lock taken.
        more, full = drain(mem, worker, op)
        moved += more
    return moved, full


@shared
def _ask_for_help(mem: Int64s, worker: int, reader: int) -> None:
    """The reader without room is the worker's next operator; a source, which is no worker, waits.

    Within a round each operator is left to its own threads.
    """
    if worker < mem[MAX_WORKERS] and mem[MODE] != BY_ROUND:
        help_next(mem, worker_at(mem, worker), reader)


@shared
def help_next(mem: Int64s, me: int, reader: int) -> None:
    """The worker goes on with a reader without room, unless that has a thread of its own."""
    if mem[op_at(mem, reader) + OWNER] == 0:
        mem[me + HELP] = reader


@shared
def _tell(mem: Int64s, op: int, moved: int) -> None:
    """Wakes those who sleep for want of what was sent; sources only when half of the room is there again."""
    if moved:
        o = op_at(mem, op)
        _wake_behind(mem, o)
        if mem[o + KIND] == INGRESS and 2 * (mem[o + IN] - sent(mem, o)) <= mem[o + CAPACITY]:
            unpark(mem, mem[o + ROOM])


@shared
def _wake_behind(mem: Int64s, o: int) -> None:
    """Something was sent: for workers to go on with, or it was the end of its way."""
    if mem[o + N_OUT]:
        wake_worker(mem)
    else:
        unpark(mem, mem[o + SETTLED])


@shared
def relieve_waiting(mem: Int64s, worker: int, op: int) -> None:
    """As :func:`relieve`, but without a fence: may miss a feeder that begins to wait right now."""
    o = op_at(mem, op)
    for i in range(mem[o + N_IN]):
        feeder = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + FEEDER]
        if load(mem, op_at(mem, feeder) + BLOCKED):
            relieve(mem, worker, op)
            return


@shared
def relieve(mem: Int64s, worker: int, op: int) -> None:
    """Room was made in an operator's inboxes: what waited for it upstream goes on, as far up as it helps."""
    fence()
    stack = mem[STACKS] + worker * mem[STACK_WORDS]
    mem[stack] = op
    top = 1
    while top:
        top -= 1
        o = op_at(mem, mem[stack + top])
        for i in range(mem[o + N_IN]):
            feeder = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + FEEDER]
            f = op_at(mem, feeder)
            if load(mem, f + BLOCKED) == 0:
                continue
            if mem[f + KIND] == STATEFUL:
                store(mem, f + BLOCKED, 0)
                wake_for(mem, f)
            else:
                # Nobody is asked to help here: a worker that gains nothing must be free to look elsewhere.
                moved, _ = drain(mem, worker, feeder)
                if moved and top < mem[STACK_WORDS]:
                    mem[stack + top] = feeder
                    top += 1


@shared
def publish(mem: Int64s, worker: int, op: int, handle: int) -> None:
    """The output of a unit: to the reorder buffer, and on from there; of a stateful operator straight on."""
    o, at = op_at(mem, op), handle_at(mem, handle)
    store(mem, at + READERS, max(mem[o + N_OUT], 1))
    many = mem[at + COUNT] >= FEW_ROWS
    if many:
        add(mem, op_at(mem, mem[o + SOURCE]) + ROWS, mem[at + COUNT])
    if mem[o + KIND] == STATEFUL:
        send_downstream(mem, worker, op, handle)
        store(mem, o + OUT, mem[o + OUT] + 1)
        # Of many small units only some wake others; the end of the visit does in any case.
        if mem[o + OUT] & 7 == 0 or many:
            _wake_behind(mem, o)
        return
    if mem[o + ORDERED] == 0:
        # Without order an output's serial is given as it comes out.
        mem[at + SERIAL] = add(mem, o + OUT, 1)
    if mem[o + LOCKING]:
        moved, full = _drain_locked(mem, worker, op, mem[at + SERIAL], handle)
    else:
        try_add(mem, mem[o + REORDER], mem[at + SERIAL], handle)
        moved, full = drain(mem, worker, op)
    if full != EMPTY:
        _ask_for_help(mem, worker, full)
    if moved:
        relieve(mem, worker, op)
