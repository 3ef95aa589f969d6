"""The records of NEXMark: persons, auctions and bids of an online auction, and the table that query 13 looks up in."""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw


class Person(NamedTuple):
    """Somebody who sells or bids."""

    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: tw.Timestamp
    extra: str


class Auction(NamedTuple):
    """An item that is for sale from ``date_time`` until ``expires``, both included."""

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


class Bid(NamedTuple):
    """What a person offers for the item of an auction, in cents."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: tw.Timestamp
    extra: str


class SideRow(NamedTuple):
    """A row of query 13's table, and since when it holds."""

    key: int
    value: str
    date_time: tw.Timestamp


class Offer(NamedTuple):
    """What most queries read of a bid: a source reads the columns that its record names, and no others."""

    auction: int
    bidder: int
    price: int
    date_time: tw.Timestamp


class Bidding(NamedTuple):
    """Who makes a bid, and when: all that query 12 reads."""

    bidder: int
    date_time: tw.Timestamp


class Opening(NamedTuple):
    """What most queries read of an auction."""

    id: int
    date_time: tw.Timestamp
    expires: tw.Timestamp
    seller: int
    category: int


class Resident(NamedTuple):
    """What queries 3 and 8 read of a person."""

    id: int
    name: str
    city: str
    state: str
    date_time: tw.Timestamp


class Told(NamedTuple):
    """A bid without channel and address."""

    auction: int
    bidder: int
    price: int
    date_time: tw.Timestamp
    extra: str


class Shown(NamedTuple):
    """Where a bid was made."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: tw.Timestamp


class InChannel(NamedTuple):
    """What query 16 reads of a bid."""

    auction: int
    bidder: int
    price: int
    channel: str
    date_time: tw.Timestamp
