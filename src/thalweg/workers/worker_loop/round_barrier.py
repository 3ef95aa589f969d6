"""Rounds: the meeting of workers between two rounds, and the lists that they walk within one.

Haren (Palyvos-Giannas et al., Algorithm 1). A round ends by the clock. The first worker that notices prepares the
next one; it waits until the others are between two visits, but not for long: one that is stuck in a function keeps its
operator and nothing else until the round is over. Then Python asks the policy and writes a list for each worker.

A list may be read while the next one is written, by a worker that was late; every entry names an operator at any
time, and what may run is decided by the operators' own locks. So the meeting makes measures steady, no more.
"""

from __future__ import annotations

from typing import Final

from thalweg.workers.lockfree.atomics import EMPTY, add, cas, fence, give_way, load, shared, store
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.lockfree.parking import cancel, park, prepare, unpark
from thalweg.workers.memory.layout import (
    ACTIVE,
    AGED,
    ASKED,
    E_LEVEL,
    E_OP,
    E_SINCE,
    GRACE,
    LAGGING,
    LEADER,
    LIST,
    LIST_LEVEL,
    LIST_NEXT,
    LIST_ROUND,
    LISTED_OPS,
    LISTED_WORDS,
    MET_NS,
    N_WORKERS,
    ONCE,
    OP,
    ROUND_END,
    ROUND_NO,
    ROUNDS,
    STARVE,
    STOP,
    Int64s,
)
from thalweg.workers.memory.places import worker_at
from thalweg.workers.worker_loop.runnable import any_work, is_runnable
from thalweg.workers.worker_loop.waking import wake_workers

#: Instead of an operator: Python must prepare the next round.
ASK_ROUND: Final = -3
#: A waiting worker looks for itself from time to time, microseconds.
_NAP_US: Final = 1_000
#: Operators that wait for too long are looked for so many times while they do.
_LOOKS: Final = 64


@shared
def from_round(mem: Int64s, w: int, me: int) -> int:
    """The worker's next operator of this round, EMPTY, or ASK_ROUND from the one that prepares the next round."""
    now, number = now_ns(), load(mem, ROUND_NO)
    if load(mem, LEADER):
        return _meet(mem, w)
    if mem[me + LIST_ROUND] != number:
        # However short the period is: each worker runs something in each round.
        mem[me + LIST_ROUND] = number
        mem[me + LIST_LEVEL] = EMPTY
    elif now >= load(mem, ROUND_END) and any_work(mem):
        return _meet(mem, w)
    while mem[me + LAGGING] > 0:
        op = _once(mem, me)
        if op != EMPTY:
            return op
    if mem[STARVE] and _LOOKS * (now - mem[me + AGED]) >= mem[STARVE]:
        mem[me + AGED] = now
        op = _overdue(mem, me, now)
        if op != EMPTY:
            return op
    return _by_priority(mem, me)


@shared
def _once(mem: Int64s, me: int) -> int:
    """The next operator that has not run for long, if it can run: for the sake of its measures."""
    mem[me + LAGGING] -= 1
    for i in range(mem[me + LISTED_OPS]):
        entry = mem[me + LIST] + i * LISTED_WORDS
        if mem[entry + E_SINCE] == ONCE:
            mem[entry + E_SINCE] = EMPTY
            op: int = mem[entry + E_OP]
            return op if is_runnable(mem, op) else EMPTY
    return EMPTY


@shared
def _by_priority(mem: Int64s, me: int) -> int:
    """The first that can run of those that equal the one that ran last, and then of all, from the top."""
    entries, count, level = mem[me + LIST], mem[me + LISTED_OPS], mem[me + LIST_LEVEL]
    if level != EMPTY:
        for i in range(mem[me + LIST_NEXT], count):
            entry = entries + i * LISTED_WORDS
            if mem[entry + E_LEVEL] != level:
                break
            if is_runnable(mem, mem[entry + E_OP]):
                return _chosen(mem, me, i)
    for i in range(count):
        if is_runnable(mem, mem[entries + i * LISTED_WORDS + E_OP]):
            return _chosen(mem, me, i)
    mem[me + LIST_LEVEL] = EMPTY
    return EMPTY


@shared
def _chosen(mem: Int64s, me: int, i: int) -> int:
    entry = mem[me + LIST] + i * LISTED_WORDS
    mem[me + LIST_NEXT] = i + 1
    mem[me + LIST_LEVEL] = mem[entry + E_LEVEL]
    mem[entry + E_SINCE] = EMPTY
    op: int = mem[entry + E_OP]
    return op


@shared
def _overdue(mem: Int64s, me: int, now: int) -> int:
    """The aging rule (:func:`thalweg.scheduling.rounds.overdue`) over the worker's operators.

    Since when an operator could run is known to the interval of these looks.
    """
    oldest, since = EMPTY, now - mem[STARVE]
    for i in range(mem[me + LISTED_OPS]):
        entry = mem[me + LIST] + i * LISTED_WORDS
        if not is_runnable(mem, mem[entry + E_OP]):
            mem[entry + E_SINCE] = EMPTY
        elif mem[entry + E_SINCE] < 0:
            mem[entry + E_SINCE] = now
        elif mem[entry + E_SINCE] < since or (oldest == EMPTY and mem[entry + E_SINCE] == since):
            oldest, since = i, mem[entry + E_SINCE]
    return EMPTY if oldest == EMPTY else _chosen(mem, me, oldest)


# -- between two rounds ----------------------------------------------------------------------------------------


@shared
def _meet(mem: Int64s, w: int) -> int:
    """Prepares the next round, or waits for it."""
    number = load(mem, ROUND_NO)
    if cas(mem, LEADER, 0, w + 1):
        if load(mem, ROUND_NO) == number and now_ns() >= load(mem, ROUND_END):
            _wait_for_others(mem, w)
            return ASK_ROUND
        # Another one has just done so.
        store(mem, LEADER, 0)
        unpark(mem, mem[ROUNDS])
        return EMPTY
    key = prepare(mem, mem[ROUNDS])
    if load(mem, LEADER) == 0 or load(mem, STOP):
        cancel(mem, mem[ROUNDS])
    else:
        park(mem, mem[ROUNDS], key, _NAP_US)
    return EMPTY


@shared
def _wait_for_others(mem: Int64s, w: int) -> None:
    began, looks = now_ns(), 0
    deadline = began + mem[GRACE]
    while _somebody_runs(mem, w) and load(mem, STOP) == 0 and now_ns() < deadline:
        looks += 1
        if looks < 100:
            give_way()
            continue
        key = prepare(mem, mem[ROUNDS])
        if _somebody_runs(mem, w):
            park(mem, mem[ROUNDS], key, min(_NAP_US, max((deadline - now_ns()) // 1000, 1)))
        else:
            cancel(mem, mem[ROUNDS])
    mem[MET_NS] += now_ns() - began


@shared
def _somebody_runs(mem: Int64s, w: int) -> bool:
    for other in range(min(mem[N_WORKERS], load(mem, ACTIVE))):
        if other != w and load(mem, worker_at(mem, other) + OP) != EMPTY:
            return True
    return False


@shared
def tell_leader(mem: Int64s) -> None:
    """A visit is over; who prepares a round may wait for that.

    Without a fence: whom it misses looks again after a nap.
    """
    if load(mem, LEADER):
        unpark(mem, mem[ROUNDS])


@shared
def begin_round(mem: Int64s, period_ns: int, asked: int) -> None:
    """The lists are written: all walk theirs. By the worker that was told to prepare the round.

    Args:
        asked: the word ASKED before anything was read that the lists follow from. If it has changed since, they are
            out of date, and the round is over as soon as each worker has run something.
    """
    store(mem, ROUND_END, now_ns() + period_ns)
    # Either the change is seen here, or end_round ends this round: each writes before it looks.
    fence()
    if load(mem, ASKED) != asked:
        store(mem, ROUND_END, 0)
    store(mem, ROUND_NO, load(mem, ROUND_NO) + 1)
    store(mem, LEADER, 0)
    unpark(mem, mem[ROUNDS])
    wake_workers(mem)


@shared
def end_round(mem: Int64s) -> None:
    """What rounds are made from has changed: the present one is over, and so is one that is being prepared."""
    add(mem, ASKED, 1)
    fence()
    store(mem, ROUND_END, 0)


@shared
def leave_meeting(mem: Int64s) -> None:
    """The worker that was told to prepare a round does not; the next one that comes will."""
    store(mem, LEADER, 0)
    unpark(mem, mem[ROUNDS])
