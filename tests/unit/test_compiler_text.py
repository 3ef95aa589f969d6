"""Texts in compiled functions: every operation on texts at the edges, and the memory that they take."""

from __future__ import annotations

import resource
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from fuzz_texts import EDGES, SEPARATORS

import thalweg as tw
from thalweg import times
from thalweg.columns.chunks import Chunk, Column
from thalweg.columns.keys import KeySpec
from thalweg.compiler import stateless
from thalweg.compiler.keyed import run as keyed
from thalweg.compiler.keyed.operator import keyed_kernel
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.compiler.runtime.arena import ARENA_WORDS
from thalweg.compiler.stateless import Step, stateless_kernel
from thalweg.errors import OperatorError
from thalweg.flow.operators.generated import make_functions
from thalweg.flow.records import Schema
from thalweg.flow.state_class import state_spec


class Two(NamedTuple):
    a: str
    b: str
    n: int
    note: str | None


class Eight(NamedTuple):
    p: str
    q: str
    r: str
    s: str
    t: str
    u: str
    v: str
    w: str | None


class One(NamedTuple):
    text: str


#: Expressions of the texts ``r.a`` and ``r.b``, and of the int ``r.n``; what is no text is written as one.
EXPRESSIONS = [
    "r.a + r.b", "r.a * (r.n % 4)", "r.a[r.n % 3:]", "r.a[:r.n]", "r.a[-3:-1]", "r.a[r.n % 5 - 2:r.n]",
    "r.a.strip()", "r.a.lstrip()", "r.a.rstrip()", "r.a.strip(r.b)", "r.a.lstrip(r.b)", "r.a.rstrip('a日')",
    "r.a.removeprefix(r.b)", "r.a.removesuffix(r.b)", "str(r.a.find(r.b))", "str(r.a.rfind(r.b, r.n - 2))",
    "str(r.a.find(r.b, r.n, -1))", "str(r.a.count(r.b))", "str(r.a.count(r.b, 1, r.n))", "str(len(r.a))",
    "str(r.a < r.b)", "str(r.a <= r.b)", "str(r.a == r.b)", "str(r.b in r.a)", "str(r.a in ('a', 'é', ''))",
    "str(r.a.startswith(r.b))", "str(r.a.endswith((r.b, 'c', 'é')))", "str(r.a.startswith(r.b, r.n))",
    "str(r.a.endswith(r.b, 0, -1))", "str(r.a.isspace())", "str(r.a.isascii())", "min(r.a, r.b) + max(r.a, r.b)",
    "r.a.ljust(r.n, '日') + '|'", "r.a.rjust(r.n) + '|'", "r.a.zfill(r.n)", "'-'.join((r.a, r.b, 'x'))",
    "f'{r.a}:{r.n:d}:{r.n:04d}:{r.b:>4}|{r.a:é^5}|{r.n:<3}|{r.n > 0}'", "f'{r.note}'", "str(r.note is None)",
    "r.note or r.a", "str(r.note == r.a)", "str(-r.n)", "times.text(r.n * 86_399_999_999 * 977)", "chr(r.n + 60)",
    "'0123456789bcdefghjkm'[r.n]", "'-'.join(r.a.split())", "'-'.join(r.a.split(None, r.n - 1))",
    "str(len(r.b.split('a')))", "r.a if r.n % 2 else r.b", "r.a if r.n % 2 else 'literal'", "('b' if r.a else 'a')",
]  # fmt: skip
#: Such that raise for some of the texts.
RAISING = [
    "r.a[len(r.b) - 2]", "r.a.lower()", "r.a.upper()", "r.a.swapcase()", "r.a.capitalize()", "r.a.replace(r.b, '日')",
    "r.a.replace('a', r.b, len(r.b) - 1)", "'+'.join(r.a.split(r.b))", "'+'.join(r.a.split(r.b, len(r.b) - 1))",
    "'+'.join(r.a.rsplit(r.b, len(r.b) - 1))", "r.a.split(r.b)[0]", "r.a.split(r.b)[-1]", "r.a.split(r.b, 1)[1]",
    "'+'.join(r.a.partition(r.b))", "r.a.rpartition(r.b)[0]", "str(r.a.index(r.b))", "str(ord(r.a))",
    "str(int(r.a))", "str(float(r.a) == 0.1)", "str(r.a.isdigit())", "str(r.a.isalpha())", "str(r.a.isalnum())",
    "str(r.a.isupper())", "str(r.a.islower())", "chr(len(r.a) * 6_000 + 55_000)", "r.note + r.a",
    "'+'.join(r.a.split(r.b)[1:])", "r.a.casefold()", "str(r.a.rindex(r.b))", "r.b.split('a')[len(r.a)]",
]  # fmt: skip
NAMES = ("p", "q", "r", "s", "t", "u", "v", "w")


def function_of(expressions: list[str]) -> Any:
    parts = [*expressions, *["'' "] * (len(NAMES) - len(expressions))]
    text = f"def made(r):\n    return Eight({', '.join(parts)})\n"
    return make_functions("texts", text, {"Eight": Eight, "times": times})["made"]


def rows() -> list[Two]:
    others = [*SEPARATORS, *EDGES[::7]]
    notes = [None, *EDGES[::11]]
    return [
        Two(a, others[(i + 5 * k) % len(others)], (i + k) % 7, notes[(i + k) % len(notes)])
        for k in range(3)
        for i, a in enumerate(EDGES)
    ]


def plain(function: Any, row: Two) -> Any:
    try:
        return function(row)
    except Exception as error:
        return type(error)


#: Order and equality, and what is found where: these run by default.
COMPARISONS = [
    "str(r.a < r.b)", "str(r.a <= r.b)", "str(r.a == r.b)", "str(r.note == r.a)", "str(r.b in r.a)",
    "min(r.a, r.b) + max(r.a, r.b)", "str(r.a.startswith(r.b))", "r.a[r.n % 3:]",
]  # fmt: skip


def test_texts_compare_as_in_python() -> None:
    """The first operations of the next test, in one kernel."""
    agree(COMPARISONS)


def test_what_stands_around_a_number() -> None:
    """Python's int and float know other white space than strip: the separators 28 to 31 are none to them."""
    texts = [
        f"{a}{digits}{b}"
        for digits in ("7", "1.5")
        for a in ("", " ", "\x1f")
        for b in ("", "\n", "\x1c", "\xa0")
    ]
    function = function_of(["str(int(r.a))", "str(float(r.a) == 1.5)"])
    kernel = stateless_kernel(
        [Step("map", "it", function, Schema.of(Eight))], Schema.of(Two), reject=True
    )
    for text in texts:
        row = Two(text, "", 0, None)
        result = kernel(Chunk.from_rows(Schema.of(Two), [row]))
        wanted = plain(function, row)
        made = Chunk(Schema.of(Eight), result.columns, len(result.source)).rows()
        assert made == ([] if isinstance(wanted, type) else [wanted]), repr(text)


@pytest.mark.slow
def test_every_operation_gives_what_python_gives() -> None:
    """All operations that compile, over texts of every kind."""
    agree(EXPRESSIONS)


def agree(expressions: list[str]) -> None:
    """One kernel for eight of them, all rows in one chunk."""
    given = [*rows(), Two("", "", 0, None), Two("a", "", 0, None)]
    chunk = Chunk.from_rows(Schema.of(Two), given).slice(3, len(given))
    for start in range(0, len(expressions), 8):
        function = function_of(expressions[start : start + 8])
        kernel = stateless_kernel(
            [Step("map", "it", function, Schema.of(Eight))], Schema.of(Two), reject=False
        )
        made = Chunk(Schema.of(Eight), kernel(chunk).columns, len(given) - 3).rows()
        for row, one in zip(given[3:], made, strict=True):
            assert one == function(row), row


@pytest.mark.slow
def test_every_operation_that_can_raise_gives_what_python_gives() -> None:
    """One row at a time: machine code gives Python's result, or raises and Python gives it."""
    given = rows()
    chosen = "\n".join(
        f"    if r.n == {i}:\n        return One({one})" for i, one in enumerate(RAISING)
    )
    text = f"def made(r):\n{chosen}\n"
    function = make_functions("texts", text, {"One": One, "times": times})["made"]
    step = Step("map", "it", function, Schema.of(One))
    kernel = stateless_kernel([step], Schema.of(Two), reject=True)
    for row in given:
        for which in range(len(RAISING)):
            one = row._replace(n=which)
            expected = plain(function, one)
            result = kernel(Chunk.from_rows(Schema.of(Two), [one]))
            if isinstance(expected, type):
                assert result.rejected[0].reason.startswith(expected.__name__), (
                    RAISING[which],
                    one,
                )
            else:
                made = Chunk(Schema.of(One), result.columns, len(result.source)).rows()
                assert made == [expected], (RAISING[which], one)


class Word(NamedTuple):
    key: str
    other: str | None
    n: int
    text: str


class Said(NamedTuple):
    text: str
    note: str | None


@tw.state
class Last:
    timer: tw.Timer
    n: int = 0


def said(state: Last, r: Word) -> Said | None:
    state.n += len(r.text)
    state.timer = r.n + 10
    if r.text.startswith("x"):
        return None
    return Said(f"{r.key}-{r.text.upper()}", r.other)


def of_one(state: Last, key: str, time: int) -> Said:
    return Said(f"{key[:2]}:{state.n}", key)


def of_two(state: Last, key: Any, time: int) -> Said:
    return Said(f"{key[1]}/{key[2]}", key[2] if key[1] == "a" else None)


def keyed_rows() -> list[Word]:
    texts = ["", "a", "ab", "zwölf", "x", "a\0b"]
    return [Word(texts[i % 6], [None, *texts][i % 7], i, texts[i * 5 % 6] + "y") for i in range(90)]


@pytest.mark.slow
def test_timers_read_the_texts_of_their_key() -> None:
    """Of a key of one text, and of several fields, with None and NUL in them; rows make texts beside them."""
    schema = Schema.of(Word)
    for fields, on_timer in ((("key",), of_one), (("n", "key", "other"), of_two)):
        key = KeySpec(tuple(schema.field(name) for name in fields))
        spec = KeyedSpec("it", said, on_timer, state_spec(Last), schema, key, Schema.of(Said))
        results = []
        for row in keyed_rows():
            operator = keyed_kernel(spec, buckets=2, reject=False)()
            chunk = Chunk.from_rows(schema, [row])
            columns = [chunk.column(one.name) for one in key.fields]
            made = operator.process(chunk, columns, np.array([row.n]), 2**40, ending=True)
            results.append(Chunk(Schema.of(Said), made.columns, len(made.source)).rows())
        for row, found in zip(keyed_rows(), results, strict=True):
            state = Last()
            first = said(state, row)
            parts = [getattr(row, field.name) for field in key.fields]
            fired = on_timer(state, parts[0] if len(parts) == 1 else tuple(parts), row.n + 10)
            assert found == [one for one in (first, fired) if one is not None]


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Gets an entry for each arena that is freed: whether it held something, and holds nothing any more."""
    found: list[bool] = []

    for module in (stateless, keyed):
        plain_free = module.free_arena

        def free(place: int, plain_free: Any = plain_free) -> None:
            words = np.ctypeslib.as_array(
                (np.ctypeslib.ctypes.c_int64 * ARENA_WORDS).from_address(place)
            )
            held = bool(words[2])
            plain_free(place)
            found.append(held and not words.any())

        monkeypatch.setattr(module, "free_arena", free)
    return found


def grows(r: Two) -> Said:
    made = ""
    for one in r.a:
        made = one + made + r.b
    if r.n == 6 and r.b == "stop":
        raise ValueError("stop")
    return Said(made, None)


def test_the_memory_of_made_texts_is_given_back(freed: list[bool]) -> None:
    """Also when a function raises; runs that make 4 MB each do not add up."""
    step = Step("map", "it", grows, Schema.of(Said))
    kernel = stateless_kernel([step], Schema.of(Two), reject=False)
    chunk = Chunk.from_rows(Schema.of(Two), [Two("x" * 80, "b" * 8, 0, None)] * 120)
    kernel(chunk)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(60):
        kernel(chunk)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert freed == [True] * 61
    with pytest.raises(OperatorError):
        kernel(Chunk.from_rows(Schema.of(Two), [Two("abc", "stop", 6, None)]))
    assert freed == [True] * 62


def lengthy(r: Two) -> bool:
    return len((r.a * 1000).replace("x", "yz")) > r.n


def test_texts_of_no_output_take_the_memory_of_one_row() -> None:
    """A filter that makes 240 MB of texts while it runs needs no more than for one of them."""
    schema = Schema.of(Two)
    kernel = stateless_kernel([Step("filter", "it", lengthy, schema)], schema, reject=False)
    chunk = Chunk.from_rows(schema, [Two("x" * 8, "", i, None) for i in range(10_000)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(kernel(chunk).source) == 10_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def test_the_memory_of_a_keyed_run_is_given_back(freed: list[bool]) -> None:
    """When its outputs have been built, and the run is gone."""
    schema = Schema.of(Word)
    spec = KeyedSpec(
        "it", said, None, state_spec(Last), schema, KeySpec((schema.field("key"),)), Schema.of(Said)
    )
    operator = keyed_kernel(spec, buckets=2, reject=False)()
    chunk = Chunk.from_rows(schema, keyed_rows())
    for _ in range(3):
        operator.process(chunk, [chunk.column("key")], None, 0, ending=False)
    assert freed == [True] * 3


def test_a_text_that_only_passes_is_not_copied() -> None:
    """A field that the function does not change keeps the column's memory; a made one has its own."""
    step = Step("map", "it", lambda r: Two(r.a, r.b.strip(), r.n, r.note), Schema.of(Two))
    kernel = stateless_kernel([step], Schema.of(Two), reject=False)
    assert kernel.texts.made == {1}
    chunk = Chunk.from_rows(Schema.of(Two), [Two("a", " b ", i, None) for i in range(5)])
    columns = kernel(chunk).columns
    assert columns[0].values is chunk.columns[0].values
    assert columns[1].values.to_pylist() == ["b"] * 5
    # A column that is a part of an Arrow array, as slices are.
    part = Column(chunk.columns[1].type, pa.array(["zz", " b ", "é ", None, "c"]).slice(1, 2))
    sliced = Chunk(chunk.schema, [*chunk.slice(0, 2).columns], 2)
    sliced.columns[1] = part
    assert kernel(sliced).columns[1].values.to_pylist() == ["b", "é"]


class Coded(NamedTuple):
    kind: tw.Category
    n: int


class Codes(NamedTuple):
    kind: tw.Category | None
    other: tw.Category
    same: bool
    text: str


def is_of(kind: tw.Category, wanted: str = "b") -> bool:
    return kind == wanted


def coded(r: Coded) -> Codes:
    kind = "a" if r.n % 3 else None
    word = "x"
    for one in ("a", "b"):
        if r.kind == one:
            word = one
    return Codes(kind, word if r.n % 2 else r.kind, is_of(r.kind) or r.kind == kind, word)


def test_a_literal_is_a_text_and_a_category() -> None:
    """Also in a variable, as an argument, as None, and where it becomes both."""
    step = Step("map", "it", coded, Schema.of(Codes))
    kernel = stateless_kernel([step], Schema.of(Coded), reject=False)
    given = [Coded("abc"[i % 3], i) for i in range(12)]
    result = kernel(Chunk.from_rows(Schema.of(Coded), given))
    assert Chunk(Schema.of(Codes), result.columns, 12).rows() == [coded(row) for row in given]


class Number(NamedTuple):
    x: float


class Written(NamedTuple):
    none: str
    one: str
    two: str
    three: str


def fixed(r: Number) -> Written:
    return Written(f"{r.x:.0f}", f"{r.x:.1f}", f"{r.x:9.2f}", f"{r.x:<.3f}")


def test_floats_are_rounded_as_python_does() -> None:
    """Halves to the even digit, by the exact value of the bits, with the sign of zero; large ones by Python."""
    chooser = np.random.default_rng(5)
    numbers = [k / 8 for k in range(-40, 40)] + [k / 1000 for k in range(-60, 60)]
    numbers += [
        0.0,
        -0.0,
        5e-324,
        -1e-9,
        0.0005,
        0.9995,
        2.0**53 - 1,
        2.0**53,
        1e300,
        -1e22,
        2.0**52 + 0.5,
    ]
    numbers += [1.005, 2.675, float("inf"), float("nan"), 2.0**-10, 2.0**-11, 2.0**-12 * 3]
    numbers += (chooser.standard_normal(400) * 10.0 ** chooser.integers(-5, 15, 400)).tolist()
    numbers += (
        chooser.integers(-(2**20), 2**20, 400) / 2.0 ** chooser.integers(0, 14, 400)
    ).tolist()
    given = [Number(x) for x in numbers]
    step = Step("map", "it", fixed, Schema.of(Written))
    kernel = stateless_kernel([step], Schema.of(Number), reject=False)
    for start in range(0, len(given), 50):
        part = given[start : start + 50]
        result = kernel(Chunk.from_rows(Schema.of(Number), part))
        made = Chunk(Schema.of(Written), result.columns, len(part)).rows()
        assert made == [fixed(row) for row in part]
