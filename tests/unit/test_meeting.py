"""The compiled part of rounds against the rules that it follows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.runtime import layout as at
from thalweg.runtime.atomics import EMPTY
from thalweg.runtime.dispatch import handle_at, new_handle, op_at, submit, worker_at
from thalweg.runtime.layout import Int64s, OpSpec
from thalweg.runtime.meeting import _overdue
from thalweg.runtime.memory import lay_out
from thalweg.scheduling import overdue

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
