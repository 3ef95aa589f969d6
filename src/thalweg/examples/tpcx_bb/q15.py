"""Query 15 of TPCx-BB: the categories whose sales in some stores stay flat or decline, each four weeks.

A straight line is fitted, by least squares, to a category's sales a day, over the days of the period on which
it sold anything. A category comes out when the period is over if it sold on two days or more and the line does
not rise; its slope is in cents a day, more or less each day. Sales and days are whole numbers, so whether a
line rises is known exactly.

In SQL::

    WITH dated AS (
        SELECT *, time_bucket(INTERVAL 28 DAYS, ts, TIMESTAMP '2026-01-05') AS period
        FROM sales WHERE store IN (1, 2, 3, 5, 8)
    ), daily AS (
        SELECT category, period, date_diff('day', period, ts) AS day, sum(quantity * price_cents) AS cents
        FROM dated GROUP BY ALL
    )
    SELECT category, period + INTERVAL 28 DAYS AS until, count(*) AS days,
        sum(cents) AS sales_cents, regr_slope(cents, day) AS slope_cents
    FROM daily GROUP BY category, period HAVING count(*) > 1 AND slope_cents <= 0
    ORDER BY until, category
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import thalweg as tw
from thalweg.datagen import Sale
from thalweg.examples import running
from thalweg.examples.tpcx_bb import generated

STORES: Final = (1, 2, 3, 5, 8)
#: Where a period starts: a Monday.
START: Final = "2026-01-05T00:00:00Z"


class Amount(NamedTuple):
    """What a line adds to its category's sales, on which day of the period before ``until``."""

    category: tw.Category
    until: tw.Timestamp
    day: int
    cents: int


class Trend(NamedTuple):
    """A category whose sales did not rise in the period before ``until``."""

    category: tw.Category
    until: tw.Timestamp
    days: int
    sales_cents: int
    slope_cents: float


@tw.state
class Line:
    """The sums that the line through a category's sales a day (y) by day (x) needs; ``day`` is the latest x."""

    timer: tw.Timer
    day: int = -1
    n: int = 0
    x: int = 0
    y: int = 0
    xx: int = 0
    xy: int = 0


def sold_in(stores: tuple[int, ...]) -> Callable[[Sale], bool]:
    """A function that says whether a line was sold in one of the stores."""

    def in_stores(sale: Sale) -> bool:
        return sale.store in stores

    return in_stores


def in_periods(length: int, start: tw.Timestamp) -> Callable[[Sale], Amount]:
    """A function that finds period and day of a line; one period starts at ``start``, all are so many microseconds."""

    def amount(sale: Sale) -> Amount:
        into = (sale.ts - start) % length
        return Amount(
            sale.category,
            sale.ts - into + length,
            into // tw.days(1),
            sale.quantity * sale.price_cents,
        )

    return amount


def add(line: Line, amount: Amount) -> None:
    """One more line of a ticket; rows come in the order of time, so a day that is over does not come again."""
    line.timer = amount.until - 1
    if amount.day != line.day:
        line.day = amount.day
        line.n += 1
        line.x += amount.day
        line.xx += amount.day * amount.day
    line.y += amount.cents
    line.xy += amount.day * amount.cents


def judge(line: Line, category: str, time: tw.Timestamp) -> Trend | None:
    """The end of a period: the category if its sales were flat or declining."""
    rise = line.n * line.xy - line.x * line.y
    run = line.n * line.xx - line.x * line.x
    if run == 0 or rise > 0:
        return None
    return Trend(category, time + 1, line.n, line.y, rise / run)


def make_flow(
    *,
    stores: tuple[int, ...] = STORES,
    period: str = "28 days",
    start: str = START,
    lateness: str = "2 minutes",
) -> tw.Flow:
    """Sales to the categories that do not sell more and more, by period and name."""
    flow = tw.Flow("tpcx_bb_q15")
    sales = flow.source("sales", Sale, order_by="ts", lateness=lateness).filter(sold_in(stores))
    amounts = sales.map(in_periods(tw.duration(period), tw.timestamp(start)))
    amounts.key_by("category").process(add, state=Line, on_timer=judge, name="trend").sink("trends")
    return flow


flow = make_flow()

if __name__ == "__main__":
    running.command(generated.over_sales(flow, "trends"))
