"""SpaceSaving: what it guarantees of counts, errors and memory, also of merged sketches."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import BuildError
from thalweg.hashing import hash_words
from thalweg.locality import Counts, SpaceSaving

Item = tuple[int, int]

#: A stream of few different items, so that some are frequent, in batches.
STREAMS = st.lists(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=30), max_size=8
)
CAPACITIES = st.integers(1, 20)


def offer(sketch: SpaceSaving, rows: Sequence[Item], weights: Sequence[int] | None = None) -> None:
    columns = np.array(rows, np.uint64).reshape(-1, 2).T.copy()
    sketch.offer(*columns, weights=None if weights is None else np.array(weights, np.int64))


def sketch_of(batches: Iterable[Sequence[Item]], capacity: int) -> SpaceSaving:
    sketch = SpaceSaving(capacity)
    for rows in batches:
        offer(sketch, rows)
    return sketch


def listed(counts: Counts) -> dict[Item, tuple[int, int]]:
    rows = zip(counts.items.tolist(), counts.counts, counts.errors, strict=True)
    return {(a, b): (int(count), int(error)) for (a, b), count, error in rows}


def check(counts: Counts, true: Mapping[Item, int], bound: float) -> None:
    """Every guarantee of a sketch whose errors are at most ``bound``."""
    found = listed(counts)
    assert len(found) == len(counts)
    assert counts.total == sum(true.values())
    for item, (count, error) in found.items():
        assert count - error <= true.get(item, 0) <= count
        assert 0 <= error <= bound
    assert counts.floor <= bound
    assert all(times <= counts.floor for item, times in true.items() if item not in found)


@settings(deadline=None)  # the first call compiles
@given(STREAMS, CAPACITIES)
def test_counts_are_between_their_bounds(batches: list[list[Item]], capacity: int) -> None:
    """true ≤ count ≤ true + error, error ≤ N / m, and what is not counted came at most ``floor`` ≤ N / m times."""
    sketch = sketch_of(batches, capacity)
    true = collections.Counter(row for rows in batches for row in rows)
    counts = sketch.counts()
    check(counts, true, sketch.total / capacity)
    assert counts.counts.sum() == sketch.total
    assert len(counts) == min(capacity, len(true)) or len(true) > capacity


@settings(deadline=None)  # the first call compiles
@given(STREAMS, CAPACITIES)
def test_weights_are_repetitions(batches: list[list[Item]], capacity: int) -> None:
    """An item of weight w counts as w of them in a row."""
    rows = [row for batch in batches for row in batch]
    weights = [1 + row[0] % 3 for row in rows]
    weighted, repeated = SpaceSaving(capacity), SpaceSaving(capacity)
    offer(weighted, rows, weights)
    offer(repeated, [row for row, times in zip(rows, weights, strict=True) for _ in range(times)])
    assert listed(weighted.counts()) == listed(repeated.counts())
    assert weighted.floor == repeated.floor


@settings(deadline=None)
@given(STREAMS, STREAMS, CAPACITIES, CAPACITIES)
def test_merged_sketches_keep_the_guarantees(
    left: list[list[Item]], right: list[list[Item]], m1: int, m2: int
) -> None:
    """Errors add up, and of sketches of m counters the m most frequent are again a sketch of m counters."""
    one, two = sketch_of(left, m1), sketch_of(right, m2)
    true = collections.Counter(row for rows in left + right for row in rows)
    merged = Counts.merged([one.counts(), two.counts()])
    check(merged, true, one.total / m1 + two.total / m2)
    check(Counts.merged([two.counts(), one.counts()]), true, one.total / m1 + two.total / m2)
    m = min(m1, m2)
    top = merged.top(m)
    assert len(top) <= m
    check(top, true, merged.total / m)


@settings(deadline=None)
@given(st.lists(st.tuples(STREAMS, CAPACITIES), min_size=1, max_size=5), st.integers(1, 60))
def test_any_number_of_sketches_is_merged(
    given_parts: list[tuple[list[list[Item]], int]], size: int
) -> None:
    """The guarantees hold of all at once, and ``top`` takes the same items as sorting them all."""
    parts = [(sketch_of(stream, capacity), capacity) for stream, capacity in given_parts]
    true = collections.Counter(row for stream, _ in given_parts for rows in stream for row in rows)
    merged = Counts.merged([one.counts() for one, _ in parts])
    check(merged, true, sum(one.total / capacity for one, capacity in parts))
    ranked = sorted(listed(merged).items(), key=lambda one: (-one[1][0], one[0]))
    top = merged.top(size)
    assert list(listed(top).items()) == ranked[:size]
    assert top.floor == max([merged.floor, *(count for _, (count, _) in ranked[size:])])


def test_items_that_are_mixed_alike_are_kept_apart() -> None:
    """Merging sorts items by one number made of both hashes; two items with the same one are still two."""
    mix = 0x9E3779B97F4A7C15
    one = (5, 7)
    other = ((5 ^ (7 * mix) ^ (9 * mix)) % 2**64, 9)
    parts = []
    for rows in ([one, other, one], [other, one], [one, other]):
        parts.append(sketch_of([rows], 4).counts())
    assert listed(Counts.merged(parts)) == {one: (4, 0), other: (3, 0)}


def test_a_frequent_pair_is_always_listed() -> None:
    """What came more than N / m times is there, however many others came."""
    rng = np.random.default_rng(0)
    hot = np.where(rng.random(50_000) < 0.01, 7, rng.integers(100, 10**9, 50_000))
    hashes = hash_words(hot.reshape(-1, 1))
    sketch = SpaceSaving(200)
    sketch.offer(hashes, hashes)
    counts, true = sketch.counts(), int((hot == 7).sum())
    key = int(hash_words(np.array([[7]], np.int64))[0])
    count, error = listed(counts)[key, key]
    assert count - error <= true <= count
    assert sketch.floor <= 50_000 / 200 < true


def test_ten_thousand_pairs_fit_half_a_megabyte() -> None:
    """The memory is fixed when the sketch is made."""
    sketch = SpaceSaving(10_000)
    before = sketch.nbytes
    assert before <= 500_000
    hashes = hash_words(np.arange(60_000, dtype=np.int64).reshape(-1, 1))
    sketch.offer(hashes, hashes[::-1].copy())
    assert sketch.nbytes == before


def test_items_ask_for_names_until_they_have_one() -> None:
    """An item asks in each batch that it comes in, with its last row there, until it is named or gone."""
    sketch = SpaceSaving(2)
    offer(sketch, [(1, 1), (2, 2), (1, 1)])
    counters, rows = sketch.unnamed()
    assert sketch.items()[counters].tolist() == [[1, 1], [2, 2]]
    assert rows.tolist() == [2, 1]
    sketch.name(counters[:1])
    offer(sketch, [(1, 1)])
    assert sketch.unnamed()[0].tolist() == []
    offer(sketch, [(2, 2), (3, 3)])
    counters, rows = sketch.unnamed()
    # (1, 1) has 3, (2, 2) had 2 and made room for (3, 3).
    assert sketch.items()[counters].tolist() == [[3, 3]]
    assert rows.tolist() == [1]
    sketch.forget(np.array([0]))
    offer(sketch, [(1, 1)])
    assert sketch.unnamed()[0].tolist() == [0]


def test_reset_forgets_everything() -> None:
    """After a reset a sketch is as new."""
    sketch = sketch_of([[(i, 0) for i in range(50)]], 10)
    sketch.reset()
    assert (sketch.total, sketch.floor, len(sketch.counts())) == (0, 0, 0)
    offer(sketch, [(4, 4), (4, 4)])
    assert listed(sketch.counts()) == {(4, 4): (2, 0)}


@settings(deadline=None)  # the first call compiles
@given(STREAMS, CAPACITIES)
def test_counts_travel_as_arrow(batches: list[list[Item]], capacity: int) -> None:
    """What is sent is what comes back."""
    counts = sketch_of(batches, capacity).counts()
    back = Counts.from_batch(counts.to_batch())
    assert listed(back) == listed(counts)
    assert (back.floor, back.total) == (counts.floor, counts.total)


def test_wrong_arguments_are_refused() -> None:
    """No counters, arrays of several lengths, and weights below one."""
    with pytest.raises(BuildError, match="at least one counter, got 0"):
        SpaceSaving(0)
    hashes = np.zeros(3, np.uint64)
    with pytest.raises(ValueError, match="3 first hashes, 2 second ones"):
        SpaceSaving(4).offer(hashes, hashes[:2])
    with pytest.raises(ValueError, match="expected 3 weights of 1 or more"):
        SpaceSaving(4).offer(hashes, weights=np.array([1, 0, 1]))
