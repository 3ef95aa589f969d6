"""The state of one bucket of a join as the state files see it: by key, the rows of both sides that may find a partner.

While the join runs, the rows of all its tables are together in one :class:`HeldSides`, where a step's rows find their
partners in one call. Who reads or changes a table first gives each table its rows back; the join fetches them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.checkpoint.state_tables.table_form import Stays, table_parts
from thalweg.columns.chunks import Bools, Int64s
from thalweg.columns.state_units import StateUnits
from thalweg.engine.joins.form import JoinForm, SideRows, places_of, taken
from thalweg.engine.joins.reach import in_reach, timers
from thalweg.times import BEFORE_ALL, NEVER

_NO_KEYS = pa.array([], pa.binary())


class Holder(Protocol):
    """Who has the rows of tables while a join runs."""

    @property
    def next_timer(self) -> int:
        """A lower bound of the times at which rows get out of reach."""

    def give_back(self) -> None:
        """Gives each table its rows back."""


class _JoinKeys(NamedTuple):
    """The keys of the held rows as bytes, and by side the number of each row's key."""

    keys: pa.BinaryArray
    ids: list[Int64s]


class JoinTable:
    """See :class:`thalweg.columns.contracts.BucketState`. One thread at a time.

    Attributes:
        sides: the rows of both sides, where no join holds them.
        clock: no later row has a time below it.
        holder: who has the rows now; None: the table has.
    """

    def __init__(self, form: JoinForm) -> None:
        self._form = form
        self.sides = [form.no_rows(0), form.no_rows(1)]
        self.clock = BEFORE_ALL
        self.holder: Holder | None = None
        #: the keys that files have
        self._saved: pa.BinaryArray = _NO_KEYS

    def fetch(self) -> list[SideRows]:
        """The rows, which are here now."""
        if self.holder is not None:
            self.holder.give_back()
        return self.sides

    @property
    def next_timer(self) -> int:
        """A lower bound of the times at which rows get out of reach, NEVER without rows."""
        if self.holder is not None:
            return self.holder.next_timer
        # Whoever fetches the rows looks more closely.
        return BEFORE_ALL if any(len(one.rows) for one in self.sides) else NEVER

    # -- keys ---------------------------------------------------------------------------------------------

    def _keys(self) -> _JoinKeys:
        """The keys of the rows that may still find a partner; the others are dropped."""
        kept = self._in_reach(self.fetch())
        if not all(one.all() for one in kept):
            self.sides = taken(self.sides, kept)
        keys = [self._form.ordered_keys(place, side.rows) for place, side in enumerate(self.sides)]
        coded = pa.concat_arrays(keys).dictionary_encode()
        numbers, count = coded.indices.to_numpy().astype(np.int64), len(self.sides[0].rows)
        return _JoinKeys(coded.dictionary, [numbers[:count], numbers[count:]])

    def _in_reach(self, sides: Sequence[SideRows]) -> list[Bools]:
        named = zip(sides, self._form.within, strict=True)
        return [in_reach(side.times, within, self.clock) for side, within in named]

    def _batch(self, found: _JoinKeys, chosen: Bools) -> pa.RecordBatch:
        """The chosen keys with their rows."""
        lists = []
        for place, (ids, side) in enumerate(zip(found.ids, self.sides, strict=True)):
            places, counts = places_of(ids, chosen)
            lists.append(self._form.lists(place, side.take(places), counts))
        keys = found.keys.filter(pa.array(chosen))
        waits = self._waits(found.ids, len(found.keys))
        return self._form.batch(keys, waits[chosen], lists)

    def _waits(self, ids: Sequence[Int64s], count: int) -> Int64s:
        """When the first row of each key can meet none any more; ``ids`` are the numbers of the rows' keys."""
        waits = np.full(count, NEVER)
        for mine, side, within in zip(ids, self.sides, self._form.within, strict=True):
            np.minimum.at(waits, mine, timers(side.times, within))
        return waits

    def _gone(self, found: _JoinKeys) -> pa.BinaryArray:
        """The keys that files have and the table has no more."""
        return self._saved.filter(pc.invert(pc.is_in(self._saved, value_set=found.keys)))

    # -- state files --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many keys have a state."""
        return len(self._keys().keys)

    @property
    def nbytes(self) -> int:
        """Memory held, bytes."""
        columns = [column.values for side in self.fetch() for column in side.rows.columns]
        return int(sum(one.nbytes for one in [*columns, self._saved]))

    @property
    def dirty(self) -> bool:
        """Whether there is a delta to write."""
        if any(side.fresh.any() for side in self.fetch()):
            return True
        return len(self._saved) > 0 and len(self._gone(self._keys())) > 0

    def delta(self) -> pa.RecordBatch:
        """The keys that got rows since :meth:`mark_saved`, or of which one came out alone, and those that are dropped.

        Of the others files may have rows that can meet none any more: who loads them drops them.
        """
        found = self._keys()
        changed = np.zeros(len(found.keys), np.bool_)
        for ids, side in zip(found.ids, self.sides, strict=True):
            changed[ids[side.fresh]] = True
        gone = self._form.tombstones(self._gone(found))
        return pa.concat_batches([self._batch(found, changed), gone])

    def snapshot(self) -> pa.RecordBatch:
        """Every key that has rows."""
        found = self._keys()
        return self._batch(found, np.ones(len(found.keys), np.bool_))

    def take_out(self, stays: Stays) -> pa.RecordBatch:
        """Drops the keys that do not stay and gives what :meth:`snapshot` said of them."""
        found = self._keys()
        columns = self._form.spec.decode_ordered(found.keys) if found.keys else []
        stay = np.ones(len(found.keys), np.bool_)
        if len(found.keys):
            stay = stays(self._form.spec.hashes(columns, len(found.keys)))
        rows = self._batch(found, ~stay)
        self.sides = taken(self.sides, [stay[ids] for ids in found.ids])
        return rows

    def mark_saved(self) -> None:
        """What was just written is on disk from now on."""
        self._saved = self._keys().keys
        self.sides = [SideRows.saved(one.rows, one.matched) for one in self.sides]

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Becomes the state of these batches, oldest first; all of it counts as saved."""
        self.fetch()
        self.sides, self._saved = [self._form.no_rows(0), self._form.no_rows(1)], _NO_KEYS
        self.apply(batches)

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        """Takes over deltas, oldest first, as saved; only when there is nothing dirty here."""
        self.fetch()
        # Who held these rows may not have been as far: rows that can meet them may wait here.
        self.clock = BEFORE_ALL
        for batch in deltas:
            self._apply(batch)

    def _apply(self, batch: pa.RecordBatch) -> None:
        keys, states, deleted = table_parts(self._form.spec, self._form.state, batch)
        names = self._form.spec.ordered_bytes(keys, batch.num_rows)
        stays = pa.array(~deleted)
        for place in (0, 1):
            rows = self._form.unlisted(place, states[place].values.filter(stays))
            self._put(place, names, rows)
        left = self._saved.filter(pc.invert(pc.is_in(self._saved, value_set=names)))
        self._saved = pa.concat_arrays([left, names.filter(stays)])

    def _put(self, place: int, keys: pa.BinaryArray, rows: SideRows) -> None:
        """Rows of a side in place of those that these keys had."""
        side = self.sides[place]
        old = pc.is_in(self._form.ordered_keys(place, side.rows), value_set=keys)
        kept = side.take(np.flatnonzero(~old.to_numpy(zero_copy_only=False)))
        self.sides[place] = SideRows.concat([kept, rows])


def deal(
    form: JoinForm, units: StateUnits, tables: Mapping[int, JoinTable], place: int, rows: SideRows
) -> None:
    """Gives each table its rows of a side."""
    keys = form.keys_of(place, rows.rows, form.spec)
    owners = units.of_rows(keys, form.spec.hashes(keys, len(rows.rows)))
    order = np.argsort(owners, kind="stable")
    rows, owners = rows.take(order), owners[order]
    for unit, table in tables.items():
        first, last = np.searchsorted(owners, [unit, unit + 1]).tolist()
        table.sides[place] = rows.slice(first, last)
