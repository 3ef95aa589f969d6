"""The cut of the graph of keys: locality on data not seen, balance of each operator, few moves."""

from __future__ import annotations

import dataclasses
import random
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from locality_kit import BUCKETS, count, flights, hashed
from tests.sizes import sized

from thalweg.errors import BuildError, EnvironmentProblem
from thalweg.locality import (
    Assignment,
    KeyCount,
    KeyLoads,
    Statistics,
    balance,
    evaluate,
    partition,
)
from thalweg.locality.key_graph import ALPHA, SEEDS, get_ready, key_graph
from thalweg.locality.triggers import Online

Rows = Sequence[tuple[object, ...]]


def halves(rows: Rows) -> tuple[Rows, Rows]:
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def grouped(groups: int, rows: int, seed: int = 0) -> Rows:
    """Rows of three operators: keys of a group come together; groups and keys are of many sizes."""
    rng = random.Random(seed)
    weights = [1 / (1 + i) ** 0.5 for i in range(groups)]
    chosen = rng.choices(range(groups), weights, k=rows)
    return [(rng.randrange(8) + 8 * g, f"t{g}-{rng.randrange(5)}", (g, None)) for g in chosen]


@pytest.mark.parametrize(("left", "least"), [("flight", 0.85), ("tailnum", 0.55)])
def test_flights_not_seen_stay_on_their_slot(left: str, least: float) -> None:
    """Learnt on the first half of the flights, the second half is local and balanced; with hashing it is not."""
    names = (left, "dest")
    learnt, unseen = (count(half, names) for half in halves(flights(*names)))
    made = partition(learnt, parts=6)
    outcome = evaluate(made, unseen)
    assert outcome.locality >= least
    assert outcome.worst <= 1.15
    assert not made.report.over()
    assert evaluate(hashed(names, 6), unseen).locality == pytest.approx(1 / 6, abs=0.02)


@pytest.mark.parametrize("parts", [1, 2, 6, 12])
def test_every_operator_is_balanced(parts: int) -> None:
    """A chain of three operators is one graph; the bound holds for each of them, not only for their sum."""
    statistics = count(grouped(60, 20_000), ("a", "b", "c"))
    made = partition(statistics, parts=parts, alpha=1.05)
    assert made.report.locality > 0.9
    assert not made.report.over()
    outcome = evaluate(made, statistics)
    assert outcome.imbalance == made.report.imbalance
    assert all(sum(loads) == 20_000 for loads in outcome.loads.values())
    for owners in made.buckets.values():
        assert max(owners.count(part) for part in range(parts)) <= 1.25 * BUCKETS / parts + 1


def test_a_heavy_key_is_reported() -> None:
    """A key with 79 % of the rows cannot be balanced: the report says how bad it must be; the rest is level."""
    rng = random.Random(1)
    rows = [
        ("hot" if rng.random() < 0.79 else f"k{rng.randrange(500)}", i % 90) for i in range(20_000)
    ]
    statistics = count(rows, ("user", "page"))
    made = partition(statistics, parts=4)
    report = made.report
    share = sum(row[0] == "hot" for row in rows) / len(rows)
    assert [(one.operator, one.key) for one in report.heavy] == [("user", "hot")]
    assert report.heavy[0].share == pytest.approx(share)
    assert report.over() == ("user",)
    assert report.imbalance["user"] == pytest.approx(4 * share, abs=1e-3)
    assert report.imbalance["page"] <= ALPHA
    *others, fullest = sorted(evaluate(made, statistics).loads["user"])
    assert fullest == round(share * len(rows))
    assert max(others) <= ALPHA * sum(others) / 3


def test_a_lone_operator_is_balanced_by_its_heavy_keys() -> None:
    """Without pairs there is no locality to gain, but heavy keys are spread and light ones stay in their buckets."""
    keys = tuple(KeyCount(f"heavy{i}", 0, 300) for i in range(8))
    light = tuple(KeyCount(f"light{i}", i, 1) for i in range(16))
    loads = KeyLoads("count", 8 * 300 + 16 + 160, (*keys, *light), (10,) * 16)
    made = partition(Statistics(("count",), {"count": loads}, ()), parts=4)
    assert not made.report.over()
    assert {key for _, key in made.keys} <= {one.key for one in keys}


def test_the_result_depends_on_content_only() -> None:
    """The order in which keys and pairs are listed does not matter, and a seed gives one result."""
    given = count(grouped(40, 5_000), ("a", "b", "c"))
    rng = random.Random(3)
    loads = {
        name: dataclasses.replace(one, keys=tuple(rng.sample(one.keys, len(one.keys))))
        for name, one in given.loads.items()
    }
    shuffled = Statistics(given.operators, loads, tuple(rng.sample(given.pairs, len(given.pairs))))
    first, second = partition(given, parts=5), partition(shuffled, parts=5)
    assert first == second
    assert partition(given, parts=5, seed=9) != first


def test_nothing_moves_without_gain() -> None:
    """Cut again from the same statistics, everything stays where it is."""
    statistics = count(grouped(60, 20_000), ("a", "b", "c"))
    first = partition(statistics, parts=6, alpha=1.05)
    again = partition(statistics, parts=6, alpha=1.05, current=first, seed=5)
    assert again.report.moved == again.report.dropped == 0
    assert again.buckets == first.buckets


def moves(learnt: Statistics, later: Statistics, move_cost: float) -> Assignment:
    first = partition(learnt, parts=6)
    return partition(later, parts=6, current=first, move_cost=move_cost)


def test_dear_moves_are_few() -> None:
    """The dearer a move, the fewer keys move; locality is what is given up for that, balance never."""
    names = ("tailnum", "dest")
    learnt, later = (count(half, names) for half in halves(flights(*names)))
    cheap, dear = moves(learnt, later, 0.0), moves(learnt, later, 20.0)
    assert dear.report.moved < cheap.report.moved / 4
    assert cheap.report.locality >= dear.report.locality
    assert not dear.report.over()
    assert not cheap.report.over()


def test_fewer_parts_than_before() -> None:
    """After a rescale no key is left on a slot that is no more."""
    statistics = count(grouped(60, 10_000), ("a", "b", "c"))
    before = partition(statistics, parts=6)
    made = partition(statistics, parts=4, alpha=1.05, current=before)
    assert {*made.keys.values(), *(part for one in made.buckets.values() for part in one)} <= {
        0,
        1,
        2,
        3,
    }
    assert not made.report.over()


def test_keys_that_go_by_their_bucket_are_not_pinned() -> None:
    """A key whose bucket lies in its part needs no pin, and gets none unless it had one."""
    statistics = count(grouped(60, 5_000), ("a", "b", "c"))
    made = partition(statistics, parts=6)
    for name, loads in statistics.loads.items():
        for one in loads.keys:
            if (name, one.key) in made.keys:
                assert made.keys[name, one.key] != made.buckets[name][one.bucket]


def test_uncertain_tuples_are_no_edges() -> None:
    """Only what is sure of a sketch's counts becomes an edge or a vertex."""
    loads = {
        "a": KeyLoads("a", 10, (KeyCount(1, 0, 9, 9), KeyCount(2, 1, 1)), (8, 1)),
        "b": KeyLoads("b", 10, (KeyCount("x", 0, 10),), (0, 0)),
    }
    from thalweg.locality import PairCount

    pairs = (PairCount(("a", 1), ("b", "x"), 9, 9), PairCount(("a", 2), ("b", "x"), 1))
    graph = key_graph(Statistics(("a", "b"), loads, pairs), parts=2)
    assert [one.key.key for one in graph.vertices if one.key is not None] == [2, "x"]
    assert graph.edges.tolist() == [1, 1]
    assert graph.weights[:, 0].tolist() == [1, 8, 1, 10, 0, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"parts": 0}, "expected parts ≥ 1, got 0"),
        ({"parts": 2, "alpha": 0.9}, "expected alpha ≥ 1 and finite, got 0.9"),
        ({"parts": 2, "alpha": float("inf")}, "expected alpha ≥ 1 and finite, got inf"),
        ({"parts": 2, "move_cost": -1.0}, "expected move_cost ≥ 0 and finite, got -1.0"),
        ({"parts": 2, "seed": -1}, "expected seed from 0 to 2147482648, got -1"),
        ({"parts": 2, "max_pins": -1}, "expected max_pins ≥ 0, got -1"),
    ],
)
def test_arguments_are_checked(wrong: dict[str, float], message: str) -> None:
    """What cannot be is refused, with what came."""
    with pytest.raises(BuildError, match=message):
        partition(count([(1, 2)], ("a", "b")), **wrong)  # type: ignore[arg-type]


def test_after_getting_ready_nothing_is_left_to_compile() -> None:
    """A table that is made later, also one that starts from where keys are, calls what was compiled before."""
    compiled = (balance._losses, balance._unload, balance._climb)
    get_ready()
    before = [list(one.signatures) for one in compiled]
    assert all(before)
    statistics = count([(n % 50, n % 7) for n in range(1_000)], ("a", "b"))
    partition(statistics, parts=3, current=hashed(("a", "b"), 3), move_cost=2.0)
    assert [list(one.signatures) for one in compiled] == before


def test_without_metis_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tables are to be made with is missed at the start, not when rows have come."""
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(EnvironmentProblem, match="pip install pymetis"):
        Online().get_ready()
    Online(partition=lambda statistics, parts, now: now).get_ready()


def test_the_greatest_seed_is_one() -> None:
    """METIS takes it, with all that is added."""
    statistics = count([(n % 5, n % 3) for n in range(100)], ("a", "b"))
    assert partition(statistics, parts=2, seed=SEEDS).keys


def test_another_flows_assignment_is_refused() -> None:
    """An assignment of other operators or bucket counts cannot be the current one."""
    statistics = count([(1, 2)], ("a", "b"))
    with pytest.raises(BuildError, match="does not know the operator 'b'"):
        partition(statistics, parts=2, current=hashed(("a",), 2))
    few = dataclasses.replace(hashed(("a", "b"), 2), buckets={"a": (0, 1), "b": (0, 1)})
    with pytest.raises(BuildError, match=r"has 2 buckets for operator 'a', the statistics 128"):
        partition(statistics, parts=2, current=few)


def test_keys_that_did_not_come_keep_their_pins() -> None:
    """A pin outlives a period without its key, as long as there is room: dropping it would move state for nothing."""
    names = ("tailnum", "dest")
    learnt, later = (count(half, names) for half in halves(flights(*names)[:4_000]))
    first = partition(learnt, parts=6)
    came = {(name, one.key) for name, loads in later.loads.items() for one in loads.keys}
    absent = {end: part for end, part in first.keys.items() if end not in came}
    assert len(absent) > 100
    kept = partition(later, parts=6, current=first)
    assert absent.items() <= kept.keys.items()
    assert kept.report.dropped == 0
    needed = sum(end in came for end in kept.keys)
    fewer = partition(later, parts=6, current=first, max_pins=needed + 100)
    assert len(fewer.keys) == needed + 100
    assert fewer.report.dropped == len(absent) - 100
    assert {end for end in fewer.keys if end in came} == {end for end in kept.keys if end in came}


def test_the_most_frequent_keys_are_pinned_first() -> None:
    """Where pins are few, those with the most tuples get them, and the report tells what that gives."""
    names = ("flight", "dest")
    statistics = count(flights(*names), names)
    every, few = partition(statistics, parts=6), partition(statistics, parts=6, max_pins=50)
    counts = {
        (name, one.key): one.count for name, loads in statistics.loads.items() for one in loads.keys
    }
    assert len(few.keys) == 50
    least = min(counts[end] for end in few.keys)
    assert all(counts[end] <= least for end in every.keys.keys() - few.keys.keys())
    assert few.report.locality == evaluate(few, statistics).locality < every.report.locality


ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 4)), max_size=150)


@settings(max_examples=sized(60), deadline=None)
@given(ROWS, ROWS, st.integers(1, 6), st.sampled_from([1.0, 1.03, 1.2]), st.booleans())
def test_no_part_can_give_its_lightest_key_away(
    rows: Rows, later: Rows, parts: int, alpha: float, again: bool
) -> None:
    """A part above the bound has nothing so light that the emptiest part could take it and still be below it."""
    names = ("a", "b", "c")
    made = partition(count(rows, names), parts=parts, alpha=alpha)
    statistics = count(later, names) if again else count(rows, names)
    if again:
        made = partition(statistics, parts=parts, alpha=alpha, current=made)
    outcome = evaluate(made, statistics)
    assert outcome.imbalance == made.report.imbalance
    for name, loads in outcome.loads.items():
        assert sum(loads) == statistics.loads[name].total
        weights: list[list[int]] = [[] for _ in range(parts)]
        for one in statistics.loads[name].keys:
            weights[made.part_of(name, one.key, one.bucket)].append(one.count)
        for load, here in zip(loads, weights, strict=True):
            if len(here) > 1 and load > max(alpha * sum(loads) / parts, -(-sum(loads) // parts)):
                assert load <= min(loads) + min(here)
