"""An order_by inside a flow that is idle: time runs on with the clock, and what follows is what the reference says."""

from __future__ import annotations

import itertools
import random
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.property.clocked_kit import Clock, TimedLog, through_crashes
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.errors import BuildError
from thalweg.workers.options import Options

S = tw.seconds(1)


class Line(NamedTuple):
    n: int
    text: str


class Seen(NamedTuple):
    n: int
    user: str
    at: tw.Timestamp


def parsed(line: Line) -> Seen | None:
    user, _, at = line.text.partition(" ")
    return Seen(line.n, user, int(at) * 1_000_000) if at else None


def make_flow(idle: str | None = "10 seconds") -> tw.Flow:
    """Times stand in a text, so that no source can order the rows."""
    flow = tw.Flow("lines", compile="never")
    seen = flow.source("lines", Line).map(parsed)
    ordered = seen.order_by("at", lateness="2 seconds", idle=idle, name="sorted")
    ordered.sink("all")
    ordered.late.sink("late")
    ordered.key_by("user").sessions("15 seconds", rows=tw.agg.count()).sink("sessions")
    return flow


def lines_of(times: list[int]) -> list[Line]:
    return [Line(n, f"{'abé'[n % 3]} {at}") for n, at in enumerate(times)]


def random_times(chooser: random.Random, count: int) -> list[int]:
    steps = [chooser.choice((0, 1, 3, 30, -1, -4, -25)) for _ in range(count)]
    return [max(0, one) for one in itertools.accumulate(steps, initial=100)]


@pytest.mark.parametrize("options", [None, Options(threads=2)], ids=["one", "threads"])
def test_decided_by_hand(options: Options | None) -> None:
    """Rows and decisions in any order: the reference's rows, also of late ones behind the time that was given out."""
    late = idle = 0
    for seed in range(sized(60, 15)):
        chooser = random.Random(seed)
        lines = lines_of(random_times(chooser, 30))
        session = testing.Session(
            make_flow(), options=options, chunk_rows=chooser.choice((1, 4, 100))
        )
        try:
            fed = 0
            while fed < len(lines):
                more = chooser.randint(1, 6)
                session.feed("lines", lines[fed : fed + more])
                fed += more
                if chooser.random() < 0.5:
                    now = max(int(one.text.split()[1]) for one in lines[:fed])
                    session.decide("sorted", time=(now + chooser.choice((0, 1, 12, 40))) * S)
            ends = chooser.random() < 0.5
            if ends:
                session.end()
            found = session.result()
        finally:
            session.close()
        expected = testing.reference(
            make_flow(), {"lines": lines}, end=ends, decisions=session.decisions
        )
        for name in ("all", "late", "sessions"):
            assert found.rows(name) == expected.rows(name), (seed, name)
        assert found.counts["sorted"].get("idle", 0) == expected.counts["sorted"].get("idle", 0)
        late += len(found.rows("late"))
        idle += found.counts["sorted"].get("idle", 0)
    assert late and idle


def test_the_clock_closes_a_session() -> None:
    """While a live source has nothing, in one thread and in several."""
    for threads in (1, 2):
        closed, source = threading.Event(), tw.push_source()
        flow = tw.Flow("lines")
        ordered = (
            flow.source("lines", Line).map(parsed).order_by("at", idle="100 ms", name="sorted")
        )
        ordered.key_by("user").sessions("150 ms", rows=tw.agg.count()).sink("sessions")
        with tw.start(threads=threads) as running:
            run = running.add(
                flow, {"lines": source}, {"sessions": tw.each(lambda _, e=closed: e.set())}
            )
            source.push(Line(0, "ann 100"), Line(1, "bob 100"))
            assert closed.wait(30)
            source.close()
            assert run.result().counts["sorted"]["idle"] == 1


def test_refused() -> None:
    """An int has no unit, and between slots nobody knows that nothing is on its way."""
    numbers = tw.Flow("numbers").source("lines", Line)
    with pytest.raises(BuildError, match="no unit"):
        numbers.order_by("n", idle="1 second")
    with pytest.raises(BuildError, match="above 0"):
        numbers.map(parsed).order_by("at", idle="0 s")
    with pytest.raises(BuildError, match="'sorted' has idle="):
        tw.run(make_flow(), {"lines": []}, slots=2)


# -- with a checkpoint ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_crashes(tmp_path: Path) -> None:
    """Each batch is what it was, and all are what the reference makes of the rows and the logged decisions."""
    idle = late = 0
    for seed in range(sized(6, 3)):
        chooser = random.Random(seed)
        lines = lines_of(random_times(chooser, 24))
        times = list(itertools.accumulate(chooser.choice((0.0, 1.0, 3.0, 40.0)) for _ in lines))
        rows = [list(zip(times, lines, strict=True))]
        log = TimedLog(
            (0,), follow=True, lane=None, rows_of=rows, clock=Clock(chooser, times[-1] + 250)
        )
        lived = through_crashes(make_flow, log, tmp_path / str(seed), chooser)
        expected = testing.reference(
            make_flow(), {"lines": lines}, end=False, decisions=lived.decisions
        )
        for name, found in lived.sinks.items():
            assert not testing.row_difference(expected.sinks[name], found), (seed, name)
        idle += expected.counts["sorted"]["idle"]
        late += len(lived.sinks["late"])
    assert idle and late
