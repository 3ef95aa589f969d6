"""Finding the entries of all ranges of a chunk in one compiled call, and where their tables stand.

A chunk of a few thousand rows falls into as many ranges as there are buckets, so a Python call a range would
cost more than the rows. The arrays of every table are kept as addresses and read anew only when the table
replaced them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from thalweg.checkpoint.state_tables.table_code import find_bytes, find_due, find_words
from thalweg.checkpoint.state_tables.table_memory import capacities_for
from thalweg.checkpoint.state_tables.table_rows import (
    ARENA,
    ARENA_SIZE,
    BLOCK_COUNT,
    BLOCKS,
    BOUNDS,
    CAPACITY,
    FLAGS,
    HASHES,
    INDEX,
    INDEX_SIZE,
    OFFSETS,
    RECORDS,
    TABLE_WIDTH,
    WORDS,
)
from thalweg.checkpoint.state_tables.tables import BucketTable, enlarge
from thalweg.columns.chunks import Int64s, address
from thalweg.columns.keys import KeyBytes, KeyRows
from thalweg.compiler.runtime.support import carray, pointer, types
from thalweg.jit import njit

#: Columns of a range: its bucket, and its first and last + 1 place in the order of rows.
BUCKET: Final = 0
START: Final = 1
END: Final = 2
RANGE_WIDTH: Final = 3

#: Tables grow ahead by at most so many times what they have.
_MOST_AHEAD: Final = 3.0
#: Room for identities, by their mean size.
_SLACK: Final = 1.1

_int64s: Final = pointer(types.int64, 64)
_uint64s: Final = pointer(types.uint64, 64)
_bytes: Final = pointer(types.uint8, 8)


@njit
def _find_words(
    r: int, ranges: Int64s, tables: Int64s, hashes: Any, words: Int64s, order: Int64s, out: Int64s,
    done: int,
) -> int:  # fmt: skip
    """Fills ``out`` for a range from where it was left; gives how many of its rows are done then."""
    at = tables[ranges[r, 0]]
    capacity = at[CAPACITY]
    index = carray(_uint64s(at[INDEX]), at[INDEX_SIZE])
    known = carray(_uint64s(at[HASHES]), capacity)
    stored = carray(_int64s(at[WORDS]), (capacity, words.shape[1]))
    blocks = carray(_int64s(at[BLOCKS]), at[BLOCK_COUNT])
    bounds = carray(_int64s(at[BOUNDS]), 2)
    start, end = ranges[r, 1], ranges[r, 2]
    done, bounds[1] = find_words(
        index, known, stored, blocks, hashes, words, order[start:end], out[start:end], done, bounds[1],
    )  # fmt: skip
    return done


@njit
def _find_bytes(
    r: int, ranges: Int64s, tables: Int64s, hashes: Any, words: Int64s, offsets: Int64s, data: Any,
    order: Int64s, out: Int64s, done: int,
) -> int:  # fmt: skip
    """As :func:`_find_words` for keys with text."""
    at = tables[ranges[r, 0]]
    capacity = at[CAPACITY]
    index = carray(_uint64s(at[INDEX]), at[INDEX_SIZE])
    known = carray(_uint64s(at[HASHES]), capacity)
    stored = carray(_int64s(at[WORDS]), (capacity, words.shape[1]))
    blocks = carray(_int64s(at[BLOCKS]), at[BLOCK_COUNT])
    ends = carray(_int64s(at[OFFSETS]), capacity + 1)
    arena = carray(_bytes(at[ARENA]), at[ARENA_SIZE])
    bounds = carray(_int64s(at[BOUNDS]), 2)
    start, end = ranges[r, 1], ranges[r, 2]
    done, bounds[1] = find_bytes(
        index, known, stored, blocks, ends, arena, hashes, words, offsets, data,
        order[start:end], out[start:end], done, bounds[1],
    )  # fmt: skip
    return done


@njit
def find_all_words(
    ranges: Int64s, tables: Int64s, hashes: Any, words: Int64s, order: Int64s, out: Int64s,
    first: int, last: int, done: Int64s,
) -> int:  # fmt: skip
    """Fills ``out`` for the ranges as far as their tables have room; gives how many of them lack some.

    ``done``, by range, has how many of its rows are done.
    """
    lacking = 0
    for r in range(first, last):
        done[r - first] = _find_words(r, ranges, tables, hashes, words, order, out, done[r - first])
        lacking += done[r - first] < ranges[r, 2] - ranges[r, 1]
    return lacking


@njit
def find_all_bytes(
    ranges: Int64s, tables: Int64s, hashes: Any, words: Int64s, offsets: Int64s, data: Any,
    order: Int64s, out: Int64s, first: int, last: int, done: Int64s,
) -> int:  # fmt: skip
    """As :func:`find_all_words` for keys with text."""
    lacking = 0
    for r in range(first, last):
        done[r - first] = _find_bytes(
            r, ranges, tables, hashes, words, offsets, data, order, out, done[r - first]
        )
        lacking += done[r - first] < ranges[r, 2] - ranges[r, 1]
    return lacking


@njit
def _find_all_due(
    buckets: Int64s, tables: Int64s, size: int, offset: int, clock: int, ranges: Int64s, out: Int64s
) -> tuple[int, int]:
    """Fills ranges and the entries due in each; returns how many of both."""
    used = total = 0
    for bucket in buckets:
        at = tables[bucket]
        bounds = carray(_int64s(at[BOUNDS]), 2)
        if bounds[0] >= clock:
            continue
        count = bounds[1]
        first = carray(_int64s(at[RECORDS] + offset), 1)
        timers = np.lib.stride_tricks.as_strided(first, (count,), (size,))
        flags = carray(_bytes(at[FLAGS]), at[CAPACITY])
        blocks = carray(_int64s(at[BLOCKS]), at[BLOCK_COUNT])
        found, bounds[0] = find_due(timers, flags, blocks, count, clock, out[total:])
        if found:
            ranges[used, 0], ranges[used, 1], ranges[used, 2] = bucket, total, total + found
            used += 1
            total += found
    return used, total


@njit
def _counts(tables: Int64s, buckets: Int64s) -> Int64s:
    """The entries in use of these buckets' tables."""
    out = np.empty(len(buckets), np.int64)
    for i in range(len(buckets)):
        out[i] = carray(_int64s(tables[buckets[i], BOUNDS]), 2)[1]
    return out


@njit
def _used_bytes(tables: Int64s, buckets: Int64s) -> Int64s:
    """The bytes of the identities of these buckets' tables."""
    out = np.zeros(len(buckets), np.int64)
    for i in range(len(buckets)):
        at = tables[buckets[i]]
        if at[CAPACITY] > 0:
            ends = carray(_int64s(at[OFFSETS]), at[CAPACITY] + 1)
            out[i] = ends[carray(_int64s(at[BOUNDS]), 2)[1]]
    return out


class TableOfTables:
    """The arrays of a keyed operator's tables by address, a row a bucket.

    Two threads may use it at once as long as they work on different buckets.
    """

    def __init__(
        self, buckets: int, tables: dict[int, BucketTable], make: Callable[[], BucketTable]
    ):
        self._tables = tables
        self._make = make
        #: int64[buckets, TABLE_WIDTH]
        self.rows = np.zeros((buckets, TABLE_WIDTH), np.int64)
        #: where these rows stand
        self.place = address(self.rows)
        #: the memory that a row describes
        self._pieces: list[Any] = [None] * buckets
        #: rows looked up, and entries made for them: so many new keys are to be expected
        self._rows = self._new = 0
        #: rows that come behind the next chunk, for each one so far
        self.more = 0.0

    def sync(self, buckets: Sequence[int]) -> list[BucketTable]:
        """The buckets' tables, made where there are none, and their rows brought up to date."""
        tables, pieces = self._tables, self._pieces
        out = []
        for bucket in buckets:
            table = tables.get(bucket)
            if table is None:
                table = tables[bucket] = self._make()
            if table.piece is not pieces[bucket]:
                self._read(bucket, table)
            out.append(table)
        return out

    def refresh(self) -> None:
        """Brings all rows up to date after tables were loaded, saved or taken away."""
        for bucket, piece in enumerate(self._pieces):
            if piece is not None and bucket not in self._tables:
                self.rows[bucket], self._pieces[bucket] = 0, None
        self.sync(list(self._tables))

    def _read(self, bucket: int, table: BucketTable) -> None:
        self.rows[bucket] = table.piece.row
        self.rows[bucket, BOUNDS] = address(table.bounds)
        self._pieces[bucket] = table.piece

    def find(
        self, ranges: Int64s, keys: KeyRows, order: Int64s, out: Int64s, first: int, last: int
    ) -> None:
        """The entries of the rows of ranges first to last, into ``out`` at the places of ``order``."""
        buckets = ranges[first:last, BUCKET]
        tables = self.sync(buckets.tolist())
        before = _counts(self.rows, buckets)
        lengths = ranges[first:last, END] - ranges[first:last, START]
        done = np.zeros(last - first, np.int64)
        while self._find(ranges, keys, order, out, first, last, done):
            places = np.flatnonzero(done < lengths)
            counts = _counts(self.rows, buckets[places])
            new, rows_done = (counts - before[places]).sum(), done[places].sum()
            share = self._share(new, rows_done)
            ahead = self._ahead(new / rows_done if rows_done else share)
            rows = order[ranges[first + places, START] + done[places]]
            entries, nbytes = self._needed(
                buckets[places],
                counts + (share * (lengths - done)[places]).astype(np.int64),
                counts,
                ahead,
                keys.identity,
                rows,
            )
            some = [tables[place] for place in places.tolist()]
            self._take(
                buckets[places],
                some,
                enlarge(some, self.rows[buckets[places]], counts, entries, nbytes),
            )
        self._rows += int(lengths.sum())
        self._new += int((_counts(self.rows, buckets) - before).sum())

    def _ahead(self, share: float) -> float:
        """How many keys will come behind this chunk for each one so far, where new ones have this share by now.

        At most so many as a wrong guess may cost.
        """
        ever = self._new / self._rows if self._rows else share
        return min(self.more * min(share / ever, 1.0), _MOST_AHEAD) if ever else 0.0

    def _take(self, buckets: Int64s, tables: Sequence[BucketTable], rows: Int64s) -> None:
        """Takes over the rows of tables with new memory."""
        rows[:, BOUNDS] = self.rows[buckets, BOUNDS]
        self.rows[buckets] = rows
        for bucket, table in zip(buckets.tolist(), tables, strict=True):
            self._pieces[bucket] = table.piece

    def _share(self, new: int, rows: int) -> float:
        """Which share of the rows to come will be of new keys, as far as seen."""
        rows, new = rows + self._rows, new + self._new
        return new / rows if rows else 0.0

    def _needed(
        self,
        buckets: Int64s,
        soon: Int64s,
        counts: Int64s,
        ahead: float,
        texts: KeyBytes | None,
        rows: Int64s,
    ) -> tuple[Int64s, Int64s]:
        """Entries and bytes for the keys that are to be expected, for that of one more row at least.

        Args:
            soon: entries at the end of this chunk.
            counts: entries now.
            ahead: keys to come behind this chunk, for each one so far.
            texts: identities.
            rows: of each table, for which there is no room.
        """
        entries = np.maximum(soon + (ahead * soon).astype(np.int64), counts + 1)
        if texts is None:
            return entries, np.zeros(len(counts), np.int64)
        mean = len(texts.data) / max(len(texts.offsets) - 1, 1)
        more = capacities_for(self.rows[buckets, CAPACITY], entries) - counts
        at_hand = texts.offsets[rows + 1] - texts.offsets[rows]
        return entries, _used_bytes(self.rows, buckets) + at_hand + (_SLACK * mean * more).astype(
            np.int64
        )

    def due(self, buckets: Sequence[int], clock: int, timer: str) -> tuple[Int64s, Int64s]:
        """The ranges (of entries) and entries of these buckets whose timer is below the clock."""
        if not buckets:
            return np.zeros((0, RANGE_WIDTH), np.int64), np.zeros(0, np.int64)
        tables = self.sync(buckets)
        dtype = tables[0].records.dtype
        assert dtype.fields is not None
        ranges = np.zeros((len(buckets), RANGE_WIDTH), np.int64)
        asked = np.array(buckets, np.int64)
        out = np.empty(int(_counts(self.rows, asked).sum()), np.int64)
        used, total = _find_all_due(
            asked, self.rows, dtype.itemsize, dtype.fields[timer][1], clock,
            ranges, out,
        )  # fmt: skip
        return ranges[:used], out[:total]

    def _find(
        self,
        ranges: Int64s,
        keys: KeyRows,
        order: Int64s,
        out: Int64s,
        first: int,
        last: int,
        done: Int64s,
    ) -> int:
        hashes, words, texts = keys
        if texts is None:
            return find_all_words(ranges, self.rows, hashes, words, order, out, first, last, done)
        return find_all_bytes(
            ranges, self.rows, hashes, words, texts.offsets, texts.data, order, out, first, last, done
        )  # fmt: skip
