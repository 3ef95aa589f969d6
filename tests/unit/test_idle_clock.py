"""When sources and lanes are idle: by a clock that the test moves, and what is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.engine.hold_ups import HoldUps
from thalweg.engine.meter import Meter
from thalweg.engine.serial import SerialEngine
from thalweg.engine.watermarks.idle_clock import IdleClock
from thalweg.plan.plan import make_plan

S = tw.seconds(1)


class Row(NamedTuple):
    ts: tw.Timestamp
    lane: int = 0


class Step(NamedTuple):
    n: int
    lane: int = 0


class Bench:
    """A union of sources, an engine, and a clock."""

    def __init__(self, *sources: dict[str, Any], record: Any = Row) -> None:
        flow = tw.Flow("bench", compile="never")
        order = {"order_by": record._fields[0]}
        first, *others = (
            flow.source(f"s{i}", record, **{"idle": "10 seconds", **order, **one})
            for i, one in enumerate(sources)
        )
        (first.union(*others) if others else first).sink("out")
        self.prepared = prepare(make_plan(flow))
        self.engine = SerialEngine(self.prepared)
        names = [source.name for source in self.engine.plan.sources]
        self.clock = IdleClock(self.engine.plan, names, 0.0)
        self.record, self.names = record, names

    @property
    def watermark(self) -> int:
        (found,) = self.engine.watermarks().values()
        return found

    def rows(self, name: str, now_s: float, *rows: Any) -> None:
        """Rows of a source come."""
        source = next(one for one in self.engine.plan.sources if one.name == name)
        self.engine.feed(name, Chunk.from_rows(source.record, [self.record(*row) for row in rows]))
        list(self.engine.advance())
        self.clock.came(self.engine.gates[name], now_s)

    def look(self, now_s: float, *names: str) -> list[tuple[str, Any, int]]:
        """Nothing more is there of some sources, by default of all; what is decided."""
        for name in names or self.names:
            self.clock.looked(name, now_s)
        found = self.clock.decide(self.engine.gates)
        for one in found:
            self.engine.decide(one)
        list(self.engine.advance())
        return [(one.source, one.lane, one.time) for one in found]


def test_one_source_runs_on_with_the_clock() -> None:
    """Behind ``idle=`` its time is that of its greatest row and the time since the last, less the lateness."""
    bench = Bench({"lateness": "1 second"})
    bench.rows("s0", 5.0, (100 * S,), (99 * S,))
    assert bench.look(14.9) == []
    assert bench.look(15.0) == [("s0", None, 110 * S)]
    assert bench.watermark == 109 * S
    assert bench.look(15.5) == []  # a step is a second
    assert bench.look(16.5) == [("s0", None, 100 * S + tw.milliseconds(11_500))]
    bench.rows("s0", 17.0, (110 * S,), (112 * S,))
    assert bench.watermark == 111 * S
    late = bench.engine.counts["s0"]
    assert (late["late"], late["idle"]) == (1, 1)
    assert bench.look(26.9) == []


def test_an_idle_source_holds_nothing_back() -> None:
    """The others go on without it; when it comes again, it counts from what they were given."""
    bench = Bench({}, {})
    bench.rows("s1", 1.0, (50 * S,))
    assert bench.watermark < 0
    assert bench.look(10.0) == [("s0", None, -(2**63))]  # it has never come
    assert bench.watermark == 50 * S
    bench.rows("s1", 11.0, (60 * S,))
    bench.rows("s0", 12.0, (59 * S,), (61 * S,))
    assert bench.engine.counts["s0"]["late"] == 1
    assert bench.watermark == 60 * S
    assert bench.look(21.0) == [("s1", None, 70 * S)]
    assert bench.watermark == 61 * S
    assert bench.look(22.0) == [("s0", None, 71 * S)]  # now all are idle: the farthest counts
    assert bench.watermark == 71 * S


def test_lanes() -> None:
    """A partition without rows holds the others back no longer; of each the silence is its own."""
    bench = Bench({"lane": "lane", "lanes": [0, 1, 2]})
    bench.rows("s0", 1.0, (10 * S, 0), (5 * S, 1))
    assert bench.look(10.0) == [("s0", 2, -(2**63))]
    assert bench.watermark == 5 * S
    bench.rows("s0", 10.5, (12 * S, 0))
    assert bench.look(11.0) == [("s0", 1, 15 * S)]
    assert bench.watermark == 12 * S
    (said,) = Meter(bench.prepared, bench.engine).measured().sources
    assert (said.idle_lanes, said.is_idle, said.pauses) == (("2", "1"), False, 2)
    assert (said.holds, said.held_by, said.watermark) == (True, "0", 12 * S)


def test_time_in_which_nobody_looked_is_no_silence() -> None:
    """A flow that was busy for a minute declares nothing idle; only a look that found nothing does."""
    bench = Bench({}, {})
    bench.rows("s0", 1.0, (10 * S,))
    assert bench.look(60.0, "s1") == [("s1", None, -(2**63))]
    assert bench.look(60.0, "s0") == [("s0", None, 69 * S)]


def test_ints_have_no_unit() -> None:
    """Lanes are left out, and time stands where all are idle."""
    bench = Bench({"lane": "lane", "lanes": [0, 1]}, record=Step)
    bench.rows("s0", 1.0, (10, 0), (5, 1))
    assert bench.look(30.0) == [("s0", 0, 10), ("s0", 1, 5)]
    assert bench.watermark == 10
    assert bench.look(60.0) == []


def test_a_source_without_idle_is_waited_for() -> None:
    """Time does not run while a source that may not be idle is silent; the log says once who is waited for."""
    bench = Bench({}, {"idle": None})
    bench.rows("s0", 1.0, (10 * S,))
    assert bench.look(30.0) == [("s0", None, 39 * S)]
    assert bench.watermark == -(2**63)


def test_who_is_waited_for_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A source or a lane for which rows wait is named after some seconds, with what to do."""
    bench = Bench({"idle": None}, {"lane": "lane", "lanes": [0, 1], "idle": None})
    bench.rows("s0", 1.0, (10 * S, 0))
    hold_ups = HoldUps(bench.engine)
    for now_s in (1.0, 5.9, 6.1, 20.0):
        hold_ups.look(bench.names, now_s)
    assert [record.getMessage() for record in caplog.records] == [
        "source 's1', lane 0, gives no rows: other rows wait for its watermark; idle= says after how long they go on"
        " without it"
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"idle": 10}, "idle"),
        ({"idle": "soon"}, "idle: not a duration"),
        ({"idle": "0 s"}, "above 0"),
        ({"idle": dt.timedelta(seconds=-1)}, "above 0"),
        ({"idle": "1 s", "order": "key"}, "only a source with order_by="),
        ({"idle": "1 s", "order_by": None}, "only a source with order_by="),
        ({"idle": "1 s", "lane": "lane"}, r"needs lanes=\[...\] or lanes='arrival'"),
    ],
)
def test_refused(given: dict[str, Any], text: str) -> None:
    """What ``idle=`` cannot be is refused when the flow is built."""
    with pytest.raises(tw.BuildError, match=text):
        tw.Flow("f").source("s", Row, **{"order_by": "ts", **given})


def test_refused_by_hosts() -> None:
    """An int alone gains nothing, which every host says at the call."""
    flow = tw.Flow("f")
    flow.source("s", Step, order_by="n", idle="1 s").sink("out")
    with pytest.raises(tw.BuildError, match="idle= does nothing here"):
        tw.run(flow, {"s": []})
    with pytest.raises(tw.BuildError, match="idle= does nothing here"):
        tw.spark.start(flow, {"s": tw.files("x", "csv")}, {})
    flow = tw.Flow("f")
    flow.source("s", Row, order_by="ts", idle="1 s").sink("out")
    # What is there already is never idle.
    assert tw.run(flow, {"s": [Row(1)]}).counts["s"].get("idle", 0) == 0


def test_a_checkpoint_goes_on_without_idle() -> None:
    """Lanes that were idle count again, from the watermark that was given out."""
    from thalweg.engine.watermarks.gate_state import gate_facts, set_gate_facts

    bench = Bench({"lane": "lane", "lanes": [0, 1]})
    bench.rows("s0", 1.0, (10 * S, 0), (5 * S, 1))
    bench.look(5.0)
    bench.rows("s0", 9.0, (20 * S, 0))
    bench.look(11.0)
    assert bench.watermark == 20 * S
    then = Bench({"lane": "lane", "lanes": [0, 1], "idle": None})
    set_gate_facts(then.engine.gates["s0"], gate_facts(bench.engine.gates["s0"]))
    assert then.watermark == 20 * S
    then.rows("s0", 12.0, (6 * S, 1))
    assert then.engine.counts["s0"]["late"] == 1
    assert testing.IdleDecision("s0", 1, "idle", 3, 0).lane == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"threads": 1}, {"threads": 2}, {"slots": 2}])
def test_a_session_closes_while_its_source_is_open(how: dict[str, int]) -> None:
    """In every kind of run: nothing comes any more, one source never gave a row, and the session is out."""
    flow = tw.Flow("live", compile="never")
    order: dict[str, Any] = {"order_by": "ts", "idle": "50 ms"}
    both = flow.source("a", Row, **order).union(flow.source("b", Row, **order), name="both")
    both.key_by("lane").sessions("200 ms", rows=tw.agg.count()).sink("sessions")
    given = {name: tw.push_source(linger_s=0) for name in ("a", "b")}
    closed: list[Any] = []

    def take(session: Any) -> None:
        closed.append(session)
        for one in given.values():
            one.close()

    given["a"].push(Row(7 * S, 3), Row(7 * S + 1, 3))
    result = tw.run(flow, given, {"sessions": tw.each(take)}, **how)
    assert [(one.lane, one.rows) for one in closed] == [(3, 2)]
    assert (result.counts["a"]["idle"], result.counts["b"]["idle"]) == (1, 1)
    assert "idle: {'a': 1, 'b': 1}" in repr(result)
