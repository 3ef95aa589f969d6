"""Which places a stage's outputs go to, and which of its inputs must wait for state that is on its way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from thalweg.columns.chunks import Bools, Chunk, Column
from thalweg.columns.keys import KeySpec
from thalweg.engine.build import Builder, Prepared
from thalweg.engine.keyed_unit import KeyFinder
from thalweg.engine.serial import Leaving
from thalweg.flow.operators.nodes import Keyed, Sink
from thalweg.hashing import Int64s, UInt64s
from thalweg.locality import RoutingTable, routed_by
from thalweg.plan.plan import Edge, reroutes
from thalweg.slots.messages import Instance


class SlotRoutes:
    """Finds the slots of tuples; the table is given with each question, since it changes."""

    def __init__(self, prepared: Prepared) -> None:
        self._plan = prepared.plan
        self._builder = Builder(prepared)
        self._homes = routed_by(prepared.plan)
        self._finders: dict[int, KeyFinder] = {}

    def home(self, operator: str) -> str | None:
        """The operator whose routes a keyed operator's keys go by; None for one that has all its keys in slot 0."""
        return self._homes.get(operator)

    def by_key(self, edge: Edge) -> Keyed | None:
        """The keyed operator behind an edge; None where tuples do not go by key."""
        node = self._plan.node(edge.node)
        return node if isinstance(node, Keyed) and self.home(node.name) else None

    def parts(self, leaving: Leaving, here: int, table: RoutingTable) -> dict[Instance, Leaving]:
        """What leaves a stage, by the place it goes to."""
        found: dict[Instance, Leaving] = {}
        for edge, chunks in leaving.items():
            for chunk in chunks:
                for place, part in self._route(edge, chunk, here, table):
                    found.setdefault(place, {}).setdefault(edge, []).append(part)
        return found

    def _route(
        self, edge: Edge, chunk: Chunk, here: int, table: RoutingTable
    ) -> Iterator[tuple[Instance, Chunk]]:
        node = self._plan.node(edge.node)
        if isinstance(node, Sink):
            yield Instance(self._plan.depth, 0), chunk
            return
        stage, keyed = self._plan.stage(edge.node), self.by_key(edge)
        if keyed is None:
            # What has one state for all keys has it in slot 0, in every epoch.
            yield Instance(stage, 0 if reroutes(node) else here), chunk
            return
        slots = self._slots(keyed, chunk, table)
        for slot in np.unique(slots).tolist():
            places = np.flatnonzero(slots == slot)
            yield (
                Instance(stage, slot),
                chunk if len(places) == len(chunk) else chunk.take(places),
            )

    def _slots(self, node: Keyed, chunk: Chunk, table: RoutingTable) -> Int64s:
        """The slot of each row; rows whose key function raises are rejected in slot 0."""
        hashes, places = self.hashes(node, chunk)
        slots = np.zeros(len(chunk), np.int64)
        slots[places] = table.slots_of(self._homes[node.name], hashes)
        return slots

    def hashes(self, node: Keyed, chunk: Chunk) -> tuple[UInt64s, Int64s]:
        """The hashes of the rows that have a key, and their places."""
        spec, columns, places = self.keys(node, chunk)
        return spec.hashes(columns, len(places)), places

    def keys(self, node: Keyed, chunk: Chunk) -> tuple[KeySpec, list[Column], Int64s]:
        """The keys of the rows that have one, as columns, and their places."""
        finder = self._finder(node)
        columns, places, _ = finder.find(chunk)
        return finder.spec, columns, places

    def _finder(self, node: Keyed) -> KeyFinder:
        if node.index not in self._finders:
            function = self._builder.key(dataclasses.replace(node, errors="reject"))
            self._finders[node.index] = KeyFinder(node, function)
        return self._finders[node.index]

    def waits(
        self, node: Keyed, chunk: Chunk, before: RoutingTable, missing: frozenset[int]
    ) -> Bools:
        """The rows whose state was in one of some slots before.

        Args:
            node: the operator that reads them.
            chunk: rows that were routed here by the table of now.
            before: the table before it.
            missing: the slots whose state has not come.
        """
        slots = self._slots(node, chunk, before)
        return np.isin(slots, list(missing))
