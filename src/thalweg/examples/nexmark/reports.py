"""Queries that report on a day: 15 to 19.

SQL changes a day's row with each bid; here it comes once, when the day is over, which is the last state of SQL's. With
``early="10 seconds"`` a window gives what there is in between, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import thalweg as tw
from thalweg.examples.nexmark.records import Bid


class Ranked(NamedTuple):
    """A bid and its place among those of its auction."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: tw.Timestamp
    extra: str
    rank_number: int


def is_cheap(bid: Bid) -> bool:
    return bid.price < 10_000


def is_usual(bid: Bid) -> bool:
    return 10_000 <= bid.price < 1_000_000


def is_dear(bid: Bid) -> bool:
    return bid.price >= 1_000_000


def counts() -> dict[str, Any]:
    """Bids of a day, all of them and by price."""
    return {
        "total_bids": tw.agg.count(),
        "rank1_bids": tw.agg.count(where=is_cheap),
        "rank2_bids": tw.agg.count(where=is_usual),
        "rank3_bids": tw.agg.count(where=is_dear),
    }


def distinct(field: str, name: str) -> dict[str, Any]:
    """Different values of a day, of all bids and by price."""
    return {
        f"total_{name}": tw.agg.count_distinct(field),
        f"rank1_{name}": tw.agg.count_distinct(field, where=is_cheap),
        f"rank2_{name}": tw.agg.count_distinct(field, where=is_usual),
        f"rank3_{name}": tw.agg.count_distinct(field, where=is_dear),
    }


def q15(bids: tw.Stream[Bid]) -> tw.Stream[Any]:
    """Bidding statistics: how many bids, bidders and auctions there are in a day, by price."""
    users, items = distinct("bidder", "bidders"), distinct("auction", "auctions")
    return bids.window("1 day", **counts(), **users, **items)


def q16(bids: tw.Stream[Bid]) -> tw.Stream[Any]:
    """Channel statistics: the same for each channel, and the time of its last bid."""
    users, items = distinct("bidder", "bidders"), distinct("auction", "auctions")
    last = tw.agg.max("date_time")
    return bids.key_by("channel").window("1 day", minute=last, **counts(), **users, **items)


def q17(bids: tw.Stream[Bid]) -> tw.Stream[Any]:
    """Auction statistics: how many bids an auction gets in a day, and their prices."""
    return bids.key_by("auction").window(
        "1 day",
        **counts(),
        min_price=tw.agg.min("price"),
        max_price=tw.agg.max("price"),
        avg_price=tw.agg.mean("price"),
        sum_price=tw.agg.sum("price"),
    )


def q18(bids: tw.Stream[Bid]) -> tw.Stream[Any]:
    """Last bid: that of each bidder for each auction in a day."""
    fields = ("price", "channel", "url", "date_time", "extra")
    last: dict[str, Any] = {field: tw.agg.last(field) for field in fields}
    return bids.key_by("bidder", "auction").window("1 day", **last)


def ranked(day: Any) -> Iterator[Ranked]:
    for place, bid in enumerate(day.top, 1):
        yield Ranked(
            bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.date_time, bid.extra, place
        )  # fmt: skip


def q19(bids: tw.Stream[Bid]) -> tw.Stream[Ranked]:
    """The ten highest bids of each auction in a day."""
    top = bids.key_by("auction").window("1 day", top=tw.agg.top_k(10, by="price"))
    return top.flat_map(ranked)
