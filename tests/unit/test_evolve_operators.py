"""Operators, sources and sinks that come, go, are renamed, or are asked for something else; every byte is compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.unit.evolve_kit import Change, check_all

import thalweg as tw

SECOND = 1_000_000


class Sale(NamedTuple):
    ts: tw.Timestamp
    shop: str
    amount: int


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


def join(within: Any, **options: Any) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        other = made.source("shops", Sale, order_by="ts")
        rows.join(other, on="shop", within=within, name="j", **options).sink("out")

    return flow(body)


def two(names: tuple[str, ...], **options: Any) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        for name in names:
            rows.key_by("shop").process(count, state=Count, name=name).sink(f"out {name}")

    return flow(body, **options)


def with_sources(*names: str, merged: bool = False, **options: Any) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        others = [made.source(name, Sale, order_by="ts") for name in names]
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

OPERATORS = {
    "renamed": Change(
        flow(by_shop()),
        flow(by_shop("counts"), renamed={"sums": "counts"}),
        {"counts": "same"},
        {"counts": [("a", 4), ("b", 4)]},
    ),
    "renamed with nobody told": Change(
        flow(by_shop()),
        flow(by_shop("counts")),
        refused=r"'sums': the checkpoint has a keyed operator, the flow has none of that name; .*renamed=\{'sums': ",
    ),
    "new": Change(
        two(("one",)),
        two(("one", "two")),
        {"one": "same", "two": "new"},
        {"one": [("a", 4), ("b", 4)], "two": []},
    ),
    "gone": Change(two(("one", "two")), two(("one",)), refused=r"'two'.*drop=\('two',\)"),
    "dropped": Change(
        two(("one", "two")),
        two(("one",)),
        {"two": "dropped"},
        {"one": [("a", 4), ("b", 4)]},
        drop=("two",),
    ),
    "another kind": Change(
        flow(by_shop()),
        flow(lambda _, rows: rows.process(count, state=Count, name="sums").sink("out")),
        refused="'sums': the checkpoint has a keyed operator, the flow has a stateful operator",
    ),
    "another kind, dropped": Change(
        flow(by_shop()),
        flow(lambda _, rows: rows.process(count, state=Count, name="sums").sink("out")),
        {"sums": "dropped"},
        {"sums": []},
        drop=("sums",),
    ),
    "without state any more": Change(
        flow(by_shop()),
        flow(lambda _, rows: rows.filter(lambda row: True, name="sums").sink("out")),
        refused="'sums': the checkpoint has a keyed operator, the flow has one without state",
    ),
    "other buckets": Change(
        flow(by_shop()),
        flow(
            lambda _, rows: (
                rows.key_by("shop", buckets=7).process(count, state=Count, name="sums").sink("out")
            )
        ),
        refused="buckets: the checkpoint has 128, the flow has 7",
    ),
    "another branch and sink": Change(
        flow(by_shop()),
        flow(
            lambda made, rows: (
                by_shop()(made, rows),
                rows.key_by("shop").window("20 seconds", n=N, name="w").sink("windows"),
                rows.sink("all"),
            )
        ),
        {"sums": "same", "w": "new"},
        {"sums": [("a", 4), ("b", 4)], "w": []},
    ),
}

BUILT_IN = {
    "aggregates added and moved": Change(
        window(n=N),
        window(total=TOTAL, n=N),
        {"w": "converted"},
        {"w": [("a", 0, 20 * SECOND - 1, 0, 4), ("b", 0, 20 * SECOND - 1, 0, 4)]},
    ),
    "aggregates removed": Change(
        window(total=TOTAL, top=MAX, n=N),
        window(n=N),
        {"w": "converted"},
        {"w": [("a", 0, 20 * SECOND - 1, 4), ("b", 0, 20 * SECOND - 1, 4)]},
    ),
    "an aggregate without a value": Change(
        window(n=N),
        window(n=N, best=MAX),
        refused="'w', aggregate 'best' .* is new, and has no value in an open window",
    ),
    "a mean": Change(window(n=N), window(n=N, m=MEAN), refused="aggregate 'm'"),
    "another aggregate of its name": Change(
        window(n=MAX),
        window(n=tw.agg.min("amount")),
        refused="aggregate 'n': the checkpoint has verb max, field amount, the flow has verb min, field amount",
    ),
    "size": Change(
        window(n=N), window(3600, n=N), refused="'w', .*size: the checkpoint has 20000000"
    ),
    "every": Change(
        window(n=N), window(every="10 seconds", n=N), refused="every: the checkpoint has 20000000"
    ),
    "start": Change(
        window(n=N), window(start="1 second", n=N), refused="start: the checkpoint has 0"
    ),
    "a function": Change(
        window(n=N),
        flow(
            lambda _, rows: (
                rows.key_by("shop").window("20 seconds", shown, name="w", into=Sale).sink("out")
            )
        ),
        refused="state class: the checkpoint has WindowState, the flow has WindowRows",
    ),
    "a window by parts": Change(
        window(n=N),
        flow(
            lambda _, rows: (
                rows.key_by("shop", grouping="partial")
                .window("20 seconds", n=N, name="w")
                .sink("out")
            )
        ),
        {"w": "same"},
    ),
    "a longer gap": Change(
        sessions("5 seconds"),
        sessions("8 seconds"),
        {"s": "converted"},
        {
            "s": [
                ("a", 14 * SECOND, 0, 6 * SECOND, True, 4),
                ("b", 15 * SECOND, SECOND, 7 * SECOND, True, 4),
            ]
        },
    ),
    "a shorter gap": Change(
        sessions("5 seconds"),
        sessions("4 seconds"),
        refused="gap: the checkpoint has 5000000, the flow has 4",
    ),
    "dedupe longer": Change(dedupe("9 seconds"), dedupe("20 seconds"), {"d": "converted"}),
    "dedupe shorter": Change(dedupe("9 seconds"), dedupe("8 seconds"), {"d": "converted"}),
    "dedupe for ever": Change(dedupe("9 seconds"), dedupe(None), {"d": "converted"}),
    "dedupe no longer for ever": Change(
        dedupe(None), dedupe("9 seconds"), refused="within: the checkpoint has none"
    ),
    "join within": Change(
        join("9 seconds"),
        join("8 seconds"),
        refused="'j', within, before or after: the checkpoint has",
    ),
    "join how": Change(
        join("9 seconds"), join("9 seconds", how="left"), refused="'j', how: the checkpoint has"
    ),
    "throttle": Change(
        loop("throttle", 2, "5 seconds"),
        loop("throttle", 1, "4 seconds"),
        {"loop": "changed"},
        {"loop": [([5 * SECOND, 6 * SECOND], [], 7 * SECOND, False)]},
    ),
    "throttle longer": Change(
        loop("throttle", 2, "5 seconds"),
        loop("throttle", 2, "9 seconds"),
        refused="'loop', per: the checkpoint has 5000000, the flow has 9000000",
    ),
    "zip": Change(zipped("9 seconds"), zipped("1 hour"), {"loop": "changed"}),
    "delay": Change(loop("delay", "2 seconds"), loop("delay", "1 second"), {"loop": "changed"}),
    "order_by": Change(
        ordered("3 seconds"),
        ordered("4 seconds"),
        refused="'o', lateness: the checkpoint has 3000000",
    ),
}


def shown(key: str, start: int, end: int, rows: list[Sale]) -> Sale:
    return Sale(start, key, len(rows))


SOURCES = {
    "new, by itself": Change(
        with_sources(), with_sources("shops"), {"shops": "new", "sums": "same"}
    ),
    "new, merged": Change(
        with_sources(merged=True),
        with_sources("shops", merged=True),
        {"shops": "new"},
        # Of its rows those before the last that had passed are late.
        {"sums": [("a", 4), ("b", 4)]},
    ),
    "gone": Change(
        with_sources("shops"),
        with_sources(),
        refused="source 'shops': the checkpoint has it, the flow has none",
    ),
    "dropped": Change(with_sources("shops"), with_sources(), {"shops": "dropped"}, drop=("shops",)),
    "renamed": Change(
        with_sources("shops", lateness=3 * SECOND),
        flow(
            lambda made, rows: (
                by_shop()(made, rows),
                made.source("shops", Sale, order_by="ts").sink("more 0"),
            ),
            name="orders",
            lateness=3 * SECOND,
            renamed={"sales": "orders"},
        ),
        {"orders": "same"},
        {"sums": [("a", 3), ("b", 2)]},
    ),
    "lateness": Change(
        with_sources(lateness=3 * SECOND),
        with_sources(lateness=4 * SECOND),
        refused="'sales', lateness: the checkpoint has 3000000",
    ),
}


def test_operators(tmp_path: Path) -> None:
    """Operators are known by their name, and hold what they did."""
    check_all(OPERATORS, tmp_path, INPUTS)


def test_built_in(tmp_path: Path) -> None:
    """The library's operators: each argument that their state depends on."""
    check_all(BUILT_IN, tmp_path, INPUTS)


def test_sources(tmp_path: Path) -> None:
    """Sources, and the rows that wait at them."""
    check_all(SOURCES, tmp_path, INPUTS)
