"""Durable runs whose lanes fall silent: what was decided is decided again after a crash, and the clock is not asked."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.property.clocked_kit import Clock, TimedLog, through_crashes
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.checkpoint.hosts import planned

S = tw.seconds(1)
LANES = (0, 1)


class Tick(NamedTuple):
    ts: tw.Timestamp
    lane: int


def make_flow() -> tw.Flow:
    flow = tw.Flow("ticks", compile="never")
    ticks = flow.source(
        "log", Tick, order_by="ts", lateness="1 second", lane="lane", lanes=LANES,
        idle="10 seconds", epoch_unit="us",
    )  # fmt: skip
    ticks.key_by("lane").sessions("15 seconds", rows=tw.agg.count()).sink("sessions")
    ticks.sink("sorted")
    ticks.late.sink("late")
    return flow


def phases(chooser: random.Random) -> list[list[tuple[float, int]]]:
    """Lanes with long pauses at different times; behind a pause rows go on where the lane was, or by the clock."""
    found = []
    for _ in LANES:
        then, at, rows = 0.0, 0, []
        for _ in range(sized(5, 4)):
            for _ in range(chooser.randint(1, 5)):
                then += chooser.choice((0.0, 1.0, 3.0))
                at += chooser.choice((0, 1, 2)) * S
                rows.append((then, at))
            pause = chooser.choice((5.0, 30.0, 60.0))
            then += pause
            at += round(chooser.choice((0.0, pause))) * S
        found.append(rows)
    return found


def read_rows(log: TimedLog, plans: Sequence[planned.Planned]) -> list[Tick]:
    """The rows in the order in which the rounds have them."""
    at, rows = dict.fromkeys(map(str, LANES), 0), []
    for span in (read["log"] for plan in plans for read in plan.rounds):
        for lane, upto in span.items():
            rows += [row for _, row in log.rows_of[int(lane)][at[lane] : upto]]
            at[lane] = upto
    return rows


@pytest.mark.slow
def test_crashes_among_pauses(tmp_path: Path) -> None:
    """Each batch is what it was, and all are what the reference makes of the rows and the logged decisions."""
    idle = late = closed = 0
    for seed in range(sized(24, 8)):
        chooser = random.Random(seed)
        made = phases(chooser)
        until_s = max(then for rows in made for then, _ in rows) + 80
        ticks = [[(then, Tick(t, lane)) for then, t in rows] for lane, rows in enumerate(made)]
        log = TimedLog((0, 0), follow=True, rows_of=ticks, clock=Clock(chooser, until_s))
        lived = through_crashes(make_flow, log, tmp_path / str(seed), chooser, threads=(1,))
        rows = read_rows(log, lived.plans)
        assert len(rows) == sum(map(len, made))
        expected = testing.reference(
            make_flow(), {"log": rows}, end=False, decisions=lived.decisions
        )
        for name, found in lived.sinks.items():
            assert not testing.row_difference(expected.sinks[name], found), (seed, name)
        idle += expected.counts["log"]["idle"]
        late += len(expected.rows("late"))
        closed += sum(
            one.end == max(t for _, t in made[one.lane]) for one in expected.rows("sessions")
        )
    assert idle and late
    # The last session of a lane, which nothing but the clock can close.
    assert closed
