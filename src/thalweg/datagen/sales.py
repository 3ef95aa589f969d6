"""What the stores of a shop sell: tickets of a few lines each, merged into one stream in order of arrival.

The columns are those of ``store_sales`` in TPC-DS as queries 1 and 15 of TPCx-BB read it, with the time at which a line
was scanned in place of the date and time of the whole ticket.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.datagen import frames
from thalweg.datagen.frames import FRAME_SIZE, MOST_IDS, Array, Pace, Rows, require
from thalweg.datagen.items import CATEGORIES, NEW, PARTNER, category, linked, popular, price_cents
from thalweg.flow.records import Category, Schema, Timestamp
from thalweg.times import SECOND


class Sale(NamedTuple):
    """One line of a ticket: some pieces of an item, sold in a store."""

    ts: Timestamp
    ticket: int
    store: int
    customer: int
    item: int
    category: Category
    quantity: int
    price_cents: int


#: The Arrow schema of every batch and file.
SALE_SCHEMA: Final[pa.Schema] = Schema.of(Sale).arrow

#: No ticket has more lines than this.
MAX_LINES: Final = 12
#: Chance that one more line follows a line.
_MORE_LINES: Final = 0.8
_MEAN_LINES: Final = (1 - _MORE_LINES**MAX_LINES) / (1 - _MORE_LINES)
#: A line is scanned so long after the one before.
_LEAST_SCAN_US: Final = SECOND
_MEAN_SCAN_US: Final = 3 * SECOND
_MAX_SCAN_US: Final = 30 * SECOND
_MEAN_MORE_PIECES: Final = 0.8
_MAX_PIECES: Final = 20
#: Of the lines behind another one: those with the partner of its item.
_PARTNER_SHARE: Final = 0.25
#: By how much of its mean a category's share of the lines rises from the middle of the days to their end,
#: and falls towards their begin; the sum is 0, so all together sell as much on each day.
_TRENDS: Final = np.array([-0.5, 0.0, 0.6, 0.0, -0.3, 0.1, -0.6, 0.2, 0.4, 0.1])


@dataclasses.dataclass(frozen=True, slots=True)
class _SalesPlan:
    """The arguments of :func:`store_sales`, checked."""

    pace: Pace
    items: int
    stores: int
    #: cumulated share of the customers in order of their activity
    activity: Array


def store_sales(
    rows: int,
    customers: int = 50_000,
    seed: int = 0,
    days: float = 28,
    *,
    items: int = 20_000,
    stores: int = 12,
    skew: float = 0.7,
    start: str = "2026-01-05T00:00:00Z",
    disorder_s: float = 0.0,
    duplicates: float = 0.0,
    block_rows: int = 65_536,
) -> Iterator[pa.RecordBatch]:
    """Lines of tickets in order of arrival, as record batches of ``SALE_SCHEMA``.

    A ticket has 4.7 lines on average and at most ``MAX_LINES``, scanned some seconds apart. Each item has a partner
    with which it is sold often. Of the ten categories some sell more from day to day (Electronics), some less
    (Music), some neither (Home). The same arguments give the same rows for every ``block_rows``; memory is bounded
    by it and by the tickets open at one time.

    Args:
        rows: how many rows come out, duplicates included.
        customers: how many customers there are; not all of them need to buy.
        seed: another seed, other rows.
        days: how much time the rows span, approximately.
        items: how many items there are, a tenth of them in each category.
        stores: how many stores there are; those of small number sell more.
        skew: exponent of the customers' Zipf-like activity; 0 makes all customers equal.
        start: when the first ticket starts, ISO 8601.
        disorder_s: rows arrive by this at most after a row of later time; 0 for time order.
        duplicates: share of the lines that arrive a second time.
        block_rows: rows a batch.

    Raises:
        ValueError: an argument is out of its range.

    Example::

        >>> next(store_sales(1000, customers=10)).num_rows
        1000
    """
    require("customers", customers, 1 <= customers <= MOST_IDS, f"1 to {MOST_IDS}")
    least = len(CATEGORIES)
    require("items", items, items >= least, f"{least} or more, one a category")
    require("stores", stores, stores >= 1, "1 or more")
    require("skew", skew, skew >= 0, "0 or more")
    pace = Pace.of(rows, seed, days, start, disorder_s, duplicates, mean_rows=_MEAN_LINES)
    plan = _SalesPlan(pace, items, stores, frames.activity(customers, skew))
    return frames.batches(pace, functools.partial(_frame, plan), _batch, block_rows)


def _batch(columns: tuple[Array, ...]) -> pa.RecordBatch:
    ts, ticket, store, customer, item, quantity = columns
    names = pa.array(CATEGORIES)
    arrays = [
        pa.array(ts).cast(pa.timestamp("us", tz="UTC")),
        pa.array(ticket),
        pa.array(store),
        pa.array(customer),
        pa.array(item),
        pa.DictionaryArray.from_arrays(category(item), names).cast(pa.string()),
        pa.array(quantity),
        pa.array(price_cents(item)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SALE_SCHEMA)


def _frame(plan: _SalesPlan, frame: int) -> Rows:
    """The lines of the tickets that start in a frame, ticket by ticket."""
    pace = plan.pace
    rng = pace.random(frame)
    lines = frames.exponential(rng, FRAME_SIZE, -1 / np.log(_MORE_LINES), MAX_LINES - 1) + 1
    first = np.cumsum(lines) - lines
    size = int(lines.sum())
    rank = frames.ranks(rng, FRAME_SIZE, plan.activity)
    store = popular(rng.random(FRAME_SIZE), plan.stores) + 1
    started = frames.starts(rng, pace, frame)
    scan = frames.exponential(rng, size, _MEAN_SCAN_US, _MAX_SCAN_US) + _LEAST_SCAN_US
    scan[first] = started
    ts = frames.times_within(lines, scan)
    ticket = frame * FRAME_SIZE + np.arange(FRAME_SIZE) + 1
    by_ticket = (ticket, store, frames.ids(rank, pace.seed))
    item = _items(rng, plan, ts, first)
    more = frames.exponential(rng, size, _MEAN_MORE_PIECES, _MAX_PIECES - 1)
    columns = (ts, *(np.repeat(one, lines) for one in by_ticket), item, more + 1)
    return frames.delayed(rng, columns, pace)


def _items(rng: np.random.Generator, plan: _SalesPlan, ts: Array, first: Array) -> Array:
    """The item of each line: a category of the day's mix, then an item of it, or the partner of the line before."""
    kinds = len(CATEGORIES)
    kind = _drawn_category(rng.random(len(ts)), plan.pace, ts)
    count = (plan.items - kind + kinds - 1) // kinds
    drawn = popular(rng.random(len(ts)), count) * kinds + kind + 1
    link = np.where(rng.random(len(ts)) < _PARTNER_SHARE, PARTNER, NEW)
    link[first] = NEW
    return linked(drawn, link, plan.items)


def _drawn_category(draw: Array, pace: Pace, ts: Array) -> Array:
    """The category that a draw in [0, 1) means at a time: its share of the lines is a straight line over the days."""
    tilt = 2 * np.clip((ts - pace.start_us) / pace.span_us, 0, 1) - 1
    level, slope = np.arange(1, 11) / 10, np.cumsum(_TRENDS) / 10
    found = np.zeros(len(ts), np.int64)
    for upper, rise in zip(level[:-1], slope[:-1], strict=True):
        found += draw >= upper + rise * tilt
    return found
