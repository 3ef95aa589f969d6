"""Parts of aggregates: which rows become one, what a part holds, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.connectors import as_source, never
from thalweg.engine.build import prepare
from thalweg.engine.combine import grouped
from thalweg.engine.serial import SerialEngine
from thalweg.errors import BuildError
from thalweg.flow.operators.built_in import Combine
from thalweg.flow.records import Schema
from thalweg.plan.plan import Plan, make_plan
from thalweg.slots import SlottedEngine


class Row(NamedTuple):
    ts: int
    key: str | None
    tag: tw.Category
    amount: int
    price: float
    maybe: float | None


class Wide(NamedTuple):
    ts: int
    big: int


SCHEMA = Schema.of(Row)


def row(ts: int = 0, key: str | None = "a", **fields: Any) -> Row:
    given = {"tag": "red", "amount": 0, "price": 0.0, "maybe": None, **fields}
    return Row(ts, key, **given)


def by_key(**options: Any) -> tw.KeyedStream:
    flow = tw.Flow("parts", compile="never")
    return flow.source("rows", Row, order_by="ts").key_by("key", grouping="partial", **options)


def windows(rows: list[Row], *, end: bool = True, **aggregates: Any) -> list[Any]:
    """The rows of a window that has merged the parts of a single chunk."""
    stream = by_key().window(100, name="w", **aggregates)
    stream.sink("out")
    return tw.testing.run(stream.flow, {"rows": rows}, end=end).rows("out")


# -- which rows become one -------------------------------------------------------------------------------


def test_groups_stand_where_their_first_rows_stood() -> None:
    """Rows that are equal in all fields are a group; null is a value of its own, and an empty text another."""
    keys = ["b", None, "a", "b", "", None, "a"]
    chunk = Chunk.from_rows(SCHEMA, [row(key=key, tag=str(i % 2)) for i, key in enumerate(keys)])
    groups, firsts = grouped([chunk.column("key")], len(chunk))
    assert groups.tolist() == [0, 1, 2, 0, 3, 1, 2]
    assert firsts.tolist() == [0, 1, 2, 4]
    both, _ = grouped([chunk.column("key"), chunk.column("tag")], len(chunk))
    assert both.tolist() == [0, 1, 2, 3, 4, 1, 2]


def test_many_groups_of_many_rows() -> None:
    """As a dictionary groups them, also with nulls of fixed-width fields and in slices of chunks."""
    numbers = np.random.default_rng(1).integers(0, 900, 3_000).tolist()
    rows = [row(amount=n % 700, maybe=None if n % 3 else float(n)) for n in numbers]
    chunk = Chunk.from_rows(SCHEMA, rows).slice(17, 2_900)
    known: dict[Any, int] = {}
    expected = [known.setdefault((one.amount, one.maybe), len(known)) for one in rows[17:2_900]]
    groups, firsts = grouped([chunk.column("amount"), chunk.column("maybe")], len(chunk))
    assert groups.tolist() == expected
    assert groups[firsts].tolist() == list(range(len(known)))


def test_no_rows() -> None:
    """Of nothing nothing is made."""
    groups, firsts = grouped([Chunk.empty(SCHEMA).column("key")], 0)
    assert len(groups) == len(firsts) == 0


# -- what the parts hold ---------------------------------------------------------------------------------


def test_extremes_of_texts_and_categories() -> None:
    """By their UTF-8 bytes, not by hash or by first appearance."""
    rows = [row(key="z", tag=tag) for tag in ("b", "é", "a", "")]
    found = windows(rows, low=tw.agg.min("tag"), high=tw.agg.max("tag"), key_=tw.agg.max("key"))
    assert [(one.low, one.high, one.key_) for one in found] == [("", "é", "z")]


def test_nulls_and_nan() -> None:
    """Nulls are left out, NaN is the greatest, and a window of nulls has no extreme."""
    aggregates = {
        "low": tw.agg.min("maybe"),
        "high": tw.agg.max("maybe"),
        "price": tw.agg.min("price"),
    }
    some = [row(maybe=one, price=math.nan) for one in (None, 2.0, math.nan, 1.0)]
    none = [row(key=None), row(key=None)]
    found = {one.key: one for one in windows([*some, *none], **aggregates)}
    assert repr(found["a"][3:]) == "(1.0, nan, nan)"
    assert found[None][3:] == (None, None, 0.0)


def test_zeros_of_both_signs_are_one_extreme() -> None:
    """Whichever comes first: the least of 0.0 and -0.0 is 0.0, as with whole keys."""
    for prices in ((0.0, -0.0), (-0.0, 0.0), (-0.0,)):
        rows = [row(price=price) for price in prices]
        assert repr(windows(rows, low=tw.agg.min("price"))[0].low) == "0.0"


@pytest.mark.parametrize("compiled", ["auto", "never"])
@pytest.mark.parametrize("amounts", [(1, 2, 1), (2, 2), (-2, -3)])
def test_sums_that_leave_64_bits(compiled: Any, amounts: tuple[int, ...]) -> None:
    """They are an error, compiled or not: as with whole keys."""

    def run(grouping: Any) -> str:
        flow = tw.Flow("sums", compile=compiled)
        keyed = flow.source("rows", Wide, order_by="ts").key_by("ts", grouping=grouping)
        keyed.window(10, t=tw.agg.sum("big")).sink("out")
        rows = [Wide(0, amount << 61) for amount in amounts]
        try:
            return repr(tw.run(flow, {"rows": rows}).rows("out"))
        except tw.OperatorError as error:
            return str(error).splitlines()[0]

    assert "does not fit 64 bits" in run("fields")
    assert run("partial") == run("fields")


def test_names_may_be_those_of_parts() -> None:
    """A field or a result that is called as a part inside would be is not mixed up with it."""

    class Odd(NamedTuple):
        ts: int
        part0: int
        window_start: int

    flow = tw.Flow("odd", compile="never")
    rows = flow.source("rows", Odd, order_by="ts").key_by(
        "part0", "window_start", grouping="partial"
    )
    rows.window(10, part1=tw.agg.count(), most=tw.agg.max("part0")).sink("out")
    rows_in = [Odd(1, 5, 7), Odd(2, 5, 7)]
    assert [one[:2] + one[4:] for one in tw.run(flow, {"rows": rows_in}).rows("out")] == [
        (5, 7, 2, 5)
    ]


def test_one_row_a_chunk_and_key_leaves() -> None:
    """A chunk with two keys in one window gives two parts, each in the place of its first row."""
    stream = by_key().window(100, name="w", n=tw.agg.count())
    stream.sink("out")
    engine = SerialEngine(prepare(make_plan(stream.flow)))
    chunk = Chunk.from_rows(SCHEMA, [row(ts, key) for ts, key in enumerate("abbabba")])
    list(engine.feed("rows", chunk, []))
    list(engine.finish())
    assert engine.counts["w/combine"]["in"] == 7
    assert engine.counts["w/combine"]["out"] == engine.counts["w"]["in"] == 2


# -- the load of slots -----------------------------------------------------------------------------------


def fullest(grouping: Any, rows: list[Row]) -> tuple[int, int]:
    """The rows of the slot that gets most of them, and of all six."""
    flow = tw.Flow("hot", compile="never")
    keyed = flow.source("rows", Row, order_by="ts").key_by("key", grouping=grouping)
    keyed.window(1_000_000, name="w", n=tw.agg.count()).sink("out")
    plan: Plan = make_plan(flow)
    engine = SlottedEngine(prepare(plan), slots=6, chunk_rows=500)
    taken = [0] * 6

    def watch(slot: int) -> Callable[..., None]:
        def took(chunk: Chunk, *_: Any) -> None:
            taken[slot] += len(chunk)

        return took

    for place, stage in engine.places.items():
        stage.engine.keyed["w"].observer = watch(place.slot)
    try:
        for chunk, bad in as_source("rows", rows).rows(plan.sources[0], 500, never()):
            list(engine.feed("rows", chunk, bad))
            list(engine.advance())
        list(engine.finish())
    finally:
        engine.stop()
    return max(taken), sum(taken)


def test_a_hot_key_is_no_hot_slot() -> None:
    """With 79 % of the rows on a key the fullest of six slots has 4.7 times its share; in parts, nearly its share."""
    keys = np.random.default_rng(2).integers(0, 100, 6_000).tolist()
    rows = [row(ts, "hot" if one < 79 else f"k{ts % 300}") for ts, one in enumerate(keys)]
    most, total = fullest("fields", rows)
    assert total == len(rows) and most * 6 > 4.7 * total
    most, total = fullest("partial", rows)
    assert total < len(rows) / 3 and most * 6 < 1.5 * total


# -- what is refused -------------------------------------------------------------------------------------


@tw.state
class Seen:
    n: int = 0


def count(seen: Seen, one: Row) -> Row:
    return one


def summary(key: str, start: int, end: int, rows: list[Row]) -> Row:
    return rows[0]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "process": (lambda: by_key().process(count, state=Seen), "'process': .*state that only it"),
    "sessions": (lambda: by_key().sessions(5, n=tw.agg.count()), "'sessions': .*gap between"),
    "dedupe": (lambda: by_key().dedupe(name="once"), "'once': .*keeps the first"),
    "function": (lambda: by_key().window(5, summary), "'window': .*sees all rows"),
    "float sum": (
        lambda: by_key().window(5, t=tw.agg.sum("price")),
        "t adds floats, and their sum depends on the order",
    ),
    "mean": (lambda: by_key().window(5, m=tw.agg.mean("amount")), "m is a mean, .* a count"),
    "top_k": (
        lambda: by_key().window(5, n=tw.agg.count(), b=tw.agg.top_k(1, by="ts")),
        "b is a top_k, where the first",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_merge_is_refused(what: str) -> None:
    """With the operator's name, the reason, what may be split, and what to do."""
    make, text = REFUSED[what]
    with pytest.raises(
        BuildError, match=rf"(?s)operator {text}" if text[0] == "'" else text
    ) as raised:
        make()
    assert "count, min, max, and sum of an int or bool field" in str(raised.value)
    assert "Leave grouping= out" in str(raised.value)


def test_other_mistakes() -> None:
    """A key that a function makes, a grouping that there is not, no aggregates, and what is no aggregate."""
    flow = tw.Flow("parts")
    rows = flow.source("rows", Row, order_by="ts")
    with pytest.raises(BuildError, match="put the key into a field by map"):
        rows.key_by(lambda one: one.amount, into=int, grouping="partial")
    with pytest.raises(
        BuildError, match="grouping: expected one of fields, partial, got 'shuffle'"
    ):
        rows.key_by("key", grouping="shuffle")  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="say what to compute"):
        by_key().window(5)
    with pytest.raises(BuildError, match="n= wants an aggregate such as"):
        by_key().window(5, n=3)  # type: ignore[arg-type]


def test_explained() -> None:
    """The plan shows the step before the exchange, and what its parts are of."""
    stream = by_key().window(5, name="w", n=tw.agg.count(), top=tw.agg.max("amount"))
    stream.sink("out")
    plan = make_plan(stream.flow)
    node = next(one for one in plan.nodes if isinstance(one, Combine))
    assert plan.stage(node.index) == 0 and plan.stage(stream.ref.node) == 1
    said = " ".join(str(stream.flow.explain()).split())
    assert "same key, window_start: count, max of amount" in said
