"""The serial reference runner on cases small enough to compute by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.testing.reference import run_reference
from thalweg.testing.reference_keys import sort_key
from thalweg.testing.reference_parts import Outputs


class Row(NamedTuple):
    t: int
    key: int


class Out(NamedTuple):
    what: str
    t: int
    key: int


@tw.state
class Alarm:
    timer: tw.Timer
    n: int = 0


def row_out(state: Alarm, row: Row) -> Out:
    state.n += 1
    state.timer = row.t + 5
    return Out("row", row.t, row.key)


def timer_out(state: Alarm, key: int, time: int) -> Out:
    return Out("timer", time, key)


def run(process: Any, on_timer: Any, rows: list[Row], **options: Any) -> Outputs:
    flow = tw.Flow("one")
    source = flow.source("in", Row, order_by="t", lateness=options.pop("lateness", 0))
    keyed = source.key_by("key").process(process, state=Alarm, on_timer=on_timer, name="op")
    keyed.sink("out")
    source.late.sink("late")
    return run_reference(flow, {"in": rows}, **options)


def outputs(found: Outputs) -> list[tuple[Any, ...]]:
    return [tuple(one) for one in found.sinks["out"]]


def test_timer_fires_before_the_first_later_row() -> None:
    """A timer for T fires before the first tuple with a greater time, and after those of time T."""
    found = run(row_out, timer_out, [Row(0, 1), Row(5, 2), Row(6, 2)])
    assert outputs(found) == [
        ("row", 0, 1),
        ("row", 5, 2),
        ("timer", 5, 1),
        ("row", 6, 2),
        ("timer", 11, 2),
    ]


def test_row_at_the_timer_moves_it() -> None:
    """A row exactly at the timer's time comes first and can move it."""
    found = run(row_out, timer_out, [Row(0, 1), Row(5, 1)])
    assert outputs(found) == [("row", 0, 1), ("row", 5, 1), ("timer", 10, 1)]


def test_timers_of_one_time_fire_by_key() -> None:
    """Ties of timers go by key, ties of rows by arrival."""
    found = run(row_out, timer_out, [Row(0, 3), Row(0, -1), Row(0, 2), Row(9, 9)])
    assert outputs(found)[:6] == [
        ("row", 0, 3),
        ("row", 0, -1),
        ("row", 0, 2),
        ("timer", 5, -1),
        ("timer", 5, 2),
        ("timer", 5, 3),
    ]


def test_state_is_dropped_when_its_timer_was_not_armed_again() -> None:
    """After on_timer the key starts anew."""

    def count(state: Alarm, row: Row) -> Out:
        state.n += 1
        state.timer = row.t + 5
        return Out("row", state.n, row.key)

    found = run(count, timer_out, [Row(0, 1), Row(1, 1), Row(20, 1)], end=False)
    assert outputs(found) == [("row", 1, 1), ("row", 2, 1), ("timer", 6, 1), ("row", 1, 1)]
    assert found.states["op"][1].n == 1


def test_timers_are_clamped() -> None:
    """A timer set into the past comes at the row's time; inside on_timer strictly later than now."""

    def past(state: Alarm, row: Row) -> None:
        state.timer = row.t - 100

    def again(state: Alarm, key: int, time: int) -> Out:
        state.n += 1
        if state.n < 3:
            state.timer = time - 7
        return Out("timer", time, key)

    found = run(past, again, [Row(10, 1), Row(20, 2)])
    assert outputs(found) == [
        ("timer", 10, 1),
        ("timer", 11, 1),
        ("timer", 12, 1),
        ("timer", 20, 2),
    ]
    assert found.counts["op"]["disarmed"] == 1


def test_end_of_stream_fires_each_timer_once() -> None:
    """At the end pending timers fire in order; those armed then are dropped and counted."""

    def again(state: Alarm, key: int, time: int) -> Out:
        state.timer = time + 1
        return Out("timer", time, key)

    found = run(row_out, again, [Row(3, 2), Row(3, 1)])
    assert outputs(found)[2:] == [("timer", 8, 1), ("timer", 8, 2)]
    assert found.counts["op"]["disarmed"] == 2
    assert found.states["op"] == {}


def test_open_streams_keep_timers() -> None:
    """Without an end only what the watermark has passed is out; a timer at the watermark still waits."""
    found = run(row_out, timer_out, [Row(0, 1), Row(5, 2), Row(7, 3)], lateness=2, end=False)
    assert outputs(found) == [("row", 0, 1), ("row", 5, 2)]
    assert found.states["op"][1].timer == 5


def test_late_rows() -> None:
    """Late is below the earlier maximum minus the lateness; a row exactly there is on time."""
    rows = [Row(10, 1), Row(7, 2), Row(6, 3), Row(12, 4), Row(9, 5), Row(8, 6)]
    found = run(row_out, timer_out, rows, lateness=3)
    assert [row.key for row in found.sinks["late"]] == [3, 6]
    assert found.counts["in"] == {"in": 6, "late": 2, "out": 4}
    assert [one[2] for one in outputs(found) if one[0] == "row"] == [2, 5, 1, 4]


def test_lanes_of_one_order_of_arrival() -> None:
    """Each lane has its own maximum; the watermark is the least, and a lane that appears late finds it moved."""
    flow = tw.Flow("lanes")
    source = flow.source("in", Row, order_by="t", lane="key", lanes="arrival")
    source.sink("out")
    source.late.sink("late")
    rows = [Row(10, 1), Row(9, 2), Row(10, 2), Row(20, 1), Row(9, 1), Row(15, 2)]
    found = run_reference(flow, {"in": rows}, end=False)
    assert found.sinks["late"] == [Row(9, 2), Row(9, 1)]
    assert found.sinks["out"] == [Row(10, 1), Row(10, 2), Row(15, 2)]


def test_depth_first() -> None:
    """A tuple's outputs pass through the whole flow before the next tuple; branches in order of definition."""
    flow = tw.Flow("depth")
    source = flow.source("in", Row)
    one = source.map(lambda row: Row(row.t, 1), into=Row, name="one")
    two = source.flat_map(lambda row: [Row(row.t, 2), Row(row.t, 3)], into=Row, name="two")
    two.union(one, source).sink("out")
    found = run_reference(flow, {"in": [Row(0, 0), Row(1, 0)]})
    assert [tuple(row) for row in found.sinks["out"]] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 0),
    ]


def test_timers_by_operator() -> None:
    """Timers of one time fire by operator first, then by key; their outputs are rows for those behind."""

    def relay(state: Alarm, row: Out) -> Iterator[Out]:
        yield row
        state.timer = row.t

    def second(state: Alarm, key: int, time: int) -> Out:
        return Out("second", time, key)

    flow = tw.Flow("two")
    source = flow.source("in", Row, order_by="t")
    first = source.key_by("key").process(row_out, state=Alarm, on_timer=timer_out, name="first")
    both = first.key_by("key").process(relay, state=Alarm, on_timer=second, name="second")
    both.sink("out")
    found = run_reference(flow, {"in": [Row(0, 2), Row(0, 1)]})
    assert outputs(found) == [
        ("row", 0, 2),
        ("row", 0, 1),
        ("second", 0, 1),
        ("second", 0, 2),
        ("timer", 5, 1),
        ("timer", 5, 2),
        ("second", 5, 1),
        ("second", 5, 2),
    ]


def test_rejected_rows_restore_the_state() -> None:
    """A function that raises leaves the state as it was; the row and the reason go to rejected."""

    def fail(state: Total, row: Row) -> Out:
        state.n += 1
        if row.t == 1:
            raise ValueError("one")
        return Out("n", state.n, row.key)

    flow = tw.Flow("reject", errors="reject")
    op = flow.source("in", Row).key_by("key").process(fail, state=Total, name="op")
    op.sink("out")
    op.rejected.sink("rejected")
    rows: list[Any] = [Row(0, 1), Row(1, 1), (3,), Row(2, 1)]
    found = run_reference(flow, {"in": rows})
    assert outputs(found) == [("n", 1, 1), ("n", 2, 1)]
    bad = tw.Rejected("op", "ValueError: one", "", "Row(t=1, key=1)")
    assert found.sinks["rejected"] == [bad]
    assert found.counts["in"] == {"in": 4, "rejected": 1, "out": 3}


@tw.state
class Total:
    n: int = 0


def test_errors_name_operator_and_row() -> None:
    """Under errors='fail' the run stops with one error."""
    flow = tw.Flow("fail")
    flow.source("in", Row).map(lambda row: 1 // row.t, into=Row, name="inverse").sink("out")
    with pytest.raises(tw.OperatorError, match="operator 'inverse'"):
        run_reference(flow, {"in": [Row(0, 0)]})


def test_sort_key() -> None:
    """Keys compare null first, numbers, NaN last, texts by their UTF-8 bytes."""
    nan = float("nan")
    assert sorted([nan, 2, None, -1.5, 0], key=sort_key)[:4] == [None, -1.5, 0, 2]
    assert sorted(["é", "z", "", "a"], key=sort_key) == ["", "a", "z", "é"]
    assert sorted([(1, None), (1, 0), (0, 5)], key=sort_key) == [(0, 5), (1, None), (1, 0)]
