"""What the tests of sources and sinks share: a small flow's nodes, a stop that comes by itself, a peer."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any, NamedTuple

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.connectors.contracts import Feed
from thalweg.flow.operators.nodes import Sink, Source
from thalweg.plan.plan import make_plan


class Pair(NamedTuple):
    a: int
    b: str


class StopAfter:
    """A stop that is set once it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


def nodes(record: type = Pair, **options: Any) -> tuple[Source, Sink]:
    """The source ``pairs`` and the sink ``out`` of a flow that does nothing."""
    flow = tw.Flow("test")
    flow.source("pairs", record, **options).sink("out")
    plan = make_plan(flow)
    return plan.sources[0], plan.sinks[0]


def source_node(record: type = Pair, **options: Any) -> Source:
    return nodes(record, **options)[0]


def sink_node(record: type = Pair) -> Sink:
    return nodes(record)[1]


def rows_of(feed: Feed) -> list[Any]:
    return [row for chunk, _ in feed for row in chunk.rows()]


def bad_of(feed: Feed) -> list[tuple[str, str, str]]:
    return [row for _, bad in feed for row in bad]


def chunk_of(rows: Iterable[Any], record: type = Pair) -> Chunk:
    schema = sink_node(record).record
    return Chunk.from_rows(schema, [schema.coerce(row) for row in rows])


def listener() -> socket.socket:
    """A peer that can be connected to, at a free port."""
    return socket.create_server(("127.0.0.1", 0))


def port_of(one: socket.socket) -> int:
    return int(one.getsockname()[1])


def send(port: int, data: bytes) -> None:
    """Connects, sends and closes; what is sent lies with the receiver when this returns."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(data)


def received(connection: socket.socket) -> bytes:
    """All that a peer sends until it closes."""
    out = b""
    while piece := connection.recv(1 << 16):
        out += piece
    return out
