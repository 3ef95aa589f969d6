"""Messages say things in the words that users write, and near names are suggested."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.brief import counted
from thalweg.checkpoint import manifest
from thalweg.checkpoint.paths import resolve
from thalweg.spark.writing.sink_writes import _call
from thalweg.spark.writing.sinks import refuse_inside


class Row(NamedTuple):
    x: int


@tw.state
class Seen:
    count: int = 0


async def first(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(rows):
        await out.push(rows.pop())


def doubled(stream: tw.Stream[Row], *, times: int = 2) -> tw.Stream[Row]:
    return stream


def sources() -> tuple[tw.Flow, tw.Stream[Row], tw.Stream[Row]]:
    flow = tw.Flow("f")
    return flow, flow.source("a", Row, order_by="x"), flow.source("b", Row, order_by="x")


def test_counted() -> None:
    """One is one; plurals are English."""
    assert counted(1, "row") == "1 row"
    assert counted(1200, "batch") == "1,200 batches"
    assert counted(2, "query") == "2 queries"
    assert counted(0, "key") == "0 keys"


def test_misspelled_arguments() -> None:
    """What takes any keyword suggests the name that was meant."""
    flow, a, b = sources()
    wrong: dict[str, Callable[[], Any]] = {
        "'every'": lambda: a.window(3, evry=2, n=tw.agg.count()),
        "'gap'": lambda: a.key_by("x").sessions(3, gapp=tw.agg, n=tw.agg.count()),
        "'by_time'": lambda: flow.barrier(by_tme=True, a=a, b=b),
        "'rows'": lambda: flow.operator("first", first, row=a),
        "'times'": lambda: a.apply(doubled, time=3),
        "'recursive'": lambda: tw.files(__file__, format="text", recursiv=True),
    }
    for meant, call in wrong.items():
        with pytest.raises(tw.BuildError, match=f"did you mean {meant}"):
            call()
    with pytest.raises(TypeError, match="no field cout; did you mean 'count'"):
        Seen(cout=3)  # type: ignore[call-arg]


def test_things_of_the_other_host() -> None:
    """A source or a sink of the other host is named as users make it."""
    flow, a, _ = sources()
    a.sink("out")
    given: dict[str, Any] = {"a": [], "b": tw.spark.files(".", format="csv")}
    with pytest.raises(tw.BuildError, match=r"input 'b': .*got tw\.spark\.files\(\.\.\.\)"):
        tw.run(flow, given)
    given = {"a": [], "b": []}
    with pytest.raises(tw.BuildError, match=r"sink 'out': .*got tw\.spark\.parquet"):
        tw.run(flow, given, {"out": tw.spark.parquet("x")})  # type: ignore[dict-item]
    given = {"a": tw.tcp_lines("localhost", 1, "csv"), "b": tw.files(__file__, "text")}
    with pytest.raises(
        tw.BuildError, match=r"input 'a': tw\.tcp_lines\(\.\.\.\) cannot be read again"
    ):
        tw.spark.start(flow, given, {})
    for rows in ([], pa.table({"n": [1]})):
        with pytest.raises(
            tw.BuildError, match=r"got (list|Table); for rows in memory use tw\.run"
        ):
            tw.spark.start(flow, {"a": rows, "b": rows}, {})


def test_a_sink_inside_of_the_checkpoint(tmp_path: Path) -> None:
    """A sink may lie beside a checkpoint, but neither in it nor in the folder of the state."""
    checkpoint, state = tmp_path / "checkpoint", tmp_path / "state"
    for inside in (checkpoint, checkpoint / "thalweg" / "x", state / "out"):
        with pytest.raises(tw.BuildError, match=r"lies in the folder of (checkpoint|state)="):
            refuse_inside({"out": tw.spark.json(inside)}, checkpoint=checkpoint, state=state)
    for beside in (tmp_path / "checkpoint2", tmp_path):
        refuse_inside({"out": tw.spark.json(beside)}, checkpoint=checkpoint, state=None)


def test_a_missing_manifest(tmp_path: Path) -> None:
    """A checkpoint with commit records and without thalweg.json is not new."""
    fs, root = resolve(str(tmp_path))
    manifest.require_new(fs, root)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0.json").write_text("{}")
    with pytest.raises(tw.CheckpointError, match=r"thalweg\.json is missing"):
        manifest.require_new(fs, root)


def test_interrupted_sinks() -> None:
    """A sink's function that raises KeyboardInterrupt is told with its line; Ctrl-C passes."""

    def put(rows: Any, batch: int) -> None:
        raise KeyboardInterrupt

    failures: list[BaseException] = []

    def in_thread() -> None:
        try:
            _call("out", put, None, 3)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    [failure] = failures
    assert isinstance(failure, tw.OperatorError)
    assert "put failed on batch 3: KeyboardInterrupt" in str(failure)
    assert f"{__file__}:{put.__code__.co_firstlineno}" in str(failure)
    with pytest.raises(KeyboardInterrupt):
        _call("out", put, None, 3)


def read(path: Path, format: Any) -> list[Any]:
    flow = tw.Flow("f")
    flow.source("rows", Row).sink("out")
    return tw.run(flow, {"rows": tw.files(path, format)}).rows("out")


def test_an_empty_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A CSV file without a byte has no rows, which is said once; an empty log is quite usual."""
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with caplog.at_level(logging.WARNING, logger="thalweg"):
        assert read(empty, "csv") == []
        assert [one.getMessage() for one in caplog.records] == [
            f"{empty}: no rows: the file is empty, it has not even a header"
        ]
        caplog.clear()
        assert read(empty, "json") == []
        empty.write_text("x\n")
        assert read(empty, "csv") == []
        assert not caplog.records


def test_keys_that_stand_twice(tmp_path: Path) -> None:
    """Of a JSON object's key that stands there twice the last value counts, whichever way the lines are read."""
    path = tmp_path / "twice.jsonl"
    path.write_text('{"x": 1, "x": 2}\n{"x": 3}\n{"x": "no", "x": 4, "y": 1, "y": 2}\n')
    assert read(path, "json") == [Row(2), Row(3), Row(4)]
    path.write_text('{"x": 1, "x": 2}\n' * 3000)
    assert read(path, "json") == [Row(2)] * 3000


def test_rows_that_nobody_read(caplog: pytest.LogCaptureFixture) -> None:
    """What waits for its partner at the end of a barrier is told with its number."""
    flow, a, b = sources()
    flow.barrier(a=a, b=b).sink("pairs")
    with caplog.at_level(logging.WARNING, logger="thalweg"):
        result = tw.run(flow, {"a": [Row(1), Row(2), Row(3)], "b": [Row(1)]})
    assert len(result.rows("pairs")) == 1
    [told] = [one.getMessage() for one in caplog.records]
    assert told.startswith("operator 'barrier': 2 rows were left at its inputs")
