"""Keys that come for the first time are placed before their batch runs, each beside its partners.

What :class:`thalweg.locality.FirstSeen` decides from the pairs of a batch becomes pins in the table of that very batch,
which is on stable storage before its tasks start. No state moves, so a key may be placed only if it surely has none:
:class:`thalweg.spark.keys.known_keys.KnownKeys` says so by the files that the commit record of the batch before names.
A batch that is repeated starts from that same record, and so finds no state of its first try; what it decides anew
is as good, since no output depends on where keys are.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import CommitRecord
from thalweg.locality import OperatorKey, RoutingTable
from thalweg.plan.plan import Plan
from thalweg.slots.new_keys import NewKeys
from thalweg.slots.pairs import BatchPairs, Read
from thalweg.spark.keys.known_keys import KnownKeys

#: Pinned keys, learnt ones included, up to which new ones are placed: a table of so many is written before every
#: batch that has new keys, and read and hashed by each of its worker processes (0.1 s or so).
PINS: Final = 50_000


#: A pre-pass has found next to nothing where the keys that it gave places have a smaller share of the pairs.
FEW: Final = 0.01
#: Batches at most that no pre-pass runs over, one after the other.
PAUSE: Final = 8


class PrepassPace:
    """Which batches a pre-pass runs over: all, until it finds next to nothing; then ever fewer, until it does."""

    def __init__(self) -> None:
        self._pause = self._left = 0

    def is_due(self) -> bool:
        """Whether the batch that comes next is looked at."""
        self._left -= 1
        return self._left < 0

    def found(self, share: float) -> None:
        """What came of it.

        Args:
            share: of the tuples of the batch's pairs, those with a key that got a place.
        """
        self._pause = min(max(2 * self._pause, 1), PAUSE) if share < FEW else 0
        self._left = self._pause


@dataclasses.dataclass(frozen=True, slots=True)
class Placing:
    """What is decided for a batch.

    Attributes:
        keys: the slots of new keys.
        freed: pinned keys without state that made room for them.
        left: new keys that go by hash, since there was no room.
        share: of the tuples of the batch's pairs, those with a key that got a place; None where nobody looked.
    """

    keys: Mapping[OperatorKey, int] = dataclasses.field(default_factory=dict)
    freed: frozenset[OperatorKey] = frozenset()
    left: int = 0
    share: float | None = None


class NewKeysOfBatches:
    """The pre-pass's part on the driver.

    Args:
        plan: the flow's.
        fs, root: the checkpoint.
        pins: the most pinned keys.

    Raises:
        BuildError: as :class:`thalweg.slots.new_keys.NewKeys`.
    """

    def __init__(self, plan: Plan, fs: FileSystem, root: str, *, pins: int = PINS) -> None:
        self._new_keys = NewKeys(plan, pins=pins)
        self.reads: list[Read] = self._new_keys.reads
        self._known = KnownKeys(plan, fs, root)
        self._pace = PrepassPace()
        #: by operator, the tuples of each slot since the last new table; with the batch that runs ``_loads_then``
        self._loads: Mapping[str, list[int]] | None = None
        self._loads_then: Mapping[str, list[int]] | None = None

    def is_due(self) -> bool:
        """Whether a pre-pass is to run over the batch that comes next."""
        due = self._pace.is_due()
        if not due:
            self._loads_then = self._loads
        return due

    def place(self, pairs: pa.Table, table: RoutingTable, record: CommitRecord | None) -> Placing:
        """Where the new keys of a batch go.

        Args:
            pairs: those of the batch, see :mod:`thalweg.slots.pairs`.
            table: that would hold in it without new keys.
            record: of the batch before.

        Raises:
            CheckpointError: a state file is missing or torn.
        """
        self._loads_then = self._loads
        if not pairs.num_rows:
            return Placing(share=0.0)
        if not self._known.follow(record):
            self._pace.found(0.0)
            return Placing(share=0.0)
        batch = self._new_keys.batch(pairs)
        has_state = frozenset(self._new_keys.known(batch, table, self._known.has))
        new = {e for e in batch.hashes if e not in has_state and not _is_pinned(table, e)}
        room, freed = self._room(table, batch, len(new))
        loads = self._loads
        if loads is not None and any(len(one) != table.slots for one in loads.values()):
            loads = None
        self._new_keys.loads = loads
        placed = self._new_keys.place(batch, table, known=has_state, room=room)
        self._loads_then = self._new_keys.loads
        share = batch.share(placed.keys.keys())
        self._pace.found(share)
        return Placing(placed.keys, freed, placed.full, share)

    def committed(self, *, new_table: bool) -> None:
        """The batch is; loads begin anew where the next one has another table that was made from statistics."""
        self._loads = None if new_table else self._loads_then

    def _room(
        self, table: RoutingTable, batch: BatchPairs, wanted: int
    ) -> tuple[int, frozenset[OperatorKey]]:
        """How many keys may be placed, and which pins go for that: old ones, of keys without state."""
        room = self._new_keys.room(table)
        if room >= wanted:
            return room, frozenset()
        freed = frozenset(itertools.islice(self._idle(table, batch), wanted - max(room, 0)))
        return max(room + len(freed), 0), freed

    def _idle(self, table: RoutingTable, batch: BatchPairs) -> Iterator[OperatorKey]:
        """Pinned keys without state that do not come in the batch, by operator, the oldest first."""
        for name, routes in table.operators.items():
            keys = list(routes.pins)
            spec = self._new_keys.specs[name]
            hashes = spec.hashes(spec.columns_of(keys), len(keys))
            for place in np.flatnonzero(~self._known.has(name, hashes)).tolist():
                if (name, keys[place]) not in batch.hashes:
                    yield name, keys[place]


def _is_pinned(table: RoutingTable, end: OperatorKey) -> bool:
    return end[1] in table.operators[end[0]].pins
