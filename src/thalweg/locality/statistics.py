"""What is known of the keys of a flow: how often each came, and which came together (Caneill et al., 3.2).

A *link* leads from a keyed operator to the next keyed operator downstream. A tuple that was routed to the first by
key ``k`` and leads to a tuple that is routed to the second by key ``k'`` makes the *pair* ``(k, k')`` once. What lies
between the two, stateless operators and unions, does not matter; a stateless operator that gives three tuples
makes three pairs.

Keys are the values that users see: bare for one field, a tuple for several. They are canonical (NaN is
:data:`math.nan`, -0.0 is 0.0), so that they group as dict keys as Spark SQL groups them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from thalweg.brief import brief_repr
from thalweg.errors import BuildError

#: A key as users see it.
Key: TypeAlias = Any
#: A keyed operator's name and one of its keys.
OperatorKey: TypeAlias = tuple[str, Key]


@dataclasses.dataclass(frozen=True, slots=True)
class PairCount:
    """How often two keys came one after the other: at least ``count - error`` and at most ``count`` times."""

    left: OperatorKey
    right: OperatorKey
    count: int
    error: int = 0

    @property
    def sure(self) -> int:
        """The tuples that are certain."""
        return self.count - self.error


@dataclasses.dataclass(frozen=True, slots=True)
class KeyCount:
    """The tuples of a key at an operator, between ``count - error`` and ``count``, and the key's bucket."""

    key: Key
    bucket: int
    count: int
    error: int = 0

    @property
    def sure(self) -> int:
        """The tuples that are certain."""
        return self.count - self.error


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class KeyLoads:
    """The tuples that a keyed operator took, by key and bucket.

    Attributes:
        operator: its name.
        total: all tuples that it took.
        keys: the keys that are known by name, each once.
        unpinned: by bucket, the tuples that are not sure to be of a key in ``keys``; as many as the operator has
            buckets.
    """

    operator: str
    total: int
    keys: tuple[KeyCount, ...]
    unpinned: tuple[int, ...]


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """The keys and pairs of a flow in some period.

    Attributes:
        operators: the names of the keyed operators, in the order of the flow.
        loads: by operator, what it took.
        pairs: each pair once, of any links.

    Raises:
        BuildError: an operator has no loads, or a pair has a key that its operator's loads do not know.
    """

    operators: tuple[str, ...]
    loads: Mapping[str, KeyLoads]
    pairs: tuple[PairCount, ...]

    def __post_init__(self) -> None:
        if set(self.operators) != set(self.loads):
            raise BuildError(
                f"loads of {', '.join(sorted(self.loads)) or 'none'} for the operators {', '.join(self.operators)}"
            )
        known = {(name, one.key) for name, loads in self.loads.items() for one in loads.keys}
        for pair in self.pairs:
            for end in (pair.left, pair.right):
                if end not in known:
                    raise BuildError(
                        f"the key {end[1]!r} of operator {end[0]!r} is in a pair, but not among its keys"
                    )
