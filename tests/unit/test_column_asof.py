"""join_asof forward and nearest by column against the serial reference: kinds of keys, cuts, restarts, what is kept."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import testing
from thalweg.engine.joins import next_rows
from thalweg.engine.joins.asof import ColumnAsof
from thalweg.engine.joins.form import JoinForm
from thalweg.engine.joins.next_rows import NextTable


class Row(NamedTuple):
    t: int
    number: int | None
    text: str | None
    part: float
    raw: bytes
    tags: list[int]


class Both(NamedTuple):
    t: int
    at: int | None
    text: str | None
    part: float | None
    tags: list[int]


KEYS = (["number"], ["text"], ["part"], ["raw"], ["text", "number"], [])


def both(left: Row, right: Row | None) -> Both | None:
    if right is None:
        return Both(left.t, None, None, None, left.tags)
    return (
        None if right.t % 7 == 0 else Both(left.t, right.t, right.text, right.part * 2, left.tags)
    )


def rows_of(chooser: random.Random, count: int) -> list[Row]:
    return [
        Row(
            time,
            chooser.choice((0, 1, -(2**63), None)),
            chooser.choice(("", "a", "á", "日本", None)),
            chooser.choice((0.0, -0.0, 1.5, math.nan)),
            chooser.choice((b"", b"\x00", b"a")),
            [time],
        )
        for time in sorted(chooser.randrange(count) for _ in range(count))
    ]


def flow_of(on: Any, direction: Any, within: int | None, combine: Any) -> tw.Flow:
    flow = tw.Flow("asof")
    left, right = (flow.source(name, Row, order_by="t") for name in ("left", "right"))
    left.join_asof(right, combine, on=on, direction=direction, within=within).sink("out")
    return flow


def session_outputs(flow: tw.Flow, inputs: dict[str, list[Row]], *, restart: bool) -> list[Any]:
    """The outputs step by step; ``restart``: the tables are read and loaded again between steps."""
    session = testing.Session(flow)
    unit = session._engine.keyed["join_asof"]
    assert isinstance(unit.operators[0], ColumnAsof)
    for time in range(0, 70, 4):
        for name, rows in inputs.items():
            session.feed(name, [row for row in rows if time - 4 <= row.t < time])
        session.tick(time)
        for table in unit.tables.values() if restart else ():
            saved = table.snapshot()
            table.mark_saved()
            table.load([saved])
    session.end()
    return list(session.rows("out"))


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "nearest"])
def test_as_the_reference(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the keys, in steps, with rows let go at once, and with tables that are saved and loaded in between."""
    monkeypatch.setattr(next_rows, "_SPARE", 0)
    for seed, on in enumerate(KEYS):
        chooser = random.Random(seed)
        inputs = {name: rows_of(chooser, 60) for name in ("left", "right")}
        within = chooser.choice((None, 0, 3, 9))
        combine = (None, both)[(seed // 2 + (direction == "nearest")) % 2]
        flow = flow_of(on, direction, within, combine)
        expected = repr(testing.run(flow, inputs).sinks["out"])
        for restart in (False, True):
            assert repr(session_outputs(flow, inputs, restart=restart)) == expected, on


@pytest.mark.parametrize("direction", ["forward", "nearest"])
def test_tables_say_what_changed(direction: str) -> None:
    """A delta has the keys with another state and those that are gone; who takes over all deltas has the same state."""
    flow = flow_of(["text"], direction, 6, None)
    node: Any = next(one for one in flow.nodes if one.name == "join_asof")
    session = testing.Session(flow)
    tables = session._engine.keyed["join_asof"].tables
    copies: dict[int, Any] = {}
    inputs = {name: rows_of(random.Random(name), 60) for name in ("left", "right")}
    deleted = 0
    for time in range(0, 70, 3):
        for name, rows in inputs.items():
            session.feed(name, [row for row in rows if time - 3 <= row.t < time])
        session.tick(time)
        for bucket, table in tables.items():
            if table.dirty:
                delta = table.delta()
                table.mark_saved()
                copy = copies.setdefault(bucket, NextTable(JoinForm(node), node))
                copy.apply([delta])
                deleted += sum(delta.column(delta.num_columns - 1).to_pylist())
            assert not table.dirty and not table.delta().num_rows
        states = testing.states_of(node, [one.snapshot() for one in copies.values()])
        expected = sorted(session.states("join_asof").items(), key=repr)
        assert repr(sorted(states.items(), key=repr)) == repr(expected)
    assert deleted or direction == "nearest"


def test_times_at_the_ends() -> None:
    """Sums and differences of the least and greatest times stay in 64 bits; None is further than any time."""
    ends = (-(2**62), -1, 0, 2**62)
    row = Row(0, 0, "a", 0.0, b"", [])
    for within in (None, 2**62, 0):
        for first, last in ((a, b) for a in ends for b in ends if a <= b):
            inputs = {"right": [row._replace(t=first), row._replace(t=last)]}
            inputs["left"] = [row._replace(t=t) for t in ends]
            flow = flow_of(["number"], "nearest", within, None)
            expected = repr(testing.run(flow, inputs).sinks["out"])
            assert repr(tw.run(flow, inputs).rows("out")) == expected
