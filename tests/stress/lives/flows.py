"""Flows whose targets show every lost, doubled or misplaced row, with their rows; for runs that are killed."""

from __future__ import annotations

import asyncio
import random
from typing import Any, NamedTuple

import thalweg as tw

LANES = 6
#: Which targets take the rows of which sink, in the rich flow; the other one has ``late`` and ``sessions``.
FILES, DELTA, POSTGRES = ("late", "rolled", "asked"), ("sessions", "totals"), ("priced",)
_BASE_US = 1_700_000_000_000_000
_USERS_A_SECOND = 1_000


class Event(NamedTuple):
    n: int
    user: str
    at: tw.Timestamp
    lane: int


class Rate(NamedTuple):
    user: str
    rate: int
    at: tw.Timestamp


class Priced(NamedTuple):
    n: int
    user: str
    rate: int | None


class Asked(NamedTuple):
    n: int
    answer: str


def price(event: Event, rate: Rate | None) -> Priced:
    return Priced(event.n, event.user, None if rate is None else rate.rate)


async def ask(event: Event) -> Asked:
    """A call that takes a moment: the later the row, the sooner it is done."""
    await asyncio.sleep(0.002 * (3 - event.n % 3))
    return Asked(event.n, f"{event.user}: {event.n * 7}")


def is_asked(event: Event) -> bool:
    return event.n % 10 == 0


def sessions_flow() -> tw.Flow:
    """Kafka to sessions: late by partition, so that the output follows from the rows alone."""
    flow = tw.Flow("lives")
    _sessions(_events(flow))
    return flow


def rich_flow() -> tw.Flow:
    """The same with rolling state, an aggregate of all, a join as of a time and calls that are awaited."""
    flow = tw.Flow("lives")
    rates = flow.source("rates", Rate, order_by="at")
    events = _events(flow)
    by_user = _sessions(events)
    by_user.rolling(rows=5, events=tw.agg.count(), most=tw.agg.max("n")).sink("rolled")
    by_user.aggregate(events=tw.agg.count(), of=tw.agg.sum("n"), last=tw.agg.last("n")).sink(
        "totals"
    )
    events.join_asof(rates, price, on="user").sink("priced")
    events.filter(is_asked).map_async(ask, concurrency=50).sink("asked")
    return flow


def _events(flow: tw.Flow) -> tw.Stream[Event]:
    return flow.source(
        "events", Event, order_by="at", lateness="1 second", lane="lane", lanes=range(LANES)
    )


def _sessions(events: tw.Stream[Event]) -> tw.KeyedStream[Event, Any]:
    events.late.sink("late")
    by_user = events.key_by("user")
    by_user.sessions(
        "2 seconds", events=tw.agg.count(), of=tw.agg.sum("n"),
        first=tw.agg.min("n"), last=tw.agg.max("n"),
    ).sink("sessions")  # fmt: skip
    return by_user


def make_events(seed: int, count: int) -> list[Event]:
    """A row a millisecond, in the order of arrival: out of order by up to the lateness, one in fifty by more.

    The last row of each lane is behind all others by itself, as it must be for one of the brokers.
    """
    draw = random.Random(seed)
    rows = []
    for n in range(count):
        back = draw.randrange(900) if draw.random() > 0.02 else draw.randrange(1_500, 9_000)
        user = f"ü{draw.randrange(_USERS_A_SECOND)}"
        rows.append(Event(n, user, _BASE_US + 1_000 * (n - back), draw.randrange(LANES)))
    last = [
        Event(count + lane, "last", _BASE_US + 1_000 * (count + 60_000), lane)
        for lane in range(LANES)
    ]
    return rows + last


def make_rates(seed: int, count: int) -> list[Rate]:
    """One for each hundred events."""
    draw = random.Random(seed)
    times = sorted(draw.randrange(count) for _ in range(count // 100))
    rows = [
        Rate(f"ü{draw.randrange(_USERS_A_SECOND)}", n, _BASE_US + 1_000 * time)
        for n, time in enumerate(times)
    ]
    return [*rows, Rate("last", -1, _BASE_US + 1_000 * (count + 60_000))]
