"""Plans: readers, stages, time domains, fused chains and the columns of the order key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

import thalweg as tw
from thalweg.flow.operators.nodes import Ref
from thalweg.plan.plan import Edge, Plan, branch, counter, make_plan
from thalweg.plan.units import expands


class Row(NamedTuple):
    t: int
    key: int


@tw.state
class Total:
    n: int = 0


@tw.state
class Timed:
    timer: tw.Timer


def same(row: Row) -> Row:
    return row


def twice(row: Row) -> Iterator[Row]:
    yield row
    yield row


def count(state: Total, row: Row) -> Row:
    return row


def arm(state: Timed, row: Row) -> None:
    state.timer = row.t


def fire(state: Timed, key: int, time: int) -> Iterator[Row]:
    yield Row(time, key)


def by_name(plan: Plan, name: str) -> int:
    return next(node.index for node in plan.nodes if node.name == name)


def test_readers_in_order_of_definition() -> None:
    """Readers stand in the order in which a serial run visits them, a union's ports each on its own."""
    flow = tw.Flow("readers")
    source = flow.source("in", Row)
    source.union(source, name="both").sink("out")
    source.sink("plain")
    plan = make_plan(flow)
    both, plain = by_name(plan, "both"), by_name(plan, "plain")
    assert plan.readers[Ref(1)] == (Edge(both, 0), Edge(both, 1), Edge(plain, 0))


def test_stages_count_reroutings() -> None:
    """Each keyed operator and order_by begins a stage; a union waits for the deeper of its inputs."""
    flow = tw.Flow("stages")
    source = flow.source("in", Row, order_by="t").map(same, name="map")
    one = source.key_by("key").process(count, state=Total, name="one")
    two = one.map(same, name="behind").key_by("key").process(count, state=Total, name="two")
    two.union(source, name="both").order_by("t", name="sorted").sink("out")
    plan = make_plan(flow)
    stages = {node.name: plan.stage(node.index) for node in plan.nodes}
    assert stages == {
        "in": 0,
        "map": 0,
        "one": 1,
        "behind": 1,
        "two": 2,
        "both": 2,
        "sorted": 3,
        "out": 3,
    }
    assert plan.depth == 4


def test_domains() -> None:
    """Sources that a union connects share a domain, order_by begins one, side outputs have none."""
    flow = tw.Flow("domains")
    one, two, three = (flow.source(name, Row, order_by="t") for name in "abc")
    merged = two.map(same, name="map").union(one, name="both")
    merged.sink("out")
    three.sink("apart")
    merged.order_by("t", name="again").sink("sorted")
    merged.rejected.sink("rejected")
    one.late.sink("late")
    flow.source("plain", Row).sink("untimed")
    plan = make_plan(flow)
    domains = {node.name: plan.domains[node.index - 1] for node in plan.nodes}
    assert domains["a"] == domains["b"] == domains["map"] == domains["both"] == 1
    assert domains["c"] == 3
    assert domains["again"] == by_name(plan, "again") == domains["sorted"]
    assert domains["plain"] == domains["late"] == domains["rejected"] == 0
    assert plan.domain(Ref(1, "late")) == 0


def test_union_of_two_clocks_is_refused() -> None:
    """Behind an order_by there is a watermark of its own: such a stream merges only with its own branches."""
    flow = tw.Flow("watermarks")
    source = flow.source("in", Row, order_by="t")
    sorted_again = source.order_by("t", name="again")
    sorted_again.map(same, name="fine").union(sorted_again, name="own").sink("own")
    make_plan(flow)
    sorted_again.union(source, name="both").sink("out")
    with pytest.raises(tw.BuildError, match=r"union 'both'.*order_by.*'again'.*behind the union"):
        make_plan(flow)


def test_chains_fuse() -> None:
    """Neighbouring stateless nodes are one unit while each is the only reader of the one before."""
    flow = tw.Flow("chains")
    one = flow.source("in", Row).map(same, name="a").flat_map(twice, name="b")
    one.filter(lambda row: True, name="c").sink("s1")
    one.map(same, name="d").map(same, name="e", errors="reject").sink("s2")
    plan = make_plan(flow)
    names = [[plan.node(i).name for i in unit.nodes] for unit in plan.units]
    assert names == [["in"], ["a", "b"], ["c"], ["s1"], ["d"], ["e"], ["s2"]]


def test_order_columns() -> None:
    """A stream has the event columns, a counter per expanding operator and a branch per fan-out on its path."""
    flow = tw.Flow("columns")
    source = flow.source("in", Row, order_by="t")
    wide = source.flat_map(twice, name="wide")
    keyed = wide.key_by("key").process(arm, state=Timed, on_timer=fire, name="keyed")
    keyed.union(wide, name="both").sink("out")
    source.late.sink("late")
    plan = make_plan(flow)
    w, k, both = by_name(plan, "wide"), by_name(plan, "keyed"), by_name(plan, "both")
    event = ("_time", "_level", "_seq", "_key")
    assert plan.order_columns(Ref(1), whole=True) == event
    assert plan.order_columns(Ref(w), whole=True) == (*event, counter(w))
    assert plan.order_columns(Ref(k), whole=True) == (*event, counter(w), branch(w), counter(k))
    assert plan.order_columns(Ref(both), whole=True) == plan.order_columns(Ref(k), whole=True)
    assert plan.order_columns(Ref(w), whole=False) == ("_time",)
    assert plan.order_columns(Ref(1, "late"), whole=True) == event
    assert plan.order_columns(Ref(1, "late"), whole=False) == ()


def test_merges_reach_back_from_unions() -> None:
    """Exactly the streams that lead to a union carry the whole key in one slot."""
    flow = tw.Flow("merges")
    one, two = flow.source("a", Row), flow.source("b", Row)
    mapped = one.map(same, name="map")
    mapped.union(two, name="both").map(same, name="after").sink("out")
    mapped.map(same, name="aside").sink("aside")
    plan = make_plan(flow)
    expected = {Ref(1), Ref(2), Ref(by_name(plan, "map"))}
    assert plan.merges == expected


def test_expanding_operators() -> None:
    """Operators that may give several rows a tuple or firing have a counter."""
    flow = tw.Flow("expands")
    source = flow.source("in", Row, order_by="t")
    source.map(same, name="map").flat_map(twice, name="flat").sink("out")
    source.key_by("key").process(count, state=Total, name="single").sink("s")
    source.key_by("key").process(arm, state=Timed, on_timer=fire, name="timer").sink("t")
    source.window(4, every=2, n=tw.agg.count(), name="hop").sink("h")
    source.window(4, n=tw.agg.count(), name="tumble").sink("u")
    found = {node.name for node in make_plan(flow).nodes if expands(node)}
    assert found == {"flat", "timer", "window_start"}


def test_plans_need_sources_and_sinks() -> None:
    """A flow without one of them says how to go on."""
    flow = tw.Flow("empty")
    with pytest.raises(tw.BuildError, match="flow 'empty' has no source"):
        make_plan(flow)
    flow.source("in", Row)
    with pytest.raises(tw.BuildError, match="flow 'empty' has no sink"):
        make_plan(flow)
