"""Counts of the last rounds: what is remembered, how long, and that nobody need look."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from thalweg.hashing import hash_texts
from thalweg.locality import KeySketch, KeySummary
from thalweg.locality.counting.recent import RecentCounts, joined
from thalweg.locality.counting.sketch import KEYS

KEY = "user"


def counted(keys: list[str]) -> KeySummary:
    """A slot's counts of a round."""
    sketch = KeySketch({KEY: 8}, [])
    names = pa.array(keys, pa.string())
    sketch.take(KEY, hash_texts(names), lambda rows: names.take(pa.array(rows)))
    return sketch.summary()


def loads(summary: KeySummary | None) -> dict[str, int]:
    """By key, how often it came."""
    if summary is None:
        return {}
    statistics = summary.statistics(lambda _, names: [name.decode() for name in names.to_pylist()])
    return {one.key: one.sure for one in statistics.loads[KEY].keys}


ROUNDS = st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=12)


@given(ROUNDS, st.integers(1, 4), st.sets(st.integers(0, 11)))
def test_rounds_of_one_or_two_spans_are_remembered(
    rounds: list[list[int]], span: int, looks: set[int]
) -> None:
    """Those of the span that has begun and of the one before it, whoever looked in between."""
    recent = RecentCounts(span)
    for number, slots in enumerate(rounds):
        recent.add([counted([f"r{number}", "all"]) for _ in slots])
        if number in looks:
            recent.summary()
    first = max((len(rounds) - 1) // span - 1, 0) * span
    kept = {number: len(slots) for number, slots in enumerate(rounds) if number >= first and slots}
    expected = {f"r{number}": times for number, times in kept.items()}
    if kept:
        expected["all"] = sum(kept.values())
    assert loads(recent.summary()) == expected
    assert loads(recent.summary()) == expected
    recent.clear()
    assert not recent
    assert recent.summary() is None


def test_a_span_of_few_tuples_goes_on() -> None:
    """A span is over when it has had its rounds and its tuples."""
    recent = RecentCounts(2, least=5)
    found = []
    for number in range(9):
        recent.add([counted([f"r{number}", "all"])])
        found.append(loads(recent.summary())["all"])
    assert found == [1, 2, 3, 4, 5, 6, 4, 5, 6]


def test_what_nobody_looks_at_is_bounded() -> None:
    """Many counts of many keys are joined by themselves, to no more than one sketch has."""
    recent = RecentCounts(1_000)
    for number in range(200):
        recent.add([counted([f"{number}-{key}" for key in range(100)])])
    held = recent._newer
    assert len(held) <= 65
    assert sum(len(one.keys[KEY]) for one in held) <= KEYS + 65 * 100


def test_joined_counts_are_no_longer_than_a_sketch() -> None:
    """The rarest of more keys than a sketch counts are forgotten, and so are their names."""
    often = [f"often-{key}" for key in range(10)]
    parts = [
        counted([*(often * 3), *(f"{number}-{key}" for key in range(KEYS))]) for number in range(3)
    ]
    summary = joined(parts)
    assert len(summary.keys[KEY]) == KEYS
    assert set(often) <= set(loads(summary))
    assert len(summary.names[KEY][0]) <= KEYS
    assert np.all(np.diff(summary.names[KEY][0].astype(object)) > 0)
