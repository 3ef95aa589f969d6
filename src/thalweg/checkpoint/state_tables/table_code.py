"""The compiled loops over a table of keyed state: look a key up, find timers that are due, gather texts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.checkpoint.state_tables.heap_code import copy, put_word, word_at
from thalweg.checkpoint.state_tables.table_form import ALIVE, BLOCK_BITS
from thalweg.checkpoint.state_tables.table_rows import (
    ARENA,
    BLOCK_COUNT,
    BLOCKS,
    FLAGS,
    HASHES,
    INDEX,
    INDEX_SIZE,
    OFFSETS,
    RECORDS,
    WORDS,
)
from thalweg.columns.chunks import Int64s
from thalweg.hashing import Bytes, UInt64s
from thalweg.jit import njit
from thalweg.jit.memory import eight_bytes, soon
from thalweg.times import BEFORE_ALL, NEVER

_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_EMPTY: Final = np.uint64(0)
#: So many rows before it is looked at, a cell of the index is fetched.
_AHEAD: Final = 8


@njit
def _cell(hash_: Any, entry: Any) -> Any:
    return ((hash_ >> _HALF) << _HALF) | np.uint64(entry + 1)


@njit
def fill_index(index: UInt64s, hashes: UInt64s, count: int) -> None:
    mask = np.uint64(len(index) - 1)
    for entry in range(count):
        slot = hashes[entry] & mask
        while index[slot] != _EMPTY:
            slot = (slot + np.uint64(1)) & mask
        index[slot] = _cell(hashes[entry], entry)


@njit
def _fill_index_at(index: int, cells: int, hashes: int, count: int) -> None:
    """As :func:`fill_index`, by addresses."""
    mask = np.uint64(cells - 1)
    for entry in range(count):
        hash_ = np.uint64(word_at(hashes + 8 * entry))
        slot = hash_ & mask
        while word_at(index + 8 * np.int64(slot)) != 0:
            slot = (slot + np.uint64(1)) & mask
        put_word(index + 8 * np.int64(slot), np.int64(_cell(hash_, entry)))


@njit
def move_tables(
    old: Int64s, new: Int64s, counts: Int64s, record: int, width: int, has_text: bool
) -> None:
    """Copies the entries of tables into larger pieces, all by their rows."""
    for t in range(len(old)):
        count, a, b = counts[t], old[t], new[t]
        if count == 0:
            continue
        copy(b[HASHES], a[HASHES], 8 * count)
        copy(b[WORDS], a[WORDS], 8 * width * count)
        copy(b[RECORDS], a[RECORDS], record * count)
        copy(b[FLAGS], a[FLAGS], count)
        copy(b[BLOCKS], a[BLOCKS], 8 * ((count - 1 >> BLOCK_BITS) + 1))
        if has_text:
            copy(b[OFFSETS], a[OFFSETS], 8 * (count + 1))
            copy(b[ARENA], a[ARENA], word_at(a[OFFSETS] + 8 * count))
        _fill_index_at(b[INDEX], b[INDEX_SIZE], b[HASHES], count)


@njit
def fill_blocks(rows: Int64s) -> None:
    """Nothing is known of the timers of any block of entries."""
    for t in range(len(rows)):
        for block in range(rows[t, BLOCK_COUNT]):
            put_word(rows[t, BLOCKS] + 8 * block, BEFORE_ALL)


@njit
def find_words(
    index: UInt64s, known: UInt64s, stored: Int64s, blocks: Int64s,
    hashes: UInt64s, words: Int64s, rows: Int64s, out: Int64s, start: int, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Fills ``out`` from ``start``; stops at a new key when there is no room for an entry."""
    entry: Any
    mask = np.uint64(len(index) - 1)
    for i in range(start, len(rows)):
        row = rows[i]
        if i + _AHEAD < len(rows):
            soon(index, np.int64(hashes[rows[i + _AHEAD]] & mask))
        slot = hashes[row] & mask
        entry = -1
        while index[slot] != _EMPTY:
            if index[slot] >> _HALF == hashes[row] >> _HALF:
                entry = np.int64(index[slot] & _LOW) - 1
                for k in range(words.shape[1]):
                    if stored[entry, k] != words[row, k]:
                        entry = -1
                        break
                if entry >= 0:
                    break
            slot = (slot + np.uint64(1)) & mask
        if entry < 0:
            if count == len(known):
                return i, count
            entry = count
            known[entry] = hashes[row]
            # Word by word: a copy of a whole row takes Numba a second to compile.
            for k in range(words.shape[1]):
                stored[entry, k] = words[row, k]
            index[slot] = _cell(hashes[row], entry)
            count += 1
        blocks[entry >> BLOCK_BITS] = BEFORE_ALL
        out[i] = entry
    return len(rows), count


@njit
def _same(a: Bytes, a_start: Any, a_stop: Any, b: Bytes, b_start: Any, b_stop: Any) -> bool:
    size = a_stop - a_start
    if size != b_stop - b_start:
        return False
    k = 0
    while k + 8 <= size:
        if eight_bytes(a, a_start + k) != eight_bytes(b, b_start + k):
            return False
        k += 8
    while k < size:
        if a[a_start + k] != b[b_start + k]:
            return False
        k += 1
    return True


@njit
def find_bytes(
    index: UInt64s, known: UInt64s, stored: Int64s, blocks: Int64s, ends: Int64s, arena: Bytes,
    hashes: UInt64s, words: Int64s, offsets: Int64s, data: Bytes, rows: Int64s, out: Int64s,
    start: int, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Fills ``out`` from ``start``; stops at a new key when there is no room for it."""
    entry: Any
    mask = np.uint64(len(index) - 1)
    for i in range(start, len(rows)):
        row = rows[i]
        if i + _AHEAD < len(rows):
            soon(index, np.int64(hashes[rows[i + _AHEAD]] & mask))
        first, last = offsets[row], offsets[row + 1]
        slot = hashes[row] & mask
        entry = -1
        while index[slot] != _EMPTY:
            if index[slot] >> _HALF == hashes[row] >> _HALF:
                entry = np.int64(index[slot] & _LOW) - 1
                if _same(arena, ends[entry], ends[entry + 1], data, first, last):
                    break
                entry = -1
            slot = (slot + np.uint64(1)) & mask
        if entry < 0:
            if count == len(known) or ends[count] + last - first > len(arena):
                return i, count
            entry = count
            known[entry] = hashes[row]
            for k in range(words.shape[1]):
                stored[entry, k] = words[row, k]
            for k in range(last - first):
                arena[ends[entry] + k] = data[first + k]
            ends[entry + 1] = ends[entry] + last - first
            index[slot] = _cell(hashes[row], entry)
            count += 1
        blocks[entry >> BLOCK_BITS] = BEFORE_ALL
        out[i] = entry
    return len(rows), count


@njit
def find_due(
    timers: Any, flags: Bytes, blocks: Int64s, count: int, clock: int, out: Int64s
) -> tuple[int, int]:
    """Writes the entries due to ``out``; returns how many and the least timer of the others."""
    found = 0
    least = NEVER
    for block in range((count + (1 << BLOCK_BITS) - 1) >> BLOCK_BITS):
        if blocks[block] < clock:
            before = found
            bound = NEVER
            first = block << BLOCK_BITS
            for entry in range(first, min(count, first + (1 << BLOCK_BITS))):
                if flags[entry] & ALIVE:
                    if timers[entry] < clock:
                        out[found] = entry
                        found += 1
                    else:
                        bound = min(bound, timers[entry])
            least = min(least, bound)
            # Firing changes the timers that were due, so their block stays unknown.
            blocks[block] = bound if found == before else BEFORE_ALL
        else:
            least = min(least, blocks[block])
    return found, least


@njit
def gather(ends: Int64s, arena: Bytes, entries: Int64s, offsets: Int64s, out: Bytes) -> None:
    for i in range(len(entries)):
        start = ends[entries[i]]
        for k in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + k] = arena[start + k]


@njit
def _count_buckets(buckets: Int64s, starts: Int64s, order: Int64s) -> None:
    for i in range(len(buckets)):
        starts[buckets[i] + 1] += 1
    for b in range(1, len(starts)):
        starts[b] += starts[b - 1]
    at = starts[:-1].copy()
    for i in range(len(buckets)):
        order[at[buckets[i]]] = i
        at[buckets[i]] += 1


def split_by_bucket(buckets: Int64s, nbuckets: int) -> tuple[Int64s, Int64s]:
    """The rows of each bucket, in their order: bucket b has ``order[starts[b]:starts[b + 1]]``."""
    order = np.empty(len(buckets), np.int64)
    starts = np.zeros(nbuckets + 1, np.int64)
    _count_buckets(buckets, starts, order)
    return order, starts
