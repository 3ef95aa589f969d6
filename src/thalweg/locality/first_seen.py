"""Keys that are seen for the first time go beside their partners, not where their hash would send them.

Caneill et al. send a key that is not in the routing table to where its hash says, and see locality fall from the
75 % that METIS promises to 50 %, since every week brings new hashtags (section 4.3). A key without state can go
anywhere at no cost, so before a batch is routed, its new keys are placed: each where most of its tuples' partners are,
weighted by the room that is left there, as in linear deterministic greedy partitioning of a stream (Stanton & Kliot,
"Streaming graph partitioning for large distributed graphs", KDD 2012). Deciding takes the whole batch's pairs and the
result of all batches before, so it happens in one place; what it decides is part of the table of that batch.

Everything here is a function of its arguments: the same batches in the same order give the same places.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from thalweg.brief import brief_repr, counted
from thalweg.errors import BuildError
from thalweg.locality.assignment import Assignment
from thalweg.locality.statistics import Key, OperatorKey, PairCount

#: The most tuples of a part by the mean, as far as new keys can tell.
CAP: Final = 1.15
#: The most keys that are placed until the next reconfiguration.
MAX_KEYS: Final = 1_000_000

#: The bucket of an operator's key.
BucketOf = Callable[[str, Key], int]


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class PlacedKeys:
    """The new keys placed for a batch.

    Attributes:
        keys: by operator and key, the part of those that were placed now.
        beside: how many of them are where a partner of theirs is.
        full: how many were left to their hash, since there were too many.
    """

    keys: Mapping[OperatorKey, int]
    beside: int
    full: int


class FirstSeen:
    """The placements since the last reconfiguration.

    Args:
        assignment: what the reconfiguration decided. Its pinned keys are known, and so are those in ``known``.
        bucket_of: the bucket of a key, where keys go that are left to their hash.
        known: other keys that have state already, where their bucket is.
        cap: the most tuples of a part by the mean.
        max_keys: the most keys to place.
        loads: the tuples of each part so far, by operator, where others have placed keys before; None: there are none.

    Raises:
        BuildError: ``cap`` is below 1.
    """

    def __init__(
        self,
        assignment: Assignment,
        bucket_of: BucketOf,
        *,
        known: frozenset[OperatorKey] = frozenset(),
        cap: float = CAP,
        max_keys: int = MAX_KEYS,
        loads: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        if cap < 1:
            raise BuildError(f"expected cap ≥ 1, got {cap}")
        self._assignment = assignment
        self._bucket_of = bucket_of
        self._cap = cap
        self._max_keys = max_keys
        #: All keys that have a place: they never get another one here.
        self._parts: dict[OperatorKey, int] = dict(assignment.keys)
        for end in known:
            self._parts.setdefault(end, self._by_hash(end))
        self._placed: dict[OperatorKey, int] = {}
        self._loads = {
            name: list(loads[name]) if loads else [0] * assignment.parts
            for name in assignment.buckets
        }

    def __repr__(self) -> str:
        return f"<FirstSeen, {counted(len(self._placed), 'key')} placed, {self._assignment!r}>"

    @property
    def loads(self) -> dict[str, list[int]]:
        """By operator, the tuples of each part."""
        return {name: list(loads) for name, loads in self._loads.items()}

    def assignment(self) -> Assignment:
        """The assignment with all placed keys, from which the next reconfiguration starts."""
        keys = {**self._assignment.keys, **self._placed}
        return dataclasses.replace(self._assignment, keys=keys)

    def part_of(self, end: OperatorKey) -> int:
        """The part to which a key goes."""
        part = self._parts.get(end)
        return self._by_hash(end) if part is None else part

    def _by_hash(self, end: OperatorKey) -> int:
        return self._assignment.part_of(*end, self._bucket_of(*end))

    def place(self, pairs: Sequence[PairCount]) -> PlacedKeys:
        """Places the new keys of a batch.

        Args:
            pairs: all pairs of the batch, each once.
        """
        counts, partners = _batch(pairs)
        new = []
        for end, count in counts.items():
            if end in self._parts:
                self._loads[end[0]][self._parts[end]] += count
            else:
                new.append(end)
        limits = self._limits(counts)
        made: dict[OperatorKey, int] = {}
        beside = full = 0
        for end in sorted(new, key=lambda end: -counts[end]):
            if len(self._placed) < self._max_keys:
                ties = self._ties(partners[end])
                part = self._choose(end[0], ties, counts[end], limits[end[0]])
                made[end] = self._placed[end] = part
                beside += ties[part] > 0
            else:
                part = self._by_hash(end)
                full += 1
            self._parts[end] = part
            self._loads[end[0]][part] += counts[end]
        return PlacedKeys(made, beside, full)

    def _limits(self, counts: Mapping[OperatorKey, int]) -> dict[str, float]:
        """By operator, the most tuples of a part once the whole batch is placed."""
        totals = {name: sum(loads) for name, loads in self._loads.items()}
        for end, count in counts.items():
            if end not in self._parts:
                totals[end[0]] += count
        return {name: self._cap * total / self._assignment.parts for name, total in totals.items()}

    def _ties(self, partners: Sequence[tuple[OperatorKey, int]]) -> list[int]:
        ties = [0] * self._assignment.parts
        for end, count in partners:
            part = self._parts.get(end)
            if part is not None:
                ties[part] += count
        return ties

    def _choose(self, operator: str, ties: Sequence[int], count: int, limit: float) -> int:
        """The part with the most partners by the room left; the emptiest where none with a partner has room."""
        loads = self._loads[operator]
        scores = [
            tie * (1 - load / limit) if load + count <= limit else 0.0
            for tie, load in zip(ties, loads, strict=True)
        ]
        return max(range(len(loads)), key=lambda part: (scores[part], -loads[part], -part))


def _batch(
    pairs: Sequence[PairCount],
) -> tuple[dict[OperatorKey, int], Mapping[OperatorKey, list[tuple[OperatorKey, int]]]]:
    """How often each key comes, and with whom."""
    counts: dict[OperatorKey, int] = {}
    partners: Mapping[OperatorKey, list[tuple[OperatorKey, int]]] = collections.defaultdict(list)
    for pair in pairs:
        for end, other in ((pair.left, pair.right), (pair.right, pair.left)):
            counts[end] = counts.get(end, 0) + pair.count
            partners[end].append((other, pair.count))
    return counts, partners
