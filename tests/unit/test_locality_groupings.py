"""Groupings: what each promises of slots and of balance (Caneill et al., 2.2)."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.hashing import Int64s, UInt64s
from thalweg.locality import (
    FieldsByHash,
    FieldsByTable,
    Grouping,
    LocalOrShuffle,
    PartialKey,
    Routes,
    RoutingTable,
    Shuffle,
    partial_key,
)
from thalweg.locality.key_hash import hash_key

TEXT = (FieldType(Kind.STR),)
TABLE = RoutingTable(1, 3, (2, 1, 0), {"at": Routes(TEXT, (0, 1, 2, 0), {"hot": 0})})
ALL: list[Grouping] = [
    Shuffle(3),
    LocalOrShuffle((0, 2)),
    FieldsByHash(4, 3),
    FieldsByTable(TABLE, "at"),
    PartialKey(3),
]


def hashes(*keys: str) -> UInt64s:
    return np.array([hash_key(TEXT, key) for key in keys], np.uint64)


def load(slots: int = 3) -> Int64s:
    return np.zeros(slots, np.int64)


@pytest.mark.parametrize("grouping", ALL, ids=lambda one: type(one).__name__)
@given(keys=st.lists(st.text("abc", max_size=2)), cut=st.integers(0, 10), here=st.integers(0, 2))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_grouping(grouping: Grouping, keys: list[str], cut: int, here: int) -> None:
    """Each tuple gets one slot that exists, the load counts them, and how a stream is cut does not matter."""
    whole, parts = load(), load()
    slots = grouping.route(hashes(*keys), here, whole)
    found = [grouping.route(hashes(*part), here, parts) for part in (keys[:cut], keys[cut:])]
    assert np.concatenate(found).tolist() == slots.tolist()
    assert whole.tolist() == parts.tolist() == np.bincount(slots, minlength=3).tolist()


@given(keys=st.lists(st.text("abc", max_size=2)), here=st.lists(st.integers(0, 2), min_size=2))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_fields_groupings_bring_a_key_together(keys: list[str], here: list[int]) -> None:
    """All tuples of a key go to one slot, whoever sends them and whatever the load."""
    for grouping in (FieldsByHash(4, 3), FieldsByTable(TABLE, "at")):
        found = {tuple(grouping.route(hashes(*keys), slot, load()).tolist()) for slot in here}
        assert len(found) == 1


def test_the_table_decides_where_a_pinned_key_goes() -> None:
    """A pinned key goes to its group's slot, every other one to the slot of its bucket."""
    assert FieldsByTable(TABLE, "at").route(hashes("hot"), 1, load()).tolist() == [2]
    plain = RoutingTable.hashed({"at": (TEXT, 12)}, 3)
    keys = hashes(*map(str, range(50)))
    by_table = FieldsByTable(plain, "at").route(keys, 0, load())
    assert by_table.tolist() == FieldsByHash(12, 3).route(keys, 0, load()).tolist()


def test_shuffle_is_even_across_batches() -> None:
    """However the batches are cut, no slot gets two tuples more than another."""
    have = load()
    for size in (1, 4, 2, 5):
        Shuffle(3).route(hashes(*"a" * size), 0, have)
        assert have.max() - have.min() <= 1


def test_local_or_shuffle_stays_at_home() -> None:
    """A sender with the operator in its own slot sends nothing away; another one takes turns."""
    grouping = LocalOrShuffle((0, 2))
    assert grouping.route(hashes(*"abc"), 2, load()).tolist() == [2, 2, 2]
    assert grouping.route(hashes(*"abc"), 1, load()).tolist() == [0, 2, 0]


def test_partial_key_splits_a_hot_key_in_two() -> None:
    """A key has two slots at most, always the same; a hot key's load is halved."""
    grouping, have = PartialKey(4), load(4)
    stream = hashes(*["hot"] * 900, *(str(i % 7) for i in range(100)))
    slots = grouping.route(stream, 0, have)
    used = collections.defaultdict(set)
    for key, slot in zip(stream.tolist(), slots.tolist(), strict=True):
        used[key].add(slot)
    first, second = grouping.choices(stream)
    for key, one, other in zip(stream.tolist(), first.tolist(), second.tolist(), strict=True):
        assert one != other
        assert used[key] <= {one, other}
    assert have.max() <= 500
    assert PartialKey(1).route(stream, 0, load(1)).tolist() == [0] * 1000


def test_partial_key_is_for_what_can_be_merged() -> None:
    """Counts and sums may be split; a top_k or a user's function may not, and the error says so and what to do."""
    assert partial_key("n", {"n": tw.agg.count(), "s": tw.agg.sum("x")}, 3) == PartialKey(3)
    with pytest.raises(BuildError, match=r"'best': partial key grouping .* merged .*; t is top_k"):
        partial_key("best", {"n": tw.agg.count(), "t": tw.agg.top_k(3, by="x")}, 3)
    with pytest.raises(BuildError, match=r"'track': .*runs a function.*\n.*Use fields grouping"):
        partial_key("track", None, 3)
