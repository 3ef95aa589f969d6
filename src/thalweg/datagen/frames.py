"""Streams of short sequences, such as visits and baskets, drawn in order of their start and merged by arrival.

Sequences come in frames of a fixed number, each with random generators of its own, so the rows depend on the
arguments and never on how many of them are taken at a time; between frames only the rows of sequences that
are still open, and rows whose arrival is delayed, wait in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.times import DAY, SECOND, timestamp

Array = np.ndarray[Any, np.dtype[Any]]

#: Sequences of a frame: part of what the data are, so a constant.
FRAME_SIZE: Final = 4096
#: Flattens the head of the activity (Zipf-Mandelbrot): nobody has 1 % of the rows.
_HEAD: Final = 3.0
#: Ids are a permutation of this space, so that neither density nor order of the ids helps anyone.
_ID_BITS: Final = 40
#: The greatest number of users, customers, ... that ids can be given to.
MOST_IDS: Final = 2**_ID_BITS - 1


class Rows(NamedTuple):
    """Columns in the order of the stream's record, event time first, and the time at which each row arrives."""

    arrival: Array
    columns: tuple[Array, ...]

    def take(self, where: Array | slice) -> Rows:
        return Rows(self.arrival[where], tuple(column[where] for column in self.columns))


def _joined(parts: list[Rows]) -> Rows:
    columns = zip(*(part.columns for part in parts), strict=True)
    return Rows(
        np.concatenate([part.arrival for part in parts]),
        tuple(np.concatenate(column) for column in columns),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How many rows a stream has, when they come and how they are disturbed; checked, times in microseconds."""

    rows: int
    seed: int
    start_us: int
    span_us: float
    #: time from the start of one sequence to that of the next
    step_us: float
    disorder_us: int
    duplicates: float

    @classmethod
    def of(
        cls,
        rows: int,
        seed: int,
        days: float,
        start: str,
        disorder_s: float,
        duplicates: float,
        *,
        mean_rows: float,
    ) -> Pace:
        """The pace at which sequences of ``mean_rows`` rows on average give ``rows`` rows in ``days``.

        Raises:
            ValueError: an argument is out of its range.
        """
        require("rows", rows, rows >= 0, "0 or more")
        require("seed", seed, seed >= 0, "0 or more")
        require("days", days, days > 0, "more than 0")
        require("disorder_s", disorder_s, disorder_s >= 0, "0 or more")
        require("duplicates", duplicates, 0 <= duplicates <= 1, "0 to 1")
        sequences = max(rows / (1 + duplicates) / mean_rows, 1.0)
        return cls(
            rows,
            seed,
            timestamp(start),
            days * DAY,
            days * DAY / sequences,
            round(disorder_s * SECOND),
            duplicates,
        )

    def start_of(self, frame: int, place: Any) -> Any:
        """Start of the sequence at a place, 0 to FRAME_SIZE, of a frame."""
        return self.start_us + np.floor((frame * FRAME_SIZE + place) * self.step_us).astype(
            np.int64
        )

    def random(self, frame: int, *branch: int) -> np.random.Generator:
        """The random generator of a frame; one of another ``branch`` gives other numbers."""
        return np.random.default_rng([self.seed, frame, *branch])


def require(name: str, value: Any, fits: bool, want: str) -> None:
    """Refuses an argument that is out of its range.

    Raises:
        ValueError: ``fits`` is false.
    """
    if not fits:
        raise ValueError(f"{name} is {value}, expected {want}")


def batches(
    pace: Pace,
    frame: Callable[[int], Rows],
    batch: Callable[[tuple[Array, ...]], pa.RecordBatch],
    block_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The stream in order of arrival.

    Args:
        pace: how many rows, and when.
        frame: the rows of the sequences that start in a frame, by its number.
        batch: columns as a record batch.
        block_rows: rows a batch; it changes no row.

    Raises:
        ValueError: ``block_rows`` is not positive.
    """
    require("block_rows", block_rows, block_rows >= 1, "1 or more")
    return _blocks(pace, frame, batch, block_rows)


def _blocks(
    pace: Pace,
    frame: Callable[[int], Rows],
    batch: Callable[[tuple[Array, ...]], pa.RecordBatch],
    block_rows: int,
) -> Iterator[pa.RecordBatch]:
    held: list[Rows] = []
    held_rows, left = 0, pace.rows
    for arrived in _arrivals(pace, frame):
        held.append(arrived)
        held_rows += len(arrived.arrival)
        if held_rows < min(block_rows, left):
            continue
        whole, at = _joined(held), 0
        while left and held_rows - at >= min(block_rows, left):
            size = min(block_rows, left)
            yield batch(whole.take(slice(at, at + size)).columns)
            at, left = at + size, left - size
        if not left:
            return
        held, held_rows = [whole.take(slice(at, None))], held_rows - at


def _arrivals(pace: Pace, frame: Callable[[int], Rows]) -> Iterator[Rows]:
    """The endless stream in order of arrival, cut where the frames end."""
    if not pace.rows:
        return
    waiting: list[Rows] = []
    number = 0
    while True:
        rows = _joined([*waiting, frame(number)])
        # Ties keep the order of the sequences' starts, so the order is total.
        rows = rows.take(np.argsort(rows.arrival, kind="stable"))
        number += 1
        # No row of a later frame arrives before the first sequence of the next one starts.
        ready = int(np.searchsorted(rows.arrival, pace.start_of(number, 0.0), side="left"))
        yield rows.take(slice(0, ready))
        waiting = [rows.take(slice(ready, None))]


# -- what the frames of several streams draw ---------------------------------------------------------------


def starts(rng: np.random.Generator, pace: Pace, frame: int) -> Array:
    """When the sequences of a frame start, ascending."""
    place = np.arange(FRAME_SIZE) + rng.random(FRAME_SIZE)
    times: Array = pace.start_of(frame, place)
    return times


def times_within(lengths: Array, steps: Array) -> Array:
    """The times of all rows, where ``steps`` has the start of a sequence, then the times between its rows."""
    first = np.cumsum(lengths) - lengths
    ts = np.cumsum(steps)
    ts -= np.repeat(ts[first] - steps[first], lengths)
    return ts


def exponential(rng: np.random.Generator, size: int, mean: float, most: int) -> Array:
    """Whole numbers from 0 to ``most`` that fall off exponentially."""
    return np.minimum(-mean * np.log1p(-rng.random(size)), most).astype(np.int64)


def activity(size: int, skew: float) -> Array:
    """Cumulated shares, up to 1, of so many in the order of their activity; exponent 0 makes all equal."""
    shares: Array = np.cumsum((np.arange(size, dtype=np.float64) + 1 + _HEAD) ** -skew)
    shares /= shares[-1]
    return shares


def ranks(rng: np.random.Generator, size: int, shares: Array) -> Array:
    """Draws from :func:`activity`: ranks from 0, the most active first."""
    found = np.searchsorted(shares, rng.random(size), side="right")
    least: Array = np.minimum(found, len(shares) - 1)
    return least


def ids(rank: Array, seed: int) -> Array:
    """The id that a rank has: a bijection of the numbers from 0 to MOST_IDS."""
    mask = np.uint64(MOST_IDS)
    mixed = rank.astype(np.uint64) + np.uint64(seed % 2**32 + 1)
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9):
        mixed = (mixed * np.uint64(factor)) & mask
        mixed ^= mixed >> np.uint64(_ID_BITS // 2)
    return mixed.astype(np.int64)


def delayed(rng: np.random.Generator, columns: tuple[Array, ...], pace: Pace) -> Rows:
    """The rows of a frame with their times of arrival, and those that arrive twice.

    A row of time t arrives in [t, t + disorder], so no row before it in the stream is later than t + disorder.
    """
    ts = columns[0]
    rows = Rows(ts, columns)
    if pace.duplicates:
        twice = np.flatnonzero(rng.random(len(ts)) < pace.duplicates)
        rows = rows.take(np.sort(np.concatenate([np.arange(len(ts)), twice]), kind="stable"))
    if not pace.disorder_us:
        return rows
    delay = (rng.random(len(rows.arrival)) * pace.disorder_us).astype(np.int64)
    return rows._replace(arrival=rows.arrival + delay)
