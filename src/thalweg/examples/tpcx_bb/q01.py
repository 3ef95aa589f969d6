"""Query 1 of TPCx-BB: the pairs of items that are sold together most in some stores, each hour.

Looked at are lines of certain categories in certain stores. The first ten different items of a ticket make
pairs, each at the time at which the later of the two was first scanned. Of the pairs that occur twice or more
within an hour the first 100, by how often and then by item, come out when the hour is over.

In SQL::

    WITH item AS (
        SELECT ticket, item, min(ts) AS ts,
            row_number() OVER (PARTITION BY ticket ORDER BY min(number)) AS place
        FROM sales
        WHERE category IN ('Children', 'Electronics', 'Home') AND store IN (1, 2, 3, 5, 8)
        GROUP BY ticket, item
    ), pair AS (
        SELECT time_bucket(INTERVAL 1 HOUR, b.ts) AS hour,
            least(a.item, b.item) AS first, greatest(a.item, b.item) AS second, count(*) AS times
        FROM item a JOIN item b ON a.ticket = b.ticket AND a.place < b.place AND b.place <= 10
        GROUP BY ALL HAVING times >= 2
    )
    SELECT hour + INTERVAL 1 HOUR AS until,
        row_number() OVER (PARTITION BY hour ORDER BY times DESC, first, second) AS rank,
        first, second, times
    FROM pair QUALIFY rank <= 100
    ORDER BY until, rank

The lines of a ticket must not lie more than ten minutes apart: then its state is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import thalweg as tw
from thalweg.datagen import Sale
from thalweg.examples import running
from thalweg.examples.tpcx_bb import generated
from thalweg.examples.tpcx_bb.pairs import Items, Pair, add, forget, most_frequent, pair_of

CATEGORIES: Final = ("Children", "Electronics", "Home")
STORES: Final = (1, 2, 3, 5, 8)


def sold_in(categories: tuple[str, ...], stores: tuple[int, ...]) -> Callable[[Sale], bool]:
    """A function that says whether a line is of these categories and stores."""

    def eligible(sale: Sale) -> bool:
        return sale.category in categories and sale.store in stores

    return eligible


def sold_together(its: Items, sale: Sale) -> Iterator[Pair]:
    """The pairs of an item that is new on its ticket with those before it, the latest first."""
    its.timer = sale.ts + tw.minutes(10)
    new = add(its, sale.item)
    if new:
        for other in (its.b, its.c, its.d, its.e, its.f, its.g, its.h, its.i, its.j):
            if other:
                yield pair_of(sale.ts, sale.item, other)


def make_flow(
    *,
    categories: tuple[str, ...] = CATEGORIES,
    stores: tuple[int, ...] = STORES,
    at_least: int = 2,
    limit: int = 100,
    lateness: str = "2 minutes",
) -> tw.Flow:
    """Sales to the ranked pairs of each hour."""
    flow = tw.Flow("tpcx_bb_q01")
    sales = flow.source("sales", Sale, order_by="ts", lateness=lateness)
    eligible = sales.filter(sold_in(categories, stores))
    pairs = eligible.key_by("ticket").process(sold_together, state=Items, on_timer=forget)
    most_frequent(pairs, every="1 hour", at_least=at_least, limit=limit).sink("pairs")
    return flow


flow = make_flow()

if __name__ == "__main__":
    running.command(generated.over_sales(flow, "pairs"))
