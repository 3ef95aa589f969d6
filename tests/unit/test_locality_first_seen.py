"""Keys seen for the first time: beside their partners, under the cap, once and for all."""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from locality_kit import buckets_of, count, hashed, requests

from thalweg.errors import BuildError
from thalweg.locality import FirstSeen, PairCount, evaluate, partition

NAMES = ("client", "path")
Rows = Sequence[tuple[object, object]]


def bucket_of(operator: str, key: object) -> int:
    return buckets_of(operator, [key])[0]


def pairs(rows: Rows) -> list[PairCount]:
    counts = collections.Counter(rows)
    return [PairCount(("client", a), ("path", b), n) for (a, b), n in counts.items()]


@pytest.mark.parametrize("batch", [200, 500, 1_000])
def test_requests_not_seen_stay_on_their_slot(batch: int) -> None:
    """Of the second half of an access log, most clients are new: placed beside their paths they stay local."""
    rows = requests()
    learnt, unseen = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    made = partition(count(learnt, NAMES), parts=6)
    known = frozenset(end for row in learnt for end in zip(NAMES, row, strict=True))
    places = FirstSeen(made, bucket_of, known=known)
    for start in range(0, len(unseen), batch):
        places.place(pairs(unseen[start : start + batch]))
    held_out = count(unseen, NAMES)
    # No key changes its place, so that the last table tells where every tuple went.
    outcome = evaluate(places.assignment(), held_out)
    assert outcome.locality >= 0.65
    assert outcome.worst <= 1.25
    assert evaluate(made, held_out).locality < 0.3
    assert evaluate(hashed(NAMES, 6), held_out).locality == pytest.approx(1 / 6, abs=0.02)


def test_a_place_is_for_good() -> None:
    """What a batch decided holds in all later ones, whatever comes."""
    rng = random.Random(2)
    places = FirstSeen(hashed(NAMES, 4), bucket_of)
    seen: dict[tuple[str, object], int] = {}
    for batch in range(20):
        rows = [(rng.randrange(10 * batch + 10), rng.randrange(50)) for _ in range(40)]
        made = places.place(pairs(rows)).keys
        assert not made.keys() & seen.keys()
        seen.update(made)
        assert all(places.part_of(end) == part for end, part in seen.items())
        assert {end for row in rows for end in zip(NAMES, row, strict=True)} <= seen.keys()
    assert places.assignment().keys == seen


def test_partners_attract_until_the_part_is_full() -> None:
    """New keys go to their partner's part while it is below the cap, then to the emptiest."""
    places = FirstSeen(hashed(NAMES, 2), bucket_of, cap=1.5)
    assert places.place([PairCount(("client", "a"), ("path", "/"), 10)]).beside == 1
    home = places.part_of(("path", "/"))
    rows = [PairCount(("client", f"c{i}"), ("path", "/"), 10) for i in range(3)]
    made = places.place(rows)
    parts = [made.keys["client", f"c{i}"] for i in range(3)]
    assert parts == [home, home, 1 - home]
    assert made.beside == 2


def test_tuples_attract_and_room_does() -> None:
    """A key goes where most of its tuples' partners are, not most of its partners; and of places that are about as good
    to the one with more room."""
    pins = {("path", "often"): 0, ("path", "once"): 1, ("path", "also once"): 1}
    table = dataclasses.replace(hashed(NAMES, 2), keys=pins)
    new = ("client", "new")
    often = [PairCount(new, end, 10 if end[1] == "often" else 1) for end in pins]
    places = FirstSeen(table, bucket_of, cap=2.0)
    assert places.place(often).keys == {new: 0}
    places = FirstSeen(table, bucket_of, cap=2.0, loads={"client": [90, 10], "path": [50, 50]})
    alike = [PairCount(new, ("path", "often"), 10), PairCount(new, ("path", "once"), 8)]
    assert places.place(alike).keys == {new: 1}


def test_known_keys_stay() -> None:
    """Pinned keys, and keys that have state where their bucket is, get no new place."""
    known = frozenset({("client", "old")})
    places = FirstSeen(hashed(NAMES, 3), bucket_of, known=known)
    made = places.place([PairCount(("client", "old"), ("path", "/new"), 5)])
    home = hashed(NAMES, 3).part_of("client", "old", bucket_of("client", "old"))
    assert made.keys == {("path", "/new"): home}
    assert places.part_of(("client", "old")) == home


def test_the_table_is_bounded() -> None:
    """When there are too many, further keys go by their hash, now and later, and are counted."""
    places = FirstSeen(hashed(NAMES, 3), bucket_of, max_keys=3)
    made = places.place([PairCount(("client", i), ("path", -i), 1) for i in range(1, 5)])
    assert (len(made.keys), made.full) == (3, 5)
    left = [("client", i) for i in range(1, 5)] + [("path", -i) for i in range(1, 5)]
    for end in left:
        if end not in made.keys:
            assert places.part_of(end) == hashed(NAMES, 3).part_of(*end, bucket_of(*end))
    assert len(places.assignment().keys) == 3


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=200),
    st.integers(1, 5),
    st.floats(1.0, 2.0),
)
def test_no_part_is_above_the_cap(rows: list[tuple[int, int]], parts: int, cap: float) -> None:
    """A key that fits nowhere goes to the emptiest part, so no part is above the cap by more than such a key."""
    first, second = (FirstSeen(hashed(NAMES, parts), bucket_of, cap=cap) for _ in range(2))
    assert first.place(pairs(rows)) == second.place(pairs(rows))
    mean = len(rows) / parts
    for i, loads in enumerate(evaluate(first.assignment(), count(rows, NAMES)).loads.values()):
        heaviest = max(collections.Counter(row[i] for row in rows).values(), default=0)
        assert sum(loads) == len(rows)
        assert max(loads) <= max(cap * mean, mean + heaviest)


def test_a_cap_below_one_is_refused() -> None:
    """Not even perfect balance would fit under it."""
    with pytest.raises(BuildError, match=r"expected cap ≥ 1, got 0\.9"):
        FirstSeen(hashed(NAMES, 2), bucket_of, cap=0.9)
