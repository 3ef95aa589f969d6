"""Queries over windows of seconds: 5, 7, 11 and 12. A window comes when no row of it can come any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import thalweg as tw
from thalweg.examples.nexmark.records import Arrival, Offer, Told


class Hot(NamedTuple):
    """An auction that got the most bids in a window."""

    auction: int
    num: int
    start: tw.Timestamp
    end: tw.Timestamp


class Counted(NamedTuple):
    """How many bids an auction got in a window."""

    auction: int
    start: tw.Timestamp
    end: tw.Timestamp
    num: int


class Highest(NamedTuple):
    """A bid that was the highest of its ten seconds."""

    auction: int
    price: int
    bidder: int
    date_time: tw.Timestamp
    extra: str


class HotOnes(NamedTuple):
    """The auctions with the most bids of a window."""

    start: tw.Timestamp
    end: tw.Timestamp
    top: list[Counted]


def each_hot(hottest: Any) -> Iterator[Hot]:
    for one in hottest.top:
        yield Hot(one.auction, one.num, one.start, one.end)


def q5(bids: tw.Stream[Offer]) -> tw.Stream[Hot]:
    """Hot items: the auctions with the most bids of the last ten seconds, every two seconds."""
    by_auction = bids.key_by("auction")
    counts = by_auction.window("10 seconds", every="2 seconds", num=tw.agg.count(), name="counts")
    hottest = counts.window("2 seconds", top=tw.agg.top_k(1, by="num", ties=True), name="hottest")
    return hottest.flat_map(each_hot)


def each_highest(window: Any) -> Iterator[Highest]:
    for bid in window.top:
        yield Highest(bid.auction, bid.price, bid.bidder, bid.date_time, bid.extra)


def q7(bids: tw.Stream[Told]) -> tw.Stream[Highest]:
    """Highest bid: those with the highest price of each ten seconds, all of them if there are several."""
    return bids.window("10 seconds", top=tw.agg.top_k(1, by="price", ties=True)).flat_map(
        each_highest
    )


def q11(bids: tw.Stream[Offer]) -> tw.Stream[Any]:
    """User sessions: bids a user makes without a pause of more than ten seconds; ``end`` is the time of the last."""
    return bids.key_by("bidder").sessions("10 seconds", bid_count=tw.agg.count())


def q12(bids: tw.Stream[Arrival]) -> tw.Stream[Any]:
    """Processing time windows: bids a user makes within ten seconds by the clock on the wall.

    The source stamps each bid with the time at which it came. So the answer depends on when the query runs, but a batch
    that is repeated has the same; all windows of a user together have all bids.
    """
    return bids.key_by("bidder").window("10 seconds", bid_count=tw.agg.count())
