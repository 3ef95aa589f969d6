"""NEXMark's queries against DuckDB over the whole input, and in other threads and slots and after kills."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from tests.nexmark.answers_kit import inputs, spec_of, tables
from tests.sizes import sized
from thalweg_lab.nexmark.in_duckdb import differences
from thalweg_lab.nexmark.written import write
from typer.testing import CliRunner

import thalweg as tw
from thalweg import testing
from thalweg.examples.nexmark.__main__ import main
from thalweg.examples.nexmark.queries import QUERIES, flow_of, sources_of

#: By the clock on the wall: another run has another answer.
BY_THE_CLOCK = ("q12",)
#: One window of all rows at a time has one bucket, so more slots are refused.
ONE_SLOT = ("q7", "q15")
REPEATABLE = [query for query in QUERIES if query not in BY_THE_CLOCK]


@pytest.mark.parametrize("query", QUERIES)
def test_as_duckdb(query: str) -> None:
    """The whole output has each row of DuckDB's and no other; no row is late."""
    events = sized(20_000, 5_000)
    for seed in range(sized(3, 1)):
        result = tw.run(flow_of(query), inputs(query, events, seed))
        assert differences(query, tables(events, seed), result.sinks["out"]) == (0, 0)
        assert len(result.sinks["out"]) > 0
        assert not any(result.counts[source]["late"] for source in sources_of(query))


@pytest.mark.slow
@pytest.mark.parametrize("query", REPEATABLE)
def test_in_threads_and_slots(query: str) -> None:
    """One and two threads and one to four slots give the sequence that the reference gives."""
    flow, small, more = flow_of(query), inputs(query, 2_000, 1), inputs(query, 20_000, 2)
    expected = testing.reference(flow, small).rows("out")
    assert tw.run(flow, small, chunk_rows=97).rows("out") == expected
    serial = tw.run(flow, more, threading="manual").sinks["out"]
    hows: list[dict[str, Any]] = [{"threads": 1}, {"threads": 2, "chunk_rows": 1_000}]
    hows += [{"slots": slots} for slots in range(1, 2 if query in ONE_SLOT else 5)]
    for how in hows:
        assert tw.run(flow, more, **how).sinks["out"] == serial, how


@pytest.mark.merge
@pytest.mark.parametrize(
    "query", ["q4", "q5", "q9", "q11", "q12", "q13", "q16", "q18", "q19", "q20"]
)
def test_killed_and_started_again(query: str, tmp_path: Path) -> None:
    """A durable run that is killed again and again has put out each row once."""
    write(spec_of(20_000, 0), tmp_path / "in", files=4)
    chooser, kills = random.Random(query), 0
    while not _ends(query, tmp_path, chooser, may_be_killed=kills < 3):
        kills += 1
    found = pq.read_table(tmp_path / query / "out", partitioning=None)
    assert differences(query, tables(20_000, 0), found) == (0, 0)


def _ends(query: str, folder: Path, chooser: random.Random, *, may_be_killed: bool) -> bool:
    """Runs the child; False where it was killed before its end."""
    command = [sys.executable, "-m", "tests.nexmark.durable_child", query, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begins\n"
        if may_be_killed:
            time.sleep(0.1 + chooser.random() * 0.6)
            child.kill()
        said = child.stdout.read()
    assert may_be_killed or child.returncode == 0
    return said == "ended\n"


def test_files_by_day_and_minute(tmp_path: Path) -> None:
    """Query 10's command writes a folder for each day and minute, which has their bids and no others."""
    import typer

    app = typer.Typer()
    app.command()(main)
    write(spec_of(1_000, 1), tmp_path / "in")
    out = tmp_path / "out"
    for query, arguments in (("q10", ["--out", str(out)]), ("q7", [])):
        done = CliRunner().invoke(app, [query, str(tmp_path / "in"), *arguments])
        assert done.exit_code == 0, done.output
    rows = duckdb.sql(f"""SELECT count(*), count(DISTINCT (dt, hm)),
        bool_and(strftime(date_time, '%Y-%m-%d %H:%M') = dt || ' ' || hm)
        FROM read_parquet('{out}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)""").fetchall()
    assert rows == [(920, 2, True)]
