"""Sinks of embedded runs: functions, files, the choice for each sink, and how all of them end."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from io_kit import Pair, chunk_of, rows_of, sink_node, source_node
from tests.sizes import sized

import thalweg as tw
from thalweg.connectors import RowSink, never, opened
from thalweg.connectors.sinks import CollectSink, as_sink, choose_sinks
from thalweg.time_texts import FIRST, LAST

ROWS = [Pair(n, "abc"[n % 3]) for n in range(10)]


def flow_of(*sinks: str) -> tw.Flow:
    flow = tw.Flow("pairs")
    pairs = flow.source("pairs", Pair)
    for name in sinks:
        pairs.sink(name)
    return flow


# -- functions -----------------------------------------------------------------------------------------


def test_each_record() -> None:
    """tw.each gets the records one by one, in order; that sink is then not in the result."""
    seen: list[Pair] = []
    result = tw.run(
        flow_of("seen", "kept"), {"pairs": ROWS}, sinks={"seen": tw.each(seen.append)}, chunk_rows=3
    )
    assert seen == ROWS
    assert list(result.sinks) == ["kept"]
    assert result.rows("kept") == ROWS
    with pytest.raises(tw.BuildError, match="no rows of a sink 'seen' are kept; they are of: kept"):
        result.rows("seen")


@pytest.mark.parametrize("wrap", [tw.batches, lambda function: function])
def test_batches(wrap: Callable[[Any], Any]) -> None:
    """tw.batches and a bare function get record batches that together are the output."""
    seen: list[pa.RecordBatch] = []
    tw.run(flow_of("out"), {"pairs": ROWS}, {"out": wrap(seen.append)}, chunk_rows=3)
    assert all(isinstance(batch, pa.RecordBatch) for batch in seen)
    assert [Pair(**row) for row in pa.Table.from_batches(seen).to_pylist()] == ROWS


@pytest.mark.parametrize("wrap", [tw.each, tw.batches])
def test_functions_that_fail(wrap: Callable[[Any], Any]) -> None:
    """What a function raises ends the run; the error names sink, function and row, and has the cause."""

    def refuse(row: Any) -> None:
        raise ValueError("no room")

    with pytest.raises(tw.OperatorError, match="sink 'out' failed: ValueError: no room") as caught:
        tw.run(flow_of("out"), {"pairs": ROWS}, {"out": wrap(refuse)})
    assert "function: refuse in " in str(caught.value)
    assert caught.value.operator == "sink:out"
    assert ("Pair(a=0, b='a')" if wrap is tw.each else "10 rows") in caught.value.row
    assert isinstance(caught.value.__cause__, ValueError)


def test_functions_that_do_not_fit() -> None:
    """A function that cannot be called with one argument is refused when it is given."""
    with pytest.raises(tw.BuildError, match=r"'each': .* is called with \(record\)"):
        tw.each(lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(tw.BuildError, match=r"'batches': .* is called with \(batch\)"):
        tw.batches(lambda a, b: None)  # type: ignore[arg-type, misc]
    with pytest.raises(tw.BuildError, match=r"'sink:out': .* is called with \(batch\)"):
        as_sink("out", lambda: None)
    with pytest.raises(tw.BuildError, match="expected a function, got 3"):
        tw.each(3)  # type: ignore[arg-type]


# -- choosing and ending -------------------------------------------------------------------------------


def test_what_is_no_sink(tmp_path: Path) -> None:
    """It is refused before anything is read, with the sink's name and what was expected."""
    with pytest.raises(
        tw.BuildError, match=r"sink 'out': expected tw.to_files\(...\), .*, got int"
    ):
        as_sink("out", 3)
    with pytest.raises(
        tw.BuildError, match=r"sink 'out': got a path; write tw.to_files\('x.csv'\)"
    ):
        as_sink("out", "x.csv")
    with pytest.raises(tw.BuildError, match="flow 'pairs' has no sink 'nut'; it has out"):
        tw.run(flow_of("out"), {"pairs": []}, {"nut": print})
    places = {name: tw.to_files(tmp_path / "x.csv") for name in "ab"}
    with pytest.raises(tw.BuildError, match="sinks 'a' and 'b' have the same output"):
        tw.run(flow_of("a", "b"), {"pairs": []}, places)


class Diary:
    """A sink that notes what it is told, and may fail at one of these calls."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[str] = []
        self._fails = fails

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self._fails:
            raise RuntimeError(call)

    def open(self, sink: Any) -> None:
        self._note(f"open {sink.name}")

    def write(self, chunk: Any) -> None:
        self._note(f"write {len(chunk)}")

    def close(self, *, failed: bool) -> None:
        self._note("failed" if failed else "done")


@pytest.mark.parametrize(
    ("fails", "first", "second"),
    [
        ("", ["open a", "write 10", "done"], ["open b", "write 10", "done"]),
        ("open b", ["open a", "failed"], ["open b"]),
        ("write 10", ["open a", "write 10", "failed"], ["open b", "write 10", "failed"]),
        ("done", ["open a", "write 10", "failed"], ["open b", "write 10", "done"]),
    ],
)
def test_every_end(fails: str, first: list[str], second: list[str]) -> None:
    """What was opened is closed, once, and told when the run, or the closing of another one, failed."""
    a, b = Diary(), Diary(fails)
    assert isinstance(a, RowSink)
    raises = pytest.raises(RuntimeError, match=fails) if fails else contextlib.nullcontext()
    with raises:
        tw.run(flow_of("a", "b"), {"pairs": ROWS}, {"a": a, "b": b})
    assert (a.calls, b.calls) == (first, second)


def test_a_source_that_fails() -> None:
    """Sinks are told of a failure that is not theirs."""
    diary = Diary()
    with pytest.raises(tw.DataError):
        tw.run(flow_of("out"), {"pairs": [*ROWS, ("no", 1)]}, {"out": diary}, chunk_rows=10)
    assert diary.calls == ["open out", "write 10", "failed"]


# -- files ---------------------------------------------------------------------------------------------


class Part(NamedTuple):
    at: tw.Timestamp
    x: float | None


class Everything(NamedTuple):
    i: int
    f: float
    t: bool
    s: str
    ts: tw.Timestamp
    c: tw.Category
    oi: int | None
    of: float | None
    os: str | None
    ots: tw.Timestamp | None
    oc: tw.Category | None


class Deep(NamedTuple):
    parts: list[Part]
    part: Part | None
    texts: list[str | None]


class Only(NamedTuple):
    x: int | None


INTS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(FIRST, LAST)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PARTS = st.builds(Part, TIMES, st.none() | st.floats())
RECORDS: dict[type, Any] = {
    Everything: st.builds(
        Everything,
        INTS, st.floats(), st.booleans(), TEXTS, TIMES, TEXTS,
        st.none() | INTS, st.none() | st.floats(), st.none() | TEXTS, st.none() | TIMES, st.none() | TEXTS,
    ),
    Deep: st.builds(Deep, st.lists(PARTS, max_size=2), st.none() | PARTS, st.lists(st.none() | TEXTS, max_size=2)),
    Only: st.builds(Only, st.none() | INTS),
}  # fmt: skip


def alike(value: Any) -> Any:
    """A value with NaN as a text, so that it equals itself, and -0.0 told from 0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return [alike(one) for one in value] if isinstance(value, (tuple, list)) else value


def nulled(row: Any) -> Any:
    """What CSV keeps of a row: an empty text in an Optional field is null."""
    optional = {"os", "oc"} & set(row._fields)
    return row._replace(**{name: getattr(row, name) or None for name in optional})


def write(sink: Any, record: type, *chunks: list[Any], failed: bool = False) -> None:
    sink.open(sink_node(record))
    for rows in chunks:
        sink.write(chunk_of(rows, record))
    sink.close(failed=failed)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        *((f"x.{end}", one) for end in ("parquet", "json", "jsonl.gz") for one in RECORDS),
        *((f"x.{end}", one) for end in ("csv", "csv.zst") for one in (Everything, Only)),
    ],
)
@settings(
    max_examples=sized(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, record: type, data: Any, tmp_path: Path) -> None:
    """Every value comes back from every format, in order, over what chunks it was written in."""
    rows = data.draw(st.lists(RECORDS[record], max_size=5))
    at = data.draw(st.integers(0, len(rows)))
    write(tw.to_files(tmp_path / name), record, rows[:at], rows[at:])
    assert [one.name for one in tmp_path.iterdir()] == [name]
    back = rows_of(tw.files(tmp_path / name).rows(source_node(record), 3, never()))
    wanted = [nulled(row) for row in rows] if ".csv" in name else rows
    assert alike(back) == alike(wanted)


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.json"])
def test_a_failed_run_leaves_nothing(name: str, tmp_path: Path) -> None:
    """Neither a file nor a part of one; one that was there stays as it was, until a run goes well."""
    path = tmp_path / "new" / name
    write(tw.to_files(path), Pair, ROWS, failed=True)
    assert list(path.parent.iterdir()) == []
    sink = tw.to_files(path)
    write(sink, Pair, ROWS[:2])
    before = path.read_bytes()
    write(sink, Pair, ROWS, failed=True)
    assert path.read_bytes() == before
    write(sink, Pair, ROWS)
    assert rows_of(tw.files(path).rows(source_node(), 100, never())) == ROWS
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(tw.BuildError, match="is closed"):
        sink.write(chunk_of(ROWS))


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.json"])
def test_no_rows(name: str, tmp_path: Path) -> None:
    """A sink without rows writes a file without rows, which is read like others."""
    tw.run(flow_of("out"), {"pairs": []}, {"out": tw.to_files(tmp_path / name)})
    assert rows_of(tw.files(tmp_path / name).rows(source_node(), 100, never())) == []


def test_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks are gathered to row groups."""
    monkeypatch.setattr("thalweg.connectors.written.file_sink.GROUP_ROWS", 4)
    write(tw.to_files(tmp_path / "x.parquet"), Pair, *[[row] for row in ROWS])
    file = pq.ParquetFile(tmp_path / "x.parquet")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [4, 4, 2]


class Raw(NamedTuple):
    data: list[bytes]


class Nothing(NamedTuple):
    pass


@pytest.mark.parametrize(
    ("name", "record", "message"),
    [
        ("x.json", Raw, "JSON cannot hold data: list"),
        ("x.csv", Deep, "CSV cannot hold parts: list"),
        ("x.parquet", Nothing, "Nothing has no fields"),
    ],
)
def test_records_that_do_not_fit(name: str, record: type, message: str, tmp_path: Path) -> None:
    """They are refused before anything is written, with the sink's name."""
    with pytest.raises(tw.SchemaError, match=f"sink 'out': {message}"):
        tw.to_files(tmp_path / name).open(sink_node(record))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.csv", "x.json"])
def test_times_that_text_cannot_name(name: str, tmp_path: Path) -> None:
    """They end the run with the sink's name; Parquet takes them."""
    rows = [Part(LAST + 1, 0.0)]
    sink = tw.to_files(tmp_path / name)
    sink.open(sink_node(Part))
    with pytest.raises(tw.DataError, match=f"sink 'out': the Timestamp {LAST + 1} is outside"):
        sink.write(chunk_of(rows, Part))
    sink.close(failed=True)
    path = tmp_path / "x.parquet"
    write(tw.to_files(path), Part, rows)
    assert rows_of(tw.files(path).rows(source_node(Part), 9, never())) == rows


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder in the file's place, a file in a folder's place, and an unknown format are refused."""
    with pytest.raises(tw.BuildError, match="is a folder; name the file to write"):
        tw.to_files(tmp_path, "csv")
    with pytest.raises(
        tw.BuildError,
        match=r"tells no format; let it end with one, say 'x.parquet', or give format=",
    ):
        tw.to_files(tmp_path / "x.data")
    with pytest.raises(tw.BuildError, match=r"'x.txt' tells no format"):
        tw.to_files(tmp_path / "x.txt")
    with pytest.raises(tw.BuildError, match="expected a path, got 3"):
        tw.to_files(3)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(tw.EnvironmentProblem, match=r"sink 'out': .*x.csv cannot be written"):
        tw.to_files(tmp_path / "file" / "x.csv").open(sink_node())


def test_the_default_collects() -> None:
    """A sink that is given nothing keeps its rows, anew in each run."""
    sink = sink_node()
    chosen = choose_sinks("pairs", [sink], {})
    kept = chosen["out"]
    assert isinstance(kept, CollectSink)
    for _ in range(2):
        with opened([sink], chosen):
            kept.write(chunk_of(ROWS))
        assert [row for chunk in kept.chunks for row in chunk.rows()] == ROWS


# -- outputs among the inputs -----------------------------------------------------------------------------


def test_outputs_among_the_inputs(tmp_path: Path) -> None:
    """A sink that is, holds or lies in what a source reads is refused before anything is written, in every host."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("a,b\n1,a\n")
    (tmp_path / "link").symlink_to(folder)
    before = (folder / "a.csv").read_bytes()
    one = folder / "a.csv"
    refused: list[tuple[Any, Any, str]] = [
        (one, one, "is what source"),
        (tmp_path / "link" / "a.csv", one, "is what source"),
        (folder, folder / "out.csv", "lies in"),
        (f"{folder}/*.csv", folder / "b.csv", "is among"),
        (f"{tmp_path}/*", folder / "b.csv", "is among"),
        (f"{tmp_path}/**/*.csv", tmp_path / "x" / "b.csv", "is among"),
    ]
    for read, written, said in refused:
        inputs = {"pairs": tw.files(read, "csv", recursive=True)}
        with pytest.raises(tw.BuildError, match=f"sink 'out': .* {said}"):
            tw.run(flow_of("out"), inputs, {"out": tw.to_files(written, "csv")})
        with pytest.raises(tw.BuildError, match="sink 'out': "):
            tw.run(
                flow_of("out"), inputs, {"out": tw.to_files(written, "csv")},
                checkpoint=tmp_path / "state",
            )  # fmt: skip
        with pytest.raises(tw.BuildError, match=f"sink 'out': .* {said}"):
            tw.spark.start(flow_of("out"), inputs, {"out": tw.spark.csv(written)})
    with pytest.raises(tw.BuildError, match=r"holds .*a\.csv, which source 'pairs' reads"):
        tw.spark.start(flow_of("out"), {"pairs": tw.files(one)}, {"out": tw.spark.csv(folder)})
    assert one.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "link"]
    for read, written in (
        (one, folder / "b.csv"),
        (f"{folder}/a*.csv", folder / "b.csv"),
        (f"{tmp_path}/**/a*.csv", folder / "b.csv"),
    ):
        tw.run(
            flow_of("out"), {"pairs": tw.files(read, "csv")}, {"out": tw.to_files(written, "csv")}
        )
        assert (folder / "b.csv").exists()
