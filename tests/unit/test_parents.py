"""Rows that leave behind an operator are joined with those that came to it by their place in the order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.columns.chunks import Chunk
from thalweg.columns.parents import order_matrix, parents, shared_columns
from thalweg.flow.records import Schema
from thalweg.plan.plan import KEY, LEVEL, OWN, SEQ, TIME

_PLACES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), unique=True, max_size=25)


@settings(deadline=None)
@given(_PLACES, st.data())
def test_parents(places: list[tuple[int, int]], data: st.DataObject) -> None:
    """Each row's parent is the row with its place: some have none, some several children, some are of other rows."""
    arrived = sorted(places)
    others = st.tuples(st.integers(0, 3), st.integers(0, 9))
    made = st.lists(st.sampled_from(arrived) if arrived else others, max_size=40)
    left = sorted([*data.draw(made), *data.draw(st.lists(others, max_size=5))])
    found = parents(matrix(arrived), matrix(left))
    assert found.tolist() == [arrived.index(one) if one in arrived else -1 for one in left]


def matrix(places: list[tuple[int, int]]) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(places, np.int64).reshape(-1, 2)


def test_columns() -> None:
    """What places a row before and behind: integers that both have, in the order of the key."""
    before = [TIME, LEVEL, SEQ, KEY, "_c3", OWN]
    assert shared_columns(before, [TIME, LEVEL, SEQ, KEY, "_c3", "_c5", "_b3", OWN]) == [
        TIME, LEVEL, SEQ, "_c3",
    ]  # fmt: skip
    chunk = Chunk(Schema("Nothing", ()), [], 2, {TIME: np.array([1, 2]), SEQ: np.array([3, 4])})
    assert order_matrix(chunk, [SEQ, TIME]).tolist() == [[3, 1], [4, 2]]
