"""Interpreted operators give what the reference gives, whatever a function puts out, leaves in its state or raises."""

from __future__ import annotations

import copy
import decimal
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.engine.interpreter.answers import Answers
from thalweg.errors import OperatorError
from thalweg.flow.operators.nodes import Keyed
from thalweg.plan.plan import make_plan
from thalweg.testing.reference import run_reference


class Row(NamedTuple):
    t: int
    key: int
    what: int
    text: str


class Out(NamedTuple):
    key: int
    number: float
    text: str | None
    flag: bool


class Lists(NamedTuple):
    key: int
    items: list[int]
    data: bytes
    inner: Row | None


@tw.state
class Plain:
    n: int = 0
    total: float = 0.0
    text: str | None = None
    last: Row | None = None


@tw.state
class Held:
    timer: tw.Timer
    items: list[int] = []
    rows: list[Row] = []
    data: bytes = b""
    n: int = 0


#: What a function may put into a field: exact, convertible, wrong, and what only looks right.
ODD: list[Any] = [
    1, 2.5, True, None, "é", "\ud800", 2**63, -(2**63), np.int64(3), np.float64(0.5), decimal.Decimal("1.5"),
    b"x", bytearray(b"y"), [1], (1, 2), [1, "a"], [2**70], [True], -0.0, np.bool_(True), np.array(4),
]  # fmt: skip


def odd(place: int) -> Any:
    return copy.copy(ODD[place % len(ODD)])


def rows(seed: int, count: int = 300, oddity: float = 0.1) -> list[Row]:
    """Rows of which some ask for something odd."""
    dice = random.Random(seed)
    return [
        Row(
            i // 2,
            dice.randrange(5),
            dice.randrange(1, 1_000) if dice.random() < oddity else 0,
            dice.choice(["", "a", "ß", "long text"]),
        )
        for i in range(count)
    ]


def mapped(row: Row) -> Out | None:
    if row.what % 7 == 1:
        return None
    if row.what % 7 == 2:
        raise StopIteration(row.what)
    if row.what % 7 == 3:
        return (row.key, odd(row.what), row.text, False)  # type: ignore[return-value]
    if row.what % 7 == 4:
        return odd(row.what)  # type: ignore[no-any-return]
    if row.what % 7 == 5:
        return tuple.__new__(Out, (1, 2.0))
    return Out(row.key, 1.0, odd(row.what) if row.what else row.text, row.what > 500)


def several(row: Row) -> Iterator[Out]:
    for i in range(row.key):
        if row.what % 5 == 1 and i == 1:
            raise ValueError(row.what)
        yield odd(row.what) if row.what % 5 == 2 else Out(i, odd(row.what), None, True)


def kept(row: Row) -> Any:
    if row.what % 3 == 1:
        raise ZeroDivisionError
    return odd(row.what)


def key_of(row: Row) -> int:
    if row.what % 4 == 1:
        raise KeyError(row.what)
    return odd(row.what) if row.what % 4 == 2 else row.key  # type: ignore[no-any-return]


def plain(state: Plain, row: Row) -> Out | None:
    state.n += 1
    state.last = row if row.what % 2 else state.last
    if row.what % 9 == 1:
        state.total = odd(row.what)
    if row.what % 9 == 2:
        state.text = odd(row.what)
    if row.what % 9 == 3:
        tw.drop(state)
    if row.what % 9 == 4:
        raise ValueError(state.n)
    if row.what % 9 == 5:
        state.last = odd(row.what)
    if row.what % 9 == 6:
        return Out(row.key, odd(row.what), state.text, True)
    return Out(row.key, float(state.n), state.text, state.last is None)


def held(state: Held, row: Row) -> Lists | None:
    state.n += 1
    state.items.append(odd(row.what) if row.what % 11 == 1 else row.t)
    state.rows.append(row)
    if row.what % 11 == 2:
        state.items[0] = odd(row.what)
    if row.what % 11 == 3:
        state.items.clear()
        raise ValueError(state.n)
    if row.what % 11 == 4:
        state.items = odd(row.what)
    if row.what % 11 == 5:
        state.data = bytearray(b"z")  # type: ignore[assignment]
    if row.what % 11 == 6 and isinstance(state.data, bytearray):
        state.data += b"!"
        raise ValueError(state.data)
    if row.what % 11 == 7:
        state.timer = row.t + 3
    if row.what % 11 == 8:
        tw.drop(state)
    if row.what % 11 == 9:
        return Lists(1, state.items, odd(row.what), None)
    return Lists(row.key, state.items, bytes(state.data), row)


def held_timer(state: Held, key: int, time: int) -> Lists | None:
    if state.n % 5 == 1:
        raise ValueError(key)
    state.n += 1
    state.timer = time + 2 if state.n % 3 else tw.NEVER
    return Lists(key, [state.n], b"", None)


def gathered(key: int, start: int, end: int, rows: list[Row]) -> Out | None:
    if rows[0].what % 4 == 1:
        raise ValueError(key)
    return (
        None
        if len(rows) == 3
        else Out(key, float(end - start), ",".join(r.text for r in rows), True)
    )


def flow_of(errors: Any) -> tw.Flow:
    flow = tw.Flow("odd", errors=errors, compile="never")
    stream = flow.source("rows", Row, order_by="t")
    parts = {
        "map": stream.map(mapped),
        "flat_map": stream.flat_map(several),
        "filter": stream.filter(kept),
        "chain": stream.filter(lambda row: row.key > 0, name="some").map(mapped, name="again"),
        "key": stream.key_by(key_of).process(plain, state=Plain, name="by key"),
        "plain": stream.key_by("key").process(plain, state=Plain),
        "held": stream.key_by("key").process(held, state=Held, on_timer=held_timer),
        "window": stream.key_by("key").window(7, gathered, name="window"),
        "sessions": stream.key_by("key").sessions(2, gathered, name="sessions"),
    }
    for name, part in parts.items():
        part.sink(name)
        part.rejected.sink(f"{name} rejected")
    return flow


@pytest.mark.parametrize("chunk_rows", [1, 7, 1_000])
def test_rejecting_flows_give_what_the_reference_gives(chunk_rows: int) -> None:
    """Odd answers and states are coerced or rejected, each at its row, and what a rejected call did is undone."""
    for seed in range(3 if chunk_rows == 1_000 else 1):
        flow, given = flow_of("reject"), {"rows": rows(seed, oddity=0.4)}
        expected = run_reference(flow, given)
        result = tw.run(flow, given, threads=1, chunk_rows=chunk_rows)
        for name, rows_of in expected.sinks.items():
            assert list(map(repr, result.rows(name))) == list(map(repr, rows_of)), (seed, name)


def test_a_failing_flow_names_the_first_row_that_failed() -> None:
    """The error is that of the first row in the order of the stream, also where it is found after later calls."""
    failed = 0
    for seed in range(12):
        given = rows(seed, oddity=0.03)
        for name in ("map", "flat_map", "filter", "plain", "held", "window"):
            told = [
                _told(lambda one, rows: run_reference(one, {"rows": rows}), name, given),
                _told(lambda one, rows: tw.run(one, {"rows": rows}, threads=1), name, given),
            ]
            assert told[0] == told[1], (seed, name)
            failed += told[0][0] is not None
    assert failed > 50


def _told(run: Callable[[tw.Flow, list[Row]], Any], name: str, given: list[Row]) -> tuple[Any, Any]:
    """The operator and the row that an error names; of a window no row."""
    try:
        run(_one(name), given)
    except OperatorError as error:
        return error.operator, error.row if name != "window" else ""
    return None, None


def _one(name: str) -> tw.Flow:
    """The flow of one operator, whose functions stop it."""
    flow = tw.Flow("odd", compile="never")
    stream = flow.source("rows", Row, order_by="t")
    by_key = stream.key_by("key")
    made = {
        "map": lambda: stream.map(mapped),
        "flat_map": lambda: stream.flat_map(several),
        "filter": lambda: stream.filter(kept),
        "plain": lambda: by_key.process(plain, state=Plain),
        "held": lambda: by_key.process(held, state=Held, on_timer=held_timer),
        "window": lambda: by_key.window(7, gathered, name="window"),
    }
    made[name]().sink("out")
    return flow


@tw.state
class Grown:
    items: list[int] = []
    calls: int = 0


def grow(state: Grown, row: Row) -> Out:
    """Lists far longer than what is copied at each row; raises now and then, and once leaves a text in the middle."""
    state.calls += 1
    state.items.append(row.t)
    if row.what % 50 == 1:
        state.items.reverse()
        raise ValueError(len(state.items))
    if row.what == 52:
        state.items[len(state.items) // 2] = "text"  # type: ignore[call-overload]
    return Out(row.key, float(len(state.items) * state.calls + state.items[0]), None, True)


def test_long_lists_are_as_before_a_row_that_is_rejected() -> None:
    """A long list is made again from its key's rows, and one that holds a wrong item is found with its row."""
    given = [Row(i, i % 2, 51 * (i % 301 == 300) + (i == 1_500) * 52, "") for i in range(2_400)]
    for chunk_rows in (100, 5_000):
        flow = tw.Flow("long", compile="never", errors="reject")
        made = flow.source("rows", Row, order_by="t").key_by("key").process(grow, state=Grown)
        made.sink("out")
        made.rejected.sink("rejected")
        expected = run_reference(flow, {"rows": given})
        result = tw.run(flow, {"rows": given}, threads=1, chunk_rows=chunk_rows)
        assert result.rows("out") == expected.sinks["out"]
        assert result.rows("rejected") == expected.sinks["rejected"]
        assert len(result.rows("rejected")) == 8


def several_of(state: Plain, row: Row) -> Iterator[Out]:
    """No rows for some rows, several for others."""
    yield from [Out(row.key, float(i), row.text, True) for i in range(row.t % 3)]


def test_answers_are_the_same_as_columns_and_as_records() -> None:
    """Blocks that became columns give the records that were put in, and the places of their rows."""
    for function, many in ((plain, False), (several_of, True)):
        flow = tw.Flow("answers", compile="never")
        flow.source("rows", Row, order_by="t").key_by("key").process(function, state=Plain).sink(
            "o"
        )
        node = next(one for one in make_plan(flow).nodes if isinstance(one, Keyed))
        one = [Out(i, i / 2, "é" if i % 2 else None, i > 3) for i in range(7)]
        given = [None, one[:2], [], [None, one[2]], one[3:]] if many else [*one[:4], None, *one[4:]]
        kept, packed = Answers(node), Answers(node)
        for answer in given:
            kept.rows.append(answer)
            packed.rows.append(answer)
            if len(packed.rows) % 2:
                packed.pack()
        packed.pack()
        made, found = kept.records(), packed.columns()
        assert made.rows == one and found is not None
        assert Chunk(node.record, found.columns, 7).rows() == one
        assert found.source.tolist() == made.source.tolist()
        packed.rows.append([(1, 2)] if many else (1, 2))
        packed.pack()
        assert packed.columns() is None
        again = packed.records()
        assert again.rows == [*one, (1, 2)] and again.source.tolist()[:7] == made.source.tolist()


def test_a_row_that_left_a_wrong_item_is_named_after_later_ones_became_columns() -> None:
    """An operator that does not reject rows says which of them it was."""
    given = [Row(i, 0, (i == 900) * 52, "") for i in range(2_000)]
    flow = tw.Flow("long", compile="never")
    flow.source("rows", Row, order_by="t").key_by("key").process(grow, state=Grown).sink("out")
    with pytest.raises(OperatorError, match="t=900"):
        tw.run(flow, {"rows": given}, threads=1)
