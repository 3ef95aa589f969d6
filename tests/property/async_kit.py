"""Coroutine functions of the random flows: calls that end in another order than they began, fail, and try again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from tests.property.events import Event

import thalweg as tw


async def ask(row: Event) -> Event | None:
    """Later rows end first; some give nothing."""
    for _ in range(row.amount % 4):
        await asyncio.sleep(0)
    if row.amount % 5 == 3:
        return None
    return row._replace(amount=row.amount + 1)


class Service:
    """Answers, but for every fourth amount; every third only when it is asked again."""

    def __init__(self) -> None:
        #: by row, whether it has been asked for once
        self.asked: set[int] = set()

    async def answer(self, row: Event) -> int:
        await asyncio.sleep(0)
        if row.amount % 4 == 1:
            raise ConnectionError(f"no answer for {row.amount}")
        if row.amount % 3 == 1:
            self.asked ^= {id(row)}
            if id(row) in self.asked:
                raise ConnectionError("ask again")
        return row.amount * 3 % 100


@contextlib.asynccontextmanager
async def service() -> AsyncIterator[Service]:
    yield Service()


async def ask_service(row: Event, client: Service) -> Event:
    return row._replace(amount=await client.answer(row))


def make_asked(on: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    return on[0].map_async(ask, concurrency=1 + step.param, name=name)


def make_service(on: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    return on[0].map_async(
        ask_service, client=service, concurrency=3, retries=1, backoff=0,
        retry_on=ConnectionError, errors="reject", name=name,
    )  # fmt: skip
