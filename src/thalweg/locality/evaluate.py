"""What an assignment gives on given statistics: those it was made from, or others that it has never seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from thalweg.brief import brief_repr
from thalweg.locality.assignment import Assignment
from thalweg.locality.statistics import Key, Statistics


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Where tuples go under an assignment, and how balanced the parts are.

    Attributes:
        locality: the share of counted pairs whose keys are in one part, 0 to 1; 1 where no pair was counted.
        imbalance: by operator, the tuples of the fullest part by the mean of all parts, 1 at best.
        loads: by operator, the tuples of each part.
    """

    locality: float
    imbalance: Mapping[str, float]
    loads: Mapping[str, tuple[int, ...]]

    @property
    def worst(self) -> float:
        """The greatest imbalance of an operator."""
        return max(self.imbalance.values(), default=1.0)


def evaluate(assignment: Assignment, statistics: Statistics) -> Outcome:
    """Evaluates an assignment on statistics; uncertain counts enter only the loads of buckets.

    Raises:
        BuildError: the assignment does not know an operator, or has another number of buckets for it.
    """
    places = {name: _places(assignment, statistics, name) for name in statistics.operators}
    loads = {}
    for name in statistics.operators:
        found = [0] * assignment.parts
        for one in statistics.loads[name].keys:
            found[places[name][one.key]] += one.sure
        for part, tuples in zip(
            assignment.buckets[name], statistics.loads[name].unpinned, strict=True
        ):
            found[part] += tuples
        loads[name] = tuple(found)
    total = local = 0
    for pair in statistics.pairs:
        (left, here), (right, there) = pair.left, pair.right
        total += pair.sure
        local += pair.sure * (places[left][here] == places[right][there])
    imbalance = {name: _imbalance(found) for name, found in loads.items()}
    return Outcome(local / total if total else 1.0, imbalance, loads)


def _places(assignment: Assignment, statistics: Statistics, name: str) -> dict[Key, int]:
    loads = statistics.loads[name]
    assignment.expect(name, len(loads.unpinned))
    return {one.key: assignment.part_of(name, one.key, one.bucket) for one in loads.keys}


def _imbalance(loads: tuple[int, ...]) -> float:
    total = sum(loads)
    return max(loads) * len(loads) / total if total else 1.0
