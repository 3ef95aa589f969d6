"""The command line with Spark: run, state show, and the demo as users start it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from thalweg.cli import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FLOW = """\
import thalweg as tw
from typing import NamedTuple

class Visit(NamedTuple):
    ts: tw.Timestamp
    page: str

def check(visit: Visit) -> Visit:
    if visit.page == "bad":
        raise ValueError("a bad page")
    return visit

flow = tw.Flow("visits")
visits = flow.source("visits", Visit, order_by="ts", errors="reject").map(check)
visits.key_by("page").window("1 minute", n=tw.agg.count()).sink("counts")
"""


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    log = logging.getLogger("thalweg")
    before = log.handlers[:], log.level, log.propagate
    yield
    log.handlers[:], log.level, log.propagate = before


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "visits_flow.py").write_text(FLOW)
    (tmp_path / "in").mkdir()
    rows = ["ts,page", "2026-01-01T00:00:01Z,a", "2026-01-01T00:00:02Z,b", "soon,a"]
    (tmp_path / "in" / "1.csv").write_text("\n".join([*rows, "2026-01-01T00:01:00Z,a"]) + "\n")
    return tmp_path


def command(*parts: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(part) for part in parts])
    return result.exit_code, result.stdout, result.stderr


def run(place: Path, *more: object) -> tuple[int, str, str]:
    return command(
        "run", place / "visits_flow.py", "--input", place / "in", "--output", place / "out",
        "--checkpoint", place / "ckpt", "--once", "--master", "local[2]", *more,
    )  # fmt: skip


def counts(place: Path, out: str = "out") -> list[tuple[str, int]]:
    table = ds.dataset(place / out, partitioning="hive").to_table()
    return sorted(zip(table["page"].to_pylist(), table["n"].to_pylist(), strict=True))


@pytest.mark.merge
def test_run_look_and_go_on(spark: SparkSession, place: Path) -> None:
    """A run leaves state to look at; the next goes on with new files; draining closes the last window."""
    code, out, err = run(place)
    assert (code, "Spark runs on Java" in err) == (0, True), err
    assert "batch 0: 4 rows" in err
    assert "1 rejected" in err
    assert "warning: source 'visits': 1 of 4 rows were rejected and are not in the output" in err
    assert counts(place) == [("a", 1), ("b", 1)]
    code, out, err = command("state", "show", place / "ckpt")
    assert code == 0
    assert "flow visits, batch 0" in out
    assert "state of window" in out
    code, out, err = command("state", "show", place / "ckpt", "--operator", "window", "--json")
    said = json.loads(out)
    assert [row["page"] for row in said["state"]["window"]] == ["a"]
    assert said["operators"]["visits"]["counts"]["rejected"] == 1
    code, out, err = command(
        "state", "show", place / "ckpt", "--operator", "window", "--key", "b,2026-01-01T00:01:00Z"
    )
    assert (code, "has no state of the key" in err) == (1, True), out + err
    (place / "in" / "2.csv").write_text("ts,page\n2026-01-01T00:01:30Z,a\n")
    code, out, err = run(place, "--drain", "--slots", 2)
    assert code == 0, err
    assert counts(place) == [("a", 1), ("a", 2), ("b", 1)]
    code, out, err = command(
        "run", place / "visits_flow.py", "--input", place / "in", "--output", place / "local",
        "--once", "--engine", "local",
    )  # fmt: skip
    assert (code, counts(place, "local")) == (0, counts(place)), err
    code, out, err = run(place)
    assert code == 1
    assert err.splitlines()[-2].startswith("error: the checkpoint")
    assert "Traceback" not in err


def test_a_function_that_raises(spark: SparkSession, place: Path) -> None:
    """One readable error with operator, function, file, line and row; exit code 1; no traceback."""
    (place / "in" / "1.csv").write_text("ts,page\n2026-01-01T00:00:01Z,bad\n")
    code, _, err = run(place)
    assert code == 1
    message = err[err.index("error: ") :]
    assert len(message.splitlines()) <= 10
    for part in ("check", "visits_flow.py", "a bad page", "page='bad'"):
        assert part in message
    assert "Traceback" not in message
    assert "java" not in message.lower()


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    """The demo in a process of its own, without a terminal and in a narrow one."""
    environ = {**os.environ, "COLUMNS": "50"}
    done = subprocess.run(
        [sys.executable, "-m", "thalweg.cli", "demo", "--slots", "2", "--master", "local[2]"],
        capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Spark runs on Java" in done.stderr
    for part in ("3,052 sessions of 1,753 clients", "1 line rejected", "0 rows late", "The plan"):
        assert part in done.stdout
    assert "Traceback" not in done.stderr
