"""MQTT and WebSockets as inputs: every message that comes, in order, over broken connections; what is lost is said."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.connectors import small_servers
from tests.connectors.small_servers import Mosquitto

import thalweg as tw
from thalweg.connectors.contracts import never
from thalweg.plan.plan import make_plan


class Row(NamedTuple):
    n: int


class Topical(NamedTuple):
    n: int
    topic: str


def copied(record: type = Row, **how: Any) -> tw.Flow:
    flow = tw.Flow("copied")
    flow.source("rows", record, **how).sink("out")
    return flow


def soon(holds: Any) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def numbers(*found: int) -> list[bytes]:
    return [json.dumps({"n": n}).encode() for n in found]


# -- MQTT ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with small_servers.mosquitto() as one:
        yield one


def test_topics_of_a_broker(broker: Mosquitto) -> None:
    """With their topics, of each QoS, in order; what does not fit is named."""
    for qos in (0, 1, 2):
        found: list[Any] = []
        source = tw.mqtt(
            f"127.0.0.1:{broker.port}", f"t{qos}/+", qos=qos, topic_field="topic", capacity=50
        )
        with tw.start(threads=1) as running:
            sinks = {"out": tw.each(found.append)}
            run = running.add(copied(Topical), {"rows": source}, sinks)
            soon(lambda found=found, qos=qos: _is_heard(broker, f"t{qos}/0", found))
            broker.publish(f"t{qos}/a", numbers(*range(300)), qos)
            # More than one of the first questions may have come, some of them late.
            soon(lambda found=found: sum(one.n >= 0 for one in found) == 300)
            run.stop()
        assert [one for one in found if one.n >= 0] == [(n, f"t{qos}/a") for n in range(300)]


def _is_heard(broker: Mosquitto, topic: str, found: list[Any]) -> bool:
    """Whether a message arrives, as the subscription is there."""
    broker.publish(topic, numbers(-1), 0)
    time.sleep(0.02)
    return bool(found)


@pytest.mark.merge
def test_a_broker_that_restarts(broker: Mosquitto, caplog: pytest.LogCaptureFixture) -> None:
    """A named session has what was sent while the connection was lost; a run that has ended goes on with the next."""
    found: list[int] = []
    sinks = {"out": tw.each(lambda row: found.append(row.n))}

    def source() -> Any:
        return tw.mqtt("127.0.0.1", "kept", port=broker.port, client_id="me")

    with caplog.at_level(logging.WARNING, "thalweg"), tw.start(threads=1) as running:
        run = running.add(copied(), {"rows": source()}, sinks)
        soon(lambda: _is_heard(broker, "kept", found))
        broker.stop()
        soon(lambda: "does not answer" in caplog.text)
        broker.start()
        broker.publish("kept", numbers(*range(10)))
        soon(lambda: 9 in found)
        run.stop()
        broker.publish("kept", numbers(10))
        run = running.add(copied(), {"rows": source()}, sinks)
        soon(lambda: 10 in found)
        run.stop()
    assert [n for n in found if n >= 0] == list(range(11))
    assert "answers again" in caplog.text and "is lost" not in caplog.text
    nobody = tw.mqtt("127.0.0.1", "t", port=small_servers.free_port(), patience="200 ms")
    with pytest.raises(tw.EnvironmentProblem, match="has not answered for"):
        tw.run(copied(), {"rows": nobody})


@pytest.mark.merge
def test_what_a_session_without_a_name_loses_is_said(
    broker: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    """What is sent while the connection is lost does not come, and a warning says so."""
    found: list[int] = []
    with caplog.at_level(logging.WARNING, "thalweg"), tw.start(threads=1) as running:
        source = tw.mqtt("127.0.0.1", "unnamed", port=broker.port)
        sinks = {"out": tw.each(lambda row: found.append(row.n))}
        run = running.add(copied(), {"rows": source}, sinks)
        soon(lambda: _is_heard(broker, "unnamed", found))
        broker.stop()
        soon(lambda: "the 1. time; what is sent until the next one is lost" in caplog.text)
        broker.start()
        soon(lambda: "answers again" in caplog.text)
        del found[:]
        soon(lambda: _is_heard(broker, "unnamed", found))
        run.stop()


# -- WebSockets -----------------------------------------------------------------------------------------


@pytest.fixture
def feed() -> Iterator[Any]:
    """A server that sends what a list of lists says, one list a connection, and notes what it is sent."""
    server = pytest.importorskip("websockets.sync.server", reason="needs the package websockets")

    class Feed:
        scripts: list[list[Any]] = []
        heard: list[str] = []

    over = threading.Event()

    def serve(connection: Any) -> None:
        Feed.heard.append(connection.recv())
        for message in Feed.scripts.pop(0) if Feed.scripts else []:
            connection.send(message)
        if not Feed.scripts:
            over.wait(30)

    made: Any = Feed()
    Feed.scripts, Feed.heard = [], []
    with server.serve(serve, "127.0.0.1", 0) as listening:
        made.port = listening.socket.getsockname()[1]
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield made
        over.set()
        listening.shutdown()
        thread.join()


def test_messages_of_a_websocket(feed: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Objects, arrays, bytes; over a connection that ends, which is said; the subscription is sent each time."""
    feed.scripts[:] = [
        ['{"n":\n 1}', '[{"n": 2}, {"n": 3}]', b'{"n": 4}'],
        [json.dumps({"n": n}) for n in range(5, 300)],
    ]
    found: list[int] = []
    url = f"ws://127.0.0.1:{feed.port}/feed"
    with caplog.at_level(logging.WARNING, "thalweg"), tw.start(threads=1) as running:
        source = tw.websocket(url, send='{"subscribe": "all"}', capacity=20)
        sinks = {"out": tw.each(lambda row: found.append(row.n))}
        run = running.add(copied(), {"rows": source}, sinks)
        soon(lambda: len(found) == 299)
        run.stop()
    assert found == list(range(1, 300))
    assert feed.heard == ['{"subscribe": "all"}'] * 2
    assert "connection lost, the 1. time" in caplog.text


def test_what_does_not_fit_is_named(feed: Any) -> None:
    """By the number of the message; a broken array ends the run, a server that is away ends it after a while."""
    for script, told in (
        (['{"n": 1}', '{"n": "x"}'], "message 2 does not fit Row: n: expected int"),
        (['[{"n": 1}'], "message 1 is no array of JSON"),
    ):
        feed.scripts[:] = [script]
        source = tw.websocket(f"ws://127.0.0.1:{feed.port}/", send="go")
        with pytest.raises(tw.DataError, match=told):
            tw.run(copied(), {"rows": source})
    nobody = tw.websocket(f"ws://127.0.0.1:{small_servers.free_port()}/", patience="200 ms")
    with pytest.raises(tw.EnvironmentProblem, match="has not answered for"):
        tw.run(copied(), {"rows": nobody})
    rows = nobody.rows
    with pytest.raises(tw.BuildError, match="is read by one run only"):
        rows(make_plan(copied()).sources[0], 10, never())


def test_spark_refuses_them_by_name() -> None:
    """They cannot be read again; the message says what can be done."""
    inputs = pytest.importorskip("thalweg.spark.reading.inputs")
    for live, name in (
        (tw.mqtt("a", "t"), "tw.mqtt"),
        (tw.websocket("ws://a"), "tw.websocket"),
        (tw.http_post(port=0), "tw.http_post"),
    ):
        told = rf"input 'rows': {name}\(...\) cannot be read again .*tw.run, or put a log"
        with pytest.raises(tw.BuildError, match=told):
            inputs.inputs_of({"rows": live}, follow=True)
        live.close()
