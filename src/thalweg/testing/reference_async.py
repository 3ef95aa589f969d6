"""Coroutines that are called for each row, for the reference: one after the other, each to its end."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any

from thalweg.flow.operators.asynchronous import MapAsync


class ReferenceCalls:
    """Calls coroutine functions in a loop of its own, with a client for each operator that has one.

    The loop is in a thread of its own, since the caller's may have one that runs, as that of a notebook.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "thalweg-reference")
        #: context managers that were entered, with what they gave, by operator
        self._clients: dict[int, tuple[Any, tuple[Any, ...]]] = {}

    def of(self, node: MapAsync) -> Callable[[Any], Any]:
        """What calls the operator's function with a row, and gives what its last try gave."""
        return lambda row: self._run(self._tried(node, row))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._thread.submit(self._runner.run, coroutine).result()

    async def _tried(self, node: MapAsync, row: Any) -> Any:
        made, client = 1, await self._client(node)
        while True:
            limit = asyncio.timeout(node.tries.timeout_s)
            try:
                async with limit:
                    return await node.function.call(row, *client)
            except Exception as error:
                if not node.tries.again(error, made):
                    if limit.expired():
                        raise node.tries.timed_out(made) from error
                    raise
            made += 1

    async def _client(self, node: MapAsync) -> tuple[Any, ...]:
        if node.client is None:
            return ()
        if node.index not in self._clients:
            manager = node.client()
            self._clients[node.index] = manager, (await manager.__aenter__(),)
        return self._clients[node.index][1]

    def close(self) -> None:
        """Leaves the clients."""
        for manager, _ in self._clients.values():
            self._run(manager.__aexit__(None, None, None))
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()
