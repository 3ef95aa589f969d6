"""What the hosts do with any log and any target, whatever stands behind it."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest
from tests.connectors.toy import ToyLog, ToyTarget

import thalweg as tw
from thalweg.connectors.logs import spread


class Number(NamedTuple):
    lane: int
    n: int


def copied() -> tw.Flow:
    flow = tw.Flow("copied")
    flow.source("numbers", Number).sink("out")
    return flow


def in_lanes(rows: list[dict[str, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row["lane"], []).append(row["n"])
    return found


@pytest.mark.parametrize("max_rows", [None, 1, 7, 1000])
def test_a_log_is_read_whole_and_in_the_order_of_each_lane(max_rows: int | None) -> None:
    """Whatever is read at once: each row once, a lane's rows in its order."""
    target = ToyTarget()
    tw.run(copied(), {"numbers": ToyLog((20, 0, 7), max_rows=max_rows)}, {"out": target})
    assert in_lanes(target.rows) == {0: list(range(20)), 2: list(range(7))}
    assert target.closed == [True]


def test_a_log_that_is_followed_ends_with_its_run() -> None:
    """It waits for more rows; what came is written though no batch is full, and stop() ends it."""
    target = ToyTarget()
    with tw.start(threads=1) as running:
        run = running.add(copied(), {"numbers": ToyLog((5,), follow=True)}, {"out": target})
        deadline = time.monotonic() + 60
        while not target.rows and time.monotonic() < deadline:
            time.sleep(0.01)
        assert run.is_active
        run.stop()
    assert in_lanes(target.rows) == {0: list(range(5))}


def test_a_target_that_fails_ends_the_run() -> None:
    """Its error is the run's, also when nobody writes any more."""
    with pytest.raises(tw.EnvironmentProblem, match="no batch 0 today"):
        tw.run(copied(), {"numbers": ToyLog((5,))}, {"out": ToyTarget(fails_at=frozenset({0}))})


def test_a_record_that_does_not_fit_is_refused_before_anything_is_read() -> None:
    with pytest.raises(
        tw.BuildError, match=r"toy\(\.\.\.\): lane='where': Number.* has no such field"
    ):
        tw.run(copied(), {"numbers": ToyLog((5,), lane="where")})


def test_two_sinks_do_not_share_a_target() -> None:
    flow = copied()
    flow.source("more", Number).sink("again")
    target = ToyTarget()
    with pytest.raises(tw.BuildError, match="'out' and 'again' have the same output"):
        tw.run(
            flow, {"numbers": ToyLog((1,)), "more": ToyLog((1,))}, {"out": target, "again": target}
        )


def test_spread_gives_each_lane_its_share() -> None:
    """About so many rows, more than none while some wait, and never beyond the end."""
    for start, end in (({"0": 0}, {"0": 30, "1": 10}), ({"0": 5, "1": 9}, {"0": 6, "1": 10_000})):
        for rows in (1, 2, 20, 40, 100_000):
            upto = spread(start, end, rows)
            assert upto.keys() == end.keys()
            assert all(start.get(lane, 0) <= upto[lane] <= end[lane] for lane in end)
            taken = sum(upto[lane] - start.get(lane, 0) for lane in end)
            assert 0 < taken <= rows + len(end)
