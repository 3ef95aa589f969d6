"""The rows of all tables of a join in one place, where a step's rows find their partners in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from thalweg.columns.chunks import Bools, Chunk, Column, Int64s
from thalweg.columns.state_units import StateUnits
from thalweg.engine.joins.form import JoinForm, SideRows
from thalweg.engine.joins.held_rows import HeldRows
from thalweg.engine.joins.matching import FRESH, MATCHED, TIMES, Matcher, Pairs
from thalweg.engine.joins.reach import in_reach, timer
from thalweg.engine.joins.table import JoinTable, deal
from thalweg.times import BEFORE_ALL, NEVER


class HeldSides:
    """Both sides of a join between two looks at its tables.

    Attributes:
        clock: no later row has a time below it.
    """

    def __init__(self, form: JoinForm, units: StateUnits, tables: Mapping[int, JoinTable]) -> None:
        """Takes the rows of the tables, which have them."""
        self._form, self._units = form, units
        self._tables: dict[int, JoinTable] = {}
        self._matcher = Matcher(form.within)
        self._held = [HeldRows(record) for record in form.records]
        self._earliest: int | None = None
        #: by side, up to which row those that have met none have come out
        self._looked = np.zeros(2, np.int64)
        self.clock = min((one.clock for one in tables.values()), default=BEFORE_ALL)
        for place in (0, 1):
            self._take(place, [one.sides[place] for one in tables.values()])
        for unit, table in tables.items():
            self.adopt(unit, table)

    def _take(self, place: int, parts: Sequence[SideRows]) -> None:
        found = SideRows.concat([self._form.no_rows(place), *parts])
        found = found.take(np.argsort(found.times, kind="stable"))
        room = np.zeros(2, np.int64)
        room[place] = len(found.rows)
        self.make_room(room)
        keys = self._form.keys_of(place, found.rows, self._form.bare)
        numbers = self.numbers(keys, len(found.rows))
        loose = ~whole_keys(self._form.keys_of(place, found.rows, self._form.spec), len(found.rows))
        flags = np.stack([found.fresh, found.matched, loose]).astype(np.int64)
        self._matcher.hold(place, numbers, found.times, flags)
        self._held[place].add(found.rows)

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
        self._matcher.spread()
        for place, held in enumerate(self._held):
            rows = held.whole()
            fresh = self._matcher.held(place, FRESH) != 0
            matched = self._matcher.held(place, MATCHED) != 0
            if not self._form.sides[place].keeps:
                matched = np.ones(len(rows), np.bool_)
            whole = SideRows(rows, fresh, matched)
            # What has come out alone must not come again.
            stays = matched | in_reach(whole.times, self._form.within[place], self.clock)
            stayed = whole.take(np.flatnonzero(stays))
            deal(self._form, self._units, self._tables, place, stayed)
        for table in self._tables.values():
            table.holder, table.clock = None, self.clock
        self._tables = {}

    # -- rows ---------------------------------------------------------------------------------------------

    def numbers(self, keys: Sequence[Column], count: int) -> Int64s:
        """A number for each row's key, no field of which is null; the hash where no number is the key itself."""
        spec = self._form.bare
        if not self._form.is_exact:
            return spec.hashes(keys, count).view(np.int64)
        return spec.words(keys, count)[:, 0].copy() if keys else np.zeros(count, np.int64)

    def make_room(self, rows: Int64s) -> None:
        """Makes room for further rows of each side; what is out of reach makes some."""
        if self._matcher.room(rows):
            return
        gone = self._matcher.gone(self.clock)
        self._matcher.rebuild(gone, rows)
        for held, count in zip(self._held, gone, strict=True):
            held.forget(count)
        self._looked = np.maximum(self._looked - np.array(gone), 0)

    def add(
        self, sides: Sequence[Chunk], keys: Int64s, times: Int64s, rights: Int64s, loose: Int64s
    ) -> Pairs:
        """Holds rows of both sides, for which there is room, and gives their pairs.

        Args:
            sides: the rows of either side.
            keys: the number of each row's key, in the order of the stream.
            times: of each row.
            rights: its side, 0 or 1.
            loose: whether it meets none, since its key has a null.
        """
        for held, rows in zip(self._held, sides, strict=True):
            held.add(rows)
        self._earliest = None
        return self._matcher.match(keys, times, rights, loose)

    def have_met(self, left: Int64s, right: Int64s) -> None:
        """Notes that these rows have met one of the other side."""
        for place, numbers in enumerate((left, right)):
            self._matcher.held(place, MATCHED)[numbers] = 1

    def come_out(self, place: int) -> Int64s:
        """The rows of a side that keeps them and can meet none any more, each once."""
        upto = self._matcher.gone(self.clock)[place]
        first = int(self._looked[place])
        if not self._form.sides[place].keeps or upto <= first:
            return np.zeros(0, np.int64)
        self._looked[place] = upto
        alone = self._matcher.held(place, MATCHED)[first:upto] == 0
        numbers: Int64s = first + np.flatnonzero(alone)
        self._matcher.come_out(place, numbers)
        return numbers

    def advance(self, clock: int) -> None:
        """No later row has a time below this."""
        if clock > self.clock:
            self.clock, self._earliest = clock, None

    @property
    def next_timer(self) -> int:
        """A lower bound of the times at which rows get out of reach, NEVER without rows."""
        if self._earliest is None:
            gone = self._matcher.gone(self.clock)
            times = [self._matcher.held(place, TIMES)[gone[place] :] for place in (0, 1)]
            ends = [
                timer(int(one[0]), within)
                for one, within in zip(times, self._form.within, strict=True)
                if len(one)
            ]
            self._earliest = min(ends, default=NEVER)
        return self._earliest

    def columns(self, left: Int64s, right: Int64s, fields: Iterable[Sequence[int]]) -> list[Column]:
        """Fields of both sides by pair."""
        return [
            column
            for held, numbers, places in zip(self._held, (left, right), fields, strict=True)
            for column in held.take(numbers, tuple(places)).columns
        ]

    def rows(self, side: int, numbers: Int64s, places: Sequence[int]) -> Chunk:
        """These fields of held rows."""
        return self._held[side].take(numbers, tuple(places))

    def equal_keys(self, left: Int64s, right: Int64s) -> Bools:
        """Whether pairs have equal keys and not just equal hashes of them."""
        (words, texts), (other, others) = (
            self._compared(side, numbers) for side, numbers in enumerate((left, right))
        )
        equal: Bools = (words == other).all(axis=1)
        if texts is not None:
            equal &= pc.equal(texts, others).to_numpy(zero_copy_only=False)
        return equal

    def _compared(self, side: int, numbers: Int64s) -> tuple[Int64s, Any]:
        """The whole keys of held rows, as words and as bytes."""
        spec = self._form.bare
        found = self._held[side].take(numbers, self._form.sides[side].keys).columns
        named = zip(spec.fields, found, strict=True)
        columns = [Column(field.type, column.values) for field, column in named]
        words = spec.words(columns, len(numbers))
        return words, spec.ordered_bytes(columns) if spec.has_text else None


def whole_keys(keys: Sequence[Column], count: int) -> Bools:
    """Whether each row has a key without nulls."""
    has = np.ones(count, np.bool_)
    for column in keys:
        if column.valid is not None:
            has &= column.valid
        elif not column.type.fixed_width and column.values.null_count:
            has &= column.values.is_valid().to_numpy(zero_copy_only=False)
    return has
