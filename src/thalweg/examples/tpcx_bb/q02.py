"""Query 2 of TPCx-BB: the pairs of products that are viewed together most, each day.

Together are products that a user views in one visit, which goes on as long as no more than 60 minutes pass
between two views. Its first ten different products make pairs, each at the time at which the later of the two
was first viewed. Of the pairs that occur ten times or more within a day the first 30, by how often and then by
item, come out when the day is over.

In SQL::

    WITH view AS (
        SELECT *, ts - lag(ts) OVER (PARTITION BY "user" ORDER BY number) <= INTERVAL 1 HOUR AS joins
        FROM clicks WHERE action = 'view'
    ), visited AS (
        SELECT *, count(*) FILTER (joins IS NOT TRUE) OVER (PARTITION BY "user" ORDER BY number) AS visit
        FROM view
    ), item AS (
        SELECT "user", visit, item, min(ts) AS ts,
            row_number() OVER (PARTITION BY "user", visit ORDER BY min(number)) AS place
        FROM visited GROUP BY "user", visit, item
    ), pair AS (
        SELECT time_bucket(INTERVAL 1 DAY, b.ts) AS day,
            least(a.item, b.item) AS first, greatest(a.item, b.item) AS second, count(*) AS times
        FROM item a JOIN item b USING ("user", visit) WHERE a.place < b.place AND b.place <= 10
        GROUP BY ALL HAVING times >= 10
    )
    SELECT day + INTERVAL 1 DAY AS until,
        row_number() OVER (PARTITION BY day ORDER BY times DESC, first, second) AS rank,
        first, second, times
    FROM pair QUALIFY rank <= 30
    ORDER BY until, rank
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import thalweg as tw
from thalweg.datagen import Click
from thalweg.examples import running
from thalweg.examples.tpcx_bb import generated
from thalweg.examples.tpcx_bb.pairs import Items, Pair, add, forget, most_frequent, pair_of


class Viewed(NamedTuple):
    """A product that is new in a visit, ``a``, and those viewed before it, the latest first; 0 for none."""

    ts: tw.Timestamp
    a: int
    b: int
    c: int
    d: int
    e: int
    f: int
    g: int
    h: int
    i: int
    j: int


def is_view(click: Click) -> bool:
    """Somebody looks at a product."""
    return click.action == "view"


def viewed(its: Items, click: Click) -> Viewed | None:
    """The visit's products when one that is new has come to others."""
    its.timer = click.ts + tw.minutes(60)
    new = add(its, click.item)
    if not new or not its.b:
        return None
    return Viewed(
        click.ts, its.a, its.b, its.c, its.d, its.e, its.f, its.g, its.h, its.i, its.j
    )  # fmt: skip


def viewed_together(seen: Viewed) -> Iterator[Pair]:
    """The pairs of a product with those before it, the latest first."""
    for other in (seen.b, seen.c, seen.d, seen.e, seen.f, seen.g, seen.h, seen.i, seen.j):
        if other:
            yield pair_of(seen.ts, seen.a, other)


def make_flow(*, at_least: int = 10, limit: int = 30, lateness: str = "2 minutes") -> tw.Flow:
    """Clicks to the ranked pairs of each day."""
    flow = tw.Flow("tpcx_bb_q02")
    views = flow.source("clicks", Click, order_by="ts", lateness=lateness).filter(is_view)
    visits = views.key_by("user").process(viewed, state=Items, on_timer=forget)
    pairs = visits.flat_map(viewed_together)
    most_frequent(pairs, every="1 day", at_least=at_least, limit=limit).sink("pairs")
    return flow


flow = make_flow()

if __name__ == "__main__":
    running.command(generated.over_clicks(flow, "pairs"))
