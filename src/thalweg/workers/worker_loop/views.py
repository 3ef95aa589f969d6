"""What a policy sees of the running flow: a :class:`~thalweg.scheduling.policy.FlowView` in native memory.

Each worker fills a view of its own before it asks the policy, so a pick never sees numbers change.
"""

from __future__ import annotations

from thalweg.compiler.runtime.support import get_f, get_i, put_f, put_i
from thalweg.scheduling.measures import (
    LEAST_COST_NS,
    LEAST_SELECTIVITY,
    PRIOR_COST_NS,
    PRIOR_SELECTIVITY,
    SAMPLE_TUPLES,
)
from thalweg.workers.lockfree.atomics import EMPTY, load, shared, store
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.lockfree.rings import spsc_len
from thalweg.workers.memory.layout import (
    BUSY,
    CAPACITY,
    COUNT,
    EDGES,
    ENTERED,
    ENTRIES,
    ENTRIES_MASK,
    ENTRY,
    ENTRY_WORDS,
    FEEDER,
    FIRST_PORT,
    FLOW_OPS,
    GONE,
    IN,
    INGRESS,
    KEYED,
    KIND,
    LIMIT,
    N_COUNTED,
    N_IN,
    N_OPS,
    N_OUT,
    N_PORTS,
    OFFERED,
    OWNER,
    PORT_FIELDS,
    PORT_WORDS,
    PORTS,
    PRIORITY,
    READER,
    RING,
    S_IN,
    S_LAST,
    S_NS,
    S_OUT,
    S_TIMED,
    S_UNITS,
    S_WINDOW,
    STATEFUL,
    VIEW,
    VIEW_FIELDS,
    VIEW_OPS,
    WINDOW,
    WINDOW_START,
    Int64s,
)
from thalweg.workers.memory.places import handle_at, op_at, stat_at, worker_at
from thalweg.workers.memory.room import full_reader, has_room, sent
from thalweg.workers.worker_loop.worklists import waiting_units


@shared
def _new_window(mem: Int64s, now: int) -> None:
    """Forgets the worker time of the window that is over."""
    if now - load(mem, WINDOW_START) < mem[WINDOW]:
        return
    store(mem, WINDOW_START, now)
    for w in range(load(mem, N_COUNTED)):
        for op in range(load(mem, N_OPS)):
            mem[stat_at(mem, w, op) + S_WINDOW] = 0


@shared
def tuples_waiting(mem: Int64s, op: int) -> int:
    """Tuples in an operator's worklist, from its chunks by the mean size of those it has seen."""
    o = op_at(mem, op)
    units = waiting_units(mem, o)
    if units <= 0:
        return 0
    if mem[o + KIND] == INGRESS:
        return _of_offer(mem, o, COUNT, 0)
    seen, rows = 0, 0
    for w in range(load(mem, N_COUNTED)):
        stat = stat_at(mem, w, op)
        seen += mem[stat]
        rows += mem[stat + S_IN]
    if seen == 0:
        return units
    return max(units * rows // seen, units)


@shared
def _of_offer(mem: Int64s, o: int, word: int, without: int) -> int:
    """A word of the step that is offered at an ingress."""
    offered = load(mem, o + OFFERED)
    return mem[handle_at(mem, offered - 1) + word] if offered else without


@shared
def _chunks_waiting(mem: Int64s, o: int, port: int) -> int:
    """Chunks in the queue of an input port."""
    if mem[o + KIND] == STATEFUL:
        return spsc_len(mem, mem[port + RING])
    if mem[o + KIND] == KEYED:
        # A chunk is several units here; those that have entered but are not out are looked at.
        return load(mem, o + IN) - sent(mem, o)
    return waiting_units(mem, o)


@shared
def _ages(mem: Int64s, port: int, waiting: int, now: int) -> tuple[int, int]:
    """Of so many chunks in a port's queue: when the source handed over the oldest, and when they came on average,
    monotonic ns; now where there are none."""
    entered = load(mem, port + ENTERED)
    if not 0 < waiting <= entered:
        return now, now
    ring, mask = mem[port + ENTRIES], mem[port + ENTRIES_MASK]
    oldest, newest = (entered - waiting) & mask, (entered - 1) & mask
    before = mem[ring + ENTRY_WORDS * ((oldest - 1) & mask) + 1]
    came = (mem[ring + ENTRY_WORDS * newest + 1] - before) // waiting << 10
    return mem[ring + ENTRY_WORDS * oldest], came


@shared
def _derive(mem: Int64s, base: int, n: int) -> None:
    """What follows from neighbours: cumulative selectivities, summed over paths, and the fullest reader."""
    for op in range(n):
        o, at = op_at(mem, op), base + 8 * op
        arriving = 1.0 if mem[o + KIND] == INGRESS else 0.0
        for i in range(mem[o + N_IN]):
            feeder = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + FEEDER]
            arriving += get_f(base + 8 * feeder + 56 * n)
        put_f(at + 48 * n, arriving)
        put_f(at + 56 * n, arriving * get_f(at + 40 * n))
        fullest = -1
        if mem[o + KIND] == GONE:
            put_i(at + 24 * n, fullest)
            continue
        for e in range(mem[o + N_OUT]):
            reader = mem[mem[PORTS] + mem[mem[o + EDGES] + e] * PORT_WORDS + READER]
            fullest = max(fullest, get_i(base + 8 * reader + 16 * n))
        put_i(at + 24 * n, fullest)


@shared
def _put_ports(mem: Int64s, base: int, n: int, op: int, rows_in: int, now: int) -> int:
    """The columns of a PortView for an operator's inputs; what writes to them stands in the view already.

    A step's rows are taken to be spread evenly over inputs, and to go along every edge. Returns the clock time of the
    oldest chunk of all inputs.
    """
    o, ports = op_at(mem, op), get_i(base + 8 * (VIEW_FIELDS * n + 1))
    size, first = 8 * ports, base + 8 * (VIEW_FIELDS * n + 2)
    cost, inputs, oldest = get_f(base + 8 * op + 32 * n), mem[o + N_IN], now
    rows = max(rows_in // max(sent(mem, o) * inputs, 1), 1)
    for i in range(inputs):
        number = mem[o + FIRST_PORT] + i
        port, at = mem[PORTS] + number * PORT_WORDS, first + 8 * number
        if number >= ports or mem[port + READER] != op:
            # Of a flow that was added this moment, or that is gone.
            continue
        chunks = _chunks_waiting(mem, o, port)
        head, came = _ages(mem, port, chunks, now)
        oldest = min(oldest, head)
        # One input's worklist is the queue; chunks of several partitions are units of their own in it.
        length = get_i(base + 8 * op + 16 * n) if inputs == 1 else rows * chunks
        put_i(at, op)
        put_i(at + size, length)
        put_i(at + 2 * size, rows * mem[o + CAPACITY])
        put_i(at + 3 * size, head)
        put_i(at + 4 * size, came)
        put_f(at + 5 * size, 1e9 / cost / inputs)
        feeder = base + 8 * mem[port + FEEDER]
        put_i(at + 6 * size, mem[port + FEEDER])
        put_i(at + 7 * size, number)
        put_f(
            at + 8 * size, 1e9 * get_f(feeder + 40 * n) / max(get_f(feeder + 32 * n), LEAST_COST_NS)
        )
    # Every operator takes the same step from all its inputs.
    put_f(first + PORT_FIELDS * size + 8 * op, 1.0)
    return oldest


@shared
def _begin_view(mem: Int64s, me: int, base: int, n: int, ports: int) -> None:
    """Says how many operators and ports the view has; where they are others than before, nothing else is left."""
    if mem[me + VIEW_OPS] == n and get_i(base + 8 * (VIEW_FIELDS * n + 1)) == ports:
        return
    for word in range((VIEW_FIELDS + 1) * n + 2 + PORT_FIELDS * ports):
        put_i(base + 8 * word, 0)
    mem[me + VIEW_OPS] = n
    put_i(base + 8 * (VIEW_FIELDS * n + 1), ports)


@shared
def _cost(timed: int, ns: int) -> float:
    """CPU time a tuple, ns, of so many whose time was taken."""
    return max(ns / timed, LEAST_COST_NS) if timed >= SAMPLE_TUPLES else PRIOR_COST_NS


@shared
def _selectivity(mem: Int64s, o: int, rows_in: int, rows_out: int) -> float:
    """Tuples out a tuple in; a sink puts nothing out, but lets all through."""
    if rows_in >= SAMPLE_TUPLES and mem[o + N_OUT] > 0:
        return max(rows_out / rows_in, LEAST_SELECTIVITY)
    return PRIOR_SELECTIVITY


@shared
def refresh_view(mem: Int64s, w: int) -> bool:
    """Fills the worker's view; whether any operator can run."""
    me, now = worker_at(mem, w), now_ns()
    _new_window(mem, now)
    base, n, any_runnable = mem[me + VIEW], load(mem, N_OPS), False
    _begin_view(mem, me, base, n, load(mem, N_PORTS))
    for op in range(n):
        o = op_at(mem, op)
        timed = ns = rows_in = rows_out = window = last = 0
        for v in range(load(mem, N_COUNTED)):
            stat = stat_at(mem, v, op)
            timed += mem[stat + S_TIMED]
            ns += mem[stat + S_NS]
            rows_in += mem[stat + S_IN]
            rows_out += mem[stat + S_OUT]
            window += mem[stat + S_WINDOW]
            last = max(last, mem[stat + S_LAST])
        waiting = tuples_waiting(mem, op)
        busy = load(mem, o + BUSY)
        runnable = waiting > 0 and busy < mem[o + LIMIT] and mem[o + OWNER] == 0
        if runnable and mem[o + KIND] == STATEFUL:
            for i in range(mem[o + N_IN]):
                port = mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS
                runnable = runnable and spsc_len(mem, mem[port + RING]) > 0
        elif runnable and mem[o + KIND] == INGRESS:
            runnable = has_room(mem, op)
        runnable = runnable and full_reader(mem, op) == EMPTY
        any_runnable = any_runnable or runnable
        at = base + 8 * op
        put_i(at, mem[o + KIND])
        put_i(at + 8 * n, op)
        put_i(at + 16 * n, waiting)
        put_f(at + 32 * n, _cost(timed, ns))
        put_f(at + 40 * n, _selectivity(mem, o, rows_in, rows_out))
        put_i(at + 64 * n, busy)
        put_i(at + 72 * n, mem[o + LIMIT])
        put_f(at + 80 * n, float(window))
        put_i(at + 88 * n, last)
        put_i(at + 104 * n, mem[o + PRIORITY])
        put_i(at + 112 * n, 1 if runnable else 0)
        head = _put_ports(mem, base, n, op, rows_in, now)
        put_i(at + 96 * n, _of_offer(mem, o, ENTRY, now) if mem[o + KIND] == INGRESS else head)
    put_i(base + 8 * VIEW_FIELDS * n, now)
    _derive(mem, base, n)
    return any_runnable


@shared
def dearest_ns(mem: Int64s, w: int, source: int) -> float:
    """What the operator of a flow that has most to do takes for one row of the sources, ns; -1 while nobody can tell.

    Nobody can while an operator has input, but few units have run, and too few tuples have been timed. By the thread
    that submits its steps, which has a view for nothing else: here it holds the tuples that leave an operator for one
    of the sources.

    Args:
        source: the flow's ingress.
    """
    leaving, dearest = mem[worker_at(mem, w) + VIEW], -1.0
    for op in range(source, source + mem[op_at(mem, source) + FLOW_OPS]):
        o = op_at(mem, op)
        units, timed, ns, rows_in, rows_out = 0, 0, 0, 0, 0
        for v in range(load(mem, N_COUNTED)):
            stat = stat_at(mem, v, op)
            units += mem[stat + S_UNITS]
            timed += mem[stat + S_TIMED]
            ns += mem[stat + S_NS]
            rows_in += mem[stat + S_IN]
            rows_out += mem[stat + S_OUT]
        arriving = 1.0 if op == source else 0.0
        for i in range(mem[o + N_IN]):
            feeder = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + FEEDER]
            arriving += get_f(leaving + 8 * (feeder - source))
        put_f(leaving + 8 * (op - source), arriving * _selectivity(mem, o, rows_in, rows_out))
        if op == source:
            continue
        if timed >= SAMPLE_TUPLES:
            dearest = max(dearest, _cost(timed, ns) * arriving)
        # Units are timed until so many tuples have been: where more have run, most chunks are empty.
        elif units < SAMPLE_TUPLES and (waiting_units(mem, o) > 0 or load(mem, o + BUSY) > 0):
            return -1.0
    return dearest
