"""The table of a compiled operator's keyed state, one a bucket: open addressing.

A :class:`BucketTable` is a set of parallel arrays that compiled kernels index by entry number. An index of 64-bit
cells (32 bits of the hash, entry number + 1; 0 is empty; linear probing, at most half full) finds the entry of a key,
so that a probe that misses touches no other memory. Entries never move while a chunk is processed; only
:meth:`BucketTable.mark_saved` and :meth:`BucketTable.tidy` renumber them. An interpreted operator's table has the
same Arrow form, so a restart may switch between them.

Timers are found without a heap: blocks of 32 entries keep a lower bound of their timers, and a lookup marks its
entry's block as unknown, since the kernel may then change the timer. A search reads the bounds of all blocks but the
timers of few.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.checkpoint.state_tables.cells import memory_of, texts_of
from thalweg.checkpoint.state_tables.table_code import (
    fill_index,
    find_bytes,
    find_due,
    find_words,
    gather,
)
from thalweg.checkpoint.state_tables.table_form import (
    ALIVE,
    DIRTY,
    FEW,
    SAVED,
    Stays,
    TableForm,
    column_of,
    release_values,
    set_values,
    table_parts,
)
from thalweg.checkpoint.state_tables.table_memory import (
    FIRST_CAPACITY,
    NOTHING,
    Arrays,
    Piece,
    capacities_for,
    moved,
    pieces,
)
from thalweg.checkpoint.state_tables.table_rows import ARENA_SIZE, CAPACITY
from thalweg.columns.chunks import Bools, Column, Int64s
from thalweg.columns.contracts import no_rows
from thalweg.columns.keys import KeyBytes, KeySpec
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.state_class import StateSpec
from thalweg.hashing import UInt64s
from thalweg.times import NEVER

_NO_BYTES: Final = KeyBytes(np.zeros(1, np.int64), np.zeros(0, np.uint8))


class BucketTable:
    """The state of one bucket of a compiled keyed operator; one thread at a time.

    A kernel works on the entries that :meth:`lookup` and :meth:`due` gave it, through the arrays
    below, which :meth:`lookup` may replace (never renumber): read the attributes after it. It may
    kill an entry (clear ALIVE, set DIRTY) and revive one (``records[e]`` a copy of the default, set ALIVE
    and DIRTY). When it arms a timer it lowers ``bounds[0]`` to it. After :meth:`due` it arms timers of
    the entries due only; the others must be looked up again.
    """

    def __init__(self, spec: KeySpec, state: StateSpec, form: TableForm | None = None) -> None:
        form = form or TableForm.of(spec, state)
        self.spec = spec
        self.state = state
        self.schema = form.schema
        #: a record with every field at its default, and one that owns nothing, which dead entries are
        self.default, self._bare = form.default, form.bare
        #: whether rows own memory outside of the arrays, which goes with them
        self._owns = form.owns
        self._shape = form.shape
        #: a lower bound of all timers, NEVER when there is none; and the entries in use, dead ones included
        self.bounds = np.array([NEVER, 0], np.int64)
        self._start()

    def _start(self) -> None:
        self.count = 0
        self.bounds[0] = NEVER
        self._tidy_at = FEW
        self._take(
            Piece(*NOTHING)
        )  # one of its own, which tells it from the table in whose place it stands

    def _take(self, piece: Piece) -> None:
        self.piece = piece
        #: the arrays over it, once somebody has asked for them
        self._made: Arrays | None = None

    @property
    def _arrays(self) -> Arrays:
        if self._made is None:
            self._made = self.piece.arrays(self._shape)
        return self._made

    words = property(lambda self: self._arrays.words)

    @property
    def records(self) -> npt.NDArray[Any]:
        """The states."""
        return self._arrays.records

    @property
    def flags(self) -> npt.NDArray[np.uint8]:
        """Of the states: ALIVE, DIRTY, SAVED."""
        return self._arrays.flags

    @property
    def capacity(self) -> int:
        """The entries that there is room for."""
        return int(self.piece.row[CAPACITY])

    @property
    def count(self) -> int:
        """Entries in use, dead ones included; it stands beside the bound for machine code to change."""
        return int(self.bounds[1])

    @count.setter
    def count(self, count: int) -> None:
        self.bounds[1] = count

    def empty(self, entries: Any) -> None:
        """Puts the state of entries at its default but for what owns memory, and gives back what they own."""
        if self._owns:
            for field in self.state.schema.fields:
                release_values(self.records, field, entries)
        self.records[entries] = self._bare[0]

    def __del__(self) -> None:
        # At the end of the process all memory goes, and compiled code may be gone.
        if getattr(self, "_owns", False) and not sys.is_finalizing() and "piece" in vars(self):
            self.empty(slice(0, self.count))

    # -- lookup -----------------------------------------------------------------------------------

    def lookup(
        self, hashes: UInt64s, words: Int64s, key_bytes: KeyBytes | None, rows: Int64s
    ) -> Int64s:
        """The entries of these rows' keys; a key not seen before gets one with flags 0.

        Args:
            hashes: the hash of each row of the chunk, with words and key_bytes as in KeyRows.
            words: C-contiguous.
            key_bytes: None when the key has no text fields.
            rows: the rows to look up.
        """
        out = np.empty(len(rows), np.int64)
        done = 0
        while True:
            at = self._arrays
            if key_bytes is None:
                done, self.count = find_words(
                    at.cells,
                    at.hashes,
                    at.words,
                    at.blocks,
                    hashes,
                    words,
                    rows,
                    out,
                    done,
                    self.count,
                )
            else:
                done, self.count = find_bytes(
                    at.cells, at.hashes, at.words, at.blocks, at.offsets, at.arena,
                    hashes, words, key_bytes.offsets, key_bytes.data, rows, out, done, self.count,
                )  # fmt: skip
            if done == len(rows):
                return out
            self._make_room(rows[done], key_bytes)

    def reserve(self, extra: int, nbytes: int = 0) -> None:
        """Room for so many more entries, with identities of so many bytes in all.

        Forgets dead keys first, which renumbers the others, and then grows.
        """
        reserve([self], [extra], [nbytes])

    def _make_room(self, row: int, key_bytes: KeyBytes | None) -> None:
        size = 0
        if key_bytes is not None:
            size = int(key_bytes.offsets[row + 1] - key_bytes.offsets[row])
        _enlarge([self], [self.count + 1], [self.used_bytes + size])

    @property
    def used_bytes(self) -> int:
        """Of the identities."""
        return int(self._arrays.offsets[self.count]) if self._shape.has_text and self.count else 0

    # -- timers -----------------------------------------------------------------------------------

    @property
    def next_timer(self) -> int:
        """A lower bound of all timers, NEVER when there is none."""
        return int(self.bounds[0])

    def note_timer(self, time: int) -> None:
        """Tells that a timer was armed."""
        self.bounds[0] = min(self.bounds[0], time)

    def due(self, watermark: int) -> Int64s:
        """The living entries whose timer is below the watermark, in no order.

        The caller fires them all: they are not told twice, unless they are armed again.
        """
        if self.state.timer is None or self.bounds[0] >= watermark:
            return no_rows()
        out = np.empty(self.count, np.int64)
        timers = self.records[self.state.timer]
        found, self.bounds[0] = find_due(
            timers, self.flags, self._arrays.blocks, self.count, watermark, out
        )
        return out[:found].copy()

    # -- keys -------------------------------------------------------------------------------------

    def key_columns(self, entries: Int64s) -> list[Column]:
        """The key columns of these entries."""
        rows = self._identities(entries) if self.spec.has_text else None
        return self.spec.columns(self._arrays.words[entries], rows)

    def _identities(self, entries: Int64s) -> KeyBytes:
        ends = self._arrays.offsets
        offsets = np.zeros(len(entries) + 1, np.int64)
        np.cumsum(ends[entries + 1] - ends[entries], out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        gather(ends, self._arrays.arena, entries, offsets, data)
        return KeyBytes(offsets, data)

    # -- state files ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many keys have a state."""
        return int(np.count_nonzero(self.flags[: self.count] & ALIVE))

    @property
    def nbytes(self) -> int:
        """Memory held, bytes."""
        return sum(one.nbytes for one in self._arrays) + self._owned()

    def _owned(self) -> int:
        """Bytes that the rows own outside of the arrays."""
        return sum(
            memory_of(field.type, self.records[field.name][: self.count])
            + texts_of(field.type, self.records[field.name][: self.count])
            for field in self.state.schema.fields
            if field.type.kind in (Kind.LIST, Kind.STR)
        )

    @property
    def dirty(self) -> bool:
        """Whether there is a delta to write."""
        return bool(self._changed().any())

    def _changed(self) -> Bools:
        flags = self.flags[: self.count]
        # A key that came and went between two saves is in no file.
        changed: Bools = ((flags & DIRTY) != 0) & ((flags & (ALIVE | SAVED)) != 0)
        return changed

    def delta(self) -> pa.RecordBatch:
        """The keys written since :meth:`mark_saved`; dropped ones have the default state."""
        return self._to_arrow(np.flatnonzero(self._changed()))

    def snapshot(self) -> pa.RecordBatch:
        """Every key that has a state."""
        return self._to_arrow(np.flatnonzero(self.flags[: self.count] & ALIVE))

    def _to_arrow(self, entries: Int64s) -> pa.RecordBatch:
        deleted = (self.flags[entries] & ALIVE) == 0
        records = self.records[entries]
        records[deleted] = self.default
        columns = self.key_columns(entries)
        columns += [column_of(records, field) for field in self.state.schema.fields]
        arrays = [*(column.to_arrow() for column in columns), pa.array(deleted)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def mark_saved(self) -> None:
        """What was just written is on disk from now on; entries may get other numbers."""
        flags = self.flags[: self.count]
        alive = flags & ALIVE
        flags[:] = alive * (ALIVE | SAVED)
        self._remove_dead()

    def take_out(self, stays: Stays) -> pa.RecordBatch:
        """Drops the keys that do not stay and gives what :meth:`snapshot` said of them."""
        alive = np.flatnonzero(self.flags[: self.count] & ALIVE)
        gone = alive[~stays(self._arrays.hashes[alive])]
        rows = self._to_arrow(gone)
        self.empty(gone)
        self.flags[gone] ^= ALIVE
        self.flags[gone] |= DIRTY
        return rows

    def tidy(self) -> None:
        """Forgets dead keys that no file knows, when they are many; entries may get other numbers.

        To be called between chunks where mark_saved is seldom or never; looks at the entries only
        when their number has doubled.
        """
        if self.count >= self._tidy_at:
            # As many keys will come again as went: the room stays.
            self._remove_dead(self.capacity)

    def _remove_dead(self, capacity: int = 0) -> None:
        kept = np.flatnonzero(self.flags[: self.count] & (ALIVE | SAVED))
        if self.count > FEW and 2 * len(kept) <= self.count:
            self._keep(kept, capacity)
        self._tidy_at = 2 * len(kept) + FEW

    def _keep(self, entries: Int64s, capacity: int) -> None:
        """Renumbers the entries: these, in this order, and no others; with room for ``capacity`` at least."""
        size, old = len(entries), self._arrays
        capacity = max(FIRST_CAPACITY, size + (size >> 1), capacity)
        identities = self._identities(entries) if self._shape.has_text else _NO_BYTES
        self._take(pieces(self._shape, np.array([capacity]), np.array([len(identities.data)]))[0])
        self.count, new = size, self._arrays
        for name in ("hashes", "words", "records", "flags"):
            getattr(new, name)[:size] = getattr(old, name)[entries]
        if self._shape.has_text:
            new.offsets[: size + 1], new.arena[:] = identities
        fill_index(new.cells, new.hashes, size)

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Becomes the state of these batches, oldest first; all of it counts as saved."""
        self.empty(np.arange(self.count))
        self._start()
        self.apply(batches)

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        """Takes over deltas, oldest first, as saved; only when there is nothing dirty here."""
        for batch in deltas:
            self._apply(batch)
        if self.state.timer is not None:
            living = (self.flags[: self.count] & ALIVE) != 0
            timers = self.records[self.state.timer][: self.count][living]
            self.bounds[0] = timers.min(initial=NEVER)
        self._remove_dead()

    def _apply(self, batch: pa.RecordBatch) -> None:
        keys, states, deleted = table_parts(self.spec, self.state, batch)
        found = self.spec.rows(keys, batch.num_rows)
        if not self.count and batch.num_rows:
            self.reserve(batch.num_rows, 0 if found.identity is None else len(found.identity.data))
        entries = self.lookup(*found, np.arange(batch.num_rows))
        for field, column in zip(self.state.schema.fields, states, strict=True):
            set_values(self.records, field, entries, column)
        self.flags[entries] = np.where(deleted, 0, ALIVE | SAVED)
        self.empty(entries[deleted])


def enlarge(
    tables: Sequence[BucketTable], rows: Int64s, counts: Int64s, entries: Int64s, nbytes: Int64s
) -> Int64s:
    """Room for so many entries with identities of so many bytes in all, in each of some tables of an operator.

    Entries keep their numbers. ``rows`` and ``counts`` are the tables'; gives new rows, without the places of bounds.
    """
    known = rows[:, ARENA_SIZE]
    arenas = np.where(nbytes <= known, known, np.maximum(2 * known, nbytes))
    capacities = capacities_for(rows[:, CAPACITY], entries)
    made = moved(tables[0]._shape, rows, counts, capacities, arenas)
    for table, piece in zip(tables, made, strict=True):
        table._take(piece)
    return np.array([one.row for one in made])


def reserve(tables: Sequence[BucketTable], extra: Sequence[int], nbytes: Sequence[int]) -> None:
    """Room for so many more entries and bytes in each; tables that lack it forget dead keys first."""
    lacking: list[tuple[int, int, int]] = []
    for place, (table, more, size) in enumerate(zip(tables, extra, nbytes, strict=True)):
        if table.count + more > table.capacity:
            table.tidy()
        entries, total = table.count + more, table.used_bytes + size
        if entries > table.capacity or total > table.piece.row[ARENA_SIZE]:
            lacking.append((place, entries, total))
    if lacking:
        places, entries_of, bytes_of = zip(*lacking, strict=True)
        _enlarge([tables[place] for place in places], entries_of, bytes_of)


def _enlarge(tables: Sequence[BucketTable], entries: Sequence[int], nbytes: Sequence[int]) -> None:
    rows = np.array([one.piece.row for one in tables])
    counts = np.array([one.count for one in tables], np.int64)
    enlarge(tables, rows, counts, np.array(entries, np.int64), np.array(nbytes, np.int64))
