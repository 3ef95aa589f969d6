"""Durable runs whose lanes fall silent: what was decided is decided again after a crash, and the clock is not asked."""

from __future__ import annotations

import dataclasses
import random
import threading
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.connectors.toy import ToyLog, ToyReader
from tests.property.durable_kit import Crash, Crashes, Database
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.checkpoint.hosts import planned
from thalweg.embedded.durable import Durable, DurableHost, batches, reading
from thalweg.flow.operators.idle import IdleDecision
from thalweg.plan.plan import make_plan

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


class Clock:
    """Goes on by a few seconds whenever it is asked, and says when to stop."""

    def __init__(self, chooser: random.Random, until_s: float) -> None:
        self._chooser, self._until_s = chooser, until_s
        self.now_s, self.stop = 0.0, threading.Event()

    def monotonic(self) -> float:
        self.now_s += self._chooser.choice((0.0, 0.5, 2.0, 4.0))
        if self.now_s > self._until_s:
            self.stop.set()
        return self.now_s


@dataclasses.dataclass(frozen=True)
class PhasedLog(ToyLog):
    """Rows of each lane that are there from some time of the clock on: (then, event time)."""

    phases: Any = ()
    clock: Any = None

    def open(self) -> Any:
        return PhasedReader(self)


class PhasedReader(ToyReader):
    def end(self, since: Any) -> Mapping[str, Any]:
        log: Any = self._log
        now_s = log.clock.now_s
        return {
            str(lane): sum(then <= now_s for then, _ in rows)
            for lane, rows in enumerate(log.phases)
        }

    def read(self, source: Any, start: Any, end: Any, chunk_rows: int, stop: Any) -> Any:
        log: Any = self._log
        from thalweg.connectors import as_source, never

        for lane, upto in end.items():
            times = [t for _, t in log.phases[int(lane)][start.get(lane, 0) : upto]]
            rows = [Tick(t, int(lane)) for t in times]
            yield from as_source("log", rows).rows(source, chunk_rows, never())


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


def run_with_crashes(
    log: PhasedLog, folder: Path, chooser: random.Random
) -> tuple[dict[str, Database], list[planned.Planned]]:
    """Runs it until the clock says stop, through crashes; each sink's batches, and what was planned of each."""
    crashes, flow = Crashes(), make_flow()
    sinks = {node.name: Database(crashes) for node in make_plan(flow).sinks}
    plans: dict[int, planned.Planned] = {}
    write = planned.write

    def noted(fs: Any, root: str, plan: planned.Planned) -> None:
        write(fs, root, plan)
        plans[plan.batch] = plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned, "write", noted)
        patch.setattr(reading, "time", types.SimpleNamespace(monotonic=log.clock.monotonic))
        patch.setattr(batches, "_LOOK_S", (0.0, 0.0))
        with crashes.installed():
            while not log.clock.stop.is_set():
                crashes.after(chooser.choice((0, 3, 8, 21, 55)))
                patch.setattr(reading, "ROUND_ROWS", chooser.choice((1, 3, 1000)))
                host = DurableHost(
                    make_plan(flow), {"log": log}, sinks, Durable(str(folder / "ck"), 0.0, "keep"),
                    chunk_rows=chooser.choice((1, 3, 100)),
                )  # fmt: skip
                try:
                    host.run(log.clock.stop)
                except Crash:
                    continue
    # What a crash behind the plan left is run once more.
    DurableHost(make_plan(flow), {"log": log}, sinks, Durable(str(folder / "ck"), 0.0, "keep")).run(
        log.clock.stop
    )
    return sinks, [plans[batch] for batch in sorted(plans)]


def read_rows(log: PhasedLog, plans: list[planned.Planned]) -> list[Tick]:
    """The rows in the order in which the rounds have them."""
    at, rows = dict.fromkeys(map(str, LANES), 0), []
    for span in (read["log"] for plan in plans for read in plan.rounds):
        for lane, upto in span.items():
            rows += [Tick(t, int(lane)) for _, t in log.phases[int(lane)][at[lane] : upto]]
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
        log = PhasedLog((0, 0), follow=True, phases=made, clock=Clock(chooser, until_s))
        sinks, plans = run_with_crashes(log, tmp_path / str(seed), chooser)
        rows = read_rows(log, plans)
        assert len(rows) == sum(map(len, made))
        decisions = [IdleDecision(*values) for plan in plans for _, values in plan.decisions]
        expected = testing.reference(make_flow(), {"log": rows}, end=False, decisions=decisions)
        for name, sink in sinks.items():
            assert not testing.row_difference(expected.sinks[name], sink.rows), (seed, name)
        idle += expected.counts["log"]["idle"]
        late += len(expected.rows("late"))
        closed += sum(
            one.end == max(t for _, t in made[one.lane]) for one in expected.rows("sessions")
        )
    assert idle and late
    # The last session of a lane, which nothing but the clock can close.
    assert closed
