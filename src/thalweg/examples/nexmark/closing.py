"""Queries about auctions that close: 4 and 6. Auctions and bids are one stream by auction; a timer ends it.

In SQL the highest bid of an auction is a number that changes with each higher bid, and so do the averages of it. Here
an auction has its price when it has closed, and an average comes with each auction that closes; the last average of
each category, or seller, is SQL's.
"""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw
from thalweg.examples.nexmark.records import Auction, Bid


class Offer(NamedTuple):
    """An auction that opens, or a bid (which has ``expires`` 0)."""

    auction: int
    date_time: tw.Timestamp
    expires: tw.Timestamp
    seller: int
    category: int
    price: int


class Sold(NamedTuple):
    """The price for which an auction closed."""

    auction: int
    seller: int
    category: int
    price: int


class OfCategory(NamedTuple):
    """The average price of a category's auctions so far."""

    category: int
    final: int


class OfSeller(NamedTuple):
    """The average price of a seller's last ten auctions."""

    seller: int
    avg_price: float


@tw.state
class Open:
    """An auction that goes on, and the highest bid."""

    timer: tw.Timer
    seller: int = 0
    category: int = 0
    price: int = 0


@tw.state
class Mean:
    """Sum and number of prices."""

    total: int = 0
    auctions: int = 0


def opened(auction: Auction) -> Offer:
    return Offer(
        auction.id, auction.date_time, auction.expires, auction.seller, auction.category, 0
    )


def offered(bid: Bid) -> Offer:
    return Offer(bid.auction, bid.date_time, 0, 0, 0, bid.price)


def track(open: Open, offer: Offer) -> None:
    """Bids of an auction that is not open do not count."""
    if offer.expires:
        open.timer = offer.expires
        open.seller = offer.seller
        open.category = offer.category
    elif open.timer == tw.NEVER:
        tw.drop(open)
    else:
        open.price = max(open.price, offer.price)


def close(open: Open, auction: int, time: tw.Timestamp) -> Sold | None:
    """The price of an auction that has got bids."""
    return Sold(auction, open.seller, open.category, open.price) if open.price else None


def closed(auctions: tw.Stream[Auction], bids: tw.Stream[Bid]) -> tw.Stream[Sold]:
    """Auctions that were sold, in the order in which they close."""
    offers = auctions.map(opened).union(bids.map(offered))
    return offers.key_by("auction").process(track, state=Open, on_timer=close)


def running_mean(mean: Mean, sold: Sold) -> OfCategory:
    mean.total += sold.price
    mean.auctions += 1
    return OfCategory(sold.category, mean.total // mean.auctions)


def q4(auctions: tw.Stream[Auction], bids: tw.Stream[Bid]) -> tw.Stream[OfCategory]:
    """Average price for a category, with each auction of it that closes."""
    return closed(auctions, bids).key_by("category").process(running_mean, state=Mean)


def q6(auctions: tw.Stream[Auction], bids: tw.Stream[Bid]) -> tw.Stream[OfSeller]:
    """Average selling price by seller, of the last ten auctions that have closed, with each that closes."""
    by_seller = closed(auctions, bids).key_by("seller")
    means = by_seller.rolling(rows=10, avg_price=tw.agg.mean("price"))
    return means.map(lambda row: OfSeller(row.seller, row.avg_price), into=OfSeller)
