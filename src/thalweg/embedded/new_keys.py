"""Keys that come for the first time get their places in the very step that brings them, each beside its partners.

There is no batch to look at beforehand, and no need: the ingress has a step's rows in hand before it routes them. Its
table becomes one with the new keys pinned (:class:`thalweg.locality.FirstSeen`), by a reconfiguration in front of the
step, which hands over whatever state there is. So a guess that goes wrong, or a key that came behind the ingress's
back, costs a move and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import numpy as np

from thalweg.columns.chunks import Bools
from thalweg.columns.keys import KeySpec
from thalweg.engine.build import Prepared
from thalweg.engine.serial import Leaving
from thalweg.hashing import UInt64s, contains
from thalweg.locality import FirstSeen, OperatorKey, RoutingTable
from thalweg.locality.links import required_links
from thalweg.slots.pairs import BatchPairs, PairReader, reads_of

log = logging.getLogger("thalweg")

#: Pinned keys, learnt ones included, up to which new ones are placed: each step that has new keys makes a table of so
#: many, at 4 µs a key.
PINS: Final = 10_000
_NONE: Final = np.zeros(0, np.uint64)


class NewKeysInSlots:
    """Which keys are new, and where they go; a :class:`thalweg.slots.Placer`.

    It remembers the hashes of all keys that it has seen, 8 bytes a key.

    Args:
        prepared: the flow.
        pins: the most pinned keys.

    Raises:
        BuildError: no two operators by key follow each other whose keys the rows of the ingress have; it says why.
    """

    def __init__(self, prepared: Prepared, *, pins: int = PINS) -> None:
        links, reasons = required_links(prepared.plan)
        for reason in reasons:
            log.info("first_seen: %s, so such keys go by hash until a table has them", reason)
        nodes = {node.name: node for node in prepared.plan.keyed}
        self._links = [one.link for one in links]
        self._specs = {name: KeySpec(node.key.fields) for name, node in nodes.items()}
        self._buckets = {name: node.key.buckets for name, node in nodes.items()}
        self._reader = PairReader(prepared, reads_of(links, nodes))
        self._pins = pins
        self._seen: dict[str, UInt64s] = {}
        self._batch: BatchPairs | None = None
        #: by operator, the tuples of each slot under tables that were made here only
        self._loads: Mapping[str, list[int]] | None = None
        self._epoch = 0

    def look(self, leaving: Leaving) -> bool:
        """Whether the rows have a key that none had before; see :class:`thalweg.slots.Placer`."""
        for edge, chunks in leaving.items():
            for chunk in chunks:
                self._reader.take(edge.node, chunk)
        self._batch = BatchPairs(self._reader.pairs(), self._links, self._specs)
        return any(
            not self._has_seen(name, hashes).all()
            for name, hashes in self._batch.key_hashes.items()
        )

    def table(self, table: RoutingTable) -> RoutingTable | None:
        """The table with the new keys pinned; None where there is no room, or only one place."""
        batch, self._batch = self._batch, None
        assert batch is not None
        known = self._known(batch, table)
        for name, hashes in batch.key_hashes.items():
            self._seen[name] = np.union1d(self._seen.get(name, _NONE), hashes)
        room = self._pins - sum(len(routes.pins) for routes in table.operators.values())
        if room <= 0 or table.slots == 1:
            return None
        buckets = batch.buckets(self._buckets)
        places = FirstSeen(
            table.assignment(),
            lambda name, key: buckets[name, key],
            known=known,
            max_keys=room,
            loads=self._loads if table.epoch == self._epoch else None,
        )
        placed = places.place(batch.pairs)
        made = table.placed(placed.keys) if placed.keys else None
        self._loads, self._epoch = places.loads, (made or table).epoch
        return made

    def _known(self, batch: BatchPairs, table: RoutingTable) -> frozenset[OperatorKey]:
        """Keys that were seen, and those that share the hash of a pinned key, and so its place."""
        known: set[OperatorKey] = set()
        for name, (keys, hashes) in batch.operators.items():
            pinned = np.fromiter(table.operators[name].pinned, np.uint64)
            taken = self._has_seen(name, hashes) | np.isin(hashes, pinned)
            known |= {(name, keys[place]) for place in np.flatnonzero(taken).tolist()}
        return frozenset(known)

    def _has_seen(self, name: str, hashes: UInt64s) -> Bools:
        return contains(self._seen.get(name, _NONE), hashes)
