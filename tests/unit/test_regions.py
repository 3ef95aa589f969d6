"""Regions of threading: who runs an operator, what is fused, and that nobody else is held up.

That no output depends on them is in ``tests/property/test_parallel.py``.
"""

from __future__ import annotations

import contextlib
import pickle
import re
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.engine_kit import (
    ROWS,
    Count,
    Failure,
    Row,
    bounded,
    count,
    event,
    events,  # noqa: F401
    no_thread_left,  # noqa: F401
    plus_one,
    wait_for,
)

import thalweg as tw
from thalweg import scheduling
from thalweg.engine.build import prepare
from thalweg.errors import BuildError, OperatorError
from thalweg.plan.plan import make_plan
from thalweg.plan.regions import riders_of
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.options import Options

pytestmark = pytest.mark.usefixtures("no_thread_left")


class Seen(NamedTuple):
    """The threads that have run the operators on a row's way."""

    value: int
    first: str
    second: str
    third: str


class Value(NamedTuple):
    value: int


VALUES = [Value(n) for n in range(400)]


def by_first(row: Value) -> Seen:
    return Seen(row.value, threading.current_thread().name, "", "")


def by_second(row: Seen) -> Seen:
    return Seen(row.value, row.first, threading.current_thread().name, "")


def by_third(row: Seen) -> Seen:
    return Seen(row.value, row.first, row.second, threading.current_thread().name)


def seen_by(*models: str, **how: object) -> list[Seen]:
    """Three operators in a row and a sink, each in a region of its own."""
    flow = tw.Flow("seen", compile="never")
    with flow.threading(models[0]):  # type: ignore[arg-type]
        one = flow.source("in", Value).map(by_first)
    with flow.threading(models[1]):  # type: ignore[arg-type]
        two = one.map(by_second)
    with flow.threading(models[2]):  # type: ignore[arg-type]
        two.map(by_third).sink("out")
    rows = bounded(lambda: tw.run(flow, {"in": VALUES}, **how))["out"]  # type: ignore[call-overload]
    assert [row.value for row in rows] == list(range(400))
    return rows


@pytest.mark.parametrize("how", [{}, {"threads": 1}, {"threads": 3}], ids=["auto", "one", "three"])
def test_who_runs_what(how: dict[str, int]) -> None:
    """A dedicated operator has one thread that runs nothing else; a manual one has that of who feeds it."""
    rows = seen_by("dedicated", "manual", "dedicated", **how)
    assert len({row.first for row in rows}) == 1 and len({row.third for row in rows}) == 1
    assert all(row.second == row.first != row.third for row in rows)


def test_a_source_feeds_in_the_thread_that_brings_the_rows() -> None:
    """As a source's own thread runs what is behind it in the paper; and so to the sink where all is manual."""
    rows = seen_by("manual", "dynamic", "manual", threads=2)
    assert {row.first for row in rows} == {"source in"}
    assert all(row.third == row.second != "source in" for row in rows)
    assert {row[1:] for row in seen_by("manual", "manual", "manual")} == {("source in",) * 3}


def test_regions_overrule_the_run() -> None:
    """``threading=`` holds where nothing was said: a threaded port in a run that is manual else."""
    flow = tw.Flow("port", compile="never")
    one = flow.source("in", Value).map(by_first)
    with flow.threading("dedicated"):
        two = one.map(by_second)
    two.map(by_third).sink("out")
    rows = bounded(lambda: tw.run(flow, {"in": VALUES}, threading="manual"))["out"]
    assert {row.first for row in rows} == {"source in"}
    assert all(row.third == row.second != "source in" for row in rows)


def engine_of(flow: tw.Flow, **how: object) -> ParallelEngine:
    return ParallelEngine(prepare(make_plan(flow)), options=Options(**how))  # type: ignore[arg-type]


def test_manual_operators_have_no_queue() -> None:
    """They are no operators of the runtime; who feeds one that needs the order is run in order, else by many."""
    flow = tw.Flow("queues")
    rows = flow.source("in", Row)
    one = rows.map(plus_one, name="one")
    with flow.threading("manual"):
        one.map(plus_one, name="rides").sink("a")
    two = rows.map(plus_one, name="two")
    with flow.threading("manual"):
        two = two.map(plus_one, name="rides, too")
    two.sink("b")
    found = {task.spec.name: task.spec for task in engine_of(flow).tasks}
    assert found.keys() == {"ingress", "one", "two", f"to {flow.nodes[-1].index}"}
    assert found["one"].kind == at.STATEFUL and found["two"].kind == at.STATELESS


def test_a_dedicated_operator_is_in_one_piece_with_a_plain_queue() -> None:
    """Partitions and reorder buffers are for several workers; policies are not told of it."""
    flow = tw.Flow("own")
    rows = flow.source("in", Row)
    with flow.threading("dedicated"):
        rows.map(plus_one, name="a").key_by("key").process(count, state=Count, name="b").sink("out")
    engine = engine_of(flow, policy=scheduling.FirstComeFirstServed())
    assert [task.spec.kind for task in engine.tasks[1:]] == [at.STATEFUL] * 3
    assert all(task.spec.own_thread for task in engine.tasks[1:])
    assert engine.workers._traits().keys() == {0}
    engine.stop()


def test_what_is_fused() -> None:
    """Stateless neighbours of one block are; of two blocks they are not, however alike."""
    flow = tw.Flow("fused")
    rows = flow.source("in", Row)
    with flow.threading("dedicated"):
        rows = rows.map(plus_one, name="a").map(plus_one, name="b")
    with flow.threading("dedicated"):
        rows = rows.map(plus_one, name="c")
        with flow.threading("dynamic"):
            rows.map(plus_one, name="d").sink("out")
    plan = make_plan(flow)
    names = [tuple(plan.node(one).name for one in unit.nodes) for unit in plan.units]
    assert ("a", "b") in names and ("c",) in names and ("d",) in names
    assert hash(plan.regions)


def test_explain_says_who_runs_an_operator() -> None:
    """Also where a manual one cannot ride, since it takes the same step from several."""
    flow = tw.Flow("told")
    rows = flow.source("in", Row, order_by="ts")
    with flow.threading("dedicated"):
        one = rows.map(plus_one, name="one")
    with flow.threading("manual"):
        two = rows.map(plus_one, name="two")
        one.union(two, name="both").sink("out")
    text = " ".join(flow.explain(compile=False).split())
    assert "threading dedicated: a thread of its own" in text
    assert "threading manual: who runs the source" in text
    assert "threading manual, but its inputs come from several operators: the workers" in text
    assert "threading manual: who runs both" in text
    plan = make_plan(flow)
    riders = riders_of(plan, plan.units, None, "dynamic")
    both = next(node.index for node in plan.nodes if node.name == "both")
    assert riders.several == {both} and riders.leaders[both] == both


def test_a_model_is_checked() -> None:
    """Where it is written."""
    says = r"threading\(\) takes 'manual', 'dedicated', 'dynamic', not 'own'"
    with pytest.raises(BuildError, match=says), tw.Flow("checked").threading("own"):  # type: ignore[arg-type]
        pass


def waits(row: Value) -> Value:
    wait_for("the other branch is through")
    return row


def all_through(row: Value) -> None:
    if row.value == VALUES[-1].value:
        event("the other branch is through").set()


@pytest.mark.usefixtures("events")
def test_a_dedicated_operator_that_waits_holds_up_nobody() -> None:
    """One worker is enough for all others."""
    flow = tw.Flow("waits", compile="never")
    rows = flow.source("in", Value)
    with flow.threading("dedicated"):
        rows.map(waits).sink("late")
    rows.sink("soon")
    how = Options(threads=1, queue_chunks=512)
    result = bounded(
        lambda: tw.run(flow, {"in": VALUES}, {"soon": tw.each(all_through)}, options=how)
    )
    assert list(result["late"]) == VALUES


def fails(row: Value) -> Value:
    if row.value == 200:
        raise Failure("on purpose")
    return row


@pytest.mark.parametrize("leader", ["manual", "dedicated", "dynamic"])
def test_an_error_of_a_manual_operator_ends_the_run(leader: str) -> None:
    """Whoever runs it, also the thread that brings the rows."""
    flow = tw.Flow("fails", compile="never")
    with flow.threading(leader):  # type: ignore[arg-type]
        rows = flow.source("in", Value).filter(lambda row: row.value >= 0)
    with flow.threading("manual"):
        rows.map(fails).sink("out")
    with pytest.raises(OperatorError, match="on purpose"):
        bounded(lambda: tw.run(flow, {"in": VALUES}, threads=2))


def test_counts_of_those_who_ride() -> None:
    """Progress has each operator, with its own rows and time."""
    flow = tw.Flow("counted")
    rows = flow.source("in", Row)
    with flow.threading("manual"):
        rows = rows.filter(lambda row: row.value % 2 == 0, name="even")
    rows = rows.map(plus_one, name="led")
    with flow.threading("manual"):
        rows.filter(lambda row: row.value < 500, name="low").key_by("key").process(
            count, state=Count, name="sum"
        ).sink("out")
    with tw.start(threads=2) as running:
        run = running.add(flow, {"in": ROWS})
        result = bounded(run.result)
        found = {one.name: one for one in run.progress().operators}
    assert [(found[name].rows_in, found[name].rows_out) for name in ("even", "led", "low", "sum")] == [
        (1_000, 500), (500, 500), (500, 250), (250, 250)
    ]  # fmt: skip
    assert len(result["out"]) == 250


def test_threads_of_flows_that_come_and_go() -> None:
    """A thread of a flow that has ended serves the next one; a run without workers gets some when it needs them."""

    def flow_of(number: int, model: str | None) -> tw.Flow:
        flow = tw.Flow(f"flow {number}")
        rows = flow.source("in", Row)
        if model is None:
            rows.map(plus_one).sink("out")
        else:
            with flow.threading(model):  # type: ignore[arg-type]
                rows.map(plus_one).sink("out")
        return flow

    def run() -> None:
        for how in ("dynamic", "dedicated"):
            before = set(threading.enumerate())  # those of other tests, and of the run before
            with tw.start(threads=2, threading=how) as running:  # type: ignore[call-overload]
                for number, model in enumerate(
                    [None, "dedicated", "dynamic", "manual", "dedicated"] * 2
                ):
                    result = running.add(flow_of(number, model), {"in": ROWS}).result()
                    assert [row.value for row in result["out"]] == list(range(1, 1_001))
                new = [one for one in threading.enumerate() if one not in before]
                names = [one.name for one in new if one.name.startswith("thalweg-")]
                assert len(names) <= 2 + 2 * 2, names

    bounded(run)


def test_regions_beside_a_checkpoint(tmp_path: Path) -> None:
    """A durable run has the threads that its regions ask for, and goes on with its state."""
    for part in (ROWS[:400], ROWS):
        flow = tw.Flow("durable")
        with flow.threading("dedicated"):
            totals = flow.source("in", Row).key_by("key").process(count, state=Count, name="n")
        with flow.threading("manual"):
            totals.map(plus_one, name="ridden").sink("out")
        result = bounded(
            lambda flow=flow, part=part: tw.run(
                flow, {"in": part}, checkpoint=tmp_path / "c", end="keep"
            )
        )
    assert [row.value for row in result["out"]] == [row.value // 7 + 2 for row in ROWS[400:]]


def test_a_block_without_with_is_refused() -> None:
    """Where ``with`` was forgotten the block says nothing, so the plan tells; one that is entered later is fine."""
    for call in ("threading('dedicated')", "tags(urgent=1)"):
        flow = tw.Flow("forgotten")
        block = flow.threading("dedicated") if "thr" in call else flow.tags(urgent=1)
        with block if "thr" in call else contextlib.nullcontext():
            flow.source("in", Row).sink("out")
        if "thr" in call:
            assert make_plan(flow).regions and pickle.loads(pickle.dumps(flow))
            flow.threading("dedicated")
        with pytest.raises(BuildError, match=re.escape(f"write `with flow.{call}:`")):
            make_plan(flow)
