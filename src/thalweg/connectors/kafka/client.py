"""Connections with Kafka by librdkafka: its settings, what its errors mean, and how long a broker is waited for."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from thalweg.checks import refuse, shown
from thalweg.connectors.contracts import Stop, never
from thalweg.connectors.waiting import patience_of
from thalweg.errors import BuildError, EnvironmentProblem, missing_package

Result = TypeVar("Result")

_LOG: Final = logging.getLogger("thalweg")
#: A call waits so long for an answer before it is made again, seconds.
CALL_S: Final = 5.0
#: The pause before a call is made again, seconds: the first, and the longest.
PAUSE_S: Final = (0.1, 2.0)
#: How often a broker that does not answer is told of, seconds.
TELL_S: Final = 10.0

_SERVER: Final = re.compile(r"(?:\[[0-9a-fA-F:]+\]|[^\s:,/]+):\d+")
#: What Thalweg says itself, by the option of ours that users may mean.
_OURS: Final = {
    "bootstrap.servers": "servers",
    "metadata.broker.list": "servers",
    "enable.auto.commit": "nothing: positions are the host's",
    "enable.auto.offset.store": "nothing: positions are the host's",
    "auto.offset.reset": "start= and on_loss=",
    "enable.partition.eof": "nothing: it is always on",
}
#: Settings of both directions, before the user's: no lines on stderr, soon back after a pause.
_COMMON: Final = {
    "log_level": 0,
    "reconnect.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 5_000,
}
#: Errors that no waiting mends.
_FOR_GOOD: Final = (
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "_INVALID_ARG",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Brokers:
    """Where the brokers are, and how to talk to them; what ``config`` holds is shown nowhere."""

    servers: str
    patience_s: float
    config: tuple[tuple[str, Any], ...] = dataclasses.field(repr=False)

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client; the user's replace those of ours that may be replaced."""
        ours = {name.replace("__", "."): value for name, value in more.items()}
        return {"bootstrap.servers": self.servers, **_COMMON, **ours, **dict(self.config)}


def brokers_of(verb: str, servers: Any, config: Any, patience: Any) -> Brokers:
    """The brokers that a verb's arguments name.

    Raises:
        BuildError: one of them cannot be meant.
    """
    if not isinstance(servers, str) or not all(map(_SERVER.fullmatch, re.split(r",\s*", servers))):
        raise refuse(verb, "servers", "'host:port', or several with commas between", servers)
    patience_s = patience_of(verb, patience)
    return Brokers(servers, patience_s, _config(verb, config))


def _config(verb: str, given: Any) -> tuple[tuple[str, Any], ...]:
    if given is None:
        return ()
    if isinstance(given, str | os.PathLike):
        given = _properties(verb, given)
    if not isinstance(given, Mapping):
        raise BuildError(
            f"{verb}: config: expected a dict of librdkafka's settings, or the path of a file with lines NAME=VALUE,"
            f" got {type(given).__name__}"
        )
    for name in given:
        if not isinstance(name, str):
            raise BuildError(f"{verb}: config: a setting's name is a text, not {shown(name)}")
        if name in _OURS:
            raise BuildError(f"{verb}: config: {name!r} is not for config; use {_OURS[name]}")
    return tuple(given.items())


def _properties(verb: str, path: str | os.PathLike[str]) -> dict[str, str]:
    """The settings in a file of lines NAME=VALUE, as Kafka's own tools read."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise BuildError(f"{verb}: config: {os.fspath(path)}: {error.strerror}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise BuildError(f"{verb}: config: {os.fspath(path)} line {number} is not NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def library() -> Any:
    """The package confluent_kafka.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import confluent_kafka
    except ImportError:
        raise missing_package("Kafka needs", "confluent-kafka", "kafka") from None
    return confluent_kafka


def code_of(error: BaseException) -> str:
    """The name of the code of a KafkaException."""
    return str(error.args[0].name()) if error.args and hasattr(error.args[0], "name") else ""


def connected(make: Callable[[dict[str, Any]], Result], settings: Any) -> Result:
    """A client with those settings.

    Raises:
        BuildError: librdkafka does not take a setting; its value is not shown.
    """
    try:
        return make(settings)
    except (library().KafkaException, TypeError, ValueError) as error:
        raise BuildError(f"Kafka: config: {_without_values(error, settings)}") from None


def _without_values(error: Exception, settings: Mapping[str, Any]) -> str:
    """What librdkafka says of a setting, which may quote a password."""
    found = error.args[0] if error.args else error
    text = found.str() if hasattr(found, "str") else str(found)
    for name, value in settings.items():
        if name != "bootstrap.servers" and isinstance(value, str) and value:
            text = text.replace(value, "…")
    return text


class Trouble:
    """What a client's brokers last said that went wrong; librdkafka calls it from its own threads."""

    def __init__(self) -> None:
        self.last: Any = None

    def __call__(self, error: Any) -> None:
        if error.name() == "GROUP_AUTHORIZATION_FAILED":
            return  # librdkafka looks for the coordinator of a group that nobody joins
        # "All brokers down" comes behind the reason, which says more.
        if self.last is None or error.name() != "_ALL_BROKERS_DOWN":
            self.last = error

    def clear(self) -> None:
        """All is well again."""
        self.last = None


class BrokerWait:
    """Waits for a broker with growing pauses, says so, and gives up.

    Args:
        brokers: whose broker.
        trouble: what its client heard.
        stop: ends a pause.
        grace_s: seconds after patience is over in which librdkafka itself gives up.
    """

    def __init__(
        self, brokers: Brokers, trouble: Trouble, stop: Stop | None = None, *, grace_s: float = 0.0
    ) -> None:
        self._brokers, self._trouble = brokers, trouble
        self._stop, self._grace_s = stop or never(), grace_s
        self._since = time.monotonic()
        self._told = 0.0
        self._pause_s, self._longest_s = PAUSE_S

    @property
    def left_s(self) -> float:
        """How long it goes on, seconds."""
        return max(0.1, self._since + self._brokers.patience_s - time.monotonic())

    def failed(self, error: Any, pauses: bool = True) -> None:
        """A call has failed: waits a little.

        Raises:
            EnvironmentProblem: it is over, or waiting is no use.
        """
        trouble = self._trouble.last
        for one in (error, trouble):
            if one is not None and one.name() in _FOR_GOOD:
                raise EnvironmentProblem(f"Kafka at {self._brokers.servers}: {one.str()}")
        waited = time.monotonic() - self._since
        reason = ": ".join(dict.fromkeys(one.str() for one in (trouble, error) if one is not None))
        if waited >= self._brokers.patience_s + self._grace_s:
            raise EnvironmentProblem(
                f"Kafka at {self._brokers.servers} has not answered for {waited:.0f} s: {reason or 'no message came'}\n"
                "  patience= says how long it is waited for"
            )
        if not self._told or waited - self._told >= TELL_S:
            self._told = waited or 0.001
            _LOG.warning(
                "Kafka at %s does not answer (%s); it is waited for %.0f s more",
                self._brokers.servers, reason or "no message came", max(0.0, self._brokers.patience_s - waited),
            )  # fmt: skip
        if pauses:
            self._stop.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, self._longest_s)

    def worked(self) -> None:
        """It answers."""
        if self._told:
            _LOG.warning("Kafka at %s answers again", self._brokers.servers)
        self._told, self._since = 0.0, time.monotonic()
        self._pause_s = PAUSE_S[0]
        self._trouble.clear()
