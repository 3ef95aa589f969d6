"""NEXMark's persons, auctions and bids in order of arrival, by the specification's distributions.

All is drawn by the column, in bounded memory. Each kind of event is a stream with random generators of its own, frame
by frame, so one kind can be had without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.examples.nexmark.records import Auction, Bid, Person, SideRow
from thalweg.flow.records import Schema
from thalweg_lab.nexmark import texts
from thalweg_lab.nexmark.spec import (
    CATEGORIES,
    FIRST_AUCTION,
    FIRST_CATEGORY,
    FIRST_PERSON,
    HOT_OF,
    LEAD,
    MILLISECOND,
    Array,
    Kind,
    Spec,
)

PERSON_SCHEMA: Final[pa.Schema] = Schema.of(Person).arrow
AUCTION_SCHEMA: Final[pa.Schema] = Schema.of(Auction).arrow
BID_SCHEMA: Final[pa.Schema] = Schema.of(Bid).arrow
SIDE_SCHEMA: Final[pa.Schema] = Schema.of(SideRow).arrow

STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES: Final = (
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
)  # fmt: skip
LAST_NAMES: Final = (
    "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris",
)  # fmt: skip
HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS: Final = 10_000


def stream(spec: Spec, kind: Kind) -> Iterator[pa.RecordBatch]:
    """The persons, auctions or bids in order of arrival, a frame a batch.

    Example::

        >>> sum(batch.num_rows for batch in stream(Spec(1_000), "bids"))
        920
    """
    makers: dict[Kind, Callable[[Spec, int, Array], pa.RecordBatch]] = {
        "persons": _Persons(spec),
        "auctions": _Auctions(spec),
        "bids": _Bids(spec),
    }
    for frame in range(spec.frames):
        numbers = spec.of_kind(kind, frame)
        if len(numbers):
            yield makers[kind](spec, frame, numbers)


def side_input(spec: Spec) -> pa.RecordBatch:
    """Query 13's table: row ``i`` has the text of ``i``, and then one row after the other changes, in order of time."""
    changes = 0
    if spec.side_every and spec.side_rows:
        changes = max(spec.events - 1, 0) // spec.side_every
    changed = np.random.default_rng([spec.seed, 1 << 41]).integers(0, spec.side_rows or 1, changes)
    keys = np.concatenate([np.arange(spec.side_rows), changed])
    versions = np.arange(1, changes + 1)
    values = [*map(str, range(spec.side_rows)), *map("{}.{}".format, changed, versions)]
    numbers = np.concatenate([np.zeros(spec.side_rows, np.int64), versions * spec.side_every])
    columns = [pa.array(keys), pa.array(values, pa.string()), _timestamps(spec.times(numbers))]
    return pa.RecordBatch.from_arrays(columns, schema=SIDE_SCHEMA)


def _timestamps(times: Array) -> pa.Array:
    return pa.array(times).cast(pa.timestamp("us", tz="UTC"))


def _prices(rng: np.random.Generator, rows: int) -> Array:
    """1 to 1,000,000 dollars in cents; its logarithm is uniform."""
    prices: Array = np.rint(10.0 ** (rng.random(rows) * 6.0) * 100.0).astype(np.int64)
    return prices


def _any_person(rng: np.random.Generator, spec: Spec, last: Array) -> Array:
    """One of the active persons, or of those who come next."""
    active = np.minimum(last + 1, spec.active_people)
    person: Array = last + 1 - active + rng.integers(0, active + LEAD)
    return person


def _hot(rng: np.random.Generator, ratio: int, rows: int) -> Array:
    hot: Array = rng.integers(0, ratio, rows) > 0
    return hot


class _Persons:
    """Makes persons."""

    def __init__(self, spec: Spec) -> None:
        self._pool = texts.pool(spec.seed)

    def __call__(self, spec: Spec, frame: int, numbers: Array) -> pa.RecordBatch:
        rng, rows = spec.random(frame, 0), len(numbers)
        name = _joined(
            texts.picks(rng, rows, FIRST_NAMES), texts.picks(rng, rows, LAST_NAMES), by=" "
        )
        email = _joined(texts.words(rng, rows, 7), texts.words(rng, rows, 5), by="@")
        email = pc.binary_join_element_wise(email, ".com", "")
        four = pa.array([f"{number:04d}" for number in range(10_000)])
        card = [four.take(pa.array(rng.integers(0, 10_000, rows))) for _ in range(4)]
        words = [name, email, _joined(*card, by=" "), texts.picks(rng, rows, CITIES)]
        words.append(texts.picks(rng, rows, STATES))
        used = 8 + texts.sizes(*words)
        extra = texts.fillers(rng, self._pool, used, spec.person_bytes, rows)
        ids = pa.array(spec.last_person(numbers) + FIRST_PERSON)
        columns = [ids, *words, _timestamps(spec.times(numbers)), extra]
        return pa.RecordBatch.from_arrays(columns, schema=PERSON_SCHEMA)


def _joined(*columns: pa.Array, by: str) -> pa.Array:
    return pc.binary_join_element_wise(*columns, by)


class _Auctions:
    """Makes auctions."""

    def __init__(self, spec: Spec) -> None:
        self._pool = texts.pool(spec.seed)

    def __call__(self, spec: Spec, frame: int, numbers: Array) -> pa.RecordBatch:
        rng, rows = spec.random(frame, 1), len(numbers)
        last = spec.last_person(numbers)
        hot = _hot(rng, spec.hot_sellers_ratio, rows)
        seller = np.where(hot, last // HOT_OF * HOT_OF, _any_person(rng, spec, last))
        initial = _prices(rng, rows)
        times = spec.times(numbers)
        ahead = spec.in_flight_auctions * spec.epoch // spec.auction_proportion
        horizon = (spec.times(numbers + ahead) - times) // MILLISECOND
        length = 1 + rng.integers(0, np.maximum(horizon * 2, 1))
        name, description = texts.words(rng, rows, 20), texts.words(rng, rows, 100)
        used = 48 + texts.sizes(name, description)
        columns = [
            pa.array(spec.last_auction(numbers) + FIRST_AUCTION),
            name,
            description,
            pa.array(initial),
            pa.array(initial + _prices(rng, rows)),
            _timestamps(times),
            _timestamps(times + length * MILLISECOND),
            pa.array(seller + FIRST_PERSON),
            pa.array(FIRST_CATEGORY + rng.integers(0, CATEGORIES, rows)),
            texts.fillers(rng, self._pool, used, spec.auction_bytes, rows),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=AUCTION_SCHEMA)


class _Bids:
    """Makes bids; channels and their addresses are drawn once."""

    def __init__(self, spec: Spec) -> None:
        self._pool = texts.pool(spec.seed)
        self._channels, self._urls = _channels(spec.seed)

    def __call__(self, spec: Spec, frame: int, numbers: Array) -> pa.RecordBatch:
        rng, rows = spec.random(frame, 2), len(numbers)
        last = spec.last_person(numbers)
        hot = _hot(rng, spec.hot_bidders_ratio, rows)
        # The second of the hundred, so that the hot bidder is not the hot seller.
        bidder = np.where(hot, last // HOT_OF * HOT_OF + 1, _any_person(rng, spec, last))
        channel = rng.integers(0, len(HOT_CHANNELS), rows)
        usual = len(HOT_CHANNELS) + rng.integers(0, CHANNELS, rows)
        channel = pa.array(np.where(rng.integers(0, 2, rows) > 0, channel, usual))
        columns = [
            pa.array(_auction(rng, spec, numbers) + FIRST_AUCTION),
            pa.array(bidder + FIRST_PERSON),
            pa.array(_prices(rng, rows)),
            self._channels.take(channel),
            self._urls.take(channel),
            _timestamps(spec.times(numbers)),
            texts.fillers(rng, self._pool, 32, spec.bid_bytes, rows),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=BID_SCHEMA)


def _auction(rng: np.random.Generator, spec: Spec, numbers: Array) -> Array:
    """The auction of each bid: the hot one, or one of those in flight, or one that comes next."""
    last = spec.last_auction(numbers)
    least = np.maximum(last - spec.in_flight_auctions, 0)
    any_one = least + rng.integers(0, last - least + 1 + LEAD)
    hot = _hot(rng, spec.hot_auction_ratio, len(numbers))
    auction: Array = np.where(hot, last // HOT_OF * HOT_OF, any_one)
    return auction


def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """All channels, the hot ones first, and their addresses; nine in ten of the others have their number in it."""
    rng = np.random.default_rng([seed, 1 << 42])
    rows = len(HOT_CHANNELS) + CHANNELS
    parts = [texts.words(rng, rows, 5, "_") for _ in range(3)]
    urls = _joined("https://www.nexmark.com", *parts, "item.htm?query=1", by="/").to_pylist()
    for number in np.flatnonzero(rng.integers(0, 10, CHANNELS) > 0):
        urls[len(HOT_CHANNELS) + number] += f"&channel_id={_turned(int(number))}"
    names = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]
    return pa.array(names), pa.array(urls)


def _turned(number: int) -> int:
    """The 32 bits in reverse as a signed number, without its sign; Java leaves the least number its sign."""
    bits = int(f"{number:032b}"[::-1], 2)
    if bits <= 1 << 31:
        return bits if bits < 1 << 31 else -bits
    return (1 << 32) - bits
