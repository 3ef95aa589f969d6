"""One checkpoint in a process, on Spark in several slots, and back: each row once, the state of all before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.connectors.toy import ToyLog, ToyTarget
from tests.unit.evolve_kit import bytes_of

import thalweg as tw
from thalweg import testing

pytestmark = pytest.mark.spark


class Number(NamedTuple):
    lane: int
    n: int


@tw.state
class Sum:
    total: int = 0


def add(state: Sum, row: Number) -> Number:
    state.total += row.n + 1
    return Number(row.n % 7, state.total)


@tw.state(migrate=lambda old: {"label": str(old["total"]), "total": old["total"]})
class Labelled:
    label: str = ""
    total: float = 0.0


def add_labelled(state: Labelled, row: Number) -> Number:
    state.total += row.n + 1
    state.label = f"{state.total:.0f}"
    return Number(row.n % 7, int(state.label))


def third(row: Number) -> int:
    return row.n % 3


def make_flow() -> tw.Flow:
    flow = tw.Flow("between", compile="never")
    one = flow.source("one", Number, order_by="n", lateness=4)
    both = one.union(flow.source("two", Number, order_by="n", lateness=4), name="both")
    both.key_by(third).process(add, state=Sum, name="sums").sink("out")
    return flow


def test_there_and_back(spark: SparkSession, tmp_path: Path) -> None:
    """State, waiting rows, places and the numbers of batches go with it, in both directions, twice."""
    target, checkpoint = ToyTarget(), str(tmp_path / "ckpt")
    rows = 0
    for turn, host in enumerate(
        ["process", "spark", "spark", "process", "process", "spark", "process"]
    ):
        rows += 11 + turn
        inputs: Any = {name: ToyLog((rows,), follow=host == "spark") for name in ("one", "two")}
        if host == "process":
            end: Any = "keep" if turn < 6 else "drain"
            tw.run(make_flow(), inputs, {"out": target}, checkpoint=checkpoint, end=end)
            continue
        query = tw.spark.start(
            make_flow(), inputs, {"out": target}, checkpoint=checkpoint, slots=1 + turn,
            trigger="available_now", end="keep",
        )  # fmt: skip
        query.await_termination()
    given = {name: [Number(0, n) for n in range(rows)] for name in ("one", "two")}
    expected = testing.reference(make_flow(), given).rows("out")
    assert [Number(**row) for row in target.rows] == expected
    assert len(set(target.queries)) == 1
    assert tw.run(make_flow(), inputs, checkpoint=checkpoint).rows("out") == []
    more: Any = {name: ToyLog((rows + 1,), follow=False) for name in ("one", "two")}
    with pytest.raises(tw.CheckpointError, match="is finished"):
        tw.run(make_flow(), more, checkpoint=checkpoint)


def changed_flow() -> tw.Flow:
    """With other names, a state that was migrated, and an operator more."""
    flow = tw.Flow("between", compile="never", renamed={"sums": "totals", "two": "second"})
    one = flow.source("one", Number, order_by="n", lateness=4)
    both = one.union(flow.source("second", Number, order_by="n", lateness=4), name="both")
    both.key_by(third).process(add_labelled, state=Labelled, name="totals").sink("out")
    one.key_by(third).process(add, state=Sum, name="new").sink("beside")
    return flow


def test_state_evolves_on_both(spark: SparkSession, tmp_path: Path) -> None:
    """Begun in a process, changed on Spark in three slots, copied while Spark has it; both go on exactly.

    What Spark refuses leaves every byte as it was.
    """
    target, checkpoint = ToyTarget(), str(tmp_path / "ckpt")

    def logs(rows: int, names: tuple[str, str], *, follow: bool) -> Any:
        return {name: ToyLog((rows,), follow=follow) for name in names}

    def on_spark(flow: tw.Flow, rows: int, place: str, sink: Any, **options: Any) -> Any:
        names = tuple(node.name for node in flow.nodes if node.kind.value == "source")
        query = tw.spark.start(
            flow, logs(rows, names, follow=True), {"out": sink}, checkpoint=place, slots=3,
            trigger="available_now", end="keep", **options,
        )  # fmt: skip
        query.await_termination()
        return query

    old, new = ("one", "two"), ("one", "second")
    tw.run(
        make_flow(), logs(20, old, follow=False), {"out": target}, checkpoint=checkpoint, end="keep"
    )
    on_spark(make_flow(), 40, checkpoint, target)
    there = bytes_of(tmp_path)
    more = make_flow()
    more.source("third", Number, order_by="n").sink("more")
    gone = tw.Flow("between", compile="never")
    one = gone.source("one", Number, order_by="n", lateness=4)
    one.union(gone.source("two", Number, order_by="n", lateness=4), name="both").sink("out")
    for flow, says in ((more, "Spark knows inputs by their place"), (gone, "drop=.'sums',.")):
        with pytest.raises(tw.CheckpointMismatch, match=says):
            on_spark(flow, 60, checkpoint, target)
        assert bytes_of(tmp_path) == there
    found = {one.name: one.kind for one in tw.checkpoint.diff(checkpoint, changed_flow()).changes}
    assert found == {"one": "same", "second": "same", "totals": "migrated", "new": "new"}
    query = on_spark(changed_flow(), 60, checkpoint, target)
    assert (
        query.counts["totals"]["in"] == query.counts["one"]["out"] + query.counts["second"]["out"]
    )
    copy, other, begins = str(tmp_path / "copy"), ToyTarget(), len(target.rows)
    tw.checkpoint.copy(checkpoint, copy)
    on_spark(changed_flow(), 80, copy, other)
    tw.run(changed_flow(), logs(80, new, follow=False), {"out": target}, checkpoint=checkpoint)
    given = {name: [Number(0, n) for n in range(80)] for name in old}
    expected = testing.reference(make_flow(), given).rows("out")
    assert [Number(**row) for row in target.rows] == expected
    # Of the copy what was behind it; some rows wait for the end.
    assert [Number(**row) for row in other.rows] == expected[begins : begins + len(other.rows)]
    assert len(other.rows) > 30


def test_a_savepoint_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's lists of files go with a copy: each file is taken once, those that came behind it are found anew."""
    folder, copy = tmp_path / "in", str(tmp_path / "copy")
    folder.mkdir()
    flow = tw.Flow("files", compile="never")
    numbers = flow.source("numbers", Number)
    numbers.key_by(third).process(add, state=Sum, name="sums").sink("out")

    def step(place: str, upto: int) -> list[Any]:
        for number in range(upto):
            path = folder / f"{number}.csv"
            path.write_text(f"lane,n\n0,{number}\n")
            os.utime(path, (number + 1, number + 1))
        sink = tw.spark.memory()
        query = tw.spark.start(
            flow, {"numbers": tw.spark.files(str(folder), format="csv")}, {"out": sink},
            checkpoint=place, trigger="available_now", slots=2,
        )  # fmt: skip
        query.await_termination()
        return [row.n for row in sink.rows]

    checkpoint = str(tmp_path / "ckpt")
    sums: dict[int, int] = {}
    expected = []
    for n in range(9):
        sums[n % 3] = sums.get(n % 3, 0) + n + 1
        expected.append(sums[n % 3])
    first = step(checkpoint, 3) + step(checkpoint, 5)
    tw.checkpoint.copy(checkpoint, copy)
    assert sorted(first + step(checkpoint, 7)) == sorted(expected[:7])
    assert sorted(first + step(copy, 9)) == sorted(expected)
    assert sorted(step(checkpoint, 9)) == sorted(expected[7:])
