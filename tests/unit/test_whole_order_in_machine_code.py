"""Flows whose streams carry the whole order key: in machine code they give what the reference gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.engine.build import prepare
from thalweg.plan.plan import make_plan
from thalweg.testing.reference import run_reference
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.options import Options


class Row(NamedTuple):
    ts: tw.Timestamp
    name: str
    n: int


class Out(NamedTuple):
    name: str
    n: int
    seen: int


@tw.state
class Seen:
    seen: int = 0
    timer: tw.Timer


@tw.state
class Count:
    seen: int = 0


def one(state: Count, row: Row) -> Out:
    state.seen += 1
    return Out(row.name, row.n, state.seen)


def late(state: Seen, row: Row) -> Out | None:
    state.seen += 1
    state.timer = row.ts + 3
    return Out(row.name, row.n, state.seen) if row.n % 3 else None


def rings(state: Seen, name: str, time: tw.Timestamp) -> Out:
    return Out(name, -1, state.seen)


def rings_n(state: Seen, key: tuple[int, str], time: tw.Timestamp) -> Iterator[Out]:
    n, name = key
    yield Out(name, n, state.seen)
    yield Out(name, n, -state.seen)


def kept(row: Row) -> bool:
    return row.n % 5 != 0


def moved(row: Row) -> Row:
    return Row(row.ts, row.name, row.n + 1)


def united(order: Any = None) -> tw.Flow:
    """Two branches by different keys and a third one, put together again."""
    flow = tw.Flow("whole")
    rows = flow.source("rows", Row, order_by="ts", **({"order": order} if order else {}))
    by_name = rows.filter(kept).key_by("name").process(one, state=Count, name="by_name")
    firing = rows.map(moved).key_by("name").process(late, state=Seen, on_timer=rings, name="late")
    paired = rows.filter(kept).key_by("n", "name")
    many = paired.process(late, state=Seen, on_timer=rings_n, name="many")
    by_name.union(firing, many).sink("out")
    return flow


def by_own_times() -> tw.Flow:
    flow = tw.Flow("own")
    rows = flow.source("rows", Row, order_by="ts", order="key", lateness=2)
    keyed = rows.key_by("name").process(late, state=Seen, on_timer=rings)
    keyed.sink("out")
    return flow


NAMES = ["a", "b\0", "", "\N{BLACK STAR}"]
ROWS = [Row(i // 4 + (i * 7) % 3, NAMES[i * i % 4], i * 5 % 7) for i in range(300)]
ORDERED = sorted(ROWS, key=lambda row: row.ts)


@pytest.mark.slow
def test_unions_slots_and_own_times() -> None:
    """Rows and their order are the reference's, for any chunks, threads and slots."""
    for flow, rows in ((united, ORDERED), (by_own_times, ROWS)):
        expected: Any = run_reference(flow(), {"rows": rows}).sinks["out"]
        assert len(expected) > 100
        for how in ({"threads": 1}, {"threads": 2}, {"slots": 2}):
            for chunk_rows in (1, 13, 1000):
                made = tw.run(flow(), {"rows": rows}, chunk_rows=chunk_rows, **how)
                if how == {"slots": 2} and flow is by_own_times:
                    assert sorted(made.rows("out")) == sorted(expected)
                else:
                    assert made.rows("out") == list(expected), (flow, how, chunk_rows)


def around_and_around() -> tw.Flow:
    """Branches of branches, through functions and keyed operators, that meet in the middle and at the end."""
    flow = tw.Flow("around")
    rows = flow.source("rows", Row, order_by="ts")
    left = rows.filter(kept, name="left")
    once = left.map(moved, name="once")
    twice = left.map(moved, name="twice").map(moved, name="thrice", errors="reject")
    counted = twice.key_by("name").process(one, state=Count, name="counted")
    firing = once.key_by("name").process(late, state=Seen, on_timer=rings, name="firing")
    met = once.union(rows, twice.filter(kept, name="again"))
    many = met.key_by("n", "name").process(late, state=Seen, on_timer=rings_n, name="many")
    counted.union(firing, many).sink("out")
    return flow


def test_branches_of_branches() -> None:
    """What machine code keeps beside its blocks is which reader of a stream each branch is: the order is the same."""
    expected: Any = run_reference(around_and_around(), {"rows": ORDERED}).sinks["out"]
    assert len(expected) > 500
    for threads, chunk_rows in ((1, 13), (2, 1), (2, 7), (2, 1000), (3, 50)):
        made = tw.run(
            around_and_around(), {"rows": ORDERED}, threads=threads, chunk_rows=chunk_rows
        )
        assert made.rows("out") == list(expected), (threads, chunk_rows)


@pytest.mark.parametrize("flow", [united, around_and_around])
def test_what_runs_in_machine_code(flow: Any) -> None:
    """All operators do that read one stream, also those that read a stream with several readers."""
    engine = ParallelEngine(prepare(make_plan(flow())), options=Options(threads=2))
    try:
        python = [task for task in engine.tasks[1:] if not (task.leaves or task.spec.native)]
        assert [len(task.inputs) > 1 for task in python] == [True] * len(python)
    finally:
        engine.stop()
