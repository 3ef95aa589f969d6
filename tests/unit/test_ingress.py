"""Gates and ingress: lateness by its serial definition, the watermark, what is released, whatever the cuts."""

from __future__ import annotations

import itertools
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.columns.chunks import Chunk
from thalweg.engine.watermarks import waiting
from thalweg.engine.watermarks.ingress import Gate, Ingress
from thalweg.engine.watermarks.release import cut_many, cut_one
from thalweg.engine.watermarks.waiting import Waiting
from thalweg.flow.operators.nodes import Source
from thalweg.flow.records import Schema
from thalweg.plan.plan import SEQ, TIME
from thalweg.times import BEFORE_ALL


class Row(NamedTuple):
    t: int
    lane: int | None


SCHEMA = Schema.of(Row)
_ROWS = st.lists(st.builds(Row, st.integers(-5, 20), st.sampled_from((None, 0, 1, 2))), max_size=30)


def gate(lateness: int, *, lanes: bool = False, index: int = 1) -> Gate:
    return Gate(
        Source(index, f"in{index}", SCHEMA, "t", lateness, "lane" if lanes else None, (), "fail")
    )


def chunk(rows: list[Row]) -> Chunk:
    return Chunk.from_rows(SCHEMA, rows)


def serial_late(rows: list[Row], lateness: int, *, lanes: bool) -> list[Row]:
    """The definition, a row at a time: below the lane's earlier maximum - L, or below the watermark."""
    tops: dict[Any, int] = {}
    watermark, late = BEFORE_ALL, []
    for row in rows:
        lane = row.lane if lanes else None
        if (lane in tops and row.t < tops[lane] - lateness) or row.t < watermark:
            late.append(row)
        tops[lane] = max(tops.get(lane, row.t), row.t)
        watermark = max(watermark, min(tops.values()) - lateness)
    return late


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(_ROWS, st.integers(0, 6), st.booleans(), st.lists(st.integers(0, 30), max_size=3))
def test_late_by_the_serial_definition(
    rows: list[Row], lateness: int, lanes: bool, cuts: list[int]
) -> None:
    """The vectorized judgement is the serial one, for every cut; late and waiting rows are all rows."""
    one = gate(lateness, lanes=lanes)
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    late: list[Row] = []
    for start, stop in itertools.pairwise(edges):
        late += one.accept(chunk(rows[start:stop])).rows()
    assert late == serial_late(rows, lateness, lanes=lanes)
    held = [] if one.waiting is None else one.waiting.rows()
    assert sorted(map(repr, [*late, *held])) == sorted(map(repr, rows))
    assert [row.t for row in held] == sorted(row.t for row in held)
    assert one.arrived == len(rows)


@settings(max_examples=100, derandomize=True, database=None, deadline=None)
@given(_ROWS, _ROWS, st.integers(0, 4), st.booleans(), st.integers(1, 9))
def test_release_in_order(
    one: list[Row], two: list[Row], lateness: int, lanes: bool, chunk_rows: int
) -> None:
    """Two sources released row by row or at once come out in the order (time, source, arrival)."""
    whole = release_all(one, two, lateness, lanes, chunk_rows, step=1_000)
    by_row = release_all(one, two, lateness, lanes, chunk_rows, step=1)
    assert by_row == whole == sorted(whole)


def release_all(
    one: list[Row], two: list[Row], lateness: int, lanes: bool, chunk_rows: int, *, step: int
) -> list[tuple[int, int]]:
    """(time, serial) of all rows as they leave, fed so many rows at a time."""
    gates = [gate(lateness, lanes=lanes, index=1), gate(0, index=2)]
    ingress = Ingress(1, gates)
    out: list[tuple[int, int]] = []
    for start in range(0, max(len(one), len(two), 1), step):
        for member, rows in zip(gates, (one, two), strict=True):
            member.accept(chunk(rows[start : start + step]))
            out += drain(ingress, chunk_rows)
    return out + drain(ingress, chunk_rows, everything=True)


def drain(ingress: Ingress, chunk_rows: int, *, everything: bool = False) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    before = BEFORE_ALL
    for released, watermark in ingress.release(lambda: chunk_rows, everything=everything):
        parts = [
            list(zip(rows.order[TIME].tolist(), rows.order[SEQ].tolist(), strict=True))
            for rows in released.values()
        ]
        step = sorted(pair for part in parts for pair in part)
        assert len(step) <= chunk_rows
        assert not step or (step[-1][0] <= watermark and step[0][0] >= before)
        before = max(before, step[-1][0] if step else BEFORE_ALL)
        out += step
    return out


def test_clock_is_the_least_of_the_lanes() -> None:
    """The watermark stands until all known lanes have moved, and names the slowest."""
    one = gate(2, lanes=True)
    assert one.watermark == BEFORE_ALL
    one.accept(chunk([Row(10, 0), Row(30, 1)]))
    assert (one.watermark, one.slowest) == (8, 0)
    one.accept(chunk([Row(40, 0)]))
    assert (one.watermark, one.slowest) == (28, 1)


def test_new_lane_does_not_turn_the_clock_back() -> None:
    """What the watermark has passed stays passed: rows of a lane that appears late may be late."""
    one = gate(0, lanes=True)
    late = one.accept(chunk([Row(10, 0), Row(4, 1), Row(10, 1), Row(9, 1)]))
    assert late.rows() == [Row(4, 1), Row(9, 1)]
    assert one.watermark == 10


def test_ties_at_the_clock_wait_for_earlier_sources() -> None:
    """Rows at the watermark of a later source wait while an earlier one may still give rows of that time."""
    first, second = gate(0, index=1), gate(0, index=2)
    ingress = Ingress(1, [first, second])
    first.accept(chunk([Row(5, 0)]))
    second.accept(chunk([Row(5, 1), Row(9, 1)]))
    assert [pair[0] for pair in drain(ingress, 10)] == [5]
    first.accept(chunk([Row(5, 2), Row(8, 0)]))
    rows = [tuple(map(len, released.values())) for released, _ in ingress.release(lambda: 10)]
    assert rows == [(2, 1)]


@pytest.mark.parametrize("time", [-(2**63) + 1, -(2**62), 2**62])
def test_extreme_times(time: int) -> None:
    """Times at the ends of 64 bits do not wrap around."""
    one = gate(1_000)
    assert not len(one.accept(chunk([Row(time, 0), Row(time, 0), Row(time + 1, 0)])))
    taken = one.take(time)
    assert taken is not None
    assert len(taken) == 2


def test_released_rows_are_gone() -> None:
    """take removes what it gives; ``released`` remembers up to where."""
    one = gate(0)
    one.accept(chunk([Row(3, 0), Row(3, 1), Row(7, 0)]))
    assert one.take(3, inclusive=False) is None
    taken = one.take(3)
    assert taken is not None
    assert taken.rows() == [Row(3, 0), Row(3, 1)]
    assert one.released == 3


@pytest.mark.parametrize("lateness", [0, 3])
def test_the_clock_never_goes_back(lateness: int) -> None:
    """At the end, too, where nothing waits any more: who takes several steps as one needs the last watermark."""
    one = gate(lateness)
    ingress = Ingress(1, [one])
    one.accept(chunk([Row(3, 0), Row(7, 0)]))
    watermarks = [watermark for _, watermark in ingress.release(lambda: 10)]
    watermarks += [watermark for _, watermark in ingress.release(lambda: 10, everything=True)]
    assert watermarks == sorted(watermarks)
    assert watermarks[-1] == 7


def test_parts_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in many parts leave as those in one: in order, cut at the same watermarks; in-order parts are not copied."""
    monkeypatch.setattr(waiting, "_SHORT", 0)
    chooser = random.Random(5)
    for _ in range(60):
        held, expected = Waiting(), list[tuple[int, int]]()
        for number in range(6):
            times = [number * chooser.randint(0, 6) + chooser.randint(0, 4) for _ in range(4)]
            rows = chunk([Row(time, number) for time in times])
            rows.order = {TIME: np.array(times), SEQ: np.arange(4) + 4 * number}
            held.add(rows)
            expected = sorted([*expected, *_places(rows)])
            watermark, inclusive = chooser.randint(0, 20), chooser.random() < 0.5
            parts = held.take(watermark, inclusive=inclusive)
            gone = [one for one in expected if one[0] < watermark + inclusive]
            expected = expected[len(gone) :]
            assert [place for part in parts for place in _places(part)] == gone
            assert all(map(len, parts)) and len(held) == len(expected)
        whole = held.whole()
        assert (_places(whole) if whole else []) == expected


def test_steps_over_parts() -> None:
    """Steps of one gate end with its parts; those of two gates have so many rows each, whatever the parts are."""
    rows = [chunk([Row(t, 0) for t in times]) for times in ((1, 2, 3), (4, 6), (7,))]
    for part in rows:
        part.order = {TIME: part.column("t").values}
    alone = [(len(step[1]), watermark) for step, watermark in cut_one(1, rows, lambda: 2, 9)]
    assert alone == [(2, 2), (1, 3), (2, 6), (1, 9)]
    other = chunk([Row(5, 1)])
    other.order = {TIME: other.column("t").values}
    both = list(cut_many({1: rows, 2: [other]}, lambda: 4, 9))
    assert [[len(step.get(i, ())) for i in (1, 2)] for step, _ in both] == [[4, 0], [2, 1]]
    assert [row.t for step, _ in both for row in step[1].rows()] == [1, 2, 3, 4, 6, 7]
    assert [watermark for _, watermark in both] == [4, 9]


def _places(rows: Chunk) -> list[tuple[int, int]]:
    return list(zip(rows.order[TIME].tolist(), rows.order[SEQ].tolist(), strict=True))
