"""Blocks: one chunk of a stream in native memory, as compiled operators hand it to each other.

A block is int64 words at an address. With C fields:

===========  =======================================================================================
word         content
===========  =======================================================================================
-1           the address of the :class:`BlockShape` that made it, 0 for a view of a Python chunk
0            rows
1 to 2C      a pair a field, as a kernel reads it from its ``chunk`` (:func:`~thalweg.compiler.\
columns.addresses`): the addresses of values and validity, 0 where all are valid
1+2C, 2+2C   addresses of int64[rows], event time and own time; 0 where the stream carries none
3+2C         the *payload*: the handle of the Python chunk that holds text, bytes, lists and records, and of the
             order key all but the times; -1 none
4+2C         address of int64[rows], the row in the payload; 0 where row i is the payload's row i
5+2C         address of the payload's texts, TEXT_WORDS a column of the payload; 0 none
6+2C         (not in views) the table that a kernel writes to: its capacity in rows, the addresses of
             further int64 columns, then again a pair a field; behind it further words
===========  =======================================================================================

A field of variable width never enters native memory. Its first word is the address of int64[rows], numbers of
payload columns or NO_VALUE for None; or it is 0, and the second word is the number that holds for all rows. So a
block can be passed to a kernel as its ``chunk`` as it stands.

A block that machine code made is one piece of memory. Pieces of a few sizes wait in the shape's bounded rings to
be used again; the rings serve any number of threads.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from thalweg.columns.chunks import Int64s
from thalweg.compiler.code.columns import address
from thalweg.compiler.kinds import field_type
from thalweg.compiler.runtime.calls import copy_bytes, free, get_i, malloc, put_i, words_at
from thalweg.flow.records import Schema
from thalweg.plan.plan import OWN, TIME
from thalweg.workers.lockfree.atomics import EMPTY, add, line_up, new_words, shared
from thalweg.workers.lockfree.rings import mpmc_init, mpmc_pop, mpmc_push, mpmc_words

#: "No payload".
NO_PAYLOAD: Final = -1

#: The order columns that blocks have themselves.
IN_BLOCKS: Final = (TIME, OWN)


def has_whole_key(order_names: Iterable[str]) -> bool:
    """Whether a stream has order columns that stand in no block, but in its payload."""
    return not set(order_names) <= set(IN_BLOCKS)


# -- offsets of a block's words --------------------------------------------------------------------------------


@shared
def values_word(field: int) -> int:
    """Where a field's values stand; the word behind it is the validity."""
    return 1 + 2 * field


@shared
def time_word(fields: int) -> int:
    return 1 + 2 * fields


@shared
def own_word(fields: int) -> int:
    return 2 + 2 * fields


@shared
def payload_word(fields: int) -> int:
    return 3 + 2 * fields


@shared
def payload_row_word(fields: int) -> int:
    return 4 + 2 * fields


@shared
def texts_word(fields: int) -> int:
    return 5 + 2 * fields


@shared
def table_word(fields: int) -> int:
    """Where the table that a kernel writes to begins: its first word is the capacity."""
    return 6 + 2 * fields


# -- shapes ----------------------------------------------------------------------------------------------------

#: Words of a shape. Constants; the counts of pieces taken from and given back to the allocator, a line each; a
#: ring for each size; then for each column of the table its place.
_FIELDS: Final = 0
_COLUMNS: Final = 1  # columns of the table: the further ones, then a pair a field
_HEAD: Final = 2  # bytes in front of the columns, word -1 included
_WIDE: Final = 3  # columns of 8 bytes a row
_SMALL: Final = 4  # columns of a byte a row
_TIME: Final = 5  # which of the wide ones is the time, or _NOWHERE
_OWN: Final = 6
_SIZE: Final = 7  # words of the shape
_MADE: Final = 8
_FREED: Final = 16
_FIRST_RING: Final = 24

#: A place is the number of a wide column, or that of a byte column below this one; or nowhere.
_BYTES: Final = -1
_NOWHERE: Final = -(1 << 40)

#: Sizes of pieces that are kept: rows of the smallest, doubling. Larger ones go back to the allocator.
_LEAST: Final = 4
_SIZES: Final = 13
#: What waits in one ring at most: pieces, and bytes where that leaves _KEPT_LEAST pieces.
_KEPT: Final = 64
_KEPT_BYTES: Final = 1 << 20
_KEPT_LEAST: Final = 4


@shared
def capacity_of(size: int) -> int:
    """Rows of a piece of this size. Off the powers of two, where the rows of all columns share cache sets."""
    rows = _LEAST << size
    return rows + (rows >> 5)


@shared
def _size_for(rows: int) -> int:
    size = 0
    while capacity_of(size) < rows:
        size += 1
    return size


@shared
def _column(place: int, wide: int, small: int, capacity: int) -> int:
    if place == _NOWHERE:
        return 0
    return wide + 8 * capacity * place if place > _BYTES else small + capacity * (_BYTES - place)


@shared
def _carve(shape: int, piece: int, capacity: int) -> int:
    """Makes a block of fresh memory: where all its columns stand."""
    fields, columns = get_i(shape + 8 * _FIELDS), get_i(shape + 8 * _COLUMNS)
    block = piece + 8
    wide = piece + get_i(shape + 8 * _HEAD)
    small = wide + 8 * capacity * get_i(shape + 8 * _WIDE)
    places = shape + 8 * (get_i(shape + 8 * _SIZE) - columns)
    table = block + 8 * table_word(fields)
    put_i(piece, shape)
    put_i(table, capacity)
    for i in range(columns):
        put_i(table + 8 * (1 + i), _column(get_i(places + 8 * i), wide, small, capacity))
    put_i(
        block + 8 * time_word(fields),
        _column(get_i(shape + 8 * _TIME), wide, small, capacity),
    )
    put_i(block + 8 * own_word(fields), _column(get_i(shape + 8 * _OWN), wide, small, capacity))
    return block


@shared
def new_block(shape: int, rows: int) -> int:
    """A block with room for so many rows, 0 when memory has run out.

    Its table, and the addresses of its times, are set; all other words are left to the caller.
    """
    size = _size_for(rows)
    if size < _SIZES:
        block = mpmc_pop(words_at(shape), get_i(shape + 8 * (_FIRST_RING + size)))
        if block != EMPTY:
            return block
    capacity = capacity_of(size)
    a_row = 8 * get_i(shape + 8 * _WIDE) + get_i(shape + 8 * _SMALL)
    piece = malloc(get_i(shape + 8 * _HEAD) + capacity * a_row)
    if piece == 0:
        return 0
    add(words_at(shape), _MADE, 1)
    return _carve(shape, piece, capacity)


@shared
def _free_piece(shape: int, block: int) -> None:
    add(words_at(shape), _FREED, 1)
    free(block - 8)


@shared
def free_block(block: int, _a: int, _b: int) -> int:
    """Gives a block's memory back; does nothing to a view. With the signature of functions called by address."""
    shape = get_i(block - 8)
    if shape == 0:
        return 0
    size = _size_for(get_i(block + 8 * table_word(get_i(shape + 8 * _FIELDS))))
    if size >= _SIZES or not mpmc_push(
        words_at(shape), get_i(shape + 8 * (_FIRST_RING + size)), block
    ):
        _free_piece(shape, block)
    return 0


@shared
def grow_block(block: int, used: int, needed: int) -> int:
    """A block with the first rows of this one's table and further words, which it frees; 0 when out of memory."""
    shape = get_i(block - 8)
    fields, columns = get_i(shape + 8 * _FIELDS), get_i(shape + 8 * _COLUMNS)
    at = 8 * table_word(fields)
    made = new_block(shape, max(needed, 2 * get_i(block + at)))
    if made != 0:
        places = shape + 8 * (get_i(shape + 8 * _SIZE) - columns)
        for i in range(columns):
            place, column = get_i(places + 8 * i), at + 8 * (1 + i)
            if place != _NOWHERE:
                width = 8 if place > _BYTES else 1
                copy_bytes(get_i(made + column), get_i(block + column), width * used)
        words = at + 8 * (1 + columns)
        copy_bytes(made + words, block + words, get_i(shape + 8 * _HEAD) - 8 - words)
    free_block(block, 0, 0)
    return made


@shared
def _drain(shape: int, ring: int) -> None:
    block = mpmc_pop(words_at(shape), ring)
    while block != EMPTY:
        _free_piece(shape, block)
        block = mpmc_pop(words_at(shape), ring)


class BlockShape:
    """How blocks of one operator are laid out, and the memory that they are used again from.

    Must outlive its blocks. Frees what waits in its rings when it is closed or collected.
    """

    def __init__(
        self, schema: Schema, order_names: Sequence[str], *, columns: int = 0, words: int = 0
    ) -> None:
        """Args:
        order_names: the order columns of the stream; TIME and OWN are the block's, all others its payload's.
        columns: int64 columns of the table in front of the fields.
        words: further words behind the table.
        """
        self.fields = len(schema.fields)
        #: where the further words begin
        self.words_at = table_word(self.fields) + 1 + columns + 2 * self.fields
        places, wide, small = _places(schema, columns)
        own = [name for name in order_names if name in IN_BLOCKS]
        at = {name: wide + i for i, name in enumerate(own)}
        head = 8 * (1 + self.words_at + words)
        wide += len(own)
        kept = [_kept(head, 8 * wide + small, capacity_of(size)) for size in range(_SIZES)]
        rings = line_up(_FIRST_RING + _SIZES)
        starts = np.cumsum([rings, *map(mpmc_words, kept)]).tolist()
        size = line_up(starts[-1]) + len(places)
        self.memory = new_words(size)
        self.memory[:_MADE] = [
            self.fields, len(places), head, wide, small, at.get(TIME, _NOWHERE), at.get(OWN, _NOWHERE), size,
        ]  # fmt: skip
        self.memory[size - len(places) :] = places
        self._rings = starts[:-1]
        self.memory[_FIRST_RING : _FIRST_RING + _SIZES] = self._rings
        for start, count in zip(self._rings, kept, strict=True):
            mpmc_init(self.memory, start, count)
        #: what machine code is given
        self.address = address(self.memory)
        #: frees what waits in the rings
        self.close = weakref.finalize(self, _close, self.memory, self._rings)

    @property
    def pieces(self) -> tuple[int, int]:
        """How many pieces were taken from the allocator, and how many were given back."""
        return int(self.memory[_MADE]), int(self.memory[_FREED])


def _places(schema: Schema, columns: int) -> tuple[list[int], int, int]:
    """The place of each column of the table, and how many wide and byte columns there are."""
    places, wide, small = list(range(columns)), columns, 0
    for field in schema.fields:
        kind = field_type(field.type)
        for is_small, used in ((kind.size == 1, True), (True, kind.boxed)):
            if not used:
                places.append(_NOWHERE)
            elif is_small:
                places.append(_BYTES - small)
                small += 1
            else:
                places.append(wide)
                wide += 1
    return places, wide, small


def _kept(head: int, a_row: int, capacity: int) -> int:
    return max(_KEPT_LEAST, min(_KEPT, _KEPT_BYTES // (head + capacity * a_row)))


def _close(memory: Int64s, rings: Sequence[int]) -> None:
    for ring in rings:
        _drain(address(memory), ring)
