"""The threads of a scheduler of queries, over a session that does nothing: places, and how they come back."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

import thalweg as tw


class Context:
    """Local properties of a thread, as Spark has them."""

    def __init__(self, mode: str = "FAIR") -> None:
        self.mode = mode
        self.here = threading.local()

    def getConf(self) -> Any:
        return SimpleNamespace(get=lambda name, default: self.mode)

    def getLocalProperty(self, name: str) -> str | None:
        return getattr(self.here, name, None)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        setattr(self.here, name, value)


class Interrupted(Py4JJavaError):
    """What a JVM thread's sleep raises once its query is stopped."""

    def __init__(self, name: str = "java.lang.InterruptedException") -> None:
        kind = SimpleNamespace(getName=lambda: name)
        self.java_exception = SimpleNamespace(getClass=lambda: kind)

    def __str__(self) -> str:
        return "o1: a stack of a thousand lines"


class Session:
    """A Spark session whose threads are interrupted when the test says so."""

    def __init__(self, mode: str = "FAIR") -> None:
        self.sparkContext = Context(mode)
        self.failure: Exception | None = None
        self.slept = threading.Event()
        thread = SimpleNamespace(sleep=self.sleep)
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=thread)))

    def sleep(self, ms: int) -> None:
        self.slept.set()
        if self.failure is not None:
            raise self.failure


POOL = "spark.scheduler.pool"


@pytest.mark.parametrize("slots", [1, 2])
def test_no_more_batches_than_slots(slots: int) -> None:
    """Whatever threads do, also when their batches fail: places are neither given twice nor lost."""
    session: Any = Session()
    scheduler = tw.spark.Scheduler(slots=slots)
    places = threading.Semaphore(slots)

    def run(query: str) -> int:
        for batch in range(60):
            try:
                with scheduler.admit(query, session=session) as place:
                    assert places.acquire(blocking=False)
                    assert session.sparkContext.getLocalProperty(POOL) == f"thalweg-{query}"
                    place.rows = 10
                    places.release()
                    if batch % 3 == 0:
                        raise ValueError(batch)
            except ValueError:
                pass
            assert session.sparkContext.getLocalProperty(POOL) is None
        return batch

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(run, "abcdef")) == [59] * 6
    told = scheduler.progress
    assert {name: one.batches for name, one in told.queries.items()} == dict.fromkeys("abcdef", 60)
    assert len(told.decisions) == 360
    assert all(one.cost_ns > 0 and one.phase.value == "idle" for one in told.queries.values())


def test_an_interrupted_thread_waits_no_longer() -> None:
    """Its place in the queue is free, and the error's text is the one that Spark takes for an ordinary end."""
    session, stopped = Session(), Session()
    scheduler = tw.spark.Scheduler(slots=1)

    def wait() -> None:
        with scheduler.admit("stopped", session=stopped):  # type: ignore[arg-type]
            raise AssertionError("it was given a place that another had")

    with ThreadPoolExecutor(1) as pool:
        with scheduler.admit("running", session=session):  # type: ignore[arg-type]
            waiting = pool.submit(wait)
            assert stopped.slept.wait(60)
            stopped.failure = Interrupted()
            error = waiting.exception(60)
        assert isinstance(error, tw.SchedulingError)
        assert str(error) == (
            "query 'stopped': batch -1 waited for a place: the query is stopped\n"
            "py4j.protocol.Py4JJavaError: An error occurred while calling sleep.\n"
            ": java.lang.InterruptedException"
        )
    assert [one.query for one in scheduler.progress.decisions] == ["running"]
    with scheduler.admit("stopped", session=session) as place:  # type: ignore[arg-type]
        assert place.reason == "no other could run"


def test_another_failure_of_the_session_is_told_as_it_is() -> None:
    session, broken = Session(), Session()
    broken.failure = Interrupted("java.lang.IllegalStateException")
    scheduler = tw.spark.Scheduler(slots=1)

    def wait() -> None:
        with scheduler.admit("other", session=broken):  # type: ignore[arg-type]
            raise AssertionError("it was given a place that another had")

    with ThreadPoolExecutor(1) as pool, scheduler.admit("running", session=session):  # type: ignore[arg-type]
        assert pool.submit(wait).exception(60) is broken.failure


def test_a_policy_that_fails_once() -> None:
    """All who wait then are told; who runs is not, and the next are served."""
    session: Any = Session()
    bad = threading.Event()

    def rank(operator: tw.scheduling.OperatorStats, view: tw.scheduling.RoundView) -> float:
        if bad.is_set():
            raise ZeroDivisionError("no weights")
        return 0.0

    scheduler = tw.spark.Scheduler(tw.scheduling.by(rank), slots=1)
    waiting = {name: Session() for name in ("a", "b")}

    def wait(name: str) -> None:
        with scheduler.admit(name, session=waiting[name]):  # type: ignore[arg-type]
            raise AssertionError("it was given a place without a policy")

    with ThreadPoolExecutor(2) as pool:
        with scheduler.admit("running", session=session):
            failing = [pool.submit(wait, name) for name in waiting]
            assert all(one.slept.wait(60) for one in waiting.values())
            bad.set()
        errors = [one.exception(60) for one in failing]
    for name, error in zip(waiting, errors, strict=True):
        assert isinstance(error, tw.SchedulingError) and error.policy == "by(rank)"
        assert str(error).startswith(f"query '{name}' waited for a place: policy by(rank)")
    bad.clear()
    with scheduler.admit("a", session=session) as place:
        assert place.wait_s >= 0
    assert [one.query for one in scheduler.progress.decisions] == ["running", "a"]


def test_a_session_that_is_not_fair() -> None:
    """No place is taken there, and nothing is remembered of the query."""
    scheduler = tw.spark.Scheduler(slots=1)
    session: Any = Session("FIFO")
    with (
        pytest.raises(tw.EnvironmentProblem, match=r"needs spark\.scheduler\.mode=FAIR"),
        scheduler.admit("any", session=session),
    ):
        pass
    assert scheduler.progress.queries == {}


def test_by_default_the_most_urgent_has_a_slot_of_its_own() -> None:
    """Others run one at a time, and it beside them; without classes all are alike, two at a time."""
    session: Any = Session()
    scheduler = tw.spark.Scheduler(classes={"urgent": 0, "report": 1, "archive": 1})
    archive: Any = Session()

    def wait() -> str:
        with scheduler.admit("archive", session=archive) as place:
            return place.reason

    with ThreadPoolExecutor(3) as pool:
        with scheduler.admit("report", session=session):
            waiting = pool.submit(wait)
            assert archive.slept.wait(60)
            for _ in range(2):
                assert pool.submit(run, scheduler, "urgent", session).result(60) == 0
            assert not waiting.done()
        assert waiting.result(60) == "no other could run"
    alike = tw.spark.Scheduler()
    with ThreadPoolExecutor(1) as pool, alike.admit("a", session=session):
        assert pool.submit(run, alike, "b", session).result(60) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"slots": "2"}, "Scheduler: slots must be an int of at least 1, not '2'"),
        ({"slots": 1, "reserved": 1}, "1 of 1 places reserved"),
        ({"starve_after_s": 0}, "starve_after_s: expected seconds above 0, got 0"),
        ({"policy": "urgent"}, "needs a round policy such as"),
    ],
)
def test_arguments(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(tw.BuildError, match=text):
        tw.spark.Scheduler(**arguments)


def run(scheduler: tw.spark.Scheduler, query: str, session: Any) -> float:
    """A batch that must not wait: for how long it did, in whole seconds."""
    with scheduler.admit(query, session=session) as place:
        return place.wait_s // 1
