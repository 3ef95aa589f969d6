"""Places keys that are new before their tuples are routed, each beside its partners.

What :class:`thalweg.locality.FirstSeen` decides from the pairs that are about to come becomes pins in a table. Slots of
one process ask it in the very step that brings the keys (:class:`NewKeysOfSteps`), Spark before a batch
(:mod:`thalweg.spark.keys.new_keys`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Bools
from thalweg.columns.keys import KeySpec
from thalweg.engine.build import Prepared
from thalweg.engine.contract import Leaving
from thalweg.hashing import UInt64s, contains
from thalweg.locality import FirstSeen, OperatorKey, RoutingTable
from thalweg.locality.first_seen import PlacedKeys
from thalweg.locality.links import required_links
from thalweg.plan.plan import Plan
from thalweg.slots.pairs import BatchPairs, PairReader, reads_of

log = logging.getLogger("thalweg")

#: Pinned keys, learnt ones included, up to which the steps of one process place new ones: each step that has new keys
#: makes a table of so many, at 4 µs a key.
PINS: Final = 10_000
_NONE: Final = np.zeros(0, np.uint64)
#: For each key of an operator, by hash, whether it may have state, or a place already.
Has: TypeAlias = Callable[[str, UInt64s], Bools]


class NewKeys:
    """Where new keys go.

    Args:
        plan: the flow's.
        pins: the most pinned keys.

    Attributes:
        reads: where pairs are read.
        specs: by operator, its key.
        loads: by operator, the tuples of each slot that placed keys have brought; None: nothing is known.

    Raises:
        BuildError: no two operators by key follow each other whose keys rows have before they are routed; it says why.
    """

    def __init__(self, plan: Plan, *, pins: int) -> None:
        links, reasons = required_links(plan)
        for reason in reasons:
            log.info("first_seen: %s, so such keys go by hash until a table has them", reason)
        nodes = {node.name: node for node in plan.keyed}
        self._links = [one.link for one in links]
        self.reads = reads_of(links, nodes)
        self.specs = {name: KeySpec(node.key.fields) for name, node in nodes.items()}
        self._buckets = {name: node.key.buckets for name, node in nodes.items()}
        self._pins = pins
        self.loads: Mapping[str, list[int]] | None = None

    def batch(self, pairs: pa.Table) -> BatchPairs:
        """Pairs that are about to come."""
        return BatchPairs(pairs, self._links, self.specs)

    def room(self, table: RoutingTable) -> int:
        """How many more keys may be pinned; less than none where there are too many."""
        return self._pins - sum(len(routes.pins) for routes in table.operators.values())

    @staticmethod
    def known(batch: BatchPairs, table: RoutingTable, has: Has) -> Iterator[OperatorKey]:
        """The keys that may not be placed: those that have state, and those that share the hash of a pinned key."""
        for name, (keys, hashes) in batch.operators.items():
            pinned = np.fromiter(table.operators[name].pinned, np.uint64)
            taken = has(name, hashes) | np.isin(hashes, pinned)
            yield from ((name, keys[place]) for place in np.flatnonzero(taken).tolist())

    def place(
        self, batch: BatchPairs, table: RoutingTable, *, known: frozenset[OperatorKey], room: int
    ) -> PlacedKeys:
        """Gives places to the others, as far as there is room; the loads follow."""
        buckets = batch.buckets(self._buckets)
        places = FirstSeen(
            table.assignment(),
            lambda name, key: buckets[name, key],
            known=known,
            max_keys=room,
            loads=self.loads,
        )
        placed = places.place(batch.pairs)
        self.loads = places.loads
        return placed


class NewKeysOfSteps:
    """Places new keys in the step that brings them; a :class:`thalweg.slots.Placer`.

    There is no batch to look at beforehand, and no need: the ingress has a step's rows in hand before it routes them.
    Its table becomes one with the new keys pinned by a reconfiguration in front of the step, which hands over whatever
    state there is. So a guess that goes wrong, or a key that came behind the ingress's back, costs a move and nothing
    else. The hashes of all keys that it has seen are remembered, 8 bytes a key.

    Args:
        prepared: the flow.
        pins: the most pinned keys.

    Raises:
        BuildError: as :class:`NewKeys`.
    """

    def __init__(self, prepared: Prepared, *, pins: int = PINS) -> None:
        self._new_keys = NewKeys(prepared.plan, pins=pins)
        self._reader = PairReader(prepared, self._new_keys.reads)
        self._seen: dict[str, UInt64s] = {}
        self._batch: BatchPairs | None = None
        #: of the last table that was made here: the loads are of tables of this kind only
        self._epoch = 0

    def look(self, leaving: Leaving) -> bool:
        """Whether the rows have a key that none had before; see :class:`thalweg.slots.Placer`."""
        for edge, chunks in leaving.items():
            for chunk in chunks:
                self._reader.take(edge.node, chunk)
        self._batch = self._new_keys.batch(self._reader.pairs())
        return any(
            not self._has_seen(name, hashes).all()
            for name, hashes in self._batch.key_hashes.items()
        )

    def table(self, table: RoutingTable) -> RoutingTable | None:
        """The table with the new keys pinned; None where there is no room, or only one place."""
        batch, self._batch = self._batch, None
        assert batch is not None
        known = frozenset(self._new_keys.known(batch, table, self._has_seen))
        for name, hashes in batch.key_hashes.items():
            self._seen[name] = np.union1d(self._seen.get(name, _NONE), hashes)
        room = self._new_keys.room(table)
        if room <= 0 or table.slots == 1:
            return None
        if table.epoch != self._epoch:
            self._new_keys.loads = None
        placed = self._new_keys.place(batch, table, known=known, room=room)
        made = table.placed(placed.keys) if placed.keys else None
        self._epoch = (made or table).epoch
        return made

    def _has_seen(self, name: str, hashes: UInt64s) -> Bools:
        return contains(self._seen.get(name, _NONE), hashes)
