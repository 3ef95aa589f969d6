"""What the tables of a join share: keys, the records of both sides, and the Arrow form of a key's rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.checkpoint.state_tables.table_form import arrow_schema
from thalweg.columns.chunks import Bools, Chunk, Column, Int64s
from thalweg.columns.keys import KeySpec
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.operators.joining.join_nodes import Join
from thalweg.flow.records import Field, Schema
from thalweg.times import NEVER


class SideRows(NamedTuple):
    """Rows of one side, those of a key in their order.

    Attributes:
        rows: their fields, and behind them their event time.
        fresh: which of them no file has, or has with other rows of their key.
        matched: which of them have met one of the other side; all where nobody asks.
    """

    rows: Chunk
    fresh: Bools
    matched: Bools

    @property
    def times(self) -> Int64s:
        """Their event times."""
        found: Int64s = self.rows.columns[-1].values
        return found

    def take(self, places: Int64s) -> SideRows:
        """The rows at these places."""
        return SideRows(self.rows.take(places), self.fresh[places], self.matched[places])

    def slice(self, start: int, stop: int) -> SideRows:
        """Rows start to stop, without copying."""
        rows = self.rows.slice(start, stop)
        return SideRows(rows, self.fresh[start:stop], self.matched[start:stop])

    @classmethod
    def saved(cls, rows: Chunk, matched: Bools) -> SideRows:
        """Rows that files have."""
        return cls(rows, np.zeros(len(rows), np.bool_), matched)

    @classmethod
    def concat(cls, parts: Sequence[SideRows]) -> SideRows:
        """The rows of all parts; at least one part."""
        rows, *flags = zip(*parts, strict=True)
        fresh, matched = map(np.concatenate, flags)
        return cls(Chunk.concat(rows), fresh, matched)


class JoinForm:
    """The keys, records and Arrow form of a join.

    Attributes:
        spec: the key as it is hashed and saved.
        bare: the same without nulls, which no held row has: how rows are compared.
        is_exact: whether a key is a number, so that equal numbers are equal keys.
    """

    def __init__(self, node: Join) -> None:
        self.state, self.sides = node.state, node.sides
        #: by side, how much later one of the other side may be
        self.within = [side.within for side in node.sides]
        self.spec = KeySpec(node.key.fields)
        self.bare = KeySpec(tuple(_never_null(field) for field in node.key.fields))
        self.is_exact = not self.bare.has_text and self.bare.width < 2
        self.schema = arrow_schema(self.spec, self.state)
        #: of the rows of each side, without what only files have
        self.records = [
            Schema.make_record("Held", side.record.fields[: side.time + 1]) for side in node.sides
        ]
        self.keeps = any(side.keeps for side in node.sides)
        # One for all tables, since nobody writes to what they hold.
        nothing = np.zeros(0, np.bool_)
        self._no_rows = [SideRows.saved(Chunk.empty(one), nothing) for one in self.records]

    def no_rows(self, side: int) -> SideRows:
        """An empty side."""
        return self._no_rows[side]

    def keys_of(self, side: int, rows: Chunk, spec: KeySpec) -> list[Column]:
        """The key of each held row, as ``spec`` has it."""
        columns = [rows.columns[place] for place in self.sides[side].keys]
        named = zip(spec.fields, columns, strict=True)
        return [
            Column(field.type, column.values, column.valid if field.type.optional else None)
            for field, column in named
        ]

    def ordered_keys(self, side: int, rows: Chunk) -> pa.BinaryArray:
        """The key of each held row as bytes."""
        return self.spec.ordered_bytes(self.keys_of(side, rows, self.spec), len(rows))

    # -- the Arrow form -----------------------------------------------------------------------------------

    def batch(
        self, keys: pa.BinaryArray, waits: Int64s, sides: Iterable[pa.ListArray]
    ) -> pa.RecordBatch:
        """Keys with their timers and their rows, by side."""
        return self._batch(keys, [*sides, pa.array(waits)], deleted=False)

    def tombstones(self, keys: pa.BinaryArray) -> pa.RecordBatch:
        """Keys that have no state any more."""
        count = len(keys)
        states = [
            Column.from_python(field.type, [NEVER if field.default == NEVER else []] * count)
            for field in self.state.schema.fields
        ]
        return self._batch(keys, [one.to_arrow() for one in states], deleted=True)

    def _batch(
        self, keys: pa.BinaryArray, states: Sequence[pa.Array], *, deleted: bool
    ) -> pa.RecordBatch:
        columns = [one.to_arrow() for one in self.spec.decode_ordered(keys)] if keys else []
        if not keys:
            columns = [pa.array([], field.type.arrow) for field in self.spec.fields]
        gone = pa.array(np.full(len(keys), deleted))
        return pa.RecordBatch.from_arrays([*columns, *states, gone], schema=self.schema)

    def lists(self, side: int, held: SideRows, counts: Int64s) -> pa.ListArray:
        """Rows as lists, one a key; ``counts`` says how many each has."""
        kind = self._list_type(side)
        assert kind.item is not None
        arrays = [column.to_arrow() for column in held.rows.columns]
        arrays += [pa.array(held.matched)] if self.sides[side].keeps else []
        structs = pa.StructArray.from_arrays(arrays, fields=list(kind.item.arrow))
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, structs, type=kind.arrow)

    def unlisted(self, side: int, lists: pa.ListArray) -> SideRows:
        """The rows of :meth:`lists`, as files have them."""
        structs, record = lists.flatten(), self.records[side]
        arrays = structs.flatten()
        named = zip(record.fields, arrays, strict=False)
        columns = [Column.from_arrow(field.type, values) for field, values in named]
        matched = np.ones(len(structs), np.bool_)
        if self.sides[side].keeps:
            matched = arrays[-1].to_numpy(zero_copy_only=False)
        return SideRows.saved(Chunk(record, columns, len(structs)), matched)

    def _list_type(self, side: int) -> FieldType:
        kind: FieldType = self.state.schema.fields[side].type
        return kind


def _never_null(field: Field) -> Field:
    return dataclasses.replace(field, type=dataclasses.replace(field.type, optional=False))


def places_of(ids: Int64s, chosen: Bools) -> tuple[Int64s, Int64s]:
    """The rows of the chosen keys, key by key in their order, and how many each has.

    Args:
        ids: by row, the number of its key.
        chosen: by key.
    """
    order = np.argsort(ids, kind="stable")
    counts = np.bincount(ids, minlength=len(chosen))[chosen]
    return order[chosen[ids[order]]], counts


def taken(sides: Sequence[SideRows], which: Sequence[Any]) -> list[SideRows]:
    """The rows of each side at the places, or where the mask says."""
    return [
        side.take(np.flatnonzero(one) if one.dtype == np.bool_ else one)
        for side, one in zip(sides, which, strict=True)
    ]
