"""Lines from a TCP connection as the input of a source."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args

from thalweg.checks import one_of, require_flag, require_rows
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import Feed, Stop
from thalweg.connectors.fitting import kept, part_chunk
from thalweg.connectors.readers import LineCutter, LineParser, ReadOptions, read_options
from thalweg.connectors.readers.parsed import cut
from thalweg.connectors.readers.streams import Lines
from thalweg.connectors.tcp.sockets import accept, check_address, connect, listen_at, problem_of
from thalweg.errors import BuildError, DataError, EnvironmentProblem, SchemaError
from thalweg.flow.operators.nodes import Source

LineFormat = Literal["csv", "json", "text"]

#: At most so many bytes are read at a time.
RECEIVE_BYTES: Final = 1 << 20
#: A new try to connect comes after so many seconds, each time after twice as many, up to the second number.
RETRY_S: Final = (0.2, 5.0)


class TcpSource:
    """Lines that one peer sends, or with ``reconnect`` one peer after the other; made by :func:`tcp_lines`."""

    live = True
    made_by = "tw.tcp_lines(...)"

    def __init__(
        self,
        host: str,
        port: int,
        options: ReadOptions,
        *,
        listener: socket.socket | None,
        reconnect: bool,
        max_line_bytes: int,
    ) -> None:
        self.host = host
        #: The port that it connects to, or listens at.
        self.port: int = port if listener is None else listener.getsockname()[1]
        self._options = options
        self._listener = listener
        self._reconnect = reconnect
        self._limit = max_line_bytes
        self._closed = False

    def __repr__(self) -> str:
        return f"<tcp_lines at {self.where}, {self._options.format}>"

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        if self._closed:
            raise BuildError(f"input {source.name!r}: the source at {self.where} is closed")
        self._parser(source)
        return self._read(source, chunk_rows, stop)

    def close(self) -> None:
        self._closed = True
        if self._listener is not None:
            self._listener.close()

    def _parser(self, source: Source) -> LineParser:
        try:
            return LineParser(source.record, self._options, self.where, self._limit)
        except DataError as error:
            raise SchemaError(f"input {source.name!r}: {error}") from None

    def _read(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        cutter = LineCutter(self._limit)
        for connection in self._connections(source, stop):
            broken = None
            with connection:
                parser = self._parser(source)
                try:
                    for piece in _pieces(connection, stop):
                        yield from self._chunks(source, cutter.cut(piece), parser, chunk_rows)
                except OSError as error:
                    broken = problem_of(error)
            if stop.is_set():
                return
            yield from _cut_off(source, cutter)
            if broken and not self._reconnect:
                raise DataError(
                    f"source {source.name!r}: the connection with {self.where} broke before line {cutter.line}:"
                    f" {broken}\n  to wait for the next connection, set reconnect=True"
                )

    def _chunks(
        self, source: Source, blocks: list[Lines], parser: LineParser, chunk_rows: int
    ) -> Feed:
        for block in blocks:
            for parsed in parser.parse(block):
                for part in cut(parsed, chunk_rows):
                    yield part_chunk(source, part, unit="line")

    def _connections(self, source: Source, stop: Stop) -> Iterator[socket.socket]:
        delay, longest = RETRY_S
        while not stop.is_set():
            try:
                made = self._connection(stop)
            except OSError as error:
                if not self._reconnect:
                    raise EnvironmentProblem(
                        f"source {source.name!r}: cannot connect to {self.where}: {problem_of(error)}\n"
                        "  start the peer first, or set reconnect=True to wait for it"
                    ) from error
                stop.wait(delay)
                delay = min(2 * delay, longest)
                continue
            if made is None:
                return
            yield made
            if not self._reconnect:
                return
            delay = RETRY_S[0]
            if self._listener is None:
                stop.wait(delay)

    def _connection(self, stop: Stop) -> socket.socket | None:
        if self._listener is not None:
            return accept(self._listener, stop.is_set)
        return connect(self.host, self.port, stop.is_set)


def _pieces(connection: socket.socket, stop: Stop) -> Iterator[bytes]:
    while not stop.is_set():
        try:
            piece = connection.recv(RECEIVE_BYTES)
        except TimeoutError:
            continue
        if not piece:
            return
        yield piece


def _cut_off(source: Source, cutter: LineCutter) -> Feed:
    """The line whose end did not come: nobody knows whether the peer had more to say."""
    number, rest = cutter.line, cutter.end()
    if rest:
        text = rest[:300].decode("utf-8", "replace")
        reason = "cut off: the connection ended before the line did"
        yield Chunk.empty(source.record), kept(source, [(reason, f"line {number}", text)])


def tcp_lines(
    host: str,
    port: int,
    format: LineFormat,
    *,
    listen: bool = False,
    reconnect: bool = False,
    max_line_bytes: int = 1 << 20,
    **options: Any,
) -> TcpSource:
    """Reads records from a TCP connection, one on each line, as the input of a source.

    Lines are counted from 1, over all connections. What does not fit is rejected with its number: also a line that
    is too long, that has an open quote at its end, or whose end did not come before the connection's.

    Args:
        host: the peer to connect to; with ``listen`` the address of this machine at which a peer connects.
        port: its port; with ``listen`` 0 is any that is free, see the source's ``port``.
        format: ``"csv"``, ``"json"`` (a JSON value a line) or ``"text"``.
        listen: whether to wait for a peer instead of connecting to one.
        reconnect: whether the input goes on with another connection when one ends, until the run is stopped.
        max_line_bytes: a longer line does not fit.
        options: of the format, see :class:`thalweg.connectors.readers.ReadOptions`; CSV has no header unless
            ``header=True``, and then one a connection.

    Raises:
        BuildError: an argument does not fit, or the address cannot be listened at.
    """
    check_address("tcp_lines", host, port, any_port=listen is True)
    format = one_of("tcp_lines", "format", format, get_args(LineFormat))
    require_flag("tcp_lines", listen=listen, reconnect=reconnect)
    require_rows("tcp_lines", max_line_bytes=max_line_bytes)
    if format == "csv":
        options = {"header": False, **options}
    if "growing" in options:
        raise BuildError("tcp_lines: growing is an option of files")
    made = read_options("tcp_lines", format, options)
    return TcpSource(
        host,
        port,
        made,
        listener=_listener(host, port) if listen else None,
        reconnect=reconnect,
        max_line_bytes=max_line_bytes,
    )


def _listener(host: str, port: int) -> socket.socket:
    try:
        return listen_at(host, port)
    except OSError as error:
        raise BuildError(
            f"tcp_lines: cannot listen at {host}:{port}: {problem_of(error)}"
        ) from error
