"""``tw.websocket``: the messages of a WebSocket as they come."""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from thalweg.checks import known_keywords_and, refuse, require_rows, require_text
from thalweg.connectors.contracts import POLL_S, Stop
from thalweg.connectors.in_process.handover import Handover
from thalweg.connectors.live.buffering import (
    CAPACITY,
    LiveClient,
    LiveMessage,
    LiveSource,
    header_pairs,
    values_in,
)
from thalweg.connectors.messages import MESSAGE_OPTIONS, Decode, ValueFormat, message_options
from thalweg.connectors.waiting import PeerWait, patience_of
from thalweg.errors import BuildError, DataError, EnvironmentProblem, missing_package

_LOG: Final = logging.getLogger("thalweg")
_CONNECT_S: Final = 10.0


class WebSocketSource(LiveSource):
    """The input of one run, from a server; made by :func:`websocket`."""

    made_by = "tw.websocket(...)"

    def __init__(self, settings: dict[str, Any], *given: Any) -> None:
        super().__init__(_shown_url(settings["url"]), *given)
        self._settings = settings

    def client(self) -> LiveClient:
        _library()
        return _WebSocketClient(**self._settings)


def _shown_url(url: str) -> str:
    """The address without user, password and what stands behind ``?``."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _library() -> Any:
    """The package websockets.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import websockets.sync.client
    except ImportError:
        raise missing_package("WebSockets need", "websockets", "websocket") from None
    return websockets


class _WebSocketClient:
    """Receives, and connects again."""

    def __init__(
        self, url: str, send: tuple[str, ...], headers: tuple[tuple[str, str], ...], max_bytes: int,
        split: bool, patience_s: float,
    ) -> None:  # fmt: skip
        self._url, self._send, self._headers = url, send, headers
        self._max_bytes, self._split, self._patience_s = max_bytes, split, patience_s
        self._place = f"WebSocket at {_shown_url(url)}"
        self._numbers = itertools.count(1)
        self._losses = 0

    def receive(self, into: Handover, stop: Stop) -> None:
        package = _library()
        wait = PeerWait(self._place, self._patience_s, stop)
        while not stop.is_set():
            try:
                with package.sync.client.connect(
                    self._url,
                    additional_headers=dict(self._headers),
                    open_timeout=_CONNECT_S,
                    close_timeout=POLL_S,
                    max_size=self._max_bytes,
                ) as connection:
                    for text in self._send:
                        connection.send(text)
                    wait.worked()
                    said = self._messages(connection, into, stop)
                    self._tell_lost(said, stop)
            except package.exceptions.InvalidStatus as error:
                if error.response.status_code < 500:
                    raise EnvironmentProblem(f"{self._place}: {error}") from None
                said = str(error)
            except (OSError, package.exceptions.WebSocketException) as error:
                said = str(error) or type(error).__name__
            if not stop.is_set():
                wait.failed(said)

    def _tell_lost(self, said: str, stop: Stop) -> None:
        if stop.is_set():
            return
        self._losses += 1
        _LOG.warning(
            "%s: connection lost, the %d. time (%s); what is sent until the next one is lost",
            self._place, self._losses, said,
        )  # fmt: skip

    def _messages(self, connection: Any, into: Handover, stop: Stop) -> str:
        """Receives until the connection ends; why it did."""
        while not stop.is_set():
            try:
                message = connection.recv(timeout=POLL_S)
            except TimeoutError:
                continue
            except _library().exceptions.ConnectionClosed as error:
                return str(error)
            value, number = (
                message.encode() if isinstance(message, str) else message,
                next(self._numbers),
            )
            for one in self._values(value, number):
                # While this waits for room, the server's messages stay on their way.
                if not into.put(LiveMessage(one, number)):
                    return ""
        return ""

    def _values(self, value: bytes, number: int) -> list[bytes]:
        if not self._split or not value.lstrip().startswith(b"["):
            return [value]
        try:
            return values_in(value)
        except ValueError as error:
            raise DataError(
                f"{self._place}: message {number} is no array of JSON: {error}"
            ) from None


@known_keywords_and(*MESSAGE_OPTIONS)
def websocket(
    url: str,
    *,
    send: str | Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    format: ValueFormat = "json",
    decode: Decode | None = None,
    max_bytes: int = 16 << 20,
    capacity: int = CAPACITY,
    patience: str | int | datetime.timedelta = "1 minute",
    **options: Any,
) -> WebSocketSource:
    """Receives the messages of a WebSocket as the input of a source, for :func:`run` and :func:`start`.

    Needs the package websockets (``pip install 'thalweg[websocket]'``). A message is a row; one that is an array of
    JSON is a row an item. Messages come at most once: what is sent while the connection is lost is lost, and said. A
    full buffer makes the server wait.

    Args:
        url: ``ws://…`` or ``wss://…``; what stands behind ``?`` is shown nowhere.
        send: messages to send after each connecting, such as a subscription.
        headers: of the request, such as ``{"Authorization": "Bearer …"}``; never shown.
        format: of the messages: ``"json"``, ``"text"`` or ``"bytes"``.
        decode: a function from a message's bytes to a row, in place of a format.
        max_bytes: that a message may have.
        capacity: rows that may wait in the buffer.
        patience: how long a server that does not answer is waited for.
        options: of JSON, as for files: ``epoch_unit``, ``timestamp_formats``, ``nanoseconds``.

    Raises:
        BuildError: an argument cannot be meant.
    """
    require_text("websocket", url=url)
    if urlsplit(url).scheme not in ("ws", "wss"):
        raise BuildError("websocket: url: expected ws://HOST/… or wss://HOST/…")
    texts = (send,) if isinstance(send, str) else send
    if not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
        raise refuse("websocket", "send", "a text, or several", send)
    require_rows("websocket", max_bytes=max_bytes, capacity=capacity)
    made = message_options("websocket", {}, format=format, decode=decode, **options)
    settings = {
        "url": url, "send": tuple(texts), "headers": header_pairs("websocket", headers), "max_bytes": max_bytes,
        "split": format == "json" and decode is None, "patience_s": patience_of("websocket", patience),
    }  # fmt: skip
    return WebSocketSource(settings, made, capacity)
