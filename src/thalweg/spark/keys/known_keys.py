"""Which keys may have state: what is pinned without its state being moved must be none of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from thalweg.checkpoint.paths import FileSystem
from thalweg.checkpoint.record import ChainPart, CommitRecord
from thalweg.checkpoint.segments import read_units
from thalweg.columns.chunks import Bools
from thalweg.columns.keys import KeySpec
from thalweg.hashing import UInt64s, contains
from thalweg.locality.routing import routed_by
from thalweg.plan.plan import Plan

#: Rows of state, tombstones included, up to which keys are told apart: 8 bytes and about 0.2 µs each.
MOST: Final = 5_000_000
_NONE: Final = np.zeros(0, np.uint64)


class KnownKeys:
    """The hashes of all keys in the files that a commit record names.

    The files are the state, so nothing else has to be trusted: not what a sketch has kept, nor what tasks tell. Each
    file is read once; after the first batch that is what the last one wrote. Keys whose state was deleted stay known
    until there are twice as many as rows in the files.

    Args:
        plan: the flow's.
        fs, root: the checkpoint.
        most: rows.
    """

    def __init__(self, plan: Plan, fs: FileSystem, root: str, *, most: int = MOST) -> None:
        self._fs, self._root, self._most = fs, root, most
        #: An operator that is routed by another one's keys has its state where that one's is.
        self._homes = routed_by(plan)
        self._specs = {node.name: KeySpec(node.key.fields) for node in plan.keyed}
        self._read: frozenset[str] = frozenset()
        self._hashes: dict[str, UInt64s] = {}

    def __len__(self) -> int:
        return sum(map(len, self._hashes.values()))

    def follow(self, record: CommitRecord | None) -> bool:
        """Knows the keys of a record's state; False where they are too many to be told apart.

        Raises:
            CheckpointError: a state file is missing or torn.
        """
        units = {unit.tag: (name, unit) for name, unit in self._units(record)}
        rows = sum(unit.rows for _, unit in units.values())
        if rows > self._most:
            self._forget()
            return False
        if len(self) > 2 * rows:
            self._forget()
        self._add([units[tag] for tag in sorted(units.keys() - self._read)])
        self._read = frozenset(units)
        return True

    def has(self, operator: str, hashes: UInt64s) -> Bools:
        """For each key of an operator that is routed by its own keys, whether it may have state."""
        return contains(self._hashes.get(operator, _NONE), hashes)

    def _forget(self) -> None:
        self._read, self._hashes = frozenset(), {}

    def _units(self, record: CommitRecord | None) -> Iterator[tuple[str, ChainPart]]:
        for name in self._homes:
            for chain in record.chains.get(name, {}).values() if record else ():
                for unit in chain:
                    yield name, unit

    def _add(self, units: list[tuple[str, ChainPart]]) -> None:
        found: dict[str, list[UInt64s]] = {}
        batches = read_units(self._fs, self._root, [(unit.file, unit.number) for _, unit in units])
        for (name, _), rows in zip(units, batches, strict=True):
            found.setdefault(self._homes[name], []).append(self._specs[name].hashes_of(rows))
        for home, parts in found.items():
            known = self._hashes.get(home, _NONE)
            self._hashes[home] = np.unique(np.concatenate([known, *parts]))
