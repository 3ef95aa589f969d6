"""How chunks move between operators on shared memory: worklists, reorder buffers, room, and the life of handles.

Every operator sees every step of the flow, in the order of the steps; so a step's number is its serial everywhere,
and an operator with several inputs takes the same step from each. A chunk is an int64 *handle* here.

What a unit of work put out waits in the operator's reorder buffer (Prasaad et al., Fig. 4) until it is its turn,
and is then sent downstream if every reader has room. Where one has none the output stays, the flag is cleared and
the reader becomes the worker's next operator (Schneider & Wu, Fig. 5: reSchedule, without its recursion). Whoever
makes room sends on what waited for it.

Room is counted from an operator's inbox to its output: a chunk is let in only if its serial lies below the next
output's plus the operator's capacity. So worklists and reorder buffers never overflow.
"""

from __future__ import annotations

from typing import Any, Final

from thalweg.runtime.atomics import EMPTY, add, fence, give_way, load, relax, shared, store
from thalweg.runtime.buckets import (
    hybrid_add,
    hybrid_done,
    hybrid_front,
    hybrid_hand_over,
    hybrid_len,
    hybrid_pending,
    hybrid_take,
    partitioned_add,
    partitioned_done,
    partitioned_front,
    partitioned_hand_over,
    partitioned_len,
    partitioned_pending,
    partitioned_take,
    shared_add,
    shared_done,
    shared_front,
    shared_len,
    shared_pending,
    shared_take,
)
from thalweg.runtime.clocks import now_ns
from thalweg.runtime.layout import (
    BLOCKED,
    BY_PICK,
    BY_PYTHON,
    BY_ROUND,
    CAPACITY,
    CLOCK,
    CLOCKS,
    COUNT,
    CREDIT,
    DEDICATED,
    EARLIEST,
    EDGES,
    ENDING,
    ENDING_NO,
    ENTERED,
    ENTRIES,
    ENTRIES_MASK,
    ENTRY,
    ENTRY_WORDS,
    FEEDER,
    FIRST_PORT,
    FLOW_OPS,
    FREE,
    FREE_FN,
    FULL_EDGE,
    GARBAGE,
    HALTED,
    HANDLE_WORDS,
    HANDLES,
    HELP,
    HOLDS,
    HYBRID,
    IN,
    INGRESS,
    KEEP,
    KEPT,
    KEPT_HANDLES,
    KEYED,
    KIND,
    LEFT,
    LOCKING,
    MAKER,
    MAX_OPS,
    MAX_WORKERS,
    MODE,
    N_CLOCKS,
    N_IN,
    N_OPS,
    N_OUT,
    OBJECT,
    OP_WORDS,
    OPS,
    ORDERED,
    OUT,
    PARK,
    PARKED,
    PARTITIONED,
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
    ROUND,
    ROWS,
    ROWS_LIMIT,
    SERIAL,
    SETTLED,
    SOURCE,
    STACK_WORDS,
    STACKS,
    STAT_WORDS,
    STATEFUL,
    STATELESS,
    STATS,
    STOP,
    SUBMITTER,
    TIMERS,
    WORKER_WORDS,
    WORKERS,
    Int64s,
)
from thalweg.runtime.native.calls import call3, get_i
from thalweg.runtime.parking import cancel, park, prepare, unpark
from thalweg.runtime.reorder import advance, begin, clear, next_to_send, pending, try_add
from thalweg.runtime.rings import mpmc_len, mpmc_pop, mpmc_push, spsc_free, spsc_len, spsc_push
from thalweg.times import BEFORE_ALL, NEVER

#: Bits of a handle's OBJECT word: a Python object stands under its number; it owns a native block.
HAS_OBJECT: Final = 1
OWNS_BLOCK: Final = 2
#: Chunks with fewer rows do not count towards the rows on their way: the capacities bound them well enough.
FEW_ROWS: Final = 256
_UNKNOWN: Final = 1 << 40


@shared
def op_at(mem: Int64s, op: int) -> int:
    """Where an operator's words begin."""
    return mem[OPS] + op * OP_WORDS


@shared
def handle_at(mem: Int64s, handle: int) -> int:
    """Where a handle's words begin."""
    return mem[HANDLES] + handle * mem[HANDLE_WORDS]


@shared
def worker_at(mem: Int64s, worker: int) -> int:
    """Where a worker's words begin."""
    return mem[WORKERS] + worker * mem[WORKER_WORDS]


@shared
def stat_at(mem: Int64s, worker: int, op: int) -> int:
    """Where the counts of a worker for an operator begin."""
    return mem[STATS] + (worker * mem[MAX_OPS] + op) * STAT_WORDS


@shared
def block_word(mem: Int64s, at: int, ref: int) -> int:
    """Where a handle keeps the address of one of its streams' blocks."""
    return at + CLOCKS + mem[N_CLOCKS] + ref


# -- queues by kind --------------------------------------------------------------------------------------------


@shared
def queue_add(mem: Int64s, kind: int, at: int, partition: int, handle: int) -> bool:
    if kind == HYBRID:
        return hybrid_add(mem, at, partition, handle)
    if kind == PARTITIONED:
        return partitioned_add(mem, at, partition, handle)
    return shared_add(mem, at, partition, handle)


@shared
def queue_take(mem: Int64s, kind: int, at: int, start: int) -> int:
    """A partition that the caller owns from now on, or EMPTY."""
    if kind == HYBRID:
        return hybrid_take(mem, at)
    if kind == PARTITIONED:
        return partitioned_take(mem, at, start)
    return shared_take(mem, at)


@shared
def queue_front(mem: Int64s, kind: int, at: int, partition: int) -> int:
    if kind == HYBRID:
        return hybrid_front(mem, at, partition)
    if kind == PARTITIONED:
        return partitioned_front(mem, at, partition)
    return shared_front(mem, at, partition)


@shared
def queue_done(mem: Int64s, kind: int, at: int, partition: int) -> bool:
    """Whether the owner goes on with the partition."""
    if kind == HYBRID:
        return hybrid_done(mem, at, partition)
    if kind == PARTITIONED:
        return partitioned_done(mem, at, partition)
    return shared_done(mem, at, partition)


@shared
def queue_hand_over(mem: Int64s, kind: int, at: int, partition: int) -> None:
    """Leaves a partition with units in its queue to others; an owner in the shared queue has one unit only."""
    if kind == HYBRID:
        hybrid_hand_over(mem, at, partition)
    elif kind == PARTITIONED:
        partitioned_hand_over(mem, at, partition)


@shared
def queue_pending(mem: Int64s, kind: int, at: int, partition: int) -> int:
    if kind == HYBRID:
        return hybrid_pending(mem, at, partition)
    if kind == PARTITIONED:
        return partitioned_pending(mem, at, partition)
    return shared_pending(mem, at, partition)


@shared
def queue_len(mem: Int64s, kind: int, at: int) -> int:
    if kind == HYBRID:
        return hybrid_len(mem, at)
    if kind == PARTITIONED:
        return partitioned_len(mem, at)
    return shared_len(mem, at)


# -- handles ---------------------------------------------------------------------------------------------------


@shared
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


# -- sending ---------------------------------------------------------------------------------------------------


@shared
def sent(mem: Int64s, o: int) -> int:
    """How many steps an operator has put out."""
    if mem[o + KIND] == STATEFUL:
        return load(mem, o + OUT)
    return next_to_send(mem, mem[o + REORDER])


@shared
def full_reader(mem: Int64s, op: int) -> int:
    """A reader without room, EMPTY when all have some.

    The one that had none the last time is looked at first: beside a thousand others it is the one that matters.
    """
    o = op_at(mem, op)
    count, hint = mem[o + N_OUT], mem[o + FULL_EDGE]
    for i in range(count):
        port = mem[PORTS] + mem[mem[o + EDGES] + (hint + i) % count] * PORT_WORDS
        if room_behind(mem, port) <= 0:
            return mem[port + READER]
    return EMPTY


@shared
def room_behind(mem: Int64s, port: int) -> int:
    """For how many chunks there is room behind a port."""
    r = op_at(mem, mem[port + READER])
    if mem[r + KIND] == STATEFUL:
        return spsc_free(mem, mem[port + RING])
    return mem[r + CAPACITY] - (load(mem, r + IN) - sent(mem, r))


@shared
def room(mem: Int64s, op: int) -> int:
    """Chunks that fit into the fullest inbox behind an operator that has readers."""
    o = op_at(mem, op)
    least = _UNKNOWN
    for e in range(mem[o + N_OUT]):
        least = min(least, room_behind(mem, mem[PORTS] + mem[mem[o + EDGES] + e] * PORT_WORDS))
    return max(least, 0)


@shared
def without_room(mem: Int64s, op: int) -> int:
    """As :func:`full_reader`, by the one thread that sends for the operator: it remembers the room that it saw."""
    o = op_at(mem, op)
    count, hint = mem[o + N_OUT], mem[o + FULL_EDGE]
    for i in range(count):
        edge = (hint + i) % count
        port = mem[PORTS] + mem[mem[o + EDGES] + edge] * PORT_WORDS
        if mem[port + CREDIT] <= 0:
            mem[port + CREDIT] = room_behind(mem, port)
            if mem[port + CREDIT] <= 0:
                mem[o + FULL_EDGE] = edge
                return mem[port + READER]
    return EMPTY


@shared
def clock_of(mem: Int64s, o: int, at: int) -> int:
    """Timers of an operator below this time are due in a step."""
    if mem[at + ENDING] and mem[at + ENDING] == mem[o + ENDING_NO]:
        return NEVER
    if mem[o + CLOCK] < 0:
        return BEFORE_ALL
    return mem[at + CLOCKS + mem[o + CLOCK]]


@shared
def _enqueue_ranges(mem: Int64s, o: int, handle: int) -> None:
    """A unit for each partition that has rows or may have a timer due; at least one, which will merge."""
    at, queue, kind = handle_at(mem, handle), mem[o + QUEUE], mem[o + QUEUE_KIND]
    rows, clock, partitions = mem[at + PARTS], clock_of(mem, o, at), mem[o + PARTITIONS]
    timers = mem[o + TIMERS] != 0 and clock > BEFORE_ALL
    store(mem, at + LEFT, _UNKNOWN)
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
    if mem[MODE] == DEDICATED:
        unpark(mem, mem[o + PARK])


@shared
def wake_all(mem: Int64s) -> None:
    """Wakes workers, sources and who waits for the end."""
    unpark(mem, mem[PARKED])
    for op in range(load(mem, N_OPS)):
        o = op_at(mem, op)
        if mem[o + KIND] == INGRESS:
            unpark(mem, mem[o + ROOM])
            unpark(mem, mem[o + SETTLED])
        elif mem[MODE] == DEDICATED:
            unpark(mem, mem[o + PARK])


@shared
def send_downstream(mem: Int64s, worker: int, op: int, handle: int) -> None:
    """To all readers, which have room."""
    o = op_at(mem, op)
    count = mem[o + N_OUT]
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
        mem[worker_at(mem, worker) + HELP] = reader


@shared
def _tell(mem: Int64s, op: int, moved: int) -> None:
    """Wakes those who sleep for want of what was sent; sources only when half of the room is there again."""
    if moved:
        o = op_at(mem, op)
        unpark(mem, mem[PARKED] if mem[o + N_OUT] else mem[o + SETTLED])
        if mem[o + KIND] == INGRESS and 2 * (mem[o + IN] - sent(mem, o)) <= mem[o + CAPACITY]:
            unpark(mem, mem[o + ROOM])


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
                unpark(mem, mem[f + PARK])
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
            unpark(mem, mem[o + SETTLED] if mem[o + N_OUT] == 0 else mem[PARKED])
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


# -- from outside ----------------------------------------------------------------------------------------------


@shared
def has_room(mem: Int64s, source: int) -> bool:
    """Whether a flow's ingress may take a step."""
    o = op_at(mem, source)
    entered = mem[o + IN] - sent(mem, o)
    return entered < mem[o + CAPACITY] and load(mem, o + ROWS) < mem[o + ROWS_LIMIT]


@shared
def submit(mem: Int64s, source: int, handle: int) -> bool:
    """A new step of a flow, by the one thread that may; False when there is no room."""
    if not has_room(mem, source):
        return False
    o = op_at(mem, source)
    at = handle_at(mem, handle)
    serial = mem[o + IN]
    mem[at + SERIAL] = serial
    mem[at + MAKER] = source
    mem[at + HOLDS] = EMPTY
    store(mem, o + IN, serial + 1)
    publish(mem, mem[o + SUBMITTER], source, handle)
    return True


@shared
def is_halted(mem: Int64s, source: int) -> bool:
    """Whether nobody is to wait for a flow any more."""
    return load(mem, STOP) != 0 or load(mem, op_at(mem, source) + HALTED) != 0


@shared
def wait_for_room(mem: Int64s, source: int, limit_us: int) -> None:
    """Sleeps until there may be room in a flow, or it is halted."""
    event = mem[op_at(mem, source) + ROOM]
    key = prepare(mem, event)
    if has_room(mem, source) or is_halted(mem, source):
        cancel(mem, event)
    else:
        park(mem, event, key, limit_us)


@shared
def settled(mem: Int64s, source: int) -> bool:
    """Whether every step that has entered a flow has left its operators without readers, and so all before them.

    An operator counts what it has sent only after its readers may have run it: who slept until *that* count is right
    might be woken too early by the last of them, and then by nobody.
    """
    s = op_at(mem, source)
    steps = load(mem, s + IN)
    for op in range(source, source + mem[s + FLOW_OPS]):
        o = op_at(mem, op)
        if mem[o + N_OUT] == 0 and sent(mem, o) < steps:
            return False
    return True


@shared
def wait_until_settled(mem: Int64s, source: int, limit_us: int) -> bool:
    """Sleeps for a while unless all of a flow is done; whether it is."""
    event = mem[op_at(mem, source) + SETTLED]
    key = prepare(mem, event)
    if settled(mem, source) or is_halted(mem, source):
        cancel(mem, event)
    else:
        park(mem, event, key, limit_us)
    return settled(mem, source)


@shared
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


@shared
def free_handles(mem: Int64s, handles: Any, count: int) -> None:
    for i in range(count):
        give_back(mem, mem[FREE], handles[i])


@shared
def waiting_units(mem: Int64s, o: int) -> int:
    """How many units an operator's worklist holds, about."""
    kind = mem[o + KIND]
    if kind == STATELESS:
        return mpmc_len(mem, mem[o + QUEUE])
    if kind == KEYED:
        return queue_len(mem, mem[o + QUEUE_KIND], mem[o + QUEUE])
    if kind == STATEFUL:
        return spsc_len(mem, mem[mem[PORTS] + mem[o + FIRST_PORT] * PORT_WORDS + RING])
    return 0
