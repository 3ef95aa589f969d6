"""Queries over windows of seconds: 5, 7, 11 and 12. A window comes when no row of it can come any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg.examples.nexmark.records import Bidding, Offer, Told


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


class Arrived(NamedTuple):
    """A bidder's bid, at the time at which it was processed."""

    bidder: int
    p_time: tw.Timestamp


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


def by_the_clock(batch: pa.RecordBatch) -> pa.RecordBatch:
    now = np.full(batch.num_rows, time.time_ns() // 1_000)
    times = pa.array(now).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays([batch.column("bidder"), times], names=["bidder", "p_time"])


def q12(bids: tw.Stream[Bidding]) -> tw.Stream[Any]:
    """Processing time windows: bids a user makes within ten seconds by the clock on the wall.

    The one query whose answer depends on when it runs; all windows of a user together have all bids.
    """
    now = bids.map_batches(by_the_clock, into=Arrived)
    in_order = now.order_by("p_time", lateness="1 second")
    return in_order.key_by("bidder").window("10 seconds", bid_count=tw.agg.count())
