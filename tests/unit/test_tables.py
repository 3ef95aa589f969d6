"""State tables: a dict is the model, and the two tables cannot be told apart from outside."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import sized

from thalweg.checkpoint.state_tables.object_table import ObjectTable
from thalweg.checkpoint.state_tables.table_code import split_by_bucket
from thalweg.checkpoint.state_tables.table_form import ALIVE, DIRTY, SAVED
from thalweg.checkpoint.state_tables.tables import BucketTable
from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Column
from thalweg.columns.contracts import BucketState
from thalweg.columns.keys import KeySpec
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Category, Field, Timer
from thalweg.flow.state_class import state, state_spec
from thalweg.hashing import bucket_of
from thalweg.times import NEVER


@state
class Count:
    timer: Timer
    number: int = 7
    share: float = 0.5
    seen: bool = False
    last: Category = "none"


@state
class Mixed:
    names: list[bytes] = []
    note: str | None = None


SPEC = state_spec(Count)
FRESH = (NEVER, 7, 0.5, False, "none")

INT, STR = FieldType(Kind.INT), FieldType(Kind.STR)
#: Key types of every kind of identity, each with a few keys.
KEYS: list[tuple[tuple[FieldType, ...], list[Any]]] = [
    ((), [()]),
    ((INT,), [0, 1, -1, 2**63 - 1, -(2**63), 5, 6, 7, 8, 9]),
    (
        (FieldType(Kind.INT, optional=True), FieldType(Kind.FLOAT)),
        [(None, math.nan), (None, 0.0), (0, 0.0), (0, math.nan), (1, math.inf), (1, -1.5)],
    ),
    ((STR,), ["", "a", "ab", "a\0", "é" * 50, "b" * 300, "c"]),
    (
        (FieldType(Kind.STR, optional=True), FieldType(Kind.CATEGORY)),
        [(None, "x"), (None, "y"), ("", "x"), ("a\0", "x"), ("a", "\0x"), ("a", "y")],
    ),
]


def key_spec(types: tuple[FieldType, ...]) -> KeySpec:
    return KeySpec(tuple(Field(f"k{i}", one) for i, one in enumerate(types)))


@dataclasses.dataclass
class Compiled:
    """Drives a BucketTable as a kernel does."""

    table: BucketTable

    def entries(self, keys: list[Any]) -> np.ndarray[Any, Any]:
        rows = self.table.spec.rows(self.table.spec.columns_of(keys), len(keys))
        return self.table.lookup(*rows, np.arange(len(keys)))

    def write(self, key: Any, values: tuple[Any, ...]) -> None:
        table, entry = self.table, self.entries([key, key])[1]
        if not table.flags[entry] & ALIVE:
            table.records[entry] = table.default[0]
        stored = (*values[:-1], CATEGORIES.code(values[-1]))
        for name, value in zip(SPEC.schema.names, stored, strict=True):
            table.records[name][entry] = value
        table.flags[entry] |= ALIVE | DIRTY
        table.note_timer(values[0])

    def revive(self, key: Any) -> None:
        table, entry = self.table, self.entries([key])[0]
        if not table.flags[entry] & ALIVE:
            table.records[entry] = table.default[0]
            table.flags[entry] |= ALIVE | DIRTY

    def kill(self, key: Any) -> None:
        table, entry = self.table, self.entries([key])[0]
        if table.flags[entry] & ALIVE:
            table.flags[entry] = (table.flags[entry] & ~np.uint8(ALIVE)) | DIRTY

    def due(self, clock: int) -> list[Any]:
        entries = self.table.due(clock)
        return self.table.spec.python_keys(self.table.key_columns(entries), len(entries))


@dataclasses.dataclass
class Interpreted:
    """Drives an ObjectTable as an interpreted operator does."""

    table: ObjectTable

    def write(self, key: Any, values: tuple[Any, ...]) -> None:
        found = self.table.get_or_new(key)
        for name, value in zip(SPEC.schema.names, values, strict=True):
            setattr(found, name, value)
        self.table.touch(key)

    def revive(self, key: Any) -> None:
        self.table.get_or_new(key)

    def kill(self, key: Any) -> None:
        self.table.drop(key)

    def due(self, clock: int) -> list[Any]:
        return self.table.due(clock)


def content(batch: pa.RecordBatch) -> list[str]:
    """The rows as text, in an order of their own; NaN and None can then be compared."""
    columns = [column.to_pylist() for column in batch.columns]
    return sorted(map(repr, zip(*columns, strict=True)))


def states(spec: KeySpec, batch: pa.RecordBatch) -> dict[Any, Any]:
    """Key -> values of a batch without deletions."""
    assert not any(batch.column(batch.num_columns - 1).to_pylist())
    table = ObjectTable(spec, SPEC)
    table.load([batch])
    return {key: SPEC.values(table.get(key)) for key in table._states}


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.integers(0, 9),
            st.tuples(
                st.one_of(st.just(NEVER), st.integers(0, 20)),
                st.integers(-5, 5),
                st.sampled_from([0.5, -0.0, 1e300]),
                st.booleans(),
                st.sampled_from(["none", "", "cart"]),
            ),
        ),
        st.tuples(st.sampled_from(["kill", "revive", "due"]), st.integers(0, 21), st.none()),
        st.tuples(st.sampled_from(["save", "snapshot", "load", "tidy"]), st.none(), st.none()),
    ),
    max_size=40,
)


class World:
    """Both tables, the model, and what a checkpoint holds."""

    def __init__(self, spec: KeySpec) -> None:
        self.spec = spec
        self.drivers = (
            Compiled(BucketTable(spec, SPEC)),
            Interpreted(ObjectTable(spec, SPEC)),
        )
        self.model: dict[Any, tuple[Any, ...]] = {}
        self.files: list[pa.RecordBatch] = []

    def write(self, key: Any, values: tuple[Any, ...]) -> None:
        self.model[key] = values
        for driver in self.drivers:
            driver.write(key, values)

    def revive(self, key: Any) -> None:
        self.model.setdefault(key, FRESH)
        for driver in self.drivers:
            driver.revive(key)

    def kill(self, key: Any) -> None:
        self.model.pop(key, None)
        for driver in self.drivers:
            driver.kill(key)

    def due(self, clock: int) -> None:
        """Fires: keys of odd number arm again, the others are dropped."""
        expected = [key for key, values in self.model.items() if values[0] < clock]
        for driver in self.drivers:
            assert sorted(map(repr, driver.due(clock))) == sorted(map(repr, expected))
        for key in expected:
            if self.model[key][1] % 2:
                self.write(key, (clock, *self.model[key][1:]))
            else:
                self.kill(key)

    def save(self, *, whole: bool) -> None:
        tables = [driver.table for driver in self.drivers]
        one, other = [table.snapshot() if whole else table.delta() for table in tables]
        assert content(one) == content(other)
        assert one.schema == other.schema
        assert {table.dirty for table in tables} == {table.delta().num_rows > 0 for table in tables}
        self.files = [one] if whole else [*self.files, other]
        for table in tables:
            table.mark_saved()
            assert not table.dirty
            assert table.delta().num_rows == 0

    def load(self) -> None:
        """A restart from files of both tables: snapshots of the compiled, deltas of the interpreted."""
        self.save(whole=False)
        for driver in self.drivers:
            driver.table = type(driver.table)(self.spec, SPEC)
            driver.table.load(self.files)
            assert not driver.table.dirty

    def catch_up(self) -> None:
        """Deltas upon a table that has what came before them give the same as all at once."""
        for driver in self.drivers:
            behind = type(driver.table)(self.spec, SPEC)
            behind.load(self.files[:1])
            for number in range(1, len(self.files)):
                behind.apply(self.files[number : number + 1])
                assert not behind.dirty
            assert states(self.spec, behind.snapshot()) == self.model
            if self.model:
                assert behind.next_timer == min(values[0] for values in self.model.values())

    def check(self) -> None:
        for driver in self.drivers:
            assert len(driver.table) == len(self.model)
            assert states(self.spec, driver.table.snapshot()) == self.model
            assert driver.table.next_timer <= min(
                (v[0] for v in self.model.values()), default=NEVER
            )


@pytest.mark.parametrize(("types", "keys"), KEYS, ids=lambda one: str(len(one)))
@given(operations=OPERATIONS)
@settings(max_examples=sized(40), deadline=None, derandomize=True)
def test_both_tables_are_a_dict(
    types: tuple[FieldType, ...], keys: list[Any], operations: list[tuple[str, Any, Any]]
) -> None:
    """Over any sequence of changes, timers, saves and restarts, both tables equal the model."""
    spec = key_spec(types)
    # NaN must be the one that the tables give back.
    keys = spec.python_keys(spec.columns_of(keys), len(keys))
    world = World(spec)
    for name, number, values in operations:
        if name == "write":
            world.write(keys[number % len(keys)], values)
        elif name in ("kill", "revive"):
            getattr(world, name)(keys[number % len(keys)])
        elif name == "due":
            world.due(number)
        elif name == "load":
            world.load()
        elif name == "tidy":
            world.drivers[0].table.tidy()
        else:
            world.save(whole=name == "snapshot")
        world.check()
    world.load()
    world.check()
    world.catch_up()


def filled(spec: KeySpec, columns: list[Column], count: int) -> BucketTable:
    """A table with a state for each of these keys, numbered in order."""
    table = BucketTable(spec, SPEC)
    entries = table.lookup(*spec.rows(columns, count), np.arange(count))
    assert entries.tolist() == list(range(count))
    table.records[:count] = table.default[0]
    table.records["number"][:count] = np.arange(count)
    table.flags[:count] = ALIVE | DIRTY
    return table


@pytest.mark.parametrize("kind", [INT, STR, FieldType(Kind.STR, optional=True)], ids=str)
def test_growing_and_compacting_keep_every_key(kind: FieldType) -> None:
    """10,000 keys, of which nine in ten die: the rest is found under its values, in less memory."""
    spec, count = key_spec((kind,)), 10_000
    values = [i * 977 if kind is INT else f"key {i}" for i in range(count)]
    columns = [Column.from_python(kind, values)]
    table = filled(spec, columns, count)
    table.mark_saved()
    before = table.nbytes
    dead = np.arange(count) % 10 != 0
    table.flags[:count][dead] = DIRTY | SAVED
    assert table.delta().num_rows == dead.sum()
    table.mark_saved()
    assert (table.count, len(table)) == (1000, 1000)
    assert table.nbytes < before / 4
    entries = table.lookup(*spec.rows(columns), np.arange(count))
    assert table.records["number"][entries[~dead]].tolist() == list(range(0, count, 10))
    assert not table.flags[entries[dead]].any()
    if kind is not INT:
        [texts] = table.key_columns(entries)
        assert texts.to_python() == values


def test_entries_stay_while_a_chunk_grows_the_table() -> None:
    """Repeated and new keys in one lookup, over several growths: each key has one entry."""
    spec = key_spec((INT,))
    numbers = np.random.default_rng(3).integers(0, 500, 5000)
    table = BucketTable(spec, SPEC)
    first = table.lookup(*spec.rows([Column(INT, numbers)]), np.arange(5000))
    again = table.lookup(*spec.rows([Column(INT, numbers)]), np.arange(5000)[::-1].copy())
    assert first.tolist() == again[::-1].tolist()
    assert table.key_columns(first)[0].values.tolist() == numbers.tolist()


def test_keys_of_equal_hash_are_apart() -> None:
    """Nothing hangs on hashes being different."""
    for kind, values in ((INT, list(range(100))), (STR, [f"k{i}" for i in range(100)])):
        spec = key_spec((kind,))
        rows = spec.rows([Column.from_python(kind, values)])._replace(
            hashes=np.full(100, 5, np.uint64)
        )
        table = BucketTable(spec, SPEC)
        assert table.lookup(*rows, np.arange(100)).tolist() == list(range(100))
        assert table.lookup(*rows, np.arange(100)).tolist() == list(range(100))


def test_keys_that_come_and_go_are_tidied_away_without_saves() -> None:
    """A run without a checkpoint does not keep the dead."""
    spec = key_spec((INT,))
    table = BucketTable(spec, SPEC)
    for start in range(0, 100_000, 1000):
        keys = [Column(INT, np.arange(start, start + 1000))]
        entries = table.lookup(*spec.rows(keys), np.arange(1000))
        table.flags[entries] = DIRTY
        table.tidy()
    assert table.count < 5000
    assert not table.dirty


def test_timers_are_found_wherever_they_are_armed() -> None:
    """Compiled: looked up, armed, due, armed again without a look-up, over many blocks and rounds."""
    spec, count = key_spec((INT,)), 3000
    random = np.random.default_rng(5)
    rows = spec.rows([Column(INT, np.arange(count))])
    table = filled(spec, [Column(INT, np.arange(count))], count)
    timers = table.records["timer"]
    fired = 0
    for clock in range(0, 4000, 20):
        chosen = random.integers(0, count, 40)
        entries = table.lookup(*rows, chosen)
        timers[entries] = random.integers(clock, clock + 2000, 40)
        table.flags[entries] = ALIVE | DIRTY
        table.note_timer(timers[entries].min())
        while True:
            alive = (table.flags[:count] & ALIVE) != 0
            expected = np.flatnonzero(alive & (timers[:count] < clock))
            due = table.due(clock)
            assert sorted(due.tolist()) == expected.tolist()
            if not len(due):
                break
            fired += len(due)
            again = due[::2]
            table.flags[due[1::2]] = DIRTY
            timers[again] += random.integers(1, 60, len(again))
            table.note_timer(timers[again].min())
    assert fired > 1000


def test_a_key_that_comes_again_after_its_tombstone_starts_anew() -> None:
    """Once a deletion is on disk, coming and going leaves no second tombstone."""
    for driver in (
        Compiled(BucketTable(key_spec((INT,)), SPEC)),
        Interpreted(ObjectTable(key_spec((INT,)), SPEC)),
    ):
        driver.write(1, (5, 6, 0.0, True, "cart"))
        driver.table.mark_saved()
        driver.kill(1)
        assert driver.table.delta().to_pylist()[0]["_deleted"]
        driver.table.mark_saved()
        driver.revive(1)
        assert states(driver.table.spec, driver.table.delta()) == {1: FRESH}
        driver.kill(1)
        assert not driver.table.dirty
        assert driver.table.delta().num_rows == 0


def test_an_object_table_forgets_old_timers() -> None:
    """Arming one timer over and over does not grow the heap without bound."""
    table = ObjectTable(key_spec((INT,)), SPEC)
    for tick in range(1000):
        table.get_or_new(1).timer = tick
        table.touch(1)
        assert table.next_timer == tick
    assert len(table._heap) < 200
    assert table.due(1000) == [1]


def test_interpreted_states_hold_anything() -> None:
    """Lists and Optional text survive a restart; a compiled table refuses them by name."""
    spec, mixed = key_spec((INT,)), state_spec(Mixed)
    table = ObjectTable(spec, mixed)
    table.get_or_new(1).names.append(b"a")
    table.get_or_new(2).note = "n"
    again = ObjectTable(spec, mixed)
    again.load([table.delta()])
    assert mixed.values(again.get(1)) == ([b"a"], None)
    assert mixed.values(again.get(2)) == ([], "n")
    assert again.get(3) is None
    with pytest.raises(
        SchemaError, match=r"Mixed\.names: bytes inside of a compiled state's field"
    ):
        BucketTable(spec, mixed)


def test_both_are_bucket_states() -> None:
    """The seam to the state files; the type checker reads the annotations."""
    spec = key_spec((INT,))
    tables: list[BucketState] = [BucketTable(spec, SPEC), ObjectTable(spec, SPEC)]
    for table in tables:
        table.load([])
        assert (len(table), table.dirty, table.snapshot().num_rows) == (0, False, 0)
        assert table.nbytes > 0


@given(st.lists(st.integers(0, 6)))
@settings(max_examples=sized(50), deadline=None, derandomize=True)
def test_split_by_bucket_is_a_stable_sort(buckets: list[int]) -> None:
    """Every row once, bucket after bucket, in its order."""
    order, starts = split_by_bucket(np.array(buckets, np.int64), 7)
    assert order.tolist() == sorted(range(len(buckets)), key=buckets.__getitem__)
    assert np.diff(starts).tolist() == [buckets.count(b) for b in range(7)]


@pytest.mark.slow
def test_five_million_keys_load_in_seconds_within_two_gigabytes() -> None:
    """128 buckets of 40 bytes of state a key, as they come from disk."""
    spec, count, buckets = key_spec((INT,)), 5_000_000, 128
    columns = [Column(INT, np.arange(count) * 7919)]
    order, starts = split_by_bucket(bucket_of(spec.hashes(columns), buckets), buckets)
    batches = []
    for bucket in range(buckets):
        rows = order[starts[bucket] : starts[bucket + 1]]
        batches.append(filled(spec, [columns[0].take(rows)], len(rows)).snapshot())
    begin = time.perf_counter()
    tables = [BucketTable(spec, SPEC) for _ in batches]
    for table, batch in zip(tables, batches, strict=True):
        table.load([batch])
    took = time.perf_counter() - begin
    held = sum(table.nbytes for table in tables)
    print(
        f"\n5 M keys: loaded in {took:.1f} s, {held / 1e6:.0f} MB, {held / count:.0f} bytes a key"
    )
    assert sum(map(len, tables)) == count
    assert held < 2e9
    assert took < 20
