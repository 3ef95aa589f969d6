"""The room that readers have left.

Room is counted from an operator's inbox to its output: a chunk is let in only if its serial lies below the next
output's plus the operator's capacity. So worklists and reorder buffers never overflow.
"""

from __future__ import annotations

from thalweg.workers.lockfree.atomics import EMPTY, load, shared
from thalweg.workers.lockfree.reorder import next_to_send
from thalweg.workers.lockfree.rings import spsc_free
from thalweg.workers.memory.layout import (
    CAPACITY,
    CREDIT,
    EDGES,
    FULL_EDGE,
    IN,
    KIND,
    N_OUT,
    OFFERED,
    OUT,
    PORT_WORDS,
    PORTS,
    READER,
    REORDER,
    RING,
    ROWS,
    ROWS_LIMIT,
    STATEFUL,
    Int64s,
)
from thalweg.workers.memory.places import op_at


@shared
def sent(mem: Int64s, o: int) -> int:
    """How many steps an operator has put out."""
    if mem[o + KIND] == STATEFUL:
        return load(mem, o + OUT)
    return next_to_send(mem, mem[o + REORDER])


@shared
def has_room(mem: Int64s, source: int) -> bool:
    """Whether a flow's ingress may take a step."""
    o = op_at(mem, source)
    entered = mem[o + IN] - sent(mem, o)
    return entered < mem[o + CAPACITY] and load(mem, o + ROWS) < mem[o + ROWS_LIMIT]


@shared
def may_enter(mem: Int64s, source: int) -> bool:
    """Whether a step is offered at a flow's ingress, and there is room for it."""
    return load(mem, op_at(mem, source) + OFFERED) != 0 and has_room(mem, source)


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
    least = 1 << 40
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
