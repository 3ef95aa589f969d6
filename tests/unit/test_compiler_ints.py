"""Ints beyond 64 bits: machine code gives what Python gives, or Python names the row; nothing wraps, nothing traps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from fuzz_kit import EDGES

import thalweg as tw
from thalweg import times
from thalweg.columns.chunks import Chunk
from thalweg.columns.keys import KeySpec
from thalweg.compiler import KeyedSpec, Step
from thalweg.compiler.keyed.operator import CompiledKeyed, keyed_kernel
from thalweg.compiler.stateless import CompiledChain, stateless_kernel
from thalweg.flow.failures import reason_of
from thalweg.flow.records import Schema
from thalweg.flow.state_class import state_spec
from thalweg.times import NEVER

MOST, LEAST = 2**63 - 1, -(2**63)


class Two(NamedTuple):
    a: int
    b: int


class One(NamedTuple):
    x: int


class Halves(NamedTuple):
    total: int
    large: bool
    half: int


def halves(r: Two) -> Halves:
    total = r.a + r.b
    return Halves(total - r.b, total > 2, total // 2)


def scaled(r: Two) -> One:
    """LLVM may not take from a product that its factor is not zero."""
    return One(r.a // (r.b * 4096))


def turned(r: Two) -> One:
    total = 0
    for i in range(r.a, r.b, 2**61):
        total += i % 7
    for i in range(r.b, r.a, -(2**61)):
        total -= i // 3
    return One(total)


def powers(r: Two) -> One:
    total = r.a
    total += r.b
    total -= -r.a
    total *= 3
    return One(abs(total) % 1_000_003)


MAPS: list[tuple[Any, Any]] = [
    (lambda r: One(r.a + r.b), One),
    (lambda r: One(r.a - r.b), One),
    (lambda r: One(r.a * r.b), One),
    (lambda r: One(r.a // r.b), One),
    (lambda r: One(r.a % r.b), One),
    (lambda r: One(r.a % (r.b * 4096)), One),
    (lambda r: One(-r.a), One),
    (lambda r: One(abs(r.a)), One),
    (lambda r: One(r.a // -1), One),
    (lambda r: One(r.a // (r.a * 2)), One),
    (lambda r: One(max(r.a, r.b) - min(r.a, r.b)), One),
    (lambda r: One(times.hour(r.a) + times.weekday(r.b)), One),
    (scaled, One),
    (turned, One),
    (powers, One),
    (halves, Halves),
]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each time that machine code leaves rows to Python."""
    calls: list[int] = []
    chain = CompiledChain._interpret
    monkeypatch.setattr(CompiledChain, "_interpret", lambda *a: calls.append(1) or chain(*a))
    return calls


@pytest.mark.parametrize(("function", "out"), MAPS)
def test_edges_give_what_python_gives(function: Any, out: Any) -> None:
    """Every pair of edges: the result that fits, else Python's error; the row alone in its chunk and among others."""
    schema = Schema.of(out)
    kernel = stateless_kernel([Step("map", "m", function, schema)], Schema.of(Two), reject=True)
    rows = [Two(a, b) for a in EDGES for b in EDGES]
    wanted, reasons = [], []
    for row in rows:
        try:
            wanted.append(schema.coerce(function(row)))
        except Exception as error:
            reasons.append(reason_of(error))
    for parts in ([rows], [[one] for one in rows]):
        found, rejected = [], []
        for part in parts:
            result = kernel(Chunk.from_rows(Schema.of(Two), part))
            found += Chunk(schema, result.columns, len(result.source)).rows()
            rejected += [one.reason for one in result.rejected]
        assert repr(found) == repr(wanted)
        assert rejected == reasons


def test_rows_that_all_overflow_are_interpreted_together(left: list[int]) -> None:
    """A chunk of them costs few raises; results, places and counts are those of every row."""

    def mixed(r: Two) -> Iterator[Two]:
        if r.b % 3:
            yield Two(r.a * 6364136223846793005 % 1_000_003, r.b)
        yield Two(r.a, r.b)

    steps = [Step("flat_map", "mixed", mixed, Schema.of(Two))]
    kernel = stateless_kernel(steps, Schema.of(Two), reject=True)
    rows = [Two(2**62 + i, i) for i in range(1000)]
    result = kernel(Chunk.from_rows(Schema.of(Two), rows))
    wanted = [(place, one) for place, row in enumerate(rows) for one in mixed(row)]
    made = Chunk(Schema.of(Two), result.columns, len(result.source)).rows()
    assert list(zip(result.source.tolist(), made, strict=True)) == wanted
    assert result.counts == [len(wanted)]
    assert not result.rejected
    assert 0 < len(left) <= 10


class Event(NamedTuple):
    ts: tw.Timestamp
    key: str
    n: int
    tag: str | None


class Sums(NamedTuple):
    key: str
    total: int
    odd: float | None
    tag: str | None
    kind: tw.Category


@tw.state
class Sum:
    timer: tw.Timer
    total: int = 0
    kind: tw.Category = "none"


def add(state: Sum, e: Event) -> Iterator[Sums]:
    state.total += e.n
    state.kind = "big" if (state.total * 4) // 4 > 2**61 else "small"
    state.timer = e.ts + 10
    if e.n == 13:
        tw.drop(state)
    yield Sums(e.key, state.total, None, e.tag, state.kind)
    yield Sums(e.key, (state.total + MOST) - MOST, 0.5, None, "x")


def close(state: Sum, key: str, time: tw.Timestamp) -> Sums:
    """Arms itself again while there is something to halve; computes beyond 64 bits."""
    twice = state.total * 4
    state.total = state.total // 2
    if state.total > 2**60:
        state.timer = time
    return Sums(key, twice // 8, None, key, state.kind)


def keyed_spec() -> KeyedSpec:
    schema = Schema.of(Event)
    key = KeySpec((schema.field("key"),))
    return KeyedSpec("sums", add, close, state_spec(Sum), schema, key, Schema.of(Sums))


def in_python(
    rows: list[Event], clock: int, *, ending: bool
) -> tuple[list[Any], list[str], dict[Any, Any], int]:
    """Outputs, reasons of rejections, states and disarmed timers of a serial run of ``keyed_spec``, key by key."""
    spec, states, out, bad, disarmed = state_spec(Sum), {}, [], [], 0

    def call(key: str, values: Any, function: Any, *arguments: Any) -> Any:
        state = spec.restore(values)
        try:
            made = function(state, *arguments)
            made = [
                Schema.of(Sums).coerce(one) for one in ([made] if isinstance(made, Sums) else made)
            ]
            return made, spec.values(state), getattr(state, "_drop", False)
        except Exception as error:
            bad.append(reason_of(error))
            return None

    def fire(key: str, limit: int) -> None:
        nonlocal disarmed
        while key in states and (time := states[key][0]) < limit:
            found = call(key, (NEVER, *states.pop(key)[1:]), close, key, time)
            if found is None:
                continue
            out.extend(found[0])
            disarmed += found[1][0] != NEVER and ending
            if found[1][0] != NEVER and not ending:
                states[key] = (max(found[1][0], time + 1), *found[1][1:])

    for row in rows:
        fire(row.key, row.ts)
        found = call(row.key, states.get(row.key, spec.values(spec.new())), add, row)
        if found is None:
            continue
        out.extend(found[0])
        states[row.key] = (max(found[1][0], row.ts), *found[1][1:])
        if found[2]:
            del states[row.key]
    for key in list(states):
        fire(key, clock)
    return out, bad, states, disarmed


def test_keyed_calls_beyond_64_bits_are_pythons() -> None:
    """State, outputs with text, timers that arm themselves again, drops and rejections, as if Python ran it all."""
    numbers = [1, 2**62, 2**61, -5, 2**62, 13, MOST, MOST, 1, LEAST, LEAST, -1]
    rows = [
        Event(4 * i, key, n, tag)
        for i, n in enumerate(numbers)
        for key, tag in (("a", "t"), ("ö", None))
    ]
    make = keyed_kernel(keyed_spec(), buckets=1, reject=True)
    for count in range(0, len(rows) + 1, 4):
        for ending in (False, True):
            operator = make()
            clock = NEVER if ending else 50
            found = run_keyed(operator, rows[:count], clock, ending=ending)
            out, bad, states, disarmed = in_python(rows[:count], clock, ending=ending)
            assert sorted(map(repr, found[0])) == sorted(map(repr, out))
            assert sorted(found[1]) == sorted(bad)
            assert found[2] == disarmed
            assert states_of(operator) == {k: v for k, v in states.items()}


def run_keyed(
    operator: CompiledKeyed, rows: list[Event], clock: int, *, ending: bool
) -> tuple[list[Any], list[str], int]:
    chunk = Chunk.from_rows(Schema.of(Event), rows)
    moments = np.array([row.ts for row in rows], np.int64)
    result = operator.process(chunk, [chunk.column("key")], moments, clock, ending=ending)
    made = Chunk(Schema.of(Sums), result.columns, len(result.source)).rows()
    return made, [one.reason for one in result.rejected], result.disarmed


def states_of(operator: CompiledKeyed) -> dict[str, tuple[Any, ...]]:
    found = {}
    for table in operator.tables.values():
        entries = np.flatnonzero(table.flags[: table.count] & 1)
        batch = table.snapshot().to_pylist()
        keys = operator.spec.key.python_keys(table.key_columns(entries), len(entries))
        found |= {key: tuple(one.values())[1:-1] for key, one in zip(keys, batch, strict=True)}
    return {key: (np.datetime64(0, "us"), *one)[1:] for key, one in found.items()}


class Wide(NamedTuple):
    ts: int
    key: int
    n: int


@pytest.mark.parametrize("compiled", ["auto", "never"])
def test_a_sum_that_does_not_fit_names_its_row(compiled: Any) -> None:
    """In windows, compiled and interpreted, by any host and in the serial reference: at the same row, or rejected."""
    rows = [Wide(0, 1, MOST), Wide(1, 2, 5), Wide(2, 1, -1), Wide(3, 1, 2), Wide(4, 2, 6)]

    def flow(errors: Any) -> tw.Flow:
        made = tw.Flow("sums", compile=compiled, errors=errors)
        totals = (
            made.source("rows", Wide, order_by="ts")
            .key_by("key")
            .window(10, t=tw.agg.sum("n"), name="w")
        )
        totals.sink("out")
        totals.rejected.sink("bad")
        return made

    for host in (tw.run, tw.testing.reference):
        with pytest.raises(
            tw.OperatorError,
            match="the aggregate 't': expected int, got 9223372036854775808",
        ):
            host(flow("fail"), {"rows": rows})
        result = host(flow("reject"), {"rows": rows})
        assert [(one.key, one.t) for one in result.rows("out")] == [(1, MOST - 1), (2, 11)]
        assert [one.row for one in result.rows("bad")]
