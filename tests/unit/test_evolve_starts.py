"""Starts of changed flows: what is underway, what a kill leaves, savepoints, names that are given for nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.toy import ToyLog
from tests.unit.evolve_flows import (
    ROWS,
    SECOND,
    WIDE,
    Number,
    Sale,
    Wide,
    by_shop,
    flow,
    ordered,
    two,
    with_sources,
)
from tests.unit.evolve_kit import bytes_of

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
