"""Tags of operators: what a policy sees, who is fused, and what is urgent comes first, also inside a slot."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import cloudpickle
import pytest
from tests.unit.engine_kit import no_thread_left  # noqa: F401

import thalweg as tw
from thalweg import scheduling
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.errors import BuildError, SchedulingError
from thalweg.plan.plan import Plan, make_plan
from thalweg.scheduling import OperatorStats, RoundView
from thalweg.slots.slot_state import make_engine
from thalweg.workers.engine import ParallelEngine


class Row(NamedTuple):
    value: int


def same(row: Row) -> Row:
    return row


def tagged_flow(*, inner: bool = False) -> tw.Flow:
    """Two branches of one source; the one that is defined last is urgent."""
    flow = tw.Flow("tagged")
    rows = flow.source("in", Row)
    rows.map(same, name="slow").map(same, name="slower").sink("background")
    with flow.tags(urgent=1, team="alarms"):
        urgent = rows.map(same, name="first")
        with flow.tags(urgent=2):
            urgent = urgent.map(same, name="second")
        urgent.sink("urgent")
    return flow


def by_tag(operator: OperatorStats, view: RoundView) -> float:
    return float(str(operator.tags.get("urgent", 0)))


def test_tags_stand_in_the_plan_and_inner_ones_overrule() -> None:
    """Each operator of a block has its tags, sinks included; who has others is not fused."""
    plan = make_plan(tagged_flow())
    tags = {node.name: dict(plan.tags_of(node.index)) for node in plan.nodes}
    assert tags["slow"] == tags["in"] == {}
    assert tags["first"] == tags["urgent"] == {"team": "alarms", "urgent": 1}
    assert tags["second"] == {"team": "alarms", "urgent": 2}
    units = {tuple(plan.node(one).name for one in unit.nodes) for unit in plan.units}
    assert {("slow", "slower"), ("first",), ("second",)} <= units
    assert hash(plan.tags) == hash(make_plan(tagged_flow()).tags)


def test_a_tag_is_checked() -> None:
    """No tags, a value that cannot be sent on, and a class that is none are refused where they are written."""
    flow = tw.Flow("checked")
    for given, says in (
        ({}, "needs a tag"),
        ({"urgent": [1]}, "must be a bool, int, float or str"),
        ({"urgent": math.nan}, "not NaN"),
        ({"priority_class": -1}, "a priority class is an int"),
    ):
        with pytest.raises(BuildError, match=says), flow.tags(**given):
            pass


def test_a_policy_sees_tags_and_the_class_of_an_operator() -> None:
    """``operator.tags`` is what the author said; ``priority_class`` is the operator's own class."""
    flow = tw.Flow("classes")
    rows = flow.source("in", Row)
    with flow.tags(priority_class=0, colour="red"):
        rows.map(same, name="urgent").sink("a")
    rows.map(same, name="other").sink("b")
    seen: dict[str, OperatorStats] = {}

    def note(operator: OperatorStats, view: RoundView) -> float:
        seen[operator.name] = operator
        return 0.0

    with tw.start(threads=1, policy=scheduling.by(note)) as running:
        done = running.add(flow, {"in": [Row(1), Row(2)]}, priority_class=3).result()
    assert done.rows("a") == done.rows("b") == [Row(1), Row(2)]
    assert seen["urgent"].tags["colour"] == "red" and not seen["other"].tags
    assert (seen["urgent"].priority_class, seen["other"].priority_class) == (0, 3)
    assert seen["urgent"].row_bytes == 8 and seen["urgent"]._replace(worklist=5).queue_bytes == 40


def leaving_of(plan: Plan, policy: scheduling.Policy | None) -> list[tuple[str, int]]:
    """What leaves a slot of one thread that gets 40 steps, in the order of leaving."""
    engine = make_engine(prepare(plan), None, chunk_rows=1, threads=1, policy=policy)
    left: list[tuple[str, int]] = []

    def take(leaving: Any) -> None:
        for edge, chunks in leaving.items():
            left.extend(
                (plan.node(edge.node).name, row.value) for one in chunks for row in one.rows()
            )

    try:
        for value in range(40):
            chunk = Chunk.from_rows(plan.sources[0].record, [Row(value)])
            take(engine.feed("in", chunk))
        for leaving in engine.settle():
            take(leaving)
    finally:
        engine.stop()
    return left


@pytest.mark.usefixtures("no_thread_left")
def test_inside_a_slot_the_policy_chooses_and_the_output_is_the_same() -> None:
    """A slot's engine under a policy runs its one thread as a worker: each sink gets its rows in their order."""
    plan = make_plan(tagged_flow())
    for policy in (None, scheduling.by(by_tag, features=["tags"])):
        left = leaving_of(plan, policy)
        for sink in ("urgent", "background"):
            assert [value for name, value in left if name == sink] == list(range(40)), policy


def test_inside_a_slot_what_is_urgent_is_computed_first() -> None:
    """Whenever a step is through what both branches read, its urgent branch is next."""
    order: list[str] = []
    add = order.append

    def background(row: Row) -> Row:
        add("background")
        return row

    def urgent(row: Row) -> Row:
        add("urgent")
        return row

    flow = tw.Flow("inside")
    rows = flow.source("in", Row).map(same, compile=False)
    with flow.tags(urgent=-1):
        rows.map(background, compile=False).sink("b")
    with flow.tags(urgent=1):
        rows.map(urgent, compile=False).sink("u")
    # A placement that needs no costs: else each operator runs once for the sake of its measures.
    placement = scheduling.RoundRobinPlacement()
    policy = scheduling.by(
        by_tag, features=["tags"], starve_after_s=None, batch_rows=1, placement=placement
    )
    plan = make_plan(flow)
    engine = make_engine(prepare(plan), None, chunk_rows=1, threads=1, policy=policy)
    try:
        for value in range(4):
            engine.feed("in", Chunk.from_rows(plan.sources[0].record, [Row(value)]))
        for _ in engine.settle():
            pass
    finally:
        engine.stop()
    assert sorted(order) == ["background"] * 4 + ["urgent"] * 4
    for at in range(1, 9):
        assert order[:at].count("urgent") >= order[:at].count("background"), order


def test_two_threads_of_a_slot_have_lists_of_their_own() -> None:
    """In each what is urgent is first; a thread whose operators are not goes on with them. The output is the same."""
    plan = make_plan(tagged_flow())
    policy = scheduling.by(by_tag, features=["tags"], starve_after_s=None, batch_rows=1)
    engine = make_engine(prepare(plan), None, chunk_rows=1, threads=2, policy=policy)
    assert isinstance(engine, ParallelEngine)
    left: dict[str, list[int]] = {"background": [], "urgent": []}
    try:
        record = plan.sources[0].record
        leaving = [engine.feed("in", Chunk.from_rows(record, [Row(value)])) for value in range(40)]
        for one in [*leaving, *engine.settle()]:
            for edge, chunks in one.items():
                rows = [row.value for chunk in chunks for row in chunk.rows()]
                left[plan.node(edge.node).name] += rows
        assert engine.workers.rounds is not None
        lists = engine.workers.rounds.last_lists()
    finally:
        engine.stop()
    assert left == {"background": list(range(40)), "urgent": list(range(40))}
    assert len(lists) == 2 and all(lists)
    urgency = {task.spec.name: float(task.tags.get("urgent", 0)) for task in engine.tasks}  # type: ignore[arg-type]
    for mine in lists:
        assert [urgency[name] for name in mine] == sorted(
            map(urgency.__getitem__, mine), reverse=True
        )


def test_a_policy_that_does_not_fit_the_flow_is_refused_when_the_slot_is_made() -> None:
    """Chain is for chains: an engine of a slot says so before anything runs."""
    flow = tw.Flow("branches")
    rows = flow.source("in", Row).map(same, name="both")
    rows.map(same).sink("a")
    rows.map(same).sink("b")
    prepared = prepare(make_plan(flow))
    with pytest.raises(SchedulingError, match="expected: flows that are chains"):
        make_engine(prepared, None, chunk_rows=1, threads=1, policy=scheduling.Chain())


def test_a_policy_for_spark_must_be_one_and_go_to_its_workers() -> None:
    """What is no policy and what cannot be pickled is refused by name; the others arrive as they are."""
    from thalweg.spark.arguments import sent_policy

    policy = scheduling.by(by_tag, features=["tags"])
    assert sent_policy(None) == b""
    assert cloudpickle.loads(sent_policy(policy)).name == policy.name
    with pytest.raises(BuildError, match=r"expected an object of thalweg\.scheduling"):
        sent_policy("urgent")
    lock = threading.Lock()
    with pytest.raises(BuildError, match="cannot be sent to Spark's workers"):
        sent_policy(scheduling.by(lambda operator, view: float(lock.locked())))
