"""Reading ahead: the rows and errors of a feed in their order, a bounded way ahead, and no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.embedded import read_ahead as module
from thalweg.embedded.read_ahead import read_ahead


class Row(NamedTuple):
    n: int


def feed(count: int, seen: list[int], error: BaseException | None = None) -> Iterator[Any]:
    try:
        for number in range(count):
            seen.append(number)
            yield [number] * 10, []
        if error is not None:
            raise error
    finally:
        seen.append(-1)


def test_order_error_and_end() -> None:
    """Chunks come in their order, what the feed raises behind them, and the thread has ended by then."""
    seen: list[int] = []
    error = ValueError("broken off")
    ahead = read_ahead("rows", feed(50, seen, error), 10, threading.Event())  # type: ignore[arg-type]
    found: list[int] = []
    with pytest.raises(ValueError, match="broken off"):
        found.extend(chunk[0] for chunk, _ in ahead)
    assert found == list(range(50))
    assert seen[-1] == -1
    assert "reader rows" not in [one.name for one in threading.enumerate()]


def test_it_is_never_far_ahead() -> None:
    """The reader waits for the engine: two chunks lie between them, one more is in its hand; a close ends it."""
    seen: list[int] = []
    ahead = read_ahead("rows", feed(1000, seen), 10, threading.Event())  # type: ignore[arg-type]
    for taken, _ in enumerate(ahead, 1):
        assert len(seen) <= taken + 4
        if taken == 20:
            break
    ahead.close()
    assert seen[-1] == -1
    assert len(seen) <= 26


def test_a_stop_ends_it() -> None:
    """Once stop is set nothing more is given, and the feed is closed."""
    seen: list[int] = []
    stop = threading.Event()
    ahead = read_ahead("rows", feed(1000, seen), 10, stop)  # type: ignore[arg-type]
    next(ahead)
    stop.set()
    assert list(ahead) == []
    assert seen[-1] == -1


def test_runs_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in the same order with and without a reader, serial and with threads; a bad row stops the run."""
    monkeypatch.setattr(module, "is_small", lambda given: False)
    for number in range(3):
        rows = list(range(number * 1000, number * 1000 + 1000))
        pq.write_table(pa.table({"n": rows}), tmp_path / f"{number}.parquet")
    flow = tw.Flow("numbers")
    flow.source("rows", Row).map(twice).sink("out")
    for processors in (1, 2):
        monkeypatch.setattr(module, "usable_processors", lambda count=processors: count)
        for threads in (1, 2):
            for chunk_rows in (None, 7):
                inputs = {"rows": tw.files(tmp_path)}
                result = tw.run(flow, inputs, threads=threads, chunk_rows=chunk_rows)
                assert result.sinks["out"].column("n").to_pylist() == list(range(0, 6000, 2))
    monkeypatch.setattr(module, "usable_processors", lambda: 2)
    pq.write_table(pa.table({"n": [1.5]}), tmp_path / "3.parquet")
    with pytest.raises(tw.ThalwegError, match=r"3\.parquet"):
        tw.run(flow, {"rows": tw.files(tmp_path)})


def twice(row: Row) -> Row:
    return Row(row.n * 2)
