"""Tables as inputs and outputs of a query on Spark, whose driver is killed: everything once in all of them."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.connectors import lakes_driver as driver
from tests.connectors import postgres_server
from tests.connectors.kit import Pair, table
from tests.connectors.lakes_driver import Seen, Visit
from tests.connectors.postgres_server import Server

import thalweg as tw

deltalake = pytest.importorskip("deltalake", reason="needs the package deltalake")
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server.running() as one:
        yield one


def rows_of(table: pa.Table) -> list[Seen]:
    found = (Seen(*(row[name] for name in Seen._fields)) for row in table.to_pylist())
    return sorted(found, key=lambda row: row.n)


def check(output: Path, many: int, server: Server | None) -> None:
    """All targets have what a plain loop gives."""
    wanted = driver.wanted(many)
    assert rows_of(deltalake.DeltaTable(output / "delta").to_pyarrow_table()) == wanted
    newest = {row.name: row for row in wanted}
    found = rows_of(deltalake.DeltaTable(output / "newest").to_pyarrow_table())
    assert found == sorted(newest.values(), key=lambda row: row.n)
    flow = tw.Flow("read")
    flow.source("in", Seen).sink("out")
    read = tw.run(flow, {"in": tw.files(output / "folder", partitions=True)}).rows("out")
    assert sorted(read, key=lambda row: row.n) == wanted
    if server is not None:
        assert server.query("select name, n, place from seen order by n") == wanted


def fill(place: Path, first: int, many: int) -> None:
    deltalake.write_deltalake(place, table(Visit, driver.visits(first, many)), mode="append")


def test_tables_in_and_out(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """A query over the versions of a table, some rows a batch, with more at the next start; in all targets."""
    for n in range(5):
        fill(tmp_path / "in", 40 * n, 40)
    for many in (200, 240):
        log = tw.delta(str(tmp_path / "in"), start="earliest", max_rows=60)
        query = tw.spark.start(
            driver.make_flow(), {"visits": log}, driver.targets(str(tmp_path / "out"), server.dsn),
            checkpoint=tmp_path / "checkpoint", slots=2, trigger="available_now",
        )  # fmt: skip
        query.await_termination()
        check(tmp_path / "out", many, server)
        fill(tmp_path / "in", 200, 40)
    server.query("drop table seen")
    batches = server.query("select distinct batch > 2 from thalweg_batches where target = 'seen'")
    assert batches == [(True,)]
    server.query("drop table thalweg_batches")


def test_partitions_and_packed_files(spark: SparkSession, tmp_path: Path) -> None:
    """Columns of folders and packed files are read as ``tw.run`` reads them."""
    for name, rows in (("a%2Fb", "1\n2\n"), ("ü", "3\n"), ("c%d", "4\n")):
        folder = tmp_path / "in" / f"name={name}"
        folder.mkdir(parents=True)
        (folder / "x.csv.gz").write_bytes(gzip.compress(b"n\n" + rows.encode()))
        os.utime(folder / "x.csv.gz", (1_700_000_000 + int(rows[0]),) * 2)
    flow = tw.Flow("read")
    flow.source("in", Pair).sink("out")
    source = tw.files(tmp_path / "in", partitions=True)
    here = list(tw.run(flow, {"in": source}).rows("out"))
    assert here == [("a/b", 1), ("a/b", 2), ("ü", 3), ("c%d", 4)]
    sink = tw.spark.memory()
    tw.spark.start(flow, {"in": source}, {"out": sink}).await_termination()
    assert sink.rows == here


class Change(NamedTuple):
    op: str
    name: str
    n: int


def test_changes_of_postgres(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """Each change once over restarts; the slot follows behind what is committed, and a table is read as it is."""
    server.query("create table moved (name text primary key, n bigint)")
    server.query("create publication moves for table moved")
    flow = tw.Flow("moves")
    flow.source("changes", Change).sink("out")
    log = tw.postgres_changes(server.dsn, "moves", slot="moves", max_rows=3)
    reader = log.open()
    reader.begin()
    reader.close()
    confirmed = "select confirmed_flush_lsn from pg_replication_slots where slot_name = 'moves'"
    places = [server.query(confirmed)]
    for turn in range(3):
        for n in range(4):
            server.query("insert into moved values (%s, %s)", [f"{turn}{n}", n])
        server.query("update moved set n = 9 where name = %s", [f"{turn}0"])
        query = tw.spark.start(
            flow, {"changes": log}, {"out": tw.to_delta(str(tmp_path / "moves"))},
            checkpoint=tmp_path / "checkpoint", trigger="available_now",
        )  # fmt: skip
        query.await_termination()
        places.append(server.query(confirmed))
    found = deltalake.DeltaTable(tmp_path / "moves").to_pyarrow_table().to_pylist()
    wanted = [
        {"op": op, "name": f"{turn}{n}", "n": 9 if op == "update" else n}
        for turn in range(3)
        for op, n in [*(("insert", n) for n in range(4)), ("update", 0)]
    ]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert len({str(one) for one in places}) == 4
    sink = tw.spark.memory()
    table_ = tw.postgres(server.dsn, "moved", order_by="name")
    rows = tw.Flow("rows")
    rows.source("in", Pair).sink("out")
    tw.spark.start(rows, {"in": table_}, {"out": sink}).await_termination()
    assert sink.rows == [(f"{turn}{n}", n or 9) for turn in range(3) for n in range(4)]


def kill(process: subprocess.Popen[Any]) -> None:
    """The driver, its JVM and the workers."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.send_signal(signal.SIGKILL)
    for one in family:
        if one.is_running():
            one.kill()
    process.wait()
    psutil.wait_procs(family, timeout=30)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_driver_is_killed(server: Server, tmp_path: Path) -> None:
    """kill -9 of driver and workers at random while batches are written, restarts with other slots: all exact."""
    draw, many, kills = random.Random(3), 600, 4
    for n in range(15):
        fill(tmp_path / "in", 40 * n, 40)
    places = [str(tmp_path / one) for one in ("in", "out", "checkpoint")]
    log, met = tmp_path / "stderr", 0
    for turn in range(kills + 1):
        slots = str(draw.choice((1, 2, 3)))
        command = [sys.executable, driver.__file__, *places, slots, server.dsn]
        with log.open("ab") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)
        if turn < kills and _comes_to_write(process, tmp_path / "checkpoint"):
            time.sleep(draw.random() * 1.5)
            met += process.poll() is None
            kill(process)
        assert process.wait(600) in (0, -signal.SIGKILL), log.read_text()[-3000:]
    assert met >= 3
    check(tmp_path / "out", many, server)


def _comes_to_write(process: subprocess.Popen[bytes], checkpoint: Path) -> bool:
    """Waits for a commit of the driver's; False where it ends before."""
    commits = checkpoint / "thalweg" / "commits"
    before, deadline = set(commits.glob("*.json")), time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if set(commits.glob("*.json")) - before:
            return True
        time.sleep(0.02)
    return False
