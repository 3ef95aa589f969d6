"""A web shop's clicks: visits of users, merged into one stream in order of arrival.

The columns and the shares are those of ``web_clickstreams`` as queries 2, 3 and 4 of TPCx-BB read it. What goes into
the cart is what was looked at just before, what is bought is what went into the cart last, and an item is often
looked at right after its partner (:mod:`thalweg.datagen.items`).
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
from thalweg.datagen.items import NEW, PARTNER, SAME, linked, popular
from thalweg.flow.records import Category, Schema, Timestamp
from thalweg.times import SECOND


class Click(NamedTuple):
    """One request of a user to the shop."""

    ts: Timestamp
    user: int
    item: int
    action: Category


#: What a click can be, most frequent first.
ACTIONS: Final = ("view", "search", "cart", "checkout", "review")
#: The Arrow schema of every batch and file.
CLICK_SCHEMA: Final[pa.Schema] = Schema.of(Click).arrow

_VIEW, _SEARCH, _CART, _CHECKOUT, _REVIEW = range(len(ACTIONS))

_MEAN_PAGES: Final = 9.2
_MAX_PAGES: Final = 250
_MEAN_THINK_US: Final = 45 * SECOND
#: Well below the 60 minutes that part two sessions.
_MAX_THINK_US: Final = 20 * 60 * SECOND
#: Of the sessions: those that fill a cart and leave, and those that buy (when they have two clicks).
_ABANDON_SHARE: Final = 0.2
_BUY_SHARE: Final = 0.12
_EXTRA_CART_SHARE: Final = 0.06
_SEARCH_SHARE: Final = 0.15
_REVIEW_SHARE: Final = 0.03
#: Of the clicks behind another one: those on the partner of its item.
_PARTNER_SHARE: Final = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class _ClicksPlan:
    """The arguments of :func:`clickstream`, checked."""

    pace: Pace
    items: int
    #: cumulated share of the users in order of their activity
    activity: Array


def clickstream(
    rows: int,
    users: int = 100_000,
    seed: int = 0,
    days: float = 7,
    *,
    items: int = 20_000,
    skew: float = 0.7,
    start: str = "2026-01-05T00:00:00Z",
    disorder_s: float = 0.0,
    duplicates: float = 0.0,
    block_rows: int = 65_536,
) -> Iterator[pa.RecordBatch]:
    """Clicks in order of arrival, as record batches of ``CLICK_SCHEMA``.

    At 5 million rows and the defaults: about 450,000 sessions at a gap of 60 minutes, by some 92,000 users, 22 %
    of them abandoned carts; the busiest user has 0.4 % of the clicks. The same arguments give the same rows for
    every ``block_rows``; memory is bounded by it and by the sessions open at one time.

    Args:
        rows: how many rows come out, duplicates included.
        users: how many users there are; not all of them need to click.
        seed: another seed, other rows.
        days: how much time the rows span, approximately.
        items: how many items the shop has.
        skew: exponent of the users' Zipf-like activity; 0 makes all users equal.
        start: when the first session starts, ISO 8601.
        disorder_s: rows arrive by this at most after a row of later time; 0 for time order.
        duplicates: share of the clicks that arrive a second time.
        block_rows: rows a batch.

    Raises:
        ValueError: an argument is out of its range.

    Example::

        >>> next(clickstream(1000, users=10)).num_rows
        1000
    """
    require("users", users, 1 <= users <= MOST_IDS, f"1 to {MOST_IDS}")
    require("items", items, items >= 1, "1 or more")
    require("skew", skew, skew >= 0, "0 or more")
    pace = Pace.of(rows, seed, days, start, disorder_s, duplicates, mean_rows=_MEAN_PAGES)
    plan = _ClicksPlan(pace, items, frames.activity(users, skew))
    return frames.batches(pace, functools.partial(_frame, plan), _batch, block_rows)


def _batch(columns: tuple[Array, ...]) -> pa.RecordBatch:
    ts, user, item, action = columns
    arrays = [
        pa.array(ts).cast(pa.timestamp("us", tz="UTC")),
        pa.array(user),
        pa.array(item),
        pa.DictionaryArray.from_arrays(action, pa.array(ACTIONS)).cast(pa.string()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=CLICK_SCHEMA)


def _frame(plan: _ClicksPlan, frame: int) -> Rows:
    """The clicks of the sessions that start in a frame, session by session."""
    pace = plan.pace
    rng = pace.random(frame)
    mean = -1 / np.log1p(-1 / _MEAN_PAGES)
    pages = frames.exponential(rng, FRAME_SIZE, mean, _MAX_PAGES - 1) + 1
    first = np.cumsum(pages) - pages
    clicks = int(pages.sum())
    rank = frames.ranks(rng, FRAME_SIZE, plan.activity)
    started = frames.starts(rng, pace, frame)
    think = frames.exponential(rng, clicks, _MEAN_THINK_US, _MAX_THINK_US)
    think[first] = started
    ts = frames.times_within(pages, think)
    drawn = popular(rng.random(clicks), plan.items) + 1
    user = np.repeat(frames.ids(rank, pace.seed), pages)
    action = _actions(rng, pages, first, clicks)
    # A generator of its own: how items follow each other changes nothing but the items.
    item = _items(pace.random(frame, 1), drawn, action, first, plan.items)
    return frames.delayed(rng, (ts, user, item, action), pace)


def _actions(rng: np.random.Generator, pages: Array, first: Array, clicks: int) -> Array:
    """What each click does; a cart stands before its checkout, which ends the session."""
    draw = rng.random(clicks)
    action = np.full(clicks, _VIEW, np.int8)
    action[draw < _SEARCH_SHARE + _REVIEW_SHARE] = _REVIEW
    action[draw < _SEARCH_SHARE] = _SEARCH
    fate = rng.random(len(pages))
    carts = fate < _ABANDON_SHARE + _BUY_SHARE
    buys = (fate < _BUY_SHARE) & (pages > 1)
    more = rng.random(clicks) < _EXTRA_CART_SHARE
    action[more & np.repeat(carts, pages)] = _CART
    where = first + (rng.random(len(pages)) * (pages - buys)).astype(np.int64)
    action[where[carts]] = _CART
    action[(first + pages - 1)[buys]] = _CHECKOUT
    return action


def _items(
    rng: np.random.Generator, drawn: Array, action: Array, first: Array, items: int
) -> Array:
    """The item of each click, from one drawn for each on its own."""
    link = np.where(rng.random(len(drawn)) < _PARTNER_SHARE, PARTNER, NEW)
    link[action == _CART] = SAME
    link[first] = NEW
    item = linked(drawn, link, items)
    bought = np.flatnonzero(action == _CHECKOUT)
    # A checkout has a cart before it in its session, so the last cart of all is one of its own.
    carted = np.maximum.accumulate(np.where(action == _CART, np.arange(len(action)), 0))
    item[bought] = item[carted[bought]]
    return item
