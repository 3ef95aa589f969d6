"""Features: what is read anew before a round, and how one's own are made."""

from __future__ import annotations

from typing import Any

import pytest

from thalweg import scheduling
from thalweg.errors import BuildError
from thalweg.scheduling import BUILT_IN, FeatureKind, OperatorStats, feature, stale

# a -> b -> c -> d, and e alone
NEIGHBOURS = [(1,), (0, 2), (1, 3), (2,), ()]


def one(kind: str) -> scheduling.Feature:
    return feature(f"a_{kind}", kind=kind, read=len)


@pytest.mark.parametrize(
    ("kind", "ran", "changed", "expected"),
    [
        ("constant", {1, 2}, set(), []),
        ("constant", {1}, {4}, [4]),
        ("independent", {1, 4}, set(), [1, 4]),
        ("intrinsic", {1, 4}, {0}, [0, 1, 4]),
        ("dependent", {1}, set(), [0, 1, 2]),
        ("dependent", {0, 4}, set(), [0, 1, 4]),
        ("dependent", set(), {3}, [2, 3]),
        ("dependent", set(), set(), []),
        ("external", set(), set(), [0, 1, 2, 3, 4]),
    ],
)
def test_only_what_can_have_changed_is_read(
    kind: str, ran: set[int], changed: set[int], expected: list[int]
) -> None:
    """Definitions 3.1 to 3.4: by whom a feature can change says whose is read anew."""
    wanted = one(kind)
    assert stale([wanted], ran, NEIGHBOURS, changed=changed) == [(i, wanted) for i in expected]


def test_only_what_is_required_is_read() -> None:
    """By operator, in the order asked for; nothing where nothing is asked."""
    cost, head = BUILT_IN["cost_ns"], BUILT_IN["head_ns"]
    assert stale([head, cost], {3}, NEIGHBOURS) == [(2, head), (3, head), (3, cost)]
    assert stale([], {3}, NEIGHBOURS) == []


def test_built_in_features_are_fields_of_the_record() -> None:
    """Each has its place, and none of them reads."""
    assert set(BUILT_IN) <= set(OperatorStats._fields)
    assert all(name == one.name and one.read is None for name, one in BUILT_IN.items())
    assert BUILT_IN["cost_ns"].kind is FeatureKind.INTRINSIC
    assert BUILT_IN["head_ns"].kind is FeatureKind.DEPENDENT


def test_a_feature_of_ones_own() -> None:
    """The kind by its name or itself."""
    made = feature("level", kind="external", read=len)
    assert made == feature("level", kind=FeatureKind.EXTERNAL, read=len)
    assert made.read is not None
    assert made.read("abc") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "cost_ns"}, "'cost_ns' is built in"),
        ({"name": "my level"}, "must be an identifier, not 'my level'"),
        ({"name": 3}, "must be an identifier, not 3"),
        ({"kind": "dynamic"}, "'level': kind must be one of constant, .*, not 'dynamic'"),
        ({"read": 5}, "'level': read must be a function of a name, not 5"),
    ],
)
def test_a_wrong_feature_is_refused(arguments: dict[str, Any], message: str) -> None:
    """By what is wrong with it."""
    with pytest.raises(BuildError, match=message):
        feature(**{"name": "level", "kind": "external", "read": len} | arguments)
