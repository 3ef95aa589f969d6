"""The compiled part of rounds: against the rules that it follows, and how long it waits, by a clock of the test's."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.scheduling import overdue
from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.handles import new_handle
from thalweg.workers.memory.layout import Int64s, OpSpec
from thalweg.workers.memory.memory import lay_out
from thalweg.workers.memory.places import handle_at, op_at, worker_at
from thalweg.workers.worker_loop import round_barrier as meeting
from thalweg.workers.worker_loop.round_barrier import _overdue
from thalweg.workers.worker_loop.steps import submit

OPERATORS = 6
NOW = 100


def with_input() -> Int64s:
    """Operators side by side, each with a chunk in its inbox."""
    specs = [OpSpec("in", at.INGRESS)]
    specs += [OpSpec(f"o{i}", at.STATELESS, [(0, 0)], limit=2) for i in range(OPERATORS)]
    mem = lay_out(specs, workers=1, clocks=0, refs=1, rows_limit=1 << 30)
    handle = new_handle(mem)
    for word in (at.OBJECT, at.COUNT, at.ENDING):
        mem[handle_at(mem, handle) + word] = 0
    assert submit(mem, 0, handle)
    return mem


MEM = with_input()

# -- aging -----------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An entry of a worker's list: since when its operator could run and did not, and whether it can now."""

    since: int
    runs: bool


entries = st.builds(
    Entry, st.sampled_from([EMPTY, at.ONCE]) | st.integers(NOW - 12, NOW), st.booleans()
)


@settings(deadline=None, max_examples=500)
@given(
    operators=st.permutations(range(1, 1 + OPERATORS)),
    entries=st.lists(entries, max_size=OPERATORS),
    starve=st.integers(1, 12),
)
def test_who_is_overdue_is_by_the_rule(
    operators: list[int], entries: list[Entry], starve: int
) -> None:
    """The same one as :func:`thalweg.scheduling.overdue` says, for which what cannot run, or could not until now, has
    not waited."""
    me, listed = int(worker_at(MEM, 0)), operators[: len(entries)]
    rows = np.array(
        [(op, 0, entry.since) for op, entry in zip(listed, entries, strict=True)], np.int64
    )
    place = slice(int(MEM[me + at.LIST]), int(MEM[me + at.LIST]) + rows.size)
    MEM[place] = rows.ravel()
    MEM[me + at.LISTED_OPS], MEM[at.STARVE] = len(entries), starve
    for op, entry in zip(listed, entries, strict=True):
        MEM[op_at(MEM, op) + at.BUSY] = 0 if entry.runs else 2
    waiting = [entry.since if entry.runs and entry.since >= 0 else -1 for entry in entries]
    expected = overdue(waiting, NOW, starve)

    chosen = _overdue(MEM, me, NOW)

    assert chosen == (EMPTY if expected < 0 else listed[expected])
    since = MEM[place].reshape(-1, at.LISTED_WORDS)[:, at.E_SINCE].tolist()
    assert since == [
        EMPTY if not entry.runs or number == expected else (NOW if entry.since < 0 else entry.since)
        for number, entry in enumerate(entries)
    ]


# -- the meeting -----------------------------------------------------------------------------------------------

SECOND = 1_000_000_000


class Clock:
    """A clock that goes on while somebody looks, gives way or sleeps, and at whose times something may happen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.naps = 0, 0
        self.events: dict[int, Callable[[], None]] = {}
        monkeypatch.setattr(meeting, "now_ns", lambda: self.after(50))
        monkeypatch.setattr(meeting, "give_way", lambda: self.after(1_000))
        monkeypatch.setattr(meeting, "park", self.park)

    def after(self, ns: int) -> int:
        self.now += ns
        for time in [time for time in self.events if time <= self.now]:
            self.events.pop(time)()
        return self.now

    def park(self, mem: Int64s, place: int, key: int, limit_us: int) -> None:
        self.naps += 1
        meeting.cancel(mem, place)
        self.after(1_000 * limit_us)


def meets(held: dict[int, int], grace_ns: int) -> Int64s:
    """A memory in which worker 0 is about to prepare a round, and others are in operators."""
    specs = [OpSpec("in", at.INGRESS), OpSpec("o", at.STATELESS, [(0, 0)])]
    mem = lay_out(specs, workers=3, clocks=0, refs=1, rows_limit=1 << 30)
    mem[at.GRACE] = grace_ns
    for worker, op in held.items():
        mem[worker_at(mem, worker) + at.OP] = op
    return mem


def wait(mem: Int64s) -> None:
    # The plain form, in which the clock can be another one.
    meeting._wait_for_others.py_func(mem, 0)


@pytest.mark.parametrize("grace_ns", [50_000, 10_000_000])
def test_who_sleeps_for_ten_seconds_holds_up_a_round_for_the_grace(
    grace_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, mem = Clock(monkeypatch), meets({2: 1}, grace_ns)
    clock.events[10 * SECOND] = lambda: pytest.fail("the round waits for who sleeps")
    wait(mem)
    # A nap is whole microseconds, and the last look takes a moment.
    assert grace_ns <= clock.now <= grace_ns + 3_000
    assert mem[at.MET_NS] <= clock.now and clock.naps <= 11


def test_who_is_nearly_done_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, mem = Clock(monkeypatch), meets({1: 1, 2: 1}, 10_000_000)
    for worker, time in ((1, 30_000), (2, 2_500_000)):
        clock.events[time] = lambda w=worker: mem.__setitem__(worker_at(mem, w) + at.OP, EMPTY)
    wait(mem)
    assert not clock.events and clock.now < 2_500_000 + meeting._NAP_US * 1_000


def test_nobody_waits_for_suspended_workers_or_when_all_are_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, mem = Clock(monkeypatch), meets({2: 1}, 10_000_000)
    mem[at.ACTIVE] = 2
    wait(mem)
    assert clock.now < 1_000
    mem[[at.ACTIVE, at.STOP]] = 3, 1
    wait(mem)
    assert clock.now < 1_000
