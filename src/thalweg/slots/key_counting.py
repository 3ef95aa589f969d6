"""Counts the keys of a stage in a slot: tuples by key, and pairs of keys that follow each other.

A tuple that leaves for the next keyed operator does not say by which key it came. But it has the place in the stream's
order of the tuple that it was made from, so both are joined by that (:mod:`thalweg.columns.parents`).

Keys in fields are read from what arrives at the stage, where its operators by key begin. A key that a function of the
user computes is not computed again: the operator tells it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Chunk, Column
from thalweg.columns.keys import KeySpec
from thalweg.columns.parents import order_matrix, parents, shared_columns
from thalweg.engine.contract import Engine
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.flow.operators.nodes import Keyed
from thalweg.hashing import Int64s, UInt64s, bucket_of
from thalweg.locality.counting.sketch import KeySketch
from thalweg.locality.counting.summary import KeySummary
from thalweg.locality.links import links_of
from thalweg.locality.routing import keyed_operators
from thalweg.plan.plan import KEY, LEVEL, Edge


@dataclasses.dataclass(frozen=True, slots=True)
class _KeyedRows:
    """Rows with their keys: of a chunk, the places that have one, key columns and hashes."""

    chunk: Chunk
    places: Int64s
    spec: KeySpec
    columns: Sequence[Column]
    hashes: UInt64s

    def names(self, rows: Int64s) -> pa.Array:
        """The keys of some rows as ordered bytes."""
        return self.spec.ordered_bytes([column.take(rows) for column in self.columns], len(rows))


class KeyCounter:
    """Counts for a stage in a slot, a step after the other.

    Args:
        engine: of the stage, whose keyed operators are watched.
        slots: how many there are, for what hashing would do.
    """

    def __init__(self, engine: Engine, slots: int) -> None:
        operators = keyed_operators(engine.plan)
        self._slots = slots
        self._buckets = {name: buckets for name, (_, buckets) in operators.items()}
        self._links = [link for link in links_of(engine.plan) if set(link) <= set(operators)]
        self._sketch = KeySketch(self._buckets, self._links)
        self._units = {name: unit for name, unit in engine.by_key.items() if name in operators}
        self._arrived: dict[str, list[_KeyedRows]] = {}
        #: pairs whose keys are in one slot when both go by hash, and all pairs
        self.hashed, self.pairs = 0, 0
        for name, unit in self._units.items():
            if unit.key_function is not None:
                unit.observer = self._observer(name, unit)

    def _observer(self, name: str, unit: KeyedUnit) -> Any:
        def took(chunk: Chunk, columns: Sequence[Column], places: Int64s) -> None:
            self._took(name, unit.spec, chunk, columns, places)

        return took

    def _took(
        self,
        name: str,
        spec: KeySpec,
        chunk: Chunk,
        columns: Sequence[Column],
        places: Int64s,
    ) -> None:
        hashes = spec.hashes(columns, len(places))
        keys = _KeyedRows(chunk, places, spec, columns, hashes)
        self._arrived.setdefault(name, []).append(keys)

    def arrived(self, arriving: Mapping[Edge, Chunk]) -> None:
        """Rows arrive at the stage, by edge; to be told before they are processed."""
        for name, unit in self._units.items():
            chunk = arriving.get(Edge(unit.node.index, 0))
            if chunk is not None and len(chunk) and unit.key_function is None:
                columns = [chunk.column(field.name) for field in unit.spec.fields]
                self._took(name, unit.spec, chunk, columns, np.arange(len(chunk)))

    def summary(self) -> KeySummary:
        """What was counted since it began, or since :meth:`reset`."""
        return self._sketch.summary()

    def reset(self) -> None:
        """Begins to count anew."""
        self._sketch.reset()

    def close(self) -> None:
        """Watches no more."""
        for unit in self._units.values():
            unit.observer = None

    def end_step(self) -> None:
        """Counts what has arrived, which has no more outputs."""
        for name, parts in self._arrived.items():
            for keys in parts:
                self._sketch.take(name, keys.hashes, keys.names)
        self._arrived.clear()

    def left(
        self,
        node: Keyed,
        chunk: Chunk,
        places: Int64s,
        spec: KeySpec,
        columns: Sequence[Column],
        hashes: UInt64s,
    ) -> None:
        """Rows leave for a keyed operator of a later stage.

        Args:
            node: that operator.
            chunk: the rows.
            places: those that have a key.
            spec, columns, hashes: the keys of these.
        """
        keys = _KeyedRows(chunk, places, spec, columns, hashes)
        for link in self._links:
            if link[1] == node.name and link[0] in self._units:
                for before in self._arrived.get(link[0], ()):
                    self._rows(link, before, keys)
                self._timers(link, keys)

    def _rows(self, link: tuple[str, str], before: _KeyedRows, after: _KeyedRows) -> None:
        """Pairs of rows and what was made of them."""
        names = shared_columns(list(before.chunk.order), list(after.chunk.order))
        arrived = order_matrix(before.chunk, names)[before.places]
        found = parents(arrived, order_matrix(after.chunk, names)[after.places])
        rows = np.flatnonzero(found >= 0)
        self._pair(link, before.hashes, found[rows], before.names, after, rows)

    def _timers(self, link: tuple[str, str], after: _KeyedRows) -> None:
        """Pairs of the keys of timers and what these gave: it carries the timer's key."""
        level = self._units[link[0]].node.index
        levels: Int64s | None = after.chunk.order.get(LEVEL)
        if levels is None:
            return
        rows = np.flatnonzero(levels[after.places] == level)
        if not len(rows):
            return
        spec = self._units[link[0]].spec
        columns = spec.decode_ordered(after.chunk.order[KEY].take(pa.array(after.places[rows])))
        everything = np.arange(len(rows))
        keys = _KeyedRows(after.chunk, everything, spec, columns, spec.hashes(columns, len(rows)))
        self._pair(link, keys.hashes, everything, keys.names, after, rows)

    def _pair(
        self,
        link: tuple[str, str],
        hashes: UInt64s,
        lefts: Int64s,
        names: Any,
        after: _KeyedRows,
        rights: Int64s,
    ) -> None:
        """Counts the pairs of the keys at ``lefts`` before and ``rights`` after."""
        if not len(lefts):
            return
        left, right = hashes[lefts], after.hashes[rights]
        self._sketch.pair(
            link, left, right, lambda rows: names(lefts[rows]), lambda rows: after.names(rights[rows])
        )  # fmt: skip
        self.pairs += len(lefts)
        self.hashed += int(
            np.count_nonzero(self._hash_slots(link[0], left) == self._hash_slots(link[1], right))
        )

    def _hash_slots(self, name: str, hashes: UInt64s) -> Int64s:
        buckets = self._buckets[name]
        return bucket_of(hashes, buckets) * self._slots // buckets
