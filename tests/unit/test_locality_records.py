"""The records of locality: what statistics refuse, and where an assignment says that a key is."""

from __future__ import annotations

import math

import pytest

from thalweg.errors import BuildError
from thalweg.locality import Assignment, KeyCount, KeyLoads, PairCount, Report, Statistics


def loads(operator: str, *keys: str) -> KeyLoads:
    """Loads of an operator with two buckets, each of whose keys came once."""
    return KeyLoads(operator, len(keys), tuple(KeyCount(key, 0, 1) for key in keys), (0, 0))


def test_a_pair_needs_keys_that_are_known() -> None:
    """Each key of a pair must be among the keys of its operator, since its bucket is told there."""
    known = {"region": loads("region", "Asia"), "tag": loads("tag", "#scala")}
    Statistics(("region", "tag"), known, (PairCount(("region", "Asia"), ("tag", "#scala"), 1),))
    with pytest.raises(BuildError, match=r"key '#java' of operator 'tag' is in a pair"):
        Statistics(("region", "tag"), known, (PairCount(("region", "Asia"), ("tag", "#java"), 1),))


def test_every_operator_has_loads() -> None:
    """An operator without loads is a mistake of who made the statistics."""
    with pytest.raises(BuildError, match="loads of region for the operators region, tag"):
        Statistics(("region", "tag"), {"region": loads("region", "Asia")}, ())


def test_a_key_that_is_not_pinned_goes_by_its_bucket() -> None:
    """Pinned keys go where they are pinned, NaN as one key; all others where their bucket is."""
    given = Assignment(3, {("at", math.nan): 2}, {"at": (1, 0)}, Report(1.0, {"at": 1.0}, 1.03))
    assert given.part_of("at", math.nan, 0) == 2
    assert given.part_of("at", 4.0, 0) == 1
    assert given.part_of("at", 4.0, 1) == 0


def test_a_report_tells_the_operators_above_the_bound() -> None:
    """Only operators whose imbalance is greater than alpha are over it."""
    assert Report(0.5, {"a": 1.03, "b": 1.2, "c": 1.0}, 1.03).over() == ("b",)
