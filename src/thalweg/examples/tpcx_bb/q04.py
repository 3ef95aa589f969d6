"""Query 4 of TPCx-BB: how many pages the visits have on average that fill a cart and leave it behind.

The functions are those of :mod:`thalweg.examples.cart_abandonment`; before them stands a projection, as in
Table 1, so that only what a visit needs goes to its key. A visit goes on as long as no more than 60 minutes
pass between two clicks of a user. When an abandoned one is over, out comes how many there have been and how
many pages they had on average.

In SQL::

    WITH click AS (
        SELECT *, ts - lag(ts) OVER (PARTITION BY "user" ORDER BY number) <= INTERVAL 1 HOUR AS joins
        FROM clicks
    ), visited AS (
        SELECT *, count(*) FILTER (joins IS NOT TRUE) OVER (PARTITION BY "user" ORDER BY number) AS visit
        FROM click
    ), abandoned AS (
        SELECT "user", max(ts) AS last, count(*) AS pages
        FROM visited GROUP BY "user", visit
        HAVING bool_or(action = 'cart') AND NOT bool_or(action = 'checkout')
    )
    SELECT row_number() OVER so_far AS sessions, avg(pages) OVER so_far AS pages
    FROM abandoned
    WINDOW so_far AS (ORDER BY last, "user" ROWS UNBOUNDED PRECEDING)
    ORDER BY sessions
"""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw
from thalweg.datagen import Click
from thalweg.examples import running
from thalweg.examples.cart_abandonment import Mean, Open, abandoned, close, running_mean, track
from thalweg.examples.tpcx_bb import generated


class Page(NamedTuple):
    """A click without its item."""

    ts: tw.Timestamp
    user: int
    action: tw.Category


def page(click: Click) -> Page:
    """What a visit needs to know of a click."""
    return Page(click.ts, click.user, click.action)


def make_flow(*, lateness: str = "2 minutes") -> tw.Flow:
    """Clicks to the running average."""
    flow = tw.Flow("tpcx_bb_q04")
    pages = flow.source("clicks", Click, order_by="ts", lateness=lateness).map(page)
    visits = pages.key_by("user").process(track, state=Open, on_timer=close)
    visits.filter(abandoned).process(running_mean, state=Mean).sink("average")
    return flow


flow = make_flow()

if __name__ == "__main__":
    running.command(generated.over_clicks(flow, "average"))
