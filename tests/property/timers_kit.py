"""An operator with several timers a key, for the random flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.property.events import Event

import thalweg as tw


@tw.state
class Watched:
    idle: tw.Timer
    limit: tw.Timer
    n: int = 0
    amount: int = 0


def watch(state: Watched, row: Event) -> Event | None:
    state.n += 1
    state.amount = row.amount
    state.idle = row.ts + row.amount % 5
    if state.limit == tw.NEVER:
        state.limit = row.ts + 7
    return row if row.amount % 3 else None


def gone_idle(state: Watched, key: Any, time: tw.Timestamp) -> Iterator[Event]:
    """Sets both anew for some, drops for some."""
    yield Event(time, state.n, "idle", "red", 0.5, None, state.amount, 0)
    state.n += 1
    if state.n % 3 == 1:
        state.idle = time + 2
    if state.n % 4 == 2:
        state.limit = time + 1
    if state.amount % 7 == 6:
        tw.drop(state)


def at_limit(state: Watched, key: Any, time: tw.Timestamp) -> Event | None:
    state.n += 5
    return Event(time, state.n, "limit", "blue", 1.5, 3, state.amount, 0) if state.n % 2 else None


def make_several(on: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
    return on[0].key_by("key").process(
        watch, state=Watched, on_timer={"idle": gone_idle, "limit": at_limit}, into=Event, name=name,
        keep=step.param % 2 == 1,
    )  # fmt: skip
