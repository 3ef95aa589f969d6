"""POSTs as an input, which takes all rows of one or none, and as an output, which sends until it is taken."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.connectors.kit import node, table

import thalweg as tw
from thalweg.connectors import open_calls
from thalweg.connectors.live.buffering import values_in
from thalweg.plan.plan import make_plan


class Row(NamedTuple):
    n: int


def copied(**how: Any) -> tw.Flow:
    flow = tw.Flow("copied")
    rows = flow.source("rows", Row, **how)
    rows.sink("out")
    if how:
        rows.rejected.sink("bad")
    return flow


def post(port: int, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    """The answer to a POST."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST", "/", data, named)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


@contextlib.contextmanager
def receiving(
    source: Any, gate: threading.Event | None = None, **how: Any
) -> Iterator[tuple[list[int], list[Any]]]:
    """The rows that a run gets of a source, which it takes while the gate is open."""
    rows: list[int] = []
    bad: list[Any] = []

    def take(row: Row) -> None:
        if gate is not None:
            gate.wait()
        rows.append(row.n)

    sinks = {"out": tw.each(take)} | ({"bad": tw.each(bad.append)} if how else {})
    with tw.start(threads=1) as running:
        run = running.add(copied(**how), {"rows": source}, sinks)
        try:
            yield rows, bad
        finally:
            if gate is not None:
                gate.set()
            run.stop()


def soon(holds: Any) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_items_of_an_array_keep_their_text() -> None:
    """Numbers beyond 64 bits, strings with brackets; lines are items; what is no array is refused."""
    for text, expected in (
        ('[1, {"a": "],["} ,-0.0,123456789012345678901234567890, [2,[3]], "é"]',
         ["1", '{"a": "],["}', "-0.0", "123456789012345678901234567890", "[2,[3]]", '"é"']),
        (" [ ] ", []), ("[1]\n", ["1"]), ('{"a": 1}\n\n \n{"b": 2}', ['{"a": 1}', '{"b": 2}']), ("", []),
    ):  # fmt: skip
        assert values_in(text.encode()) == [one.encode() for one in expected]
    for text in ("[1", "[1,]", "[1] 2", "[1 2]", "[", '["a', "[1,"):
        with pytest.raises(ValueError):
            values_in(text.encode())


def test_a_post_is_taken_whole_or_not_at_all() -> None:
    """Lines, arrays, what does not fit; a key that comes again; what the door refuses."""
    source = tw.http_post(port=0, max_bytes=1_000, token="open")
    auth = {"Authorization": "Bearer open"}
    with receiving(source) as (rows, _):
        assert post(source.port, b'{"n": 1}\n{"n": 2}\n', **auth) == (200, {"rows": 2})
        assert post(source.port, [{"n": 3}], **auth) == (200, {"rows": 1})
        assert post(source.port, b"", **auth) == (200, {"rows": 0})
        status, said = post(source.port, [{"n": 4}, {"n": "x"}], **auth)
        assert status == 400 and "POST 4 row 1 does not fit Row: n: expected int" in said["error"]
        assert post(source.port, b"[1", **auth)[0] == 400
        for _ in range(2):
            status, said = post(source.port, [{"n": 5}], Idempotency_Key="q/1", **auth)
            assert (status, said["rows"]) == (200, 1)
        assert said == {"rows": 1, "repeated": True}
        assert post(source.port, [{"n": 6}])[0] == 401
        assert post(source.port, [{"n": 6}], Authorization="Bearer open ")[0] == 401
        assert post(source.port, b" " * 1_001, **auth)[0] == 413
        assert post(source.port, [{"n": 6}], Content_Encoding="gzip", **auth)[0] == 415
        soon(lambda: len(rows) == 4)
    assert rows == [1, 2, 3, 5]
    with pytest.raises(tw.BuildError, match="is read by one run only"):
        tw.run(copied(), {"rows": source})
    rejecting = tw.http_post(port=0)
    with receiving(rejecting, errors="reject") as (rows, bad):
        assert post(rejecting.port, [{"n": 1}, {"n": "x"}])[0] == 200
        assert post(rejecting.port, [{"n": 1}], Origin="http://evil.example")[0] == 403
        soon(lambda: len(rows) + len(bad) == 2)
    assert "row 1" in str(bad[0])


def test_a_full_buffer_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """503 while it is full, and nothing of such a POST is taken; what is left at the end is counted."""
    source, gate = tw.http_post(port=0, capacity=10), threading.Event()
    with receiving(source, gate) as (rows, _):
        taken = []
        for n in range(10_000):
            status, said = post(source.port, [{"n": n}] * 5)
            if status == 503:
                break
            taken += [n] * 5
        assert (status, said) == (503, {"error": "full, or at its end"})
        gate.set()
        soon(lambda: len(rows) == len(taken))
        assert post(source.port, [{"n": -1}])[0] == 200
        soon(lambda: len(rows) == len(taken) + 1)
    assert rows == [*taken, -1]
    source = tw.http_post(port=0)
    feed = source.rows(make_plan(copied()).sources[0], 3, threading.Event())
    answers = []
    sender = threading.Thread(
        target=lambda: answers.extend(post(source.port, [{"n": 1}] * many) for many in (3, 2, 5))
    )
    sender.start()
    assert len(next(feed)[0]) == 3
    sender.join()
    with caplog.at_level(logging.WARNING, "thalweg"):
        feed.close()
    assert answers == [(200, {"rows": 3}), (200, {"rows": 2}), (200, {"rows": 5})]
    assert "source 'rows': 7 rows had come and were not read" in caplog.text
    with pytest.raises(OSError):
        post(source.port, [{"n": 1}])


class _Answers(http.server.BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers["Idempotency-Key"], body, self.headers["X-Token"]))
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status is None:
            return  # the connection ends without an answer
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"why?")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def peer() -> Iterator[Any]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.got, server.answers = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/rows?secret=1"
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_batch_is_sent_until_it_is_taken(peer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Under one key; a refusal names the batch and its first row; what is secret is not shown."""
    target = tw.to_http(peer.url, headers={"X-Token": "hidden"})
    writer = target.open(node(Row), "q")
    peer.answers = [503, None, 429, 200]
    with caplog.at_level(logging.WARNING, "thalweg"):
        writer.write(7, table(Row, [Row(1), Row(2)]))
    assert peer.got == [("q/out/7", b'{"n":1}\n{"n":2}\n', "hidden")] * 4
    assert caplog.text.count("does not answer") == caplog.text.count("answers again") == 1
    peer.answers = [422]
    told = r"(?s)batch 8 of 1 rows is refused: 422 .*: why\?\n  its first row: n=5"
    with pytest.raises(tw.DataError, match=told):
        writer.write(8, table(Row, [Row(5)]))
    for status in (302, 401, 404):
        peer.answers = [status]
        with pytest.raises(tw.EnvironmentProblem, match=f"does not take batches: {status}"):
            writer.write(9, table(Row, [Row(5)]))
    peer.answers = [500] * 100
    short = tw.to_http(peer.url, patience="200 ms").open(node(Row), "q")
    with pytest.raises(tw.EnvironmentProblem, match=r"has not answered for .*500") as error:
        short.write(0, table(Row, [Row(1)]))
    for text in (repr(target), target.place, caplog.text, str(error.value)):
        assert "secret" not in text and "hidden" not in text


def test_from_one_run_to_another() -> None:
    """What to_http sends, http_post takes, each row once and in order."""
    source = tw.http_post(port=0, capacity=300)
    with receiving(source) as (rows, _):
        items = [Row(n) for n in range(1_000)]
        tw.run(copied(), {"rows": items}, {"out": tw.to_http(source.url)})
        soon(lambda: len(rows) == 1_000)
    assert rows == list(range(1_000))


def test_options_are_checked() -> None:
    """Each by its name; nothing that is secret is shown."""
    for make, told in (
        (lambda: tw.http_post(port=-1), "http_post: port is a number from 0"),
        (lambda: tw.http_post(port=0, token=""), "token: expected a text"),
        (lambda: tw.http_post(port=0, max_bytes=0), "max_bytes: expected a whole number"),
        (lambda: tw.to_http("localhost"), "to_http: url: expected http://HOST"),
        (lambda: tw.to_http("http://a", headers={"a": 1}), "headers: expected a dict"),
        (lambda: tw.to_http("http://a", timeout_s=0), "timeout_s: expected seconds above 0"),
        (lambda: tw.mqtt("host", ""), "topic: expected a text"),
        (lambda: tw.mqtt("host", "t", qos=3), "qos: expected 0, 1 or 2"),
        (lambda: tw.websocket("http://a"), "websocket: url: expected ws://HOST"),
        (lambda: tw.websocket("ws://a", send=[1]), "send: expected a text, or several"),
    ):
        with pytest.raises(tw.BuildError, match=told):
            make()
    assert repr(tw.mqtt("host:99", "t", password="hidden")) == "<tw.mqtt at mqtt://host:99/t>"
    assert "hidden" not in repr(tw.websocket("ws://me:hidden@host/feed?key=hidden"))


def test_a_call_that_does_not_come_back_is_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes a batch and says nothing, a sender that stops amid a POST: named while waited for."""
    monkeypatch.setattr(open_calls, "FIRST_S", 0.05)
    monkeypatch.setattr(open_calls, "LOOK_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent, caplog.at_level(logging.WARNING):
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/rows?secret=1"
        writer = tw.to_http(url, timeout_s=1, patience="100 ms").open(node(Row), "q")
        with pytest.raises(tw.EnvironmentProblem):
            writer.write(0, table(Row, [Row(1)]))
        place = url.partition("?")[0]
        assert f"{place} has not answered for 0 s; it is waited for" in caplog.text
        assert f"{place} has not answered for 1 s; that is over" in caplog.text
    source = tw.http_post(port=0)
    with (
        receiving(source),
        caplog.at_level(logging.WARNING),
        socket.create_connection(("127.0.0.1", source.port)) as sender,
    ):
        sender.sendall(b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{"n"')
        soon(lambda: "127.0.0.1 has not sent all of a POST" in caplog.text)
    assert "secret" not in caplog.text
