"""``tw.mqtt``: the messages of topics as they come from an MQTT broker."""

from __future__ import annotations

import datetime
import itertools
import logging
from typing import Any, Final

from thalweg.checks import (
    known_keywords_and,
    refuse,
    require_flag,
    require_optional_text,
    require_rows,
    require_text,
)
from thalweg.connectors.contracts import POLL_S, Stop
from thalweg.connectors.in_process.handover import Handover
from thalweg.connectors.live.buffering import CAPACITY, LiveClient, LiveMessage, LiveSource
from thalweg.connectors.messages import MESSAGE_OPTIONS, Decode, ValueFormat, message_options
from thalweg.connectors.tcp.sockets import check_address
from thalweg.connectors.waiting import PeerWait, patience_of
from thalweg.errors import BuildError, EnvironmentProblem, missing_package

_LOG: Final = logging.getLogger("thalweg")
#: MQTT's own number for a subscription that is refused, and above.
_REFUSED: Final = 128


class MqttSource(LiveSource):
    """The input of one run, from a broker; made by :func:`mqtt`."""

    made_by = "tw.mqtt(...)"

    def __init__(self, settings: dict[str, Any], *given: Any) -> None:
        super().__init__(
            f"mqtt://{settings['host']}:{settings['port']}/{settings['topic']}", *given
        )
        self._settings = settings

    def client(self) -> LiveClient:
        _library()
        return _MqttClient(**self._settings)


def _library() -> Any:
    """The module paho.mqtt.client.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import paho.mqtt.client
    except ImportError:
        raise missing_package("MQTT needs", "paho-mqtt", "mqtt") from None
    return paho.mqtt.client


class _MqttClient:
    """Receives, acknowledges what is in the buffer, and connects again."""

    def __init__(
        self, host: str, port: int, topic: str, qos: int, client_id: str | None,
        username: str | None, password: str | None, tls: bool, patience_s: float,
    ) -> None:  # fmt: skip
        self._host, self._port, self._topic, self._qos = host, port, topic, qos
        self._patience_s = patience_s
        self._numbers = itertools.count(1)
        self._buffer: Handover | None = None
        self._refused = ""
        #: whether the connection that there was last was one
        self._worked = False
        self._losses = 0
        self._lasts = client_id is not None
        module = _library()
        # A name of one's own lets the broker keep messages of QoS 1 and 2 while one is away.
        self._client = module.Client(
            module.CallbackAPIVersion.VERSION2,
            client_id=client_id or "",
            clean_session=not self._lasts,
            manual_ack=True,
        )
        self._client.on_connect, self._client.on_message = self._connected, self._arrived
        self._client.on_subscribe = self._subscribed
        if username is not None:
            self._client.username_pw_set(username, password)
        if tls:
            self._client.tls_set()

    def receive(self, into: Handover, stop: Stop) -> None:
        self._buffer = into
        wait = PeerWait(f"MQTT at {self._host}:{self._port}", self._patience_s, stop)
        while not stop.is_set():
            self._worked = False
            try:
                self._client.connect(self._host, self._port)
                said = self._loop(wait, stop)
            except OSError as error:
                said = str(error)
            if self._refused:
                raise EnvironmentProblem(
                    f"MQTT at {self._host}:{self._port}, topic {self._topic!r}: {self._refused}"
                )
            if stop.is_set():
                break
            if self._worked:
                self._tell_lost()
            wait.failed(said)
        self._client.disconnect()
        self._client.loop(POLL_S)

    def _loop(self, wait: PeerWait, stop: Stop) -> str:
        """Receives until the connection ends; why it did."""
        module = _library()
        while not stop.is_set():
            code = self._client.loop(POLL_S)
            if code != module.MQTT_ERR_SUCCESS:
                return str(module.error_string(code))
            if self._refused:
                return self._refused
            if self._client.is_connected():
                self._worked = True
                wait.worked()
        return ""

    def _tell_lost(self) -> None:
        if self._lasts and self._qos:
            return
        self._losses += 1
        _LOG.warning(
            "MQTT at %s:%d: connection lost, the %d. time; what is sent until the next one is lost",
            self._host, self._port, self._losses,
        )  # fmt: skip

    def _connected(self, client: Any, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._refused = str(reason)
            return
        client.subscribe(self._topic, self._qos)

    def _subscribed(self, client: Any, _: Any, mid: int, reasons: Any, properties: Any) -> None:
        if any(one.value >= _REFUSED for one in reasons):
            self._refused = "the broker refuses the subscription"

    def _arrived(self, client: Any, _: Any, message: Any) -> None:
        """Waits for room: the broker then sends no more than it may have under way."""
        if self._buffer is None:
            return
        made = LiveMessage(message.payload, next(self._numbers), message.topic)
        if self._buffer.put(made):
            client.ack(message.mid, message.qos)


@known_keywords_and(*MESSAGE_OPTIONS)
def mqtt(
    host: str,
    topic: str,
    *,
    port: int = 1883,
    qos: int = 1,
    client_id: str | None = None,
    username: str | None = None,
    password: str | None = None,
    tls: bool = False,
    format: ValueFormat = "json",
    decode: Decode | None = None,
    topic_field: str | None = None,
    capacity: int = CAPACITY,
    patience: str | int | datetime.timedelta = "1 minute",
    **options: Any,
) -> MqttSource:
    """Receives topics of an MQTT broker as the input of a source, for :func:`run` and :func:`start`.

    Needs the package paho-mqtt (``pip install 'thalweg[mqtt]'``). A message is acknowledged once it is in the buffer;
    a full buffer makes the broker wait. With QoS 0 messages come at most once; with QoS 1 at least once while the
    connection lasts, and over its losses where ``client_id`` names a session that the broker keeps. What is in the
    buffer when the process ends is lost.

    Args:
        host: of the broker, also ``"host:port"``.
        topic: the topic, or a filter with ``+`` and ``#``.
        port: of the broker.
        qos: of the subscription: 0, 1 or 2.
        client_id: names a session that the broker keeps while nobody is there; one run at a time uses it.
        username: for the broker.
        password: for the broker; shown nowhere.
        tls: whether the connection is encrypted.
        format: of the values: ``"json"``, ``"text"`` or ``"bytes"``.
        decode: a function from the value's bytes to a row, in place of a format.
        topic_field: the record's field for the message's topic, a str.
        capacity: messages that may wait in the buffer.
        patience: how long a broker that does not answer is waited for.
        options: of JSON, as for files: ``epoch_unit``, ``timestamp_formats``, ``nanoseconds``.

    Raises:
        BuildError: an argument cannot be meant.
    """
    if isinstance(host, str) and host.count(":") == 1 and host.partition(":")[2].isdecimal():
        host, _, text = host.partition(":")
        port = int(text)
    check_address("mqtt", host, port)
    require_text("mqtt", topic=topic)
    require_optional_text("mqtt", client_id=client_id, username=username)
    require_flag("mqtt", tls=tls)
    if password is not None and (not isinstance(password, str) or not password):
        raise BuildError("mqtt: password: expected a text that is not empty, or None")
    if qos not in (0, 1, 2) or isinstance(qos, bool):
        raise refuse("mqtt", "qos", "0, 1 or 2", qos)
    require_rows("mqtt", capacity=capacity)
    made = message_options(
        "mqtt", {"topic_field": topic_field}, format=format, decode=decode, **options
    )
    settings = {
        "host": host, "port": port, "topic": topic, "qos": qos, "client_id": client_id, "username": username,
        "password": password, "tls": tls, "patience_s": patience_of("mqtt", patience),
    }  # fmt: skip
    return MqttSource(settings, made, capacity)
