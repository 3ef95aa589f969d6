"""What slots count of their keys: as good as exact counts, in bounded memory, merged and sent."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from locality_kit import BUCKETS, count, flights

from thalweg.errors import BuildError
from thalweg.hashing import bucket_of, hash_texts
from thalweg.locality import KeySketch, KeySummary, Statistics, evaluate, partition

Rows = Sequence[tuple[str, ...]]
LINK = ("left", "right")


def feed(sketch: KeySketch, rows: Rows, batch: int = 4_000) -> None:
    """Counts rows as a slot does that owns both keys of each."""
    for start in range(0, len(rows), batch):
        columns = [pa.array(column) for column in zip(*rows[start : start + batch], strict=True)]
        hashes = [hash_texts(column) for column in columns]
        names = [lambda rows, column=column: column.take(pa.array(rows)) for column in columns]
        for name, hashed, named in zip(LINK, hashes, names, strict=True):
            sketch.take(name, hashed, named)
        sketch.pair(LINK, *hashes, *names)


def decode(_: str, names: pa.BinaryArray) -> list[str]:
    return [name.decode() for name in names.to_pylist()]


def by_slots(rows: Rows, slots: int, **sizes: int) -> list[KeySketch]:
    """Sketches of several slots, each with the rows of its left keys."""
    out = [KeySketch(dict.fromkeys(LINK, BUCKETS), [LINK], **sizes) for _ in range(slots)]
    owners = bucket_of(hash_texts(pa.array([row[0] for row in rows])), slots)
    for slot, sketch in enumerate(out):
        feed(sketch, [row for row, owner in zip(rows, owners, strict=True) if owner == slot])
    return out


def learnt(sketches: Sequence[KeySketch]) -> Statistics:
    """What the driver makes of them, after they were sent."""
    sent = [one.summary().to_bytes() for one in sketches]
    return KeySummary.merged([KeySummary.from_bytes(data) for data in sent]).statistics(decode)


@pytest.mark.parametrize("column", ["flight", "tailnum"])
def test_ten_thousand_pairs_are_as_good_as_exact(column: str) -> None:
    """Sketches of six slots give 95 % and more of the held-out locality that exact counts give, below 1 MB a slot."""
    rows = flights(column, "dest")
    first, second = rows[: len(rows) // 2], count(rows[len(rows) // 2 :], LINK)
    sketches = by_slots(first, 6, pairs=10_000)
    assert max(sketch.nbytes for sketch in sketches) <= 1_000_000
    exact = evaluate(partition(count(first, LINK), parts=6), second)
    found = evaluate(partition(learnt(sketches), parts=6), second)
    assert found.locality >= 0.95 * exact.locality
    assert found.worst <= 1.15


def test_with_room_for_all_nothing_is_lost() -> None:
    """Where every pair has a counter, the statistics are the exact ones."""
    rows = flights("flight", "dest")[:5_000]
    found = learnt(by_slots(rows, 3, pairs=3_000, keys=3_000))
    exact = count(rows, LINK)
    assert {(p.left, p.right, p.count, p.error) for p in found.pairs} == {
        (p.left, p.right, p.count, p.error) for p in exact.pairs
    }
    for name in LINK:
        assert set(found.loads[name].keys) == set(exact.loads[name].keys)
        assert found.loads[name].unpinned == exact.loads[name].unpinned


def test_every_tuple_is_counted_somewhere() -> None:
    """What is sure of the keys and what is left to the buckets make the operator's tuples."""
    rows = flights("tailnum", "dest")
    found = learnt(by_slots(rows, 2, pairs=500, keys=100))
    for loads in found.loads.values():
        assert loads.total == len(rows)
        assert sum(one.sure for one in loads.keys) + sum(loads.unpinned) == len(rows)


def test_what_is_sure_is_true() -> None:
    """No key and no pair is given more sure tuples than it had, however few counters there are."""
    rows = flights("tailnum", "dest")
    found = learnt(by_slots(rows, 2, pairs=400, keys=100))
    pairs = collections.Counter(rows)
    for pair in found.pairs:
        true = pairs[pair.left[1], pair.right[1]]
        assert 0 < pair.sure <= true <= pair.count
    for place, name in enumerate(LINK):
        keys = collections.Counter(row[place] for row in rows)
        for one in found.loads[name].keys:
            assert one.sure <= keys[one.key] <= one.count


def test_the_top_keeps_the_names_that_its_pairs_need() -> None:
    """A key that is not among the most frequent ones is known all the same where a pair that is kept has it."""
    rows = [("a", "x")] * 5 + [("b", "y")] * 4 + [("c", "z")] * 3 + [("d", "w")]
    sketch = KeySketch(dict.fromkeys(LINK, 16), [LINK], pairs=10, keys=10)
    feed(sketch, rows)
    top = sketch.summary().top(pairs=3, keys=2)
    assert [len(one.counts) for one in top.keys.values()] == [1, 1]
    found = {(one.left[1], one.right[1], one.count) for one in top.statistics(decode).pairs}
    assert found == {("a", "x", 5), ("b", "y", 4), ("c", "z", 3)}
    assert all(len(hashes) == 3 for hashes, _ in top.names.values())


def test_long_names_do_not_break_the_bound() -> None:
    """Where names are long, the rarest keys lose theirs; the frequent ones keep them, and memory its bound."""
    rng = np.random.default_rng(4)
    rows = [(f"{key:04}" + "x" * 400, f"page{key % 50}") for key in rng.zipf(1.3, 60_000) % 5_000]
    sketch = KeySketch(dict.fromkeys(LINK, 16), [LINK], pairs=4_000, keys=500, memory_bytes=700_000)
    for start in range(0, len(rows), 1_000):
        feed(sketch, rows[start : start + 1_000])
        assert sketch.nbytes <= 700_000
    found = sketch.summary().statistics(decode)
    named = {pair.left[1] for pair in found.pairs}
    frequent = [key for (key, _), _ in collections.Counter(rows).most_common(200)]
    assert named.issuperset(frequent)
    assert len(named) < len(set(rows))


def test_names_can_be_short_before_all_operators_were_reached() -> None:
    """Where only one operator took tuples, names of the others, of which there are none, are no obstacle."""
    sketch = KeySketch(dict.fromkeys(LINK, 16), [LINK], pairs=10, keys=400, memory_bytes=60_000)
    texts = pa.array([f"{key:04}" + "x" * 400 for key in range(200)])
    sketch.take("left", hash_texts(texts), lambda rows: texts.take(pa.array(rows)))
    assert sketch.nbytes <= 60_000
    found = sketch.summary().statistics(decode)
    assert 0 < len(found.loads["left"].keys) < 200
    assert found.loads["left"].total == 200


def test_empty_batches_count_nothing() -> None:
    """A step without rows is no step."""
    sketch = KeySketch(dict.fromkeys(LINK, 16), [LINK], pairs=10, keys=10)
    none = hash_texts(pa.array([], pa.string()))
    sketch.take("left", none, lambda rows: pa.array([], pa.string()))
    sketch.pair(LINK, none, none, lambda rows: pa.array([]), lambda rows: pa.array([]))
    found = KeySummary.from_bytes(sketch.summary().to_bytes()).statistics(decode)
    assert found.pairs == ()
    assert [loads.total for loads in found.loads.values()] == [0, 0]


def test_a_reset_sketch_counts_anew() -> None:
    """Old tuples do not count after a reset; new ones do, with their names."""
    sketch = KeySketch(dict.fromkeys(LINK, 8), [LINK], pairs=10, keys=10)
    feed(sketch, [("a", "x")] * 5)
    sketch.reset()
    feed(sketch, [("b", "y"), ("b", "y"), ("a", "y")])
    found = sketch.summary().statistics(decode)
    assert {(p.left[1], p.right[1], p.count) for p in found.pairs} == {("b", "y", 2), ("a", "y", 1)}
    assert {one.key: one.count for one in found.loads["right"].keys} == {"y": 3}


def test_a_flow_with_several_links_shares_the_counters() -> None:
    """Each link and operator gets its share, so that the memory does not grow with the flow."""
    names = ("a", "b", "c", "d")
    links = [("a", "b"), ("b", "c"), ("b", "d")]
    sketch = KeySketch(dict.fromkeys(names, 128), links)
    assert sketch.nbytes <= 700_000
    hashes = hash_texts(pa.array(["k1", "k2"]))
    for link in links:
        sketch.pair(
            link, hashes, hashes, lambda _: pa.array(["k1", "k2"]), lambda _: pa.array(["k1", "k2"])
        )
    # No tuple was taken, as where timers fire; the pairs count all the same.
    assert len(sketch.summary().statistics(decode).pairs) == 6


def test_tuples_that_make_several_pairs_weigh_once() -> None:
    """A tuple that led to three others makes three pairs, but is one tuple of its own operator."""
    sketch = KeySketch(dict.fromkeys(LINK, 4), [LINK], pairs=100, keys=1)
    left = hash_texts(pa.array(["a"] * 4))
    sketch.take("left", left, lambda rows: pa.array(["a"] * len(rows)))
    every = hash_texts(pa.array(["a"] * 12))
    right = hash_texts(pa.array(["x", "y", "z"] * 4))
    names = pa.array(["x", "y", "z"] * 4)
    sketch.take("right", right, lambda rows: names.take(pa.array(rows)))
    sketch.pair(
        LINK,
        every,
        right,
        lambda rows: pa.array(["a"] * len(rows)),
        lambda rows: names.take(pa.array(rows)),
    )
    loads = sketch.summary().statistics(decode).loads
    assert [(one.key, one.sure) for one in loads["left"].keys] == [("a", 4)]
    assert {one.key: one.sure for one in loads["right"].keys} == {"x": 4, "y": 4, "z": 4}


def test_wrong_arguments_are_refused() -> None:
    """Too little memory, unknown operators, and counts of other flows."""
    with pytest.raises(
        BuildError, match=r"10,000 pairs and 2,000 keys take \d+ bytes, but memory_bytes is 1000"
    ):
        KeySketch(dict.fromkeys(LINK, 8), [LINK], memory_bytes=1_000)
    with pytest.raises(BuildError, match="the keyed operators are left, right"):
        KeySketch(dict.fromkeys(LINK, 8), [("left", "other")])
    one, other = (KeySketch(dict.fromkeys(LINK, n), [LINK]).summary() for n in (8, 16))
    with pytest.raises(BuildError, match="cannot be merged"):
        KeySummary.merged([one, other])
