"""Little input needs no threads, and a first run does not wait for the worker loop."""

from __future__ import annotations

import gzip
import pathlib
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.embedded import entry
from thalweg.embedded.amount import MODERATE, SMALL, rows_at_most
from thalweg.plan.plan import make_plan


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
    """Tables and lists by their rows, files by their bytes, on the high side; of an iterator nobody knows."""
    assert rows_of([Row(1)] * 7) == 7
    assert rows_of(pa.table({"n": [1, 2, 3]})) == 3
    assert rows_of(iter([Row(1)])) == float("inf")
    file = tmp_path / "rows.csv"
    file.write_text("n\n" + "123456789012345678901234567890123456789\n" * 1_000)
    assert 1_000 <= rows_of(tw.files(file)) < 1_100
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    assert rows_of(tw.files(tmp_path / "rows.csv.gz")) > 0
    assert rows_of(tw.files(tmp_path / "missing.csv")) == 0


@pytest.mark.parametrize(
    ("rows", "warm", "threads", "compiles"),
    [
        (SMALL - 1, False, 1, False),
        (SMALL, True, 2, False),
        (SMALL, False, 1, True),
        (MODERATE, False, 2, False),
        (MODERATE, True, 2, False),
    ],
)
def test_who_waits_for_the_worker_loop(
    monkeypatch: pytest.MonkeyPatch, rows: int, warm: bool, threads: int, compiles: bool
) -> None:
    """Small inputs never do, moderate ones only where it is compiled already, large ones always."""
    started = []
    monkeypatch.setattr(entry, "usable_processors", lambda: 2)
    monkeypatch.setattr(entry, "is_warm", lambda: warm)
    monkeypatch.setattr(entry, "warm_beside", lambda: started.append(1))
    monkeypatch.setattr(entry, "rows_at_most", lambda plan, inputs: float(rows))
    assert entry._needs_one_thread(make_plan(flow()), {}) is (threads == 1)
    assert bool(started) is compiles


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


@pytest.mark.parametrize(("key", "threads"), [("n", 2), ("key", 1)])
def test_threads_that_would_wait_for_the_interpreter_are_not_begun(
    monkeypatch: pytest.MonkeyPatch, key: str, threads: int
) -> None:
    """By default: many threads where machine code runs all that is dear; one where each step returns to Python."""
    monkeypatch.setattr(entry, "usable_processors", lambda: 2)
    monkeypatch.setattr("thalweg.embedded.host.usable_processors", lambda: 2)
    monkeypatch.setattr(entry, "is_warm", lambda: True)
    monkeypatch.setattr(entry, "rows_at_most", lambda plan, inputs: float(SMALL))
    made = tw.Flow("keys")
    rows = made.source("rows", Text)
    rows.key_by(key).process(counted, state=Count, into=Text).sink("out")
    given = [Text(f"k{i % 7}", i % 5) for i in range(1_000)]
    result = tw.run(made, {"rows": given})
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
    monkeypatch.setattr(entry, "usable_processors", lambda: 2)
    monkeypatch.setattr(entry, "rows_at_most", lambda plan, inputs: float(SMALL))
    monkeypatch.setattr(entry, "is_warm", lambda: False)
    monkeypatch.setattr(entry, "warm_beside", lambda: pytest.fail("a process was started"))
    assert tw.run(flow(), {"rows": [Row(1)]}, **asked).rows("out") == [Row(1)]
