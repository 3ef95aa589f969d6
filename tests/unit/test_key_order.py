"""``order="key"``: each key's rows in order by its own clock, late rows by key, the same however rows move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.checkpoint.evolution.compare import source_verdict
from thalweg.checkpoint.hosts.plan_manifest import manifest_of
from thalweg.plan.plan import make_plan


class Click(NamedTuple):
    ts: int
    user: int
    n: int


class Seen(NamedTuple):
    user: int
    ts: int
    n: int


@tw.state
class Open:
    n: int = 0
    timer: tw.Timer = None


@tw.state
class Count:
    n: int = 0


def track(state: Open, row: Click) -> Iterator[Seen]:
    state.n += 1
    if row.n % 3:
        state.timer = row.ts + 7
    yield Seen(row.user, row.ts, row.n)


def close(state: Open, key: int, time: int) -> Seen:
    if state.n < 50:
        state.n += 10
        state.timer = time + 2
    return Seen(key, time, -state.n)


def keyed(lateness: int, **options: Any) -> tuple[tw.Flow, tw.Stream, Any]:
    flow = tw.Flow("clicks", compile="never")
    clicks = flow.source("clicks", Click, order_by="ts", lateness=lateness, order="key", **options)
    return flow, clicks, clicks.key_by("user")


def many_verbs(lateness: int) -> tw.Flow:
    """Every operator that works on a stream whose time is each key's own."""
    flow, clicks, by_user = keyed(lateness)
    visits = by_user.sessions(10, pages=tw.agg.count())
    visits.sink("visits")
    visits.key_by("user").sessions(30, name="days", visits=tw.agg.count()).sink("days")
    seen = by_user.process(track, state=Open, on_timer=close)
    seen.filter(lambda row: row.n > -30, name="some").sink("seen")
    seen.order_by("ts", lateness=5).window(20, n=tw.agg.sum("n")).sink("windows")
    kept = by_user.dedupe(within=6)
    kept.sink("kept")
    kept.conflicts.sink("conflicts")
    kept.key_by("user").sessions(
        10, lambda key, start, end, rows: rows[-1], name="last", into=Click
    ).sink("last")
    clicks.late.sink("late")
    return flow


CLICKS = st.lists(
    st.builds(Click, st.integers(-40, 80), st.integers(0, 3), st.integers(0, 9)), max_size=60
)


@settings(max_examples=sized(60), deadline=None)
@given(CLICKS, st.sampled_from([0, 1, 10, 200]), st.integers(0, 2**16))
def test_as_the_reference(rows: list[Click], lateness: int, seed: int) -> None:
    """Any chunks and cuts give what the serial run gives: outputs, counts and state."""
    testing.assert_same(many_verbs(lateness), {"clicks": rows}, seeds=[seed], compile=["never"])


def sorted_by_key(rows: list[Click], lateness: int) -> tuple[dict[int, list[Click]], list[Click]]:
    """The definition: what each key's operator must see, and the late rows as they arrived."""
    tops: dict[int, int] = {}
    good: dict[int, list[Click]] = defaultdict(list)
    late = []
    for row in rows:
        if row.user in tops and row.ts < tops[row.user] - lateness:
            late.append(row)
            continue
        tops[row.user] = max(tops.get(row.user, row.ts), row.ts)
        good[row.user].append(row)
    return {user: sorted(mine, key=lambda row: row.ts) for user, mine in good.items()}, late


def test_union_of_branches() -> None:
    """Branches of one source meet again before the key: they have one arrival and one lateness."""
    flow, clicks, _ = keyed(3)
    odd = clicks.filter(lambda row: row.n % 2 == 1, name="odd")
    both = odd.union(clicks.filter(lambda row: row.n % 2 == 0, name="even"))
    both.key_by("user").process(track, state=Open, on_timer=close).sink("seen")
    clicks.late.sink("late")
    rows = [Click(i * 9 % 100, i % 4, i) for i in range(60)]
    assert testing.assert_same(flow, {"clicks": rows}, compile=["never"]).rows("late")


@settings(max_examples=sized(100), deadline=None)
@given(CLICKS, st.sampled_from([0, 1, 10, 200]), st.lists(st.integers(0, 60), max_size=3))
def test_each_key_sorted(rows: list[Click], lateness: int, cuts: list[int]) -> None:
    """A key's operator sees its rows by (time, arrival); late rows are those late for their key, and counted."""
    flow, clicks, by_user = keyed(lateness)
    by_user.process(track, state=Open, on_timer=close).sink("seen")
    clicks.late.sink("late")
    result = testing.run(flow, {"clicks": rows}, chunk_rows=3, cuts=cuts)
    good, late = sorted_by_key(rows, lateness)
    assert result.rows("late") == late
    assert result.counts.get("clicks", {}).get("late", 0) == len(late)
    for user, mine in good.items():
        seen = [row for row in result.rows("seen") if row.user == user]
        assert [row.n for row in seen if row.n >= 0] == [row.n for row in mine]
        times = [row.ts for row in seen]
        assert times == sorted(times), "a key's timers fire before its next row"


def test_by_hand() -> None:
    """User 2 is far ahead; that makes no row of user 1 late, and closes no session of user 1."""
    flow, clicks, by_user = keyed(5)
    by_user.sessions(10, pages=tw.agg.count()).sink("visits")
    clicks.late.sink("late")
    rows = [
        Click(100, 2, 0), Click(3, 1, 0), Click(1, 1, 0), Click(94, 2, 0), Click(8, 1, 0), Click(20, 1, 0),
    ]  # fmt: skip
    session = testing.Session(flow, compile="never")
    session.feed("clicks", rows)
    assert session.rows("late") == [Click(94, 2, 0)]
    # User 1's clock stands at 20 - 5, so 20 itself waits and the session of 1 to 8 is still open.
    assert session.rows("visits") == []
    session.end()
    assert [tuple(row) for row in session.rows("visits")] == [
        (1, 1, 8, 3),  # closed by the row at 20, which the end released
        (1, 20, 20, 1),
        (2, 100, 100, 1),
    ]
    assert session.result() == testing.reference(flow, {"clicks": rows})


def test_timers_arm_again_before_a_released_row() -> None:
    """Rows that the end releases still fire the key's timers one after the other before the next row."""
    flow, _, by_user = keyed(1000)
    by_user.process(track, state=Open, on_timer=close).sink("seen")
    result = testing.assert_same(
        flow, {"clicks": [Click(0, 1, 1), Click(100, 1, 3)]}, compile=["never"]
    )
    assert [(row.ts, row.n) for row in result.rows("seen")] == [
        (0, 1), (7, -11), (9, -21), (11, -31), (13, -41), (15, -51), (17, -51), (100, 3),
    ]  # fmt: skip


def test_compiled() -> None:
    """The operator that orders compiles where no row waits; the user's compile as ever."""
    for lateness in (0, 10):
        flow = tw.Flow("compiled")
        clicks = flow.source("clicks", Click, order_by="ts", lateness=lateness, order="key")
        clicks.key_by("user").process(track, state=Open, on_timer=close).sink("seen")
        clicks.late.sink("late")
        rows = [Click(i * 7 % 50, i % 3, i % 10) for i in range(150)]
        testing.assert_same(flow, {"clicks": rows}, seeds=range(3))


def test_rejected_timers() -> None:
    """A timer that raises is rejected where it fired: before the row that made it due."""

    def fails(state: Open, key: int, time: int) -> Seen:
        raise ValueError(f"at {time}")

    flow, _, by_user = keyed(3)
    seen = by_user.process(track, state=Open, on_timer=fails, errors="reject", name="track")
    seen.sink("seen")
    seen.rejected.sink("rejected")
    rows = [Click(i * 9 % 100, i % 4, i) for i in range(60)]
    result = testing.assert_same(flow, {"clicks": rows}, compile=["never"])
    assert len(result.rows("rejected")) > 4


def test_late_of_an_operator() -> None:
    """Where rows change before the key, or two keys judge, each operator by key has its own late rows."""
    flow, clicks, _ = keyed(2)
    mapped = clicks.map(lambda row: Seen(row.user, row.ts, row.n), name="seen", into=Seen)
    visits = mapped.key_by("user").sessions(10, name="visits", pages=tw.agg.count())
    visits.sink("visits")
    visits.late.sink("late by user")
    by_n = clicks.key_by("n").sessions(10, name="numbers", pages=tw.agg.count())
    by_n.sink("numbers")
    by_n.late.sink("late by n")
    rows = [Click(50, 1, 1), Click(30, 1, 2), Click(30, 2, 1)]
    result = testing.assert_same(flow, {"clicks": rows}, compile=["never"])
    assert result.rows("late by user") == [Seen(1, 30, 2)]
    assert result.rows("late by n") == [Click(30, 2, 1)]
    clicks.late.sink("late")
    with pytest.raises(
        tw.BuildError, match=r"judged by key, in visits/late, numbers/late; read \.late"
    ):
        make_plan(flow)


def test_late_before_the_key() -> None:
    """The source's late rows can be read before the operator that finds them is written."""
    flow = tw.Flow("clicks", compile="never")
    other = flow.source("other", Click)
    clicks = flow.source("clicks", Click, order_by="ts", order="key")
    clicks.late.map(lambda row: row, name="same", into=Click).union(clicks.late, other).sink("late")
    clicks.key_by("user").process(track, state=Open, on_timer=close).sink("seen")
    nodes = make_plan(flow).nodes
    assert [node.index for node in nodes] == list(range(1, len(nodes) + 1))
    assert all(ref.node < node.index for node in nodes for ref in node.inputs)
    rows = [Click(5, 1, 0), Click(4, 1, 0), Click(1, 2, 0), Click(0, 2, 0)]
    result = testing.assert_same(flow, {"clicks": rows, "other": []}, compile=["never"])
    assert [row.ts for row in result.rows("late")] == [4, 4, 0, 0]


def _second_source(clicks: tw.Stream) -> Any:
    return clicks.flow.source("other", Click, order_by="ts")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.window(10, n=tw.agg.count()), "windows close by the watermark"),
        (lambda s: s.key_by("user").window(10, n=tw.agg.count()), "windows close by the watermark"),
        (lambda s: s.union(_second_source(s)), "streams are merged by one watermark"),
        (lambda s: _second_source(s).union(s), "streams are merged by one watermark"),
        (lambda s: s.process(track, state=Count), "a state for all rows"),
        (
            lambda s: s.key_by("user").dedupe().key_by("n").sessions(5, n=tw.agg.count()),
            r"second key .*\(key here: n; .* ordered: user\)",
        ),
        (
            lambda s: s.key_by("user").process(track, state=Open, on_timer=close).key_by("user").dedupe(),
            "none that is known to be the key",
        ),
    ],
)  # fmt: skip
def test_refused(build: Callable[[tw.Stream], Any], message: str) -> None:
    """What needs one order of all rows is refused when the flow is built, with what to do."""
    _, clicks, _ = keyed(0)
    with pytest.raises(tw.BuildError, match=message) as caught:
        build(clicks)
    assert "order='total'" in str(caught.value)


def test_refused_sources() -> None:
    """A source says what it orders by; a lane has no meaning; somebody must order the rows."""
    flow = tw.Flow("refused")
    for options in ({}, {"order_by": "ts", "lane": "n"}):
        with pytest.raises(tw.BuildError, match="order='key' needs order_by, and no lane"):
            flow.source("clicks", Click, order="key", **options)
    with pytest.raises(tw.BuildError, match="order: expected one of total, key"):
        flow.source("clicks", Click, order_by="ts", order="user")  # type: ignore[arg-type]
    flow.source("clicks", Click, order_by="ts", order="key").sink("all")
    with pytest.raises(tw.BuildError, match="no operator by key reads it"):
        make_plan(flow)


def test_manifest() -> None:
    """A checkpoint knows the order; a flow with another one is refused."""
    manifests = []
    for order in ("key", "total"):
        flow = tw.Flow("f")
        clicks = flow.source("clicks", Click, order_by="ts", order=order)  # type: ignore[arg-type]
        clicks.key_by("user").dedupe().sink("kept")
        manifests.append(manifest_of(make_plan(flow)))
    old, new = (one.sources["clicks"] for one in manifests)
    change = source_verdict("clicks", old, new, held=False).change
    assert change.refusal().startswith(
        "source 'clicks', order: the checkpoint has key, the flow has total"
    )


def test_explain() -> None:
    """The page says by what the source orders, who does it, and that only a key's order is promised."""
    flow, clicks, by_user = keyed(5)
    by_user.sessions(10, pages=tw.agg.count()).sink("visits")
    clicks.late.sink("late")
    text = " ".join(flow.explain(compile=False).split())
    assert "by ts, each key on its own, lateness 5" in text
    assert "puts each key's rows in order" in text
    assert "late rows go to late" in text
    assert "time: each key's own: clicks by ts, lateness 5" in text
    assert "promised by key" in text


def test_late_rows_beside_a_driver_loop() -> None:
    """Late rows of a source may be read by an operator with its own driver loop, wherever it was defined."""

    async def counted(rows: tw.Input[Click], out: tw.Output[Click]) -> None:
        while await tw.wait_for_all(rows):
            await out.push(rows.pop())

    flow = tw.Flow("f")
    clicks = flow.source("clicks", Click, order_by="ts", order="key")
    flow.operator("counted", counted, rows=clicks.late).sink("late")
    clicks.key_by("user").dedupe().sink("kept")
    rows = [Click(ts, 1, ts) for ts in (5, 3, 9)]
    result = testing.assert_same(flow, {"clicks": rows}, seeds=range(4), compile=("never",))
    assert [row.ts for row in result.sinks["late"]] == [3]
