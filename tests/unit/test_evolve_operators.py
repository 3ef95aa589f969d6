"""Operators, sources and sinks that come, go, are renamed, or are asked for something else; every byte is compared."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from tests.unit.evolve_flows import (
    INPUTS,
    MAX,
    MEAN,
    ROWS,
    SECOND,
    STRICT,
    TOTAL,
    WIDE,
    Count,
    N,
    Sale,
    Strict,
    Wide,
    by_shop,
    count,
    dedupe,
    flow,
    join,
    loop,
    ordered,
    sessions,
    two,
    window,
    with_sources,
    zipped,
)
from tests.unit.evolve_kit import StateChange, check_all

import thalweg as tw

OPERATORS = {
    "renamed": StateChange(
        flow(by_shop()),
        flow(by_shop("counts"), renamed={"sums": "counts"}),
        {"counts": "same"},
        {"counts": [("a", 4), ("b", 4)]},
    ),
    "renamed with nobody told": StateChange(
        flow(by_shop()),
        flow(by_shop("counts")),
        refused=r"'sums': the checkpoint has a keyed operator, the flow has none of that name; .*renamed=\{'sums': ",
    ),
    "new": StateChange(
        two(("one",)),
        two(("one", "two")),
        {"one": "same", "two": "new"},
        {"one": [("a", 4), ("b", 4)], "two": []},
    ),
    "gone": StateChange(two(("one", "two")), two(("one",)), refused=r"'two'.*drop=\('two',\)"),
    "dropped": StateChange(
        two(("one", "two")),
        two(("one",)),
        {"two": "dropped"},
        {"one": [("a", 4), ("b", 4)]},
        drop=("two",),
    ),
    "another kind": StateChange(
        flow(by_shop()),
        flow(lambda _, rows: rows.process(count, state=Count, name="sums").sink("out")),
        refused="'sums': the checkpoint has a keyed operator, the flow has a stateful operator",
    ),
    "another kind, dropped": StateChange(
        flow(by_shop()),
        flow(lambda _, rows: rows.process(count, state=Count, name="sums").sink("out")),
        {"sums": "dropped"},
        {"sums": []},
        drop=("sums",),
    ),
    "without state any more": StateChange(
        flow(by_shop()),
        flow(lambda _, rows: rows.filter(lambda row: True, name="sums").sink("out")),
        refused="'sums': the checkpoint has a keyed operator, the flow has one without state",
    ),
    "other buckets": StateChange(
        flow(by_shop()),
        flow(
            lambda _, rows: (
                rows.key_by("shop", buckets=7).process(count, state=Count, name="sums").sink("out")
            )
        ),
        refused="buckets: the checkpoint has 128, the flow has 7",
    ),
    "another branch and sink": StateChange(
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
    "aggregates added and moved": StateChange(
        window(n=N),
        window(total=TOTAL, n=N),
        {"w": "converted"},
        {"w": [("a", 0, 20 * SECOND - 1, 0, 4), ("b", 0, 20 * SECOND - 1, 0, 4)]},
    ),
    "aggregates removed": StateChange(
        window(total=TOTAL, top=MAX, n=N),
        window(n=N),
        {"w": "converted"},
        {"w": [("a", 0, 20 * SECOND - 1, 4), ("b", 0, 20 * SECOND - 1, 4)]},
    ),
    "an aggregate without a value": StateChange(
        window(n=N),
        window(n=N, best=MAX),
        refused="'w', aggregate 'best' .* is new, and has no value in an open window",
    ),
    "a mean": StateChange(window(n=N), window(n=N, m=MEAN), refused="aggregate 'm'"),
    "another aggregate of its name": StateChange(
        window(n=MAX),
        window(n=tw.agg.min("amount")),
        refused="aggregate 'n': the checkpoint has verb max, field amount, the flow has verb min, field amount",
    ),
    "size": StateChange(
        window(n=N), window(3600, n=N), refused="'w', .*size: the checkpoint has 20000000"
    ),
    "every": StateChange(
        window(n=N), window(every="10 seconds", n=N), refused="every: the checkpoint has 20000000"
    ),
    "start": StateChange(
        window(n=N), window(start="1 second", n=N), refused="start: the checkpoint has 0"
    ),
    "a function": StateChange(
        window(n=N),
        flow(
            lambda _, rows: (
                rows.key_by("shop").window("20 seconds", shown, name="w", into=Sale).sink("out")
            )
        ),
        refused="state class: the checkpoint has WindowState, the flow has WindowRows",
    ),
    "a window by parts": StateChange(
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
    "a longer gap": StateChange(
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
    "a shorter gap": StateChange(
        sessions("5 seconds"),
        sessions("4 seconds"),
        refused="gap: the checkpoint has 5000000, the flow has 4",
    ),
    "dedupe longer": StateChange(dedupe("9 seconds"), dedupe("20 seconds"), {"d": "converted"}),
    "dedupe shorter": StateChange(dedupe("9 seconds"), dedupe("8 seconds"), {"d": "converted"}),
    "dedupe for ever": StateChange(dedupe("9 seconds"), dedupe(None), {"d": "converted"}),
    "dedupe no longer for ever": StateChange(
        dedupe(None), dedupe("9 seconds"), refused="within: the checkpoint has none"
    ),
    "join within": StateChange(
        join("9 seconds"),
        join("8 seconds"),
        refused="'j', within, before or after: the checkpoint has",
    ),
    "join how": StateChange(
        join("9 seconds"), join("9 seconds", how="left"), refused="'j', how: the checkpoint has"
    ),
    "throttle": StateChange(
        loop("throttle", 2, "5 seconds"),
        loop("throttle", 1, "4 seconds"),
        {"loop": "changed"},
        {"loop": [([5 * SECOND, 6 * SECOND], [], 7 * SECOND, False)]},
    ),
    "throttle longer": StateChange(
        loop("throttle", 2, "5 seconds"),
        loop("throttle", 2, "9 seconds"),
        refused="'loop', per: the checkpoint has 5000000, the flow has 9000000",
    ),
    "zip": StateChange(zipped("9 seconds"), zipped("1 hour"), {"loop": "changed"}),
    "delay": StateChange(
        loop("delay", "2 seconds"), loop("delay", "1 second"), {"loop": "changed"}
    ),
    "order_by": StateChange(
        ordered("3 seconds"),
        ordered("4 seconds"),
        refused="'o', lateness: the checkpoint has 3000000",
    ),
}


def shown(key: str, start: int, end: int, rows: list[Sale]) -> Sale:
    return Sale(start, key, len(rows))


SOURCES = {
    "new, by itself": StateChange(
        with_sources(), with_sources("shops"), {"shops": "new", "sums": "same"}
    ),
    "new, merged": StateChange(
        with_sources(merged=True),
        with_sources("shops", merged=True),
        {"shops": "new"},
        # Of its rows those before the last that had passed are late.
        {"sums": [("a", 4), ("b", 4)]},
    ),
    "new, merged, with lanes": StateChange(
        with_sources(merged=True),
        with_sources("shops", merged=True, lane="shop", lanes=["a", "b"]),
        {"shops": "new"},
        {"sums": [("a", 4), ("b", 4)]},
    ),
    "gone": StateChange(
        with_sources("shops"),
        with_sources(),
        refused="source 'shops': the checkpoint has it, the flow has none",
    ),
    "dropped": StateChange(
        with_sources("shops"), with_sources(), {"shops": "dropped"}, drop=("shops",)
    ),
    "renamed": StateChange(
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
    "lateness": StateChange(
        with_sources(lateness=3 * SECOND),
        with_sources(lateness=4 * SECOND),
        refused="'sales', lateness: the checkpoint has 3000000",
    ),
}


@tw.state
class Kept:
    seen: int = 0
    last: str = ""


async def counted(rows: tw.Input[Sale], out: tw.Output[Sale], kept: Kept) -> None:
    """Of two rows the second one."""
    while await tw.wait_for_all({rows: 2}):
        rows.pop()
        row = rows.pop()
        kept.seen += 2
        kept.last = row.shop
        await out.push(row._replace(amount=kept.seen))


def shorter(old: Any) -> Any:
    return {"pairs": old["seen"] // 2}


@tw.state(migrate=shorter)
class Pairs:
    pairs: int = 0


async def paired(rows: tw.Input[Sale], out: tw.Output[Sale], kept: Pairs) -> None:
    while await tw.wait_for_all({rows: 2}):
        rows.pop()
        kept.pairs += 1
        await out.push(rows.pop()._replace(amount=kept.pairs))


async def with_switch(
    rows: tw.Input[Sale], switch: tw.Control[Sale], out: tw.Output[Sale], kept: Kept
) -> None:
    while await tw.wait_for_all({rows: 2}):
        rows.pop()
        await out.push(rows.pop())


def coroutine(function: Any, **inputs: str) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        more = {port: made.source(name, Sale, order_by="ts") for port, name in inputs.items()}
        odd = rows.filter(lambda row: row.amount != 7)
        made.operator("loop", function, rows=odd, **more).sink("out")

    return flow(body)


def by_key(function: Any, **inputs: str) -> Any:
    """A loop for each shop."""

    def body(made: tw.Flow, rows: Any) -> None:
        more = {port: made.source(name, Sale, order_by="ts") for port, name in inputs.items()}
        streams = {"rows": rows.filter(lambda row: row.amount != 7), **more}
        keyed = {port: stream.key_by("shop") for port, stream in streams.items()}
        made.operator("loop", function, **keyed).sink("out")

    return flow(body)


async def fed(
    rows: tw.Input[Sale], back: tw.Control[Sale], out: tw.Output[Sale], kept: Kept
) -> None:
    while await tw.wait_for_all(rows):
        while len(back):
            kept.seen += back.pop().amount
        await out.push(rows.pop())


async def fed_pairs(
    rows: tw.Input[Sale], back: tw.Control[Sale], out: tw.Output[Sale], kept: Pairs
) -> None:
    while await tw.wait_for_all(rows):
        await out.push(rows.pop())


def feedback(function: Any) -> Any:
    def body(made: tw.Flow, rows: Any) -> None:
        back = made.feedback("back", Sale)
        out = made.operator("loop", function, rows=rows, back=back)
        counts = out.key_by("shop").process(count, state=Count, name="sums")
        back.connect(counts)
        counts.sink("out")

    return flow(body)


@tw.state
class Alarm:
    timer: tw.Timer = tw.NEVER
    n: int = 0


@tw.state(migrate=lambda old: {"timer": old["timer"], "many": old["n"] > 3})
class Later:
    many: bool = False
    timer: tw.Timer = tw.NEVER


@tw.state(migrate=lambda old: {"timer": 5, "n": old["n"]})
class Sooner:
    n: int = 0
    timer: tw.Timer = tw.NEVER


def arm(state: Any, row: Sale) -> None:
    state.timer = row.ts + 100
    if hasattr(state, "n"):
        state.n += 1


def fire(state: Any, key: str, time: int) -> Sale:
    return Sale(time, key, int(getattr(state, "many", False)))


def alarm(cls: Any, **timed: Any) -> Any:
    return flow(
        lambda _, rows: (
            rows.key_by("shop").process(arm, state=cls, on_timer=fire, name="t").sink("out")
        )
    )


def no_wait(record: Any, **options: Any) -> Any:
    return flow(lambda _, rows: rows.sink("out"), record=record, **options)


SIXTH = {"ts": dt.datetime(1970, 1, 1, 0, 0, 6, tzinfo=dt.UTC), "shop": "a", "amount": 6}
FIFTH = {**SIXTH, "ts": dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC), "shop": "b", "amount": 5}
WAITING = {
    "a wider record": StateChange(
        flow(by_shop(), lateness=3 * SECOND),
        flow(by_shop(), record=Wide, lateness=3 * SECOND),
        {"sales": "converted", "sums": "same"},
        {"sums": [("a", 3), ("b", 2)]},
        rows={"sales": WIDE},
    ),
    "a field that waiting rows lack": StateChange(
        flow(by_shop(), lateness=3 * SECOND),
        flow(by_shop(), record=Strict, lateness=3 * SECOND),
        refused="source 'sales', field note: str: rows that wait do not have it",
        rows={"sales": STRICT},
    ),
    "no rows wait": StateChange(
        flow(by_shop()),
        flow(by_shop(), record=Strict),
        {"sales": "changed"},
        rows={"sales": STRICT},
    ),
    "order_by": StateChange(
        ordered("3 seconds"),
        ordered("3 seconds", Wide),
        {"o": "converted"},
        rows={"sales": WIDE},
    ),
    "rows of windows": StateChange(
        flow(
            lambda _, rows: (
                rows.key_by("shop").window("20 seconds", shown, name="w", into=Sale).sink("out")
            )
        ),
        flow(
            lambda _, rows: (
                rows.key_by("shop").window("20 seconds", shown, name="w", into=Sale).sink("out")
            ),
            record=Wide,
        ),
        {"w": "converted"},
        rows={"sales": WIDE},
    ),
    "rows of joins": StateChange(
        join("9 seconds"), join("9 seconds", record=Wide), {"j": "converted"}, rows={"sales": WIDE}
    ),
    "what dedupe compares": StateChange(
        dedupe("9 seconds"),
        dedupe("9 seconds", Wide),
        refused="'d', the fields that are compared: the checkpoint has",
        rows={"sales": WIDE},
    ),
    "a coroutine": StateChange(
        coroutine(counted),
        coroutine(paired),
        {"loop": "migrated"},
        {"loop": [(3, [SIXTH], 6 * SECOND, False)]},
    ),
    "a loop by key": StateChange(
        by_key(counted),
        by_key(paired),
        {"loop": "migrated"},
        {"loop": [("a", 2, []), ("b", 1, [FIFTH])]},
    ),
    "another input of a loop by key": StateChange(
        by_key(counted),
        by_key(with_switch, switch="shops"),
        {"loop": "appended", "shops": "new"},
    ),
    "a loop that is by key now": StateChange(
        coroutine(counted),
        by_key(counted),
        refused="'loop': the checkpoint has a coroutine operator",
    ),
    "another input": StateChange(
        coroutine(counted),
        coroutine(with_switch, switch="shops"),
        {"loop": "converted", "shops": "new"},
    ),
    "an input less": StateChange(
        coroutine(with_switch, switch="shops"),
        coroutine(counted),
        refused="'loop', inputs: the checkpoint has rows, switch, the flow has rows",
        drop=("shops",),
    ),
    "a loop of feedback": StateChange(
        feedback(fed),
        feedback(fed_pairs),
        {"loop": "migrated", "sums": "same"},
        {"sums": [("a", 4), ("b", 4)]},
    ),
    "a timer": StateChange(
        alarm(Alarm),
        alarm(Later),
        {"t": "migrated"},
        {"t": [("b", False, 7 * SECOND + 100)]},
    ),
    "a timer that has passed": StateChange(
        alarm(Alarm),
        alarm(Sooner),
        refused="'t': migrate fails: key 'b': its new timer 5 lies before 7000000, which has passed",
    ),
}


def test_operators(tmp_path: Path) -> None:
    """Operators are known by their name, and hold what they did."""
    check_all(OPERATORS, tmp_path, INPUTS)


@pytest.mark.slow
def test_built_in(tmp_path: Path) -> None:
    """The library's operators: each argument that their state depends on."""
    check_all(BUILT_IN, tmp_path, INPUTS)


def test_sources(tmp_path: Path) -> None:
    """Sources come and go; a new one that joins others begins where they are."""
    check_all(SOURCES, tmp_path, INPUTS)
    checkpoint = tmp_path / "late"
    before, after = with_sources(merged=True)(), with_sources("shops", merged=True)()
    tw.run(before, {"sales": ROWS}, checkpoint=checkpoint, end="keep")
    lanes = with_sources("shops", merged=True, lane="shop", lanes=None)()
    with pytest.raises(tw.CheckpointMismatch, match="so its lanes must be known; give it lanes="):
        tw.run(lanes, {"sales": ROWS, "shops": ROWS}, checkpoint=checkpoint)
    more = [*ROWS, Sale(20 * SECOND, "c", 0)]
    inputs = {"sales": more, "shops": more}
    result = tw.run(after, inputs, checkpoint=checkpoint)
    # Those up to the last that had passed.
    assert result.rows("more 0") == ROWS
    assert [(row.shop, row.amount) for row in result.rows("out")] == [("c", 1), ("c", 2)]


def test_waiting(tmp_path: Path) -> None:
    """Rows that are held, states of loops, timers."""
    check_all(WAITING, tmp_path, INPUTS)
