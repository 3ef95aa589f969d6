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
