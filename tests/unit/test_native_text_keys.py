"""Keys with text, and keys that a function makes, in machine code: as the compiled operator in one piece gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compiler_keyed import Open, states
from test_native_keyed import InOnePiece, InParts, text

from thalweg.columns.chunks import Chunk
from thalweg.columns.keys import KeySpec
from thalweg.columns.state_units import StateUnits
from thalweg.compiler import describe
from thalweg.compiler.key_function import key_step
from thalweg.compiler.keyed.operator import CompiledKeyed, keyed_kernel
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.compiler.stateless import CompiledChain, stateless_kernel
from thalweg.flow.operators.arguments import key_field
from thalweg.flow.operators.functions import Function
from thalweg.flow.records import Category, Schema, Timestamp
from thalweg.flow.state_class import state_spec
from thalweg.plan.plan import TIME
from thalweg.times import BEFORE_ALL, NEVER


class Named(NamedTuple):
    ts: Timestamp
    name: str
    note: str | None
    data: bytes
    n: int | None
    v: float
    ok: bool


class Given(NamedTuple):
    name: str
    note: str | None
    pages: int
    v: float


ROWS = Schema.of(Named)
WORDS = ["", "a", "b\0c", "\0", "đ", "a longer text of more than thirty-two bytes, \N{PILE OF POO}"]


def count(open: Open, row: Named) -> Given | None:
    open.pages += 1
    open.total += row.v
    open.timer = row.ts + (row.n or 0) * 3
    return Given(row.name, row.note, open.pages, open.total) if row.n != 1 else None


def name_end(open: Open, name: str, time: Timestamp) -> Given:
    return Given(name, name if open.pages > 2 else None, open.pages, 0.5)


def note_end(open: Open, note: str | None, time: Timestamp) -> Any:
    yield Noted(note, open.pages)
    if open.pages % 2:
        open.pages += 1
        open.timer = time + 7


def fails_end(open: Open, name: str, time: Timestamp) -> Given:
    return Given(name, None, 1 // (open.pages % 3), 0.5)


class Noted(NamedTuple):
    note: str | None
    pages: int


def few_notes(open: Open, row: Named) -> Noted | None:
    open.pages += 1
    open.timer = row.ts + 2
    return Noted(row.note, open.pages) if row.ok else None


class Pages(NamedTuple):
    pages: int
    v: float


def few(open: Open, row: Named) -> Pages:
    open.pages += 1
    open.timer = row.ts + 4
    return Pages(open.pages, row.v)


def few_end(open: Open, key: Any, time: Timestamp) -> Pages:
    return Pages(-open.pages, 1.0)


def all_end(
    open: Open, key: tuple[str, int | None, float, bool, str | None, bytes], time: Timestamp
) -> Given:
    name, n, v, ok, note, _ = key
    return Given(name, note, -1 if n is None else n, v if ok else -v)


def keyed(process: Any, on_timer: Any, fields: tuple[str, ...], out: Any = Given) -> KeyedSpec:
    key = KeySpec(tuple(ROWS.field(name) for name in fields))
    return KeyedSpec(
        process.__name__, process, on_timer, state_spec(Open), ROWS, key, Schema.of(out)
    )


ALL = ("name", "n", "v", "ok", "note", "data")
SPECS = [
    keyed(count, name_end, ("name",)),
    keyed(count, fails_end, ("name",)),
    keyed(few, few_end, ("name",), Pages),
    keyed(few, few_end, ("note",), Pages),
    keyed(few_notes, note_end, ("note",), Noted),
    keyed(few, few_end, ("data",), Pages),
    keyed(few, few_end, ("data", "n"), Pages),
    keyed(count, all_end, ALL),
]
rows = st.builds(
    Named,
    ts=st.integers(0, 60),
    name=st.sampled_from(WORDS),
    note=st.none() | st.sampled_from(WORDS),
    data=st.sampled_from([b"", b"\0\xff", b"a", b"\xff" * 40]),
    n=st.none() | st.integers(-2, 3) | st.just(-(2**63)),
    v=st.sampled_from([0.0, -0.0, 1.5, -2.0, float("nan"), float("-inf")]),
    ok=st.booleans(),
)
inputs = st.lists(rows, max_size=90).map(lambda given: sorted(given, key=lambda row: row.ts))
quick = settings(derandomize=True, deadline=None, max_examples=25, database=None)


def timed(given: list[Any]) -> Chunk:
    chunk = Chunk.from_rows(ROWS, given)
    chunk.order = {TIME: np.array([row.ts for row in given], np.int64)}
    return chunk


def agree(make: Callable[[], CompiledKeyed], key: CompiledChain | None = None) -> None:
    """Any cuts, clocks and partitions give what one piece gives, and the same states."""

    @quick
    @given(inputs, st.lists(st.integers(0, 90), max_size=3), st.integers(1, 4), st.integers(0, 9))
    def holds(given: list[Any], cuts: list[int], pieces: int, seed: int) -> None:
        whole = InOnePiece(make(), key)
        units = StateUnits.of_buckets(16, 5) if seed % 2 else None
        parts = InParts([make() for _ in range(pieces)], seed, units, key)
        ends = sorted({min(cut, len(given)) for cut in cuts} | {len(given)})
        for start, end in zip([0, *ends], [*ends, len(given)], strict=True):
            chunk, ending = timed(given[start:end]), start == len(given)
            clock = NEVER if ending else given[end - 1].ts if end else BEFORE_ALL
            expected = whole.step(chunk, clock, ending=ending)
            assert text(parts.step(chunk, clock, ending=ending)) == text(expected)
        found: dict[str, str] = {}
        for operator in parts.native.operators:
            found |= states(operator)
        assert found == states(whole.operator)

    holds()


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.name}-{'-'.join(s.key.names)}")
def test_keys_with_text(spec: KeyedSpec) -> None:
    """Outputs in order, rejected rows and states; timers in the order of texts, whose text they put out."""
    agree(keyed_kernel(spec, buckets=16, reject=True))


def made_by(function: Any, kind: Any) -> tuple[KeyedSpec, CompiledChain]:
    fields = (key_field(Function.of(function, "key_by"), kind),)
    record = Schema.make_record("Key", fields)

    def call(row: Any) -> Any:
        return record.make((function(row),))

    step = key_step("few", call, record, describe(function))
    spec = KeyedSpec("few", few, few_end, state_spec(Open), ROWS, KeySpec(fields), Schema.of(Pages))
    return spec, stateless_kernel([step], ROWS, reject=True)


MADE = [
    (lambda row: row.n, int | None),
    (lambda row: row.name, str),
    (lambda row: row.note if row.v > 0 else None, str | None),
    (lambda row: row.data, bytes),
    (lambda row: row.v, float),
    (lambda row: row.ok and row.v > 0, bool),
    (lambda row: "low" if row.v < 1 else "high", Category),
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MADE)))
def test_keys_that_a_function_makes(number: int) -> None:
    """As the function computes them in one piece, text that it passes on included."""
    spec, key = made_by(*MADE[number])
    agree(keyed_kernel(spec, buckets=16, reject=True), key)
