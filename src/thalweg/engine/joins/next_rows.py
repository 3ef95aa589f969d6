"""The rows that ``join_asof`` holds forward and nearest, of all tables of the operator in one place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from thalweg.checkpoint.state_tables.tables import BucketTable
from thalweg.columns.chunks import Bools, Chunk, Column, Int64s
from thalweg.columns.encoding import null_column
from thalweg.columns.state_units import StateUnits
from thalweg.engine.joins.form import JoinForm, SideRows
from thalweg.engine.joins.held_rows import HeldRows
from thalweg.engine.joins.table import JoinTable, deal
from thalweg.engine.joins.waiting import LEFTS, RIGHTS, Matches, WaitingRows, ends_of
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.joining.join_nodes import NextRow
from thalweg.flow.records import Field
from thalweg.flow.state_class import make_state
from thalweg.times import BEFORE_ALL, NEVER

#: Rows that are no longer needed are let go when there are so many more of them than of the others.
_SPARE: Final = 4096
#: What a table of keys has behind them.
_NOTHING: Final = make_state("Known", [Field("is_known", FieldType(Kind.BOOL), False)])


class NextTable(JoinTable):
    """As :class:`JoinTable`, of rows that wait for the next one, or the nearest."""

    def __init__(self, form: JoinForm, node: NextRow) -> None:
        super().__init__(form)
        self._node = node

    def _in_reach(self, sides: Sequence[SideRows]) -> list[Bools]:
        """All: what no longer waits is not here."""
        return [np.ones(len(one.rows), np.bool_) for one in sides]

    def _waits(self, ids: Sequence[Int64s], count: int) -> Int64s:
        before, has = np.zeros(count, np.int64), np.zeros(count, np.int64)
        before[ids[1]], has[ids[1]] = self.sides[1].times, 1
        waits = np.full(count, NEVER)
        mine = ids[0]
        ends = ends_of(self.sides[0].times, before[mine], has[mine], self._node.within)
        np.minimum.at(waits, mine, ends)
        return waits


class NextRows:
    """Rows of the left that wait, and the last row of the right of each key, between two looks at the tables."""

    def __init__(
        self, node: NextRow, form: JoinForm, units: StateUnits, tables: Mapping[int, JoinTable]
    ) -> None:
        """Takes the rows of the tables, which have them."""
        self._node, self._form, self._units = node, form, units
        self._tables: dict[int, JoinTable] = {}
        self.clock = min((one.clock for one in tables.values()), default=BEFORE_ALL)
        self._start([self._of_tables(place, tables) for place in (0, 1)])
        for unit, table in tables.items():
            self.adopt(unit, table)

    def _of_tables(self, place: int, tables: Mapping[int, JoinTable]) -> SideRows:
        parts = [one.sides[place] for one in tables.values()]
        found = SideRows.concat([self._form.no_rows(place), *parts])
        return found.take(np.argsort(found.times, kind="stable"))

    def _start(self, sides: Sequence[SideRows]) -> None:
        """Holds these rows and no others."""
        self._keys = BucketTable(self._form.bare, _NOTHING)
        self._waiting = WaitingRows(self._node.within, nearest=self._node.nearest)
        self._held = [HeldRows(record) for record in self._form.records]
        # The last row of the right says until when those of the left wait.
        for place in (1, 0):
            one = sides[place]
            keys = self.numbers(self._form.keys_of(place, one.rows, self._form.bare), len(one.rows))
            changed = one.fresh.astype(np.int64)
            self._waiting.hold(place, keys, one.times, changed, self._keys.count)
            self._held[place].add(one.rows)

    def adopt(self, unit: int, table: JoinTable) -> None:
        """Has the rows of a further table, which has none."""
        self._tables[unit] = table
        table.sides = [self._form.no_rows(0), self._form.no_rows(1)]
        table.holder = self

    def has_just(self, tables: Mapping[int, JoinTable]) -> bool:
        """Whether it has the rows of these tables and no others."""
        return len(tables) == len(self._tables) and all(
            one.holder is self for one in tables.values()
        )

    def give_back(self) -> None:
        """Gives each table its rows back."""
        for place, rows in enumerate(self._alive()):
            deal(self._form, self._units, self._tables, place, rows)
        for table in self._tables.values():
            table.holder, table.clock = None, self.clock
        self._tables = {}

    def _alive(self) -> list[SideRows]:
        alive = self._waiting.alive()
        changed = self._waiting.changed(alive)
        return [
            SideRows(held.whole().take(rows), fresh != 0, np.ones(len(rows), np.bool_))
            for held, rows, fresh in zip(self._held, alive, changed, strict=True)
        ]

    def settle(self) -> None:
        """Lets go of the rows that no longer wait, where they are many."""
        held = int(self._waiting.counts[LEFTS] + self._waiting.counts[RIGHTS])
        if held <= _SPARE:
            return
        alive = sum(map(len, self._waiting.alive()))
        if held > 2 * alive + _SPARE:
            self._start(self._alive())

    # -- rows ---------------------------------------------------------------------------------------------

    def numbers(self, keys: Sequence[Column], count: int) -> Int64s:
        """A number for each row's key, no field of which is null."""
        if not self._form.bare.fields:
            self._keys.count = 1
            return np.zeros(count, np.int64)
        hashes, words, identity = self._form.bare.rows(keys, count)
        return self._keys.lookup(hashes, words, identity, np.arange(count))

    def match(
        self, sides: Sequence[Chunk], keys: Int64s, times: Int64s, rights: Int64s, watermark: int
    ) -> Matches:
        """Holds rows of both sides and gives what leaves, up to a watermark; see :meth:`WaitingRows.match`."""
        for held, rows in zip(self._held, sides, strict=True):
            held.add(rows)
        self.clock = max(self.clock, watermark)
        return self._waiting.match(keys, times, rights, watermark, self._keys.count)

    @property
    def next_timer(self) -> int:
        """A lower bound of the times at which rows leave, NEVER where none waits."""
        return self._waiting.first_end

    def rows(self, side: int, numbers: Int64s, places: Sequence[int]) -> Chunk:
        """These fields of held rows."""
        return self._held[side].take(numbers, tuple(places))

    def columns(self, left: Int64s, right: Int64s, fields: Sequence[Sequence[int]]) -> list[Column]:
        """Fields of both sides by match, those of the right null where there is none (-1)."""
        lefts = self._held[0].take(left, tuple(fields[0])).columns
        has = right >= 0
        found = self._held[1].take(right[has], tuple(fields[1])).columns
        return [*lefts, *(_spread(column, has) for column in found)]


def _spread(column: Column, has: Bools) -> Column:
    """The values of a column at the rows that have one, the others null."""
    if has.all():
        return column
    kind = dataclasses.replace(column.type, optional=True)
    if not len(column):
        return null_column(kind, len(has))
    places = np.maximum(np.cumsum(has) - 1, 0)
    if not kind.fixed_width:
        return Column(kind, column.values.take(pa.array(places, mask=~has)))
    values = np.where(has, column.values[places], column.values.dtype.type(0))
    valid = has if column.valid is None else has & column.valid[places]
    return Column(kind, values, valid)
