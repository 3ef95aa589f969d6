"""Sources whose rows are stamped: the stamps are data, and the rest follows from them, in every host, after kills."""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from tests.connectors.toy import ToyLog, ToyReader
from tests.property.durable_kit import Crash, Crashes, Database
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.checkpoint.hosts import planned
from thalweg.connectors import as_source, never
from thalweg.embedded.durable import Durable, DurableHost, batches, reading
from thalweg.engine import stamps
from thalweg.errors import BuildError
from thalweg.flow.operators.idle import IdleDecision
from thalweg.plan.plan import make_plan
from thalweg.spark.idle import IdleSources

BASE_US = 1_700_000_000_000_000


class Hit(NamedTuple):
    user: str
    at: tw.Timestamp
    n: int


@tw.state
class Waiting:
    hits: int = 0
    timer: tw.Timer = tw.NEVER


def wait(state: Waiting, hit: Hit) -> None:
    state.hits += 1
    state.timer = hit.at + tw.seconds(20)


def quiet(state: Waiting, user: str, time: int) -> Hit:
    return Hit(user, time, state.hits)


def make_flow(idle: str | None = None, compile: Any = "auto") -> tw.Flow:
    """Windows and timers by the clock on the wall; the sink ``all`` has what came, with its stamps."""
    flow = tw.Flow("hits", compile=compile)
    hits = flow.source("hits", Hit, order_by="at", stamp="at", idle=idle)
    hits.sink("all")
    hits.late.sink("late")
    by_user = hits.key_by("user")
    by_user.window("10 seconds", hits=tw.agg.count(), total=tw.agg.sum("n")).sink("windows")
    by_user.process(wait, state=Waiting, on_timer=quiet, name="quiet").sink("quiet")
    return flow


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on the wall that goes on by some seconds at each look, and is set back now and then."""
    steps = itertools.cycle((0, 3_000_001, 7_000_000, -9_000_000, 2_500_000, 40_000_000))
    times = itertools.accumulate(steps, initial=BASE_US)
    monkeypatch.setattr(stamps, "time", types.SimpleNamespace(time_ns=lambda: next(times) * 1_000))


def check(found: Mapping[str, list[Any]], decisions: Any = (), *, end: bool = True) -> Any:
    """All that came out is what the reference makes of the rows with their stamps, none of which is late."""
    rows = found["all"]
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    expected = testing.reference(
        make_flow("10 seconds", "never"), {"hits": rows}, end=end, decisions=decisions
    )
    for name, mine in found.items():
        assert not testing.row_difference(expected.sinks[name], mine), name
    assert not found["late"]
    return expected


SINKS = ("all", "late", "windows", "quiet")


@pytest.mark.usefixtures("wall")
def test_in_this_process() -> None:
    """Rows of any form get stamps that never go back; threads and slots give what follows from them."""
    users = ["a", "é", ""]
    made: list[Any] = [
        [(users[n % 3], n) for n in range(40)],
        [{"user": users[n % 3], "n": n} for n in range(40)],
        [Hit(users[n % 3], -1, n) for n in range(40)],  # a value that is there is not taken
        pa.table({"n": list(range(40)), "user": [users[n % 3] for n in range(40)]}),
    ]
    for rows, how in zip(made, ({}, {"threads": 2}, {"slots": 2}, {"chunk_rows": 7}), strict=True):
        given = rows if isinstance(rows, pa.Table) else _in_pieces(rows)
        result = tw.run(make_flow(), {"hits": given}, **how)
        found = {name: result.rows(name) for name in SINKS}
        assert [(row.user, row.n) for row in found["all"]] == [(users[n % 3], n) for n in range(40)]
        assert found["all"][0].at >= BASE_US
        check(found)


def _in_pieces(rows: list[Any]) -> Iterator[Any]:
    yield from rows


def test_refused() -> None:
    """What no host can fill, or what the input would have to know, is refused by name."""
    for record, how, says in (
        (Hit, {"stamp": "n"}, "tw.Timestamp"),
        (Hit, {"stamp": "nn"}, "no field 'nn'"),
        (Hit, {"stamp": "at", "arrival": ["at"]}, "arrival="),
        (Hit, {"stamp": "at", "order_by": "at", "order": "key"}, "order of their stamps"),
        (Hit, {"stamp": "at", "order_by": "at", "lane": "user", "lanes": ["a"]}, "lane="),
        (NamedTuple("Only", [("at", tw.Timestamp)]), {"stamp": "at"}, "no other field"),
    ):
        with pytest.raises((BuildError, tw.errors.SchemaError), match=says):
            tw.Flow("f").source("hits", record, **how)  # type: ignore[arg-type]


# -- with a checkpoint ------------------------------------------------------------------------------------------


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
    """Rows that are there from some time of the clock on."""

    times: Any = ()
    clock: Any = None

    def open(self) -> Any:
        return TimedReader(self)


class TimedReader(ToyReader):
    def end(self, since: Any) -> Mapping[str, Any]:
        log: Any = self._log
        return {"0": sum(then <= log.clock.now_s for then in log.times)}

    def read(self, source: Any, start: Any, end: Any, chunk_rows: int, stop: Any) -> Any:
        numbers = range(start.get("0", 0), end["0"])
        rows = [("ab"[n % 2], n) for n in numbers]
        yield from as_source("hits", rows).rows(source, chunk_rows, never())


@pytest.mark.slow
def test_crashes(tmp_path: Path) -> None:
    """Through crashes each batch is what it was, stamps included, and the clock closes what no row closes."""
    quiet_ones = 0
    for seed in range(sized(6, 2)):
        chooser = random.Random(seed)
        steps = [chooser.choice((0.0, 1.0, 3.0, 30.0)) for _ in range(24)]
        times = list(itertools.accumulate(steps))
        log = TimedLog(
            (0,), follow=True, lane=None, times=times, clock=Clock(chooser, times[-1] + 250)
        )
        found, plans = _through_crashes(log, tmp_path / str(seed), chooser)
        assert [row.n for row in found["all"]] == list(range(24))
        decisions = [IdleDecision(*values) for plan in plans for _, values in plan.decisions]
        check(found, decisions, end=False)
        quiet_ones += sum(row.at > found["all"][-1].at for row in found["quiet"])
    assert quiet_ones


def _through_crashes(
    log: TimedLog, folder: Path, chooser: random.Random
) -> tuple[dict[str, list[Any]], list[planned.Planned]]:
    crashes, flow = Crashes(), make_flow("10 seconds", "never")
    sinks = {node.name: Database(crashes) for node in make_plan(flow).sinks}
    plans: dict[int, planned.Planned] = {}
    write = planned.write

    def noted(fs: Any, root: str, plan: planned.Planned) -> None:
        write(fs, root, plan)
        plans[plan.batch] = plan

    def host() -> DurableHost:
        return DurableHost(
            make_plan(flow), {"hits": log}, sinks, Durable(str(folder / "ck"), 0.0, "keep"),
            chunk_rows=chooser.choice((1, 3, 100)), threads=chooser.choice((None, 1, 2)),
        )  # fmt: skip

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
                    host().run(log.clock.stop)
                except Crash:
                    continue
        # What a crash behind the plan left is run once more.
        host().run(log.clock.stop)
    return {name: one.rows for name, one in sinks.items()}, [plans[n] for n in sorted(plans)]


def test_a_batch_that_was_read_without_stamps() -> None:
    """It is not repeated with stamps of now: whoever has seen its rows has seen others."""
    from thalweg.embedded.durable.stamped import StampedInput

    source = make_plan(make_flow()).sources[0]
    plain: Any = types.SimpleNamespace(again=lambda span: iter(()), span=lambda: None)
    for span in ({"0": 3}, [3, 0], [["in/a.csv", 9, None, 3, 0, True]]):
        with pytest.raises(tw.errors.CheckpointMismatch, match="once as it was"):
            list(StampedInput(source, plain, lambda: 0).again(span))
    assert list(StampedInput(source, plain, lambda: 0).again([[7, {"0": 3}]])) == []


# -- on Spark ---------------------------------------------------------------------------------------------------


def test_a_driver_stamps_a_batch_once(tmp_path: Path) -> None:
    """The stamps of a batch are on the disk before it runs; a repeat reads them, and the next does not go back."""
    now = [BASE_US]

    def driver() -> IdleSources:
        args = make_plan(make_flow()), {}, pafs.LocalFileSystem(), str(tmp_path), lambda: None
        return IdleSources(*args, now_us=lambda: now[0])

    first = driver().begin(0, None, 100)
    now[0] += 5
    again = driver()
    assert again.begin(0, None, 100) == first
    assert first.stamps == {"hits": BASE_US}
    now[0] -= 1_000
    assert again.begin(1, None, 100).stamps == {"hits": BASE_US - 995}
