"""Elasticity at work: what a controller is told of running workers, and that what it suggests is done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit import engine_kit as kit
from tests.unit.engine_kit import ROWS, Count, Row, bounded, count, events, no_thread_left, plus_one

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.elasticity import Combined, Controller, Limits, Sample, Suggestion, ThreadLevels
from thalweg.embedded.run_options import options_of
from thalweg.engine.build import prepare
from thalweg.engine.machine import Machine
from thalweg.plan.plan import make_plan
from thalweg.stats import Change
from thalweg.workers.elastic import ElasticThreads
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.gauges import count_full, still_running
from thalweg.workers.options import Options
from thalweg.workers.threads import Workers

__all__ = ["events", "no_thread_left"]

pytestmark = pytest.mark.usefixtures("no_thread_left")
SECOND = 1_000_000_000


def blocks(row: Row) -> Row:
    kit.event("blocked").set()
    kit.wait_for("go on")
    return row


def in_turn(state: Count, row: Row) -> Row:
    return blocks(row)


def a_flow() -> tw.Flow:
    """Stateless, keyed, stateful: the keyed one is two operators, of which the first splits."""
    flow = tw.Flow("elastic")
    rows = flow.source("in", Row, order_by="ts").map(plus_one, name="more", compile=False)
    keyed = rows.key_by("key").process(count, state=Count, name="keyed", compile=False)
    keyed.process(count, state=Count, name="all", compile=False).sink("out")
    return flow


class Told(Controller):
    """Suggests what it is told, and keeps what it hears.

    ``plan`` has a tuple of (operator, target) for each call, None for threads.
    """

    def __init__(
        self, *plan: tuple[tuple[str | None, int], ...], initial: int | None = None
    ) -> None:
        super().__init__()
        self.initial_replicas = initial
        self.plan = list(plan)
        self.samples: list[Sample] = []
        self.refusals: list[tuple[Suggestion, str]] = []
        self.starts: list[Limits] = []

    def start(self, limits: Limits) -> None:
        super().start(limits)
        self.starts.append(limits)

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        self.samples.append(sample)
        wanted = self.plan.pop(0) if self.plan else ()
        return tuple(self._suggestion(sample, *one) for one in wanted)

    def refused(self, suggestion: Suggestion, reason: str) -> None:
        self.refusals.append((suggestion, reason))

    @staticmethod
    def _suggestion(sample: Sample, operator: str | None, target: int) -> Suggestion:
        if operator is None:
            return Suggestion("threads", None, sample.threads, target, "told so")
        one = next(one for one in sample.operators if one.name == operator)
        return Suggestion("replicas", one.index, one.replicas, target, "told so")


class Run:
    """An engine and its elasticity, by hand: a period has as many looks as a test takes."""

    def __init__(self, controller: Controller, flow: tw.Flow, **how: Any) -> None:
        limits = how.pop("limits", None)
        self.engine = ParallelEngine(
            prepare(make_plan(flow)), options=Options(**{"threads": 3, **how}), chunk_rows=10
        )
        self.elastic = ElasticThreads(
            self.engine.workers,
            controller,
            limits=limits,
            machine=Machine(proc=Path("/nowhere"), groups=Path("/nowhere")),
        )
        self.rows: list[Row] = []
        self._now = 0
        self._fed = 0

    def __enter__(self) -> Run:
        self.elastic.begin(0)
        return self

    def __exit__(self, *error: object) -> None:
        self.engine.stop()

    def feed(self, rows: int) -> None:
        """So many rows more go into the flow, in steps of ten."""
        record = self.engine.plan.sources[0].record
        for _ in range(0, rows, 10):
            chunk = Chunk.from_rows(record, ROWS[self._fed : self._fed + 10])
            self._take(iter([self.engine.feed("in", chunk)]))
            self._fed += 10
            self._take(self.engine.advance())

    def settle(self) -> None:
        """All rows have run through."""
        self._take(self.engine.settle())

    def end(self) -> None:
        """The stream ends."""
        self._take(self.engine.finish())
        self.settle()

    def period(self, looks: int = 4) -> None:
        """A second passes."""
        for look in range(looks):
            self.elastic.look(self._now + look)
        self._now += SECOND
        self.elastic.adapt(self._now)

    def _take(self, leaving: Iterator[Any]) -> None:
        for one in leaving:
            for chunks in one.values():
                self.rows.extend(row for chunk in chunks for row in chunk.rows())


def until_suspended(run: Run) -> None:
    """Waits until workers that are told to suspend have left their operators."""
    bounded(lambda: _until(lambda: not still_running(run.engine.mem)))


def test_what_a_controller_is_told() -> None:
    """Tuples by operator and in all, threads, replicas, and none that is congested when all is done."""
    controller = Told()
    with Run(controller, a_flow()) as run:
        run.feed(500)
        run.settle()
        run.period()
        run.feed(100)
        run.settle()
        run.period()
        run.end()
    first, second = controller.samples
    tuples = {one.name: one.tuples for one in first.operators}
    assert tuples["more"] == tuples["keyed"] == tuples["keyed (split)"] == 500
    assert second.tuples == sum(one.tuples for one in second.operators)
    assert {one.name: one.tuples for one in second.operators}["more"] == 100
    assert first.whole and first.period_ns == SECOND and first.now_ns == SECOND
    assert first.threads == 2, "an operator that may block has one input"
    assert len(first.utilizations) == 2 and all(0 <= one <= 1 for one in first.utilizations)
    assert {one.name: one.replicable for one in first.operators} == {
        "more": True, "keyed (split)": True, "keyed": True, "all": False, "to 5": False,
    }  # fmt: skip
    assert {one.replicas for one in first.operators if one.replicable} == {3}
    assert all(one.busy_ns > 0 and one.cost_ns > 0 for one in first.operators[:3])
    assert all(one.write_blocked == one.output_blocked == 0.0 for one in first.operators)


@pytest.mark.usefixtures("events")
def test_congestion() -> None:
    """In front of an operator that is too slow inputs are full; behind it none is."""
    flow = tw.Flow("congested")
    rows = flow.source("in", Row).map(plus_one, name="before", compile=False)
    slow = rows.process(in_turn, state=Count, name="slow", compile=False)
    slow.map(plus_one, name="behind", compile=False).sink("out")
    controller = Told()
    with Run(controller, flow, queue_chunks=2) as run:
        feeder = kit.background(lambda: run.feed(200))
        kit.wait_for("blocked")
        bounded(lambda: _until(lambda: _is_full(run, "slow") and _is_full(run, "before")))
        run.period(looks=10)
        kit.event("go on").set()
        bounded(feeder.join)
        run.end()
    assert len(run.rows) == 200
    blocked = {
        one.name: (one.write_blocked, one.output_blocked) for one in controller.samples[0].operators
    }
    assert blocked["before"] == (1.0, 1.0)
    assert blocked["slow"] == (1.0, 0.0)
    assert blocked["behind"] == (0.0, 0.0)


def _is_full(run: Run, name: str) -> bool:
    place = next(at for at, task in run.engine.workers.tasks().items() if task.spec.name == name)
    counts = np.zeros(place + 1, np.int64)
    count_full(run.engine.mem, counts)
    return bool(counts[place])


def _until(happened: Any) -> None:
    while not happened():
        pass


def test_suggestions_are_done() -> None:
    """Threads are suspended and go on, operators get another limit; all of it is remembered with its reason."""
    controller = Told(((None, 3), ("more", 1)), ((None, 1), ("keyed", 2)))
    with Run(controller, a_flow(), limits=Limits(1, 3)) as run:
        assert run.elastic.threads == 1
        run.feed(100)
        run.period()
        assert run.elastic.threads == 3
        run.feed(100)
        until_suspended(run)
        run.period()
        assert run.elastic.threads == 1
        until_suspended(run)
        run.period()
        run.end()
    last = {one.name: one.replicas for one in controller.samples[-1].operators}
    assert (last["more"], last["keyed"], last["keyed (split)"]) == (1, 2, 3)
    assert run.elastic.changes[0] == Change(
        seconds=1.0, what="threads", operator="", before=1, after=3, reason="told so"
    )
    assert [(one.operator, one.before, one.after) for one in run.elastic.changes] == [
        ("", 1, 3), ("more", 3, 1), ("", 3, 1), ("keyed", 3, 2),
    ]  # fmt: skip
    expected = tw.run(a_flow(), {"in": ROWS[:200]}, threading="manual")
    assert run.rows == expected.rows("out")


async def passes(rows: tw.Input[Row], out: tw.Output[Row]) -> None:
    while await tw.wait_for_all(rows):
        await out.push(rows.pop())


def test_driver_loops_have_replicas() -> None:
    """One without state, and one by key, get replicas and lose them; what leaves is in order. One over all has none."""

    def loops() -> tw.Flow:
        flow = tw.Flow("loops")
        rows = flow.operator("any", passes, rows=flow.source("in", Row), stateless=True)
        rows = flow.operator("keyed", passes, rows=rows.key_by("key"))
        flow.operator("all", passes, rows=rows).sink("out")
        return flow

    controller = Told((("any", 3), ("keyed", 2)), (("all", 2), ("any", 1)), initial=1)
    with Run(controller, loops()) as run:
        for _ in range(3):
            run.feed(100)
            run.period()
        run.end()
    first, second, third = (
        {one.name: one.replicas for one in sample.operators} for sample in controller.samples
    )
    assert [first[name] for name in ("any", "keyed", "all")] == [1, 1, 1]
    assert [second[name] for name in ("any", "keyed")] == [3, 2]
    assert [third[name] for name in ("any", "keyed", "all")] == [1, 2, 1]
    assert [reason for _, reason in controller.refusals] == ["one thread at a time runs it"]
    assert run.rows == ROWS[:300]


def test_what_cannot_be_done_is_refused() -> None:
    """More threads than there are, or several in a stateful operator; the controller is told, and it is remembered."""
    controller = Told(((None, 4),), (("all", 2),), ((None, 0),))
    with Run(controller, a_flow()) as run:
        for _ in range(3):
            run.period()
    assert [reason for _, reason in controller.refusals] == [
        "there are 3 threads", "one thread at a time runs it", "there are 3 threads",
    ]  # fmt: skip
    assert [one.refused for one in run.elastic.changes] == [one for _, one in controller.refusals]
    assert run.elastic.threads == 2


def test_replicas_at_first() -> None:
    """A controller of replicas says how many there are before it was asked."""
    controller = Told(initial=1)
    with Run(controller, a_flow()) as run:
        run.feed(100)
        run.period()
        run.end()
    assert {one.name: one.replicas for one in controller.samples[0].operators} == {
        "more": 1, "keyed (split)": 1, "keyed": 1, "all": 1, "to 5": 1,
    }  # fmt: skip


@pytest.mark.usefixtures("events")
def test_a_thread_that_is_stuck_is_counted_out(caplog: pytest.LogCaptureFixture) -> None:
    """It is told to suspend and sits in a function for a whole period: that period is not whole, then it is named, and
    when it comes back all is as before."""
    flow = tw.Flow("stuck")
    rows = flow.source("in", Row)
    rows.map(blocks, compile=False).sink("blocked")
    controller = Told(((None, 1),))
    with Run(controller, flow, threads=2, limits=Limits(1, 2)) as run:
        run.engine.workers.set_threads(2)
        run.feed(10)
        kit.wait_for("blocked")
        run.period()
        with caplog.at_level(logging.WARNING, "thalweg"):
            run.period()
        run.period()
        kit.event("go on").set()
        run.settle()
        until_suspended(run)
        run.period()
        run.period()
        run.end()
    assert [one.unsuspendable for one in controller.samples[1:]] == [1, 1, 0, 0]
    assert controller.samples[2].whole and controller.samples[-1].whole
    assert caplog.text.count("sit in a function of blocks") == 1
    assert run.elastic.stuck == ()


def test_a_period_begins_when_a_change_has_ended() -> None:
    """What was done before all workers had left their operators belongs to no period."""
    controller = Told(((None, 1),))
    with Run(controller, a_flow(), limits=Limits(1, 3)) as run:
        run.engine.workers.set_threads(3)
        run.feed(100)
        run.settle()
        run.period()
        run.feed(100)
        run.settle()
        until_suspended(run)
        run.period()
        run.end()
    assert controller.samples[1].whole
    assert controller.samples[1].tuples == 0


def test_flows_that_come_and_go() -> None:
    """With other operators the controller begins anew; those that are there are told by place."""
    controller = Told(initial=2)
    workers = Workers(Options(threads=2))
    prepared = prepare(make_plan(a_flow()))
    elastic = ElasticThreads(workers, controller, limits=Limits(1, 2))
    try:
        elastic.begin(0)
        engine = ParallelEngine(prepared, workers=workers)
        elastic.look(1)
        elastic.adapt(SECOND)
        assert controller.samples == []
        elastic.look(SECOND + 1)
        elastic.adapt(2 * SECOND)
        assert [one.name for one in controller.samples[0].operators][:2] == [
            "more",
            "keyed (split)",
        ]
        assert controller.samples[0].operators[0].replicas == 2
        engine.stop()
        elastic.adapt(3 * SECOND)
        elastic.adapt(4 * SECOND)
        assert controller.samples[1].operators == ()
        assert controller.starts == [Limits(1, 2)] * 3
    finally:
        workers.stop()


class Broken(Controller):
    """Fails when it is asked."""

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        kit.event("asked").set()
        raise ZeroDivisionError("a controller's own")


def wait_until_asked(row: Row) -> Row:
    kit.wait_for("asked")
    return row


@pytest.mark.usefixtures("events")
def test_a_controller_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its flow runs on with the threads that there are, and the log says why nothing changes any more."""
    flow = tw.Flow("broken")
    flow.source("in", Row).map(wait_until_asked, compile=False).sink("out")
    result = bounded(
        lambda: tw.run(flow, {"in": ROWS}, threads=3, controller=Broken(), period_s=0.01)
    )
    assert result.rows("out") == ROWS
    assert "the controller failed: from now on there are 2 threads" in caplog.text


class Upwards(Controller):
    """One thread more each time, up to all; then its event comes."""

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        if sample.threads == self.limits.maximum:
            kit.event("asked").set()
            return ()
        return (Suggestion("threads", None, sample.threads, sample.threads + 1, "up"),)


@pytest.mark.usefixtures("events")
def test_run() -> None:
    """tw.run changes threads while the flow runs, and its result says how."""
    flow = tw.Flow("upwards")
    flow.source("in", Row).map(wait_until_asked, compile=False).sink("out")
    result = bounded(
        lambda: tw.run(flow, {"in": ROWS}, threads=4, controller=Upwards(), period_s=0.01)
    )
    assert result.rows("out") == ROWS
    progress = result.progress
    assert progress.threads == 4
    assert [(one.before, one.after, one.refused) for one in progress.changes] == [
        (2, 3, ""), (3, 4, ""),
    ]  # fmt: skip


def test_auto() -> None:
    """threads="auto" takes the default controller, also for small inputs; the output is that of any run."""
    expected = tw.run(a_flow(), {"in": ROWS}, threading="manual")
    for controller in (None, Combined()):
        result = bounded(
            lambda controller=controller: tw.run(
                a_flow(), {"in": ROWS}, threads="auto", controller=controller
            )
        )
        assert result.rows("out") == expected.rows("out")
        assert result.progress.threads >= 1 and result.progress.changes == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"controller": ThreadLevels}, r"write ThreadLevels\(\)"),
        ({"controller": 7}, "got int"),
        ({"controller": ThreadLevels(), "threading": "dedicated"}, "leaves nothing to change"),
        ({"controller": ThreadLevels(), "threading": "manual"}, "leaves nothing to change"),
        ({"threads": "all"}, "threads: expected"),
        ({"threads": "auto", "period_s": 0}, "period_s: expected seconds above 0"),
        ({"threads": "auto", "period_s": "x"}, "period_s: expected seconds above 0, got 'x'"),
        ({"period_s": float("nan")}, "period_s: expected seconds above 0, got nan"),
        ({"threads": "auto", "threading": "manual"}, "threads: 'auto' .* leaves nothing to change"),
        ({"threads": "auto", "threading": "dedicated"}, "threads: 'auto'"),
    ],
)
def test_arguments_are_checked(wrong: dict[str, Any], message: str) -> None:
    """What makes no sense is refused before anything runs."""
    with pytest.raises(tw.BuildError, match=message):
        tw.run(a_flow(), {"in": ROWS}, **wrong)


@pytest.mark.parametrize(
    ("threads", "threading", "told"),
    [
        (4, "manual", "threads=4: threading 'manual' runs all in the thread"),
        (4, "dedicated", "threads=4: threading 'dedicated' has a thread for each operator"),
        (1, "manual", None),
        (None, "dedicated", None),
    ],
)
def test_threads_that_are_not_heeded(
    threads: int | None, threading: Any, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on, as it did before anybody said so."""
    with caplog.at_level(logging.WARNING, "thalweg"):
        options_of(threads, threading, None)
    heard = [one for one in caplog.messages if "threads" in one]
    assert [one.startswith(told or "") for one in heard] == [True] * (told is not None)


def test_options_are_checked() -> None:
    """Also where they are given as a whole."""
    with pytest.raises(tw.BuildError, match="leaves nothing to change"):
        Options(threading="dedicated", controller=ThreadLevels())


def test_a_limit_of_a_stateful_operator() -> None:
    """Nobody may send several workers into it."""
    with Run(Told(), a_flow()) as run:
        place = next(p for p, task in run.engine.workers.tasks().items() if task.spec.name == "all")
        with pytest.raises(ValueError, match="one worker at a time"):
            run.engine.workers.set_limit(place, 2)
        assert int(run.engine.mem[run.engine.op_at(place - run.engine.source) + at.LIMIT]) == 1


@pytest.mark.usefixtures("events")
def test_flows_side_by_side() -> None:
    """They share the threads, so one controller is told of all of them, and each says what changed."""
    flows = []
    for name in ("one", "two"):
        flow = tw.Flow(name)
        flow.source("in", Row).map(wait_until_asked, name=name, compile=False).sink("out")
        flows.append(flow)
    results = bounded(
        lambda: tw.run(
            flows, {"one": {"in": ROWS}, "two": {"in": ROWS}},
            threads=4, controller=Upwards(), period_s=0.01,
        )
    )  # fmt: skip
    for result in results.values():
        assert result.rows("out") == ROWS
        assert [(one.before, one.after) for one in result.progress.changes][-1] == (3, 4)


def leaves_when_told(row: Row) -> Row:
    """The first worker but number 0 that comes again is told to suspend, in the middle of a chunk; 0 waits for that.

    A first visit ends after one chunk in any case.
    """
    name = threading.current_thread().name
    if name == "thalweg-0":
        kit.wait_for("told")
        return row
    kit.ROWS_BY[name] = kit.ROWS_BY.get(name, 0) + 1
    if kit.ROWS_BY[name] == 11 and not kit.event("told").is_set():
        kit.TELL(int(name[-1]))
        kit.event("told").set()
        kit.ROWS_BY["told"] = name
    return row


@pytest.mark.usefixtures("events")
def test_a_worker_leaves_a_queue_that_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told to suspend, and ends the chunk in hand; what is in the queue others do."""
    flow = tw.Flow("leaves")
    flow.source("in", Row).map(leaves_when_told, compile=False).sink("out")
    monkeypatch.setattr(kit, "ROWS_BY", {}, raising=False)
    with Run(Told(), flow, limits=Limits(3, 3)) as run:

        def tell(threads: int) -> None:
            _until(lambda: _is_full(run, "leaves_when_told"))
            run.engine.workers.set_threads(threads)

        monkeypatch.setattr(kit, "TELL", tell, raising=False)
        bounded(lambda: run.feed(1_000))
        bounded(run.end)
        assert len(run.rows) == 1_000
        assert kit.ROWS_BY[kit.ROWS_BY["told"]] == 20


@pytest.mark.usefixtures("events")
def test_the_only_thread_is_stuck() -> None:
    """Nobody told it to suspend, but nothing goes on without one more: the minimum rises, and falls again after it."""
    flow = tw.Flow("only")
    rows = flow.source("in", Row)
    rows.map(blocks, compile=False).sink("blocked")
    rows.map(plus_one, compile=False).sink("beside")
    controller = ThreadLevels(max_cpu_share=1.0)
    with Run(controller, flow, threads=2, limits=Limits(1, 1)) as run:
        run.feed(10)
        kit.wait_for("blocked")
        run.period()
        run.period()
        assert run.elastic.threads == 2
        assert run.elastic.stuck == ("blocks",)
        assert "levels go from 2 to 2, with 1 stuck" in run.elastic.changes[0].reason
        kit.event("go on").set()
        run.settle()
        run.period()
        run.period()
        assert run.elastic.threads == 1
        run.end()
