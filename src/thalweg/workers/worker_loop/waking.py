"""How workers sleep and are woken, each by itself; and the flag of each that says whether it goes on.

Schneider & Wu, section 4.1.2: what a thread looks at in each turn of its loop stands on a line of its own, and who
changes it goes through all threads. A word that all look at would come from another core's cache each time it had
changed.

A worker that has one operator alone is woken for that, and for nothing else.

Who makes work available wakes one worker. One that was woken and has found something to run wakes the next one if there
is more, so as many are awake as there is work for, and nobody is woken for nothing.
"""

from __future__ import annotations

from thalweg.workers.lockfree.atomics import EMPTY, fence, load, shared, store
from thalweg.workers.lockfree.parking import cancel, park, prepare, unpark
from thalweg.workers.lockfree.sleepers import announce, claim, withdraw
from thalweg.workers.memory.layout import (
    ACTIVE,
    BY_ROUND,
    EVENT,
    FIXED,
    FLAG,
    GOES_ON,
    MAX_WORKERS,
    MODE,
    OWNER,
    PARK,
    SLEEPERS,
    STOP,
    STOPS,
    SUSPENDED,
    SUSPENDS,
    WOKEN,
    Int64s,
)
from thalweg.workers.memory.places import worker_at
from thalweg.workers.worker_loop.runnable import any_work

# -- flags -----------------------------------------------------------------------------------------------------


@shared
def set_flags(mem: Int64s) -> None:
    """Tells each worker whether it goes on, by STOP and ACTIVE, and wakes it. By who has changed them."""
    active, stop = EMPTY, EMPTY
    # Another thread may change them meanwhile, and be through already.
    while active != load(mem, ACTIVE) or stop != load(mem, STOP):
        active, stop = load(mem, ACTIVE), load(mem, STOP)
        for w in range(mem[MAX_WORKERS]):
            me = worker_at(mem, w)
            flag = GOES_ON if w < active or load(mem, me + FIXED) != EMPTY else SUSPENDS
            if stop:
                flag = STOPS
            if load(mem, me + FLAG) != flag:
                store(mem, me + FLAG, flag)
        fence()
    unpark(mem, mem[SUSPENDED])
    wake_workers(mem)


# -- sleep -----------------------------------------------------------------------------------------------------


@shared
def prepare_sleep(mem: Int64s, w: int) -> int:
    """Announces that a worker is about to sleep, and gives the key for :func:`sleep`; it looks for work once more."""
    me = worker_at(mem, w)
    key = prepare(mem, mem[me + EVENT])
    if load(mem, me + FIXED) == EMPTY:
        announce(mem, mem[SLEEPERS], w)
    return key


@shared
def stay_awake(mem: Int64s, w: int) -> None:
    """The worker has found work, or is to stop."""
    me = worker_at(mem, w)
    _is_awake(mem, w, me)
    cancel(mem, mem[me + EVENT])


@shared
def sleep(mem: Int64s, w: int, key: int, limit_us: int) -> None:
    """Sleeps until somebody wakes this worker, or for so many microseconds."""
    me = worker_at(mem, w)
    park(mem, mem[me + EVENT], key, limit_us)
    _is_awake(mem, w, me)


@shared
def _is_awake(mem: Int64s, w: int, me: int) -> None:
    # One that was to have one operator alone, or has it no more, may see to the others for nothing.
    if load(mem, me + FIXED) == EMPTY and not withdraw(mem, mem[SLEEPERS], w):
        mem[me + WOKEN] = 1


@shared
def pass_on(mem: Int64s, w: int) -> None:
    """A worker that was woken knows what it does now: if there is more, another one is woken for it."""
    me = worker_at(mem, w)
    if mem[me + WOKEN]:
        mem[me + WOKEN] = 0
        if any_work(mem):
            wake_worker(mem)


# -- waking ----------------------------------------------------------------------------------------------------


@shared
def wake_worker(mem: Int64s) -> None:
    """There is work for workers: wakes one that sleeps. Within a round all, since each has operators of its own."""
    if mem[MODE] == BY_ROUND:
        wake_workers(mem)
        return
    fence()
    w = claim(mem, mem[SLEEPERS], mem[MAX_WORKERS])
    if w != EMPTY:
        unpark(mem, mem[worker_at(mem, w) + EVENT])


@shared
def wake_workers(mem: Int64s) -> None:
    """Wakes all that sleep."""
    fence()
    w = claim(mem, mem[SLEEPERS], mem[MAX_WORKERS])
    while w != EMPTY:
        unpark(mem, mem[worker_at(mem, w) + EVENT])
        w = claim(mem, mem[SLEEPERS], mem[MAX_WORKERS])


@shared
def wake_for(mem: Int64s, o: int) -> None:
    """There may be something to do for an operator: wakes its own thread, or a worker."""
    if mem[o + OWNER]:
        unpark(mem, mem[o + PARK])
    else:
        wake_worker(mem)
