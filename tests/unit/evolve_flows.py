"""Flows of sales, each with one operator that has state, for what becomes of it when they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import thalweg as tw

SECOND = 1_000_000


class Sale(NamedTuple):
    ts: tw.Timestamp
    shop: str
    amount: int


class Number(NamedTuple):
    lane: int
    n: int


class Wide(NamedTuple):
    note: str | None
    ts: tw.Timestamp
    amount: float
    shop: str


class Strict(NamedTuple):
    ts: tw.Timestamp
    shop: str
    amount: int
    note: str


@tw.state
class Count:
    n: int = 0


def count(state: Count, row: Any) -> Sale:
    state.n += 1
    return Sale(row.ts, row.shop, state.n)


ROWS = [Sale(SECOND * i, "ab"[i % 2], i) for i in range(8)]
WIDE = [Wide(None, row.ts, float(row.amount), row.shop) for row in ROWS]
STRICT = [Strict(*row, "x") for row in ROWS]
INPUTS = {"sales": ROWS, "shops": ROWS, "orders": ROWS}

Body = Callable[[tw.Flow, Any], Any]


def flow(body: Body, *, name: str = "sales", record: Any = Sale, **options: Any) -> Any:
    """What makes a flow of one source."""
    lateness = options.pop("lateness", 0)

    def make() -> tw.Flow:
        made = tw.Flow("sales", compile="never", **options)
        body(made, made.source(name, record, order_by="ts", lateness=lateness))
        return made

    return make


def by_shop(name: str = "sums") -> Body:
    return lambda _, rows: rows.key_by("shop").process(count, state=Count, name=name).sink("out")


def window(size: Any = "20 seconds", name: str = "w", **asked: Any) -> Any:
    return flow(lambda _, rows: rows.key_by("shop").window(size, name=name, **asked).sink("out"))


def sessions(gap: Any, **asked: Any) -> Any:
    asked = asked or {"n": tw.agg.count()}
    return flow(lambda _, rows: rows.key_by("shop").sessions(gap, name="s", **asked).sink("out"))


def dedupe(within: Any, record: Any = Sale) -> Any:
    return flow(
        lambda _, rows: rows.key_by("shop").dedupe(within=within, name="d").sink("out"),
        record=record,
    )


def join(within: Any, record: Any = Sale, **options: Any) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        other = made.source("shops", Sale, order_by="ts")
        rows.join(other, on="shop", within=within, name="j", **options).sink("out")

    return flow(body, record=record)


def two(names: tuple[str, ...], **options: Any) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        for name in names:
            rows.key_by("shop").process(count, state=Count, name=name).sink(f"out {name}")

    return flow(body, **options)


def with_sources(*names: str, merged: bool = False, **options: Any) -> Any:
    lanes = {name: options.pop(name) for name in ("lane", "lanes") if name in options}

    def body(made: tw.Flow, rows: Any) -> None:
        others = [made.source(name, Sale, order_by="ts", **lanes) for name in names]
        if merged and others:
            rows = rows.union(*others)
        rows.key_by("shop").process(count, state=Count, name="sums").sink("out")
        for place, other in enumerate(others):
            (other.late if merged else other).sink(f"more {place}")

    return flow(body, **options)


def loop(verb: str, *arguments: Any, **named: Any) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        found = getattr(rows, verb)(*arguments, **named, name="loop")
        streams = found if isinstance(found, tuple) else (found,)
        for place, stream in enumerate(streams):
            stream.sink(f"out {place}")

    return flow(body)


def zipped(timeout: str) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        other = made.source("shops", Sale, order_by="ts").filter(lambda row: row.amount < 5)
        rows.zip(other, timeout=timeout, name="loop").pairs.sink("out")

    return flow(body)


def ordered(lateness: Any, record: Any = Sale) -> Any:
    return flow(
        lambda _, rows: rows.order_by("ts", lateness=lateness, name="o").sink("out"), record=record
    )


N, TOTAL = tw.agg.count(), tw.agg.sum("amount")
MAX, MEAN = tw.agg.max("amount"), tw.agg.mean("amount")
#: Of each shop four rows, all in the first window: 0 + 2 + 4 + 6 and 1 + 3 + 5 + 7.
NEVER = tw.NEVER
