"""What a SpaceSaving sketch has counted, as a value: to be merged, sent and read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from thalweg.brief import brief_repr
from thalweg.hashing import Int64s, UInt64s

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


@brief_repr
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
        """The counts of no tuples."""
        none = np.zeros(0, np.int64)
        return cls(np.zeros((0, 2), np.uint64), none, none, 0, 0)

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def merged(cls, parts: Sequence[Counts]) -> Counts:
        """The counts of several streams together.

        An item that only some of them list may have come ``floor`` times in each other. So errors add up to at most
        the sum of N / m for sketches of m counters over N tuples (Agarwal et al., "Mergeable summaries", PODS 2012).
        """
        floor, total = sum(one.floor for one in parts), sum(one.total for one in parts)
        items = np.concatenate([cls.empty().items, *(one.items for one in parts)])
        if not len(items):
            return dataclasses.replace(cls.empty(), floor=floor, total=total)
        order, starts = _groups(items)
        # All of them together may have missed ``floor`` of an item; one that lists it has not.
        counts = floor + _sums([one.counts - one.floor for one in parts], order, starts)
        errors = floor + _sums([one.errors - one.floor for one in parts], order, starts)
        return cls(items[order[starts]], counts, errors, floor, total)

    def top(self, size: int) -> Counts:
        """The most frequent items only, ties by the smaller hash; the others count towards the floor.

        Of two merged sketches of m counters, the m most frequent are a sketch of m counters of both streams: no error
        and no floor is above N / m. They are listed from the most frequent on.
        """
        if size < len(self):
            # Of those that are as frequent as the last one some go.
            least = np.partition(self.counts, len(self) - size)[len(self) - size]
            near = np.flatnonzero(self.counts >= least)
        else:
            near = np.arange(len(self))
        order = near[np.lexsort((self.items[near, 1], self.items[near, 0], -self.counts[near]))]
        kept = order[:size]
        left = np.ones(len(self), np.bool_)
        left[kept] = False
        floor = max(self.floor, int(self.counts[left].max(initial=0)))
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


def _groups(items: UInt64s) -> tuple[Int64s, Int64s]:
    """An order in which equal items, ``uint64[n, 2]``, follow each other, and where each group of them begins."""
    first, second = np.ascontiguousarray(items[:, 0]), np.ascontiguousarray(items[:, 1])
    # One number an item is sorted several times as fast as two.
    mixed = (first ^ (second * _MIX)) * _MIX
    order = np.argsort(mixed)
    starts = _starts(first[order], second[order])
    if len(starts) != np.count_nonzero(np.diff(mixed[order])) + 1:
        # Two items are mixed into one number, so that equal ones need not follow each other.
        order = np.lexsort((second, first))
        starts = _starts(first[order], second[order])
    return order, starts


def _starts(first: UInt64s, second: UInt64s) -> Int64s:
    """Where an item is another one than that before it."""
    differs = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return np.concatenate([[0], np.flatnonzero(differs) + 1])


def _sums(parts: Sequence[Int64s], order: Int64s, starts: Int64s) -> Int64s:
    """By group, the sum of its items' numbers."""
    sums: Int64s = np.add.reduceat(np.concatenate(parts)[order], starts)
    return sums
