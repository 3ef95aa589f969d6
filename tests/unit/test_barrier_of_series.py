"""Barriers over ten real series, by position and by time; barriers and joins in any order of arguments and rows."""

from __future__ import annotations

import csv
import math
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.workers.options import Options

SAMPLE = Path(__file__).parents[1] / "cases" / "nab_tweets" / "input"
WHOLE = os.environ.get("THALWEG_NAB_TWEETS", "")
_SETTINGS: dict[str, Any] = {"deadline": None, "derandomize": True, "database": None}


class Tweets(NamedTuple):
    time: tw.Timestamp
    count: int


def series(folder: Path, *, later: str = "") -> dict[str, list[Tweets]]:
    """The ten series by company; one begins three rows later, so that positions and times differ."""
    out = {}
    for path in sorted(folder.glob("Twitter_volume_*.csv")):
        name = path.stem.rpartition("_")[2]
        with path.open() as file:
            rows = [
                Tweets(tw.timestamp(row["timestamp"]), int(row["value"]))
                for row in csv.DictReader(file)
            ]
        out[name] = rows[3:] if name == later else rows
    assert len(out) == 10
    return out


def barriers(names: list[str]) -> tw.Flow:
    flow = tw.Flow("tweets", compile="never")
    streams = {name: flow.source(name, Tweets, order_by="time") for name in sorted(names)}
    given = {name: streams[name] for name in names}
    flow.barrier(name="by_position", **given).sink("positions")
    timed = flow.barrier(by_time=True, name="by_time", **given)
    timed.matched.sink("matched")
    timed.unmatched.sink("unmatched")
    return flow


def check(
    inputs: dict[str, list[Tweets]], positions: list[Any], matched: list[Any], unmatched: Any
) -> None:
    """What the barriers gave is what plain Python says of whole lists."""
    names = list(inputs)
    assert [[getattr(row, name) for name in names] for row in positions] == [
        list(rows) for rows in zip(*inputs.values(), strict=False)
    ]
    by_time = {name: {row.time: row for row in rows} for name, rows in inputs.items()}
    common = sorted(set.intersection(*({*rows} for rows in by_time.values())))
    assert [[getattr(row, name) for name in names] for row in matched] == [
        [by_time[name][time] for name in names] for time in common
    ]
    known = set(common)
    lone = {(name, time) for name in names for time in by_time[name] if time not in known}
    assert {tuple(row) for row in unmatched} <= lone
    assert len(unmatched) == len({tuple(row) for row in unmatched})


@pytest.mark.parametrize("later", ["", "IBM"])
@pytest.mark.parametrize("options", [None, Options(threads=2)])
def test_sample(later: str, options: Options | None) -> None:
    """In the reference and the engine, over cuts, restarts and threads; each row is matched, lone, or left over."""
    inputs = series(SAMPLE, later=later)
    result = testing.assert_same(
        barriers(list(inputs)), inputs, seeds=range(3), compile=("never",), options=lambda chooser: options,
        restart_every=lambda chooser: chooser.choice([0, 1, 7]),
    )  # fmt: skip
    matched, unmatched = result.sinks["matched"], result.sinks["unmatched"]
    check(inputs, result.sinks["positions"], matched, unmatched)
    rows = sum(map(len, inputs.values()))
    left = {name: result.counts[name].get("unread", 0) for name in ("by_position", "by_time")}
    assert 10 * len(result.sinks["positions"]) + left["by_position"] == rows
    assert 10 * len(matched) + len(unmatched) + left["by_time"] == rows
    # Until the first series ends, a series that began later is the only one that lacks anything.
    assert len(matched) == 41 - 3 * bool(later)
    assert len([row for row in unmatched if row.time <= inputs["AMZN"][-1].time]) == 27 * bool(
        later
    )


def test_order_of_arguments() -> None:
    """The same rows are matched in whatever order the streams are given, and sources defined."""
    inputs = series(SAMPLE, later="UPS")
    names, found = list(inputs), []
    for seed in range(3):
        random.Random(seed).shuffle(names)
        result = testing.run(barriers(names), inputs)
        check(inputs, *(result.rows(sink) for sink in ("positions", "matched", "unmatched")))
        found.append({tuple(row) for row in result.rows("unmatched")})
    assert found[0] == found[1] == found[2]


@pytest.mark.skipif(not WHOLE, reason="THALWEG_NAB_TWEETS names no folder with the whole series")
@pytest.mark.parametrize("threads", [1, 2])
def test_whole_series(threads: int) -> None:
    """All 158,631 rows."""
    inputs = series(Path(WHOLE), later="IBM")
    result = tw.run(barriers(list(inputs)), inputs, threads=threads)
    check(inputs, *(result.rows(sink) for sink in ("positions", "matched", "unmatched")))
    assert len(result.rows("positions")) == 15_831
    assert len(result.rows("matched")) == 15_828


# -- whatever the order ----------------------------------------------------------------------------------


class Keyed(NamedTuple):
    t: int
    key: float | None
    n: int


_TIMES = st.integers(0, 15)
_KEYS = st.sampled_from((0.0, -0.0, 1.0, math.nan, None))
_RAW = st.lists(st.tuples(_TIMES, _KEYS), max_size=10)


def numbered(raw: list[tuple[int, float | None]], first: int) -> list[Keyed]:
    return [Keyed(t, key, first + i) for i, (t, key) in enumerate(raw)]


def joined(
    inputs: dict[str, list[Keyed]], within: int, *, swapped: bool, sources: list[str]
) -> Counter[Any]:
    """The pairs (n of the left, n of the right) that a join gives."""
    flow = tw.Flow("join", compile="never")
    made = {name: flow.source(name, Keyed, order_by="t", lateness=20) for name in sources}
    one, two = ("right", "left") if swapped else ("left", "right")
    made[one].join(made[two], on="key", within=within).sink("out")
    found = [(row.n, row.n_right) for row in testing.run(flow, inputs).rows("out")]
    return Counter((right, left) if swapped else (left, right) for left, right in found)


@settings(max_examples=sized(60), **_SETTINGS)
@given(_RAW, _RAW, st.integers(0, 6), st.randoms(use_true_random=False))
def test_join_in_any_order(
    left: list[Any], right: list[Any], within: int, chooser: random.Random
) -> None:
    """The same pairs whichever stream is joined with which, which source stands first, and as rows arrive."""
    inputs = {"left": numbered(left, 0), "right": numbered(right, 100)}
    found = []
    for swapped in (False, True):
        for sources in (["left", "right"], ["right", "left"]):
            arriving = {name: chooser.sample(rows, len(rows)) for name, rows in inputs.items()}
            found.append(joined(arriving, within, swapped=swapped, sources=sources))
    pairs = [
        (a.n, b.n) for a in inputs["left"] for b in inputs["right"]
        if a.key is not None and b.key is not None and abs(a.t - b.t) <= within
        and (a.key == b.key or (math.isnan(a.key) and math.isnan(b.key)))
    ]  # fmt: skip
    assert found == [Counter(pairs)] * 4


_SERIES = st.lists(st.sets(_TIMES, max_size=12), min_size=2, max_size=4)


@settings(max_examples=sized(60), **_SETTINGS)
@given(_SERIES, st.randoms(use_true_random=False))
def test_barrier_in_any_order(times: list[set[int]], chooser: random.Random) -> None:
    """Times in common, whatever the order of arguments, sources and arrival, when each series has a time once."""
    inputs = {f"s{i}": [Tweets(t, i) for t in sorted(mine)] for i, mine in enumerate(times)}
    common = sorted(set.intersection(*times))
    for _ in range(3):
        arriving = {name: chooser.sample(rows, len(rows)) for name, rows in inputs.items()}
        names = chooser.sample(list(inputs), len(inputs))
        flow = tw.Flow("barrier", compile="never")
        made = {name: flow.source(name, Tweets, order_by="time", lateness=20) for name in names}
        given = {name: made[name] for name in chooser.sample(names, len(names))}
        flow.barrier(by_time=True, **given).matched.sink("out")
        rows = testing.run(flow, arriving).rows("out")
        assert [row.s0.time for row in rows] == common
        assert all({getattr(row, name).time for name in names} == {row.s0.time} for row in rows)
