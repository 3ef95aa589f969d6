"""Steps of a flow: how they enter, and how a source waits for room or until all is done."""

from __future__ import annotations

from thalweg.workers.dispatch import publish
from thalweg.workers.lockfree.atomics import EMPTY, load, shared, store
from thalweg.workers.lockfree.parking import cancel, park, prepare, unpark
from thalweg.workers.memory.layout import (
    CAPACITY,
    DEDICATED,
    FLOW_OPS,
    HALTED,
    HOLDS,
    IN,
    INGRESS,
    KIND,
    MAKER,
    MODE,
    N_OPS,
    N_OUT,
    PARK,
    PARKED,
    ROOM,
    ROWS,
    ROWS_LIMIT,
    SERIAL,
    SETTLED,
    STOP,
    SUBMITTER,
    SUSPENDED,
    Int64s,
)
from thalweg.workers.memory.places import handle_at, op_at
from thalweg.workers.memory.room import sent


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
def wake_all(mem: Int64s) -> None:
    """Wakes workers, sources and who waits for the end."""
    unpark(mem, mem[PARKED])
    unpark(mem, mem[SUSPENDED])
    for op in range(load(mem, N_OPS)):
        o = op_at(mem, op)
        if mem[o + KIND] == INGRESS:
            unpark(mem, mem[o + ROOM])
            unpark(mem, mem[o + SETTLED])
        elif mem[MODE] == DEDICATED:
            unpark(mem, mem[o + PARK])
