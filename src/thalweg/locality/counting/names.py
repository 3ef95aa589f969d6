"""What keys are called whose hashes are counted: hash to bytes, bounded by who uses it."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from thalweg.hashing import Int64s, UInt64s

#: What a name takes besides its own bytes: its hash and its offset.
OVERHEAD: Final = 12


class KeyNames:
    """The names of an operator's keys, sorted by hash."""

    def __init__(self, hashes: UInt64s | None = None, names: pa.BinaryArray | None = None) -> None:
        self.hashes = np.zeros(0, np.uint64) if hashes is None else hashes
        self.names = pa.array([], pa.binary()) if names is None else names

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def nbytes(self) -> int:
        """The memory that they take, bytes."""
        return int(self.hashes.nbytes + self.names.nbytes)

    def sizes(self) -> Int64s:
        """The bytes that each takes."""
        if not len(self):
            return np.zeros(0, np.int64)
        lengths: Int64s = np.diff(np.frombuffer(self.names.buffers()[1], np.int32)[: len(self) + 1])
        return lengths.astype(np.int64) + OVERHEAD

    def places(self, hashes: UInt64s) -> Int64s:
        """The place of each hash among the names, -1 where it has none."""
        if not len(self):
            return np.full(len(hashes), -1, np.int64)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
        return np.where(self.hashes[places] == hashes, places, -1)

    def add(self, hashes: UInt64s, names: pa.Array) -> None:
        """Adds names; a hash that has one keeps it, and of several for one hash the first counts."""
        every = np.concatenate([self.hashes, hashes])
        self.hashes, first = np.unique(every, return_index=True)
        self.names = pa.concat_arrays([self.names, names.cast(pa.binary())]).take(pa.array(first))

    def keep(self, places: Int64s) -> None:
        """Drops all but the names at some ascending places."""
        self.hashes = self.hashes[places]
        self.names = self.names.take(pa.array(places))
