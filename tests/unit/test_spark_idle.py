"""What a driver on Spark decides of silent lanes: only while it looked, once a batch, and the same for a repeat."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.fs as pafs

import thalweg as tw
from thalweg.checkpoint.hosts import planned
from thalweg.checkpoint.record import CommitRecord
from thalweg.plan.plan import make_plan
from thalweg.spark.idle import IdleSources
from thalweg.spark.reading.inputs import LiveInput

S = tw.seconds(1)
EARLIEST = -(2**63)


class Tick(NamedTuple):
    ts: tw.Timestamp
    lane: int


class Driver:
    """Plays the driver over a folder: batches, commits, looks; the time is set by hand."""

    def __init__(self, folder: Path, most: float = math.inf) -> None:
        flow = tw.Flow("ticks", compile="never")
        flow.source("log", Tick, order_by="ts", lane="lane", lanes=[0, 1], idle="10 seconds").sink(
            "out"
        )
        self.now_s, self.woken = 0.0, 0
        self.record: CommitRecord | None = None
        self._args: tuple[Any, ...] = (
            make_plan(flow), {"log": LiveInput(False, most)}, pafs.LocalFileSystem(), str(folder),
            self._wake,
        )  # fmt: skip
        self.root = str(folder)
        self.start()

    def start(self) -> None:
        """A new process goes on from the record."""
        self.idle = IdleSources(*self._args, now_s=lambda: self.now_s)
        self.idle.resume(self.record)

    def _wake(self) -> None:
        self.woken += 1

    def look(self, at_s: float) -> bool:
        """Whether a look at that time starts a batch."""
        self.now_s, before = at_s, self.woken
        self.idle.look(at_s)
        return self.woken > before

    def begin(self, at_s: float) -> list[tuple[Any, int]]:
        """A batch begins: the lanes that are declared idle, and how far they are taken to be."""
        self.now_s = at_s
        batch = 0 if self.record is None else self.record.batch + 1
        begins = self.idle.begin(batch, self.record, 100)
        assert begins.chunk_rows == 100
        return [(one.lane, one.time) for one in begins.decisions]

    def commit(
        self,
        at_s: float,
        lanes: dict[int, int],
        came: Sequence[int] = (),
        idle: Sequence[tuple[int, int]] = (),
    ) -> None:
        """It ends: the lanes' tops, those with rows, and those that are idle by then."""
        self.now_s = at_s
        batch = 0 if self.record is None else self.record.batch + 1
        facts = {"lanes": list(lanes.items()), "arrived": len(lanes), "idle": list(idle)}
        extra = {"gates": {"log": facts}}
        self.record = CommitRecord(batch, "a", 1, extra=extra)
        report = {"came": {"log": list(came)}, "counts": {"log": {"in": len(came)}}}
        self.idle.committed(self.record, [report])


def test_a_silent_lane_wakes_the_query_once(tmp_path: Path) -> None:
    """After ``idle=`` of looking a batch is started, which begins with the decision; until it has run no other is."""
    driver = Driver(tmp_path)
    assert driver.begin(1.0) == []
    driver.commit(3.0, {0: 5 * S, 1: 7 * S}, came=(0, 1))
    assert not driver.look(12.9)  # from the end of the batch: its time is no silence
    assert driver.look(13.0)
    assert not driver.look(14.0)
    assert driver.begin(14.1) == [(0, 15 * S), (1, 17 * S)]
    driver.commit(14.2, {0: 5 * S, 1: 7 * S}, idle=[(0, 15 * S), (1, 17 * S)])
    assert driver.idle.said == {"log": {"is_idle": True, "lanes": ["0", "1"]}}
    # Where all are idle, time goes on, in steps that a batch is worth, and longer ones the longer it is silent.
    found, tops = [], {0: 5 * S, 1: 7 * S}
    for at in range(15, 4_000):
        if driver.look(at):
            found.append(at)
            driver.commit(at, tops, idle=[(0, 15 * S), *driver.begin(at)])
    assert 10 < len(found) < 100
    gaps = [after - before for before, after in itertools.pairwise(found)]
    assert gaps[0] <= 3
    assert gaps[-1] > 100


def test_nobody_is_idle_while_nobody_looks(tmp_path: Path) -> None:
    """A batch that took a minute is no silence of the lanes that had rows before it; one that read all is a look."""
    driver = Driver(tmp_path)
    driver.begin(0.0)
    driver.commit(60.0, {0: 5 * S, 1: 7 * S}, came=(0, 1))
    assert driver.begin(61.0) == []
    driver.commit(90.0, {0: 6 * S, 1: 7 * S}, came=(0,))
    # Lane 1 was silent from 60 to 61 only: nothing is known of the time behind the beginning of the batch.
    assert driver.begin(90.5) == []
    driver.commit(91.0, {0: 7 * S, 1: 7 * S}, came=(0,))
    # That one began at 90.5 and read all there was.
    assert driver.begin(92.0) == [(1, 37 * S + S // 2)]


def test_a_batch_that_was_full_is_no_look(tmp_path: Path) -> None:
    """Where a batch took as much as it may, nobody knows whether a silent lane had rows behind that."""
    driver = Driver(tmp_path, most=1)
    driver.begin(0.0)
    driver.commit(1.0, {0: 5 * S, 1: 7 * S}, came=(0, 1))
    for at in range(2, 60):
        assert driver.begin(float(at)) == []
        driver.commit(at + 0.5, {0: at * S, 1: 7 * S}, came=(0,))


def test_a_repeat_decides_the_same(tmp_path: Path) -> None:
    """After a crash the batch begins as it did, though nobody has looked since; its plan is deleted behind it."""
    driver = Driver(tmp_path)
    driver.begin(1.0)
    driver.commit(3.0, {0: 5 * S}, came=(0,))
    assert driver.look(20.0)
    first = driver.begin(20.0)
    assert first == [(0, 22 * S), (1, EARLIEST)]
    driver.start()
    assert driver.begin(500.0) == first
    fs = pafs.LocalFileSystem()
    assert planned.read(fs, driver.root, 1) is not None
    driver.commit(501.0, {0: 5 * S}, idle=first)
    assert planned.read(fs, driver.root, 1) is None
    driver.start()
    assert not driver.look(501.5)


def test_what_was_found_before_a_batch_that_began_by_itself(tmp_path: Path) -> None:
    """Rows that came while it was decided: the batch begins with the decision, and then it is used up."""
    driver = Driver(tmp_path)
    driver.begin(1.0)
    driver.commit(2.0, {0: 5 * S, 1: 7 * S}, came=(0, 1))
    assert driver.look(12.0)
    assert driver.begin(12.1)
    assert not driver.look(12.2)  # it runs
    driver.commit(12.3, {0: 25 * S, 1: 26 * S}, came=(0, 1))
    assert driver.begin(12.4) == []
