"""join_asof forward and nearest by column and in machine code, as :mod:`thalweg.engine.joins.operator` does joins.

What it gives is what the functions of its node give, called row by row
(:class:`thalweg.flow.operators.joining.lookups.NextRowRules`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import KeyedResult, StatelessOperator
from thalweg.columns.state_units import StateUnits
from thalweg.engine.joins.held_sides import whole_keys
from thalweg.engine.joins.next_rows import NextRows, NextTable
from thalweg.engine.joins.operator import ColumnJoin
from thalweg.engine.joins.table import JoinTable
from thalweg.engine.joins.waiting import Matches
from thalweg.errors import OperatorError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.operators.joining.join_nodes import NextRow

_BOOL = FieldType(Kind.BOOL)


class ColumnAsof(ColumnJoin):
    """join_asof forward or nearest over the buckets that this slot owns."""

    _node: NextRow
    _next: NextRows

    def __init__(self, node: NextRow, pairs: StatelessOperator | None = None) -> None:
        """``pairs`` is the user's function as machine code, over the rows of ``node.pair``."""
        super().__init__(node, pairs)

    def _hold(self, units: StateUnits, tables: Mapping[int, JoinTable]) -> Any:
        self._next = NextRows(self._node, self._form, units, tables)
        return self._next

    def _new_table(self) -> JoinTable:
        return NextTable(self._form, self._node)

    def process(
        self,
        chunk: Chunk,
        keys: Sequence[Column],
        times: Int64s | None,
        clock: int,
        *,
        ending: bool,
    ) -> KeyedResult:
        """What leaves with a step's rows, and until the watermark; see :class:`ColumnJoin`."""
        self._fetch()
        if len(chunk):
            self._make_tables(keys, len(chunk))
        rights = chunk.columns[0].values.astype(np.int64)
        sides = [self._of_side(chunk, np.flatnonzero(rights == place), place) for place in (0, 1)]
        numbers = self._numbered(keys, len(chunk))
        at = np.zeros(0, np.int64) if times is None else np.ascontiguousarray(times)
        matches = self._next.match(sides, numbers, at, rights, clock)
        result = self._result(matches, keys)
        self._next.settle()
        return result

    def _numbered(self, keys: Sequence[Column], count: int) -> Int64s:
        """The number of each row's key; -1 where it has a null."""
        whole = whole_keys(keys, count)
        rows, all_are = np.flatnonzero(whole), bool(whole.all())
        bare = [
            Column(field.type, (column if all_are else column.take(rows)).values)
            for field, column in zip(self._form.bare.fields, keys, strict=True)
        ]
        found = self._next.numbers(bare, len(rows))
        if all_are:
            return found
        numbers = np.full(count, -1)
        numbers[rows] = found
        return numbers

    def _result(self, matches: Matches, keys: Sequence[Column]) -> KeyedResult:
        """The outputs of what leaves."""
        if not len(matches.left):
            return self._nothing(keys)
        columns, made = self._combined(matches.left, matches.right)
        places, times, left = matches.places[made], matches.times[made], matches.left[made]
        fired = left[places < 0]
        found = self._next.rows(0, fired, self._form.sides[0].keys).columns
        named = zip(self._form.spec.fields, found, strict=True)
        fired_keys = [dataclasses.replace(column, type=field.type) for field, column in named]
        return KeyedResult(columns, places, times, fired_keys)

    # -- outputs ------------------------------------------------------------------------------------------

    def _computed(self, left: Int64s, right: Int64s) -> tuple[Chunk, Int64s]:
        """As :meth:`_called`, in machine code."""
        assert self._pairs is not None and self._node.pair is not None
        lefts, rights = (range(len(record.fields)) for record in self._node.combine.records)
        columns = self._next.columns(left, right, (lefts, rights))
        columns.insert(len(lefts), Column(_BOOL, right >= 0))
        try:
            made = self._pairs(Chunk(self._node.pair.record, columns, len(left)))
        except OperatorError:
            return self._called(left, right)  # which fails at the same row, and tells it
        return Chunk(self._record, made.columns, len(made.source)), made.source

    def _rows(self, side: int, numbers: Int64s) -> Any:
        """The user's records of held rows, None where there is none."""
        has = numbers >= 0
        made = super()._rows(side, numbers[has])
        return made if has.all() else (next(made) if one else None for one in has.tolist())
