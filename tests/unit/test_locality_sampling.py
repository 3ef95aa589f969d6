"""Samples of flows: which operators are linked, and which keys come together, as a serial run meets them."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.errors import BuildError
from thalweg.locality.links import links_of
from thalweg.locality.statistics import Statistics
from thalweg.plan.plan import make_plan
from thalweg.testing.sampling import sample


class Visit(NamedTuple):
    ts: tw.Timestamp
    user: str
    page: int | None


class Open(NamedTuple):
    user: str
    pages: int


@tw.state
class Count:
    rows: int = 0


@tw.state
class Session:
    timer: tw.Timer
    pages: int = 0


def passing(state: Count, visit: Visit) -> Visit:
    state.rows += 1
    return visit


def twice(visit: Visit) -> Iterable[Visit]:
    yield visit
    yield visit._replace(page=7)


def track(state: Session, visit: Visit) -> None:
    state.pages += 1
    state.timer = visit.ts + 10


def close(state: Session, user: str, time: int) -> Open:
    return Open(user, state.pages)


def total(state: Count, row: Open) -> Open:
    state.rows += 1
    return row


def chain() -> tw.Flow:
    """user, then by a stateless operator twice as many tuples, then page, then both."""
    flow = tw.Flow("chain")
    visits = flow.source("visits", Visit, order_by="ts")
    first = visits.key_by("user").process(passing, state=Count, name="by_user")
    second = first.flat_map(twice).key_by("page").process(passing, state=Count, name="by_page")
    second.key_by("user", "page").process(passing, state=Count, name="by_both").sink("out")
    return flow


VISITS = [Visit(1, "a", 1), Visit(2, "b", None), Visit(3, "a", 1)]


def pairs(statistics: Statistics) -> dict[tuple[Any, Any], int]:
    return {(pair.left, pair.right): pair.count for pair in statistics.pairs}


def test_pairs_of_a_chain() -> None:
    """Each operator is linked to the next; a pair counts once for each tuple that a stateless operator gave."""
    assert links_of(make_plan(chain())) == (("by_user", "by_page"), ("by_page", "by_both"))
    taken = sample(chain(), {"visits": VISITS})
    assert pairs(taken.statistics()) == {
        (("by_user", "a"), ("by_page", 1)): 2,
        (("by_user", "a"), ("by_page", 7)): 2,
        (("by_user", "b"), ("by_page", None)): 1,
        (("by_user", "b"), ("by_page", 7)): 1,
        (("by_page", 1), ("by_both", ("a", 1))): 2,
        (("by_page", 7), ("by_both", ("a", 7))): 2,
        (("by_page", None), ("by_both", ("b", None))): 1,
        (("by_page", 7), ("by_both", ("b", 7))): 1,
    }
    loads = taken.statistics().loads
    assert {one.key: one.count for one in loads["by_user"].keys} == {"a": 2, "b": 1}
    assert {one.key: one.count for one in loads["by_page"].keys} == {1: 2, 7: 3, None: 1}


def test_a_part_of_a_sample() -> None:
    """The parts of a sample are counted apart and add up to all of it."""
    taken = sample(chain(), {"visits": VISITS * 10})
    parts = [pairs(taken.statistics(i / 4, (i + 1) / 4)) for i in range(4)]
    every = collections.Counter[Any]()
    for part in parts:
        every.update(part)
    assert every == pairs(taken.statistics())
    assert all(parts)


def test_a_timers_tuples_come_from_its_key() -> None:
    """What a timer gives has been with the timer's key, not with that of the tuple that came meanwhile."""
    flow = tw.Flow("sessions")
    visits = flow.source("visits", Visit, order_by="ts")
    closed = visits.key_by("user").process(track, state=Session, on_timer=close)
    closed.key_by("pages").process(total, state=Count).sink("out")
    late = [*VISITS, Visit(100, "c", 1)]
    found = pairs(sample(flow, {"visits": late}).statistics())
    assert found == {
        (("track", "a"), ("total", 2)): 1,
        (("track", "b"), ("total", 1)): 1,
        (("track", "c"), ("total", 1)): 1,
    }


def test_one_slot_breaks_the_link() -> None:
    """Behind a stateful operator or an order_by no tuple can be local, so nothing is linked or counted there."""
    flow = tw.Flow("broken")
    first = flow.source("visits", Visit).key_by("user").process(passing, state=Count, name="first")
    one = first.process(passing, state=Count, name="one")
    one.key_by("page").process(passing, state=Count, name="second").sink("second")
    first.order_by("ts").key_by("page").process(passing, state=Count, name="third").sink("third")
    assert links_of(make_plan(flow)) == ()
    statistics = sample(flow, {"visits": VISITS}).statistics()
    assert statistics.pairs == ()
    assert {name: loads.total for name, loads in statistics.loads.items()} == {
        "first": 3,
        "second": 3,
        "third": 3,
    }


def test_a_union_links_all_that_it_joins() -> None:
    """Successor keys of several operators, and successors of one, are in one graph."""
    flow = tw.Flow("joined")
    visits = flow.source("visits", Visit)
    users = visits.key_by("user").process(passing, state=Count, name="users")
    pages = visits.key_by("page").process(passing, state=Count, name="pages")
    both = users.union(pages)
    both.key_by("user").process(passing, state=Count, name="again").sink("again")
    users.key_by("page").process(passing, state=Count, name="next").sink("next")
    assert set(links_of(make_plan(flow))) == {
        ("users", "again"),
        ("pages", "again"),
        ("users", "next"),
    }
    found = pairs(sample(flow, {"visits": VISITS[:1]}).statistics())
    assert found == {
        (("users", "a"), ("again", "a")): 1,
        (("pages", 1), ("again", "a")): 1,
        (("users", "a"), ("next", 1)): 1,
    }


class Tagged(NamedTuple):
    tags: list[str]


def count_tags(state: Count, row: Tagged) -> None:
    state.rows += 1


def test_keys_without_a_stable_hash_are_refused() -> None:
    """A list cannot be a key, which is said when the flow is built."""
    with pytest.raises(BuildError, match=r"Tagged\.tags is list\[str\]; a key is a plain value"):
        tw.Flow("tags").source("rows", Tagged).key_by("tags").process(count_tags, state=Count)


class Timed(NamedTuple):
    at: int
    tag: str


def pass_on(count: Count, row: Timed) -> Timed:
    count.rows += 1
    return row


def test_time_of_each_key() -> None:
    """Where rows are put in order by key first, they are brought once: they count once, and there is no link."""
    flow = tw.Flow("own")
    rows = flow.source("rows", Timed, order_by="at", order="key")
    rows.key_by("tag").process(pass_on, state=Count, name="last").sink("out")
    counted = sample(flow, {"rows": [Timed(i, f"t{i % 3}") for i in range(9)]}).statistics()
    (loads,) = counted.loads.values()
    assert loads.total == 9
    assert {one.key: one.count for one in loads.keys} == {"t0": 3, "t1": 3, "t2": 3}
    assert counted.pairs == ()
