"""Native memory: calls by address, blocks over Python's chunks and back, and pieces that are used again."""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.columns.chunks import Chunk
from thalweg.compiler.code.columns import address
from thalweg.compiler.kinds import NO_VALUE
from thalweg.compiler.runtime import calls
from thalweg.flow.records import Category, Schema, Timestamp
from thalweg.jit import njit
from thalweg.plan.plan import OWN, TIME
from thalweg.workers.native import blocks
from thalweg.workers.native.block_chunks import chunk_of, view_block
from thalweg.workers.native.blocks import BlockShape


class Every(NamedTuple):
    """A field of every kind."""

    at: Timestamp
    n: int
    x: float
    ok: bool
    kind: Category
    maybe: int | None
    perhaps: bool | None
    price: float | None
    label: Category | None
    text: str
    note: str | None
    raw: bytes
    tags: list[int]


class Numbers(NamedTuple):
    n: int
    maybe: float | None


SCHEMA = Schema.of(Every)
quick = settings(derandomize=True, deadline=None, max_examples=40, database=None)
ints = st.integers(-(2**60), 2**60)
rows = st.builds(
    Every,
    at=ints, n=ints, x=st.floats(allow_nan=False), ok=st.booleans(), kind=st.sampled_from(["a", "b", ""]),
    maybe=st.none() | ints, perhaps=st.none() | st.booleans(), price=st.none() | st.floats(allow_nan=False),
    label=st.none() | st.sampled_from(["a", "c"]), text=st.text(max_size=5), note=st.none() | st.text(max_size=5),
    raw=st.binary(max_size=5), tags=st.lists(ints, max_size=3),
)  # fmt: skip


def words_of(place: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(place))


@njit
def reciprocal(a: int, b: int, c: int) -> int:
    if c == 0:
        raise ZeroDivisionError("c")
    return a + b // c


@njit
def call(place: int, a: int, b: int, c: int) -> tuple[int, int]:
    status, value = calls.call3(place, a, b, c)
    return status, value


def test_calls_by_address() -> None:
    """A call gives the value and status 0; one that raises another status, and the caller goes on."""
    place = calls.address_of(reciprocal)
    assert call(place, 1, 9, 2) == (0, 5)
    assert call(place, 1, 9, 0)[0] != 0
    assert call(place, 1, -9, 2) == (0, -4)
    assert calls.address_of(reciprocal) == place


def test_functions_loaded_from_the_cache_have_an_address(tmp_path: pathlib.Path) -> None:
    """The second process loads what the first one compiled, and calls it all the same."""
    (tmp_path / "cached.py").write_text(
        "from thalweg.jit import njit\n"
        "from thalweg.compiler.runtime.calls import address_of, call3\n"
        "@njit\ndef add(a, b, c):\n    return a + b + c\n"
        "@njit\ndef call(place):\n    return call3(place, 1, 2, 3)[1]\n"
        "print(call(address_of(add)), sum(add.stats.cache_hits.values()))\n"
    )
    source = pathlib.Path(blocks.__file__).parents[3]
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(tmp_path / "cached.py")], capture_output=True, text=True, check=True,
            env={"PYTHONPATH": str(source), "THALWEG_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""},
        )  # fmt: skip
        found.append(done.stdout.split())
    assert found == [["6", "0"], ["6", "1"]]


@njit
def stretched(count: int) -> int:
    """Writes words, moves them to a larger piece, and sums them."""
    place = calls.malloc(8 * count)
    for i in range(count):
        calls.put_i(place + 8 * i, i)
    place = calls.realloc(place, 8000 * count)
    total = 0
    for i in range(count):
        total += calls.get_i(place + 8 * i)
    calls.free(place)
    return total


def test_memory_without_owner() -> None:
    """Memory from C's allocator keeps what was written when it grows."""
    assert stretched(100) == 4950


def with_times(given: list[Every], schema: Schema = SCHEMA) -> Chunk:
    chunk = Chunk.from_rows(schema, given)
    chunk.order = {name: np.arange(len(given)) * 3 + at for at, name in enumerate((TIME, OWN))}
    return chunk


def same(a: Chunk, b: Chunk) -> None:
    assert len(a) == len(b)
    assert a.order.keys() == b.order.keys()
    for name, values in a.order.items():
        assert np.array_equal(values, b.order[name])
    for one, other in zip(a.columns, b.columns, strict=True):
        assert one.to_arrow().equals(other.to_arrow())


@quick
@given(st.lists(rows, max_size=12), st.integers(0, 3), st.integers(0, 3))
def test_chunks_seen_as_blocks(given: list[Every], skipped: int, cut: int) -> None:
    """A view says all of the chunk, also of a part of one, and a copy of it needs the chunk no more."""
    whole = with_times(given)
    start = min(skipped, len(whole))
    chunk = whole.slice(start, max(start, len(whole) - cut))
    words, keep = view_block(chunk, 7)
    made = chunk_of(address(words), SCHEMA, (TIME, OWN), chunk.columns)
    assert words[blocks.payload_word(len(SCHEMA.fields))] == 7
    same(made, chunk)
    for one in keep:
        assert not any(np.shares_memory(one, c.values) for c in made.columns if c.type.fixed_width)


def test_strided_columns_are_copied_for_a_view() -> None:
    """Columns that are not contiguous are kept as copies."""
    chunk = with_times(
        [Every(i, i, i / 2, True, "a", None, True, 1.0, "c", "t", None, b"", []) for i in range(9)]
    )
    chunk.columns[1].values = np.arange(18)[::2]
    chunk.order[TIME] = np.arange(27)[::3]
    words, _keep = view_block(chunk, 0)
    same(chunk_of(address(words), SCHEMA, (TIME, OWN), chunk.columns), chunk)


def test_order_columns_are_as_wanted() -> None:
    """Columns that the stream does not carry are left out; those that the block lacks are zeros."""
    chunk = Chunk.from_rows(SCHEMA, [])
    schema = Schema.of(Numbers)
    chunk = Chunk.from_rows(schema, [Numbers(1, None), Numbers(2, 0.5)])
    chunk.order = {TIME: np.array([5, 6])}
    words, _keep = view_block(chunk, 4)
    assert words[blocks.payload_word(2)] == blocks.NO_PAYLOAD
    assert chunk_of(address(words), schema, (), []).order == {}
    made = chunk_of(address(words), schema, (TIME, OWN), [])
    assert {name: values.tolist() for name, values in made.order.items()} == {
        TIME: [5, 6],
        OWN: [0, 0],
    }


def test_text_by_payload_column_and_row() -> None:
    """A field may take each row from another column, or from none, and rows in any order."""

    class Two(NamedTuple):
        left: str | None
        right: str | None

    schema = Schema.of(Two)
    chunk = Chunk.from_rows(schema, [Two(f"l{i}", f"r{i}") for i in range(5)])
    words, _keep = view_block(chunk, 0)
    numbers, places = np.array([1, 0, NO_VALUE, 1, 1]), np.array([4, 0, 2, 2, 3])
    words[blocks.values_word(0)] = address(numbers)
    words[blocks.values_word(1) + 1] = NO_VALUE
    words[blocks.payload_row_word(2)] = address(places)
    made = chunk_of(address(words), schema, (), chunk.columns)
    assert made.columns[0].values.to_pylist() == ["r4", "l0", None, "r2", "r3"]
    assert made.columns[1].values.equals(pa.nulls(5, pa.string()))


@pytest.mark.parametrize("rows", [0, 1, 5, 1000, 20000, 70000])
def test_columns_of_a_block_do_not_meet(rows: int) -> None:
    """Every column has its room: what is written to one shows in no other, nor in the words."""
    shape = BlockShape(Schema.of(Numbers), (TIME, OWN), columns=2, words=3)
    block = blocks.new_block(shape.address, rows)
    fields = 2
    table = words_of(block, shape.words_at)[blocks.table_word(fields) :]
    assert table[0] >= rows
    assert table[4] == 0  # the validity of a field that is never None
    columns = [*table[1:4], table[5], *words_of(block + 8 * blocks.time_word(fields), 2)]
    for number, column in enumerate(columns):
        ctypes.memset(column, number, 8 * table[0])
    ctypes.memset(table[6], 99, table[0])
    ctypes.memset(block + 8 * shape.words_at, 77, 24)
    for number, column in enumerate(columns):
        assert ctypes.string_at(column, 8 * table[0]) == bytes([number]) * 8 * table[0]
    assert ctypes.string_at(table[6], table[0]) == bytes([99]) * table[0]
    assert words_of(block, shape.words_at)[blocks.table_word(fields) :] == table
    assert ctypes.string_at(block + 8 * shape.words_at, 24) == bytes([77]) * 24
    blocks.free_block(block, 0, 0)
    shape.close()
    assert shape.pieces == (1, 1)


def test_growing_keeps_rows_and_words() -> None:
    """The larger block has what the smaller one had, and that one waits to be used again."""
    shape = BlockShape(Schema.of(Numbers), (), columns=1, words=2)
    small = blocks.new_block(shape.address, 4)
    table = words_of(small, shape.words_at)[blocks.table_word(2) :]
    for column in (table[1], table[2], table[4]):
        ctypes.memmove(column, np.arange(4).tobytes(), 32)
    ctypes.memmove(table[5], bytes([1, 0, 1, 0]), 4)
    ctypes.memmove(small + 8 * shape.words_at, np.array([11, 12]).tobytes(), 16)
    large = blocks.grow_block(small, 3, 1000)
    grown = words_of(large, shape.words_at)[blocks.table_word(2) :]
    assert grown[0] >= 1000
    assert [words_of(grown[i], 3) for i in (1, 2, 4)] == [[0, 1, 2]] * 3
    assert ctypes.string_at(grown[5], 3) == bytes([1, 0, 1])
    assert words_of(large + 8 * shape.words_at, 2) == [11, 12]
    assert blocks.new_block(shape.address, 2) == small
    assert shape.pieces == (2, 0)


def test_pieces_wait_up_to_a_bound() -> None:
    """Freed blocks are used again before new ones are made; more than the ring holds go back at once."""
    shape = BlockShape(Schema.of(Numbers), ())
    many = [blocks.new_block(shape.address, 3) for _ in range(200)]
    assert len(set(many)) == 200
    for block in many:
        blocks.free_block(block, 0, 0)
    made, freed = shape.pieces
    assert made == 200
    kept = made - freed
    assert 0 < kept < 200
    again = [blocks.new_block(shape.address, 3) for _ in range(kept)]
    assert set(again) <= set(many)
    assert shape.pieces == (made, freed)
    for block in again:
        blocks.free_block(block, 0, 0)
    shape.close()
    assert shape.pieces == (200, 200)


def test_large_blocks_do_not_wait() -> None:
    """What is larger than any usual chunk goes back to the allocator."""
    shape = BlockShape(Schema.of(Numbers), ())
    blocks.free_block(blocks.new_block(shape.address, 10**6), 0, 0)
    assert shape.pieces == (1, 1)


def test_views_are_not_freed() -> None:
    """Freeing a view does nothing: Python owns it."""
    words, _keep = view_block(with_times([]), 0)
    before = words.copy()
    assert blocks.free_block(address(words), 0, 0) == 0
    assert np.array_equal(words, before)


@njit
def churn(shape: int, me: int, count: int) -> int:
    """Makes and frees blocks, a few at a time, and marks each: how often the mark was gone."""
    wrong, seed = 0, me
    held = [0] * 8
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) & 0x7FFFFFFFFFFFFFFF
        slot = (seed >> 33) & 7
        if held[slot] != 0:
            wrong += calls.get_i(held[slot]) != 8 * me + slot
            blocks.free_block(held[slot], 0, 0)
        held[slot] = blocks.new_block(shape, (seed >> 40) & 63)
        calls.put_i(held[slot], 8 * me + slot)
    for slot in range(8):
        if held[slot] != 0:
            blocks.free_block(held[slot], 0, 0)
    return wrong


def test_threads_share_a_shape() -> None:
    """No two threads ever hold the same block, and all pieces come back."""
    shape = BlockShape(Schema.of(Numbers), (TIME,))
    found: list[Any] = []

    def work(me: int) -> None:
        found.append(churn(shape.address, me, 20000))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(1, 4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [0, 0, 0]
    shape.close()
    made, freed = shape.pieces
    assert made == freed > 0
