"""Groupings: how a stream is split between the slots of the operator that reads it (Caneill et al., 2.2).

All have one method: ``route(hashes, here, load)`` gives the slot of each tuple of a batch. ``hashes`` are the stable
hashes of the tuples' keys, ``here`` the slot that sends them, and ``load`` the tuples that this sender has given to
each slot, ``int64[slots]``, to which the batch is added. So a grouping is a value, and what it learns is the sender's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from thalweg.brief import brief_repr
from thalweg.errors import BuildError
from thalweg.flow.operators.agg import Aggregate
from thalweg.flow.operators.combining import MERGEABLE
from thalweg.hashing import Int64s, UInt64s, bucket_of, hash_words
from thalweg.jit import njit
from thalweg.locality.routing import RoutingTable


class Grouping(Protocol):
    """A way to route the tuples of a stream to slots."""

    def route(self, hashes: UInt64s, here: int, load: Int64s) -> Int64s:
        """Returns the slot of each tuple and adds the tuples to the load."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shuffle:
    """Routes round-robin, for equal load; only for operators without keyed state."""

    slots: int

    def route(self, hashes: UInt64s, here: int, load: Int64s) -> Int64s:
        """The slots round-robin, after the last that got a tuple."""
        return _counted((int(load.sum()) + np.arange(len(hashes))) % self.slots, load)


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class LocalOrShuffle:
    """Routes to the sender's own slot if the operator is there, else round-robin among its slots.

    Attributes:
        places: the slots that the operator runs in.
    """

    places: tuple[int, ...]

    def route(self, hashes: UInt64s, here: int, load: Int64s) -> Int64s:
        """All tuples to the sender's slot, or round-robin."""
        if here in self.places:
            return _counted(np.full(len(hashes), here), load)
        turns = (int(load.sum()) + np.arange(len(hashes))) % len(self.places)
        return _counted(np.array(self.places)[turns], load)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldsByHash:
    """Routes by key to the slot that owns the key's bucket, in equal runs of buckets."""

    buckets: int
    slots: int

    def route(self, hashes: UInt64s, here: int, load: Int64s) -> Int64s:
        """Equal keys to equal slots."""
        return _counted(bucket_of(hashes, self.buckets) * self.slots // self.buckets, load)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldsByTable:
    """Routes by key as a routing table says, and by bucket where the key is not pinned."""

    table: RoutingTable
    operator: str

    def route(self, hashes: UInt64s, here: int, load: Int64s) -> Int64s:
        """Equal keys to equal slots."""
        return _counted(self.table.slots_of(self.operator, hashes), load)


@dataclasses.dataclass(frozen=True, slots=True)
class PartialKey:
    """Routes each key to the less loaded of two slots (Nasir et al., ICDE 2015).

    A hot key's load is halved, and its state is in two places: each has a part, and the parts must be merged.
    So it is for aggregates that can be merged; make it with :func:`partial_key`.
    """

    slots: int

    def route(self, hashes: UInt64s, here: int, load: Int64s) -> Int64s:
        """Each tuple to the less loaded of its key's two slots, the first one in a tie."""
        first, second = self.choices(hashes)
        out = np.empty(len(hashes), np.int64)
        _less_loaded(first, second, load, out)
        return out

    def choices(self, hashes: UInt64s) -> tuple[Int64s, Int64s]:
        """The two slots of each key, which are different if there are several slots."""
        first = bucket_of(hashes, self.slots)
        if self.slots == 1:
            return first, first
        again = hash_words(hashes.view(np.int64).reshape(-1, 1))
        return first, (first + 1 + bucket_of(again, self.slots - 1)) % self.slots


def partial_key(
    operator: str, aggregates: Mapping[str, Aggregate] | None, slots: int
) -> PartialKey:
    """Partial key grouping for an operator.

    Args:
        operator: its name, for the error.
        aggregates: by name, what it computes; None: a function of the user's.
        slots: how many.

    Raises:
        BuildError: its state cannot be merged from two parts.
    """
    wrong = [
        f"{name} is {one.verb}"
        for name, one in (aggregates or {}).items()
        if one.verb not in MERGEABLE
    ]
    if not aggregates or wrong:
        found = ", ".join(wrong) or "it runs a function, whose state only the function understands"
        raise BuildError(
            f"operator {operator!r}: partial key grouping splits the state of a key between two slots, so it is only"
            f" for aggregates that can be merged ({', '.join(MERGEABLE)}); {found}.\n"
            "Use fields grouping, by hash or by table."
        )
    return PartialKey(slots)


@njit
def _less_loaded(first: Int64s, second: Int64s, load: Int64s, out: Int64s) -> None:
    for i in range(len(out)):
        slot = first[i] if load[first[i]] <= load[second[i]] else second[i]
        load[slot] += 1
        out[i] = slot


def _counted(slots: Int64s, load: Int64s) -> Int64s:
    load += np.bincount(slots, minlength=len(load))
    return slots
