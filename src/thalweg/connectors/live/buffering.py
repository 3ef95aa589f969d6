"""Messages that come when they come: a client's thread fills a bounded buffer, the run reads them from there."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from thalweg.connectors.contracts import LINGER_S, Feed, Stop
from thalweg.connectors.in_process.handover import Handover
from thalweg.connectors.messages import MessageOptions, MessageParser
from thalweg.connectors.waiting import WaitEnded
from thalweg.errors import BuildError
from thalweg.flow.operators.nodes import Source

_LOG: Final = logging.getLogger("thalweg")
#: Rows that may wait in the buffer, where the description does not say.
CAPACITY: Final = 65_536
#: How long the client's thread may take to end, seconds.
_END_S: Final = 5.0


class LiveMessage(NamedTuple):
    """A message, with what stands beside it."""

    value: bytes
    #: its number, from 1 on
    number: int
    topic: str = ""


class LiveClient(Protocol):
    """What receives messages, in a thread of its own."""

    def receive(self, into: Handover, stop: Stop) -> None:
        """Puts messages into the buffer until ``stop`` is set, over all reconnections.

        Raises:
            ThalwegError: it cannot go on.
        """


class LiveSource:
    """The input of one run, by a client that gives each message once."""

    live = True
    made_by = "a live source"

    def __init__(self, place: str, options: MessageOptions, capacity: int) -> None:
        self._place, self._options, self._capacity = place, options, capacity
        self._taken = False

    def __repr__(self) -> str:
        return f"<{self.made_by.removesuffix('(...)')} at {self._place}>"

    def client(self) -> LiveClient:
        """What receives the messages."""
        raise NotImplementedError

    def rows(self, source: Source, chunk_rows: int, stop: Stop) -> Feed:
        if self._taken:
            raise BuildError(
                f"input {source.name!r}: {self.made_by} is read by one run only; make a new one"
            )
        parser = MessageParser(source, self._options, self.made_by)
        client = self.client()
        self._taken = True
        return self._read(source, parser, client, chunk_rows, stop)

    def close(self) -> None:
        pass  # the iterator of rows ends the client

    def _read(
        self, source: Source, parser: MessageParser, client: LiveClient, chunk_rows: int, stop: Stop
    ) -> Feed:
        buffer, over = Handover(self._capacity, LINGER_S), threading.Event()
        thread = threading.Thread(
            target=_receive, args=(client, buffer, over), name=f"source-{source.name}", daemon=True
        )
        thread.start()
        try:
            while messages := buffer.take(chunk_rows, stop):
                beside = {"topic_field": [one.topic for one in messages]}
                yield parser.parse([one.value for one in messages], beside, _place_in(messages))
        finally:
            over.set()
            buffer.close()
            thread.join(_END_S)
            tell_left(source, buffer)


def _place_in(messages: list[LiveMessage]) -> Any:
    def place(row: int) -> str:
        of = f" of topic {messages[row].topic!r}" if messages[row].topic else ""
        return f"message {messages[row].number}{of}"

    return place


def _receive(client: LiveClient, buffer: Handover, over: Stop) -> None:
    try:
        client.receive(buffer, over)
    except WaitEnded:
        pass
    except BaseException as error:
        buffer.fail(error)
    finally:
        buffer.close()


def tell_left(source: Source, buffer: Handover) -> None:
    """Says how many rows had come and were not read, as the run is over."""
    if left := buffer.waiting_rows:
        _LOG.warning(
            "source %r: %d rows had come and were not read: the run is over", source.name, left
        )


def header_pairs(verb: str, headers: Any) -> tuple[tuple[str, str], ...]:
    """A verb's ``headers=`` as pairs; what came is not shown, as it may be secret.

    Raises:
        BuildError: they are no dict of texts.
    """
    given = {} if headers is None else headers
    if not isinstance(given, Mapping) or not all(
        isinstance(one, str) for pair in given.items() for one in pair
    ):
        raise BuildError(f"{verb}: headers: expected a dict of texts by name")
    return tuple(given.items())


def values_in(body: bytes) -> list[bytes]:
    """The JSON values of a text: the items of an array, or one a line.

    Raises:
        ValueError: it begins an array and is none.
    """
    if not body.lstrip().startswith(b"["):
        return [line for line in body.split(b"\n") if line and not line.isspace()]
    text = body.decode("utf-8")
    return [item.encode() for item in _items(text, text.index("[") + 1)]


def _items(text: str, at: int) -> Iterator[str]:
    """The texts of an array's items, as they stand there."""
    decode, space = json.JSONDecoder().raw_decode, json.decoder.WHITESPACE.match  # type: ignore[attr-defined]
    at = space(text, at).end()
    ended = text[at : at + 1] == "]"
    while not ended:
        _, end = decode(text, at)
        yield text[at:end]
        at = space(text, end).end()
        mark = text[at : at + 1]
        if mark not in ("]", ","):
            raise ValueError(f"expected a comma or the end of the array at character {at}")
        ended = mark == "]"
        at = at if ended else space(text, at + 1).end()
    if text[at + 1 :].strip():
        raise ValueError(f"more stands behind the array, at character {at + 1}")
