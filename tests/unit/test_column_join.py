"""The join by column against a plain loop: kinds of keys, equal hashes, cuts, rows that leave, restarts."""

from __future__ import annotations

import heapq
import math
import random
from typing import Any, NamedTuple

import numpy as np
import pytest

import thalweg as tw
from thalweg import testing
from thalweg.checkpoint.evolution.compare import operator_verdict
from thalweg.checkpoint.hosts.plan_manifest import manifest_of
from thalweg.checkpoint.manifest import ManifestOperator
from thalweg.columns.chunks import Chunk
from thalweg.columns.keys import KeySpec
from thalweg.engine.joins import form
from thalweg.engine.joins.form import JoinForm
from thalweg.engine.joins.held_rows import HeldRows
from thalweg.engine.joins.operator import ColumnJoin
from thalweg.engine.joins.table import JoinTable
from thalweg.plan.plan import make_plan


class Left(NamedTuple):
    t: int
    number: int
    text: str | None
    name: str
    part: float
    raw: bytes
    tags: list[int]


class Right(NamedTuple):
    t: int
    number: int | None
    text: str
    name: str
    part: float
    raw: bytes
    v: bool


class Told(NamedTuple):
    text: str
    name: str
    number: int | None
    raw: bytes
    tags: list[int]
    v: bool


class Made(NamedTuple):
    left: int
    right: int


KEYS = (["number"], ["text"], ["raw"], ["part"], ["text", "number"], ["number", "part"], [])
TEXTS = ("", "a", "á", "längere Texte", "日本")
PARTS = (0.0, -0.0, 1.5, math.nan)


def rows_of(chooser: random.Random, kind: Any, count: int) -> list[Any]:
    times = sorted(chooser.choice((0, 5)) + chooser.randrange(count) for _ in range(count))
    made = []
    for time in times:
        number: Any = chooser.choice((0, 1, -(2**63), 2**63 - 1))
        text: Any = chooser.choice(TEXTS)
        if chooser.random() < 0.1:
            number, text = (number, None) if kind is Left else (None, text)
        raw = text.encode() if text else b"\x00"
        last: Any = [time] if kind is Left else time % 2 == 0
        made.append(kind(time, number, text, text or "", chooser.choice(PARTS), raw, last))
    return made


def canonical(row: Any, on: list[str]) -> Any:
    values = [getattr(row, name) for name in on]
    if None in values:
        return None
    return ["nan" if one != one else one + 0.0 if isinstance(one, float) else one for one in values]


def expected(left: list[Left], right: list[Right], on: list[str], within: int) -> list[Any]:
    """Pairs by a loop over all rows that came before."""
    out, before = [], list[Any]()
    for row in heapq.merge(left, right, key=lambda row: row.t):
        key = canonical(row, on)
        for other in before:
            near = type(other) is not type(row) and row.t - other.t <= within
            if near and key is not None and canonical(other, on) == key:
                out.append((row, other) if isinstance(row, Left) else (other, row))
        before.append(row)
    return out


def made(left: Left, right: Right) -> Made | None:
    return Made(left.t, right.t) if left.t % 3 else None


def swapped(left: Made, right: Made) -> Made | None:
    if left.left % 5 == 1:
        return None
    return Made(right.right * right.right // left.left // 2**40, left.right // right.left)


def told(left: Left, right: Right) -> Told | None:
    if right.part < 1.0 and right.v:
        return None
    return Told(
        f"{left.name}+{right.text[:2]}", right.name, right.number, left.raw, left.tags, right.v
    )


def noted(left: Made, right: Made) -> Made | None:
    return swapped(left, eval("right"))


def check(seed: int, on: list[str], count: int = 30) -> None:
    chooser = random.Random(seed)
    left, right = (rows_of(chooser, kind, count) for kind in (Left, Right))
    within = chooser.choice((0, 2, count // 3, 2**70))
    flow = tw.Flow("join", compile="never")
    a = flow.source("left", Left, order_by="t")
    b = flow.source("right", Right, order_by="t")
    a.join(b, on=on, within=within).sink("out")
    a.join(b, made, on=on, within=within, name="made").sink("made")
    result = testing.assert_same(
        flow, {"left": left, "right": right}, seeds=[seed], compile=("never",),
        restart_every=lambda c: c.choice([0, 1, 4]),
    )  # fmt: skip
    pairs = expected(left, right, on, within)
    rest = [name for name in Right._fields if name not in on]
    full = [(*one, *(getattr(two, name) for name in rest)) for one, two in pairs]
    assert repr([tuple(row) for row in result.sinks["out"]]) == repr(full)
    assert result.sinks["made"] == [one for pair in pairs if (one := made(*pair))]


@pytest.mark.slow
@pytest.mark.parametrize("on", KEYS, ids=lambda on: "-".join(on) or "time")
def test_pairs_are_those_of_a_loop(on: list[str]) -> None:
    """Every kind of key gives the loop's pairs in the loop's order, over cuts and restarts."""
    for seed in range(1, 3):
        check(seed, on)


@pytest.mark.slow
def test_a_function_in_machine_code_gives_what_python_gives() -> None:
    """A compiled function's pairs, those that Python replays, and its failure are those of the function."""
    values = [(t, 2**40 * t) for t in range(1, 40)]
    for function, compiled in ((swapped, True), (noted, False)):
        flow = tw.Flow("join")
        a, b = (flow.source(name, Made, order_by="left") for name in ("a", "b"))
        a.join(b, function, on=[], before=3, after=3).sink("out")
        how = "compiled" if compiled else "interpreted"
        assert f"pairs by column; {function.__name__} " in flow.explain() and how in flow.explain()
        assert "rows at most 3 apart" in flow.explain()
        rows = [Made(*one) for one in values]
        testing.assert_same(flow, {"a": rows, "b": rows}, seeds=[1], compile=("auto",))
        with pytest.raises(
            tw.OperatorError,
            match=r"ZeroDivisionError.*\n  function: .*raised at line .*\n"
            r"  row:      Made\(.*\n  row:      Made\(",
        ):
            tw.run(flow, {"a": [Made(0, 0)], "b": [Made(0, 0)]})


@pytest.mark.slow
def test_compiled_functions_of_all_kinds_of_fields() -> None:
    """Texts that are made and passed on, nulls, bytes, lists and floats come out as by Python's call."""
    left, right = (rows_of(random.Random(8), kind, 60) for kind in (Left, Right))
    flow = tw.Flow("join")
    a = flow.source("left", Left, order_by="t")
    b = flow.source("right", Right, order_by="t")
    a.join(b, told, on=["text"], within=20).sink("out")
    assert "told (" in flow.explain() and "interpreted" not in flow.explain()
    pairs = expected(left, right, ["text"], 20)
    inputs = {"left": left, "right": right}
    for options in ({"threads": 1}, {"threads": 2}, {"slots": 2}):
        rows = tw.run(flow, inputs, **options).rows("out")  # type: ignore[arg-type]
        assert repr(rows) == repr([one for pair in pairs if (one := told(*pair))])


@pytest.mark.slow
def test_equal_hashes_are_no_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of different keys make no pair where the hashes of the keys are equal, and outputs are counted anew."""

    class Colliding(KeySpec):
        def hashes(self, columns: Any, length: int | None = None) -> Any:
            return super().hashes(columns, length) % np.uint64(2)

    monkeypatch.setattr(form, "KeySpec", Colliding)
    check(3, ["text"])
    check(4, ["text", "part"])


def test_memory_is_bounded_by_what_is_in_reach() -> None:
    """Rows out of reach leave the columns and the table of keys while others come, step by step."""
    flow = tw.Flow("join", compile="never")
    a = flow.source("left", Made, order_by="left")
    b = flow.source("right", Made, order_by="left")
    joined = a.join(b, on="right", within=10)
    joined.sink("out")
    node: Any = flow.nodes[joined.ref.node - 1]
    join, (tagged,) = ColumnJoin(node), [flow.nodes[node.input.node - 1].out]
    assert tagged is not None
    out = 0
    for start in range(0, 30_000, 500):
        rows = [
            (right, t, t % 7, *((None, None, t, t % 7) if right else (t, t % 7, None, None)))
            for t in range(start, start + 500)
            for right in (False, True)
        ]
        chunk = Chunk.from_rows(tagged, rows)
        keys, times = [chunk.columns[2]], chunk.columns[1].values
        out += len(join.process(chunk, keys, times, 0, ending=False).source)
    sides = join._sides
    assert max(map(len, sides._held)) < 4_000
    assert sides._matcher._rows.nbytes < 400_000
    left = [row for table in join.tables.values() for row in table.fetch()[0].rows.rows()]
    assert len(left) < 4_000
    states = testing.states_of(node, [table.snapshot() for table in join.tables.values()])
    # Those that a row of the time of the last one, or a later one, can meet.
    kept = {k: [t for t in range(29_989, 30_000) if t % 7 == k] for k in range(7)}
    assert {key: [row.left for row in one.left] for key, one in states.items()} == kept
    assert out == sum(1 for t in range(30_000) for u in (-7, 0, 7) if 0 <= t + u < 30_000)


def test_held_rows_keep_their_numbers() -> None:
    """A row is found by its number whatever pieces there are, and numbers fall by those that are forgotten."""
    record = tw.Flow("x").source("x", Made).schema
    held, first, chooser = HeldRows(record), 0, random.Random(1)
    total = 0
    for _ in range(200):
        size = chooser.randrange(6)
        held.add(Chunk.from_rows(record, [Made(i, -i) for i in range(total, total + size)]))
        total += size
        gone = chooser.randrange(min(len(held), 4) + 1)
        held.forget(gone)
        first += gone
        assert len(held) == total - first
        numbers = [chooser.randrange(len(held)) for _ in range(5 * bool(len(held)))]
        found = held.take(np.array(numbers, np.int64), (1,))
        assert found.columns[0].to_python() == [-(first + one) for one in numbers]


def test_tables_say_what_changed() -> None:
    """A delta has the keys with new rows and those that are gone; a table that takes over all deltas is the same."""
    flow = tw.Flow("join", compile="never")
    a = flow.source("left", Left, order_by="t")
    b = flow.source("right", Right, order_by="t")
    joined = a.join(b, on="text", before=4, after=9, how="left")
    joined.sink("out")
    node: Any = flow.nodes[joined.ref.node - 1]
    session = testing.Session(flow, compile="never")
    left, right = (rows_of(random.Random(seed), kind, 60) for seed, kind in ((1, Left), (2, Right)))
    copies: dict[int, Any] = {}
    deleted = kept = 0
    for time in range(0, 70, 3):
        for name, rows in (("left", left), ("right", right)):
            session.feed(name, [row for row in rows if time - 3 <= row.t < time])
        session.tick(time)
        unit = session._engine.keyed["join"]
        for bucket, table in unit.tables.items():
            if not table.dirty:
                continue
            delta = table.delta()
            table.mark_saved()
            assert not table.dirty and not table.delta().num_rows
            copy = copies.setdefault(bucket, JoinTable(JoinForm(node)))
            copy.apply([delta])
            deleted += sum(delta.column(delta.num_columns - 1).to_pylist())
            assert not copy.dirty
            kept += len(table)
        for bucket, copy in copies.items():
            copy.clock = unit.tables[
                bucket
            ].clock  # which drops rows that nobody wrote down as gone
        states = testing.states_of(node, [one.snapshot() for one in copies.values()])
        expected = sorted(session.states("join").items(), key=repr)
        assert repr(sorted(states.items(), key=repr)) == repr(expected)
    assert deleted > 5 < kept
    session.end()
    for bucket, copy in copies.items():
        if unit.tables[bucket].dirty:
            copy.apply([unit.tables[bucket].delta()])
        assert not copy.snapshot().num_rows


def test_a_checkpoint_of_a_join_in_one_slot_is_refused() -> None:
    """What a join kept before it had a state by key cannot be read, and that is said by name."""
    flow = tw.Flow("join", compile="never")
    a, b = (flow.source(name, Made, order_by="left") for name in ("a", "b"))
    a.join(b, on="right", within=3).sink("out")
    new = manifest_of(make_plan(flow))
    fields = new.operators["join"].fields[:2]
    old = ManifestOperator("coroutine", (), 1, "Within", fields)
    found = operator_verdict("join", old, new.operators["join"], held=True, migrates=False)
    assert found.change.refusal().startswith(
        "operator 'join': the checkpoint has a coroutine operator, the flow has a keyed operator"
    )
