"""Lists, deques, dicts, tuples and Optional fields in machine code against CPython: results, states, undo."""

from __future__ import annotations

import collections
import copy
import dataclasses
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import container_kit as kit
import numpy as np
import pytest
from container_text_kit import TextWriter
from tests.sizes import sized

import thalweg as tw
from thalweg.checkpoint.state_tables.object_table import ObjectTable
from thalweg.checkpoint.state_tables.tables import BucketTable
from thalweg.columns.chunks import Chunk
from thalweg.columns.keys import KeySpec
from thalweg.compiler import KeyedSpec, check_keyed
from thalweg.compiler.keyed.operator import CompiledKeyed, keyed_kernel
from thalweg.compiler.keyed.replay import Replay
from thalweg.flow.failures import reason_of
from thalweg.flow.records import Schema
from thalweg.flow.state_class import state_spec
from thalweg.testing.reference import run_reference

ROWS, OUT, STATE = Schema.of(kit.Row), Schema.of(kit.Out), state_spec(kit.State)
KEY = KeySpec((ROWS.field("which"),))
SEED = 4
#: functions in one kernel, and the rows that each is given
TOGETHER = 6
ROWS_EACH = 50


@tw.state
class Wide:
    dq: collections.deque[int] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=9)
    )


@tw.state
class Narrow:
    dq: collections.deque[int] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=2)
    )


def spec_of(function: Any) -> KeyedSpec:
    return KeyedSpec("fuzz", function, None, STATE, ROWS, KEY, OUT)


def accepted(parts: list[list[str]]) -> list[list[str]]:
    """The bodies that compile; all others are refused with a reason that names the line."""
    good = []
    for part in parts:
        fine, reason = check_keyed(spec_of(kit.joined([part])))
        assert fine or "line" in reason, reason
        good += [part] if fine else []
    return good


class Plain:
    """The states in plain Python, made anew from their values before each call as after a restart."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.states: dict[int, Any] = {}

    def row(self, row: kit.Row) -> str:
        before = self.states.get(row.which, STATE.values(STATE.new()))
        state = STATE.restore(copy.deepcopy(before))
        try:
            made = self.function(state, row)
            out = repr([] if made is None else [OUT.coerce(made)])
            self.states[row.which] = STATE.values(state)
        except Exception as error:
            return reason_of(error)
        return out


def told_by(operator: CompiledKeyed, row: kit.Row) -> str:
    chunk = Chunk.from_rows(ROWS, [row])
    result = operator.process(chunk, [chunk.column("which")], None, 0, ending=False)
    if result.rejected:
        return result.rejected[0].reason
    return repr(Chunk(OUT, result.columns, len(result.source)).rows())


def states_of(operator: CompiledKeyed) -> dict[int, str]:
    """Every key's state as it is written to files, and read from them by an interpreted operator."""
    found = {}
    for table in operator.tables.values():
        again = ObjectTable(KEY, STATE)
        again.load([table.snapshot()])
        # By text: NaN is equal to no NaN.
        assert repr(again.snapshot().to_pylist()) == repr(table.snapshot().to_pylist())
        found |= {key: repr(STATE.values(state)) for key, state in again._states.items()}
    return found


def compare(first: int, count: int, writer: Any = kit.Writer) -> tuple[int, int]:
    """Runs the rows of each function through its state; how many functions compile and calls were made."""
    good = accepted(kit.bodies(SEED, first, count, writer))
    function = kit.joined(good)
    given = kit.rows(random.Random(f"rows {first}"), ROWS_EACH)
    operator, reference = keyed_kernel(spec_of(function), buckets=4, reject=True)(), Plain(function)
    for which, body in enumerate(good):
        for number, row in enumerate(given):
            one = row._replace(which=which)
            assert told_by(operator, one) == reference.row(one), (number, one, "\n".join(body))
            if number % 5 == 0:
                wanted = {key: repr(values) for key, values in reference.states.items()}
                assert states_of(operator) == wanted, (number, one, "\n".join(body))
            if number % 17 == 16:
                _restart(operator)
    return len(good), len(good) * len(given)


def _restart(operator: CompiledKeyed) -> None:
    """Each table is written, and read by another one."""
    for bucket, table in list(operator.tables.items()):
        batch = table.snapshot()
        operator.tables[bucket] = BucketTable(KEY, STATE)
        operator.tables[bucket].load([batch])


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each call that machine code leaves to Python."""
    calls: list[int] = []
    keyed = Replay._call
    monkeypatch.setattr(Replay, "_call", lambda *a: calls.append(1) or keyed(*a))
    return calls


@pytest.mark.slow
def test_random_functions_give_what_python_gives(left: list[int]) -> None:
    """Outputs, exceptions and states after each call, of calls that fail half way too, or that machine code leaves.

    Three of these six functions raise at each row, and two others sum no floats, which is Python's to do.
    """
    fitting, calls = compare(0, TOGETHER)
    assert fitting > TOGETHER // 2
    assert 0 < len(left) < calls * 9 // 10


@pytest.mark.slow
def test_random_functions_of_texts_give_what_python_gives() -> None:
    """As above, of containers that hold texts."""
    fitting, _ = compare(0, TOGETHER, TextWriter)
    assert fitting > TOGETHER // 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(40))
def test_many_random_functions(part: int) -> None:
    """As above: 960 functions."""
    for writer in (kit.Writer, TextWriter):
        for start in range(2):
            compare(1000 + 100 * part + TOGETHER * start, TOGETHER, writer)


def test_sums_of_lists_and_turns_by_number_compile() -> None:
    """Each of these alone, not only where a random function happens to have it; a list changed under it does not."""
    for text in (
        "state.xs = state.xs[-4:] + [r.i]", "state.xs = state.xs[1:] + [r.i] + state.xs[:1]",
        "state.xs = sorted(state.xs) + [r.i]", "state.last = int(any(state.xs))",
        "state.last = int(all(state.dq))", "state.last = sum(reversed(state.xs))",
        "state.last = sum(n * v for n, v in enumerate(reversed(state.xs)))",
        "state.last = sum(n * v for n, v in enumerate(state.xs, start=2))",
    ):  # fmt: skip
        assert len(accepted([[text, "return None"]])) == 1, text
    body = ["for n, v in enumerate(reversed(state.xs)):", "    state.xs.append(n)", "return None"]
    fine, reason = check_keyed(spec_of(kit.joined([body])))
    assert not fine and "changes a list in a loop over one" in reason


def test_tables_give_back_what_rows_own() -> None:
    """A table's memory is that of its rows; keys that go take theirs with them."""
    table, batch = BucketTable(KEY, STATE), ObjectTable(KEY, STATE)
    for key in range(50):
        state = batch.get_or_new(key)
        state.xs += range(key)
        state.d |= {n: n for n in range(key % 7)}
        state.ts += ["é" * n for n in range(key)]
        state.dt |= {"k" * n: n for n in range(key % 5)}
    empty = table.nbytes
    table.load([batch.snapshot()])
    assert table.snapshot().equals(batch.snapshot())
    assert table.nbytes > empty + 8 * sum(range(50))
    gone = table.take_out(lambda hashes: np.zeros(len(hashes), np.bool_))
    assert gone.num_rows == 50
    assert table._owned() == 0


def test_deques_with_a_smaller_maxlen_keep_their_last_items() -> None:
    """As Python's deque does, in both tables."""
    written = ObjectTable(KEY, state_spec(Wide))
    written.get_or_new(1).dq.extend([1, 2, 3, 4])
    for table in (ObjectTable(KEY, state_spec(Narrow)), BucketTable(KEY, state_spec(Narrow))):
        table.load([written.snapshot()])
        assert table.snapshot().column("dq").to_pylist() == [[3, 4]]


class Payment(NamedTuple):
    card: int
    ts: tw.Timestamp
    country: str
    amount: float


class Alert(NamedTuple):
    card: int
    was: str
    before: str | None
    name: str
    rate: float


@tw.state
class Card:
    country: str = ""
    before: str | None = None
    at: tw.Timestamp = 0


RATES = {"DE": 1.0, "FR": 1.5, "Österreich": 2.0, "": 3.0}
NAMES = {code: f"country {code}" for code in RATES}
RISKY = {f"{n}" for n in range(30)} | {"FR", "Österreich"}


def moved(state: Card, row: Payment) -> Alert | None:
    """The last country as a text; raises after it has changed, and at countries without a rate."""
    was = state.country
    fast = row.ts - state.at < 40
    state.country, state.at = row.country, row.ts
    if row.amount > 8.0:
        state.before = None
        raise ValueError("too much")
    if not was or was == row.country or not fast:
        return None
    state.before, before = was, state.before
    rate = RATES[row.country] * (2.0 if row.country in RISKY else 1.0)
    return Alert(row.card, was, before, NAMES.get(row.country, "?"), rate)


def moves() -> tw.Flow:
    flow = tw.Flow("moves")
    rows = flow.source("rows", Payment, order_by="ts").key_by("card")
    rows.process(moved, state=Card, errors="reject", compile="require").sink("out")
    return flow


@pytest.mark.filterwarnings("ignore")
def test_texts_in_state_and_captured_tables_by_text() -> None:
    """As the reference has it, in threads and slots; rows that fail half way leave the texts that were there."""
    draw = random.Random(5)
    countries = ["DE", "FR", "Österreich", "", "a land without a rate"]
    rows = [
        Payment(draw.randrange(9), 3 * i, draw.choice(countries), draw.uniform(0.0, 9.0))
        for i in range(600)
    ]
    wanted = run_reference(moves(), {"rows": rows}).sinks["out"]
    assert len(wanted) > 100
    options: list[dict[str, Any]] = [{"threads": 1}, {"threads": 2}, {"slots": 2}]
    for option in options[: sized(3, 1)]:
        assert tw.run(moves(), {"rows": rows}, **option).rows("out") == wanted


class Place(NamedTuple):
    which: int
    at: int


@tw.state
class Counted:
    xs: list[int] = []
    d: dict[int, int] = dataclasses.field(default_factory=dict)


def counted(state: Counted, row: Place) -> Iterator[Place]:
    """Changes one word several times, adds, deletes and outgrows its room, then raises at every third row."""
    state.xs.append(row.at)
    state.xs[0] += 1
    state.xs[0] += 10
    key = row.at * row.at % 97
    state.d[key] = row.at
    state.d[key] += 5
    if row.at % 5 == 4:
        state.xs.pop()
        del state.d[key]
    if row.at % 3 == 2:
        raise ValueError("after it has changed")
    for n in state.xs:
        yield Place(len(state.d), n)


@pytest.mark.filterwarnings("ignore")
def test_a_call_that_raises_leaves_lists_and_dicts_as_they_were() -> None:
    """Every word that it changed has its old value again, however often it did; buffers that it left come back."""
    flow = tw.Flow("counted")
    by_key = flow.source("rows", Place).key_by("which")
    made = by_key.process(counted, state=Counted, errors="reject", compile="require")
    made.sink("out")
    made.rejected.sink("rejected")
    given = [Place(n % 2, n) for n in range(120)]
    expected = run_reference(flow, {"rows": given})
    result = tw.run(flow, {"rows": given}, threads=1)
    assert result.rows("out") == expected.sinks["out"]
    assert result.rows("rejected") == expected.sinks["rejected"]
    assert len(result.rows("rejected")) == 40
