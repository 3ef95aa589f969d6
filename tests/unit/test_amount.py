"""Little input needs no threads, and a first run does not wait for the worker loop."""

from __future__ import annotations

import gzip
import pathlib
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thalweg as tw
from thalweg.elasticity.trial import ThreadTrial
from thalweg.embedded import amount, entry
from thalweg.embedded.amount import SMALL, rows_at_most
from thalweg.plan.plan import make_plan
from thalweg.workers import adaptive
from thalweg.workers.step_size import STEP_ROWS


class Row(NamedTuple):
    """An int."""

    n: int


def flow() -> tw.Flow:
    made = tw.Flow("amount")
    made.source("rows", Row).sink("out")
    return made


def rows_of(given: Any) -> float:
    return rows_at_most(make_plan(flow()), {"rows": given})


def test_what_is_there_is_counted(tmp_path: pathlib.Path) -> None:
    """Tables and lists by their rows, files by what Parquet says or by their bytes, on the high side."""
    assert rows_of([Row(1)] * 7) == 7
    assert rows_of(pa.table({"n": [1, 2, 3]})) == 3
    assert rows_of(iter([Row(1)])) == float("inf")
    file = tmp_path / "rows.csv"
    file.write_text("n\n" + "123456789012345678901234567890123456789\n" * 1_000)
    assert 1_000 <= rows_of(tw.files(file)) < 1_100
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    assert rows_of(tw.files(tmp_path / "rows.csv.gz")) > 0
    assert rows_of(tw.files(tmp_path / "missing.csv")) == 0
    (tmp_path / "many").mkdir()
    for number in range(10):
        pq.write_table(pa.table({"n": range(300)}), tmp_path / "many" / f"{number}.parquet")
    assert rows_of(tw.files(tmp_path / "many")) == 3_000
    (tmp_path / "no.parquet").write_bytes(b"800 bytes" * 90)
    assert 0 < rows_of(tw.files(tmp_path / "no.parquet")) < 200


def test_small_inputs_are_run_by_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are all where there is but one processor."""
    monkeypatch.setattr(amount, "usable_processors", lambda: 2)
    assert amount.needs_one_thread(SMALL - 1)
    assert not amount.needs_one_thread(SMALL)
    monkeypatch.setattr(amount, "usable_processors", lambda: 1)
    assert amount.needs_one_thread(float("inf"))


class Now(ThreadTrial):
    """Goes to threads with the third step, and stays there."""

    def is_due(self, now_ns: int) -> bool:
        return self._steps >= 2 and not self._is_over and not self.in_threads

    def look(self, now_ns: int) -> bool:
        self.in_threads = True
        return True


def large(monkeypatch: pytest.MonkeyPatch, *, is_warm: bool) -> list[int]:
    """A machine of two cores on which inputs look large; grows when the worker loop is compiled beside."""
    started: list[int] = []
    monkeypatch.setattr(amount, "usable_processors", lambda: 2)
    monkeypatch.setattr("thalweg.embedded.run_options.usable_processors", lambda: 2)
    monkeypatch.setattr(adaptive, "is_warm", lambda: is_warm)
    monkeypatch.setattr(adaptive, "warm_beside", lambda: started.append(1))
    monkeypatch.setattr(adaptive, "ThreadTrial", Now)
    monkeypatch.setattr(entry, "rows_at_most", lambda plan, inputs: float(SMALL))
    return started


def test_nobody_waits_for_the_worker_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not compiled, that is done beside, and the calling thread goes on."""
    started = large(monkeypatch, is_warm=False)
    given = [Row(n) for n in range(1_000)]
    result = tw.run(flow(), {"rows": given}, chunk_rows=100)
    assert result.rows("out") == given
    assert result.progress.threads == 1
    assert started


class Text(NamedTuple):
    """A number by a text."""

    key: str
    n: int


@tw.state
class Count:
    """How many there were."""

    n: int = 0


def counted(count: Count, row: Any) -> Any:
    count.n += 1
    return row


@pytest.mark.parametrize(
    ("key", "compiled", "threads"), [("n", True, 2), ("key", True, 2), ("n", False, 1)]
)
def test_threads_that_would_wait_for_the_interpreter_are_not_begun(
    monkeypatch: pytest.MonkeyPatch, key: str, compiled: bool, threads: int
) -> None:
    """By default: many where they pay and machine code runs all that is dear; one where steps return to Python."""
    large(monkeypatch, is_warm=True)
    made = tw.Flow("keys")
    rows = made.source("rows", Text)
    rows.key_by(key).process(counted, state=Count, into=Text, compile=compiled).sink("out")
    given = [Text(f"k{i % 7}", i % 5) for i in range(1_000)]
    result = tw.run(made, {"rows": given}, chunk_rows=100)
    assert result.rows("out") == given
    assert result.progress.threads == threads
    assert tw.run(made, {"rows": given}, threads=2).progress.threads == 2


@pytest.mark.parametrize(
    "asked",
    [
        {"threads": 2},
        {"options": tw.Options(threads=2)},
        {"policy": tw.scheduling.MaxQueueLength()},
        {"threading": "manual"},
    ],
)
def test_who_asks_for_something_is_not_told_of_another_default(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """No process is started that compiles beside a run which does that itself, or needs no loop."""
    large(monkeypatch, is_warm=False)
    monkeypatch.setattr(adaptive, "warm_beside", lambda: pytest.fail("a process was started"))
    assert tw.run(flow(), {"rows": [Row(1)]}, **asked).rows("out") == [Row(1)]


def test_order_where_threads_begin_within_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows without event time that come as one chunk of several steps: those that ran alone leave first."""
    large(monkeypatch, is_warm=True)
    count = 3 * STEP_ROWS + 100
    given = pa.table({"n": list(range(count))})
    result = tw.run(flow(), {"rows": given})
    assert result.progress.threads == 2
    assert result.sinks["out"].column("n").to_pylist() == list(range(count))
