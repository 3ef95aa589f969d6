"""kill -9 while a call is in flight, and while lanes are idle and time goes by the clock: nothing lost or repeated."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake", reason="needs the package deltalake")

from tests.sizes import sized
from tests.stress.lives import waiting_child as child

_BASE_US = 1_700_000_000_000_000
_ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def living(
    what: str, folder: Path, threads: int, servers: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own, killed at the end."""
    command = [sys.executable, "-m", child.__name__, what, str(folder), str(threads), servers]
    path = os.pathsep.join(filter(None, [str(_ROOT), *sys.path]))
    with subprocess.Popen(
        command,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of the batches in their order."""
    batches = sorted(folder.glob("batch=*"), key=lambda one: int(one.name.removeprefix("batch=")))
    files = [file for one in batches for file in sorted(one.glob("[!.]*.parquet"))]
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.mark.merge
def test_calls_in_flight(tmp_path: Path) -> None:
    """A process that dies amid calls: the next one makes them again, and each sink has each answer once, in order."""
    deltalake = pytest.importorskip("deltalake")
    (tmp_path / "hang").touch()
    for threads in (1, 2):
        with living("calls", tmp_path, threads) as process:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == ["begins\n", "in flight\n"]
            time.sleep(0.05)  # more calls are begun beside it
    (tmp_path / "hang").unlink()
    with living("calls", tmp_path, 2) as process:
        assert process.wait(300) == 0
    wanted = [{"n": n, "text": f"answer {n}"} for n in range(child.ROWS)]
    assert rows_of(tmp_path / "files.parquet") == wanted
    table = deltalake.DeltaTable(tmp_path / "delta").to_pyarrow_table().to_pylist()
    assert sorted(table, key=lambda row: row["n"]) == wanted


@pytest.mark.merge
def test_functions_that_wait(tmp_path: Path) -> None:
    """A process that dies while threads that it began by itself wait in a function: each row once, in order."""
    deltalake = pytest.importorskip("deltalake")
    draw, kills = random.Random(5), 0
    for _ in range(sized(5, 3)):
        with living("sleeps", tmp_path, 0) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
            before = len(rows_of(tmp_path / "files.parquet"))
            while process.poll() is None and len(rows_of(tmp_path / "files.parquet")) == before:
                time.sleep(0.01)
            time.sleep(draw.random() * 0.3)
            kills += process.poll() is None
    assert kills >= 2
    with living("sleeps", tmp_path, draw.choice((0, 1, 2))) as process:
        assert process.wait(300) == 0
    wanted = [{"n": n, "text": f"answer {n}"} for n in range(child.ROWS)]
    assert rows_of(tmp_path / "files.parquet") == wanted
    table = deltalake.DeltaTable(tmp_path / "delta").to_pyarrow_table().to_pylist()
    assert sorted(table, key=lambda row: row["n"]) == wanted


@pytest.mark.merge
def test_idle_lanes(tmp_path: Path) -> None:
    """Sessions that only the clock closes, one process after another killed: as if nothing had happened.

    In each phase one lane has rows and the others are idle; rows lie so far apart that none is late however long a
    start takes.
    """
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from thalweg_lab import brokers

    draw, wanted, kills = random.Random(3), Counter[tuple[str, int]](), 0
    with brokers.mock() as broker:
        broker.producer.list_topics("clicks", timeout=10)
        for phase in range(3):
            for click in _phase(draw, phase):
                value = b'{"user":"%s","at":%d}' % (click.user.encode(), click.at)
                broker.send("clicks", value, click.lane)
                wanted[click.user, click.at] += 1
            broker.flush()
            for is_last in (False, True):
                with living("idle", tmp_path, draw.choice((1, 2)), broker.servers) as process:
                    assert process.stdout is not None
                    assert process.stdout.readline() == "begins\n"
                    if is_last:
                        _wait_for(process, tmp_path / "sessions.parquet", len(wanted))
                    else:
                        time.sleep(draw.random() * 3)
                    kills += process.poll() is None
    assert kills == 6
    assert rows_of(tmp_path / "late.parquet") == []
    found = [
        (row["user"], row["start"].timestamp() * 1e6, row["clicks"])
        for row in rows_of(tmp_path / "sessions.parquet")
    ]
    assert sorted(found) == sorted((user, at, many) for (user, at), many in wanted.items())


def _phase(draw: random.Random, phase: int) -> list[child.Click]:
    lane = draw.randrange(child.LANES)
    times = [_BASE_US + (phase * 100_000 + 100 * n) * 1_000_000 for n in range(20)]
    return [
        child.Click(f"u{draw.randrange(3)}", at, lane)
        for at in times
        for _ in range(draw.randint(1, 4))
    ]


def _wait_for(process: subprocess.Popen[str], folder: Path, rows: int) -> None:
    deadline = time.monotonic() + 120
    while len(rows_of(folder)) < rows:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
