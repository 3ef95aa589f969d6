"""The plan as text."""

from __future__ import annotations

import datetime
import random
import re
import time
import uuid
from typing import NamedTuple

import pytest

import thalweg as tw
from thalweg.engine import explain as page
from thalweg.engine.build import Verdict
from thalweg.flow.operators.built_in import duration_text


class Click(NamedTuple):
    ts: tw.Timestamp
    user: int
    action: tw.Category


class Count(NamedTuple):
    user: int
    clicks: int


@tw.state
class Open:
    timer: tw.Timer
    clicks: int = 0


def track(open: Open, click: Click) -> None:
    open.clicks += 1
    open.timer = click.ts + tw.minutes(60)


def close(open: Open, user: int, time: tw.Timestamp) -> Count:
    return Count(user, open.clicks)


def many(count: Count) -> bool:
    return count.clicks > 1


def busy(count: Count) -> bool:
    return count.clicks > 9


def same(click: Click) -> Click:
    return click


def visits(clicks: tw.Stream) -> tw.Stream:
    counts = clicks.key_by("user", buckets=16).process(track, state=Open, on_timer=close)
    return counts.filter(many).filter(busy)


def whole_flow() -> tw.Flow:
    flow = tw.Flow("shop", errors="reject")
    clicks = flow.source("clicks", Click, order_by="ts", lateness="2 minutes")
    copied = clicks.map(same, compile=False)
    copied.apply(visits).sink("busy")
    copied.key_by("user").window("1 hour", every="30 minutes", name="hours", n=tw.agg.count()).sink(
        "by_hour", ordered=False
    )
    clicks.late.sink("late")
    copied.rejected.sink("bad")
    return flow


GOLDEN = """\
flow shop: 2 stages, 11 operators, 1 source, 4 sinks

stage 0: where tuples enter; each source is read and sorted in one slot
  clicks        source, gives Click
                by ts, lateness 2 minutes, ties in arrival order
                late rows go to late
                rejected rows are counted
  same          stateless (map), reads clicks, gives Click
                same (test_explain.py:NN) interpreted: the compiler was not asked
                rejected rows go to bad
  window_start  stateless, reads same, gives Stamped
                hopping windows of 1 hour every 30 minutes
                built in
  late          sink, reads clicks.late
                ordered: one task writes
  bad           sink, reads same.rejected
                ordered: one task writes

stage 1: each row goes to the slot that owns its key's bucket
  visits/
    track  keyed, reads same, gives Count
           key user: int; 16 buckets; state Open with timer
           track (test_explain.py:NN), close (test_explain.py:NN) interpreted: the compiler was
             not asked
           rejected rows are counted
    many   stateless (filter), reads visits/track, gives Count
           many (test_explain.py:NN) interpreted: the compiler was not asked
           fused, one pass: visits/many + visits/busy
           rejected rows are counted
    busy   stateless (filter), reads visits/many, gives Count
           busy (test_explain.py:NN) interpreted: the compiler was not asked
           fused with visits/many
           rejected rows are counted
  busy     sink, reads visits/busy
           ordered: one task writes
  hours    keyed, reads window_start, gives Window
           key user: int, window_start: Timestamp; 128 buckets; state WindowState with timer
           interpreted: the compiler was not asked
           rejected rows are counted
  by_hour  sink, reads hours
           unordered: each slot writes its part

time: one watermark: clicks by ts, lateness 2 minutes
order: the output is that of a serial run. One slot keeps it by running in order; between slots
  rows carry the order key (time, operator, arrival or timer's key, places), by which each stage
  and each ordered sink merges
parts whose output may differ from run to run: none, as far as can be seen in their code
"""


def _helper() -> float:
    return time.time()


def by_helper(click: Click) -> bool:
    return _helper() > 0


def by_import(click: Click) -> bool:
    from random import random as dice

    return dice() > 0


def by_seed(click: Click) -> bool:
    return random.Random(click.user).random() > click.ts and str(time) != ""


def by_name(click: Click) -> bool:
    return bool(time.strptime("1", "%M")) and datetime.datetime.fromtimestamp(0, None) is not None


def test_functions_of_chance_and_clock_are_named() -> None:
    """Those whose code names them, if only in a function that they call; seeds and other names are none."""
    for function, named in (
        (by_helper, "time.time"),
        (by_import, "dice"),
        (by_seed, ""),
        (by_name, ""),
        (lambda click: random.random() > 0.5, "random.random"),
        (lambda click: any(uuid.uuid4().int for _ in "a"), "uuid.uuid4"),
        (lambda click: datetime.datetime.now().year > 1, "datetime.datetime.now"),
        (lambda click: click.ts > 0, ""),
    ):
        flow = tw.Flow("chance")
        flow.source("clicks", Click).filter(function, name="some").sink("out")
        said = flow.explain(compile=False).split("run to run: ")[1]
        assert re.sub(r"\s+", " ", said).startswith("some (" if named else "none, as far as")
        assert not named or re.search(rf"calls {re.escape(named)}\)", re.sub(r"\s+", " ", said))


def test_the_whole_page() -> None:
    """Every part of the page, as people will see it."""
    text = whole_flow().explain(compile=False)
    assert re.sub(r"\.py:\d\d", ".py:NN", text) == GOLDEN


def test_verdicts_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the compiler says stands at each function; the library's own functions have no place."""
    flow = whole_flow()
    nodes = {node.name: node.index for node in flow.nodes}
    found = {
        nodes["same"]: Verdict(False, "compile=False"),
        nodes["visits/track"]: Verdict(True),
        nodes["hours"]: Verdict(True),
    }
    monkeypatch.setattr(page, "prepare", lambda plan: plan)
    monkeypatch.setattr(page, "verdicts", lambda prepared: found)
    text = re.sub(r"\.py:\d\d", ".py:NN", flow.explain())
    assert "same (test_explain.py:NN) interpreted: compile=False" in text
    assert "track (test_explain.py:NN), close (test_explain.py:NN) compiled" in text
    assert "WindowState with timer\n           compiled\n" in text


def test_the_page_is_narrow() -> None:
    """No line is wider than the page."""
    lines = whole_flow().explain(compile=False).splitlines()
    assert max(map(len, lines)) <= page.WIDTH


def test_without_event_time_and_with_several_clocks() -> None:
    """A flow without event time says so; two sources under one union share a clock."""
    flow = tw.Flow("plain")
    flow.source("clicks", Click).sink("out")
    assert "no event time: rows stay in the order of their arrival" in flow.explain()
    flow = tw.Flow("two")
    left = flow.source("left", Click, order_by="ts", lateness=90_000_000)
    right = flow.source("right", Click, order_by="ts")
    left.union(right).sink("out")
    text = " ".join(flow.explain().split())
    assert "left by ts, lateness 90 seconds; right by ts, lateness 0 (the slowest" in text


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0"),
        (1, "1 us"),
        (15_000, "15 ms"),
        (1_000_000, "1 second"),
        (90_000_000, "90 seconds"),
        (3_600_000_000, "1 hour"),
        (2 * 86_400_000_000, "2 days"),
    ],
)
def test_durations(length: int, text: str) -> None:
    """A duration is shown in its greatest whole unit."""
    assert duration_text(length) == text
