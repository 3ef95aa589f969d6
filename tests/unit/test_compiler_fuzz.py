"""Machine code against CPython: random functions over rows at the edges of ints and floats give the same.

A result is the same when its text is: the type, the sign of a zero, whether it is NaN, every bit else; and so are the
exceptions, which Python alone tells.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import fuzz_kit as kit
import numpy as np
import pytest
from tests.sizes import sized

from thalweg.columns.chunks import Chunk
from thalweg.columns.keys import KeySpec
from thalweg.compiler import KeyedSpec, Step, check_keyed, check_stateless
from thalweg.compiler.keyed.operator import CompiledKeyed, keyed_kernel
from thalweg.compiler.keyed.replay import Replay
from thalweg.compiler.stateless import CompiledChain, stateless_kernel
from thalweg.flow.failures import reason_of
from thalweg.flow.records import Schema
from thalweg.flow.state_class import state_spec
from thalweg.times import NEVER

ROWS, OUT, STATE = Schema.of(kit.Row), Schema.of(kit.Out), state_spec(kit.State)
#: Each run makes the same functions.
SEED = 7
#: functions in one kernel, and the rows that each is given
TOGETHER = 10
ROWS_EACH = 60
#: of all functions in the long run, in how many tests
ALL, TESTS = 10_000, 50


def step_of(function: Any) -> Step:
    return Step("map", "fuzz", function, OUT)


def spec_of(function: Any) -> KeyedSpec:
    def on_timer(state: Any, key: Any, time: int) -> kit.Out:
        if 0 < state.a < 5:
            state.a -= 1
            state.timer = time + state.a
        note = f"{key[1][:2]}!"
        return kit.Out(state.a * 3 - time, state.x, state.c, None, key[0], state.k, key[1], note)

    key = KeySpec((ROWS.field("which"), ROWS.field("text")))
    return KeyedSpec("fuzz", function, on_timer, STATE, ROWS, key, OUT)


def accepted(parts: list[list[str]], *, state: bool) -> list[list[str]]:
    """The bodies that compile; all others are refused with a reason that names the line."""
    good = []
    for part in parts:
        function = kit.joined([part], state=state)
        if state:
            fine, reason = check_keyed(spec_of(function))
        else:
            fine, reason = check_stateless([step_of(function)], ROWS)
        assert fine or "line" in reason
        good += [part] if fine else []
    return good


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each call that machine code leaves to Python."""
    calls: list[int] = []
    chain, keyed = CompiledChain._interpret, Replay._call
    monkeypatch.setattr(CompiledChain, "_interpret", lambda *a: calls.append(1) or chain(*a))
    monkeypatch.setattr(Replay, "_call", lambda *a: calls.append(1) or keyed(*a))
    return calls


def plain(function: Any, row: kit.Row) -> str:
    """What Python makes of a row: its outputs, or how it failed."""
    try:
        made = function(row)
        return repr([] if made is None else [OUT.coerce(made)])
    except Exception as error:
        return reason_of(error)


def compare_maps(seed: int, first: int, count: int, given: list[kit.Row]) -> int:
    """Runs each function over each row, one at a time; how many calls that were."""
    good = accepted(kit.bodies(seed, first, count, state=False), state=False)
    function = kit.joined(good, state=False)
    kernel = stateless_kernel([step_of(function)], ROWS, reject=True)
    for which, body in enumerate(good):
        for row in given:
            one = row._replace(which=which)
            result = kernel(Chunk.from_rows(ROWS, [one]))
            made = repr(Chunk(OUT, result.columns, len(result.source)).rows())
            found = result.rejected[0].reason if result.rejected else made
            assert found == plain(function, one), (one, "\n".join(body))
    return len(good) * len(given)


class Plain:
    """A keyed operator in plain Python: rows and timers of one key after the other, in the order of time."""

    def __init__(self, spec: KeyedSpec) -> None:
        self.spec = spec
        self.states: dict[Any, tuple[Any, ...]] = {}

    def row(self, row: kit.Row) -> list[str]:
        key = (row.which, row.text)
        told = self.fire(key, row.ts)
        values = self.states.get(key, STATE.values(STATE.new()))
        told.append(self.call(key, values, row.ts, self.spec.process, row))
        return [one for one in told if one != "[]"]

    def fire(self, key: Any, limit: int) -> list[str]:
        told = []
        while key in self.states and (time := self.states[key][0]) < limit:
            values = self.states.pop(key)
            told.append(
                self.call(key, (NEVER, *values[1:]), time + 1, self.spec.on_timer, key, time)
            )
            if key in self.states and self.states[key][0] == NEVER:
                del self.states[key]
        return told

    def call(self, key: Any, values: Any, least: int, function: Any, *arguments: Any) -> str:
        state = STATE.restore(values)
        try:
            made = function(state, *arguments)
            rows = [] if made is None else [OUT.coerce(made)]
            timer, *rest = STATE.values(state)
        except Exception as error:
            return reason_of(error)
        self.states[key] = (max(timer, least), *rest)
        return repr(rows)


def compare_keyed(seed: int, first: int, count: int, given: list[kit.Row]) -> int:
    """Runs the rows of each function through its states, one at a time; how many calls that were."""
    good = accepted(kit.bodies(seed, first, count, state=True), state=True)
    spec = spec_of(kit.joined(good, state=True))
    operator, reference = keyed_kernel(spec, buckets=4, reject=True)(), Plain(spec)
    for which, body in enumerate(good):
        for row in sorted(given, key=lambda one: one.ts):
            one = row._replace(which=which)
            told = told_by(operator, one)
            assert told == reference.row(one), (one, "\n".join(body))
            assert states_of(operator, one) == repr(reference.states.get((which, one.text))), body
    return len(good) * len(given)


def told_by(operator: CompiledKeyed, row: kit.Row) -> list[str]:
    """What one row and the timers before it gave, in order: outputs, or how a call failed."""
    chunk = Chunk.from_rows(ROWS, [row])
    keys = [chunk.column("which"), chunk.column("text")]
    result = operator.process(chunk, keys, np.array([row.ts]), -(2**63), ending=False)
    rows = Chunk(OUT, result.columns, len(result.source)).rows()
    events = [
        (2**63 if source == 0 else time, repr([one]))
        for source, time, one in zip(
            result.source.tolist(), result.time.tolist(), rows, strict=True
        )
    ]
    events += [(2**63 if one.row == 0 else one.time, one.reason) for one in result.rejected]
    return [text for _, text in sorted(events)]


def states_of(operator: CompiledKeyed, row: kit.Row) -> str:
    for table in operator.tables.values():
        entries = np.flatnonzero(table.flags[: table.count] & 1)
        keys = operator.spec.key.python_keys(table.key_columns(entries), len(entries))
        if (row.which, row.text) in keys:
            batch = table.snapshot()
            at = keys.index((row.which, row.text))
            columns = [batch.column(i) for i in range(2, batch.num_columns - 1)]
            values = [column[at].as_py() for column in columns]
            return repr(STATE.values(STATE.restore(values)))
    return "None"


Compare = Callable[[int, int, int, list[kit.Row]], int]


def compare_all(compare: Compare, first: int, count: int) -> int:
    """All of these functions, so many in a kernel; how many calls that were."""
    calls = 0
    for start in range(first, first + count, TOGETHER):
        given = kit.rows(random.Random(f"rows {start}"), ROWS_EACH)
        calls += compare(SEED, start, min(TOGETHER, first + count - start), given)
    return calls


@pytest.mark.parametrize(
    ("compare", "count"), [(compare_maps, sized(14, 5)), (compare_keyed, sized(8, 3))]
)
def test_random_functions_give_what_python_gives(
    compare: Compare, count: int, left: list[int]
) -> None:
    """Values with their types, states, exceptions, timers; many calls are machine code's own, some left to Python."""
    calls = compare_all(compare, 0, count)
    assert calls > count * ROWS_EACH // 2
    # Of a few functions, one that is always left counts much.
    assert calls // 10 < len(left) < calls * 9 // 10


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(TESTS))
@pytest.mark.parametrize(("compare", "share"), [(compare_maps, 7), (compare_keyed, 3)])
def test_ten_thousand_random_functions(compare: Compare, share: int, part: int) -> None:
    """As above: 7,000 maps and 3,000 keyed functions."""
    count = ALL * share // 10 // TESTS
    assert compare_all(compare, 1_000 + part * count, count)
