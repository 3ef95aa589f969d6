"""Chains as machine code from block to block give what the same units give in Python."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.compiler.code.columns import address
from thalweg.compiler.runtime.calls import call3, get_i
from thalweg.compiler.stateless import Step, stateless_kernel
from thalweg.engine.build import Builder, prepare
from thalweg.engine.units import ChainUnit, Moment, Setting
from thalweg.flow.operators.nodes import Ref, Stateless
from thalweg.flow.records import Category, Schema
from thalweg.jit import njit
from thalweg.plan.plan import KEY, LEVEL, OWN, TIME, make_plan
from thalweg.workers.native.block_chunks import chunk_of, view_block
from thalweg.workers.native.blocks import free_block, table_word
from thalweg.workers.native.chain import NativeChain, eligible, run_chain


class Row(NamedTuple):
    n: int
    x: float
    ok: bool
    kind: Category
    maybe: int | None
    perhaps: bool | None
    price: float | None
    text: str
    note: str | None
    tags: list[int]


class Texts(NamedTuple):
    n: int
    one: str
    other: str | None
    tags: list[int] | None
    flag: bool | None


class Small(NamedTuple):
    n: int
    maybe: int | None


def same(r: Row) -> Row:
    return r


def changed(r: Row) -> Row | None:
    if r.n % 5 == 0:
        return None
    flag = None if r.ok else r.n > 0
    return Row(
        r.n + 1, -r.x, not r.ok, "a" if r.ok else r.kind, r.maybe if r.n > 0 else 3, flag, r.price, r.text, r.note,
        r.tags,
    )  # fmt: skip


def is_odd(r: Row) -> bool:
    return r.n % 2 == 1


def copies(r: Row) -> Iterator[Row]:
    for i in range(r.n % 51):
        yield Row(i, r.x, r.ok, r.kind, r.maybe, r.perhaps, r.price, r.text, r.note, r.tags)


def picked(r: Row) -> Texts:
    return Texts(
        r.n, r.text, r.text if r.n % 3 == 0 else None if r.n % 3 == 1 else r.note, None, r.perhaps
    )


def swapped(t: Texts) -> Iterator[Texts]:
    yield Texts(t.n, t.one, t.one, t.tags, None)
    if t.n % 2 == 0:
        yield Texts(-t.n, t.one, t.other, None, True)


def small(r: Row) -> Small:
    return Small(r.n, r.maybe)


def inverse(r: Row) -> Small:
    return Small(100 // r.n, None)


def kept(r: Row) -> bool:
    return r.n > -100


def speaks(r: Row) -> bool:
    return r.text != "t7" and (r.note is None or "y" in r.note or r.text[:1] in r.note)


def looked_at(r: Row) -> Row:
    made = f"{r.n:04d}{r.text.strip()}" + (r.note or "-") * 2
    many = len(made) + len(r.text.replace("t", "123456789" * 99).split("5"))
    return (
        r
        if made < r.text
        else Row(many, r.x, made == r.text, r.kind, None, None, None, r.text, r.note, r.tags)
    )


def written(r: Row) -> Texts:
    return Texts(r.n, r.text.strip(), r.note, None, None)


CHAINS: dict[str, list[tuple[str, Any, Any]]] = {
    "same": [("map", same, Row)],
    "changed": [("map", changed, Row)],
    "filter": [("filter", is_odd, Row)],
    "all": [("filter", kept, Row), ("map", picked, Texts)],
    "many": [("flat_map", copies, Row)],
    "flood": [("flat_map", copies, Row), ("flat_map", copies, Row)],
    "texts": [("map", picked, Texts), ("flat_map", swapped, Texts)],
    "long": [("filter", is_odd, Row), ("flat_map", copies, Row), ("map", changed, Row), ("map", picked, Texts)],
    "looks": [("filter", speaks, Row), ("map", looked_at, Row), ("filter", speaks, Row)],
    "writes": [("map", written, Texts)],
    "small": [("map", small, Small)],
    "error": [("map", inverse, Small)],
}  # fmt: skip
ORDERS: list[tuple[str, ...]] = [(), (TIME,), (TIME, OWN)]

quick = settings(derandomize=True, deadline=None, max_examples=25, database=None)
rows = st.builds(
    Row,
    n=st.integers(-200, 200), x=st.floats(), ok=st.booleans(), kind=st.sampled_from(["a", "b", ""]),
    maybe=st.none() | st.integers(-3, 3), perhaps=st.none() | st.booleans(), price=st.none() | st.floats(),
    text=st.text(max_size=3), note=st.none() | st.text(max_size=3), tags=st.lists(st.integers(0, 9), max_size=2),
)  # fmt: skip


class Fixed(Setting):
    """A setting in which every stream carries the same order columns."""

    names: Sequence[str] = ()

    def columns(self, ref: Ref) -> tuple[str, ...]:
        return tuple(self.names)


class Both:
    """A chain as a unit in Python and as machine code."""

    def __init__(self, name: str, order: Sequence[str], *, errors: Any = "reject") -> None:
        flow = tw.Flow(name)
        stream: Any = flow.source("in", Row)
        for number, (verb, function, _) in enumerate(CHAINS[name]):
            stream = getattr(stream, verb)(function, name=f"step{number}", errors=errors)
        stream.sink("out")
        prepared = prepare(make_plan(flow))
        unit = next(
            u for u in prepared.plan.units if isinstance(prepared.plan.node(u.nodes[0]), Stateless)
        )
        nodes = [node for i in unit.nodes if isinstance(node := prepared.plan.node(i), Stateless)]
        self.setting = Fixed(prepared.plan, False, {})
        self.setting.names = order
        self.unit = ChainUnit(self.setting, nodes, Builder(prepared).chain(unit))
        self.order = order
        self.nodes = nodes
        assert eligible(self.unit, order) is (name != "writes")
        self.native = NativeChain(self.unit.parts[0][1], order)

    def in_python(self, chunk: Chunk) -> Chunk:
        return self.unit.run([chunk], Moment({}, frozenset()))[Ref(self.nodes[-1].index)]

    def run(self, block: int, payload: Chunk) -> tuple[int, Chunk | None]:
        """The output as a block, for the caller to free, and as a chunk."""
        # A worker's scratch stands anywhere in memory.
        made = run_chain(self.native.ctx, block, self.native.ctx + 64)
        if not made:
            return 0, None
        schema = self.native.compiled.out
        return made, chunk_of(made, schema, self.order, payload.columns, payload.order)

    def in_machine_code(self, chunk: Chunk) -> Chunk | None:
        words, _keep = view_block(chunk, 5)
        block, out = self.run(address(words), chunk)
        if block:
            free_block(block, 0, 0)
        return out

    def counts(self) -> tuple[int, list[int]]:
        """The counts of the unit in Python, as the native chain gives them."""
        found = [self.setting.counts.get(node.name, {"in": 0, "out": 0}) for node in self.nodes]
        return found[0]["in"], [one["out"] for one in found]

    def check_memory(self) -> None:
        """All pieces come back."""
        self.native.shape.close()
        made, freed = self.native.shape.pieces
        assert made == freed


def chunk_with(given: list[Row], order: Sequence[str] = (TIME, OWN)) -> Chunk:
    chunk = Chunk.from_rows(Schema.of(Row), given)
    chunk.order = {name: np.arange(len(given)) * 7 + at for at, name in enumerate(order)}
    return chunk


def agree(made: Chunk | None, wanted: Chunk) -> None:
    assert made is not None
    assert len(made) == len(wanted)
    assert list(made.order) == list(wanted.order)
    for name, values in wanted.order.items():
        assert np.array_equal(values, made.order[name])
    for one, other in zip(made.columns, wanted.columns, strict=True):
        if not one.type.fixed_width:
            assert one.values.equals(other.values)
            continue
        assert (one.valid is None) == (other.valid is None)
        assert one.valid is None or np.array_equal(one.valid, other.valid)
        assert one.values.dtype == other.values.dtype
        assert one.values.tobytes() == other.values.tobytes()


@pytest.mark.parametrize("name", [name for name in CHAINS if name not in ("error", "writes")])
@pytest.mark.parametrize("order", ORDERS, ids=len)
def test_any_rows(name: str, order: Sequence[str]) -> None:
    """Values, Nones, texts, order columns and counts are those of the unit in Python; no memory is lost."""
    both = Both(name, order)

    @quick
    @given(st.lists(rows, max_size=20), st.sampled_from(ORDERS))
    def holds(given: list[Row], carried: Sequence[str]) -> None:
        chunk = chunk_with(given, carried)
        agree(both.in_machine_code(chunk), both.in_python(chunk))
        assert both.native.counts() == both.counts()

    holds()
    both.check_memory()


def many_rows(count: int) -> list[Row]:
    notes = itertools.cycle(["x", None, "yy"])
    return [
        Row(i * 37 % 211, i / 3, i % 3 == 0, "ab"[i % 2], i if i % 4 else None, None, None, f"t{i}", next(notes), [i])
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1000, 4096])
@pytest.mark.parametrize("name", ["changed", "many", "texts", "long", "looks"])
def test_chunks_of_any_size(name: str, size: int) -> None:
    """Chunks of 1 row to thousands, with up to 50 outputs a row, which outgrow the first block several times."""
    both = Both(name, (TIME,))
    chunk = chunk_with(many_rows(size))
    for one in (chunk, chunk.slice(size // 2, size)):
        agree(both.in_machine_code(one), both.in_python(one))
    assert both.native.counts() == both.counts()
    both.check_memory()


def test_as_many_rows_out_as_in_but_not_one_each() -> None:
    """Two outputs of one row and none of another: order columns and texts are those of the first."""
    both = Both("many", (TIME, OWN))
    chunk = chunk_with(
        [row._replace(n=n) for row, n in zip(many_rows(4), [0, 2, 2, 0], strict=True)]
    )
    made = both.in_machine_code(chunk)
    agree(made, both.in_python(chunk))
    assert made is not None
    assert made.order[TIME].tolist() == [7, 7, 14, 14]


def test_what_stands_under_a_none_does_not_go_on() -> None:
    """Where a field has no value the output has zero, as keys and later operators expect it."""
    both = Both("same", ())
    chunk = chunk_with(many_rows(40), ())
    for column in chunk.columns[4:6]:
        assert column.valid is not None
        column.values = np.where(column.valid, column.values, np.ones(1, column.values.dtype))
    made = both.in_machine_code(chunk)
    agree(made, both.in_python(chunk))
    assert made is not None
    for column in made.columns[4:6]:
        assert not column.values[~column.valid].any()


def test_blocks_are_sized_by_the_outputs_before() -> None:
    """A chain that expands makes one large block and uses it again; one row's flood does not size what follows."""
    both = Both("flood", ())
    made = []
    chunk = chunk_with(many_rows(20), ())
    for _ in range(3):
        agree(both.in_machine_code(chunk), both.in_python(chunk))
        made.append(both.native.shape.pieces[0])
    assert made[0] > 1
    assert made[1:] == made[:1] * 2
    assert len(both.in_machine_code(chunk_with([many_rows(1)[0]._replace(n=50)])) or ()) == 1225
    words, _keep = view_block(chunk_with([row._replace(n=0) for row in many_rows(300)]), 0)
    block = run_chain(both.native.ctx, address(words), both.native.ctx + 64)
    assert 300 <= get_i_at(block, table_word(len(Row._fields))) < 200 * 300
    free_block(block, 0, 0)
    both.check_memory()


@pytest.mark.parametrize(("first", "second"), [
    ("same", "texts"), ("filter", "same"), ("many", "texts"), ("changed", "long"), ("same", "same"), ("all", ""),
    ("filter", "looks"), ("many", "looks"), ("looks", "looks"),
])  # fmt: skip
def test_blocks_go_from_chain_to_chain(first: str, second: str) -> None:
    """A chain reads another's block: texts are still those of the one payload, behind a gather or not."""
    one = Both(first, (TIME, OWN))
    chunk = chunk_with(many_rows(300))
    words, _keep = view_block(chunk, 5)
    block, made = one.run(address(words), chunk)
    between = one.in_python(chunk)
    agree(made, between)
    assert get_i_at(block, one.native.payload_word) == 5
    if second:
        other = Both(second, (TIME,))
        last, out = other.run(block, chunk)
        agree(out, other.in_python(between))
        free_block(last, 0, 0)
        other.check_memory()
    free_block(block, 0, 0)
    one.check_memory()


@njit
def get_i_at(block: int, word: int) -> int:
    found: int = get_i(block + 8 * word)
    return found


@pytest.mark.parametrize("steps", [1, 2])
def test_texts_of_texts(steps: int) -> None:
    """A field that takes each row from another payload column keeps doing so, also beside other fields."""
    schema = Schema.of(Texts)
    chain = [
        Step("filter", "some", lambda t: t.n % 4 != 1 and t.other not in ("x", "t9"), schema),
        Step("flat_map", "swapped", swapped, schema),
    ]
    again = stateless_kernel(chain[:steps], schema, reject=False)
    both, chunk = Both("texts", (TIME,)), chunk_with(many_rows(99))
    words, _keep = view_block(chunk, 5)
    block, made = both.run(address(words), chunk)
    assert made is not None
    following = NativeChain(again, ())
    last = run_chain(following.ctx, block, 0)
    out = chunk_of(last, schema, (), chunk.columns)
    result = again(made)
    agree(out, Chunk(schema, result.columns, len(result.source)))
    free_block(last, 0, 0)
    free_block(block, 0, 0)


def test_no_payload_without_texts() -> None:
    """Outputs without text hold no payload, whatever the input held."""
    both = Both("small", ())
    assert both.native.payload_word == 0
    chunk = chunk_with(many_rows(3))
    words, _keep = view_block(chunk, 5)
    block, _ = both.run(address(words), chunk)
    assert get_i_at(block, 3 + 2 * 2) == -1
    free_block(block, 0, 0)


def test_a_function_that_raises_leaves_the_chunk_to_python() -> None:
    """No block, no count and no lost memory; Python then rejects the row, as ever."""
    both = Both("error", (TIME,))
    bad = many_rows(3)
    bad[1] = bad[1]._replace(n=0)
    chunk = chunk_with(bad)
    for _ in range(3):
        assert both.in_machine_code(chunk) is None
    assert both.native.counts() == (0, [0])
    fine = chunk_with([bad[1]._replace(n=1)])
    agree(both.in_machine_code(fine), both.in_python(fine))
    both.check_memory()


def test_a_chunk_without_block_is_left_to_python() -> None:
    """The same where there is no memory for the outputs, which shows in an input that claims very many rows."""
    both = Both("same", ())
    assert run_chain(both.native.ctx, 0, 0) == 0
    words, _keep = view_block(chunk_with([]), 0)
    words[0] = 1 << 50
    assert run_chain(both.native.ctx, address(words), 0) == 0
    assert both.native.shape.pieces == (0, 0)


@njit
def loop(count: int, function: int, ctx: int, block: int, free: int, scratch: int) -> int:
    rows = 0
    for _ in range(count):
        status, out = call3(function, ctx, block, scratch)
        if status != 0 or out == 0:
            return -1
        rows += get_i(out)
        call3(free, out, 0, 0)
    return rows


def test_workers_share_a_chain() -> None:
    """Threads that run a chain by its address at the same time lose no count and no memory."""
    both = Both("filter", (TIME,))
    native = both.native
    words, _keep = view_block(chunk_with(many_rows(9)), 0)
    found: list[int] = []

    def work(worker: int) -> None:
        place = address(words)
        found.append(loop(5000, native.function, native.ctx, place, native.free, 64 * worker))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    out = sum(is_odd(row) for row in many_rows(9))
    assert found == [5000 * out] * 3
    assert native.counts() == (3 * 5000 * 9, [3 * 5000 * out])
    both.check_memory()


def test_who_is_eligible() -> None:
    """One compiled chain that puts out no new texts; it numbers no outputs of one row under the whole order key."""
    assert not eligible(Both("writes", ()).unit, ())
    both = Both("same", ())
    assert eligible(both.unit, (TIME, LEVEL))
    assert not eligible(Both("many", ()).unit, (TIME, LEVEL))
    assert not eligible(object(), ())
    nodes, operator = both.unit.parts[0]
    two = ChainUnit(both.setting, nodes, [(nodes, operator), (nodes, operator)])
    assert not eligible(two, ())
    interpreted = ChainUnit(both.setting, nodes, [(nodes, lambda chunk: operator(chunk))])
    assert not eligible(interpreted, ())


def test_the_whole_order_key_is_that_of_the_rows() -> None:
    """Each output has the key of the row that it comes from; what the input does not carry is zeros."""
    whole = (TIME, LEVEL, "_seq", KEY, "_c9")
    for name in ("same", "filter", "all", "small"):
        both, rows = Both(name, whole), many_rows(9)
        chunk = Chunk.from_rows(Schema.of(Row), rows)
        count = len(rows)
        keys = pa.array([b"key %d" % (i % 3) for i in range(count)], pa.binary())
        chunk.order = {
            TIME: np.arange(count), LEVEL: np.arange(count) % 2, "_seq": np.arange(count) * 7, KEY: keys,
        }  # fmt: skip
        expected, found = both.in_python(chunk), both.in_machine_code(chunk)
        assert found is not None and found.rows() == expected.rows()
        assert list(found.order) == list(expected.order) == list(whole)
        for column in whole:
            assert repr(list(found.order[column])) == repr(list(expected.order[column]))
