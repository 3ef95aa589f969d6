"""A web shop's clicks: sessions drawn in order of their start, merged into one stream in order of arrival.

The columns and the shares are those of ``web_clickstreams`` as query 4 of TPCx-BB (cart abandonment) reads it.
Sessions come in frames of a fixed size, each with a random generator of its own, so the rows depend on the
arguments and never on how many of them are taken at a time; between frames only the clicks of sessions that
are still open, and rows whose arrival is delayed, wait in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.records import Category, Schema, Timestamp
from thalweg.times import DAY, SECOND, timestamp

Array = np.ndarray[Any, np.dtype[Any]]


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

#: Sessions of a frame: part of what the data are, so a constant.
_FRAME_SESSIONS: Final = 4096
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
#: Flattens the head of the users' activity (Zipf-Mandelbrot): nobody has 1 % of the clicks.
_HEAD: Final = 3.0
#: Users' ids are a permutation of this space, so that neither density nor order of the ids helps anyone.
_ID_BITS: Final = 40


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """The arguments of :func:`clickstream`, checked and in microseconds."""

    rows: int
    seed: int
    start_us: int
    #: time from the start of one session to that of the next
    step_us: float
    disorder_us: int
    duplicates: float
    items: int
    #: cumulated share of the users in order of their activity
    activity: Array


class _Rows(NamedTuple):
    """Columns of clicks, beside the time at which each arrives."""

    arrival: Array
    ts: Array
    user: Array
    item: Array
    action: Array

    def take(self, where: Array | slice) -> _Rows:
        return _Rows(*(column[where] for column in self))


def _joined(parts: list[_Rows]) -> _Rows:
    return _Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


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
    if block_rows < 1:
        raise ValueError(f"block_rows is {block_rows}, expected 1 or more")
    plan = _planned(rows, users, seed, days, items, skew, start, disorder_s, duplicates)
    return _blocks(plan, block_rows)


def _planned(
    rows: int,
    users: int,
    seed: int,
    days: float,
    items: int,
    skew: float,
    start: str,
    disorder_s: float,
    duplicates: float,
) -> _Plan:
    for name, value, fits, want in (
        ("rows", rows, rows >= 0, "0 or more"),
        ("users", users, 1 <= users < 2**_ID_BITS, f"1 to 2**{_ID_BITS}"),
        ("seed", seed, seed >= 0, "0 or more"),
        ("days", days, days > 0, "more than 0"),
        ("items", items, items >= 1, "1 or more"),
        ("skew", skew, skew >= 0, "0 or more"),
        ("disorder_s", disorder_s, disorder_s >= 0, "0 or more"),
        ("duplicates", duplicates, 0 <= duplicates <= 1, "0 to 1"),
    ):
        if not fits:
            raise ValueError(f"{name} is {value}, expected {want}")
    sessions = max(rows / (1 + duplicates) / _MEAN_PAGES, 1.0)
    activity = np.cumsum((np.arange(users, dtype=np.float64) + 1 + _HEAD) ** -skew)
    return _Plan(
        rows=rows,
        seed=seed,
        start_us=timestamp(start),
        step_us=days * DAY / sessions,
        disorder_us=round(disorder_s * SECOND),
        duplicates=duplicates,
        items=items,
        activity=activity / activity[-1],
    )


def _blocks(plan: _Plan, block_rows: int) -> Iterator[pa.RecordBatch]:
    held: list[_Rows] = []
    held_rows, left = 0, plan.rows
    for arrived in _arrivals(plan):
        held.append(arrived)
        held_rows += len(arrived.ts)
        if held_rows < min(block_rows, left):
            continue
        whole, at = _joined(held), 0
        while left and held_rows - at >= min(block_rows, left):
            size = min(block_rows, left)
            yield _batch(whole.take(slice(at, at + size)))
            at, left = at + size, left - size
        if not left:
            return
        held, held_rows = [whole.take(slice(at, None))], held_rows - at


def _batch(rows: _Rows) -> pa.RecordBatch:
    columns = [
        pa.array(rows.ts).cast(pa.timestamp("us", tz="UTC")),
        pa.array(rows.user),
        pa.array(rows.item),
        pa.DictionaryArray.from_arrays(rows.action, pa.array(ACTIONS)).cast(pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CLICK_SCHEMA)


def _arrivals(plan: _Plan) -> Iterator[_Rows]:
    """The endless stream in order of arrival, cut where the frames end."""
    if not plan.rows:
        return
    waiting: list[_Rows] = []
    frame = 0
    while True:
        rows = _joined([*waiting, _frame(plan, frame)])
        # Ties keep the order of the sessions' starts, so the order is total.
        rows = rows.take(np.argsort(rows.arrival, kind="stable"))
        frame += 1
        # No row of a later frame arrives before the first session of the next one starts.
        ready = int(np.searchsorted(rows.arrival, _session_start(plan, frame, 0.0), side="left"))
        yield rows.take(slice(0, ready))
        waiting = [rows.take(slice(ready, None))]


def _session_start(plan: _Plan, frame: int, place: Any) -> Any:
    """Start of the session at a place, 0 to _FRAME_SESSIONS, of a frame."""
    return plan.start_us + np.floor((frame * _FRAME_SESSIONS + place) * plan.step_us).astype(
        np.int64
    )


def _frame(plan: _Plan, frame: int) -> _Rows:
    """The clicks of the sessions that start in a frame, session by session."""
    rng = np.random.default_rng([plan.seed, frame])
    pages = _exponential(rng, _FRAME_SESSIONS, -1 / np.log1p(-1 / _MEAN_PAGES), _MAX_PAGES - 1) + 1
    first = np.cumsum(pages) - pages
    clicks = int(pages.sum())
    rank = np.searchsorted(plan.activity, rng.random(_FRAME_SESSIONS), side="right")
    rank = np.minimum(rank, len(plan.activity) - 1)
    place = np.arange(_FRAME_SESSIONS) + rng.random(_FRAME_SESSIONS)
    think = _exponential(rng, clicks, _MEAN_THINK_US, _MAX_THINK_US)
    think[first] = _session_start(plan, frame, place)
    ts = np.cumsum(think)
    ts -= np.repeat(ts[first] - think[first], pages)
    # Cubed: a few items are looked at often.
    item = (rng.random(clicks) ** 3 * plan.items).astype(np.int64) + 1
    user = np.repeat(_user_id(rank, plan.seed), pages)
    rows = _Rows(ts, ts, user, item, _actions(rng, pages, first, clicks))
    return _delayed(rng, rows, plan)


def _exponential(rng: np.random.Generator, size: int, mean: float, most: int) -> Array:
    return np.minimum(-mean * np.log1p(-rng.random(size)), most).astype(np.int64)


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


def _delayed(rng: np.random.Generator, rows: _Rows, plan: _Plan) -> _Rows:
    """The rows with their times of arrival, and those that arrive twice.

    A row of time t arrives in [t, t + disorder], so no row before it in the stream is later than t + disorder.
    """
    if plan.duplicates:
        twice = np.flatnonzero(rng.random(len(rows.ts)) < plan.duplicates)
        again = np.sort(np.concatenate([np.arange(len(rows.ts)), twice]), kind="stable")
        rows = rows.take(again)
    if not plan.disorder_us:
        return rows
    delay = (rng.random(len(rows.ts)) * plan.disorder_us).astype(np.int64)
    return rows._replace(arrival=rows.ts + delay)


def _user_id(rank: Array, seed: int) -> Array:
    """The id of the user at a rank of activity: a bijection of the numbers below 2**_ID_BITS."""
    mask = np.uint64(2**_ID_BITS - 1)
    mixed = rank.astype(np.uint64) + np.uint64(seed % 2**32 + 1)
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):
        mixed = (mixed * np.uint64(factor)) & mask
        mixed ^= mixed >> np.uint64(_ID_BITS // 2)
    return mixed.astype(np.int64)
