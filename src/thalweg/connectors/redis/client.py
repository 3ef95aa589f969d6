"""Connections with Redis or Valkey by redis-py: where the server is, and which of its failures pass."""

from __future__ import annotations

import dataclasses
from typing import Any, Final
from urllib.parse import urlsplit

from thalweg.checks import require_text
from thalweg.connectors.waiting import PeerWait, answered, patience_of
from thalweg.errors import BuildError, EnvironmentProblem, missing_package

_SCHEMES: Final = ("redis", "rediss", "unix")
#: How long one call waits for its answer, seconds.
_CALL_S: Final = 30.0
_CONNECT_S: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class RedisServer:
    """Where a server is; the address, which may have a password, is shown nowhere."""

    url: str = dataclasses.field(repr=False)
    patience_s: float

    @property
    def place(self) -> str:
        """The address without user, password and options: ``redis://host:6379/0``."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def connect(self) -> Any:
        """A client, which connects with its first call.

        Raises:
            BuildError: the address cannot be read.
        """
        package = library()
        try:
            return package.Redis.from_url(
                self.url,
                socket_connect_timeout=_CONNECT_S,
                socket_timeout=_CALL_S,
                retry=None,
                decode_responses=False,
            )
        except ValueError:  # what it says may show a part of the password
            raise BuildError(
                "redis: the address cannot be read; expected redis://host:6379/0"
            ) from None

    def wait(self, stop: Any = None) -> PeerWait:
        return PeerWait(f"Redis at {self.place}", self.patience_s, stop)

    def call(self, wait: PeerWait, function: Any) -> Any:
        """What the function gets from the server, tried again while its failures may pass.

        Raises:
            EnvironmentProblem: patience is over, or waiting is no use.
        """
        package = library()
        try:
            return answered(wait, function, may_pass)
        except package.RedisError as error:
            raise EnvironmentProblem(f"Redis at {self.place}: {error}") from error


def server_at(verb: str, url: Any, patience: Any) -> RedisServer:
    """The server that a verb's arguments name.

    Raises:
        BuildError: one of them cannot be meant.
    """
    require_text(verb, url=url)
    if urlsplit(url).scheme not in _SCHEMES:
        raise BuildError(
            f"{verb}: url: expected redis://host:6379/0, rediss://… or unix://…; it begins with none of them"
        )
    return RedisServer(url, patience_of(verb, patience))


def library() -> Any:
    """The package redis.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import redis
    except ImportError:
        raise missing_package("Redis needs", "redis", "redis") from None
    return redis


def may_pass(error: Exception) -> bool:
    """Whether the same again may succeed."""
    errors = library().exceptions
    if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError)):
        return False
    passing = (
        errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, errors.ClusterDownError,
        errors.MasterDownError, errors.TryAgainError, errors.OutOfMemoryError,
    )  # fmt: skip
    return isinstance(error, passing)
