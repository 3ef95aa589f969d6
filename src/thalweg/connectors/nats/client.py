"""Connections with NATS by nats-py, whose loop runs in a thread of its own and answers the server's pings."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from thalweg.checks import refuse, require_text
from thalweg.connectors.contracts import POLL_S, Stop, never
from thalweg.connectors.waiting import PeerWait, WaitEnded, answered, patience_of
from thalweg.errors import BuildError, EnvironmentProblem, missing_package

T = TypeVar("T")

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
#: How long one request waits for its answer, seconds.
CALL_S: Final = 5.0
_CONNECT_S: Final = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class NatsServers:
    """Where the servers are; addresses and settings, which may hold secrets, are shown nowhere."""

    urls: tuple[str, ...] = dataclasses.field(repr=False)
    patience_s: float
    config: tuple[tuple[str, Any], ...] = dataclasses.field(repr=False)

    @property
    def place(self) -> str:
        """The addresses without users and passwords."""
        parts = [urlsplit(one) for one in self.urls]
        return ",".join(f"{one.scheme}://{one.netloc.rpartition('@')[2]}" for one in parts)


def servers_at(verb: str, url: Any, config: Any, patience: Any) -> NatsServers:
    """The servers that a verb's arguments name.

    Raises:
        BuildError: one of them cannot be meant.
    """
    require_text(verb, url=url)
    urls = tuple(one.strip() for one in url.split(","))
    if any(urlsplit(one).scheme not in _SCHEMES for one in urls):
        raise BuildError(
            f"{verb}: url: expected nats://host:4222, or several with commas between; one begins otherwise"
        )
    if config is not None and not isinstance(config, Mapping):
        raise refuse(verb, "config", "a dict of the options of nats.connect", config)
    return NatsServers(urls, patience_of(verb, patience), tuple((config or {}).items()))


def library() -> Any:
    """The package nats.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        import nats
        import nats.js
    except ImportError:
        raise missing_package("NATS needs", "nats-py", "nats") from None
    return nats


def may_pass(error: Exception) -> bool:
    """Whether the same again may succeed."""
    package = library()
    if isinstance(error, package.js.errors.APIError):
        return bool(error.code == 503)
    lasting = ("authorization", "permissions", "authentication")
    known = (package.errors.Error, OSError, TimeoutError, asyncio.TimeoutError)
    return isinstance(error, known) and not any(one in str(error).lower() for one in lasting)


class NatsConnection:
    """A connection that is made when it is first needed; one thread at a time calls it."""

    def __init__(self, servers: NatsServers) -> None:
        self.servers = servers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Any = None
        self._jetstream: Any = None

    def call(self, function: Callable[[Any, Any], Awaitable[T]], stop: Stop | None = None) -> T:
        """What a function of client and JetStream gives, tried again while its failures may pass.

        Raises:
            EnvironmentProblem: patience is over, or waiting is no use.
            WaitEnded: the run is to end.
        """
        stop = stop or never()
        wait = PeerWait(f"NATS at {self.servers.place}", self.servers.patience_s, stop)
        package = library()
        try:
            found: T = answered(
                wait, lambda: self._run(self._with_client(function), stop), may_pass
            )
            return found
        except package.errors.Error as error:
            raise EnvironmentProblem(f"NATS at {self.servers.place}: {error}") from error

    def close(self) -> None:
        """Ends the connection and the thread."""
        loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        client, self._client = self._client, None
        if client is not None:
            asyncio.run_coroutine_threadsafe(_closed(client), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    async def _with_client(self, function: Callable[[Any, Any], Awaitable[T]]) -> T:
        if self._client is None or self._client.is_closed:
            self._client = await self._connected()
            self._jetstream = self._client.jetstream(timeout=CALL_S)
        return await function(self._client, self._jetstream)

    async def _connected(self) -> Any:
        settings: dict[str, Any] = {
            "allow_reconnect": True,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.2,
            "connect_timeout": _CONNECT_S,
            "error_cb": _ignored,
            "name": "thalweg",
            **dict(self.servers.config),
        }
        # The client's own first attempts never end; ours go on with pauses, and are told of.
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await library().connect(list(self.servers.urls), **settings)
        except TimeoutError:
            raise ConnectionError(f"no connection within {_CONNECT_S:g} s") from None

    def _run(self, made: Any, stop: Stop) -> Any:
        """The result of a coroutine in the loop's thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(made, self._loop)
        while True:
            try:
                return future.result(POLL_S)
            except TimeoutError:
                if future.done():
                    raise
                if stop.is_set():
                    future.cancel()
                    raise WaitEnded from None


async def _closed(client: Any) -> None:
    """Closes a client, and lets its tasks end."""
    try:
        await asyncio.wait_for(client.close(), CALL_S)
    except Exception:
        pass  # the server has gone
    rest = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
    for one in rest:
        one.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _ignored(error: Exception) -> None:
    """What goes wrong is seen by the call that fails."""
