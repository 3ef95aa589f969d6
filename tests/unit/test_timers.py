"""Several timers a key, states that outlive them, timers that are set again at the end of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing


class Row(NamedTuple):
    ts: int
    key: str


class Told(NamedTuple):
    ts: int
    key: str
    what: str
    n: int


@tw.state
class Visit:
    idle: tw.Timer
    limit: tw.Timer
    timer_: int = 7
    n: int = 0


def see(visit: Visit, row: Row) -> None:
    visit.n += 1
    visit.idle = row.ts + 5
    if visit.limit == tw.NEVER:
        visit.limit = row.ts + 10
    if row.key == "none":
        visit.limit = None  # type: ignore[assignment]
        tw.drop(visit)


def idle(visit: Visit, key: str, time: int) -> Iterator[Told]:
    """Sets itself again twice; ends all timers of one key, fails for another."""
    yield Told(time, key, "idle", visit.n)
    if key == "over":
        visit.limit = tw.NEVER
    if key == "dropped":
        tw.drop(visit)
    if key == "bad" and visit.n == 2:
        raise ValueError("bad")
    if visit.n < 3:
        visit.n += 1
        visit.idle = time + 3


def limit(visit: Visit, key: str, time: int) -> Told:
    return Told(time, key, "limit", visit.n)


ROWS = [
    Row(0, "a"), Row(0, "over"), Row(0, "none"), Row(1, "a"), Row(1, "dropped"), Row(3, "b"), Row(4, "a"),
    Row(5, "bad"), Row(5, "a"), Row(20, "a"), Row(22, "b"), Row(22, "bad"),
]  # fmt: skip


def flow_of(**how: Any) -> tw.Flow:
    flow = tw.Flow("timers")
    by_key = flow.source("rows", Row, order_by="ts").key_by("key")
    given = {"state": Visit, "on_timer": {"limit": limit, "idle": idle}, "errors": "reject", **how}
    made: Any = by_key.process
    out = made(see, **given)
    out.sink("out")
    out.rejected.sink("rejected")
    return flow


def test_each_way_in_each_engine() -> None:
    """Output, states and counts are the reference's, however the input is cut, in threads, and before the end."""
    for keep, at_end in itertools.product((False, True), ("disarm", "fire")):
        flow, inputs = flow_of(keep=keep, at_end=at_end), {"rows": ROWS}
        expected = testing.reference(flow, inputs)
        for end in (True, False):
            testing.assert_same(
                flow, inputs, seeds=range(3), end=end, restart_every=lambda chooser: chooser.choice([0, 1, 2]),
            )  # fmt: skip
        for threads in (1, 3):
            assert tw.run(flow, inputs, threads=threads).rows("out") == expected.rows("out")


def test_what_fires() -> None:
    """By hand: both timers of a key, ties, one that another unsets, a state that stays, timers set at the end."""
    rows = {"rows": [Row(0, "a"), Row(5, "a"), Row(20, "a")]}
    expected = [Told(10, "a", "idle", 2), Told(10, "a", "limit", 3), Told(13, "a", "idle", 3)]
    found = tw.run(flow_of(), rows)
    assert found.rows("out")[:3] == expected
    assert found.rows("out")[3:] == [Told(25, "a", "idle", 1), Told(30, "a", "limit", 2)]
    assert found.counts["see"]["disarmed"] == 1
    fired = tw.run(flow_of(at_end="fire"), rows)
    assert [one.ts for one in fired.rows("out")[3:]] == [25, 28, 30, 31]
    assert fired.counts["see"]["disarmed"] == 0
    kept = testing.run(flow_of(keep=True), rows)
    assert kept.rows("out")[3:] == [Told(25, "a", "idle", 4), Told(30, "a", "limit", 4)]
    (state,) = kept.states["see"].values()
    assert (state.n, state.idle, state.limit, state.timer_) == (4, tw.NEVER, tw.NEVER, 7)
    alone = tw.run(flow_of(), {"rows": [Row(0, "over"), Row(0, "dropped")]})
    assert {(one.key, one.what) for one in alone.rows("out")} == {
        ("over", "idle"),
        ("dropped", "idle"),
    }


def test_explained_and_shown() -> None:
    """The plan names the timers and says why they are interpreted; a state shows the user's fields."""
    text = " ".join(flow_of(keep=True).explain().split())
    assert "state Visit with timers idle, limit, which outlives them" in text
    assert "interpreted: its state has several timers, which Python sees to" in text
    assert repr(Visit(idle=3)) == f"Visit(idle=3, limit={tw.NEVER}, timer_=7, n=0)"


@tw.state
class Plain:
    n: int = 0


def count(state: Plain, row: Row) -> None: ...


def test_refused() -> None:
    """Timers without functions, functions without timers, and words that are none."""
    refused: list[tuple[dict[str, Any], str]] = [
        ({"on_timer": {"limit": limit}}, "has a timer idle, but on_timer= has no function for it"),
        ({"on_timer": {"limit": limit, "idel": idle}}, "no timer 'idel'; it has idle, limit; did you mean 'idle'"),
        ({"on_timer": limit}, "several timers; give on_timer={'idle': ..., 'limit': ...}"),
        ({"on_timer": None}, "has a timer idle, but on_timer= has no function"),
        ({"keep": 1}, "keep: expected True or False, got 1"),
        ({"at_end": "fired"}, "at_end: expected one of disarm, fire"),
        ({"state": Plain, "on_timer": None, "keep": True}, "about timers, and state Plain has none"),
    ]  # fmt: skip
    for how, message in refused:
        with pytest.raises(tw.BuildError, match=message):
            flow_of(**how)
