"""A join as an operator by key (:class:`~thalweg.columns.contracts.KeyedOperator`), by column and in machine code.

Without a function of the user's no row becomes a Python object. What it gives is what the functions of its node give,
called row by row (:class:`thalweg.flow.operators.joining.joins.JoinRules`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import KeyedResult, StatelessOperator
from thalweg.columns.encoding import null_column, try_columns
from thalweg.columns.state_units import StateUnits
from thalweg.engine.joins.form import JoinForm
from thalweg.engine.joins.held_sides import HeldSides, whole_keys
from thalweg.engine.joins.matching import Pairs
from thalweg.engine.joins.reach import timers
from thalweg.engine.joins.table import JoinTable
from thalweg.errors import OperatorError
from thalweg.flow.failures import coroutine_error
from thalweg.flow.operators.joining.join_nodes import Join
from thalweg.flow.operators.joining.joins import fitted
from thalweg.flow.records import Schema


class ColumnJoin:
    """A join over the buckets that this slot owns.

    Attributes:
        calls_python: whether Python calls a function of the user's for each pair.
    """

    def __init__(self, node: Join, pairs: StatelessOperator | None = None) -> None:
        """``pairs`` is the user's function as machine code, over the rows of ``node.pair``."""
        assert node.record is not None
        self._node, self._pairs = node, pairs
        self._record: Schema = node.record
        self._form = JoinForm(node)
        self._units = StateUnits.of_buckets(node.key.buckets)
        self.tables: dict[int, JoinTable] = {}
        self._sides = self._hold(self._units, {})
        self.calls_python = node.user is not None and pairs is None

    def _hold(self, units: StateUnits, tables: Mapping[int, JoinTable]) -> Any:
        """The rows of the tables in one place."""
        return HeldSides(self._form, units, tables)

    def _new_table(self) -> JoinTable:
        return JoinTable(self._form)

    def set_units(self, units: StateUnits) -> None:
        """By what the state is kept; tables that are held already must be those of these units."""
        self._sides.give_back()
        self._units = units

    def expect(self, more: float) -> None:
        pass  # held rows are in arrays that grow by doubling

    def table(self, bucket: int) -> JoinTable:
        """The table of a bucket, made on first use."""
        if bucket not in self.tables:
            self.tables[bucket] = self._new_table()
        return self.tables[bucket]

    def process(
        self,
        chunk: Chunk,
        keys: Sequence[Column],
        times: Int64s | None,
        clock: int,
        *,
        ending: bool,
    ) -> KeyedResult:
        """The pairs of a step's rows; see :meth:`thalweg.columns.contracts.KeyedOperator.process`."""
        self._fetch()
        parts = []
        if len(chunk):
            assert times is not None
            self._make_tables(keys, len(chunk))
            parts.append(self._pairs_of(chunk, keys, times))
            self._sides.advance(int(times[-1]))
        self._sides.advance(clock)
        parts += [self._alone(place) for place in (0, 1) if self._form.sides[place].keeps]
        return _together([one for one in parts if len(one.source)] or [self._nothing(keys)])

    def _fetch(self) -> None:
        """Has the rows of all tables in one place."""
        if not self._sides.has_just(self.tables):
            self._sides.give_back()
            for table in self.tables.values():
                table.fetch()
            self._sides = self._hold(self._units, self.tables)

    def _make_tables(self, keys: Sequence[Column], count: int) -> None:
        units = self._units.of_rows(keys, self._form.spec.hashes(keys, count))
        for unit in np.flatnonzero(np.bincount(units)).tolist():
            if unit not in self.tables:
                self._sides.adopt(unit, self.table(unit))

    def _nothing(self, keys: Sequence[Column]) -> KeyedResult:
        none = np.zeros(0, np.int64)
        columns = Chunk.empty(self._record).columns
        return KeyedResult(columns, none, none, [column.slice(0, 0) for column in keys])

    # -- pairs --------------------------------------------------------------------------------------------

    def _pairs_of(self, chunk: Chunk, keys: Sequence[Column], times: Int64s) -> KeyedResult:
        """The outputs of rows."""
        rights = chunk.columns[0].values.astype(np.int64)
        whole = whole_keys(keys, len(chunk))
        keeps = np.array([side.keeps for side in self._form.sides])
        rows = np.flatnonzero(whole | keeps[rights])
        rights, loose = rights[rows], ~whole[rows]
        all_are = len(rows) == len(chunk)
        numbered = [
            Column(field.type, (column if all_are else column.take(rows)).values)
            for field, column in zip(self._form.bare.fields, keys, strict=True)
        ]
        sides = [self._of_side(chunk, rows[rights == place], place) for place in (0, 1)]
        self._sides.make_room(np.array([len(side) for side in sides]))
        numbers = self._sides.numbers(numbered, len(rows))
        pairs = self._sides.add(sides, numbers, times[rows], rights, loose.astype(np.int64))
        if not len(pairs.places):
            return self._nothing(keys)
        return self._joined(pairs, rows, rights, keys)

    def _of_side(self, chunk: Chunk, rows: Int64s, place: int) -> Chunk:
        """The rows of one side as they are held."""
        side, record = self._form.sides[place], self._form.records[place]
        given = [*chunk.columns[side.first : side.first + side.time], chunk.columns[1]]
        columns = []
        for field, column in zip(record.fields, given, strict=True):
            mine = column.take(rows)
            valid = mine.valid if field.type.optional else None
            columns.append(Column(field.type, mine.values, valid))
        return Chunk(record, columns, len(rows))

    def _joined(
        self, pairs: Pairs, rows: Int64s, rights: Int64s, keys: Sequence[Column]
    ) -> KeyedResult:
        """The outputs of pairs; ``rows`` are the places of the rows held, ``rights`` the sides of these."""
        is_left = rights[pairs.places] == 0
        left = np.where(is_left, pairs.mine, pairs.theirs)
        right = np.where(is_left, pairs.theirs, pairs.mine)
        places = rows[pairs.places]
        if not self._form.is_exact:
            equal = self._sides.equal_keys(left, right)
            if not equal.all():
                left, right, places = left[equal], right[equal], places[equal]
        if self._form.keeps:
            self._sides.have_met(left, right)
        columns, made = self._combined(left, right)
        none = [column.slice(0, 0) for column in keys]
        return KeyedResult(columns, places[made], np.zeros(len(made), np.int64), none)

    def _combined(self, left: Int64s, right: Int64s) -> tuple[list[Column], Int64s]:
        """The outputs of pairs, and which pairs these are of."""
        if self._node.combine.function is None:
            return self._put_together(left, right), np.arange(len(left))
        out, made = (self._called if self._pairs is None else self._computed)(left, right)
        return out.columns, made

    # -- rows that have met none --------------------------------------------------------------------------

    def _alone(self, place: int) -> KeyedResult:
        """The outputs of the rows of one side that have met none and no longer can."""
        numbers = self._sides.come_out(place)
        side, record = self._form.sides[place], self._form.records[place]
        found = self._sides.rows(place, numbers, range(len(record.fields)))
        rows = Chunk(record, found.columns, len(numbers))
        made = np.arange(len(numbers))
        if self._node.combine.function is None:
            columns = self._filled_up(place, rows)
        else:
            out, made = self._called(*((None, numbers) if place else (numbers, None)))
            columns = out.columns
        rows = rows.take(made)
        times = timers(rows.columns[side.time].values, side.within)
        keys = self._form.keys_of(place, rows, self._form.spec)
        return KeyedResult(columns, np.full(len(made), -1), times, keys)

    def _filled_up(self, place: int, rows: Chunk) -> list[Column]:
        """The outputs without a function of rows of one side."""
        combine, size = self._node.combine, len(rows)
        left, right = combine.places
        here: dict[int, int] = dict(enumerate(left))
        if place:
            here = {len(left) + i: one for i, one in enumerate(right)} | dict(combine.instead)
        columns = []
        for i, field in enumerate(self._record.fields):
            if i in here:
                columns.append(dataclasses.replace(rows.columns[here[i]], type=field.type))
            else:
                columns.append(null_column(field.type, size))
        return columns

    # -- outputs ------------------------------------------------------------------------------------------

    def _put_together(self, left: Int64s, right: Int64s) -> list[Column]:
        """The outputs without a function: fields of both sides."""
        columns = self._sides.columns(left, right, self._node.combine.places)
        named = zip(self._record.fields, columns, strict=True)
        return [dataclasses.replace(column, type=field.type) for field, column in named]

    def _computed(self, left: Int64s, right: Int64s) -> tuple[Chunk, Int64s]:
        """As :meth:`_called`, in machine code."""
        assert self._pairs is not None and self._node.pair is not None
        fields = [range(len(record.fields)) for record in self._node.combine.records]
        columns = self._sides.columns(left, right, fields)
        try:
            made = self._pairs(Chunk(self._node.pair.record, columns, len(left)))
        except OperatorError:
            return self._called(left, right)  # which fails at the same pair, and tells it
        return Chunk(self._record, made.columns, len(made.source)), made.source

    def _called(self, left: Int64s | None, right: Int64s | None) -> tuple[Chunk, Int64s]:
        """What the user's function gives, and of which pairs; None leaves a pair out.

        A side is None whose rows are missing.
        """
        size = len(right if left is None else left)  # type: ignore[arg-type]
        lefts, rights = (
            [None] * size if numbers is None else self._rows(place, numbers)
            for place, numbers in enumerate((left, right))
        )
        call, node = self._node.combine.function, self._node
        made: list[Any] = []
        try:
            for pair in zip(lefts, rights, strict=True):
                made.append(call(*pair))
        except Exception as error:
            self._fitted([one for one in made if one is not None])
            raise coroutine_error(node.name, node.told, error, pair) from error
        chosen = np.array([i for i, one in enumerate(made) if one is not None], np.int64)
        if len(chosen) < len(made):
            made = [one for one in made if one is not None]
        return self._fitted(made), chosen

    def _rows(self, side: int, numbers: Int64s) -> Any:
        """The user's records of held rows, each made once."""
        record = self._node.combine.records[side]
        distinct, back = np.unique(numbers, return_inverse=True)
        found = self._sides.rows(side, distinct, range(len(record.fields)))
        rows = Chunk(record, found.columns, len(distinct)).rows()
        return map(rows.__getitem__, back.tolist())

    def _fitted(self, made: Sequence[Any]) -> Chunk:
        """What the function gave as records of the output."""
        record = self._record
        if record.stays and made and (columns := try_columns(record, made)) is not None:
            return Chunk(record, columns, len(made))
        try:
            return Chunk.from_rows(record, [fitted(record, one) for one in made])
        except TypeError as error:
            raise coroutine_error(self._node.name, self._node.told, error) from error


def _together(parts: Sequence[KeyedResult]) -> KeyedResult:
    """The outputs of all parts."""
    if len(parts) == 1:
        return parts[0]
    return KeyedResult(
        [Column.concat(group) for group in zip(*[one.columns for one in parts], strict=True)],
        np.concatenate([one.source for one in parts]),
        np.concatenate([one.time for one in parts]),
        [Column.concat(group) for group in zip(*[one.timer_keys for one in parts], strict=True)],
    )
