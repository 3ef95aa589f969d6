"""Query 9: the bid that wins each auction, with all there is to say about both, when the auction ends."""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw
from thalweg.examples.nexmark.records import Auction, Bid


class Entry(NamedTuple):
    """An auction that opens, or a bid (which has ``expires`` 0)."""

    auction: int
    date_time: tw.Timestamp
    expires: tw.Timestamp
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    seller: int
    category: int
    extra: str
    bidder: int
    price: int


class Won(NamedTuple):
    """An auction and its highest bid, of several as high the first."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: tw.Timestamp
    expires: tw.Timestamp
    seller: int
    category: int
    extra: str
    bidder: int
    price: int
    bid_date_time: tw.Timestamp
    bid_extra: str


@tw.state
class Open:
    """An auction that goes on, and its highest bid."""

    timer: tw.Timer
    item_name: str = ""
    description: str = ""
    initial_bid: int = 0
    reserve: int = 0
    date_time: tw.Timestamp = 0
    seller: int = 0
    category: int = 0
    extra: str = ""
    bidder: int = 0
    price: int = 0
    bid_date_time: tw.Timestamp = 0
    bid_extra: str = ""


def opened(auction: Auction) -> Entry:
    return Entry(
        auction.id, auction.date_time, auction.expires, auction.item_name, auction.description,
        auction.initial_bid, auction.reserve, auction.seller, auction.category, auction.extra, 0, 0,
    )  # fmt: skip


def offered(bid: Bid) -> Entry:
    return Entry(
        bid.auction, bid.date_time, 0, "", "", 0, 0, 0, 0, bid.extra, bid.bidder, bid.price
    )


def open_it(open: Open, entry: Entry) -> None:
    open.timer = entry.expires
    open.item_name = entry.item_name
    open.description = entry.description
    open.initial_bid = entry.initial_bid
    open.reserve = entry.reserve
    open.date_time = entry.date_time
    open.seller = entry.seller
    open.category = entry.category
    open.extra = entry.extra


def take(open: Open, entry: Entry) -> None:
    """Bids of an auction that is not open do not count."""
    if entry.expires:
        open_it(open, entry)
    elif open.timer == tw.NEVER:
        tw.drop(open)
    elif entry.price > open.price:
        open.bidder = entry.bidder
        open.price = entry.price
        open.bid_date_time = entry.date_time
        open.bid_extra = entry.extra


def close(open: Open, auction: int, time: tw.Timestamp) -> Won | None:
    if not open.price:
        return None
    return Won(
        auction, open.item_name, open.description, open.initial_bid, open.reserve, open.date_time,
        time, open.seller, open.category, open.extra,
        open.bidder, open.price, open.bid_date_time, open.bid_extra,
    )  # fmt: skip


def q9(auctions: tw.Stream[Auction], bids: tw.Stream[Bid]) -> tw.Stream[Won]:
    """Winning bids, in the order in which auctions close. The state is that of open auctions only."""
    entries = auctions.map(opened).union(bids.map(offered))
    return entries.key_by("auction").process(take, state=Open, on_timer=close)
