"""Whatever stops a query is told in one readable error, and after the repair nothing is lost or doubled."""

from __future__ import annotations

import gzip
import itertools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import thalweg as tw
from thalweg.printing import OutputClosed, Terminal

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

HERE = os.path.basename(__file__)


class Row(NamedTuple):
    ts: int
    key: int
    value: int


class Text(NamedTuple):
    line: str


@tw.state
class Sum:
    timer: tw.Timer
    total: int = 0


@tw.state
class Plain:
    total: int = 0


def divide(row: Row) -> Row:
    return Row(row.ts, row.key, 100 // row.value)


def divide_in_python(row: Row) -> Row:
    return Row(row.ts, row.key, int(str(100 // row.value)))


def add(state: Sum, row: Row) -> Row:
    state.total += 100 // row.value
    state.timer = row.ts + 10
    return Row(row.ts, row.key, state.total)


def late_failure(state: Sum, key: int, time: int) -> Row:
    return Row(time, key, 100 // (key - 2))


def keep(state: Sum, row: Row) -> None:
    state.total += row.value
    state.timer = row.ts + 10


def positive(row: Row) -> bool:
    return 100 // row.value > 0


def several(row: Row) -> list[Row]:
    return [row, Row(row.ts, row.key, 100 // row.value)]


def parity(row: Row) -> int:
    return 100 // row.value % 2


def count(state: Plain, row: Row) -> Row:
    state.total += row.value
    return Row(row.ts, row.key, state.total)


def arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    if 0 in batch.column("value").to_pylist():
        raise ValueError("a zero in the batch")
    return batch


def make_flow(build: Callable[[tw.Stream], tw.Stream], **options: Any) -> tw.Flow:
    flow = tw.Flow("broken", **options)
    build(flow.source("rows", Row, order_by="ts", errors="fail")).sink("out")
    return flow


#: By name: the operator's part of the flow, its function, and whether the error shows a row.
OPERATORS: dict[str, tuple[Callable[[tw.Stream], tw.Stream], Callable[..., Any]]] = {
    "map": (lambda s: s.map(divide), divide),
    "filter": (lambda s: s.filter(positive), positive),
    "flat_map": (lambda s: s.flat_map(several), several),
    "process": (lambda s: s.key_by("key").process(add, state=Sum, on_timer=_close), add),
    "stateful": (lambda s: s.process(count_all, state=Plain), None),
    "on_timer": (
        lambda s: s.key_by("key").process(keep, state=Sum, on_timer=late_failure),
        late_failure,
    ),
    "key function": (
        lambda s: s.key_by(parity).process(count, state=Plain, name="parities"),
        parity,
    ),
    "map_batches": (lambda s: s.map_batches(arrow), arrow),
}  # type: ignore[dict-item]


def _close(state: Sum, key: int, time: int) -> None:
    return None


def count_all(state: Plain, row: Row) -> Row:
    state.total += 100 // row.value
    return Row(row.ts, row.key, state.total)


OPERATORS["stateful"] = (OPERATORS["stateful"][0], count_all)
ROWS = [Row(1, 1, 5), Row(2, 2, 10), Row(3, 1, 0), Row(4, 3, 20)]


def write_rows(folder: Path, rows: list[Row] = ROWS, name: str = "rows.csv") -> Path:
    folder.mkdir(exist_ok=True)
    text = "ts,key,value\n" + "".join(f"{r.ts},{r.key},{r.value}\n" for r in rows)
    (folder / name).write_text(text)
    return folder


def files(folder: Path, **options: Any) -> Any:
    return tw.spark.files(str(folder), **{"format": "csv"} | options)


def run_stream(flow: tw.Flow, source: Any, tmp_path: Path, **options: Any) -> tw.spark.Query:
    arguments: dict[str, Any] = {"trigger": "available_now", "end": "drain"} | options
    arguments.setdefault("checkpoint", str(tmp_path / "ckpt"))
    query = tw.spark.start(flow, {"rows": source}, {"out": tw.spark.memory()}, **arguments)
    failure = None
    try:
        query.await_termination()
    except tw.ThalwegError as error:
        failure = error
    assert query.exception() is failure
    assert not query.is_active
    if failure is not None:
        raise failure
    return query


def readable(error: BaseException) -> str:
    """The text of an error, which must be short and without stacks."""
    text = str(error)
    assert len(text.splitlines()) <= 10, text
    assert all(len(line) < 1_000 for line in text.splitlines()), text
    for noise in ("\tat ", "java.", "scala.", "py4j", "Traceback", "<dynamic-code>"):
        assert noise not in text, text
    return text


def tells(error: BaseException, function: Callable[..., Any]) -> str:
    """Operator errors name function, file and a line of the function."""
    text = readable(error)
    first = function.__code__.co_firstlineno
    lines = [int(line) for line in re.findall(re.escape(HERE) + r":(\d+)", text)]
    assert any(first <= line <= first + 8 for line in lines), text
    assert function.__name__ in text
    return text


def _ways() -> Iterator[Any]:
    """One by default, at a merge one for each way that an error takes, and all with --slow."""
    for name, slots, compile in itertools.product(OPERATORS, (1, 2), ("auto", "never")):
        if slots == 2 and compile == "auto" and name not in ("process", "key function", "on_timer"):
            continue  # stateless operators run in the first stage, as with one slot
        mark = pytest.mark.slow
        if name == "process" and slots == 2 and compile == "auto":
            mark = pytest.mark.short
        elif name == "process" or (slots == 1) == (compile == "auto"):
            mark = pytest.mark.merge
        yield pytest.param(name, slots, compile, marks=mark)


@pytest.mark.parametrize(("name", "slots", "compile"), list(_ways()))
def test_an_operator_raises(
    tmp_path: Path, spark: SparkSession, name: str, slots: int, compile: Any
) -> None:
    """Compiled or not, in every kind of operator: operator, function, file:line and row in ten lines."""
    build, function = OPERATORS[name]
    flow = make_flow(build, compile=compile)
    operator = {"key function": "parities", "on_timer": "keep"}.get(name, function.__name__)
    with pytest.raises(tw.OperatorError) as stream:
        run_stream(flow, files(write_rows(tmp_path / "in")), tmp_path, slots=slots)
    text = tells(stream.value, function)
    assert operator in text
    assert operator == stream.value.operator
    # map_batches and on_timer have no one row: the former names its first, the latter the key.
    assert ("2" if name == "on_timer" else "Row(ts=") in text
    if name not in ("on_timer", "map_batches"):
        assert "value=0" in text
    frame = spark.createDataFrame(ROWS, "ts long, key long, value long")
    with pytest.raises(tw.OperatorError) as batch:
        tw.spark.start(flow, {"rows": frame}, {"out": tw.spark.memory()}, slots=slots)
    assert tells(batch.value, function).splitlines()[0] == text.splitlines()[0]


@pytest.mark.parametrize("compile", ["auto", "never"])
@pytest.mark.parametrize("slots", [1, pytest.param(2, marks=pytest.mark.short)])
def test_rejecting_instead(tmp_path: Path, slots: int, compile: Any) -> None:
    """errors="reject": the rest goes on, the row is on the rejected stream with reason, and counted."""
    flow = tw.Flow("lenient", errors="reject", compile=compile)
    rows = flow.source("rows", Row, order_by="ts")
    divided = rows.map(divide)
    counted = rows.key_by(parity).process(count, state=Plain, name="parities")
    added = rows.key_by("key").process(add, state=Sum, on_timer=_close)
    for name, stream in (("divided", divided), ("counted", counted), ("added", added)):
        stream.sink(name)
        stream.rejected.sink(f"no {name}")
    names = [f"{no}{what}" for no in ("", "no ") for what in ("divided", "counted", "added")]
    sinks = {name: tw.spark.memory() for name in names}
    source = files(write_rows(tmp_path / "in"))
    query = tw.spark.start(
        flow, {"rows": source}, sinks, checkpoint=str(tmp_path / "ckpt"),
        trigger="available_now", end="drain", slots=slots,
    )  # fmt: skip
    query.await_termination()
    for what, operator in (("divided", "divide"), ("counted", "parities"), ("added", "add")):
        assert len(sinks[what].rows) == 3
        (bad,) = sinks[f"no {what}"].rows
        assert bad.operator == operator
        assert "ZeroDivisionError" in bad.reason
        assert "value=0" in bad.row
        assert query.counts[operator]["rejected"] == 1


def test_repaired_and_restarted(tmp_path: Path) -> None:
    """After a failure the repaired function goes on from the checkpoint: each row once, in order."""
    folder = write_rows(tmp_path / "in", [Row(1, 1, 5), Row(2, 2, 10)], "a.csv")
    os.utime(folder / "a.csv", (1_000, 1_000))
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "ckpt")

    def start(function: Callable[..., Any]) -> tw.spark.Query:
        flow = tw.Flow("repaired")
        rows = flow.source("rows", Row, order_by="ts").map(function, name="divide")
        rows.key_by("key").process(count, state=Plain).sink("out")
        query = tw.spark.start(
            flow, {"rows": files(folder)}, {"out": tw.spark.csv(out)}, checkpoint=checkpoint,
            trigger="available_now",
        )  # fmt: skip
        query.await_termination()
        return query

    def repaired(row: Row) -> Row:
        return Row(row.ts, row.key, 100 // row.value if row.value else 0)

    start(divide)
    write_rows(folder, [Row(3, 1, 0), Row(4, 1, 20)], "b.csv")
    for _ in range(2):
        with pytest.raises(tw.OperatorError):
            start(divide)
    start(repaired).drain()
    lines = [
        line
        for batch in sorted(Path(out).glob("batch=*"), key=lambda one: int(one.name[6:]))
        for file in sorted(batch.glob("*.csv"))
        for line in file.read_text().splitlines()[1:]
    ]
    assert lines == ["1,1,20", "2,2,10", "3,1,20", "4,1,25"]


# -- inputs that do not fit -------------------------------------------------------------------------------


def identity() -> tw.Flow:
    flow = tw.Flow("identity")
    flow.source("rows", Row).filter(lambda row: row.value >= 0).sink("out")
    return flow


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("ts long, key long", ["value", "missing"]),
        ("ts long, key long, value string", ["value", "string", "int"]),
        ("ts long, key timestamp, value long", ["key", "timestamp", "int"]),
    ],
)
def test_a_frame_that_does_not_fit(spark: SparkSession, columns: str, says: list[str]) -> None:
    """A missing or mistyped column of a DataFrame is refused by start(), naming column and both types."""
    frame = spark.createDataFrame([], columns)
    with pytest.raises(tw.SchemaError) as refused:
        tw.spark.start(identity(), {"rows": frame}, {"out": tw.spark.memory()})
    for word in says:
        assert word in readable(refused.value)


class Timed(NamedTuple):
    at: tw.Timestamp
    key: int


def test_a_frame_with_instants(spark: SparkSession) -> None:
    """A timestamp column fits a Timestamp field: microseconds UTC, whatever the session's zone."""
    flow = tw.Flow("timed")
    flow.source("rows", Timed, order_by="at").sink("out")
    text = "timestamp'1969-12-31 23:59:59.000001Z' as at, 1L as key"
    query = tw.spark.start(flow, {"rows": spark.sql(f"select {text}")}, {"out": tw.spark.memory()})
    assert query.sink("out").rows == [Timed(-999_999, 1)]


def _truncated(content: bytes) -> bytes:
    return gzip.compress(content * 500)[:60]


#: name of the file, options, content, what the error says
BAD_FILES: dict[str, tuple[str, dict[str, Any], bytes, list[str]]] = {
    "missing column": ("a.csv", {}, b"ts,key\n1,2\n", ["value", "missing"]),
    "bad cell": ("a.csv", {}, b"ts,key,value\n1,2,3\n4,5,x\n", ["line 3", "value", "x"]),
    "truncated gzip": (
        "a.csv.gz",
        {},
        _truncated(b"ts,key,value\n1,2,3\n"),
        ["cut off or damaged"],
    ),
    "not gzip": ("a.csv.gz", {}, b"ts,key,value\n1,2,3\n", ["damaged"]),
    "not parquet": ("a.parquet", {"format": "parquet"}, b"ts,key,value\n1,2,3\n", ["not Parquet"]),
    "bad json": (
        "a.jsonl",
        {"format": "json"},
        b'{"ts":1,"key":1,"value":1}\n{"ts":2,"key"\n',
        ["line 2", "JSON"],
    ),
    "wrong json type": (
        "a.jsonl",
        {"format": "json"},
        b'{"ts":1,"key":1,"value":"x"}\n',
        ["line 1", "value"],
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_does_not_fit(tmp_path: Path, name: str) -> None:
    """The error names source, file, line or column; with the file repaired the same query goes on."""
    file, options, content, says = BAD_FILES[name]
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / file).write_bytes(content)
    with pytest.raises(tw.DataError) as failed:
        run_stream(identity(), files(folder, **options), tmp_path)
    for word in (file, "rows", *says):
        assert word in readable(failed.value)
    with pytest.raises(tw.DataError) as at_once:
        tw.spark.start(
            identity(),
            {"rows": files(folder, streaming=False, **options)},
            {"out": tw.spark.memory()},
        )
    assert readable(at_once.value) == str(failed.value)


def test_bad_lines_rejected(tmp_path: Path) -> None:
    """errors="reject" on the source: bad lines come with file, line, reason and text, and are counted."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("ts,key,value\n1,1,1\n2,x,2\n3,3\n4,4,4\n")
    flow = tw.Flow("lenient")
    rows = flow.source("rows", Row, errors="reject")
    rows.sink("out")
    rows.rejected.sink("bad")
    sinks = {"out": tw.spark.memory(), "bad": tw.spark.memory()}
    query = tw.spark.start(
        flow, {"rows": files(folder)}, sinks, checkpoint=str(tmp_path / "ckpt"),
        trigger="available_now",
    )  # fmt: skip
    query.await_termination()
    assert [row.ts for row in sinks["out"].rows] == [1, 4]
    assert [bad.position for bad in sinks["bad"].rows] == ["a.csv line 3", "a.csv line 4"]
    assert [bad.operator for bad in sinks["bad"].rows] == ["rows", "rows"]
    assert "key" in sinks["bad"].rows[0].reason
    assert sinks["bad"].rows[0].row == "2,x,2"
    assert (query.counts["rows"]["in"], query.counts["rows"]["rejected"]) == (4, 2)


def test_no_such_folder(tmp_path: Path) -> None:
    """A folder that is not there is refused by start(), by name."""
    with pytest.raises(tw.ThalwegError, match="nowhere") as refused:
        run_stream(identity(), files(tmp_path / "nowhere"), tmp_path)
    readable(refused.value)


# -- checkpoints ------------------------------------------------------------------------------------------


@tw.state
class Wider:
    total: float = 0.0


def widen(state: Wider, row: Row) -> Row:
    return row


def keyed(name: str = "kept", operator: str = "count", **changes: Any) -> tw.Flow:
    flow = tw.Flow(name)
    rows = flow.source("rows", Row)
    given = {"state": Plain} | changes
    function = given.pop("function", count)
    rows.key_by(given.pop("key", "key")).process(function, name=operator, **given).sink("out")
    return flow


CHANGES: dict[str, tuple[tw.Flow, str]] = {
    "another flow": (keyed("other"), "kept"),
    "changed state": (keyed(function=widen, state=Wider), "Plain, the flow has Wider"),
    "removed operator": (keyed(operator="renamed"), "count"),
    "another key": (keyed(key="value"), "key"),
}


@pytest.fixture(scope="module")
def used(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint and an input of the flow ``keyed()``."""
    folder = tmp_path_factory.mktemp("used")
    write_rows(folder / "in")
    run_stream(keyed(), files(folder / "in"), folder, end="keep")
    return folder


@pytest.mark.parametrize("what", CHANGES)
def test_a_checkpoint_that_does_not_fit(used: Path, what: str) -> None:
    """start() says what differs, and the checkpoint can still be used by the flow that wrote it."""
    flow, names = CHANGES[what]
    with pytest.raises(tw.CheckpointMismatch, match=names) as refused:
        run_stream(flow, files(used / "in"), used)
    readable(refused.value)
    assert run_stream(keyed(), files(used / "in"), used, end="keep").last_progress is None


def test_a_finished_checkpoint(tmp_path: Path) -> None:
    """After a drain the checkpoint says so; a drained query may be awaited again."""
    folder = write_rows(tmp_path / "in")
    query = run_stream(keyed(), files(folder), tmp_path)
    assert query.finished
    assert query.await_termination()
    with pytest.raises(tw.CheckpointError, match="finished") as refused:
        run_stream(keyed(), files(folder), tmp_path)
    readable(refused.value)


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    """A checkpoint where no folder can be made is refused by start()."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(tw.CheckpointError, match="cannot write") as refused:
        run_stream(
            keyed(), files(write_rows(tmp_path / "in")), tmp_path,
            checkpoint=str(tmp_path / "file" / "ckpt"),
        )  # fmt: skip
    readable(refused.value)


def test_two_queries_on_one_checkpoint(tmp_path: Path) -> None:
    """The second is refused and the first goes on; when that has ended the checkpoint is free."""
    folder = write_rows(tmp_path / "in")
    first = tw.spark.start(
        keyed(), {"rows": files(folder)}, {"out": tw.spark.memory()},
        checkpoint=str(tmp_path / "ckpt"),
    )  # fmt: skip
    try:
        with pytest.raises(tw.CheckpointError, match="in use") as refused:
            run_stream(keyed(), files(folder), tmp_path)
        readable(refused.value)
        first.process_all_available()
        assert len(first.sink("out").rows) == len(ROWS)
    finally:
        first.stop()
    assert run_stream(keyed(), files(folder), tmp_path, end="keep").last_progress is None


def test_an_output_folder_with_old_batches(tmp_path: Path) -> None:
    """A new checkpoint does not write over what another one wrote."""
    (tmp_path / "out" / "batch=3").mkdir(parents=True)
    with pytest.raises(tw.CheckpointError, match="already has 1 batch") as refused:
        tw.spark.start(
            keyed(), {"rows": files(write_rows(tmp_path / "in"))},
            {"out": tw.spark.parquet(str(tmp_path / "out"))}, checkpoint=str(tmp_path / "ckpt"),
        )  # fmt: skip
    readable(refused.value)


# -- sinks ------------------------------------------------------------------------------------------------


def test_a_sink_that_fails(tmp_path: Path) -> None:
    """A sink's function that raises is named; the batch is given to it again after the repair."""
    folder = write_rows(tmp_path / "in")
    seen: list[tuple[int, int]] = []

    def broken(table: pa.Table, batch: int) -> None:
        raise RuntimeError("the disk is full")

    def start(function: Callable[..., Any]) -> None:
        tw.spark.start(
            keyed(), {"rows": files(folder)}, {"out": tw.spark.foreach_table(function)},
            checkpoint=str(tmp_path / "ckpt"), trigger="available_now",
        ).await_termination()  # fmt: skip

    with pytest.raises(tw.ThalwegError, match="the disk is full") as failed:
        start(broken)
    assert "'out'" in tells(failed.value, broken)
    start(lambda table, batch: seen.append((batch, table.num_rows)))
    assert seen == [(0, len(ROWS))]


class Odd(BaseException):
    """An error that ``except Exception`` does not see."""


@pytest.mark.parametrize(
    "raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Odd("odd")]
)
def test_whatever_a_sink_raises_ends_the_query(tmp_path: Path, raised: BaseException) -> None:
    """Also what is no Exception, which would end the thread of the batch without an answer; it is the error's cause."""
    folder = write_rows(tmp_path / "in")

    def leave(table: pa.Table, batch: int) -> None:
        raise raised

    query = tw.spark.start(
        keyed(), {"rows": files(folder)}, {"out": tw.spark.foreach_table(leave)},
        checkpoint=str(tmp_path / "ckpt"), trigger="available_now",
    )  # fmt: skip
    with pytest.raises(tw.ThalwegError, match=type(raised).__name__) as failed:
        assert query.await_termination(100), "the query hangs"
    assert failed.value.__cause__ is raised
    assert len(str(failed.value).splitlines()) <= 10


def test_a_function_that_wants_to_end_the_process(tmp_path: Path) -> None:
    """sys.exit in a task is told with its place, and not tried again."""

    def leave(row: Row) -> Row:
        sys.exit(4)

    flow = tw.Flow("leaving")
    flow.source("rows", Row).map(leave).sink("out")
    with pytest.raises(tw.ThalwegError, match="wanted to end the process: SystemExit: 4") as failed:
        tw.spark.start(
            flow, {"rows": files(write_rows(tmp_path / "in"))}, {"out": tw.spark.memory()},
            checkpoint=str(tmp_path / "ckpt"), trigger="available_now",
        ).await_termination()  # fmt: skip
    assert f"leave in {__file__}" in str(failed.value)


def test_a_terminal_that_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A console sink whose reader has gone ends the query; the cause says so, for the command."""

    def closed(*_: Any) -> None:
        raise OutputClosed("nobody reads")

    monkeypatch.setattr(Terminal, "print", closed)
    with pytest.raises(tw.EnvironmentProblem, match=r"'out'.*the terminal") as failed:
        tw.spark.start(
            keyed(), {"rows": files(write_rows(tmp_path / "in"))}, {"out": tw.spark.console()},
            checkpoint=str(tmp_path / "ckpt"), trigger="available_now",
        ).await_termination()  # fmt: skip
    assert isinstance(failed.value.__cause__, OutputClosed)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file sink that cannot write is named, with the folder and the reason."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(tw.EnvironmentProblem, match="'out'") as failed:
        tw.spark.start(
            keyed(), {"rows": files(write_rows(tmp_path / "in"))},
            {"out": tw.spark.parquet(str(tmp_path / "file" / "out"))},
            checkpoint=str(tmp_path / "ckpt"), trigger="available_now",
        ).await_termination()  # fmt: skip
    text = str(failed.value)
    assert str(tmp_path / "file" / "out") in text
    assert len(text.splitlines()) <= 10
    assert "\tat " not in text


def test_rows_that_a_repaired_flow_no_longer_gives(tmp_path: Path) -> None:
    """A batch that failed in a later sink and now is empty leaves no files of the first try behind."""
    folder = write_rows(tmp_path / "in", [Row(1, 1, 5)])
    out = tmp_path / "out"

    def broken(table: pa.Table, batch: int) -> None:
        raise RuntimeError("no")

    def start(least: int, function: Callable[..., Any]) -> None:
        flow = tw.Flow("two sinks")
        rows = flow.source("rows", Row).filter(lambda row: row.value >= least, name="enough")
        rows.sink("files")
        rows.sink("told")
        sinks = {"files": tw.spark.csv(str(out)), "told": tw.spark.foreach_table(function)}
        tw.spark.start(
            flow, {"rows": files(folder)}, sinks, checkpoint=str(tmp_path / "ckpt"),
            trigger="available_now",
        ).await_termination()  # fmt: skip

    with pytest.raises(tw.ThalwegError):
        start(1, broken)
    assert list(out.glob("batch=0/*.csv"))
    start(9, lambda table, batch: None)
    assert not list(out.glob("batch=0/*.csv"))


# -- the terminal -----------------------------------------------------------------------------------------

PROGRAM = """
    import sys
    from typing import NamedTuple
    import thalweg as tw

    class Row(NamedTuple):
        ts: int
        key: int
        value: int

    def divide(row: Row) -> Row:
        return Row(row.ts, row.key, 100 // row.value)

    flow = tw.Flow("broken")
    flow.source("rows", Row).map(divide).sink("out")
    folder, checkpoint = sys.argv[1:]
    query = tw.spark.start(
        flow, {"rows": tw.spark.files(folder, format="csv")}, {"out": tw.spark.memory()},
        checkpoint=checkpoint, trigger="available_now",
    )
    query.await_termination()
"""


@pytest.mark.merge
def test_what_the_terminal_shows(tmp_path: Path) -> None:
    """A failing program prints Python's short traceback and the error once; no Java, no second telling."""
    import thalweg

    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    path = os.pathsep.join(
        [str(Path(thalweg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, program, write_rows(tmp_path / "in"), tmp_path / "ckpt"],
        capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 1
    told = done.stderr
    assert "\tat " not in told, told
    assert "py4j" not in told, told
    assert told.count("ZeroDivisionError") == 1, told
    assert f"{program}:" in told, told
    assert len(told.splitlines()) <= 30, told
