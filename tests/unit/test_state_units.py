"""State units: which bucket or pin group a key is in, and operators that keep their state by them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.columns.state_units import StateUnits
from thalweg.engine.build import prepare
from thalweg.engine.contract import Engine
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.engine.serial import SerialEngine
from thalweg.flow.records import Schema
from thalweg.hashing import bucket_of, hash_words
from thalweg.plan.plan import make_plan
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.native.keyed_layout import ROWS_IN
from thalweg.workers.options import Options

_HASHES = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=60)


@given(
    st.dictionaries(st.integers(0, 2**64 - 1) | st.integers(0, 9), st.integers(0, 4), max_size=40),
    _HASHES,
)
def test_units_of_hashes(pinned: dict[int, int], others: list[int]) -> None:
    """A pinned hash is in its group's unit, any other in its bucket's; also hashes that meet in the index."""
    units = StateUnits.pinning(16, 5, pinned)
    hashes = np.array([*pinned, *others], np.uint64)
    buckets = bucket_of(hashes, 16).tolist()
    wanted = [16 + pinned[h] if h in pinned else buckets[i] for i, h in enumerate(hashes.tolist())]
    assert units.of(hashes).tolist() == wanted
    assert units.count == 21


def test_a_group_that_is_none() -> None:
    """Groups are counted from 0."""
    with pytest.raises(ValueError, match="0 to 1, got 0 to 2"):
        StateUnits.pinning(8, 2, {1: 0, 2: 2})


@given(st.integers(1, 30), st.integers(1, 9), st.sets(st.integers(0, 19)), st.booleans())
def test_partitions(buckets: int, count: int, owned: set[int], pins: bool) -> None:
    """They are runs of units, and no partition has a unit too many of those that are owned, by kind."""
    groups = 20
    units = StateUnits.pinning(buckets, groups, {1: 0} if pins else {})
    mine = [unit for unit in owned if unit < buckets] + [buckets + group for group in owned]
    found = units.partitions(count, mine)
    assert len(found) == units.count
    assert found.min() >= 0 and found.max() < count
    assert (np.diff(found) >= 0).all()
    if not pins:
        sizes = np.bincount(found[mine], minlength=count) if mine else np.zeros(count)
        assert sizes.max() - sizes.min() <= 1


def test_the_groups_of_a_slot_are_in_several_partitions() -> None:
    """Where keys are pinned, half of the partitions have the slot's four groups, the other half its buckets."""
    owned = [*range(43, 64), *range(136, 140)]
    hashed, pinned = (StateUnits.pinning(128, 24, pins) for pins in ({}, {7: 8}))
    assert pinned.partitions(8, owned)[136:140].tolist() == [4, 5, 6, 7]
    sizes = [6, 5, 5, 5, 1, 1, 1, 1]
    assert np.bincount(pinned.partitions(8, owned)[owned]).tolist() == sizes
    assert np.bincount(hashed.partitions(8, owned)[owned]).tolist() == [4, 3, 3, 3, 3, 3, 3, 3]
    assert np.bincount(StateUnits.of_buckets(128).partitions(8)).tolist() == [16] * 8


class Row(NamedTuple):
    key: int


class Out(NamedTuple):
    key: int
    n: int


@tw.state
class Count:
    n: int = 0


def count(seen: Count, row: Row) -> Out:
    seen.n += 1
    return Out(row.key, seen.n)


def make_engine(compile: str, threads: int, *, native: bool) -> Engine:
    flow = tw.Flow("units")
    rows = flow.source("rows", Row)
    rows.key_by("key").process(count, state=Count, compile=compile).sink("out")
    prepared = prepare(make_plan(flow))
    if threads == 1:
        return SerialEngine(prepared)
    return ParallelEngine(prepared, options=Options(threads=threads, native=native))


@pytest.mark.parametrize(
    ("compile", "threads", "native"),
    [
        ("require", 1, False),
        ("require", 2, False),
        ("require", 2, True),
        ("never", 1, False),
        ("never", 2, False),
    ],
)
def test_state_by_units(compile: str, threads: int, native: bool) -> None:
    """Pinned keys have their state in the table of their group, and count as before."""
    engine = make_engine(compile, threads, native=native)
    unit = engine.keyed["count"]
    assert isinstance(unit, KeyedUnit)
    buckets = unit.node.key.buckets
    hashes = hash_words(np.arange(50, dtype=np.int64).reshape(-1, 1)).tolist()
    pinned = {hashes[key]: key % 3 for key in range(0, 50, 5)}
    units = StateUnits.pinning(buckets, 3, pinned)
    unit.set_units(units, range(0, units.count, 2))
    engine.resume()
    keys = [key % 50 for key in range(200)]
    chunk = Chunk.from_rows(Schema.of(Row), [Row(k) for k in keys])
    leaving = [engine.feed("rows", chunk), *engine.finish()]
    engine.stop()
    if isinstance(engine, ParallelEngine):
        taken = [int(task.keyed.counts[ROWS_IN]) for task in engine.tasks if task.keyed is not None]
        assert taken == ([200] if native else [])
    rows = [
        row for step in leaving for chunks in step.values() for one in chunks for row in one.rows()
    ]
    assert rows == [Out(key, 1 + i // 50) for i, key in enumerate(keys)]
    held = {unit_: len(table) for unit_, table in unit.tables.items() if len(table)}
    wanted = np.bincount(units.of(np.array(hashes, np.uint64)), minlength=units.count)
    assert held == {i: n for i, n in enumerate(wanted.tolist()) if n}
