"""A TCP connection as the output of a sink: a line a row."""

from __future__ import annotations

import socket
import threading
from typing import get_args

from thalweg.checks import known_keywords, one_of
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import RowSink
from thalweg.connectors.tcp.sockets import check_address, connect, problem_of, reset
from thalweg.connectors.written.encode import Encoder, LineFormat, encoder
from thalweg.errors import BuildError, DataError, EnvironmentProblem
from thalweg.flow.operators.nodes import Sink


class TcpSink(RowSink):
    """The rows of a sink as lines for one peer, which is waited for; made by :func:`to_tcp`."""

    made_by = "tw.to_tcp(...)"

    def __init__(self, host: str, port: int, format: LineFormat) -> None:
        self._host, self._port = host, port
        self._format: LineFormat = format
        self._lock = threading.Lock()
        self._given_up = False
        self._name = ""
        self._encode: Encoder | None = None
        self._connection: socket.socket | None = None

    def __repr__(self) -> str:
        return f"to_tcp({self._host!r}, {self._port}, {self._format!r})"

    def open(self, sink: Sink) -> None:
        self._name, self._given_up = sink.name, False
        self._encode = encoder(self._format, sink.record, f"sink {sink.name!r}")
        try:
            self._connection = connect(self._host, self._port, lambda: self._given_up)
        except OSError as error:
            raise self._problem("cannot connect", error) from error

    def write(self, chunk: Chunk) -> None:
        with self._lock:
            if self._connection is None or self._encode is None:
                raise BuildError(f"sink {self._name!r}: the connection is closed")
            try:
                self._send(self._connection, self._lines(self._encode, chunk))
            except OSError as error:
                raise self._problem("the connection broke", error) from error

    def close(self, *, failed: bool) -> None:
        self._given_up = failed  # ends a write that holds the lock
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            if failed:
                reset(connection)
                return
            with connection:
                try:
                    connection.shutdown(socket.SHUT_WR)
                except OSError as error:
                    raise self._problem("the connection broke", error) from error

    def _lines(self, encode: Encoder, chunk: Chunk) -> bytes:
        try:
            lines = encode(chunk)
        except DataError as error:
            raise DataError(f"sink {self._name!r}: {error}") from None
        if lines.count(b"\n") != len(chunk):
            raise DataError(
                f"sink {self._name!r}: a text with a line end cannot travel in a line of CSV; use format='json'"
            )
        return lines

    def _send(self, connection: socket.socket, lines: bytes) -> None:
        rest = memoryview(lines)
        while rest:
            if self._given_up:
                raise ConnectionAbortedError("the run has failed")
            try:
                rest = rest[connection.send(rest) :]
            except TimeoutError:
                continue

    def _problem(self, what: str, error: OSError) -> EnvironmentProblem:
        return EnvironmentProblem(
            f"sink {self._name!r}: {self._host}:{self._port}: {what}: {problem_of(error)}"
        )


@known_keywords
def to_tcp(host: str, port: int, format: LineFormat) -> TcpSink:
    """Sends a sink's rows, in order, over TCP: JSON objects or CSV without a header, one on each line.

    The run waits for a peer that reads slowly. At the end the connection is closed; if the run fails it is reset, so
    that the peer does not take what it has for the whole.

    Raises:
        BuildError: an argument does not fit.
    """
    check_address("to_tcp", host, port)
    format = one_of("to_tcp", "format", format, get_args(LineFormat))
    return TcpSink(host, port, format)
