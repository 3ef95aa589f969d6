"""An event loop in a thread of its own, with the client that calls share.

The thread that runs a step may have a loop already (a notebook's has), and several may run steps at once; so calls
run in neither. The client is entered and left by one task, as cancel scopes ask for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from thalweg.engine.background import Background

T = TypeVar("T")
_LOG: Final = logging.getLogger("thalweg")
#: The thread that waits for calls looks up so often.
_LOOK_S: Final = 1.0
#: How long a client may take to close, and what is cancelled to end.
_GRACE_S: Final = 5.0


class ClientFailed(Exception):
    """``client=`` raised, or gave nothing that can be entered; the cause says why."""


class CallsGivenUp(Exception):
    """The calls were given up, since the run was."""


class LoopThread:
    """The loop and, from :meth:`start` on, its thread.

    Args:
        name: of the operator.
        make_client: makes the client's context manager; None: calls have none.
    """

    def __init__(self, name: str, make_client: Callable[[], Any] | None) -> None:
        self._name = name
        self._make_client = make_client
        self._loop = asyncio.new_event_loop()
        self._thread = Background(self._serve, f"calls of {name}")
        self._is_over = asyncio.Event()
        self._client: asyncio.Future[Any] = self._loop.create_future()
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], look: Callable[[], object]) -> T:
        """Runs a coroutine in the loop, and waits for it; calls ``look`` every second until then.

        Raises:
            CallsGivenUp: the loop has ended before.
            BaseException: what the coroutine raised, or ``look``; it is cancelled then.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop has ended
            coroutine.close()
            raise CallsGivenUp from None
        try:
            while True:
                try:
                    return future.result(_LOOK_S)
                except TimeoutError:
                    if future.done():
                        return future.result()
                    look()
        except BaseException:
            if future.cancelled():
                raise CallsGivenUp from None
            future.cancel()
            raise

    def beat(self, seen: Callable[[], object]) -> None:
        """OpenCalls a function in the loop as soon as it turns; it does not where a call blocks it."""
        self._loop.call_soon_threadsafe(seen)

    async def client(self) -> Any:
        """The client, as soon as it is open; inside the loop.

        Raises:
            ClientFailed: it could not be opened.
        """
        return await asyncio.shield(self._client)

    def give_up(self) -> None:
        """Cancels what is open; waits for nothing."""
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._is_over.set)

    def close(self) -> None:
        """Cancels what is open, leaves the client, and ends the thread; one that hangs is left behind."""
        self.give_up()
        if not self._thread.wait(_GRACE_S):
            _LOG.warning("operator %r: a call or its client does not end, left behind", self._name)

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._keep())
            self._loop.run_until_complete(_cancel_all())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _keep(self) -> None:
        """Holds the client open until all is over."""
        if self._make_client is None:
            self._client.set_result(None)
            await self._is_over.wait()
            return
        try:
            async with self._make_client() as client:
                self._client.set_result(client)
                await self._is_over.wait()
                await _cancel_all()
        except Exception as error:
            if self._client.done():
                _LOG.warning("operator %r: its client failed to close: %r", self._name, error)
                return
            failed = ClientFailed()
            failed.__cause__ = error
            self._client.set_exception(failed)
            await self._is_over.wait()


async def _cancel_all() -> None:
    """Cancels all tasks but this one, and waits until they have ended."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
