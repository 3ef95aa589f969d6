"""Queries that look at one bid at a time: 0, 1, 2, 10, 14, 21 and 22."""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw
from thalweg.examples.nexmark.records import Bid

#: Euros for a dollar.
RATE = 0.908


class Passed(NamedTuple):
    """A bid without channel and address."""

    auction: int
    bidder: int
    price: int
    date_time: tw.Timestamp
    extra: str


class InEuros(NamedTuple):
    """A bid, its price in euros."""

    auction: int
    bidder: int
    price: float
    date_time: tw.Timestamp
    extra: str


class Price(NamedTuple):
    """What was bid for an auction."""

    auction: int
    price: int


class Filed(NamedTuple):
    """A bid with its day and minute, which name the folder of its file."""

    auction: int
    bidder: int
    price: int
    date_time: tw.Timestamp
    extra: str
    dt: str
    hm: str


class Calculated(NamedTuple):
    """A bid in euros, the part of the day, and how often the letter c is in its text."""

    auction: int
    bidder: int
    price: float
    bid_time_type: str
    date_time: tw.Timestamp
    extra: str
    c_counts: int


class WithChannel(NamedTuple):
    """A bid with the number of its channel."""

    auction: int
    bidder: int
    price: int
    channel: str
    channel_id: str


class WithFolders(NamedTuple):
    """A bid with the folders of its address."""

    auction: int
    bidder: int
    price: int
    channel: str
    dir1: str
    dir2: str
    dir3: str


def passed(bid: Bid) -> Passed:
    return Passed(bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra)


def q0(bids: tw.Stream[Bid]) -> tw.Stream[Passed]:
    """Pass through: every bid."""
    return bids.map(passed)


def in_euros(bid: Bid) -> InEuros:
    return InEuros(bid.auction, bid.bidder, RATE * bid.price, bid.date_time, bid.extra)


def q1(bids: tw.Stream[Bid]) -> tw.Stream[InEuros]:
    """Currency conversion: prices in euros, as floats where SQL has decimals."""
    return bids.map(in_euros)


def some_auctions(bid: Bid) -> Price | None:
    return Price(bid.auction, bid.price) if bid.auction % 123 == 0 else None


def q2(bids: tw.Stream[Bid]) -> tw.Stream[Price]:
    """Selection: the prices of some auctions."""
    return bids.map(some_auctions)


def filed(bid: Bid) -> Filed:
    text = tw.times.text(bid.date_time)
    return Filed(
        bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra, text[:10], text[11:16]
    )


def q10(bids: tw.Stream[Bid]) -> tw.Stream[Filed]:
    """Log to a file system: give the sink ``tw.to_files(folder, partition_by=("dt", "hm"))``."""
    return bids.map(filed)


def calculated(bid: Bid) -> Calculated | None:
    price = RATE * bid.price
    if not 1_000_000 < price < 50_000_000:
        return None
    hour = tw.times.hour(bid.date_time)
    if 8 <= hour <= 18:
        kind = "dayTime"
    elif hour <= 6 or hour >= 20:
        kind = "nightTime"
    else:
        kind = "otherTime"
    return Calculated(
        bid.auction, bid.bidder, price, kind, bid.date_time, bid.extra, bid.extra.count("c")
    )


def q14(bids: tw.Stream[Bid]) -> tw.Stream[Calculated]:
    """Calculation: dear bids, with what is computed of them."""
    return bids.map(calculated)


def with_channel(bid: Bid) -> WithChannel | None:
    """SQL looks for ``(&|^)channel_id=([^&]*)``."""
    channel = bid.channel.lower()
    if channel == "apple":
        number = "0"
    elif channel == "google":
        number = "1"
    elif channel == "facebook":
        number = "2"
    elif channel == "baidu":
        number = "3"
    else:
        _, found, rest = f"&{bid.url}".partition("&channel_id=")
        if not found:
            return None
        number = rest.split("&")[0]
    return WithChannel(bid.auction, bid.bidder, bid.price, bid.channel, number)


def q21(bids: tw.Stream[Bid]) -> tw.Stream[WithChannel]:
    """Add a channel's number, which a table or the address has; bids without one are left out."""
    return bids.map(with_channel)


def with_folders(bid: Bid) -> WithFolders:
    parts = bid.url.split("/")
    return WithFolders(
        bid.auction, bid.bidder, bid.price, bid.channel, parts[3], parts[4], parts[5]
    )


def q22(bids: tw.Stream[Bid]) -> tw.Stream[WithFolders]:
    """The folders of a bid's address."""
    return bids.map(with_folders)
