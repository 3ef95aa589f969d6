"""The keys of a flow in a sample of its input, counted exactly: offline analysis (Caneill et al., 3.2).

The sample runs through the serial reference runner, which follows each tuple depth-first from operator to operator, so
that the key by which it came is known where the next one is found.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Keyed, Node
from thalweg.hashing import UInt64s, bucket_of
from thalweg.locality import ExactCounts, Statistics
from thalweg.locality.key_hash import KeyTypes, hash_key
from thalweg.locality.links import links_of
from thalweg.locality.routing import keyed_operators, routed_by
from thalweg.locality.statistics import Key, OperatorKey
from thalweg.plan.plan import Plan, make_plan
from thalweg.testing.reference import run_reference


@dataclasses.dataclass(frozen=True, slots=True)
class SampledKeys:
    """The keys of a flow's tuples, in the order in which a serial run meets them.

    Attributes:
        operators: by keyed operator, the types of its key and its number of buckets.
        takes: by tuple that a keyed operator took, the operator and key.
        pairs: the place in ``takes`` of a tuple that came over a link, and the operator and key that it came from.
    """

    operators: Mapping[str, tuple[KeyTypes, int]]
    takes: Sequence[OperatorKey]
    pairs: Sequence[tuple[int, OperatorKey]]

    def statistics(self, start: float = 0.0, stop: float = 1.0) -> Statistics:
        """The counts of a part of the sample, from a share of its tuples to another, 0 to 1."""
        first, last = (round(len(self.takes) * share) for share in (start, stop))
        counts = ExactCounts({name: buckets for name, (_, buckets) in self.operators.items()})
        for end in self.takes[first:last]:
            counts.take(*end)
        for place, left in self.pairs:
            if first <= place < last:
                counts.pair(left, self.takes[place])
        return counts.statistics(self._buckets)

    def _buckets(self, name: str, keys: Sequence[Key]) -> list[int]:
        found: list[int] = bucket_of(self.hashes(name, keys), self.operators[name][1]).tolist()
        return found

    def hashes(self, name: str, keys: Sequence[Key]) -> UInt64s:
        """The stable hashes of an operator's keys."""
        types, _ = self.operators[name]
        return np.array([hash_key(types, key) for key in keys], np.uint64)

    def bucket_of(self, name: str, key: Key) -> int:
        """The bucket of an operator's key."""
        return self._buckets(name, [key])[0]


def sample(flow: Flow, inputs: Mapping[str, Iterable[Any]]) -> SampledKeys:
    """Runs a flow over a sample of its input.

    Args:
        flow: the flow.
        inputs: rows by source name, in arrival order. At their end the remaining timers fire.
    """
    plan = make_plan(flow)
    trail = _Trail(plan)
    run_reference(flow, inputs, observer=trail)
    return SampledKeys(keyed_operators(plan), trail.takes, trail.pairs)


class _Trail:
    """Follows a tuple: the keyed operator and key that it comes from, None where it comes through one slot."""

    def __init__(self, plan: Plan) -> None:
        self._links = frozenset(links_of(plan))
        self._homes = routed_by(plan)
        self._from: OperatorKey | None = None
        self.takes: list[OperatorKey] = []
        self.pairs: list[tuple[int, OperatorKey]] = []

    def took(self, node: Keyed, key: Key) -> None:
        if self._homes.get(node.name) == node.name:
            if self._from is not None and (self._from[0], node.name) in self._links:
                self.pairs.append((len(self.takes), self._from))
            self.takes.append((node.name, key))

    @contextlib.contextmanager
    def giving(self, node: Node, key: Key) -> Iterator[None]:
        before = self._from
        home = self._homes.get(node.name)
        self._from = None if home is None else (home, key)
        yield
        self._from = before
