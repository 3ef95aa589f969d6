"""Interpreted operators: the user's plain Python functions called row by row, with the compiled ones' contract.

They are the fallback for what the compiler refuses and the yardstick that compiled operators are tested by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.checkpoint.object_table import ObjectTable
from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.contracts import KeyedResult, RejectedRow, StatelessResult, no_rows
from thalweg.columns.keys import KeySpec
from thalweg.columns.state_units import StateUnits
from thalweg.flow.failures import operator_error, reason_of, shorten
from thalweg.flow.operators.nodes import Keyed, Stateless
from thalweg.flow.records import Schema
from thalweg.times import NEVER


class InterpretedChain:
    """A chain of map, filter and flat_map, one row after the other."""

    def __init__(self, nodes: Sequence[Stateless]) -> None:
        self._nodes = nodes
        self._schema = nodes[-1].record

    def __call__(self, chunk: Chunk) -> StatelessResult:
        rows: list[Any] = chunk.rows()
        source = np.arange(len(rows))
        counts, rejected = [], []
        for node in self._nodes:
            rows, kept, bad = _run_stateless(node, rows)
            rejected += [dataclasses.replace(one, row=int(source[one.row])) for one in bad]
            source = source[np.array(kept, np.int64)]
            counts.append(len(rows))
        columns = Chunk.from_rows(self._schema, rows).columns
        return StatelessResult(columns, source, counts, rejected)


def _run_stateless(
    node: Stateless, rows: list[Any]
) -> tuple[list[Any], list[int], list[RejectedRow]]:
    """The outputs of one operator with the place of the input of each."""
    call, coerce = node.function.call, node.record.coerce
    out: list[Any] = []
    kept: list[int] = []
    bad: list[RejectedRow] = []
    for place, row in enumerate(rows):
        try:
            if node.verb == "filter":
                made = [row] if call(row) else []
            elif node.many:
                made = [coerce(one) for one in call(row) or () if one is not None]
            else:
                one = call(row)
                made = [] if one is None else [coerce(one)]
        except Exception as error:
            if node.errors == "fail":
                raise operator_error(node.name, node.function, row, error) from error
            bad.append(RejectedRow(place, node.name, reason_of(error), shorten(row)))
            continue
        out += made
        kept += [place] * len(made)
    return out, kept, bad


@dataclasses.dataclass(slots=True)
class _Collected:
    """Output rows of a keyed operator while a chunk is processed."""

    rows: list[Any] = dataclasses.field(default_factory=list)
    source: list[int] = dataclasses.field(default_factory=list)
    time: list[int] = dataclasses.field(default_factory=list)
    timer_keys: list[Any] = dataclasses.field(default_factory=list)
    rejected: list[RejectedRow] = dataclasses.field(default_factory=list)
    disarmed: int = 0

    def result(self, schema: Schema, spec: KeySpec) -> KeyedResult:
        return KeyedResult(
            Chunk.from_rows(schema, self.rows).columns,
            np.array(self.source, np.int64) if self.source else no_rows(),
            np.array(self.time, np.int64) if self.time else no_rows(),
            spec.columns_of(self.timer_keys),
            self.disarmed,
            self.rejected,
        )


class InterpretedKeyed:
    """A keyed operator whose states are Python objects in one table a bucket."""

    def __init__(self, node: Keyed) -> None:
        self._node = node
        self._spec = KeySpec(node.key.fields)
        self._timer = node.state.timer if node.on_timer is not None else None
        self._out = node.record or Schema("Nothing", ())
        self.tables: dict[int, ObjectTable] = {}
        self.units = StateUnits.of_buckets(node.key.buckets)

    def set_units(self, units: StateUnits) -> None:
        """By what the state is kept; tables that are held already must be those of these units."""
        self.units = units

    def table(self, bucket: int) -> ObjectTable:
        """The table of a bucket, made on first use."""
        if bucket not in self.tables:
            self.tables[bucket] = ObjectTable(self._spec, self._node.state)
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
        """See :class:`thalweg.columns.contracts.KeyedOperator`."""
        out = _Collected()
        if len(chunk):
            python_keys = self._spec.python_keys(keys, len(chunk))
            buckets = self.units.of(self._spec.hashes(keys, len(chunk))).tolist()
            at = [0] * len(chunk) if times is None else times.tolist()
            for place, row in enumerate(chunk.each_row()):
                self._row(
                    self.table(buckets[place]),
                    python_keys[place],
                    row,
                    place,
                    at[place],
                    out,
                    ending,
                )
        if self._timer is not None:
            for table in self.tables.values():
                self._fire_due(table, clock, out, ending)
        return out.result(self._out, self._spec)

    def _row(
        self,
        table: ObjectTable,
        key: Any,
        row: Any,
        place: int,
        now: int,
        out: _Collected,
        ending: bool,
    ) -> None:
        node = self._node
        if self._timer is not None:
            state = table.get(key)
            while state is not None and state_timer(state, self._timer) < now:
                self._fire(table, key, state, out, ending)
                state = table.get(key)
        old = table.get(key)
        before = None if old is None else node.state.values(old)
        state = table.get_or_new(key)
        try:
            made = self._rows(node.process.call(state, row), node.many)
            node.state.values(state)
        except Exception as error:
            if before is None:
                table.drop(key)
            else:
                table.replace(key, node.state.restore(before))
            if node.errors == "fail":
                raise operator_error(node.name, node.process, row, error) from error
            out.rejected.append(RejectedRow(place, node.name, reason_of(error), shorten(row)))
            return
        self._keep(table, key, state, now)
        out.rows += made
        out.source += [place] * len(made)
        out.time += [now] * len(made)

    def _keep(self, table: ObjectTable, key: Any, state: Any, earliest: int) -> None:
        """Stores the state after a call: dropped if asked, its timer not before ``earliest``."""
        if getattr(state, "_drop", False):
            table.drop(key)
            return
        if self._timer is not None:
            time = state_timer(state, self._timer)
            setattr(state, self._timer, max(time, earliest))
        table.touch(key)

    def _fire_due(self, table: ObjectTable, clock: int, out: _Collected, ending: bool) -> None:
        assert self._timer is not None
        due = table.due(clock)
        while due:
            for key in due:
                state = table.get(key)
                if state is not None:
                    self._fire(table, key, state, out, ending)
            due = table.due(clock)

    def _fire(
        self, table: ObjectTable, key: Any, state: Any, out: _Collected, ending: bool
    ) -> None:
        node = self._node
        assert node.on_timer is not None and self._timer is not None
        time = state_timer(state, self._timer)
        fired = f"key {key!r}"
        setattr(state, self._timer, NEVER)
        arguments = (state, key, time) if node.key.fields else (state, time)
        try:
            made = self._rows(node.on_timer.call(*arguments), node.timer_many)
            node.state.values(state)
        except Exception as error:
            if node.errors == "fail":
                raise operator_error(node.name, node.on_timer, fired, error) from error
            out.rejected.append(RejectedRow(-1, node.name, reason_of(error), fired, time, key))
            table.drop(key)
            return
        again = state_timer(state, self._timer)
        out.disarmed += again != NEVER and ending
        if again == NEVER or ending:
            table.drop(key)
        else:
            self._keep(table, key, state, time + 1)
        out.rows += made
        out.source += [-1] * len(made)
        out.time += [time] * len(made)
        out.timer_keys += [key] * len(made)

    def _rows(self, answer: Any, many: bool) -> list[Any]:
        if self._node.record is None or answer is None:
            return []
        coerce = self._node.record.coerce
        if many:
            return [coerce(one) for one in answer if one is not None]
        return [coerce(answer)]


def state_timer(state: Any, name: str) -> int:
    """The time of a state's timer, NEVER when it is not armed."""
    value = getattr(state, name)
    return NEVER if value is None else int(value)
