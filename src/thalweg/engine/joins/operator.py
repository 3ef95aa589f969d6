"""A join as an operator by key (:class:`~thalweg.columns.contracts.KeyedOperator`), by column and in machine code.

Without a function of the user's no row becomes a Python object. What it gives is what the functions of its node give,
called row by row (:class:`thalweg.flow.operators.joins.JoinRules`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.columns.chunks import Bools, Chunk, Column, Int64s
from thalweg.columns.contracts import KeyedResult, StatelessOperator
from thalweg.columns.encoding import try_columns
from thalweg.columns.state_units import StateUnits
from thalweg.engine.joins.form import JoinForm
from thalweg.engine.joins.held_sides import HeldSides
from thalweg.engine.joins.matching import Pairs
from thalweg.engine.joins.table import JoinTable
from thalweg.errors import OperatorError
from thalweg.flow.failures import coroutine_error
from thalweg.flow.operators.joins import fitted
from thalweg.flow.operators.nodes import Join
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
        self._sides = HeldSides(self._form, self._units, {})
        self.calls_python = node.user is not None and pairs is None

    def set_units(self, units: StateUnits) -> None:
        """By what the state is kept; tables that are held already must be those of these units."""
        self._sides.give_back()
        self._units = units

    def table(self, bucket: int) -> JoinTable:
        """The table of a bucket, made on first use."""
        if bucket not in self.tables:
            self.tables[bucket] = JoinTable(self._form)
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
        made, source = self._nothing()
        if len(chunk):
            assert times is not None
            self._make_tables(keys, len(chunk))
            made, source = self._pairs_of(chunk, keys, times)
            self._sides.advance(int(times[-1]))
        self._sides.advance(clock)
        none = [column.slice(0, 0) for column in keys]
        return KeyedResult(made, source, np.zeros(len(source), np.int64), none)

    def _fetch(self) -> None:
        """Has the rows of all tables in one place."""
        if not self._sides.has_just(self.tables):
            self._sides.give_back()
            for table in self.tables.values():
                table.fetch()
            self._sides = HeldSides(self._form, self._units, self.tables)

    def _make_tables(self, keys: Sequence[Column], count: int) -> None:
        units = self._units.of(self._form.spec.hashes(keys, count))
        for unit in np.flatnonzero(np.bincount(units)).tolist():
            if unit not in self.tables:
                self._sides.adopt(unit, self.table(unit))

    def _nothing(self) -> tuple[list[Column], Int64s]:
        return Chunk.empty(self._record).columns, np.zeros(0, np.int64)

    # -- pairs --------------------------------------------------------------------------------------------

    def _pairs_of(
        self, chunk: Chunk, keys: Sequence[Column], times: Int64s
    ) -> tuple[list[Column], Int64s]:
        """The outputs of rows, and the row of each."""
        whole = _without_nulls(keys, len(chunk))
        rows = np.flatnonzero(whole)
        rights = chunk.columns[0].values[rows].astype(np.int64)
        numbered = [
            Column(field.type, column.values if whole.all() else column.take(rows).values)
            for field, column in zip(self._form.bare.fields, keys, strict=True)
        ]
        sides = [self._of_side(chunk, rows[rights == place], place) for place in (0, 1)]
        self._sides.make_room(np.array([len(side) for side in sides]))
        numbers = self._sides.numbers(numbered, len(rows))
        pairs = self._sides.add(sides, numbers, times[rows], rights)
        return self._joined(pairs, rows, rights) if len(pairs.places) else self._nothing()

    def _of_side(self, chunk: Chunk, rows: Int64s, place: int) -> Chunk:
        """The rows of one side as they are held."""
        side = self._form.sides[place]
        *fields, time = side.record.fields
        given = [*chunk.columns[side.first : side.first + len(fields)], chunk.columns[1]]
        columns = []
        for field, column in zip((*fields, time), given, strict=True):
            mine = column.take(rows)
            columns.append(
                Column(field.type, mine.values, mine.valid if field.type.optional else None)
            )
        return Chunk(side.record, columns, len(rows))

    def _joined(self, pairs: Pairs, rows: Int64s, rights: Int64s) -> tuple[list[Column], Int64s]:
        """The outputs of pairs; ``rows`` are the places of the rows with a key, ``rights`` the sides of these."""
        is_left = rights[pairs.places] == 0
        left = np.where(is_left, pairs.mine, pairs.theirs)
        right = np.where(is_left, pairs.theirs, pairs.mine)
        places = rows[pairs.places]
        if not self._form.is_exact:
            equal = self._sides.equal_keys(left, right)
            if not equal.all():
                left, right, places = left[equal], right[equal], places[equal]
        if self._node.combine.function is None:
            return self._put_together(left, right), places
        out, made = (self._called if self._pairs is None else self._computed)(left, right)
        return out.columns, places[made]

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

    def _called(self, left: Int64s, right: Int64s) -> tuple[Chunk, Int64s]:
        """What the user's function gives, and of which pairs; None leaves a pair out."""
        lefts, rights = (self._rows(place, numbers) for place, numbers in enumerate((left, right)))
        call, node = self._node.combine.function, self._node
        made: list[Any] = []
        try:
            for one, two in zip(lefts, rights, strict=True):
                made.append(call(one, two))
        except Exception as error:
            self._fitted([one for one in made if one is not None])
            raise coroutine_error(node.name, node.told, error) from error
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


def _without_nulls(keys: Sequence[Column], count: int) -> Bools:
    """Whether each row has a key without nulls."""
    has = np.ones(count, np.bool_)
    for column in keys:
        if column.valid is not None:
            has &= column.valid
        elif not column.type.fixed_width and column.values.null_count:
            has &= column.values.is_valid().to_numpy(zero_copy_only=False)
    return has
