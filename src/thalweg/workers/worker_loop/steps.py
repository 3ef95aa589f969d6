"""Steps of a flow: how they enter, and how a source waits for room or until all is done."""

from __future__ import annotations

from thalweg.workers.lockfree.atomics import EMPTY, brief, cas, fence, load, shared, store
from thalweg.workers.lockfree.parking import cancel, park, prepare, unpark
from thalweg.workers.memory.layout import (
    BY_ROUND,
    ENTERING,
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
    OFFERED,
    OWNER,
    PARK,
    ROOM,
    SERIAL,
    SETTLED,
    STOP,
    SUBMITTER,
    Int64s,
)
from thalweg.workers.memory.places import handle_at, op_at
from thalweg.workers.memory.room import has_room, sent
from thalweg.workers.worker_loop.dispatch import publish
from thalweg.workers.worker_loop.waking import set_flags, wake_workers


@brief
def submit(mem: Int64s, source: int, handle: int) -> bool:
    """A new step of a flow, by the one thread that may; False when there is no room."""
    return has_room(mem, source) and _enter(
        mem, mem[op_at(mem, source) + SUBMITTER], source, handle
    )


@shared
def _enter(mem: Int64s, worker: int, source: int, handle: int) -> bool:
    o = op_at(mem, source)
    at = handle_at(mem, handle)
    serial = mem[o + IN]
    mem[at + SERIAL] = serial
    mem[at + MAKER] = source
    mem[at + HOLDS] = EMPTY
    store(mem, o + IN, serial + 1)
    publish(mem, worker, source, handle)
    return True


@brief
def offer(mem: Int64s, source: int, handle: int) -> bool:
    """Offers a new step of a flow to the workers, by the one thread that may; False: it is to be submitted.

    Within a round a source is an operator like others: a step enters when a worker comes to it by its priority (Haren,
    where ingress operators are scheduled, too). Until then its tuples wait outside, and more come to them.
    """
    if load(mem, MODE) != BY_ROUND:
        return False
    store(mem, op_at(mem, source) + OFFERED, handle + 1)
    # Either a worker sees the offer, or it is not asleep yet.
    fence()
    wake_workers(mem)
    return True


@shared
def admit(mem: Int64s, worker: int, source: int) -> bool:
    """Lets in the step that is offered, by any thread; False when there is none, or no room, or another is at it."""
    o = op_at(mem, source)
    if load(mem, o + OFFERED) == 0 or not cas(mem, o + ENTERING, 0, 1):
        return False
    offered, entered = load(mem, o + OFFERED), False
    if offered and has_room(mem, source):
        entered = _enter(mem, worker, source, offered - 1)
        store(mem, o + OFFERED, 0)
    store(mem, o + ENTERING, 0)
    if entered:
        unpark(mem, mem[o + ROOM])
    return entered


@brief
def withdraw(mem: Int64s, source: int) -> bool:
    """Takes back the step that is offered, by who has offered it; False when it is in, or about to be."""
    o = op_at(mem, source)
    if not cas(mem, o + ENTERING, 0, 1):
        return False
    is_there = load(mem, o + OFFERED) != 0
    store(mem, o + OFFERED, 0)
    store(mem, o + ENTERING, 0)
    return is_there


@shared
def wait_until_admitted(mem: Int64s, source: int, limit_us: int) -> bool:
    """Sleeps for a while unless the step that was offered is in, or lets it in where no worker will; whether it is."""
    o = op_at(mem, source)
    if load(mem, MODE) != BY_ROUND:
        # The policy was changed meanwhile.
        if not admit(mem, mem[o + SUBMITTER], source) and load(mem, o + OFFERED):
            wait_for_room(mem, source, min(limit_us, 1_000))
        return load(mem, o + OFFERED) == 0
    key = prepare(mem, mem[o + ROOM])
    if load(mem, o + OFFERED) == 0 or is_halted(mem, source):
        cancel(mem, mem[o + ROOM])
    else:
        park(mem, mem[o + ROOM], key, limit_us)
    return load(mem, o + OFFERED) == 0


@brief
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


@brief
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
    """Tells workers whether they go on, and wakes them, sources and who waits for the end."""
    set_flags(mem)
    for op in range(load(mem, N_OPS)):
        o = op_at(mem, op)
        if mem[o + KIND] == INGRESS:
            unpark(mem, mem[o + ROOM])
            unpark(mem, mem[o + SETTLED])
        elif mem[o + OWNER]:
            unpark(mem, mem[o + PARK])
