"""Sources that hold back others: how many rows wait for them, how they are named, and how they go on."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from tests.unit.engine_kit import DEADLINE_S, ROWS, WAYS, Row, bounded, no_thread_left

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.embedded import feeding
from thalweg.embedded.feeding import Feeding
from thalweg.engine.build import prepare
from thalweg.engine.serial import SerialEngine
from thalweg.plan.plan import make_plan
from thalweg.workers.engine import ParallelEngine

__all__ = ["no_thread_left"]

WAITING = 200


class Watched:
    """A run of a union of the sources ``busy`` and ``idle``, into which a test pushes."""

    def __init__(self, options: Any) -> None:
        flow = tw.Flow("watched")
        busy = flow.source("busy", Row, order_by="ts")
        busy.union(flow.source("idle", Row, order_by="ts")).sink("out")
        plan = make_plan(flow)
        prepared = prepare(plan)
        self.engine = (
            SerialEngine(prepared) if options is None else ParallelEngine(prepared, options=options)
        )
        self.sources = {name: tw.push_source(capacity=50, linger_s=0) for name in ("busy", "idle")}
        self.stop = threading.Event()
        feeds = {one.name: self.sources[one.name].rows(one, 50, self.stop) for one in plan.sources}
        self.chunks: list[Chunk] = []
        self.feeding = Feeding(
            self.engine, self.sources, feeds, self.stop, self._write, waiting_rows=WAITING
        )
        self._feeds = feeds

    def _write(self, leaving: Any) -> None:
        self.chunks += [chunk for chunks in leaving.values() for chunk in chunks]

    def run(self) -> list[Row]:
        """To the end of the sources; what came out."""
        try:
            self.feeding.run()
            for leaving in (*self.engine.finish(), *self.engine.settle()):
                self._write(leaving)
        finally:
            self.stop.set()
            self.engine.stop()
            for feed in self._feeds.values():
                feed.close()
        return [row for chunk in self.chunks for row in chunk.rows()]

    def waiting(self, name: str) -> int:
        """Rows of a source that wait."""
        rows = self.engine.gates[name].waiting
        return 0 if rows is None else len(rows)


class Told(logging.Handler):
    """Sets an event when the idle source is named; keeps the messages."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.event, self.messages = threading.Event(), list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        if "source 'idle' gives no rows" in self.messages[-1]:
            self.event.set()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A source that holds back others is named at once."""
    monkeypatch.setattr(feeding, "_IDLE_S", 0.0)
    handler, logger = Told(), logging.getLogger("thalweg")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", [None, *WAYS])
def test_a_busy_source_waits_for_an_idle_one(way: str | None, told: Told) -> None:
    """So few of its rows wait; the idle one is named, once; and when it has rows, all flow."""
    watched = Watched(None if way is None else WAYS[way])
    busy, idle = watched.sources["busy"], watched.sources["idle"]
    pushed, found = threading.Event(), dict[str, Any]()

    def push() -> None:
        busy.push(*ROWS)
        busy.close()
        pushed.set()

    def look() -> None:
        assert told.event.wait(DEADLINE_S)
        found["idle"] = watched.feeding.idle()
        found["waiting"] = watched.waiting("busy")
        # Its pushes wait, too: all rows have no room.
        found["pushed"] = pushed.is_set()
        idle.push(Row(2_000, 0, 0))
        idle.close()

    def test() -> list[Row]:
        for target in (push, look):
            threading.Thread(target=target, daemon=True).start()
        return watched.run()

    rows = bounded(test)
    assert found["idle"] == ["idle"]
    assert 0 < found["waiting"] <= WAITING + 50
    assert not found["pushed"]
    assert rows == [*ROWS, Row(2_000, 0, 0)]
    # On a machine that is busy otherwise the other one may be late as well.
    assert [one for one in told.messages if "source 'idle' gives no rows" in one] == [
        "source 'idle' gives no rows: rows of other sources wait for its watermark; idle= says after how long"
        " they go on without it"
    ]


def test_nobody_is_idle_alone() -> None:
    """A source whose own rows wait for its own clock holds back nobody; nor does one in another domain."""
    flow = tw.Flow("alone")
    flow.source("late", Row, order_by="ts", lateness=1_000).sink("out")
    flow.source("other", Row).sink("untimed")
    engine = SerialEngine(prepare(make_plan(flow)))
    engine.feed("late", Chunk.from_rows(engine.plan.sources[0].record, ROWS))
    alone = Feeding(engine, {}, {}, threading.Event(), lambda leaving: None)
    assert len(engine.gates["late"].waiting or ()) == len(ROWS)
    assert alone.idle() == []
