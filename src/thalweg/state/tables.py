"""Tables of keyed state, one a bucket: open addressing for compiled operators, a dict for the others.

A :class:`BucketTable` is a set of parallel arrays that compiled kernels index by entry number. An
index of 64-bit cells (32 bits of the hash, entry number + 1; 0 is empty; linear probing, at most
half full) finds the entry of a key, so that a probe that misses touches no other memory. Entries
never move while a chunk is processed; only :meth:`BucketTable.mark_saved` and
:meth:`BucketTable.tidy` renumber them. Both tables have one and the same Arrow form (see
:class:`thalweg.runtime.contracts.BucketState`), so a restart may switch between them.

Timers are found without a heap: blocks of 32 entries keep a lower bound of their timers, and a
lookup marks its entry's block as unknown, since the kernel may then change the timer. A search
reads the bounds of all blocks but the timers of few.

The file is long because both tables and the compiled loops share one layout and one Arrow form.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.errors import SchemaError
from thalweg.hashing import Bytes, UInt64s
from thalweg.jit import njit
from thalweg.records import Field, Kind, StateSpec
from thalweg.runtime.chunks import CATEGORIES, Bools, Column, Int64s, numpy_dtype
from thalweg.runtime.contracts import no_rows
from thalweg.runtime.keys import KeyBytes, KeySpec
from thalweg.times import BEFORE_ALL, NEVER

#: Bits of ``BucketTable.flags``: the key has a state; it was written since mark_saved; it is on disk.
ALIVE: Final = 1
DIRTY: Final = 2
SAVED: Final = 4

#: The last column of the Arrow form: whether the key's state was dropped.
DELETED: Final = "_deleted"
#: The last field of ``BucketTable.records``, set by ``tw.drop`` in a compiled function.
DROP: Final = "_drop"

#: Says of the hashes of keys which of them stay.
Stays: TypeAlias = Callable[[UInt64s], Bools]

_BLOCK_BITS: Final = 5
_FIRST_CAPACITY: Final = 16
#: A table with fewer entries grows by more, so that growing is rare.
_SMALL: Final = 1024
#: Fewer dead entries than this are not worth the work of removing them.
_FEW: Final = 64
_NO_BYTES: Final = KeyBytes(np.zeros(1, np.int64), np.zeros(0, np.uint8))


def arrow_schema(spec: KeySpec, state: StateSpec) -> pa.Schema:
    """The Arrow form of a bucket: key fields, state fields, ``_deleted``; to be read by place."""
    fields = [
        pa.field(f.name, f.type.arrow, nullable=f.type.optional)
        for f in (*spec.fields, *state.schema.fields)
    ]
    return pa.schema([*fields, pa.field(DELETED, pa.bool_(), nullable=False)])


def record_dtype(state: StateSpec) -> np.dtype[Any]:
    """The array type of a compiled state, with ``_drop`` last.

    Raises:
        SchemaError: a field is Optional or not of fixed width; such a state is interpreted.
    """
    for field in state.schema.fields:
        if not field.type.fixed_width or field.type.optional:
            raise SchemaError(
                f"state {state.name}.{field.name}: {field.type} does not fit a compiled table; it"
                " holds int, float, bool, tw.Timestamp, tw.Category and tw.Timer, none Optional"
            )
    fields = [(f.name, numpy_dtype(f.type.kind)) for f in state.schema.fields]
    return np.dtype([*fields, (DROP, np.dtype(np.uint8))], align=True)


def default_record(state: StateSpec) -> npt.NDArray[Any]:
    """One record with every field at its default."""
    record = np.zeros(1, record_dtype(state))
    for field in state.schema.fields:
        category = field.type.kind is Kind.CATEGORY
        record[field.name] = CATEGORIES.code(field.default) if category else field.default
    return record


class BucketTable:
    """The state of one bucket of a compiled keyed operator; one thread at a time.

    A kernel works on the entries that :meth:`lookup` and :meth:`due` gave it, through the arrays
    below, which :meth:`lookup` may replace (never renumber): read the attributes after it. It may
    kill an entry (clear ALIVE, set DIRTY) and revive one (``records[e] = default``, set ALIVE and
    DIRTY). When it arms a timer it lowers ``bounds[0]`` to it. After :meth:`due` it arms timers of
    the entries due only; the others must be looked up again.
    """

    def __init__(self, spec: KeySpec, state: StateSpec) -> None:
        self.spec = spec
        self.state = state
        self.schema = arrow_schema(spec, state)
        #: a record with every field at its default
        self.default = default_record(state)
        #: a lower bound of all timers, NEVER when there is none; and the entries in use, dead ones included
        self.bounds = np.array([NEVER, 0], np.int64)
        self._start(_FIRST_CAPACITY)

    def _start(self, capacity: int) -> None:
        self.count = 0
        self.hashes = np.zeros(0, np.uint64)
        self.words = np.zeros((0, self.spec.width), np.int64)
        #: entry e's identity is ``arena[offsets[e]:offsets[e + 1]]``; empty without text fields
        self.offsets = np.zeros(1, np.int64)
        self.arena = np.zeros(0, np.uint8)
        self.records = np.zeros(0, self.default.dtype)
        self.flags = np.zeros(0, np.uint8)
        self._blocks = no_rows()
        self.bounds[0] = NEVER
        self._tidy_at = _FEW
        self._grow(capacity)

    @property
    def count(self) -> int:
        """Entries in use, dead ones included; it stands beside the bound for machine code to change."""
        return int(self.bounds[1])

    @count.setter
    def count(self, count: int) -> None:
        self.bounds[1] = count

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
            if key_bytes is None:
                done, self.count = _find_words(
                    self._index, self.hashes, self.words, self._blocks,
                    hashes, words, rows, out, done, self.count,
                )  # fmt: skip
            else:
                done, self.count = _find_bytes(
                    self._index, self.hashes, self.words, self._blocks, self.offsets, self.arena,
                    hashes, words, key_bytes.offsets, key_bytes.data, rows, out, done, self.count,
                )  # fmt: skip
            if done == len(rows):
                return out
            self._make_room(rows[done], key_bytes)

    def make_room(self) -> None:
        """Room for more entries; the arrays are replaced, the entries keep their numbers."""
        self._grow((4 if self.count < _SMALL else 2) * self.count)

    def reserve(self, extra: int) -> None:
        """Room for so many more entries: forgets dead keys first, which renumbers the others, and then grows."""
        if self.count + extra > len(self.flags):
            self.tidy()
        capacity = len(self.flags)
        while capacity < self.count + extra:
            capacity *= 4 if capacity < _SMALL else 2
        if capacity > len(self.flags):
            self._grow(capacity)

    def _make_room(self, row: int, key_bytes: KeyBytes | None) -> None:
        if self.count == len(self.flags):
            self.make_room()
        elif key_bytes is not None:
            size = int(key_bytes.offsets[row + 1] - key_bytes.offsets[row])
            self.arena = _extended(
                self.arena, max(2 * len(self.arena), len(self.arena) + size, 256)
            )

    def _grow(self, capacity: int) -> None:
        self.hashes = _extended(self.hashes, capacity)
        self.words = _extended(self.words, capacity)
        self.records = _extended(self.records, capacity)
        self.flags = _extended(self.flags, capacity)
        self._blocks = _extended(self._blocks, (capacity >> _BLOCK_BITS) + 1, BEFORE_ALL)
        if self.spec.has_text:
            self.offsets = _extended(self.offsets, capacity + 1)
        self._build_index()

    def _build_index(self) -> None:
        self._index = np.zeros(1 << (2 * len(self.flags) - 1).bit_length(), np.uint64)
        _fill_index(self._index, self.hashes, self.count)

    # -- timers -----------------------------------------------------------------------------------

    @property
    def next_timer(self) -> int:
        """A lower bound of all timers, NEVER when there is none."""
        return int(self.bounds[0])

    def note_timer(self, time: int) -> None:
        """Tells that a timer was armed."""
        self.bounds[0] = min(self.bounds[0], time)

    def due(self, clock: int) -> Int64s:
        """The living entries whose timer is below the clock, in no order.

        The caller fires them all: they are not told twice, unless they are armed again.
        """
        if self.state.timer is None or self.bounds[0] >= clock:
            return no_rows()
        out = np.empty(self.count, np.int64)
        timers = self.records[self.state.timer]
        found, self.bounds[0] = _find_due(timers, self.flags, self._blocks, self.count, clock, out)
        return out[:found].copy()

    # -- keys -------------------------------------------------------------------------------------

    def key_columns(self, entries: Int64s) -> list[Column]:
        """The key columns of these entries."""
        rows = self._identities(entries) if self.spec.has_text else None
        return self.spec.columns(self.words[entries], rows)

    def gather_text(self, entries: Int64s, field: str) -> pa.Array:
        """A str or bytes field of the keys of these entries."""
        return self.spec.text_array(self.spec.names.index(field), self._identities(entries))

    def _identities(self, entries: Int64s) -> KeyBytes:
        offsets = np.zeros(len(entries) + 1, np.int64)
        np.cumsum(self.offsets[entries + 1] - self.offsets[entries], out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        _gather(self.offsets, self.arena, entries, offsets, data)
        return KeyBytes(offsets, data)

    # -- state files ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many keys have a state."""
        return int(np.count_nonzero(self.flags[: self.count] & ALIVE))

    @property
    def nbytes(self) -> int:
        """Memory held, bytes."""
        arrays = (
            self._index, self.hashes, self.words, self.offsets, self.arena, self.records,
            self.flags, self._blocks,
        )  # fmt: skip
        return sum(one.nbytes for one in arrays)

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
        for field in self.state.schema.fields:
            columns.append(Column(field.type, np.ascontiguousarray(records[field.name])))
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
        gone = alive[~stays(self.hashes[alive])]
        rows = self._to_arrow(gone)
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
            self._remove_dead(len(self.flags))

    def _remove_dead(self, capacity: int = 0) -> None:
        kept = np.flatnonzero(self.flags[: self.count] & (ALIVE | SAVED))
        if self.count > _FEW and 2 * len(kept) <= self.count:
            self._keep(kept, capacity)
        self._tidy_at = 2 * len(kept) + _FEW

    def _keep(self, entries: Int64s, capacity: int) -> None:
        """Renumbers the entries: these, in this order, and no others; with room for ``capacity`` at least."""
        size = len(entries)
        capacity = max(_FIRST_CAPACITY, size + (size >> 1), capacity)
        if self.spec.has_text:
            offsets, self.arena = self._identities(entries)
            self.offsets = _extended(offsets, capacity + 1)
        self.hashes = _extended(self.hashes[entries], capacity)
        self.words = _extended(self.words[entries], capacity)
        self.records = _extended(self.records[entries], capacity)
        self.flags = _extended(self.flags[entries], capacity)
        self._blocks = np.full((capacity >> _BLOCK_BITS) + 1, BEFORE_ALL, np.int64)
        self.count = size
        self._build_index()

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Becomes the state of these batches, oldest first; all of it counts as saved."""
        largest = max((batch.num_rows for batch in batches), default=0)
        self._start(max(_FIRST_CAPACITY, largest))
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
        keys, states, deleted = _parts(self.spec, self.state, batch)
        found = self.spec.rows(keys, batch.num_rows)
        entries = self.lookup(*found, np.arange(batch.num_rows))
        for field, column in zip(self.state.schema.fields, states, strict=True):
            self.records[field.name][entries] = column.values
        self.flags[entries] = np.where(deleted, 0, ALIVE | SAVED)


def _parts(
    spec: KeySpec, state: StateSpec, batch: pa.RecordBatch
) -> tuple[list[Column], list[Column], Bools]:
    """The key columns, state columns and deletions of a batch, taken by place."""
    fields: tuple[Field, ...] = (*spec.fields, *state.schema.fields)
    columns = [Column.from_arrow(f.type, batch.column(i)) for i, f in enumerate(fields)]
    deleted = batch.column(len(fields)).to_numpy(zero_copy_only=False)
    return columns[: len(spec.fields)], columns[len(spec.fields) :], deleted


def _extended(values: npt.NDArray[Any], size: int, fill: int = 0) -> npt.NDArray[Any]:
    # zeros, unlike full, takes no memory before it is written
    out = np.zeros((size, *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    if fill:
        out[len(values) :] = fill
    return out


# -- compiled -------------------------------------------------------------------------------------

_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_EMPTY: Final = np.uint64(0)


@njit
def _cell(hash_: Any, entry: Any) -> Any:
    return ((hash_ >> _HALF) << _HALF) | np.uint64(entry + 1)


@njit
def _fill_index(index: UInt64s, hashes: UInt64s, count: int) -> None:
    mask = np.uint64(len(index) - 1)
    for entry in range(count):
        slot = hashes[entry] & mask
        while index[slot] != _EMPTY:
            slot = (slot + np.uint64(1)) & mask
        index[slot] = _cell(hashes[entry], entry)


@njit
def _find_words(
    index: UInt64s, known: UInt64s, stored: Int64s, blocks: Int64s,
    hashes: UInt64s, words: Int64s, rows: Int64s, out: Int64s, start: int, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Fills ``out`` from ``start``; stops at a new key when there is no room for an entry."""
    entry: Any
    mask = np.uint64(len(index) - 1)
    for i in range(start, len(rows)):
        row = rows[i]
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
            stored[entry] = words[row]
            index[slot] = _cell(hashes[row], entry)
            count += 1
        blocks[entry >> _BLOCK_BITS] = BEFORE_ALL
        out[i] = entry
    return len(rows), count


@njit
def _same(a: Bytes, a_start: Any, a_stop: Any, b: Bytes, b_start: Any, b_stop: Any) -> bool:
    if a_stop - a_start != b_stop - b_start:
        return False
    for k in range(a_stop - a_start):  # noqa: SIM110 (Numba compiles no generators)
        if a[a_start + k] != b[b_start + k]:
            return False
    return True


@njit
def _find_bytes(
    index: UInt64s, known: UInt64s, stored: Int64s, blocks: Int64s, ends: Int64s, arena: Bytes,
    hashes: UInt64s, words: Int64s, offsets: Int64s, data: Bytes, rows: Int64s, out: Int64s,
    start: int, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Fills ``out`` from ``start``; stops at a new key when there is no room for it."""
    entry: Any
    mask = np.uint64(len(index) - 1)
    for i in range(start, len(rows)):
        row = rows[i]
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
            stored[entry] = words[row]
            for k in range(last - first):
                arena[ends[entry] + k] = data[first + k]
            ends[entry + 1] = ends[entry] + last - first
            index[slot] = _cell(hashes[row], entry)
            count += 1
        blocks[entry >> _BLOCK_BITS] = BEFORE_ALL
        out[i] = entry
    return len(rows), count


@njit
def _find_due(
    timers: Any, flags: Bytes, blocks: Int64s, count: int, clock: int, out: Int64s
) -> tuple[int, int]:
    """Writes the entries due to ``out``; returns how many and the least timer of the others."""
    found = 0
    least = NEVER
    for block in range((count + (1 << _BLOCK_BITS) - 1) >> _BLOCK_BITS):
        if blocks[block] < clock:
            before = found
            bound = NEVER
            first = block << _BLOCK_BITS
            for entry in range(first, min(count, first + (1 << _BLOCK_BITS))):
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
def _gather(ends: Int64s, arena: Bytes, entries: Int64s, offsets: Int64s, out: Bytes) -> None:
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


# -- interpreted ----------------------------------------------------------------------------------


class ObjectTable:
    """The state of one bucket of an interpreted keyed operator: Python key -> state object.

    Keys are in the canonical form of :meth:`KeySpec.python_keys`. One thread at a time.
    """

    def __init__(self, spec: KeySpec, state: StateSpec) -> None:
        self.spec = spec
        self.state = state
        self.schema = arrow_schema(spec, state)
        self._states: dict[Any, Any] = {}
        self._saved: set[Any] = set()
        #: keys written since mark_saved, oldest first (a dict, since a set has no order)
        self._dirty: dict[Any, None] = {}
        #: keys whose timer may differ from what the heap says
        self._stirred: dict[Any, None] = {}
        #: (timer, ticket, key); an item is void unless the key's state has that very timer
        self._heap: list[tuple[int, int, Any]] = []
        self._tickets = 0

    def get(self, key: Any) -> Any | None:
        """The state of the key, None when it has none."""
        return self._states.get(key)

    def get_or_new(self, key: Any) -> Any:
        """The state of the key; a key without one gets a fresh one, which counts as written."""
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = self.state.new()
            self.touch(key)
        return found

    def touch(self, key: Any) -> None:
        """Tells that the key's state is changed, before or after it is, in the same chunk."""
        self._dirty[key] = None
        if self.state.timer is not None:
            self._stirred[key] = None

    def drop(self, key: Any) -> None:
        """Removes the state of the key, if it has one."""
        if self._states.pop(key, None) is not None:
            self._dirty[key] = None

    def replace(self, key: Any, state: Any) -> None:
        """Gives the key this state."""
        self._states[key] = state
        self.touch(key)

    # -- timers -----------------------------------------------------------------------------------

    @property
    def next_timer(self) -> int:
        """The least timer, NEVER when there is none."""
        self._settle()
        while self._heap and self._timer(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def due(self, clock: int) -> list[Any]:
        """The keys whose timer is below the clock, in no order.

        The caller fires them all, and touches or drops each: they are not told twice.
        """
        self._settle()
        out: dict[Any, None] = {}
        while self._heap and self._heap[0][0] < clock:
            time, _, key = heapq.heappop(self._heap)
            if self._timer(key) == time:
                out[key] = None
        return list(out)

    def _timer(self, key: Any) -> int | None:
        found = self._states.get(key)
        if found is None or self.state.timer is None:
            return None
        time: int | None = getattr(found, self.state.timer)
        return time

    def _settle(self) -> None:
        for key in self._stirred:
            time = self._timer(key)
            if time is not None and time != NEVER:
                self._tickets += 1
                heapq.heappush(self._heap, (time, self._tickets, key))
        self._stirred.clear()
        # Each change of a timer leaves a void item behind.
        if len(self._heap) > 2 * len(self._states) + _FEW:
            self._heap.clear()
            self._stirred = dict.fromkeys(self._states)
            self._settle()

    # -- state files ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many keys have a state."""
        return len(self._states)

    @property
    def nbytes(self) -> int:
        """Memory held, bytes; an estimate from the first state."""
        sample = next(iter(self._states.items()), None)
        if sample is None:
            return sys.getsizeof(self._states)
        key, state = sample
        parts = (key, state, *(getattr(state, name) for name in self.state.schema.names))
        return sys.getsizeof(self._states) + len(self._states) * sum(map(sys.getsizeof, parts))

    @property
    def dirty(self) -> bool:
        """Whether there is a delta to write."""
        return any(key in self._states or key in self._saved for key in self._dirty)

    def delta(self) -> pa.RecordBatch:
        """The keys written since :meth:`mark_saved`; dropped ones have the default state."""
        return self._to_arrow(
            [key for key in self._dirty if key in self._states or key in self._saved]
        )

    def snapshot(self) -> pa.RecordBatch:
        """Every key that has a state."""
        return self._to_arrow(list(self._states))

    def _to_arrow(self, keys: list[Any]) -> pa.RecordBatch:
        fresh = self.state.new()
        values = [self.state.values(self._states.get(key, fresh)) for key in keys]
        columns = self.spec.columns_of(keys)
        for i, field in enumerate(self.state.schema.fields):
            columns.append(Column.from_python(field.type, [one[i] for one in values]))
        deleted = pa.array([key not in self._states for key in keys], pa.bool_())
        arrays = [*(column.to_arrow() for column in columns), deleted]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def take_out(self, stays: Stays) -> pa.RecordBatch:
        """Drops the keys that do not stay and gives what :meth:`snapshot` said of them."""
        keys = list(self._states)
        stay = stays(self.spec.hashes(self.spec.columns_of(keys), len(keys))).tolist()
        gone = [key for key, stayed in zip(keys, stay, strict=True) if not stayed]
        rows = self._to_arrow(gone)
        for key in gone:
            self.drop(key)
        return rows

    def mark_saved(self) -> None:
        """What was just written is on disk from now on."""
        for key in self._dirty:
            if key in self._states:
                self._saved.add(key)
            else:
                self._saved.discard(key)
        self._dirty.clear()

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Becomes the state of these batches, oldest first; all of it counts as saved."""
        self._states.clear()
        self._saved.clear()
        self._dirty.clear()
        self._stirred.clear()
        self._heap.clear()
        self.apply(batches)

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        """Takes over deltas, oldest first, as saved; only when there is nothing dirty here."""
        for batch in deltas:
            keys, states, deleted = _parts(self.spec, self.state, batch)
            values = [column.to_python() for column in states]
            for i, key in enumerate(self.spec.python_keys(keys, batch.num_rows)):
                if deleted[i]:
                    self._states.pop(key, None)
                else:
                    self._states[key] = self.state.restore([one[i] for one in values])
                self.touch(key)
        self.mark_saved()
