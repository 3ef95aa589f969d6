"""Coroutines that are called for each row, for the reference: one after the other, each to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from thalweg.flow.operators.asynchronous import MapAsync


class ReferenceCalls:
    """Calls coroutine functions in a loop of its own, with a client for each operator that has one."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        #: context managers that were entered, with what they gave, by operator
        self._clients: dict[int, tuple[Any, tuple[Any, ...]]] = {}

    def of(self, node: MapAsync) -> Callable[[Any], Any]:
        """What calls the operator's function with a row, and gives what its last try gave."""
        return lambda row: self._runner.run(self._tried(node, row))

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
            self._runner.run(manager.__aexit__(None, None, None))
        self._runner.close()
