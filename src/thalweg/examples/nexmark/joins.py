"""Queries that bring two streams together: 3, 8, 13 and 20.

SQL keeps all rows of both sides for ever. Here an auction, or a person, stays for ever, since its partners may come at
any time; what comes *before* its partner waits for it for ten seconds. (The generator uses a few ids some milliseconds
early.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import thalweg as tw
from thalweg.examples.nexmark.records import Auction, Bid, Person, SideRow

STATES = ("OR", "ID", "CA")
WAITS = "10 seconds"


class Local(NamedTuple):
    """An auction, and who sells."""

    name: str
    city: str
    state: str
    id: int


class Keyed(NamedTuple):
    """A bid with the key of query 13's table."""

    auction: int
    bidder: int
    price: int
    date_time: tw.Timestamp
    key: int


class WithValue(NamedTuple):
    """A bid and what the table has for it."""

    auction: int
    bidder: int
    price: int
    date_time: tw.Timestamp
    value: str


class Expanded(NamedTuple):
    """A bid and its auction."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    bid_date_time: tw.Timestamp
    bid_extra: str
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    auction_date_time: tw.Timestamp
    expires: tw.Timestamp
    seller: int
    category: int
    auction_extra: str


def of_category_10(auction: Auction) -> bool:
    return auction.category == 10


def is_near(person: Person) -> bool:
    return person.state in STATES


def local(auction: Auction, person: Person) -> Local:
    return Local(person.name, person.city, person.state, auction.id)


def q3(persons: tw.Stream[Person], auctions: tw.Stream[Auction]) -> tw.Stream[Local]:
    """Local item suggestion: who sells in Oregon, Idaho or California in category 10."""
    wanted, near = auctions.filter(of_category_10), persons.filter(is_near)
    return wanted.join(near, local, on={"seller": "id"}, before=tw.NEVER, after=WAITS)


def q8(persons: tw.Stream[Person], auctions: tw.Stream[Auction]) -> tw.Stream[Any]:
    """Monitor new users: who has come and opened an auction within the same ten seconds."""
    new = persons.key_by("id").window("10 seconds", called=tw.agg.first("name"), name="new")
    by_seller = auctions.key_by("seller")
    sellers = by_seller.window("10 seconds", opened=tw.agg.count(), name="sellers")
    return new.join(sellers, on={"id": "seller", "start": "start"}, within=0)


def keyed(bid: Bid) -> Keyed:
    return Keyed(bid.auction, bid.bidder, bid.price, bid.date_time, bid.auction % 10_000)


def with_value(row: Any) -> WithValue | None:
    if row.value is None:
        return None
    return WithValue(row.auction, row.bidder, row.price, row.date_time, row.value)


def q13(side: tw.Stream[SideRow], bids: tw.Stream[Bid]) -> tw.Stream[WithValue]:
    """Side input: each bid with the value that the table has at its time; the table changes slowly."""
    return bids.map(keyed).lookup(side, on="key").map(with_value)


def expanded(bid: Bid, auction: Auction) -> Expanded:
    return Expanded(
        bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.date_time, bid.extra,
        auction.item_name, auction.description, auction.initial_bid, auction.reserve,
        auction.date_time, auction.expires, auction.seller, auction.category, auction.extra,
    )  # fmt: skip


def q20(auctions: tw.Stream[Auction], bids: tw.Stream[Bid]) -> tw.Stream[Expanded]:
    """Expand a bid with its auction, where that is of category 10."""
    wanted = auctions.filter(of_category_10)
    return bids.join(wanted, expanded, on={"auction": "id"}, before=tw.NEVER, after=WAITS)
