"""Lines for a TCP peer: what it gets, how it is waited for, and how it learns of an end."""

from __future__ import annotations

import threading
from typing import NamedTuple

import pytest
from io_kit import Pair, chunk_of, listener, nodes, port_of, received, rows_of, sink_node

import thalweg as tw
from thalweg.connectors import never

ROWS = [Pair(n, "abc"[n % 3]) for n in range(10)]


class Wide(NamedTuple):
    text: str


@pytest.mark.parametrize(("format", "line"), [("json", b'{"a":1,"b":"b"}\n'), ("csv", b'1,"b"\n')])
def test_a_line_a_row(format: str, line: bytes) -> None:
    """The peer gets all rows in order, one a line, and then the end."""
    with listener() as peer:
        sink = tw.to_tcp("127.0.0.1", port_of(peer), format)  # type: ignore[arg-type]
        sink.open(sink_node())
        connection, _ = peer.accept()
        with connection:
            sink.write(chunk_of(ROWS[:5]))
            sink.write(chunk_of(ROWS[5:]))
            sink.close(failed=False)
            sink.close(failed=False)
            lines = received(connection)
    assert lines.splitlines(keepends=True)[1] == line
    assert lines.count(b"\n") == 10


@pytest.mark.parametrize("format", ["json", "csv"])
def test_from_run_to_run(format: str) -> None:
    """What one run sends, another one receives: the same rows."""
    source = tw.tcp_lines("127.0.0.1", 0, format, listen=True)  # type: ignore[arg-type]
    flow = tw.Flow("sender")
    flow.source("pairs", Pair).sink("out")
    tw.run(
        flow, {"pairs": ROWS}, {"out": tw.to_tcp("127.0.0.1", source.port, format)}, chunk_rows=3
    )  # type: ignore[arg-type]
    assert rows_of(source.rows(nodes()[0], 4, never())) == ROWS
    source.close()


def test_a_failed_run_resets_the_connection() -> None:
    """The peer of a run that failed sees no end but a broken connection."""
    with listener() as peer:
        sink = tw.to_tcp("127.0.0.1", port_of(peer), "json")
        sink.open(sink_node())
        connection, _ = peer.accept()
        with connection:
            sink.write(chunk_of(ROWS))
            sink.close(failed=True)
            with pytest.raises(ConnectionResetError):
                received(connection)
    with pytest.raises(tw.BuildError, match="sink 'out': the connection is closed"):
        sink.write(chunk_of(ROWS))


def test_giving_up_on_a_peer_that_does_not_read() -> None:
    """A write waits for its peer; closing as failed from another thread ends it with an error."""
    errors: list[BaseException] = []
    with listener() as peer:
        sink = tw.to_tcp("127.0.0.1", port_of(peer), "json")
        sink.open(sink_node(Wide))
        chunk = chunk_of([Wide("x" * (1 << 25))], Wide)

        def write() -> None:
            try:
                sink.write(chunk)
            except tw.EnvironmentProblem as error:
                errors.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        connection, _ = peer.accept()
        with connection:
            connection.recv(1)  # the write has begun, and no socket holds all of it
            sink.close(failed=True)
            thread.join()
    assert "the connection broke: the run has failed" in str(errors[0])


def test_a_peer_that_leaves() -> None:
    """A peer that closes while rows are left ends the run with the sink's name and the address."""
    with listener() as peer:
        port = port_of(peer)
        sink = tw.to_tcp("127.0.0.1", port, "json")
        sink.open(sink_node(Wide))
        peer.accept()[0].close()
        with pytest.raises(
            tw.EnvironmentProblem, match=f"sink 'out': 127.0.0.1:{port}: the connection broke"
        ):
            sink.write(chunk_of([Wide("x" * (1 << 25))], Wide))
        sink.close(failed=True)


def test_no_peer() -> None:
    """Nobody there is told before the run reads anything."""
    with listener() as peer:
        port = port_of(peer)
    with pytest.raises(
        tw.EnvironmentProblem, match=f"sink 'out': 127.0.0.1:{port}: cannot connect"
    ):
        tw.to_tcp("127.0.0.1", port, "csv").open(sink_node())


def test_lines_that_would_be_several() -> None:
    """CSV refuses a text with a line end, which the line's reader could not put together; JSON writes it."""
    rows = [Wide("one\ntwo")]
    with listener() as peer:
        for format in ("csv", "json"):
            sink = tw.to_tcp("127.0.0.1", port_of(peer), format)  # type: ignore[arg-type]
            sink.open(sink_node(Wide))
            connection, _ = peer.accept()
            with connection:
                if format == "csv":
                    with pytest.raises(tw.DataError, match="sink 'out': a text with a line end"):
                        sink.write(chunk_of(rows, Wide))
                else:
                    sink.write(chunk_of(rows, Wide))
                sink.close(failed=False)
                assert received(connection) == (
                    b"" if format == "csv" else b'{"text":"one\\ntwo"}\n'
                )


def test_arguments() -> None:
    """A format and an address that cannot be are refused at once; a record when the run begins."""
    with pytest.raises(
        tw.BuildError, match="to_tcp: format: expected one of json, csv, got 'parquet'"
    ):
        tw.to_tcp("here", 1, "parquet")  # type: ignore[arg-type]
    with pytest.raises(tw.BuildError, match="to_tcp: port is a number from 1 to 65535, not 0"):
        tw.to_tcp("here", 0, "csv")

    class Raw(NamedTuple):
        data: bytes

    with pytest.raises(
        tw.SchemaError, match="sink 'out': JSON cannot hold data: bytes; use Parquet"
    ):
        tw.to_tcp("here", 1, "json").open(sink_node(Raw))
