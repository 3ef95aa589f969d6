"""``tw.http_post``: a small HTTP server whose POSTs are the input of a run.

A POST is answered with 200 once its rows are in the buffer, and with 503 while that is full: so whoever sends knows
what was taken, and sends the rest again. A key of the sender's keeps what is sent twice from being taken twice.
"""

from __future__ import annotations

import collections
import hmac
import http.server
import json
import threading
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from thalweg.checks import known_keywords_and, require_optional_text, require_rows
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import LINGER_S, Feed, Stop
from thalweg.connectors.fitting import cut_fed
from thalweg.connectors.in_process.handover import Handover
from thalweg.connectors.live.buffering import CAPACITY, tell_left, values_in
from thalweg.connectors.messages import (
    MESSAGE_OPTIONS,
    MessageOptions,
    MessageParser,
    message_options,
)
from thalweg.connectors.open_calls import OPEN_CALLS
from thalweg.connectors.tcp.sockets import check_address, problem_of
from thalweg.errors import BuildError, DataError
from thalweg.flow.operators.nodes import Source

#: Bytes that a POST may have, where the description does not say.
MAX_BYTES: Final = 64 << 20
#: Keys of POSTs that are remembered.
_KEYS: Final = 10_000
#: How long a connection may be silent, seconds.
_SILENT_S: Final = 30.0


class _Answer(NamedTuple):
    """What a POST is told."""

    status: HTTPStatus
    said: dict[str, Any]


class _Taking:
    """Rows of POSTs on their way into the buffer of one run."""

    def __init__(self, source: Source, parser: MessageParser, buffer: Handover) -> None:
        self._source, self._parser, self._buffer = source, parser, buffer
        self._lock = threading.Lock()
        self._posts = 0
        self._keys: collections.OrderedDict[str, int] = collections.OrderedDict()

    def take(self, body: bytes, key: str | None) -> _Answer:
        """Puts the rows of a POST into the buffer, all or none."""
        try:
            values = values_in(body)
        except (ValueError, RecursionError) as error:
            return _Answer(HTTPStatus.BAD_REQUEST, {"error": f"no array of JSON: {error}"})
        with self._lock:
            if key is not None and key in self._keys:
                return _Answer(HTTPStatus.OK, {"rows": self._keys[key], "repeated": True})
            post = self._posts + 1
            try:
                fed = self._parser.parse(values, {}, lambda row: f"POST {post} row {row}")
            except DataError as error:  # errors="fail": the sender has it back, the run goes on
                return _Answer(HTTPStatus.BAD_REQUEST, {"error": str(error).splitlines()[0]})
            if values and not self._buffer.offer(fed, len(values)):
                return _Answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "full, or at its end"})
            self._posts = post
            if key is not None:
                self._keys[key] = len(values)
                while len(self._keys) > _KEYS:
                    self._keys.popitem(last=False)
        return _Answer(HTTPStatus.OK, {"rows": len(values)})


class _PostServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    #: a connection that is not accepted yet waits here
    request_queue_size = 128
    token: str | None = None
    max_bytes = MAX_BYTES
    taking: _Taking | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A sender that has gone is none of ours."""


class _PostHandler(http.server.BaseHTTPRequestHandler):
    server: _PostServer
    protocol_version = "HTTP/1.1"
    timeout = _SILENT_S

    def do_POST(self) -> None:
        refused = self._refused()
        if refused is not None:
            self.close_connection = True  # its body was not read
            return self._answer(refused)
        size = int(self.headers["Content-Length"])
        with OPEN_CALLS.watched(f"http_post: {self.client_address[0]} has not sent all of a POST"):
            body = self.rfile.read(size)
        taking = self.server.taking
        if len(body) < size or taking is None:
            self.close_connection = True
            return self._answer(_Answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "not reading"}))
        return self._answer(taking.take(body, self.headers.get("Idempotency-Key")))

    def _refused(self) -> _Answer | None:
        """What speaks against a POST before its body is read."""
        headers, token = self.headers, self.server.token
        length = headers.get("Content-Length", "")
        if token is not None:
            given = headers.get("Authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, f"Bearer {token}".encode()):
                return _Answer(HTTPStatus.UNAUTHORIZED, {"error": "Authorization: Bearer TOKEN"})
        elif "Origin" in headers:  # any page in a browser of this machine could send
            return _Answer(HTTPStatus.FORBIDDEN, {"error": "browsers need a token"})
        if not length.isdecimal():
            return _Answer(HTTPStatus.LENGTH_REQUIRED, {"error": "Content-Length is missing"})
        if int(length) > self.server.max_bytes:
            error = {"error": f"larger than {self.server.max_bytes} bytes"}
            return _Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)
        if headers.get("Content-Encoding", "identity") != "identity":
            return _Answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, {"error": "Content-Encoding"})
        return None

    def _answer(self, answer: _Answer) -> None:
        body = json.dumps(answer.said).encode() + b"\n"
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if answer.status is HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not written to stderr."""


class HttpPostSource:
    """The input of one run, by POSTs; made by :func:`http_post`, which listens from then on."""

    live = True
    made_by = "tw.http_post(...)"

    def __init__(self, server: _PostServer, options: MessageOptions, capacity: int) -> None:
        self._server, self._options, self._capacity = server, options, capacity
        self._taken = False
        self.host, self.port = str(server.server_address[0]), int(server.server_address[1])

    def __repr__(self) -> str:
        return f"<http_post at {self.url}>"

    @property
    def url(self) -> str:
        """Where to send to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        if self._taken:
            raise BuildError(
                f"input {source.name!r}: {self.made_by} is read by one run only; make a new one"
            )
        parser = MessageParser(source, self._options, self.made_by)
        self._taken = True
        return self._read(source, parser, chunk_rows, stop)

    def close(self) -> None:
        self._taken = True
        self._server.server_close()

    def _read(self, source: Source, parser: MessageParser, chunk_rows: int, stop: Stop) -> Feed:
        server, buffer = self._server, Handover(self._capacity, LINGER_S)
        server.taking = _Taking(source, parser, buffer)
        thread = threading.Thread(
            target=server.serve_forever, args=[0.05], name=f"source-{source.name}", daemon=True
        )
        thread.start()
        try:
            while fed := buffer.take(chunk_rows, stop):
                chunk = Chunk.concat([one for one, _ in fed])
                yield from cut_fed((chunk, [row for _, bad in fed for row in bad]), chunk_rows)
        finally:
            buffer.close()
            server.shutdown()
            thread.join()
            self.close()
            tell_left(source, buffer)


@known_keywords_and(*MESSAGE_OPTIONS)
def http_post(
    *,
    port: int,
    host: str = "127.0.0.1",
    token: str | None = None,
    max_bytes: int = MAX_BYTES,
    capacity: int = CAPACITY,
    **options: Any,
) -> HttpPostSource:
    """Listens for POSTs of JSON as the input of a source, for :func:`run` and :func:`start`.

    A POST has a JSON object a line, or an array of them. It is answered with 200 once all its rows are in the buffer,
    with 503 while that is full, with 400 if a row does not fit; then none of them is. Under ``errors="reject"`` rows
    that do not fit are taken and rejected. Rows in the buffer are lost if the process ends: at most once. One with
    the header ``Idempotency-Key`` that comes again, since its answer was lost, is not taken twice.

    Args:
        port: 0 is any that is free; see the source's ``port`` and ``url``.
        host: the address of this machine at which it listens; only this machine reaches the one it has by default.
        token: what senders must give as ``Authorization: Bearer TOKEN``.
        max_bytes: that a POST may have at most; larger ones are answered with 413.
        capacity: rows that may wait in the buffer.
        options: of JSON, as for files: ``epoch_unit``, ``timestamp_formats``, ``nanoseconds``.

    Raises:
        BuildError: an argument does not fit, or the address cannot be listened at.
    """
    check_address("http_post", host, port, any_port=True)
    require_optional_text("http_post", token=token)
    require_rows("http_post", max_bytes=max_bytes, capacity=capacity)
    made = message_options("http_post", {}, **options)
    try:
        server = _PostServer((host, port), _PostHandler)
    except OSError as error:
        raise BuildError(
            f"http_post: cannot listen at {host}:{port}: {problem_of(error)}"
        ) from error
    server.token, server.max_bytes = token, max_bytes
    return HttpPostSource(server, made, capacity)
