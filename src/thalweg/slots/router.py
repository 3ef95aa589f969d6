"""Splits the output of a stage by the slots that own its keys' state."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from thalweg.columns.chunks import Bools, Chunk
from thalweg.engine.build import Builder, Prepared
from thalweg.engine.keyed_unit import KeyFinder
from thalweg.flow.operators.nodes import Keyed
from thalweg.hashing import Int64s
from thalweg.locality import routed_by
from thalweg.plan.plan import Edge
from thalweg.slots.key_counting import KeyCounter
from thalweg.slots.routes import SlotRoutes


class KeyFinders:
    """Finds the keys of rows before they are at their operator; one whose function raises is rejected there."""

    def __init__(self, prepared: Prepared) -> None:
        self._builder = Builder(prepared)
        self._finders: dict[int, KeyFinder] = {}

    def of(self, node: Keyed) -> KeyFinder:
        """That of an operator."""
        if node.index not in self._finders:
            function = self._builder.key(dataclasses.replace(node, errors="reject"))
            self._finders[node.index] = KeyFinder(node, function)
        return self._finders[node.index]


class Router:
    """Splits what leaves a stage; the routes are given with each question, since they change.

    Args:
        prepared: the flow.
        counter: is told of rows that leave for an operator by key.

    Attributes:
        routed: by operator, the rows routed to it: those that stay in their slot, and all.
    """

    def __init__(self, prepared: Prepared, counter: KeyCounter | None = None) -> None:
        self._plan = prepared.plan
        self._homes = routed_by(prepared.plan)
        self._finders = KeyFinders(prepared)
        self._counter = counter
        self.routed: dict[str, list[int]] = {}

    def by_key(self, edge: Edge) -> Keyed | None:
        """The keyed operator behind an edge; None where tuples do not go by key."""
        node = self._plan.node(edge.node)
        return node if isinstance(node, Keyed) and node.name in self._homes else None

    def split(
        self, edge: Edge, chunk: Chunk, here: int, routes: SlotRoutes
    ) -> Iterator[tuple[int, Int64s | None]]:
        """The slots that rows go to, with their places; None for all of them.

        Args:
            edge: which they leave by.
            chunk: the rows.
            here: the slot that has them.
            routes: those that hold.
        """
        node = self.by_key(edge)
        if node is None:
            slot = routes.slot_of(self._plan.node(edge.node))
            yield here if slot is None else slot, None
            return
        slots = self._slots(node, chunk, routes, self._counter)
        routed = self.routed.setdefault(node.name, [0, 0])
        routed[0] += int(np.count_nonzero(slots == here))
        routed[1] += len(slots)
        for slot in np.flatnonzero(np.bincount(slots)).tolist():
            places = np.flatnonzero(slots == slot)
            yield slot, None if len(places) == len(chunk) else places

    def _slots(
        self, node: Keyed, chunk: Chunk, routes: SlotRoutes, counter: KeyCounter | None = None
    ) -> Int64s:
        """The slot of each row; rows whose key function raises are rejected where they arrive, in slot 0."""
        finder = self._finders.of(node)
        columns, places, _ = finder.find(chunk)
        hashes = finder.spec.hashes(columns, len(places))
        if counter is not None:
            counter.left(node, chunk, places, finder.spec, columns, hashes)
        slots = np.zeros(len(chunk), np.int64)
        slots[places] = routes[node.name].slots(hashes)
        return slots

    def waits(
        self, node: Keyed, chunk: Chunk, before: SlotRoutes, missing: frozenset[int]
    ) -> Bools:
        """The rows whose state was in one of some slots before.

        Args:
            node: the operator that reads them.
            chunk: rows that were routed here.
            before: the routes before those by which they were.
            missing: the slots whose state has not come.
        """
        return np.isin(self._slots(node, chunk, before), list(missing))
