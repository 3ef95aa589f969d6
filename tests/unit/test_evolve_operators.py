"""Operators, sources and sinks that come, go, are renamed, or are asked for something else; every byte is compared."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.connectors.toy import ToyLog
from tests.unit.evolve_kit import Change, bytes_of, check_all

import thalweg as tw
from thalweg.checkpoint import identity
from thalweg.checkpoint import record as records
from thalweg.checkpoint.hosts import copying
from thalweg.checkpoint.hosts.evolution import go_on
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.inspect import read_state
from thalweg.checkpoint.paths import resolve
from thalweg.plan.plan import make_plan
from thalweg.spark.checkpoint.store import Store

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
    "new, merged, with lanes": Change(
        with_sources(merged=True),
        with_sources("shops", merged=True, lane="shop", lanes=["a", "b"]),
        {"shops": "new"},
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
WAITING = {
    "a wider record": Change(
        flow(by_shop(), lateness=3 * SECOND),
        flow(by_shop(), record=Wide, lateness=3 * SECOND),
        {"sales": "converted", "sums": "same"},
        {"sums": [("a", 3), ("b", 2)]},
        rows={"sales": WIDE},
    ),
    "a field that waiting rows lack": Change(
        flow(by_shop(), lateness=3 * SECOND),
        flow(by_shop(), record=Strict, lateness=3 * SECOND),
        refused="source 'sales', field note: str: rows that wait do not have it",
        rows={"sales": STRICT},
    ),
    "no rows wait": Change(
        flow(by_shop()),
        flow(by_shop(), record=Strict),
        {"sales": "changed"},
        rows={"sales": STRICT},
    ),
    "order_by": Change(
        ordered("3 seconds"),
        ordered("3 seconds", Wide),
        {"o": "converted"},
        rows={"sales": WIDE},
    ),
    "rows of windows": Change(
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
    "rows of joins": Change(
        join("9 seconds"), join("9 seconds", record=Wide), {"j": "converted"}, rows={"sales": WIDE}
    ),
    "what dedupe compares": Change(
        dedupe("9 seconds"),
        dedupe("9 seconds", Wide),
        refused="'d', the fields that are compared: the checkpoint has",
        rows={"sales": WIDE},
    ),
    "a coroutine": Change(
        coroutine(counted),
        coroutine(paired),
        {"loop": "migrated"},
        {"loop": [(3, [SIXTH], 6 * SECOND, False)]},
    ),
    "another input": Change(
        coroutine(counted),
        coroutine(with_switch, switch="shops"),
        {"loop": "converted", "shops": "new"},
    ),
    "an input less": Change(
        coroutine(with_switch, switch="shops"),
        coroutine(counted),
        refused="'loop', inputs: the checkpoint has rows, switch, the flow has rows",
        drop=("shops",),
    ),
    "a loop of feedback": Change(
        feedback(fed),
        feedback(fed_pairs),
        {"loop": "migrated", "sums": "same"},
        {"sums": [("a", 4), ("b", 4)]},
    ),
    "a timer": Change(
        alarm(Alarm),
        alarm(Later),
        {"t": "migrated"},
        {"t": [("b", False, 7 * SECOND + 100)]},
    ),
    "a timer that has passed": Change(
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


def test_sources_of_a_batch_that_was_begun(tmp_path: Path) -> None:
    """Sources do not change where a batch of the old ones has been planned; what else changes is done."""
    one = with_sources("shops")()
    _begun(one, INPUTS_OF_TWO, tmp_path)
    tw.run(one, INPUTS_OF_TWO, checkpoint=tmp_path, end="keep")
    more = {name: [*rows, Sale(99 * SECOND, "a", 1)] for name, rows in INPUTS_OF_TWO.items()}
    _begun(one, more, tmp_path)
    there = bytes_of(tmp_path)
    with pytest.raises(tw.CheckpointMismatch, match="batch 1 was begun with those that there were"):
        tw.run(with_sources()(), {"sales": more["sales"]}, checkpoint=tmp_path, drop=("shops",))
    assert bytes_of(tmp_path) == there
    tw.run(one, more, checkpoint=tmp_path, end="keep")
    tw.run(
        with_sources()(), {"sales": more["sales"]}, checkpoint=tmp_path, drop=("shops",), end="keep"
    )
    assert read_state(str(tmp_path), "sums").to_pylist()[0] == {"shop": "a", "n": 5}


INPUTS_OF_TWO = {"sales": ROWS, "shops": ROWS}


def _begun(made: tw.Flow, inputs: Any, checkpoint: Path) -> None:
    """A batch is planned, and its run ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("thalweg.embedded.durable.outputs.DurableOutputs.write", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            tw.run(made, inputs, checkpoint=checkpoint, end="keep")


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_savepoints(tmp_path: Path) -> None:
    """A copy is where the checkpoint was: it goes on alike; what is no place or no batch is refused."""
    flow_one, checkpoint = flow(by_shop())(), tmp_path / "checkpoint"
    for rows in (3, 5, 8):
        tw.run(flow_one, {"sales": ROWS[:rows]}, checkpoint=checkpoint, end="keep", every=0)
    there = bytes_of(checkpoint)
    newest = records.batches(*resolve(f"{checkpoint}/thalweg"))
    for batch, held in ((None, 4), (newest[0], 3)):
        copy = tmp_path / f"copy {batch}"
        made = tw.checkpoint.copy(str(checkpoint), str(copy), batch=batch)
        assert made.batch == (newest[-1] if batch is None else batch)
        assert made.files == len(bytes_of(copy))
        assert bytes_of(checkpoint) == there
        assert read_state(str(copy), "sums").to_pylist()[0] == {"shop": "a", "n": held}
        result = tw.run(flow_one, {"sales": ROWS}, checkpoint=copy)
        assert [row.amount for row in result.rows("out")][-2:] == ([] if batch is None else [4, 4])
        with pytest.raises(tw.CheckpointError, match="has files; give a folder"):
            tw.checkpoint.copy(str(checkpoint), str(copy))
    with pytest.raises(tw.CheckpointError, match="has not the batch 77"):
        tw.checkpoint.copy(str(checkpoint), str(tmp_path / "no"), batch=77)
    with pytest.raises(tw.CheckpointError, match="lies in the checkpoint"):
        tw.checkpoint.copy(str(checkpoint), str(checkpoint / "in"))
    # A copy that was not finished is no checkpoint.
    copy = tmp_path / "copy"
    tw.checkpoint.copy(str(checkpoint), str(copy))
    (copy / "thalweg" / "thalweg.json").unlink()
    with pytest.raises(tw.CheckpointError, match=r"thalweg\.json is missing"):
        tw.run(flow_one, {"sales": ROWS}, checkpoint=copy)


@pytest.mark.slow
def test_a_savepoint_while_the_query_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are deleted meanwhile are those of a newer batch then; of a batch that was asked for it is said."""
    made, checkpoint = flow(by_shop())(), tmp_path / "checkpoint"
    tw.run(made, {"sales": ROWS[:1]}, checkpoint=checkpoint, end="keep")
    plain, seen = copying.read_bytes, []

    def reading(fs: Any, path: str) -> bytes | None:
        if "/state/" in path and len(seen) < 3:
            seen.append(path)
            for _ in range(3):
                upto = len(seen) + len(records.batches(fs, f"{checkpoint}/thalweg"))
                tw.run(made, {"sales": _many(checkpoint, upto)}, checkpoint=checkpoint, end="keep")
        return plain(fs, path)

    monkeypatch.setattr(copying, "read_bytes", reading)
    copied = tw.checkpoint.copy(str(checkpoint), str(tmp_path / "copy"))
    assert seen
    state = read_state(str(tmp_path / "copy"), "sums").to_pylist()
    assert sum(row["n"] for row in state) == copied.batch + 1
    seen.clear()
    newest = records.batches(*resolve(f"{checkpoint}/thalweg"))[0]
    with pytest.raises(tw.CheckpointError, match="was deleted while it was copied"):
        tw.checkpoint.copy(str(checkpoint), str(tmp_path / "old"), batch=newest)


def _many(checkpoint: Path, _: int) -> list[Sale]:
    """One row more than the checkpoint has read."""
    read = sum(row["n"] for row in read_state(str(checkpoint), "sums").to_pylist())
    return [Sale(SECOND * i, "ab"[i % 2], i) for i in range(read + 1)]


def test_a_batch_that_spark_runs_again(tmp_path: Path) -> None:
    """State is not rewritten behind a batch that is run again from the record before it."""
    made, checkpoint = flow(by_shop())(), tmp_path / "checkpoint"
    for rows in (3, 6):
        tw.run(made, {"sales": ROWS[:rows]}, checkpoint=checkpoint, end="keep")
    fs, root = resolve(f"{checkpoint}/thalweg")
    before = records.read(fs, root, 0)
    there = bytes_of(checkpoint)
    renamed = make_plan(flow(by_shop("counts"), renamed={"sums": "counts"})())
    with pytest.raises(
        tw.CheckpointMismatch, match="Spark has not logged batch 1, and runs it again"
    ):
        go_on(fs, root, renamed, before)
    assert bytes_of(checkpoint) == there
    # What needs no other record may be.
    assert go_on(fs, root, make_plan(two(("sums", "new"))()), before).record == before
    # A record before one that was rewritten is of another form.
    go_on(fs, root, renamed, records.read(fs, root, 1))
    assert records.batches(fs, root) == [1]
    records.write(fs, root, before)
    with pytest.raises(tw.CheckpointMismatch, match="the state was rewritten behind batch 1"):
        go_on(fs, root, renamed, before)


def test_a_start_behind_a_kill_writes_what_the_record_says(tmp_path: Path) -> None:
    """Between the record and thalweg.json: everybody reads the record, and the next start writes the file."""
    checkpoint = tmp_path / "checkpoint"
    tw.run(flow(by_shop())(), {"sales": ROWS}, checkpoint=checkpoint, end="keep")
    file = checkpoint / "thalweg" / "thalweg.json"
    old = file.read_bytes()
    after = flow(by_shop("counts"), renamed={"sums": "counts"})()
    tw.run(after, {"sales": ROWS}, checkpoint=checkpoint, end="keep")
    new = file.read_bytes()
    file.write_bytes(old)
    assert read_state(str(checkpoint), "counts").num_rows == 2
    assert {one.kind for one in tw.checkpoint.diff(str(checkpoint), after).changes} == {"same"}
    assert not tw.checkpoint.diff(str(checkpoint), flow(by_shop())()).accepted
    tw.run(after, {"sales": ROWS}, checkpoint=checkpoint, end="keep")
    assert file.read_bytes() == new
    # Also where the start changes what the state means once more, without a batch in between.
    more = two(("counts", "new"))()
    tw.run(more, {"sales": ROWS}, checkpoint=checkpoint, end="keep")
    assert {one.kind for one in tw.checkpoint.diff(str(checkpoint), more).changes} == {"same"}


def test_what_is_dropped_for_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A name that has nothing to give up is told, and harms nothing."""
    made = flow(by_shop())()
    tw.run(made, {"sales": ROWS[:5]}, checkpoint=tmp_path, end="keep")
    tw.run(made, {"sales": ROWS}, checkpoint=tmp_path, end="keep", drop=["sums", "suns"])
    assert [record.args[0] for record in caplog.records if "nothing was dropped" in record.msg] == [
        "sums",
        "suns",
    ]
    assert read_state(str(tmp_path), "sums").to_pylist()[0] == {"shop": "a", "n": 4}
    with pytest.raises(tw.BuildError, match="drop= needs checkpoint="):
        tw.run(made, {"sales": ROWS}, drop=["sums"])


def test_names_that_cannot_be() -> None:
    """Of renamed= each name is one operator's, before and now."""
    for renamed, says in (
        ({"sums": "other"}, "there is no operator or source 'other'"),
        ({"sales": "sums"}, "there still is an operator 'sales'"),
        ({"a": "sums", "b": "sums"}, "renamed has 'sums' twice"),
        ({"a": "b", "b": "sums"}, "renamed has 'b' twice"),
        ({"a": ""}, "renamed is a mapping of old names to new ones"),
    ):
        with pytest.raises(tw.BuildError, match=says):
            make_plan(flow(by_shop(), renamed=renamed)())


def test_a_renamed_source_goes_to_spark(tmp_path: Path) -> None:
    """Its place in the log is found under the name that it had in the process."""
    made = tw.Flow("logs", compile="never")
    made.source("one", Number).union(made.source("two", Number)).sink("out")
    inputs = {name: ToyLog((rows,)) for name, rows in (("one", 3), ("two", 5))}
    tw.run(made, inputs, checkpoint=tmp_path, end="keep")
    for names, was in ((("one", "zwei"), {}), (("one", "zwei"), {"zwei": "two"})):
        if not was:
            with pytest.raises(tw.CheckpointError, match="source 'zwei' was no log there"):
                Store.open(str(tmp_path), sources=names, logs=names)
            continue
        Store.open(str(tmp_path), sources=names, logs=names, was=was).lease.give_back()
    lines = (tmp_path / "spark" / "offsets" / "0").read_text().splitlines()
    assert lines[2:] == ['{"0":3}', '{"0":5}', "-"]


def test_a_savepoint_of_state_elsewhere(tmp_path: Path) -> None:
    """What lies in two folders is one in the copy."""
    made, checkpoint = flow(by_shop())(), tmp_path / "checkpoint"
    tw.run(made, {"sales": ROWS[:6]}, checkpoint=checkpoint, end="keep")
    (checkpoint / "thalweg").rename(tmp_path / "state")
    known = identity.read(Folder.at(str(tmp_path / "state")))
    assert known is not None
    apart = dataclasses.replace(known, state=str(tmp_path / "state"))
    for folder in (tmp_path / "state", checkpoint / "thalweg"):
        folder.mkdir(exist_ok=True)
        (folder / identity.FILE).write_bytes(apart.encode())
    copy = tmp_path / "copy"
    tw.checkpoint.copy(str(checkpoint), str(copy))
    result = tw.run(made, {"sales": ROWS}, checkpoint=copy)
    assert [row.amount for row in result.rows("out")] == [4, 4]


def test_rows_that_wait_at_an_order_by(tmp_path: Path) -> None:
    """All of them are shown and brought over, not those of the newest batch only."""
    for rows in (3, 5, 8):
        tw.run(ordered("6 seconds")(), {"sales": ROWS[:rows]}, checkpoint=tmp_path, end="keep")
    held = read_state(str(tmp_path), "o")
    assert held.column("amount").to_pylist() == [2, 3, 4, 5, 6, 7]
    wide = ordered("6 seconds", Wide)()
    result = tw.run(wide, {"sales": WIDE}, checkpoint=tmp_path)
    assert [row.amount for row in result.rows("out")] == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert {row.note for row in result.rows("out")} == {None}


def test_rows_of_a_source_that_stands_elsewhere(tmp_path: Path) -> None:
    """Rows that wait keep their order of arrival where operators are added in front of their source."""

    def make(extra: int) -> tw.Flow:
        made = tw.Flow("sales", compile="never")
        one: Any = made.source("shops", Sale, order_by="ts")
        for place in range(extra):
            one = one.map(same, name=f"same {place}")
        one.sink("one")
        made.source("sales", Sale, order_by="ts", lateness=9 * SECOND).sink("two")
        return made

    ties = [Sale(SECOND, "a", number) for number in range(6)]
    inputs = {"shops": ROWS[:1], "sales": ties[:3]}
    tw.run(make(2), inputs, checkpoint=tmp_path, end="keep")
    tw.run(make(0), {**inputs, "sales": ties[:5]}, checkpoint=tmp_path, end="keep")
    result = tw.run(make(3), {**inputs, "sales": ties}, checkpoint=tmp_path)
    assert result.rows("two") == ties


def same(row: Sale) -> Sale:
    return row
