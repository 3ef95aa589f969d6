"""Sources of embedded runs: one conformance suite for all kinds, then what may be given and what does not fit."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from io_kit import Pair, StopAfter, bad_of, rows_of, send, source_node

import thalweg as tw
from thalweg.connectors import RowSource, as_source, never

ROWS = [Pair(n, "abc"[n % 3]) for n in range(10)]
TABLE = pa.table({"b": [row.b for row in ROWS], "a": [row.a for row in ROWS]})


class ArrowStream:
    """What other libraries' frames are: something that gives an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


def generator() -> Iterator[Any]:
    yield from ROWS[:3]
    yield TABLE.slice(3, 4)
    yield TABLE.slice(7, 1).to_batches()[0]
    yield {"a": 8, "b": "c"}
    yield (9, "a")


def reader() -> pa.RecordBatchReader:
    return TABLE.to_reader(max_chunksize=4)


def written(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        pq.write_table(TABLE, path)
    elif name.endswith(".csv"):
        path.write_text("a,b\n" + "".join(f"{row.a},{row.b}\n" for row in ROWS))
    else:
        path.write_text("".join(f'{{"a": {row.a}, "b": "{row.b}"}}\n' for row in ROWS))
    return path


def pushed(_: Path) -> Any:
    source = tw.push_source()
    source.push(*ROWS[:4])
    source.push(*ROWS[4:])
    source.close()
    return source


def tcp(_: Path) -> Any:
    source = tw.tcp_lines("127.0.0.1", 0, "csv", listen=True)
    send(source.port, "".join(f"{row.a},{row.b}\n" for row in ROWS).encode())
    return source


KINDS: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: TABLE,
    "batch": lambda _: TABLE.to_batches()[0],
    "stream": lambda _: ArrowStream(),
    "list": lambda _: ROWS,
    "mixed list": lambda _: list(generator()),
    "reader": lambda _: reader(),
    "generator": lambda _: generator(),
    "iterable": lambda _: tw.from_iterable(ROWS),
    "csv": lambda folder: tw.files(written(folder, "x.csv")),
    "json": lambda folder: tw.files(written(folder, "x.jsonl")),
    "parquet": lambda folder: tw.files(str(written(folder, "x.parquet"))),
    "push": pushed,
    "tcp": tcp,
}
LIVE = {"generator", "iterable", "push", "tcp"}


# -- all kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_conformance(kind: str, chunk_rows: int, tmp_path: Path) -> None:
    """All rows, in order, in chunks of at most the size asked for; closing can be repeated."""
    source = as_source("pairs", KINDS[kind](tmp_path))
    assert isinstance(source, RowSource)
    assert source.live == (kind in LIVE)
    chunks = list(source.rows(source_node(), chunk_rows, never()))
    assert [row for chunk, _ in chunks for row in chunk.rows()] == ROWS
    assert max(len(chunk) for chunk, _ in chunks) <= chunk_rows
    assert not any(bad for _, bad in chunks)
    source.close()
    source.close()


@pytest.mark.parametrize("kind", KINDS)
def test_run(kind: str, tmp_path: Path) -> None:
    """tw.run takes each of them."""
    flow = tw.Flow("pairs")
    flow.source("pairs", Pair).sink("out")
    result = tw.run(flow, {"pairs": KINDS[kind](tmp_path)}, chunk_rows=4)
    assert result.rows("out") == ROWS
    assert result.counts["pairs"]["in"] == len(ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_stop(kind: str, tmp_path: Path) -> None:
    """Once the stop is set nothing more is read, and the feed ends."""
    source = as_source("pairs", KINDS[kind](tmp_path))
    assert rows_of(source.rows(source_node(), 100, StopAfter(0))) == []
    source.close()


def blocked_generator(release: threading.Event) -> Iterator[Any]:
    release.wait()
    yield from ROWS


BLOCKED: dict[str, Callable[[threading.Event], Any]] = {
    "generator": blocked_generator,
    "push": lambda _: tw.push_source(),
    "tcp without a peer": lambda _: tw.tcp_lines("127.0.0.1", 0, "csv", listen=True),
    "endless": lambda _: (Pair(n, "") for n in itertools.count()),
    "endless reader": lambda _: pa.RecordBatchReader.from_batches(
        TABLE.schema, itertools.repeat(TABLE.to_batches()[0])
    ),
}


@pytest.mark.parametrize("kind", BLOCKED)
def test_a_stop_ends_what_does_not_end_by_itself(kind: str) -> None:
    """A read that waits, or that could go on for ever, ends once the stop is set."""
    release = threading.Event()
    source = as_source("pairs", BLOCKED[kind](release))
    for chunk, _ in source.rows(source_node(), 10, StopAfter(3)):
        assert len(chunk) <= 10
    source.close()
    release.set()


# -- what may be given --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [7, None, b"ab", {"a": 1}, object()])
def test_no_input(wrong: Any) -> None:
    """What is no input is refused with the source's name and what was expected."""
    with pytest.raises(
        tw.BuildError, match="input 'pairs': expected a pyarrow table, rows, or one"
    ):
        as_source("pairs", wrong)


@pytest.mark.parametrize("path", ["x.csv", Path("x.csv")])
def test_a_bare_path(path: Any) -> None:
    """A path is not an input, and the message says how to make it one."""
    with pytest.raises(tw.BuildError, match=r"write tw.files\('x.csv'\)"):
        as_source("pairs", path)


@pytest.mark.parametrize("wrong", [pa.table({"a": ["x"], "b": ["y"]}), pa.table({"a": [1]})])
def test_columns_that_do_not_fit(wrong: pa.Table) -> None:
    """A table's columns are checked before any row is read, a reader's too."""
    for given in (wrong, wrong.to_reader()):
        with pytest.raises(tw.SchemaError, match="the input of source 'pairs': column"):
            as_source("pairs", given).rows(source_node(), 10, never())


# -- rows that do not fit -----------------------------------------------------------------------------


def test_places_of_rows() -> None:
    """A row that does not fit is named by its place in the whole input, whatever form the rows have."""
    null = pa.table({"a": [None, 3], "b": ["x", "y"]})
    rows = [Pair(0, "x"), ("no", "y"), null, {"a": 4}, Pair(5, "z")]
    for given in (rows, iter(rows)):
        feed = list(as_source("pairs", given).rows(source_node(errors="reject"), 100, never()))
        assert rows_of(iter(feed)) == [Pair(0, "x"), Pair(3, "y"), Pair(5, "z")]  # type: ignore[arg-type]
        assert [place for _, place, _ in bad_of(iter(feed))] == ["row 1", "row 2", "row 4"]  # type: ignore[arg-type]


def test_times_too_far_out() -> None:
    """A row without a place in time does not fit, in a list as in a table."""

    class Event(NamedTuple):
        ts: int

    node = source_node(Event, order_by="ts", errors="reject")
    for given in ([Event(2**62 + 1), Event(1)], pa.table({"ts": [2**62 + 1, 1]})):
        feed = list(as_source("pairs", given).rows(node, 10, never()))
        assert [len(chunk) for chunk, _ in feed] == [1]
        assert "times lie between" in feed[0][1][0][0]


def test_fail() -> None:
    """Under errors="fail" the first such row ends the input with its place and what to do."""
    feed = as_source("pairs", [Pair(1, "x"), ("no", "y")]).rows(source_node(), 10, never())
    with pytest.raises(
        tw.DataError, match=r"(?s)source 'pairs': row 1 does not fit Pair.*errors='reject'"
    ):
        list(feed)


class Measured(NamedTuple):
    at: int
    amount: int


def test_tuples_of_another_length_are_bad_rows() -> None:
    """One more or one fewer value than the record has fields: rejected by its place, the others stay."""
    for odd in ((1, 2, 3), (4,)):
        flow = tw.Flow("lengths")
        rows = flow.source("rows", Measured, errors="reject")
        rows.sink("out")
        rows.rejected.sink("bad")
        result = tw.run(flow, {"rows": [(1, 2), odd, (5, 6)]}, threads=1)
        assert result.rows("out") == [Measured(1, 2), Measured(5, 6)]
        assert [one.position for one in result.rows("bad")] == ["row 1"]


class Swapped(NamedTuple):
    amount: int
    at: int


def test_records_of_another_class_are_read_by_name() -> None:
    """Where their fields have the same names; in another order a place would say nothing."""
    flow = tw.Flow("swapped")
    flow.source("rows", Measured).sink("out")
    for rows in ([Swapped(2, 1)], [Measured(1, 2), Swapped(amount=2, at=1)]):
        assert set(tw.run(flow, {"rows": rows}, threads=1).rows("out")) == {Measured(1, 2)}


def test_a_lane_that_is_not_declared_is_a_bad_row() -> None:
    """Of rows that a program gives, too, which are fitted a chunk at a time."""
    flow = tw.Flow("lanes")
    rows = flow.source(
        "rows", Measured, order_by="at", lane="amount", lanes=[1, 2], errors="reject"
    )
    rows.sink("out")
    rows.rejected.sink("bad")
    result = tw.run(flow, {"rows": [(1, 1), (2, 3), (3, 2)]}, threads=1)
    assert result.rows("out") == [Measured(1, 1), Measured(3, 2)]
    assert [one.position for one in result.rows("bad")] == ["row 1"]
