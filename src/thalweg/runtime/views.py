"""What a policy sees of the running flow: a :class:`~thalweg.scheduling.policy.FlowView` in native memory.

Each worker fills a view of its own before it asks the policy, so a pick never sees numbers change.
"""

from __future__ import annotations

from thalweg.runtime.atomics import EMPTY, load, shared, store
from thalweg.runtime.clocks import now_ns
from thalweg.runtime.compiler.support import get_f, get_i, put_f, put_i
from thalweg.runtime.dispatch import full_reader, op_at, sent, waiting_units, worker_at
from thalweg.runtime.layout import (
    BUSY,
    CAPACITY,
    EDGES,
    ENTERED,
    ENTRIES,
    ENTRIES_MASK,
    ENTRY_WORDS,
    FEEDER,
    FIRST_PORT,
    IN,
    KEYED,
    KIND,
    LIMIT,
    N_IN,
    N_OPS,
    N_OUT,
    N_PORTS,
    N_WORKERS,
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
    S_WINDOW,
    STAT_WORDS,
    STATEFUL,
    STATS,
    VIEW,
    VIEW_FIELDS,
    WINDOW,
    WINDOW_START,
    Int64s,
)
from thalweg.runtime.rings import spsc_len
from thalweg.scheduling.measures import (
    LEAST_COST_NS,
    LEAST_SELECTIVITY,
    PRIOR_COST_NS,
    PRIOR_SELECTIVITY,
    SAMPLE_TUPLES,
)


@shared
def _new_window(mem: Int64s, now: int) -> None:
    """Forgets the worker time of the window that is over."""
    if now - load(mem, WINDOW_START) < mem[WINDOW]:
        return
    store(mem, WINDOW_START, now)
    for i in range(mem[N_WORKERS] * mem[N_OPS]):
        mem[mem[STATS] + i * STAT_WORDS + S_WINDOW] = 0


@shared
def tuples_waiting(mem: Int64s, op: int) -> int:
    """Tuples in an operator's worklist, from its chunks by the mean size of those it has seen."""
    o = op_at(mem, op)
    units = waiting_units(mem, o)
    if units <= 0:
        return 0
    seen, rows = 0, 0
    for w in range(mem[N_WORKERS]):
        stat = mem[STATS] + (w * mem[N_OPS] + op) * STAT_WORDS
        seen += mem[stat]
        rows += mem[stat + S_IN]
    if seen == 0:
        return units
    return max(units * rows // seen, units)


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
    put_f(base + 48 * n, 1.0)
    put_f(base + 56 * n, 1.0)
    for op in range(n):
        o, at = op_at(mem, op), base + 8 * op
        if op:
            arriving = 0.0
            for i in range(mem[o + N_IN]):
                feeder = mem[mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS + FEEDER]
                arriving += get_f(base + 8 * feeder + 56 * n)
            put_f(at + 48 * n, arriving)
            put_f(at + 56 * n, arriving * get_f(at + 40 * n))
        fullest = -1
        for e in range(mem[o + N_OUT]):
            reader = mem[mem[PORTS] + mem[mem[o + EDGES] + e] * PORT_WORDS + READER]
            fullest = max(fullest, get_i(base + 8 * reader + 16 * n))
        put_i(at + 24 * n, fullest)


@shared
def _put_ports(mem: Int64s, base: int, op: int, rows_in: int, now: int) -> int:
    """The columns of a PortView that an operator's own counts give: of its inputs, and of the edges that leave it.

    A step's rows are taken to be spread evenly over inputs, and to go along every edge. Returns the clock time of the
    oldest chunk of all inputs.
    """
    n, o = mem[N_OPS], op_at(mem, op)
    size, first = 8 * mem[N_PORTS], base + 8 * (VIEW_FIELDS * n + 2)
    cost, selectivity = get_f(base + 8 * op + 32 * n), get_f(base + 8 * op + 40 * n)
    inputs, oldest = mem[o + N_IN], now
    rows = max(rows_in // max(sent(mem, o) * inputs, 1), 1)
    for i in range(inputs):
        number = mem[o + FIRST_PORT] + i
        port, at = mem[PORTS] + number * PORT_WORDS, first + 8 * number
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
        put_i(at + 6 * size, mem[port + FEEDER])
        put_i(at + 7 * size, number)
    for e in range(mem[o + N_OUT]):
        put_f(first + 8 * size + 8 * mem[mem[o + EDGES] + e], 1e9 * selectivity / cost)
    # Every operator takes the same step from all its inputs.
    put_f(first + PORT_FIELDS * size + 8 * op, 1.0)
    return oldest


@shared
def refresh_view(mem: Int64s, w: int) -> bool:
    """Fills the worker's view; whether any operator can run."""
    n, now = mem[N_OPS], now_ns()
    _new_window(mem, now)
    base = mem[worker_at(mem, w) + VIEW]
    any_runnable = False
    for op in range(n):
        o = op_at(mem, op)
        timed = ns = rows_in = rows_out = window = last = 0
        for v in range(mem[N_WORKERS]):
            stat = mem[STATS] + (v * n + op) * STAT_WORDS
            timed += mem[stat + S_TIMED]
            ns += mem[stat + S_NS]
            rows_in += mem[stat + S_IN]
            rows_out += mem[stat + S_OUT]
            window += mem[stat + S_WINDOW]
            last = max(last, mem[stat + S_LAST])
        cost, selectivity = PRIOR_COST_NS, PRIOR_SELECTIVITY
        if timed >= SAMPLE_TUPLES:
            cost = max(ns / timed, LEAST_COST_NS)
        # A sink puts nothing out, but lets all through.
        if rows_in >= SAMPLE_TUPLES and mem[o + N_OUT] > 0:
            selectivity = max(rows_out / rows_in, LEAST_SELECTIVITY)
        waiting = tuples_waiting(mem, op)
        busy = load(mem, o + BUSY)
        runnable = op > 0 and waiting > 0 and busy < mem[o + LIMIT]
        if runnable and mem[o + KIND] == STATEFUL:
            for i in range(mem[o + N_IN]):
                port = mem[PORTS] + (mem[o + FIRST_PORT] + i) * PORT_WORDS
                runnable = runnable and spsc_len(mem, mem[port + RING]) > 0
        runnable = runnable and full_reader(mem, op) == EMPTY
        any_runnable = any_runnable or runnable
        at = base + 8 * op
        put_i(at, mem[o + KIND])
        put_i(at + 8 * n, op)
        put_i(at + 16 * n, waiting)
        put_f(at + 32 * n, cost)
        put_f(at + 40 * n, selectivity)
        put_i(at + 64 * n, busy)
        put_i(at + 72 * n, mem[o + LIMIT])
        put_f(at + 80 * n, float(window))
        put_i(at + 88 * n, last)
        put_i(at + 104 * n, mem[o + PRIORITY])
        put_i(at + 112 * n, 1 if runnable else 0)
        put_i(at + 96 * n, _put_ports(mem, base, op, rows_in, now))
    put_i(base + 8 * VIEW_FIELDS * n, now)
    put_i(base + 8 * (VIEW_FIELDS * n + 1), mem[N_PORTS])
    _derive(mem, base, n)
    return any_runnable


@shared
def dearest_ns(mem: Int64s) -> float:
    """What the operator that has most to do takes for one row of the sources, ns; -1 while nobody can tell.

    Nobody can while an operator has input and too few tuples have been timed. By the thread that submits steps.
    """
    w, n = mem[N_WORKERS], mem[N_OPS]
    refresh_view(mem, w)
    base, dearest = mem[worker_at(mem, w) + VIEW], -1.0
    for op in range(1, n):
        timed = 0
        for v in range(mem[N_WORKERS]):
            timed += mem[mem[STATS] + (v * n + op) * STAT_WORDS + S_TIMED]
        at = base + 8 * op
        if timed >= SAMPLE_TUPLES:
            dearest = max(dearest, get_f(at + 32 * n) * get_f(at + 48 * n))
        elif get_i(at + 16 * n) > 0 or get_i(at + 64 * n) > 0:
            return -1.0
    return dearest
