"""Where the arrays of bucket tables stand: each table in one piece of memory, many pieces cut from one slab.

Tables of an operator grow at about the same time, since a hash spreads their keys. A slab for many of them costs as
much work as a table's arrays did, and is moved into in one call of machine code. Slabs are bounded: while tables
move, old and new pieces of a slab's tables are there at once.

A piece is described by a row of addresses and sizes, the form in which kernels know a table. Arrays over a piece hold
its slab, so none of them ever points into memory that was given back.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.checkpoint.state_tables.table_code import fill_blocks, move_tables
from thalweg.checkpoint.state_tables.table_form import BLOCK_BITS, Shape
from thalweg.checkpoint.state_tables.table_rows import (
    ARENA,
    ARENA_SIZE,
    BLOCK_COUNT,
    BLOCKS,
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
from thalweg.columns.chunks import Int64s, address
from thalweg.hashing import Bytes, UInt64s

FIRST_CAPACITY: Final = 16
#: A table with fewer entries grows by more, so that growing is rare.
_SMALL: Final = 1024
#: A slab of several tables has about so many bytes at most.
SLAB_BYTES: Final = 8 << 20
#: Pieces stand on cache lines of their own, since threads work on different tables.
_LINE: Final = 64
#: The index of a table without room: one cell, which is empty.
_NO_INDEX: Final = np.zeros(1, np.uint64)


class Arrays(NamedTuple):
    """A table's arrays, over its piece."""

    cells: UInt64s
    hashes: UInt64s
    words: Int64s
    #: entry e's identity is ``arena[offsets[e]:offsets[e + 1]]``; empty without text fields
    offsets: Int64s
    arena: Bytes
    records: npt.NDArray[Any]
    flags: npt.NDArray[np.uint8]
    blocks: Int64s


class Piece(NamedTuple):
    """A table's memory: its row, without the place of its bounds, and the slab that it was cut from."""

    row: Int64s
    slab: Bytes

    def arrays(self, shape: Shape) -> Arrays:
        """The arrays."""
        row, base = self.row.tolist(), address(self.slab)
        capacity, width = row[CAPACITY], shape.width

        def view(word: int, kind: Any, count: int) -> Any:
            made = np.dtype(kind)
            start = row[word] - base if count and made.itemsize else 0
            return self.slab[start : start + count * made.itemsize].view(made)

        has_index = row[INDEX_SIZE] > 1
        return Arrays(
            view(INDEX, np.uint64, row[INDEX_SIZE]) if has_index else _NO_INDEX,
            view(HASHES, np.uint64, capacity),
            view(WORDS, np.int64, capacity * width).reshape(capacity, width),
            view(OFFSETS, np.int64, capacity + 1 if shape.has_text and capacity else 0),
            view(ARENA, np.uint8, row[ARENA_SIZE]),
            view(RECORDS, shape.record, capacity),
            view(FLAGS, np.uint8, capacity),
            view(BLOCKS, np.int64, row[BLOCK_COUNT]),
        )


def _nothing() -> Piece:
    row = np.zeros(TABLE_WIDTH, np.int64)
    row[INDEX], row[INDEX_SIZE] = address(_NO_INDEX), 1
    return Piece(row, np.zeros(0, np.uint8))


#: The piece of a table without room; nobody writes to it.
NOTHING: Final = _nothing()


def pieces(shape: Shape, capacities: Int64s, arenas: Int64s) -> list[Piece]:
    """Empty pieces with room for so many entries (at least one each), and identities of so many bytes."""
    rows, sizes = _cut(shape, capacities, arenas)
    return _pieces(rows, sizes)


def moved(
    shape: Shape, old: Int64s, counts: Int64s, capacities: Int64s, arenas: Int64s
) -> list[Piece]:
    """Larger pieces with all that those of the rows ``old`` have."""
    rows, sizes = _cut(shape, capacities, arenas)
    made = _pieces(rows, sizes)
    move_tables(old, rows, counts, shape.record.itemsize, shape.width, shape.has_text)
    return made


def _pieces(rows: Int64s, sizes: Int64s) -> list[Piece]:
    made: list[Piece] = []
    for first, last in _groups(sizes):
        made += _slab(rows[first:last], sizes[first:last])
    return made


def _groups(sizes: Int64s) -> list[tuple[int, int]]:
    """Runs of pieces that share a slab."""
    number = (np.cumsum(sizes) - sizes) // SLAB_BYTES
    starts = np.flatnonzero(np.r_[True, number[1:] != number[:-1]]).tolist()
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))


def _slab(rows: Int64s, sizes: Int64s) -> list[Piece]:
    # zeros takes no memory before it is written
    slab = np.zeros(int(sizes.sum()) + _LINE, np.uint8)
    base = -(-address(slab) // _LINE) * _LINE
    places = [RECORDS, FLAGS, WORDS, INDEX, HASHES, BLOCKS, OFFSETS, ARENA]
    rows[:, places] += (base + np.cumsum(sizes) - sizes).reshape(-1, 1)
    fill_blocks(rows)
    return [Piece(row, slab) for row in rows]


def _cut(shape: Shape, capacities: Int64s, arenas: Int64s) -> tuple[Int64s, Int64s]:
    """The rows of pieces with addresses from their own start, and the bytes of each."""
    rows = np.zeros((len(capacities), TABLE_WIDTH), np.int64)
    cells = 1 << np.ceil(np.log2(2 * capacities)).astype(np.int64)
    blocks = (capacities >> BLOCK_BITS) + 1
    rows[:, INDEX_SIZE], rows[:, CAPACITY] = cells, capacities
    rows[:, BLOCK_COUNT], rows[:, ARENA_SIZE] = blocks, arenas
    parts = (
        (INDEX, 8 * cells), (HASHES, 8 * capacities), (WORDS, 8 * shape.width * capacities),
        (RECORDS, -(-shape.record.itemsize * capacities // 8) * 8), (BLOCKS, 8 * blocks),
        (OFFSETS, 8 * (capacities + 1) * shape.has_text), (FLAGS, capacities), (ARENA, arenas),
    )  # fmt: skip
    at = np.zeros(len(capacities), np.int64)
    for word, size in parts:
        rows[:, word] = at
        at = at + size
    return rows, -(-at // _LINE) * _LINE


def capacities_for(known: Int64s, entries: Int64s) -> Int64s:
    """Capacities for so many entries; small tables grow by more, so that growing is rare."""
    capacities = np.where(known == 0, FIRST_CAPACITY, known)
    while (few := capacities < entries).any():
        capacities[few] *= np.where(capacities[few] < _SMALL, 4, 2)
    return capacities
