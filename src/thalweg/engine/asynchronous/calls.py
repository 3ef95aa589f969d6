"""The calls of one operator: how many are open, what each gave, and which of them takes long.

Rows are taken in order by as many tasks as calls may be open. Where a call fails that is not to be rejected, no later
row is begun, the calls of later rows are cancelled, and those of earlier ones go on: the first row that fails is told.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from thalweg.engine.asynchronous.loop import LoopThread
from thalweg.flow.failures import shorten
from thalweg.flow.operators.asynchronous import MapAsync

_LOG: Final = logging.getLogger("thalweg")
#: A call that has not ended after so long is named.
SLOW_S: Final = 5.0
#: So long at least between two lines on calls that take long, and twice as long each time, up to this.
_MOST_QUIET_S: Final = 320.0


@dataclasses.dataclass(slots=True)
class Open:
    """A call that has not ended."""

    row: Any
    since: float
    made: int = 1


@dataclasses.dataclass(slots=True)
class Awaited:
    """What the calls of some rows gave.

    Attributes:
        rows: by row, its output; None where there is none.
        failed: by place of a row, what its last call raised.
    """

    rows: list[Any]
    failed: dict[int, BaseException] = dataclasses.field(default_factory=dict)

    @property
    def first_failed(self) -> int:
        """The place of the first row that failed; behind all where none has."""
        return min(self.failed, default=len(self.rows))


class OpenCalls:
    """Makes the calls of an operator, at most so many at a time over all steps that are on their way."""

    def __init__(self, node: MapAsync, loop: LoopThread) -> None:
        self._node = node
        self._loop = loop
        self._room = asyncio.Semaphore(node.concurrency)
        self._numbers = itertools.count()
        #: those that are open, by number
        self.open: dict[int, Open] = {}

    async def of(self, rows: Sequence[Any]) -> Awaited:
        """What comes of these rows; in the loop."""
        arguments: tuple[Any, ...] = ()
        if self._node.client is not None:
            arguments = (await self._loop.client(),)
        step = _Step(self, self._node, rows, arguments)
        return await step.run()

    async def call(self, row: Any, arguments: tuple[Any, ...]) -> Any:
        """What a row's call gave, fitted; as many tries as there may be.

        Raises:
            BaseException: what the last of them raised.
        """
        number = next(self._numbers)
        async with self._room:
            self.open[number] = one = Open(row, time.monotonic())
            try:
                made = await self._tried(one, arguments)
            finally:
                del self.open[number]
        return None if made is None else self._node.record.fit(made)

    async def _tried(self, one: Open, arguments: tuple[Any, ...]) -> Any:
        node, tries = self._node, self._node.tries
        while True:
            limit = asyncio.timeout(tries.timeout_s)
            try:
                async with limit:
                    return await node.function.call(one.row, *arguments)
            except Exception as error:
                if not tries.again(error, one.made):
                    if limit.expired():
                        raise tries.timed_out(one.made) from error
                    raise
                await asyncio.sleep(tries.pause_s(one.made))
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                raise RuntimeError("the call was cancelled by its own function") from None
            one.made += 1


def _is_cancelled() -> bool:
    """Whether the operator has given up the present task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class _Step:
    """The calls of the rows of one step."""

    def __init__(
        self, calls: OpenCalls, node: MapAsync, rows: Sequence[Any], arguments: tuple[Any, ...]
    ) -> None:
        self._calls = calls
        self._rejects = node.errors == "reject"
        self._most = min(node.concurrency, len(rows))
        self._rows = rows
        self._arguments = arguments
        self._places: Iterator[int] = iter(range(len(rows)))
        self._answers = Awaited([None] * len(rows))
        self._busy: dict[int, asyncio.Task[None]] = {}
        #: a row has failed that ends the run: no further ones are begun
        self._is_over = False

    async def run(self) -> Awaited:
        tasks = [asyncio.create_task(self._work()) for _ in range(self._most)]
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        return self._answers

    async def _work(self) -> None:
        """Takes one row after the other."""
        me = asyncio.current_task()
        assert me is not None
        for place in self._places:
            if self._is_over:
                return
            self._busy[place] = me
            try:
                self._answers.rows[place] = await self._calls.call(
                    self._rows[place], self._arguments
                )
            except asyncio.CancelledError:
                return
            except BaseException as error:
                self._fail(place, error)
            finally:
                del self._busy[place]

    def _fail(self, place: int, error: BaseException) -> None:
        self._answers.failed[place] = error
        if self._rejects and isinstance(error, Exception):
            return
        self._is_over = True
        for later, task in self._busy.items():
            if later > place:
                task.cancel()


class SlowCalls:
    """Names calls that take long, in the log: the first of them, and how many there are.

    It is asked by the thread that waits for them, so that it also sees calls that block the loop.
    """

    def __init__(self, node: MapAsync, calls: OpenCalls, loop: LoopThread) -> None:
        self._node = node
        self._calls = calls
        self._loop = loop
        self._quiet_s, self._next = SLOW_S, 0.0
        self._turned = time.monotonic()

    def look(self) -> None:
        """Tells of calls that have been open for long, not too often."""
        now = time.monotonic()
        self._loop.beat(self._turn)
        slow = [one for one in list(self._calls.open.values()) if now - one.since >= SLOW_S]
        if not slow or now < self._next:
            return
        self._next, self._quiet_s = now + self._quiet_s, min(2 * self._quiet_s, _MOST_QUIET_S)
        first = min(slow, key=lambda one: one.since)
        others = f", and {len(slow) - 1} others" if len(slow) > 1 else ""
        _LOG.warning(
            "operator %r: a call of %s has not ended after %.0f s%s%s\n  row:      %s\n  %s",
            self._node.name, self._node.function.where, now - first.since,
            f" (try {first.made})" if first.made > 1 else "", others, shorten(first.row),
            self._advice(now),
        )  # fmt: skip

    def _turn(self) -> None:
        self._turned = time.monotonic()

    def _advice(self, now: float) -> str:
        if now - self._turned >= SLOW_S / 2:
            return (
                "the function blocks all calls: it does not await what it waits for; use a client with async calls, or"
                " await asyncio.to_thread(...)"
            )
        if self._node.tries.timeout_s is None:
            return 'timeout="2 seconds" (say) on the operator gives such calls up'
        return f"it is given up after {self._node.tries.timeout_s:g} s"
