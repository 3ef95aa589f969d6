"""Sources whose rows are stamped: the stamps are data, and the rest follows from them, in every host, after kills."""

from __future__ import annotations

import itertools
import random
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from tests.property.clocked_kit import BASE_US, Clock, TimedLog, through_crashes
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.engine import stamps
from thalweg.errors import BuildError
from thalweg.plan.plan import make_plan
from thalweg.spark.idle import IdleSources


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


@pytest.mark.slow
def test_crashes(tmp_path: Path) -> None:
    """Through crashes each batch is what it was, stamps included, and the clock closes what no row closes."""
    quiet_ones = 0
    for seed in range(sized(6, 2)):
        chooser = random.Random(seed)
        steps = [chooser.choice((0.0, 1.0, 3.0, 30.0)) for _ in range(24)]
        times = list(itertools.accumulate(steps))
        rows = [[(then, ("ab"[n % 2], n)) for n, then in enumerate(times)]]
        log = TimedLog(
            (0,), follow=True, lane=None, rows_of=rows, clock=Clock(chooser, times[-1] + 250)
        )
        lived = through_crashes(
            lambda: make_flow("10 seconds", "never"), log, tmp_path / str(seed), chooser
        )
        found = lived.sinks
        assert [row.n for row in found["all"]] == list(range(24))
        check(found, lived.decisions, end=False)
        quiet_ones += sum(row.at > found["all"][-1].at for row in found["quiet"])
    assert quiet_ones


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
