"""Which part, that is slot, each key and bucket belongs to, and what is to be expected of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from thalweg.brief import brief_repr, counted
from thalweg.errors import BuildError
from thalweg.locality.statistics import Key, OperatorKey


@dataclasses.dataclass(frozen=True, slots=True)
class HeavyKey:
    """A key so frequent that its operator cannot be balanced.

    Attributes:
        operator: the operator's name.
        key: the key.
        share: its share of the operator's tuples, 0 to 1.
        imbalance: the least that the operator can have with it: its tuples by the mean of a part.
    """

    operator: str
    key: Key
    share: float
    imbalance: float


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What an assignment gives on the statistics that it was made from.

    Attributes:
        locality: the share of counted pairs whose keys are in one part, 0 to 1; 1 where no pair was counted.
        imbalance: by operator, the tuples of the fullest part by the mean of all parts, 1 at best.
        alpha: the greatest imbalance that was asked for.
        heavy: the keys that forbid it, the heaviest first.
        moved: how many of the counted keys change their part with respect to the assignment before.
        dropped: how many keys were pinned before and no longer are, so that they go by their bucket again.
    """

    locality: float
    imbalance: Mapping[str, float]
    alpha: float
    heavy: tuple[HeavyKey, ...] = ()
    moved: int = 0
    dropped: int = 0

    def over(self) -> tuple[str, ...]:
        """The operators that are less balanced than was asked for."""
        return tuple(name for name, found in self.imbalance.items() if found > self.alpha)


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """Where keys and buckets are: an assignment of both to parts.

    Attributes:
        parts: how many parts (slots) there are.
        keys: by operator and key, the part of the keys that are pinned; all other keys go by their bucket.
        buckets: by operator, the part of each bucket.
        report: what is to be expected.
    """

    parts: int
    keys: Mapping[OperatorKey, int]
    buckets: Mapping[str, tuple[int, ...]]
    report: Report

    def part_of(self, operator: str, key: Key, bucket: int) -> int:
        """The part that a key of an operator goes to.

        Args:
            operator: the operator's name.
            key: the key.
            bucket: the key's bucket, which counts where the key is not pinned.
        """
        pinned = self.keys.get((operator, key))
        return self.buckets[operator][bucket] if pinned is None else pinned

    def expect(self, operator: str, buckets: int) -> None:
        """Raises for statistics of another flow.

        Raises:
            BuildError: it does not know the operator, or has another number of buckets for it.
        """
        if operator not in self.buckets:
            raise BuildError(
                f"the assignment is of {', '.join(self.buckets)} and does not know the operator {operator!r}"
            )
        if len(self.buckets[operator]) != buckets:
            raise BuildError(
                f"the assignment has {counted(len(self.buckets[operator]), 'bucket')} for operator {operator!r},"
                f" the statistics {buckets}"
            )
