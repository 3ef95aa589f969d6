"""Lines from TCP connections: numbers, ends of every kind, reconnecting."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from io_kit import Pair, StopAfter, rows_of, send, source_node

import thalweg as tw
from thalweg.connectors import never


def test_tcp_lines_that_do_not_fit() -> None:
    """They are rejected with their numbers: what does not parse, is too long, or is cut off at the end."""
    source = tw.tcp_lines("127.0.0.1", 0, "csv", listen=True, max_line_bytes=10)
    send(source.port, b"1,x\nno,y\n\n2," + b"z" * 50 + b'\n3,"q\n4,w\n5,c')
    feed = list(source.rows(source_node(errors="reject"), 100, never()))
    source.close()
    assert [row.a for chunk, _ in feed for row in chunk.rows()] == [1, 4]
    bad = [(place, reason) for _, rows in feed for reason, place, _ in rows]
    assert [place for place, _ in bad] == ["line 2", "line 4", "line 5", "line 7"]
    assert bad[1][1] == "longer than 10 bytes"
    assert bad[3][1] == "cut off: the connection ended before the line did"


def test_tcp_fail() -> None:
    """Under errors="fail" the first of them ends the run."""
    source = tw.tcp_lines("127.0.0.1", 0, "json", listen=True)
    send(source.port, b'{"a": 1, "b": "x"}\n{"a": 2\n')
    with pytest.raises(tw.DataError, match="source 'pairs': line 2 does not fit Pair: not JSON"):
        list(source.rows(source_node(), 100, never()))
    source.close()


def test_tcp_rows_are_not_held_back() -> None:
    """A line comes out as soon as it is there, while the connection stays open."""
    source = tw.tcp_lines("127.0.0.1", 0, "csv", listen=True)
    feed = source.rows(source_node(), 100, never())
    with socket.create_connection(("127.0.0.1", source.port)) as peer:
        peer.sendall(b"1,x\n2,")
        assert rows_of(iter([next(feed)])) == [Pair(1, "x")]  # type: ignore[arg-type]
        peer.sendall(b"y\n")
        assert rows_of(iter([next(feed)])) == [Pair(2, "y")]  # type: ignore[arg-type]
    assert rows_of(feed) == []
    source.close()


def test_tcp_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """It connects to a peer; with reconnect to the next one, and lines are counted on."""
    monkeypatch.setattr("thalweg.connectors.tcp.source.RETRY_S", (0.0, 0.0))
    texts = [b"1,x\n2", b"3,y\nno\n", b"4,z\n"]

    def serve(peer: socket.socket) -> None:
        with peer:
            for text in texts:
                connection, _ = peer.accept()
                with connection:
                    connection.sendall(text)

    peer = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, args=(peer,))
    thread.start()
    stop = threading.Event()
    source = tw.tcp_lines("127.0.0.1", peer.getsockname()[1], "csv", reconnect=True)
    rows, places = [], []
    for chunk, bad in source.rows(source_node(errors="reject"), 100, stop):
        rows += [row.a for row in chunk.rows()]
        places += [place for _, place, _ in bad]
        if 4 in rows:
            stop.set()
    thread.join()
    assert rows == [1, 3, 4]
    assert places == ["line 2", "line 4"]


def test_tcp_listens_again() -> None:
    """With reconnect a listener takes one peer after the other."""
    source = tw.tcp_lines("127.0.0.1", 0, "csv", listen=True, reconnect=True)
    send(source.port, b"1,x\n")
    send(source.port, b"2,y\n")
    stop = threading.Event()
    rows = []
    for chunk, _ in source.rows(source_node(), 100, stop):
        rows += chunk.rows()
        if len(rows) == 2:
            stop.set()
    source.close()
    assert rows == [Pair(1, "x"), Pair(2, "y")]


def test_tcp_without_a_peer() -> None:
    """Nobody there is an error that says what to do; with reconnect it is waited for, until the stop."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    source = tw.tcp_lines("127.0.0.1", port, "csv")
    with pytest.raises(
        tw.EnvironmentProblem,
        match=f"(?s)source 'pairs': cannot connect to 127.0.0.1:{port}: .*reconnect=True",
    ):
        list(source.rows(source_node(), 10, never()))
    waiting = tw.tcp_lines("127.0.0.1", port, "csv", reconnect=True)
    assert list(waiting.rows(source_node(), 10, StopAfter(9))) == []


def test_tcp_that_breaks() -> None:
    """A connection that is reset is not an end: what came is given, then the error tells how far it was."""
    source = tw.tcp_lines("127.0.0.1", 0, "csv", listen=True)
    feed = source.rows(source_node(), 100, never())
    peer = socket.create_connection(("127.0.0.1", source.port))
    peer.sendall(b"1,x\n")
    assert next(feed)[0].rows() == [Pair(1, "x")]
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    with pytest.raises(
        tw.DataError, match=r"source 'pairs': the connection with .* broke before line 2"
    ):
        next(feed)
    source.close()


def test_tcp_arguments() -> None:
    """What cannot work is refused when the source is made, or when the run begins."""
    for wrong, message in (
        (("", 1, "csv"), "host is a name"),
        (("here", 0, "csv"), "port is a number from 1 to 65535, not 0"),
        (("here", "1", "csv"), "port is a number"),
        (("here", 1, "parquet"), "format: expected one of csv, json, text, got 'parquet'"),
    ):
        with pytest.raises(tw.BuildError, match=message):
            tw.tcp_lines(*wrong)  # type: ignore[arg-type]
    with pytest.raises(tw.BuildError, match="max_line_bytes: expected a whole number from 1 on"):
        tw.tcp_lines("here", 1, "csv", max_line_bytes=0)
    with pytest.raises(tw.BuildError, match="there is no option 'sep'"):
        tw.tcp_lines("here", 1, "csv", sep=";")
    with pytest.raises(tw.SchemaError, match=r"input 'pairs': here:1: .* has no field line"):
        tw.tcp_lines("here", 1, "text").rows(source_node(), 1, never())
    source = tw.tcp_lines("127.0.0.1", 0, "csv", listen=True)
    with pytest.raises(tw.BuildError, match=f"tcp_lines: cannot listen at 127.0.0.1:{source.port}"):
        tw.tcp_lines("127.0.0.1", source.port, "csv", listen=True)
    source.close()
    with pytest.raises(tw.BuildError, match="is closed"):
        source.rows(source_node(), 1, never())
