"""Query 3 of TPCx-BB: for each product that is bought the products that are viewed most before, each day.

A checkout is a purchase of its item. Before it lie the buyer's last five views, as far as they are no more than
ten days old; those of the bought product itself do not count. For each product that is bought in a day the
first 30 of the products viewed before, by how often and then by item, come out when the day is over.

In SQL::

    WITH before AS (
        SELECT bought.number, bought.ts, bought.item AS bought, viewed.item AS viewed, viewed.ts AS viewed_at
        FROM clicks bought JOIN clicks viewed ON bought."user" = viewed."user" AND viewed.number < bought.number
        WHERE bought.action = 'checkout' AND viewed.action = 'view'
        QUALIFY row_number() OVER (PARTITION BY bought.number ORDER BY viewed.number DESC) <= 5
    ), counted AS (
        SELECT time_bucket(INTERVAL 1 DAY, ts) AS day, bought, viewed, count(*) AS times
        FROM before WHERE viewed_at >= ts - INTERVAL 10 DAYS AND viewed <> bought
        GROUP BY ALL
    )
    SELECT day + INTERVAL 1 DAY AS until, bought,
        row_number() OVER (PARTITION BY day, bought ORDER BY times DESC, viewed) AS rank,
        viewed, times
    FROM counted QUALIFY rank <= 30
    ORDER BY until, bought, rank
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from typing import NamedTuple

import thalweg as tw
from thalweg.datagen import Click
from thalweg.examples import running
from thalweg.examples.tpcx_bb import generated


class ViewedBefore(NamedTuple):
    """A product that was bought, and one that the buyer had viewed shortly before."""

    ts: tw.Timestamp
    bought: int
    viewed: int


class Ranked(NamedTuple):
    """A product and its place, from 1, among those viewed before one was bought in the day before ``until``."""

    until: tw.Timestamp
    bought: int
    rank: int
    viewed: int
    times: int


@tw.state
class Recent:
    """A user's last five views, ``item_1`` the latest of them, and their times; item 0 where there is none yet."""

    timer: tw.Timer
    item_1: int = 0
    item_2: int = 0
    item_3: int = 0
    item_4: int = 0
    item_5: int = 0
    ts_1: tw.Timestamp = 0
    ts_2: tw.Timestamp = 0
    ts_3: tw.Timestamp = 0
    ts_4: tw.Timestamp = 0
    ts_5: tw.Timestamp = 0


@tw.state
class Views:
    """What was viewed before purchases of a product in the day at hand, by item, and how often."""

    timer: tw.Timer
    viewed: list[int] = []  # noqa: RUF012 - tw.state copies it for each key
    times: list[int] = []  # noqa: RUF012


def looks_or_buys(click: Click) -> bool:
    """The clicks that matter: views and purchases."""
    return click.action in ("view", "checkout")


def viewed_before(recent: Recent, click: Click) -> Iterator[ViewedBefore]:
    """Keeps a view in mind; at a purchase the last views of other products, the latest first."""
    recent.timer = click.ts + tw.days(10)
    if click.action == "view":
        remember(recent, click.ts, click.item)
    else:
        since = click.ts - tw.days(10)
        for viewed in (
            no_older(since, recent.ts_1, recent.item_1),
            no_older(since, recent.ts_2, recent.item_2),
            no_older(since, recent.ts_3, recent.item_3),
            no_older(since, recent.ts_4, recent.item_4),
            no_older(since, recent.ts_5, recent.item_5),
        ):
            if viewed and viewed != click.item:
                yield ViewedBefore(click.ts, click.item, viewed)


def remember(recent: Recent, ts: tw.Timestamp, item: int) -> None:
    """Puts a view in front; the oldest of five is forgotten."""
    recent.item_1, recent.item_2, recent.item_3, recent.item_4, recent.item_5 = (
        item, recent.item_1, recent.item_2, recent.item_3, recent.item_4,
    )  # fmt: skip
    recent.ts_1, recent.ts_2, recent.ts_3, recent.ts_4, recent.ts_5 = (
        ts, recent.ts_1, recent.ts_2, recent.ts_3, recent.ts_4,
    )  # fmt: skip


def no_older(since: tw.Timestamp, ts: tw.Timestamp, item: int) -> int:
    """The item of a view, 0 when the view is older than ``since``."""
    return item if ts >= since else 0


def forget(recent: Recent, user: int, time: tw.Timestamp) -> None:
    """All that the user did is more than ten days ago; the state is dropped."""


def count(views: Views, before: ViewedBefore) -> None:
    """One more view before a purchase of the key's product."""
    place = bisect.bisect_left(views.viewed, before.viewed)
    if views.viewed[place : place + 1] == [before.viewed]:
        views.times[place] += 1
    else:
        views.viewed.insert(place, before.viewed)
        views.times.insert(place, 1)
    views.timer = tw.times.date(before.ts) + tw.days(1) - 1


def most_viewed(limit: int) -> Callable[[Views, int, tw.Timestamp], Iterator[Ranked]]:
    """A function that ranks what was viewed before purchases of a product when the day is over."""

    def ranked(views: Views, bought: int, time: tw.Timestamp) -> Iterator[Ranked]:
        counted = zip(views.viewed, views.times, strict=True)
        best = sorted(counted, key=lambda one: (-one[1], one[0]))[:limit]
        for rank, (viewed, times) in enumerate(best, 1):
            yield Ranked(time + 1, bought, rank, viewed, times)

    return ranked


def make_flow(*, limit: int = 30, lateness: str = "2 minutes") -> tw.Flow:
    """Clicks to the ranked products that were viewed before each that was bought."""
    flow = tw.Flow("tpcx_bb_q03")
    clicks = flow.source("clicks", Click, order_by="ts", lateness=lateness).filter(looks_or_buys)
    before = clicks.key_by("user").process(viewed_before, state=Recent, on_timer=forget)
    ranked = before.key_by("bought").process(count, state=Views, on_timer=most_viewed(limit))
    ranked.sink("products")
    return flow


flow = make_flow()

if __name__ == "__main__":
    running.command(generated.over_clicks(flow, "products"))
