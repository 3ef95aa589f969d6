"""Durable runs over rows that are there from some time of a clock on, through crashes, until the clock says stop."""

from __future__ import annotations

import dataclasses
import random
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.toy import ToyLog, ToyReader
from tests.property.durable_kit import Crash, Crashes, Database

import thalweg as tw
from thalweg.checkpoint.hosts import planned
from thalweg.connectors import as_source, never
from thalweg.embedded.durable import Durable, DurableHost, batches, reading
from thalweg.engine import stamps
from thalweg.flow.operators.idle import IdleDecision
from thalweg.plan.plan import make_plan

#: What the clock on the wall says first.
BASE_US = 1_700_000_000_000_000


class Clock:
    """Goes on by some seconds whenever it is asked, and says when to stop; the one on the wall is set back at times."""

    def __init__(self, chooser: random.Random, until_s: float) -> None:
        self._chooser, self._until_s = chooser, until_s
        self.now_s, self.stop = 0.0, threading.Event()

    def monotonic(self) -> float:
        self.now_s += self._chooser.choice((0.0, 0.5, 2.0, 4.0))
        if self.now_s > self._until_s:
            self.stop.set()
        return self.now_s

    def time_ns(self) -> int:
        return (BASE_US + round(1e6 * (self.now_s - self._chooser.choice((0, 0, 0, 30))))) * 1_000


@dataclasses.dataclass(frozen=True)
class TimedLog(ToyLog):
    """By lane, rows with the time of the clock from which on they are there."""

    rows_of: Sequence[Sequence[tuple[float, Any]]] = ()
    clock: Any = None

    def open(self) -> Any:
        return _TimedReader(self)


class _TimedReader(ToyReader):
    def end(self, since: Any) -> Mapping[str, Any]:
        log: Any = self._log
        return {
            str(lane): sum(then <= log.clock.now_s for then, _ in rows)
            for lane, rows in enumerate(log.rows_of)
        }

    def read(self, source: Any, start: Any, end: Any, chunk_rows: int, stop: Any) -> Any:
        log: Any = self._log
        for lane, upto in end.items():
            rows = [row for _, row in log.rows_of[int(lane)][start.get(lane, 0) : upto]]
            yield from as_source(source.name, rows).rows(source, chunk_rows, never())


@dataclasses.dataclass(frozen=True)
class Lived:
    """What came of a run through crashes: rows by sink, and what was planned of each batch."""

    sinks: Mapping[str, list[Any]]
    plans: Sequence[planned.Planned]

    @property
    def decisions(self) -> list[IdleDecision]:
        """What was decided and logged."""
        return [IdleDecision(*values) for plan in self.plans for _, values in plan.decisions]


def through_crashes(
    make_flow: Callable[[], tw.Flow],
    log: TimedLog,
    folder: Path,
    chooser: random.Random,
    threads: Sequence[int | None] = (None, 1, 2),
) -> Lived:
    """Runs a flow of one source until its clock says stop."""
    crashes, flow = Crashes(), make_flow()
    (source,) = make_plan(flow).sources
    sinks = {node.name: Database(crashes) for node in make_plan(flow).sinks}
    plans: dict[int, planned.Planned] = {}
    write = planned.write

    def noted(fs: Any, root: str, plan: planned.Planned) -> None:
        write(fs, root, plan)
        plans[plan.batch] = plan

    def run() -> None:
        host = DurableHost(
            make_plan(flow), {source.name: log}, sinks, Durable(str(folder / "ck"), 0.0, "keep"),
            chunk_rows=chooser.choice((1, 3, 100)), threads=chooser.choice(threads),
        )  # fmt: skip
        host.run(log.clock.stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned, "write", noted)
        patch.setattr(reading, "time", types.SimpleNamespace(monotonic=log.clock.monotonic))
        patch.setattr(stamps, "time", log.clock)
        patch.setattr(batches, "_LOOK_S", (0.0, 0.0))
        with crashes.installed():
            while not log.clock.stop.is_set():
                crashes.after(chooser.choice((0, 3, 8, 21, 55)))
                patch.setattr(reading, "ROUND_ROWS", chooser.choice((1, 3, 1000)))
                try:
                    run()
                except Crash:
                    continue
        # What a crash behind the plan left is run once more.
        run()
    return Lived({name: one.rows for name, one in sinks.items()}, [plans[n] for n in sorted(plans)])
