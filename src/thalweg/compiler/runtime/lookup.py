"""Finding the entries of all ranges of a chunk in one compiled call, and where their tables stand.

A chunk of a few thousand rows falls into as many ranges as there are buckets, so a Python call a range would
cost more than the rows. The arrays of every table are kept as addresses and read anew only when the table
replaced them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from thalweg.checkpoint.table_code import find_bytes, find_due, find_words
from thalweg.checkpoint.tables import BucketTable
from thalweg.columns.chunks import Int64s, address
from thalweg.columns.keys import KeyBytes, KeyRows
from thalweg.compiler.runtime.support import carray, pointer, types
from thalweg.jit import njit

#: Columns of the table of tables: addresses, then sizes.
RECORDS: Final = 0
FLAGS: Final = 1
WORDS: Final = 2
BOUNDS: Final = 3
_INDEX: Final = 4
_HASHES: Final = 5
_BLOCKS: Final = 6
OFFSETS: Final = 7
ARENA: Final = 8
_INDEX_SIZE: Final = 9
_CAPACITY: Final = 10
_BLOCK_COUNT: Final = 11
_ARENA_SIZE: Final = 12
TABLE_WIDTH: Final = 13

#: Columns of a range: its bucket, and its first and last + 1 place in the order of rows.
BUCKET: Final = 0
START: Final = 1
END: Final = 2
RANGE_WIDTH: Final = 3


_int64s: Final = pointer(types.int64, 64)
_uint64s: Final = pointer(types.uint64, 64)
_bytes: Final = pointer(types.uint8, 8)


@njit
def _find_all_words(
    ranges: Int64s, tables: Int64s, hashes: Any, words: Int64s, order: Int64s, out: Int64s,
    first: int, last: int, done: int,
) -> tuple[int, int]:  # fmt: skip
    """Fills ``out`` for the ranges; stops at (range, rows done) where a table has no room."""
    for r in range(first, last):
        at = tables[ranges[r, 0]]
        capacity = at[10]
        index = carray(_uint64s(at[4]), at[9])
        known = carray(_uint64s(at[5]), capacity)
        stored = carray(_int64s(at[2]), (capacity, words.shape[1]))
        blocks = carray(_int64s(at[6]), at[11])
        bounds = carray(_int64s(at[3]), 2)
        start, end = ranges[r, 1], ranges[r, 2]
        done, bounds[1] = find_words(
            index, known, stored, blocks, hashes, words, order[start:end], out[start:end], done, bounds[1],
        )  # fmt: skip
        if done < end - start:
            return r, done
        done = 0
    return last, 0


@njit
def _find_all_bytes(
    ranges: Int64s, tables: Int64s, hashes: Any, words: Int64s, offsets: Int64s, data: Any,
    order: Int64s, out: Int64s, first: int, last: int, done: int,
) -> tuple[int, int]:  # fmt: skip
    """As :func:`_find_all_words` for keys with text."""
    for r in range(first, last):
        at = tables[ranges[r, 0]]
        capacity = at[10]
        index = carray(_uint64s(at[4]), at[9])
        known = carray(_uint64s(at[5]), capacity)
        stored = carray(_int64s(at[2]), (capacity, words.shape[1]))
        blocks = carray(_int64s(at[6]), at[11])
        ends = carray(_int64s(at[7]), capacity + 1)
        arena = carray(_bytes(at[8]), at[12])
        bounds = carray(_int64s(at[3]), 2)
        start, end = ranges[r, 1], ranges[r, 2]
        done, bounds[1] = find_bytes(
            index, known, stored, blocks, ends, arena, hashes, words, offsets, data,
            order[start:end], out[start:end], done, bounds[1],
        )  # fmt: skip
        if done < end - start:
            return r, done
        done = 0
    return last, 0


@njit
def _find_all_due(
    buckets: Int64s, tables: Int64s, size: int, offset: int, clock: int, ranges: Int64s, out: Int64s
) -> tuple[int, int]:
    """Fills ranges and the entries due in each; returns how many of both."""
    used = total = 0
    for bucket in buckets:
        at = tables[bucket]
        bounds = carray(_int64s(at[3]), 2)
        if bounds[0] >= clock:
            continue
        count = bounds[1]
        first = carray(_int64s(at[0] + offset), 1)
        timers = np.lib.stride_tricks.as_strided(first, (count,), (size,))
        flags = carray(_bytes(at[1]), at[10])
        blocks = carray(_int64s(at[6]), at[11])
        found, bounds[0] = find_due(timers, flags, blocks, count, clock, out[total:])
        if found:
            ranges[used, 0], ranges[used, 1], ranges[used, 2] = bucket, total, total + found
            used += 1
            total += found
    return used, total


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
        #: which table's arrays a row describes: the table replaces its index with any of the others
        self._index: list[Any] = [None] * buckets
        self._arena: list[Any] = [None] * buckets

    def sync(self, buckets: Sequence[int]) -> list[BucketTable]:
        """The buckets' tables, made where there are none, and their rows brought up to date."""
        tables, index, arena = self._tables, self._index, self._arena
        out = []
        for bucket in buckets:
            table = tables.get(bucket)
            if table is None:
                table = tables[bucket] = self._make()
            if table._index is not index[bucket] or table.arena is not arena[bucket]:
                self._read(bucket, table)
            out.append(table)
        return out

    def refresh(self) -> None:
        """Brings all rows up to date after tables were loaded, saved or taken away."""
        for bucket, index in enumerate(self._index):
            if index is not None and bucket not in self._tables:
                self.rows[bucket], self._index[bucket] = 0, None
        self.sync(list(self._tables))

    def _read(self, bucket: int, table: BucketTable) -> None:
        arrays = (
            table.records.view(np.uint8), table.flags, table.words, table.bounds, table._index, table.hashes,
            table._blocks, table.offsets, table.arena,
        )  # fmt: skip
        sizes = (len(table._index), len(table.flags), len(table._blocks), len(table.arena))
        self.rows[bucket] = [*(address(one) for one in arrays), *sizes]
        self._index[bucket], self._arena[bucket] = table._index, table.arena

    def find(
        self, ranges: Int64s, keys: KeyRows, order: Int64s, out: Int64s, first: int, last: int
    ) -> None:
        """The entries of the rows of ranges first to last, into ``out`` at the places of ``order``."""
        buckets = ranges[first:last, BUCKET].tolist()
        self.sync(buckets)
        at, done = first, 0
        while at < last:
            at, done = self._find(ranges, keys, order, out, at, last, done)
            if at < last:
                self._grow(int(ranges[at, BUCKET]), int(order[ranges[at, START] + done]), keys[2])

    def due(self, buckets: Sequence[int], clock: int, timer: str) -> tuple[Int64s, Int64s]:
        """The ranges (of entries) and entries of these buckets whose timer is below the clock."""
        if not buckets:
            return np.zeros((0, RANGE_WIDTH), np.int64), np.zeros(0, np.int64)
        tables = self.sync(buckets)
        dtype = tables[0].records.dtype
        assert dtype.fields is not None
        ranges = np.zeros((len(buckets), RANGE_WIDTH), np.int64)
        out = np.empty(sum(table.count for table in tables), np.int64)
        used, total = _find_all_due(
            np.array(buckets, np.int64), self.rows, dtype.itemsize, dtype.fields[timer][1], clock,
            ranges, out,
        )  # fmt: skip
        return ranges[:used], out[:total]

    def _find(
        self,
        ranges: Int64s,
        keys: KeyRows,
        order: Int64s,
        out: Int64s,
        at: int,
        last: int,
        done: int,
    ) -> tuple[int, int]:
        hashes, words, texts = keys
        if texts is None:
            return _find_all_words(ranges, self.rows, hashes, words, order, out, at, last, done)
        return _find_all_bytes(
            ranges, self.rows, hashes, words, texts.offsets, texts.data, order, out, at, last, done
        )

    def _grow(self, bucket: int, row: int, texts: KeyBytes | None) -> None:
        table = self._tables[bucket]
        table._make_room(row, texts)
        self._read(bucket, table)
