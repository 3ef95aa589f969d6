"""The test kit itself: its examples, what it accepts, and that it finds what it is there to find."""

from __future__ import annotations

import doctest
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import thalweg as tw
from thalweg import testing
from thalweg.plan.plan import Plan, make_plan
from thalweg.testing import compare, recut, runs, session


class Click(NamedTuple):
    ts: tw.Timestamp
    user: int


def visits(lateness: int = 0) -> tw.Flow:
    flow = tw.Flow("visits", compile="never")
    clicks = flow.source("clicks", Click, order_by="ts", lateness=lateness)
    clicks.key_by("user").sessions(10, pages=tw.agg.count()).sink("visits")
    clicks.late.sink("late")
    return flow


def test_examples() -> None:
    """The examples of the docstrings hold."""
    modules = (runs, session, compare, recut)
    found = [doctest.testmod(one, globs={"__name__": "example"}) for one in modules]
    assert sum(one.attempted for one in found) > 10
    assert not any(one.failed for one in found)


def test_run_does_not_depend_on_cuts() -> None:
    """Any chunks and cuts give the same; a table does as well as rows."""
    rows = [Click(t, t % 3) for t in (0, 5, 3, 20, 21, 50)]
    whole = testing.run(visits(5), {"clicks": rows})
    table = pa.table({"ts": [r.ts for r in rows], "user": [r.user for r in rows]})
    table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))
    for data in (rows, table, iter(rows)):
        cut = testing.run(visits(5), {"clicks": data}, chunk_rows=2, cuts=[1, 4])
        assert cut == whole


def test_session_steps() -> None:
    """Rows wait until advance; a tick moves the clock; take gives what is new; the end fires what is left."""
    session = testing.Session(visits(), compile="never")
    session.push("clicks", Click(0, 1), Click(4, 1), Click(4, 2))
    assert session.state("sessions", 1) is None
    session.advance()
    assert session.state("sessions", 1).pages_ == 2
    assert session.take("visits") == []
    session.tick(14)
    assert session.rows("visits") == []  # a row at 14 would still join
    session.tick(15)
    assert [tuple(row) for row in session.take("visits")] == [(1, 0, 4, 2), (2, 4, 4, 1)]
    session.push("clicks", Click(3, 1), Click(16, 3))
    session.end()
    session.end()
    assert session.rows("late") == [Click(3, 1)]
    assert [tuple(row) for row in session.take("visits")] == [(3, 16, 16, 1)]
    assert session.states("sessions") == {}
    with pytest.raises(tw.BuildError, match="have ended"):
        session.push("clicks", Click(0, 1))


def test_session_names() -> None:
    """A name that does not exist is answered with those that do."""
    session = testing.Session(visits(), compile="never")
    with pytest.raises(tw.BuildError, match="no source 'click'; there are: clicks"):
        session.push("click", Click(0, 1))
    with pytest.raises(tw.BuildError, match="no sink 'x'; there are: late, visits"):
        session.rows("x")
    with pytest.raises(tw.BuildError, match="no keyed operator 'x'; there are: sessions"):
        session.state("x", 1)


def test_assert_same_finds_impure_functions() -> None:
    """A function whose answer depends on how often it was called is found, and the difference can be read."""
    calls = iter(range(1000))

    def impure(row: Click) -> Click:
        return Click(row.ts, next(calls) // 3)

    flow = tw.Flow("impure", compile="never")
    flow.source("clicks", Click, order_by="ts").map(impure).sink("out")
    rows = [Click(t, 0) for t in range(6)]
    with pytest.raises(AssertionError) as caught:
        testing.assert_same(flow, {"clicks": rows})
    text = str(caught.value)
    assert "sink 'out': row 0 differs (6 rows expected, 6 came)" in text
    assert "-     0  Click(ts=0, user=0)" in text
    assert "+     0  Click(ts=0, user=2)" in text
    assert "seed 0" in text


def test_row_difference_shows_neighbours() -> None:
    """The first difference stands between the rows around it; a missing row is said to be missing."""
    text = testing.row_difference([1, 2, 3, 4, 5], [1, 2, 3, 4])
    assert text.splitlines() == [
        "row 4 differs (5 rows expected, 4 came)",
        "        1  2",
        "        2  3",
        "        3  4",
        "  -     4  5",
        "  +     4  (no row)",
        "  (- expected, + got)",
    ]
    assert testing.row_difference([float("nan")], [float("nan")]) == ""
    assert testing.row_difference([1], [True]) != ""


def test_difference_sees_counts_and_state() -> None:
    """Equal outputs with other counts or another state are a difference."""
    flow = tw.Flow("dedupe", compile="never")
    flow.source("clicks", Click).dedupe("user").sink("out")
    one = testing.run(flow, {"clicks": [Click(1, 1)]})
    two = testing.run(flow, {"clicks": [Click(1, 1), Click(1, 1)]})
    assert "counts of 'clicks' differ" in testing.difference(flow, one, two)
    other = testing.CheckedResult(one.sinks, {"dedupe": {}}, one.counts)
    assert "state of 'dedupe'" in testing.difference(flow, one, other)


def test_merges_without_time_depend_on_cuts() -> None:
    """Unions of streams without common time are known to depend on cuts; unions in one time domain are not."""
    assert testing.depends_on_cuts(_merged(timed=False))
    assert not testing.depends_on_cuts(_merged(timed=True))


def _merged(*, timed: bool) -> Plan:
    flow = tw.Flow("merged")
    order = "ts" if timed else None
    one, two = (flow.source(name, Click, order_by=order) for name in ("a", "b"))
    one.union(two).sink("both")
    one.filter(lambda row: row.user > 1).union(one).sink("same")
    return make_plan(flow)


def test_recut_passes_rowwise_functions() -> None:
    """Functions that look at rows one by one pass, with the same number of rows or with source rows."""

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(1, "user", pc.multiply(batch.column("user"), 2))

    def some(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
        keep = [i for i, user in enumerate(batch.column("user").to_pylist()) if user % 2]
        return batch.take(pa.array(keep, pa.int64())), keep

    rows = [Click(t, t * t % 5) for t in range(20)]
    testing.assert_recut(double, Click, rows)
    testing.assert_recut(some, Click, rows)


def test_recut_finds_running_numbers() -> None:
    """A function that numbers the rows of a batch is found."""

    def number(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(1, "user", pa.array(range(len(batch)), pa.int64()))

    with pytest.raises(AssertionError, match="number depends on how the stream is cut"):
        testing.assert_recut(number, Click, [Click(0, 0), Click(1, 1)])
