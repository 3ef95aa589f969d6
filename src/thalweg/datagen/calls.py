"""Call records of a telephone company, among them those of phones whose card was copied.

The columns are those of call records as bandicoot reads them (the bundled set ``call_records``): one record for each
call or message of one of the company's phones, with the place of that phone. Phones go to and fro near a home; that
of a copied card is now and then in a second place at the same time.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.datagen import frames
from thalweg.datagen.frames import FRAME_SIZE, Array, Pace, Rows, require
from thalweg.flow.records import Schema, Timestamp
from thalweg.times import DAY


class Call(NamedTuple):
    """A call or message of a phone and where the phone was, in degrees.

    ``direction`` is 1 for out and 2 for in; ``service`` 11 for calls, 21 and 22 for messages.
    """

    direction: int
    service: int
    phone: int
    partner: int
    ts: Timestamp
    duration_s: int
    lat: float
    lon: float


#: The Arrow schema of every batch and file.
CALL_SCHEMA: Final[pa.Schema] = Schema.of(Call).arrow

#: Phones have nine digits, of which the first three are the area: this one or one of those that follow.
FIRST_AREA: Final = 770
AREAS: Final = 4
_NUMBERS: Final = 1_000_000
#: Prime to the numbers of an area: times this, they are all the numbers in another order.
_SCATTER: Final = 379_721

#: South-west corner of where the homes are, around Boston, and how far they reach.
_SOUTH, _WEST, _REACH = 41.8, -71.6, 1.0
#: How far a phone gets from its home; within a day there and back, at 2 km/h at most.
_RANGE: Final = 0.05
#: How far north the place of a copy lies.
_COPY_AWAY: Final = 2.0
_CALL_SHARE: Final = 0.4
_MEAN_CALL_S: Final = 120
_MAX_CALL_S: Final = 7200


@dataclasses.dataclass(frozen=True, slots=True)
class _CallsPlan:
    """The arguments of :func:`call_records`, checked."""

    pace: Pace
    copied: float
    #: cumulated share of the phones in order of their activity
    activity: Array


def call_records(
    rows: int,
    phones: int = 20_000,
    seed: int = 0,
    days: float = 7,
    *,
    copied: float = 0.002,
    skew: float = 0.7,
    start: str = "2026-01-05T00:00:00Z",
    disorder_s: float = 0.0,
    duplicates: float = 0.0,
    block_rows: int = 65_536,
) -> Iterator[pa.RecordBatch]:
    """Call records in order of arrival, as record batches of ``CALL_SCHEMA``.

    The same arguments give the same rows for every ``block_rows``, by which memory is bounded.

    Args:
        rows: how many rows come out, duplicates included.
        phones: how many phones there are, in four areas; not all of them need to call.
        seed: another seed, other rows.
        days: how much time the rows span, approximately.
        copied: share of the phones whose card was copied; half of their calls come from 220 km away.
        skew: exponent of the phones' Zipf-like activity; 0 makes all phones equal.
        start: when the first call starts, ISO 8601.
        disorder_s: rows arrive by this at most after a row of later time; 0 for time order.
        duplicates: share of the records that arrive a second time.
        block_rows: rows a batch.

    Raises:
        ValueError: an argument is out of its range.

    Example::

        >>> next(call_records(1000, phones=10)).num_rows
        1000
    """
    most = AREAS * _NUMBERS
    require("phones", phones, 1 <= phones <= most, f"1 to {most}")
    require("copied", copied, 0 <= copied <= 1, "0 to 1")
    require("skew", skew, skew >= 0, "0 or more")
    pace = Pace.of(rows, seed, days, start, disorder_s, duplicates, mean_rows=1)
    plan = _CallsPlan(pace, copied, frames.activity(phones, skew))
    return frames.batches(pace, functools.partial(_frame, plan), _batch, block_rows)


def phone_number(phone: Array) -> Array:
    """The number of each phone from 0, a different one for each."""
    within = phone // AREAS * _SCATTER % _NUMBERS
    number: Array = (FIRST_AREA + phone % AREAS) * _NUMBERS + within
    return number


def is_copied(phone: Array, share: float) -> Array:
    """Whether the card of each phone was copied: this share of them, evenly over areas and activity."""
    copied: Array = phone * 0.4142 % 1 < share
    return copied


def _batch(columns: tuple[Array, ...]) -> pa.RecordBatch:
    ts, direction, service, phone, partner, duration, lat, lon = columns
    arrays = [
        pa.array(direction),
        pa.array(service),
        pa.array(phone),
        pa.array(partner),
        pa.array(ts).cast(pa.timestamp("us", tz="UTC")),
        pa.array(duration),
        pa.array(lat),
        pa.array(lon),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=CALL_SCHEMA)


def _frame(plan: _CallsPlan, frame: int) -> Rows:
    """The records of a frame: as sequences, of one row each."""
    pace = plan.pace
    rng = pace.random(frame)
    ts = frames.starts(rng, pace, frame)
    phone = frames.ranks(rng, FRAME_SIZE, plan.activity)
    partner = frames.ranks(rng, FRAME_SIZE, plan.activity)
    direction = rng.integers(1, 3, FRAME_SIZE)
    call = rng.random(FRAME_SIZE) < _CALL_SHARE
    service = np.where(call, 11, rng.integers(21, 23, FRAME_SIZE))
    length = frames.exponential(rng, FRAME_SIZE, _MEAN_CALL_S, _MAX_CALL_S)
    lat, lon = _place(phone, ts)
    away = is_copied(phone, plan.copied) & (rng.random(FRAME_SIZE) < 0.5)
    columns = (
        ts,
        direction,
        service,
        phone_number(phone),
        phone_number(partner),
        np.where(call, length, 0),
        np.round(lat + away * _COPY_AWAY, 4),
        np.round(lon, 4),
    )
    return frames.delayed(rng, columns, pace)


def _place(phone: Array, ts: Array) -> tuple[Array, Array]:
    """Latitude and longitude of a phone at a time: a circle around its home, once a day."""
    turn = 2 * np.pi * (ts % DAY / DAY + phone * 0.618 % 1)
    lat = _SOUTH + _REACH * (phone * 0.7548 % 1) + _RANGE * np.sin(turn)
    lon = _WEST + _REACH * (phone * 0.5698 % 1) + _RANGE * np.cos(turn)
    return lat, lon
