"""The knobs of NEXMark's generator, and the numbers and times of its events, by the specification.

Names and defaults are those of the public generator (repository nexmark/nexmark, after Apache Beam's suite). Every 50
numbers of events (an *epoch*) are 1 person, 3 auctions and 46 bids, in this order. With ``out_of_order_group`` above 1
the events of each group of so many numbers come in another order.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal

import numpy as np

from thalweg.datagen.frames import require
from thalweg.times import SECOND, timestamp

Array = np.ndarray[Any, np.dtype[Any]]
Kind = Literal["persons", "auctions", "bids"]
KINDS: Final[tuple[Kind, ...]] = ("persons", "auctions", "bids")

MILLISECOND: Final = 1_000
FIRST_PERSON: Final = 1000
FIRST_AUCTION: Final = 1000
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
#: One in so many persons or auctions is hot at a time.
HOT_OF: Final = 100
#: So many persons and auctions that do not exist yet are drawn, too.
LEAD: Final = 10
#: Events of a frame, which has random generators of its own: part of what the data are, so a constant.
FRAME_EVENTS: Final = 102_400


@dataclasses.dataclass(frozen=True, slots=True)
class Spec:
    """What is generated; the defaults are the specification's, but for the start, which is always the same.

    Args:
        events: how many there are, persons, auctions and bids together.
        seed: another seed, other events.
        rate: events a second of event time.
        person_proportion: persons of an epoch.
        auction_proportion: auctions of an epoch.
        bid_proportion: bids of an epoch.
        hot_auction_ratio: all but one in so many bids are for the hot auction of the time.
        hot_bidders_ratio: all but one in so many bids are by the hot bidder of the time.
        hot_sellers_ratio: all but one in so many auctions are of the hot seller of the time.
        active_people: so many of the latest persons sell and bid.
        in_flight_auctions: so many of the latest auctions get bids; an auction lasts as long on average.
        out_of_order_group: events of a group that come in another order; 1 for time order.
        person_bytes, auction_bytes, bid_bytes: average size of a row, which the field ``extra`` fills.
        start: the time of event 0, ISO 8601.
        side_rows: keys of query 13's table.
        side_every: a row of it changes with every so many events; 0 for never.
    """

    events: int
    seed: int = 0
    rate: float = 10_000.0
    person_proportion: int = 1
    auction_proportion: int = 3
    bid_proportion: int = 46
    hot_auction_ratio: int = 2
    hot_bidders_ratio: int = 4
    hot_sellers_ratio: int = 4
    active_people: int = 1000
    in_flight_auctions: int = 100
    out_of_order_group: int = 1
    person_bytes: int = 200
    auction_bytes: int = 500
    bid_bytes: int = 100
    start: str = "2026-01-05T00:00:00Z"
    side_rows: int = 10_000
    side_every: int = 1_000

    def __post_init__(self) -> None:
        for name in ("events", "seed", "side_rows", "side_every"):
            require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in ("events", "seed", "start", "side_rows", "side_every"):
                require(field.name, value, value > 0, "more than 0")

    @property
    def epoch(self) -> int:
        """Events of an epoch."""
        return self.person_proportion + self.auction_proportion + self.bid_proportion

    @property
    def lateness_s(self) -> float:
        """By so much at most is an event behind the latest one, seconds."""
        return self.out_of_order_group / self.rate + 0.001

    def numbers(self, frame: int) -> Array:
        """The numbers of a frame's events in the order in which they come."""
        come = np.arange(frame * FRAME_EVENTS, min((frame + 1) * FRAME_EVENTS, self.events))
        group = self.out_of_order_group
        numbers: Array = come // group * group + come * 953 % group
        return numbers

    def of_kind(self, kind: Kind, frame: int) -> Array:
        """The numbers of a frame's persons, auctions or bids."""
        numbers = self.numbers(frame)
        place = numbers % self.epoch
        first = self.person_proportion + self.auction_proportion
        if kind == "persons":
            chosen = place < self.person_proportion
        elif kind == "auctions":
            chosen = (place >= self.person_proportion) & (place < first)
        else:
            chosen = place >= first
        return numbers[chosen]

    @property
    def frames(self) -> int:
        return -(-self.events // FRAME_EVENTS)

    def count(self, kind: Kind) -> int:
        """How many persons, auctions or bids there are."""
        return sum(len(self.of_kind(kind, frame)) for frame in range(self.frames))

    def times(self, numbers: Array) -> Array:
        """The event times, whole milliseconds, in microseconds."""
        passed = (numbers * (SECOND / self.rate)).astype(np.int64)
        times: Array = timestamp(self.start) + passed // MILLISECOND * MILLISECOND
        return times

    def last_person(self, numbers: Array) -> Array:
        """The latest person at each event, from 0; of a person itself."""
        place = np.minimum(numbers % self.epoch, self.person_proportion - 1)
        last: Array = numbers // self.epoch * self.person_proportion + place
        return last

    def last_auction(self, numbers: Array) -> Array:
        """The latest auction at each event, from 0; of an auction itself. -1 before the first."""
        place = numbers % self.epoch - self.person_proportion
        epoch = numbers // self.epoch - (place < 0)
        place = np.where(place < 0, self.auction_proportion - 1, place)
        place = np.minimum(place, self.auction_proportion - 1)
        last: Array = epoch * self.auction_proportion + place
        return last

    def random(self, frame: int, kind: int) -> np.random.Generator:
        """The random generator of a frame's events of a kind."""
        return np.random.default_rng([self.seed, frame, kind])
