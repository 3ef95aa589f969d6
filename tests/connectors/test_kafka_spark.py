"""Topics as the input of a query on Spark, with a broker in this process."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psutil
import pyarrow.parquet as pq
import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from tests.connectors import kafka_spark_driver as driver
from thalweg_lab import brokers
from thalweg_lab.brokers import Broker

import thalweg as tw

#: The mock broker's.
PARTS = 4


@pytest.fixture(scope="module")
def mock() -> Iterator[Broker]:
    with brokers.mock() as broker:
        yield broker


def send(broker: Broker, topic: str, numbers: range) -> None:
    draw = random.Random(numbers.start)
    for n in numbers:
        value = orjson.dumps({"n": n, "user": draw.randrange(7)})
        broker.send(topic, value, draw.randrange(PARTS), timestamp=1_700_000_000_000 + n // 3)
    broker.flush()


def written(folder: Path) -> list[dict[str, Any]]:
    """The rows of the batches in their order."""
    batches = sorted(folder.glob("batch=*"), key=lambda one: int(one.name.partition("=")[2]))
    files = [file for batch in batches for file in sorted(batch.glob("*.parquet"))]
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def check(rows: list[dict[str, Any]], count: int) -> None:
    """Each message once, those of a partition in its order; a user's running numbers without gap, as written."""
    assert sorted(row["n"] for row in rows) == list(range(count))
    for part in range(PARTS):
        offsets = [row["off"] for row in rows if row["part"] == part]
        assert offsets == list(range(len(offsets)))
    for user in range(7):
        places = [row["place"] for row in rows if row["user"] == user]
        assert places == list(range(1, len(places) + 1))


class Copy(NamedTuple):
    n: int
    part: int
    query: str
    batch: str
    serial: str


def check_copies(broker: Broker, topic: str, count: int) -> int:
    """Who leaves out repeats, as docs/connectors/kafka.md says, has each row once; how many repeats there were."""
    flow = tw.Flow("copies")
    flow.source("copies", Copy).sink("out")
    headers = {"thalweg-query": "query", "thalweg-batch": "batch", "thalweg-serial": "serial"}
    # The field of that name is in the value, too: where the message lies now counts.
    log = tw.kafka(
        broker.servers, f"{topic}-copies", follow=False, headers=headers, partition="part"
    )
    seen: dict[tuple[str, int], tuple[int, int]] = {}
    rows = tw.run(flow, {"copies": log}).rows("out")
    kept = []
    for row in rows:
        place, number = (row.query, row.part), (int(row.batch), int(row.serial))
        if number > seen.get(place, (-1, -1)):
            seen[place] = number
            kept.append(row)
    assert sorted(row.n for row in kept) == list(range(count))
    assert len({row.query for row in rows}) == 1
    return len(rows) - len(kept)


def test_a_query_goes_on_where_it_ended(spark: Any, mock: Broker, tmp_path: Path) -> None:
    """Batches of about max_rows; the next start reads what has come since, and nothing twice."""
    for topic in ("query", "query-copies"):
        mock.producer.list_topics(topic, timeout=10)
    for upto in (1_000, 1_500):
        send(mock, "query", range(upto - 500 if upto > 1_000 else 0, upto))
        query = driver.start(mock.servers, "query", tmp_path / "out", tmp_path / "ckpt")
        query.await_termination()
        check(written(tmp_path / "out"), upto)
        assert check_copies(mock, "query", upto) == 0
    assert len(list((tmp_path / "out").glob("batch=*"))) >= 4


def test_a_log_that_is_read_once_keeps_no_checkpoint(tmp_path: Path) -> None:
    """It is a single batch on Spark, so checkpoint= would do nothing: refused, with what does the same."""
    log = tw.kafka("localhost:1", "t", follow=False, partition="part", offset="off")
    with pytest.raises(tw.BuildError, match=r"follow=False is a single batch .*\n.*available_now"):
        tw.spark.start(driver.make_flow(), {"rows": log}, {}, checkpoint=tmp_path / "ckpt")
    assert not (tmp_path / "ckpt").exists()


@pytest.mark.slow
@pytest.mark.spark
def test_kill_9_in_the_middle(mock: Broker, tmp_path: Path) -> None:
    """The driver is killed several times; the output is that of a run without."""
    for topic in ("killed", "killed-copies"):
        mock.producer.list_topics(topic, timeout=10)
    send(mock, "killed", range(6_000))
    folders = [str(tmp_path / "out"), str(tmp_path / "ckpt")]
    command = [sys.executable, driver.__file__, mock.servers, "killed", *folders]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    draw, kills = random.Random(1), 0
    for after in (2, 4, None):
        with open(tmp_path / "stderr.txt", "wb") as stderr:
            process = subprocess.Popen(command, stderr=stderr, env=environ, start_new_session=True)
            try:
                if after is None:
                    assert process.wait(400) == 0, (tmp_path / "stderr.txt").read_text()[-3000:]
                else:
                    kills += kill_after(process, tmp_path / "out", kills * 4 + after, draw)
            finally:
                kill_tree(process)
    assert kills
    check(written(tmp_path / "out"), 6_000)
    check_copies(mock, "killed", 6_000)


def kill_after(
    process: subprocess.Popen[bytes], out: Path, batches: int, draw: random.Random
) -> bool:
    """Waits for that many batches, and a little; whether the driver still runs."""
    deadline = time.monotonic() + 300
    while process.poll() is None and len(list(out.glob("batch=*"))) < batches:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(draw.random())
    return process.poll() is None


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kills the driver, its JVM and its Python workers."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
    for one in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
    psutil.wait_procs(family, timeout=30)
