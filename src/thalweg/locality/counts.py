"""What a SpaceSaving sketch has counted, as a value: to be merged, sent and read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from thalweg.hashing import Int64s, UInt64s


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Counted items.

    A listed item came at least ``counts - errors`` and at most ``counts`` times, any other at most ``floor`` times.

    Attributes:
        items: ``uint64[n, 2]``, each item once.
        counts: ``int64[n]``.
        errors: ``int64[n]``.
        floor: the most that an item which is not listed can have come.
        total: all tuples.
    """

    items: UInt64s
    counts: Int64s
    errors: Int64s
    floor: int
    total: int

    @classmethod
    def empty(cls) -> Counts:
        """Of no tuples."""
        none = np.zeros(0, np.int64)
        return cls(np.zeros((0, 2), np.uint64), none, none, 0, 0)

    def __len__(self) -> int:
        return len(self.counts)

    def merge(self, other: Counts) -> Counts:
        """The counts of both streams together.

        An item that only one of the two lists may have come ``floor`` times in the other. So errors add up to at most
        N1 / m1 + N2 / m2 for sketches of m1 and m2 counters over N1 and N2 tuples (Agarwal et al., "Mergeable
        summaries", PODS 2012).
        """
        items = np.concatenate([self.items, other.items])
        if not len(items):
            return Counts(items, self.counts, self.errors, 0, self.total + other.total)
        unique, places = np.unique(items, axis=0, return_inverse=True)
        # What each of the two may have missed, until it turns out that it lists the item.
        missed = np.full(len(unique), self.floor + other.floor, np.int64)
        counts, errors = missed.copy(), missed.copy()
        start = 0
        for one in (self, other):
            mine = places.ravel()[start : start + len(one)]
            counts[mine] += one.counts - one.floor
            errors[mine] += one.errors - one.floor
            start += len(one)
        return Counts(unique, counts, errors, self.floor + other.floor, self.total + other.total)

    def top(self, size: int) -> Counts:
        """Only the most frequent, of equal ones those with the smaller hash; the others go under the floor.

        Of two merged sketches of m counters, the m most frequent are a sketch of m counters of both streams: no error
        and no floor is above N / m.
        """
        if size >= len(self):
            return self
        order = np.lexsort((self.items[:, 1], self.items[:, 0], -self.counts))
        kept, first = order[:size], order[size]
        floor = max(self.floor, int(self.counts[first]))
        return Counts(self.items[kept], self.counts[kept], self.errors[kept], floor, self.total)

    def to_batch(self) -> pa.RecordBatch:
        """As Arrow, with ``floor`` and ``total`` in the schema's metadata."""
        columns = [self.items[:, 0], self.items[:, 1], self.counts, self.errors]
        names = ["first", "second", "count", "error"]
        batch = pa.record_batch([pa.array(column) for column in columns], names=names)
        return batch.replace_schema_metadata({"floor": str(self.floor), "total": str(self.total)})

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Counts:
        """What :meth:`to_batch` made a batch of."""
        first, second, counts, errors = (column.to_numpy() for column in batch.columns)
        metadata = batch.schema.metadata
        items = np.stack([first, second], axis=1)
        return cls(items, counts, errors, int(metadata[b"floor"]), int(metadata[b"total"]))
