"""Keyed operators in machine code give, in order and in their tables, what the compiled operators give in one piece."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compiler_keyed import (
    EVENTS,
    Event,
    Open,
    Out,
    Texts,
    arm,
    close,
    events,
    expand,
    expire,
    float_end,
    mean,
    optional_end,
    ring,
    spec,
    states,
    track,
)
from tests.sizes import sized

from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Chunk
from thalweg.columns.ordering import keyed_chunk, with_columns
from thalweg.columns.state_units import StateUnits
from thalweg.compiler.code.columns import address
from thalweg.compiler.keyed.code import KeyedSpec
from thalweg.compiler.keyed.operator import CompiledKeyed, keyed_kernel
from thalweg.compiler.stateless import CompiledChain
from thalweg.engine.keyed_unit import KeyedUnit, _concat
from thalweg.errors import OperatorError
from thalweg.flow.operators.nodes import Key, Keyed, Ref
from thalweg.flow.records import Category, Schema, Timestamp
from thalweg.plan.plan import LEVEL, TIME
from thalweg.times import BEFORE_ALL, NEVER
from thalweg.workers.native.block_chunks import chunk_of, view_block
from thalweg.workers.native.blocks import free_block
from thalweg.workers.native.keyed import NativeKeyed
from thalweg.workers.native.keyed_choice import eligible, who_joins
from thalweg.workers.native.keyed_layout import (
    ALL_BY_PYTHON,
    BY_MACHINE,
    ROWS_BY_PARTITION,
    TIMERS_BY_PYTHON,
)
from thalweg.workers.native.keyed_merge import merge_keyed, run_serial
from thalweg.workers.native.keyed_ranks import MOST, CategoryRanks, rank_of
from thalweg.workers.native.keyed_run import run_partition
from thalweg.workers.native.keyed_split import split_keyed


class Wide(NamedTuple):
    n: int | None
    v: float
    kind: Category | None
    ok: bool | None


class Note(NamedTuple):
    name: str | None
    pages: int


def copy_texts(open: Open, e: Event) -> Texts | None:
    """Text that is passed through, and none."""
    open.pages += 1
    return Texts(e.name, e.kind, e.name if e.v > 0 else None, open.pages) if e.v < 3 else None


def many(open: Open, e: Event) -> Any:
    """More outputs than rows, with nulls."""
    open.pages += 1
    open.timer = e.ts + 3
    for i in range(open.pages % 5):
        yield Wide(e.n, e.v, e.kind if i % 2 else None, None if e.n is None else e.v > 0)


def many_end(open: Open, key: tuple[int | None, float], time: Timestamp) -> Any:
    n, v = key
    yield Wide(n, v, None, None)
    yield Wide(None, v, None, n is None)


def note(open: Open, e: Event) -> Note:
    open.pages += 1
    open.timer = e.ts + 5
    return Note(e.name if e.v > 0 else None, open.pages)


def note_end(open: Open, kind: str, time: Timestamp) -> Note:
    """A timer knows no text of a row."""
    return Note(None, open.pages)


def kind_end(open: Open, kind: str, time: Timestamp) -> Out:
    return Out(time, open.pages, kind == "cart")


SPECS = [
    spec(track, close, ("user",)),
    spec(arm, ring, ("user",)),
    spec(expand, expire, ("user",)),
    spec(copy_texts, None, ("user", "kind"), Texts),
    spec(mean, None, ()),
    spec(track, optional_end, ("n",)),
    spec(track, float_end, ("v",)),
    spec(many, many_end, ("n", "v"), Wide),
    spec(track, kind_end, ("kind",)),
    spec(note, note_end, ("kind",), Note),
    spec(arm, lambda open, time: Out(7, time, True), ()),
    spec(track, None, ("kind",), None),
]
quick = settings(derandomize=True, deadline=None, max_examples=25, database=None)
inputs = st.lists(events, max_size=120).map(lambda rows: sorted(rows, key=lambda row: row.ts))


def timed_chunk(rows: list[Any]) -> Chunk:
    chunk = Chunk.from_rows(EVENTS, rows)
    chunk.order = {TIME: np.array([row.ts for row in rows], np.int64)}
    return chunk


class InOnePiece:
    """The compiled operator with its outputs ordered by Python."""

    def __init__(self, operator: CompiledKeyed, key: CompiledChain | None = None) -> None:
        self.operator = operator
        self.key = key

    def step(self, chunk: Chunk, clock: int, *, ending: bool) -> tuple[Chunk, list[Any], int]:
        spec = self.operator.spec
        keys = self.key(chunk).columns if self.key else [chunk.column(n) for n in spec.key.names]
        result = self.operator.process(chunk, keys, chunk.order[TIME], clock, ending=ending)
        return in_order(spec, chunk, [result])


def in_order(spec: KeyedSpec, chunk: Chunk, results: list[Any]) -> tuple[Chunk, list[Any], int]:
    (result,) = results
    out = keyed_chunk(chunk, result, spec.out or NOTHING, spec.key, 1, None)
    rejected = sorted((one.row, one.reason, one.value, one.time) for one in result.rejected)
    return with_columns(out, [TIME]), rejected, result.disarmed


NOTHING = Schema("Nothing", ())


def rows_by_partition(split: int, count: int) -> Any:
    place = ctypes.c_int64.from_address(split + 8 * ROWS_BY_PARTITION).value
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(place))


def random_pins(spec: KeyedSpec, rows: list[Any], seed: int) -> StateUnits:
    """Units with half of the keys pinned to five groups; for an odd seed to one."""
    chunk, random = Chunk.from_rows(EVENTS, rows), np.random.default_rng(seed)
    hashes = spec.key.hashes([chunk.column(name) for name in spec.key.names], len(rows))
    pinned = {
        h: int(random.integers(1 if seed % 2 else 5)) for h in np.unique(hashes).tolist()[::2]
    }
    return StateUnits.pinning(16, 5, pinned)


class InParts:
    """The machine code, driven as a worker drives it, partitions in an arbitrary order."""

    def __init__(
        self,
        operators: list[CompiledKeyed],
        seed: int,
        units: StateUnits | None = None,
        key: CompiledChain | None = None,
    ) -> None:
        self.native = NativeKeyed(operators, timed=True, order_names=[TIME], key=key)
        if units is not None:
            for operator in operators:
                operator.set_units(units)
            self.native.set_units(units, units.partitions(len(operators), range(seed % 9, 21, 2)))
        self.random = np.random.default_rng(seed)
        #: chunks whose outputs Python ordered
        self.joined = 0

    def step(self, chunk: Chunk, clock: int, *, ending: bool) -> tuple[Chunk, list[Any], int]:
        native, spec = self.native, self.native.spec
        block, keep = view_block(chunk, 3)
        before = native.counts.copy()
        split = split_keyed(native.ctx, address(block), 0)
        count = len(native.operators)
        rows = rows_by_partition(split, count)
        assert rows.sum() == len(chunk)
        for number in self.random.permutation(count).tolist():
            if rows[number] or native.earliest[number] < clock:
                self.run(split, number, clock, chunk, ending=ending)
        place = merge_keyed(native.ctx, split, 0)
        del keep
        if not place:
            self.joined += 1
            results = native.join(split, chunk)
            return in_order(spec, chunk, [_concat(results)])
        found = chunk_of(place, spec.out or NOTHING, [TIME], chunk.columns)
        free_block(place, 0, 0)
        rows_in, rows_out, disarmed = (native.counts - before)[:3].tolist()
        assert (rows_in, rows_out) == (len(chunk), len(found))
        return found, [], disarmed

    def run(self, split: int, number: int, clock: int, chunk: Chunk, *, ending: bool) -> None:
        native = self.native
        scratch = np.array([number, clock, ending], np.int64)
        if not run_partition(native.ctx, split, address(scratch)):
            native.resume(split, number, clock, ending=ending, chunk=lambda: chunk)
        bounds = [table.next_timer for table in native.operators[number].tables.values()]
        if native.spec.timer is not None:
            assert native.earliest[number] <= min(bounds, default=NEVER)


def text(found: tuple[Chunk, list[Any], int]) -> str:
    chunk, rejected, disarmed = found
    return repr((chunk.rows(), chunk.order[TIME].tolist(), rejected, disarmed))


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.name}-{'-'.join(s.key.names)}")
def test_parts_give_what_the_whole_gives(spec: KeyedSpec) -> None:
    """Outputs in order, times, rejected rows, disarmed timers and states; any cuts, clocks and partitions."""
    make = keyed_kernel(spec, buckets=16, reject=True)

    @quick
    @given(inputs, st.lists(st.integers(0, 120), max_size=4), st.booleans(), st.integers(1, 5))
    def holds(rows: list[Any], cuts: list[int], lagging: bool, pieces: int) -> None:
        whole = InOnePiece(make())
        parts = InParts([make() for _ in range(pieces)], len(rows))
        ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
        for start, end in zip([0, *ends], [*ends, len(rows)], strict=True):
            chunk, ending = timed_chunk(rows[start:end]), start == len(rows)
            clock = NEVER if ending else rows[end - 1].ts - 2 * lagging if end else BEFORE_ALL
            expected = whole.step(chunk, clock, ending=ending)
            assert text(parts.step(chunk, clock, ending=ending)) == text(expected)
            found: dict[str, str] = {}
            for operator in parts.native.operators:
                found |= states(operator)
            assert found == states(whole.operator)

    holds()


def kinds_at(now: int, kinds: list[str]) -> list[Any]:
    return [Event(now, 0, "", kind, None, 1.0) for kind in kinds]


def test_timers_of_categories_are_ordered_by_machine_code_once_their_texts_are_known() -> None:
    """Python orders a chunk whose timers have new texts; the order is that of the texts' bytes all the time."""
    make = keyed_kernel(spec(track, kind_end, ("kind",)), buckets=16, reject=False)
    whole, parts = InOnePiece(make()), InParts([make() for _ in range(3)], 1)
    texts = ["b", "B", "", "zebra", "\N{GREEK SMALL LETTER ALPHA}", "z", "\N{PILE OF POO}"]
    joined = []
    for turn, kinds in enumerate([texts, texts[::-1], texts[:3], ["new", "b"], ["b", "new", "z"]]):
        chunk = timed_chunk(kinds_at(100 * turn, kinds))
        for one, clock in ((chunk, 100 * turn), (timed_chunk([]), 100 * turn + 99)):
            expected = whole.step(one, clock, ending=False)
            assert text(parts.step(one, clock, ending=False)) == text(expected)
        assert len(expected[0]) == len(kinds)
        joined.append(parts.joined)
    assert joined == [1, 1, 1, 2, 2]


def rows_of(users: list[int], first: int = 0, kind: str = "view") -> list[Any]:
    return [Event(first + i, user, "", kind, None, 1.0) for i, user in enumerate(users)]


def test_tables_grow_and_forget_dead_keys() -> None:
    """New keys come and go for ever; what a table holds stays near what lives, and nothing is lost."""
    made = spec(track, close, ("user",))
    make = keyed_kernel(made, buckets=4, reject=False)
    whole, parts = InOnePiece(make()), InParts([make(), make()], 1)
    for turn in range(40):
        chunk = timed_chunk(rows_of(list(range(200 * turn, 200 * turn + 200)), 200 * turn))
        clock = 200 * turn + 199
        found = text(parts.step(chunk, clock, ending=False))
        assert found == text(whole.step(chunk, clock, ending=False))
    tables = [table for one in parts.native.operators for table in one.tables.values()]
    assert sum(len(table) for table in tables) == 11
    assert sum(table.count for table in tables) < 1600


@pytest.mark.parametrize("functions", [(expand, expire), (track, expire)])
def test_an_operator_that_does_not_reject_raises(functions: tuple[Any, Any]) -> None:
    """In a row, and in a timer; with the words of the compiled operator in one piece."""
    made = spec(*functions, ("user",))
    make = keyed_kernel(made, buckets=4, reject=False)
    chunk = timed_chunk(rows_of([1, 2, 1, 2, 1, 1, 1, 1, 2, 2, 2]))
    errors = []
    for one in (InOnePiece(make()), InParts([make(), make()], 1)):
        with pytest.raises(OperatorError) as caught:
            one.step(chunk, NEVER, ending=True)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.name}-{'-'.join(s.key.names)}")
def test_all_in_a_row(spec: KeyedSpec) -> None:
    """run_serial, and what it leaves to Python."""
    make = keyed_kernel(spec, buckets=16, reject=True)

    @quick
    @given(inputs, st.integers(1, 50))
    def holds(rows: list[Any], size: int) -> None:
        whole, operator = InOnePiece(make()), make()
        native = NativeKeyed([operator], timed=True, order_names=[TIME])
        for start in range(0, len(rows), size):
            chunk = timed_chunk(rows[start : start + size])
            clock = rows[start : start + size][-1].ts
            found = serial(native, chunk, clock)
            assert text(found) == text(whole.step(chunk, clock, ending=False))
        assert states(operator) == states(whole.operator)

    holds()


def serial(native: NativeKeyed, chunk: Chunk, clock: int) -> tuple[Chunk, list[Any], int]:
    block, keep = view_block(chunk, 3)
    scratch = np.array([7, clock, 0], np.int64)
    place = run_serial(native.ctx, address(block), address(scratch))
    if not place:
        native.resume(native.left_by_serial, 0, clock, ending=False, chunk=lambda: chunk)
        place = merge_keyed(native.ctx, native.left_by_serial, 0)
    del keep
    if not place:
        results = native.join(native.left_by_serial, chunk)
        return in_order(native.spec, chunk, [_concat(results)])
    found = chunk_of(place, native.spec.out or NOTHING, [TIME], chunk.columns)
    free_block(place, 0, 0)
    return found, [], 0


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.name}-{'-'.join(s.key.names)}")
def test_pinned_keys_give_what_others_give(spec: KeyedSpec) -> None:
    """The state of a pinned key is in the unit of its group, and nothing else differs; small chunks and large ones."""
    make = keyed_kernel(spec, buckets=16, reject=True)

    @quick
    @given(inputs, st.integers(1, 60), st.integers(0, 99), st.integers(1, 5))
    def holds(rows: list[Any], size: int, seed: int, pieces: int) -> None:
        units = random_pins(spec, rows, seed)
        whole, parts = InOnePiece(make()), InParts([make() for _ in range(pieces)], seed, units)
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            chunk, clock = timed_chunk(some), some[-1].ts - seed % 3
            expected = whole.step(chunk, clock, ending=False)
            assert text(parts.step(chunk, clock, ending=False)) == text(expected)
        found: dict[str, str] = {}
        for operator in parts.native.operators:
            found |= states(operator)
            for unit, table in operator.tables.items():
                hashes = spec.key.hashes_of(table.snapshot())
                assert (units.of(hashes) == unit).all()
        assert found == states(whole.operator)

    holds()


def test_state_saved_and_loaded_between_chunks() -> None:
    """Python takes the tables, renumbers them, moves a bucket; machine code goes on after a sync."""
    made = spec(track, close, ("user",))
    make = keyed_kernel(made, buckets=4, reject=False)
    whole, parts = InOnePiece(make()), InParts([make(), make()], 1)
    first = timed_chunk(rows_of([n % 300 for n in range(900)]))
    assert text(parts.step(first, 890, ending=False)) == text(whole.step(first, 890, ending=False))
    for operator in (whole.operator, *parts.native.operators):
        for bucket, table in list(operator.tables.items()):
            saved = table.snapshot()
            table.mark_saved()
            del operator.tables[bucket]
            operator.table(bucket).load([saved])
        operator.tables.pop(0, None)
    parts.native.sync()
    second = timed_chunk(rows_of([n % 500 for n in range(900)], 900))
    assert text(parts.step(second, NEVER, ending=True)) == text(
        whole.step(second, NEVER, ending=True)
    )


def test_many_rows_of_many_keys_in_chunks_of_any_size() -> None:
    """Counting and insertion, several partitions, thousands of rows."""
    made = spec(many, many_end, ("n", "v"), Wide)
    make = keyed_kernel(made, buckets=64, reject=False)
    random = np.random.default_rng(5)
    whole, parts = InOnePiece(make()), InParts([make() for _ in range(7)], 1)
    now = 0
    for size in (1, 2, 24, 25, 300, 4096):
        values = random.integers(-50, 50, size).tolist()
        rows = [
            Event(now + i // 3, 0, "", "cart", n if n % 7 else None, n / 2)
            for i, n in enumerate(values)
        ]
        now = rows[-1].ts
        chunk = timed_chunk(rows)
        expected = whole.step(chunk, now, ending=False)
        assert text(parts.step(chunk, now, ending=False)) == text(expected)


def no_chunk() -> Chunk:
    raise AssertionError("only a function that raises needs the chunk")


def test_without_a_clock_no_timer_fires() -> None:
    """Also where rows carry no time: timers stay in the state, whatever clock is told."""
    make = keyed_kernel(spec(arm, ring, ("user",)), buckets=4, reject=False)
    whole, operators = make(), [make(), make()]
    native = NativeKeyed(operators, timed=False, order_names=[])
    for first in (0, 50):
        chunk = Chunk.from_rows(EVENTS, rows_of([n % 7 for n in range(50)], first, "cart"))
        expected = whole.process(chunk, [chunk.column("user")], None, BEFORE_ALL, ending=False)
        block, _keep = view_block(chunk, 3)
        split = split_keyed(native.ctx, address(block), 0)
        for number in range(2):
            scratch = np.array([number, NEVER, 1], np.int64)
            if not run_partition(native.ctx, split, address(scratch)):
                native.resume(split, number, NEVER, ending=True, chunk=no_chunk)
        place = merge_keyed(native.ctx, split, 0)
        found = chunk_of(place, Schema.of(Out), [], [])
        free_block(place, 0, 0)
        ordered = Chunk(Schema.of(Out), expected.columns, 50).take(np.argsort(expected.source))
        assert found.rows() == ordered.rows()
    assert states(whole) == states(operators[0]) | states(operators[1])


def test_the_bounds_of_timers_may_stand_elsewhere() -> None:
    """As where the runtime keeps them."""
    made = spec(track, close, ("user",))
    operators = [keyed_kernel(made, buckets=4, reject=False)() for _ in range(2)]
    parts = InParts(operators, 1)
    elsewhere = np.zeros(2, np.int64)
    parts.native.move_earliest(address(elsewhere))
    parts.step(timed_chunk(rows_of([1, 2, 3, 4, 5, 6])), 0, ending=False)
    assert elsewhere.min() == 10
    assert (elsewhere == parts.native.earliest).all()


def ranked(ranks: CategoryRanks, codes: list[int]) -> list[int]:
    return [rank_of(ranks.place, code) for code in codes]


def test_ranks_follow_the_bytes_of_texts_and_are_renewed_in_proportion() -> None:
    """An unknown text has rank -1; many known ones are not ranked again for each new one, nor ever too many."""
    names = [f"{n}" for n in range(400)]
    codes = [CATEGORIES.code(name) for name in names]
    ranks = CategoryRanks()
    assert ranked(ranks, codes[:2]) == [-1, -1]
    ranks.learn(np.array(codes[:320], np.int64))
    order = sorted(range(320), key=lambda n: names[n].encode())
    assert ranked(ranks, [codes[n] for n in order]) == list(range(320))
    before = ranks.place
    for n in range(320, 339):
        ranks.learn(np.array([codes[n], codes[0]], np.int64))
        assert ranks.place == before
        assert ranked(ranks, [codes[n]]) == [-1]
    ranks.learn(np.array(codes[320:340], np.int64))
    order = sorted(range(340), key=lambda n: names[n].encode())
    assert ranked(ranks, [codes[n] for n in order]) == list(range(340))
    last = ranks.place
    for _ in range(50):
        ranks.learn(np.arange(MOST, dtype=np.int64))
        ranks.learn(np.array(codes[:340], np.int64))
    assert ranks.place == last


def in_use() -> int:
    """Bytes that the C library has given out."""

    class Info(ctypes.Structure):
        _fields_ = [(f"word{i}", ctypes.c_size_t) for i in range(10)]

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("the C library does not tell")
    library.mallinfo2.restype = Info
    info = library.mallinfo2()
    return int(info.word4 + info.word7)


@pytest.mark.parametrize(
    "made",
    [spec(track, close, ("user",)), spec(expand, expire, ("user",)), spec(arm, ring, ("user",))],
    ids=["sessions", "raising", "arming"],
)
def test_memory_is_given_back(made: KeyedSpec) -> None:
    """Hundreds of chunks, with timers, rejected rows and outputs that outgrow their room, leave nothing behind."""
    parts = InParts([keyed_kernel(made, buckets=4, reject=True)() for _ in range(2)], 1)
    turns = sized(150, 50)
    # Every other chunk is small, so that the room guessed from the last one is too little.
    chunks = [
        timed_chunk(rows_of([i % 9 for i in range(2 + turn % 2 * 254)], 256 * turn, "cart"))
        for turn in range(turns)
    ]
    sizes = []
    for _ in range(3):
        for chunk in chunks:
            parts.step(chunk, int(chunk.order[TIME][-1]) - 5, ending=False)
        sizes.append(in_use())
    # A single chunk's memory kept each time would be some thousand bytes a turn.
    assert sizes[2] - sizes[1] < 100_000 * turns // 150


def node(made: KeyedSpec, **changes: Any) -> Keyed:
    key = Key(made.key.fields, None, 4)
    fields: dict[str, Any] = {
        "input": Ref(0), "key": key, "process": made.process, "on_timer": made.on_timer, "state": made.state,
        "record": made.out, "many": True, "timer_many": True, "errors": "fail", "compile": "auto",
    }  # fmt: skip
    return Keyed(1, "one", **(fields | changes))


def test_what_machine_code_can_run() -> None:
    """Rows by the flow's clock or by their keys' own; no text beside a category."""

    def can(made: KeyedSpec, **changes: Any) -> bool:
        operators = [keyed_kernel(made, buckets=4, reject=False)()]
        unit = SimpleNamespace(
            units=StateUnits.of_buckets(4),
            node=node(made, **changes),
            spec=made.key,
            key_function=None,
            operators=operators,
        )
        return eligible(cast("KeyedUnit", unit))

    user = spec(track, close, ("user",))
    assert can(user)
    assert can(user, timing="own")
    assert can(spec(copy_texts, None, ("user",), Texts))
    assert can(spec(track, None, ("user", "name")))
    assert not can(user, timing="end")
    assert not can(spec(track, None, ("kind", "name")))


def test_who_orders_the_outputs() -> None:
    """Machine code, unless the whole order key is wanted of timers or of several outputs, or times are keys' own."""
    made, whole = spec(track, close, ("user",)), [TIME, LEVEL]
    one = node(made, many=False, timer_many=False)
    assert who_joins(node(made), [TIME]) == BY_MACHINE
    assert who_joins(one, whole) == TIMERS_BY_PYTHON
    assert who_joins(node(made), whole) == ALL_BY_PYTHON
    assert who_joins(node(made, timing="own"), [TIME]) == ALL_BY_PYTHON
