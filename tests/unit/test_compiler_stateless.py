"""Compiled chains give what the functions give in Python: values, places, counts, rejected rows."""

import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg import times
from thalweg.columns.chunks import Chunk
from thalweg.compiler.stateless import Step, check_stateless, stateless_kernel
from thalweg.errors import OperatorError
from thalweg.flow.failures import reason_of, shorten
from thalweg.flow.records import Category, Schema, Timestamp

LIMIT = 3
RATE = 0.25
WANTED = ("cart", "buy")
ALLOWED = frozenset({"cart", "view"})


class Row(NamedTuple):
    ts: Timestamp
    a: int
    b: int
    x: float
    y: float
    ok: bool
    kind: Category
    maybe: int | None
    price: float | None
    text: str


class Ints(NamedTuple):
    p: int
    q: int
    r: int
    s: int


class Floats(NamedTuple):
    p: float
    q: float
    r: float


class Flags(NamedTuple):
    p: bool
    q: bool
    r: bool
    s: bool
    t: bool
    u: bool


class Mixed(NamedTuple):
    n: int | None
    f: float | None
    kind: Category
    text: str
    note: str | None = None
    many: int = 7


def add_and_subtract(r: Row) -> Ints:
    return Ints(r.a + 3 - r.b, -r.a + r.ok, r.a * 7, abs(r.b) + (r.a & 255) - (r.b | 3) + (r.a ^ 5))


def divide_ints(r: Row) -> Ints:
    return Ints(r.a // r.b, r.a % r.b, r.a // 7, r.b % -5)


def divide(r: Row) -> Floats:
    return Floats(r.a / r.b, r.x / r.y, r.x / 4)


def modulo_floats(r: Row) -> Floats:
    return Floats(r.x % r.y, r.x * r.y - RATE, -r.x + r.a)


def compare_mixed(r: Row) -> Flags:
    return Flags(r.a < r.x, r.a == r.x, r.x >= r.b, r.a != r.x, r.a <= r.b < 100, r.x > 2)


def compare_categories(r: Row) -> Flags:
    return Flags(
        r.kind == "cart",
        r.kind != "buy",
        r.kind in WANTED,
        r.kind not in ("a", ""),
        r.kind in ALLOWED,
        not r.kind,
    )


def nones(r: Row) -> Flags:
    return Flags(
        r.maybe is None,
        r.maybe == 3,
        r.price is not None,
        r.maybe != r.a,
        r.maybe == r.maybe,
        bool(r.maybe),
    )


def compute_with_none(r: Row) -> Mixed:
    return Mixed(r.maybe + 1, r.price, r.kind, r.text, None)


def none_branches(r: Row) -> Mixed | None:
    if r.a % LIMIT == 0:
        return None
    n = None
    if r.ok:
        n = r.a
    return Mixed(
        n if r.b > 0 else None, 1 if r.ok else None, "buy" if r.ok else r.kind, r.text, r.text
    )


def conditional(r: Row) -> Mixed | None:
    return Mixed(r.a, r.x, r.kind, text=r.text) if r.a > r.b else None


def truths(r: Row) -> Flags:
    return Flags(
        bool(r.a and r.x),
        r.ok or r.a > 1,
        not r.x,
        bool(r.a),
        (r.ok and r.b < 0) or not r.ok,
        r.ok & (r.a == 1),
    )


def and_or_values(r: Row) -> Ints:
    return Ints(
        r.a or r.b,
        r.a and r.b,
        r.ok and 5,
        (r.maybe or r.a) + (r.maybe if r.maybe is not None else 4),
    )


def extremes(r: Row) -> Floats:
    return Floats(min(r.x, r.y), max(r.x, r.y, 1.5), float(max(r.a, r.b, 3)))


def math_calls(r: Row) -> Floats:
    return Floats(
        math.fabs(r.x) + math.isnan(r.y) * 2,
        math.sqrt(r.x),
        1.0 if math.isinf(r.x) or not math.isfinite(r.y) else 0,
    )


def calendar(r: Row) -> Ints:
    return Ints(times.hour(r.ts), times.weekday(r.ts), times.date(r.ts), r.ts + times.minutes(5))


def collatz(n: int, most: int = 20) -> int:
    steps = 0
    while n > 1 and steps < most:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def clamp(value: int, *, low: int, high: int) -> int:
    if value < low:
        return low
    return high if value > high else value


def loops(r: Row) -> Ints:
    total = 0
    for i in range(r.a % 7):
        if i == 5:
            break
        if i == 2:
            continue
        total += i * r.b
    for one in (1, 2, 3):
        total -= one
    p, q = r.a, r.b
    p, q = q, p
    return Ints(total, collatz(r.a % 1000), collatz(r.b % 1000, most=3), clamp(p, low=-5, high=q))


def first_or_none(r: Row) -> int | None:
    if r.a > 0:
        return r.a
    return None


def record_in_variable(r: Row) -> Ints | None:
    found = first_or_none(r)
    if found is None:
        return None
    made = Ints(found, r.b, 1, 2)
    return Ints(made.p, made[1], made.q, s=made.s)


def checks(r: Row) -> Ints:
    if r.a == 4:
        raise IndexError
    if r.b == 2:
        raise ValueError(f"two in {r.text}")
    return Ints(1, 2, 3, r.a)


MAPS = [
    (add_and_subtract, Ints),
    (divide_ints, Ints),
    (divide, Floats),
    (modulo_floats, Floats),
    (compare_mixed, Flags),
    (compare_categories, Flags),
    (nones, Flags),
    (compute_with_none, Mixed),
    (none_branches, Mixed),
    (conditional, Mixed),
    (truths, Flags),
    (and_or_values, Ints),
    (extremes, Floats),
    (math_calls, Floats),
    (calendar, Ints),
    (loops, Ints),
    (record_in_variable, Ints),
    (checks, Ints),
]


def positive(r: Row) -> bool:
    return r.a >= 0


def explode(r: Row) -> Any:
    for i in range(r.a % 40):
        yield Ints(i, r.a, r.b, 10 // (r.b - i) if r.b > 0 else 0)


def pair(i: Ints) -> list[Ints]:
    return [Ints(i.p, i.q, 0, 0), Ints(i.p, i.q, 1, i.s)]


BIG = 2**62
ints = st.one_of(st.integers(-9, 9), st.integers(-1000, 1000), st.integers(-(2**40), 2**40))
floats = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1.0, -1.5, 2.0**53, -(2.0**60), math.inf, -math.inf, math.nan, 5e-324]
    ),
    st.floats(),
    st.integers(-9, 9).map(float),
)
rows = st.builds(
    Row,
    ts=st.integers(-(2**52), 2**52),
    a=ints,
    b=ints,
    x=floats,
    y=floats,
    ok=st.booleans(),
    kind=st.sampled_from(["cart", "buy", "view", "", "a"]),
    maybe=st.none() | st.integers(-3, 3),
    price=st.none() | floats,
    text=st.sampled_from(["", "one", "zwei", "три"]),
)
tables = st.lists(rows, max_size=40)
quick = settings(derandomize=True, deadline=None, max_examples=25, database=None)


def reference(
    steps: list[Step], given: list[Any]
) -> tuple[list[Any], list[int], list[int], list[Any]]:
    """The chain on plain Python objects; what raises in a step leaves no trace of that step's input."""
    outputs: list[Any] = []
    source: list[int] = []
    counts = [0] * len(steps)
    rejected = []
    for place, row in enumerate(given):
        rows = [row]
        for k, step in enumerate(steps):
            made: list[Any] = []
            for one in rows:
                try:
                    made += apply(step, one)
                except Exception as error:
                    rejected.append((place, step.name, reason_of(error), shorten(one)))
            counts[k] += len(made)
            rows = made
        outputs += rows
        source += [place] * len(rows)
    return outputs, source, counts, rejected


def apply(step: Step, row: Any) -> list[Any]:
    result = step.function(row)
    if step.kind == "filter":
        return [row] if result else []
    if step.kind == "map":
        return [] if result is None else [step.out.coerce(result)]
    return [step.out.coerce(one) for one in result]


def run(kernel: Any, given: list[Any]) -> tuple[list[Any], list[int], list[int], list[Any]]:
    chunk = Chunk.from_rows(kernel.source, given)
    result = kernel(chunk)
    out = Chunk(kernel.out, result.columns, len(result.source)).rows()
    rejected = [(one.row, one.operator, one.reason, one.value) for one in result.rejected]
    return out, result.source.tolist(), result.counts, rejected


def agree(steps: list[Step], given: list[Any]) -> None:
    kernel = stateless_kernel(steps, Schema.of(Row), reject=True)
    assert repr(run(kernel, given)) == repr(reference(steps, given))


@pytest.mark.parametrize(("function", "out"), MAPS, ids=[m[0].__name__ for m in MAPS])
def test_maps_agree_with_python(function: Any, out: Any) -> None:
    """Every value, None, sign of zero, NaN, place, count and rejected row is Python's."""
    steps = [Step("map", function.__name__, function, Schema.of(out))]

    @quick
    @given(tables)
    def holds(given: list[Row]) -> None:
        agree(steps, given)

    holds()


def test_large_ints_agree_with_python() -> None:
    """Division and comparison of ints that no float holds exactly are exact."""
    steps = [
        Step("map", "divide", lambda r: Floats(r.a / r.b, r.ts / 3, r.b / r.ts), Schema.of(Floats)),
    ]
    wide = st.one_of(
        st.integers(-BIG, BIG),
        st.integers(-(2**63) + 1, 2**63 - 1),
        st.integers(2**53 - 3, 2**53 + 3),
    )
    compared = [Step("map", "compare", compare_mixed, Schema.of(Flags))]
    floored = [Step("map", "floor", divide_ints, Schema.of(Ints))]

    @settings(quick, max_examples=60)
    @given(st.lists(st.tuples(wide, wide, wide, wide.map(float)), max_size=20))
    def holds(numbers: list[Any]) -> None:
        given = [Row(n[2], n[0], n[1], n[3], 1.0, True, "a", 1, 1.0, "") for n in numbers]
        for chain in (steps, compared, floored):
            agree(chain, given)

    holds()


def test_chains_agree_with_python() -> None:
    """A fused chain with generators counts, orders and rejects as its steps one after the other."""
    steps = [
        Step("filter", "positive", positive, Schema.of(Row)),
        Step("flat_map", "explode", explode, Schema.of(Ints)),
        Step("filter", "even", lambda i: i.p % 2 == 0 or 4 // (i.p - 5) > 0, Schema.of(Ints)),
        Step("flat_map", "pair", pair, Schema.of(Ints)),
    ]

    @settings(quick, max_examples=60)
    @given(tables)
    def holds(given: list[Row]) -> None:
        agree(steps, given)

    holds()


def test_text_passes_through_untouched() -> None:
    """Text, lists and records come out as they went in, also when the column depends on the row."""

    class Two(NamedTuple):
        left: str
        right: str
        n: int
        tags: list[int]

    class One(NamedTuple):
        text: str
        tags: list[int]

    schema = Schema.of(Two)
    steps = [
        Step("map", "pick", lambda t: One(t.left if t.n > 0 else t.right, t.tags), Schema.of(One))
    ]
    kernel = stateless_kernel(steps, schema, reject=False)
    given = [Two(f"l{i}", f"r{i}", i % 3 - 1, [i] * (i % 3)) for i in range(50)]
    assert run(kernel, given)[0] == [One(t.left if t.n > 0 else t.right, t.tags) for t in given]
    keep = stateless_kernel(
        [Step("filter", "all", lambda t: t.n > -5, schema)], schema, reject=False
    )
    chunk = Chunk.from_rows(schema, given)
    assert keep(chunk).columns[0].values is chunk.columns[0].values


def test_an_error_names_operator_function_line_and_row() -> None:
    """errors="fail": the message tells all one needs, in at most ten lines."""
    steps = [Step("map", "ratio", divide, Schema.of(Floats))]
    kernel = stateless_kernel(steps, Schema.of(Row), reject=False)
    bad = Row(0, 1, 0, 1.0, 1.0, True, "a", None, None, "here")
    with pytest.raises(OperatorError) as caught:
        kernel(Chunk.from_rows(Schema.of(Row), [bad._replace(b=2), bad]))
    text = str(caught.value)
    assert "operator 'ratio' failed: ZeroDivisionError: division by zero" in text
    line = divide.__code__.co_firstlineno
    assert f"divide in {__file__}:{line}, raised at line {line + 1}" in text
    assert repr(bad) in text
    assert len(text.splitlines()) <= 10
    assert caught.value.operator == "ratio"


def refused(function: Any, out: Any = Row, kind: Any = "filter") -> str:
    steps = [Step(kind, "it", function, Schema.of(out))]
    compiled, reason = check_stateless(steps, Schema.of(Row))
    assert not compiled
    return reason


UNSORTED = [3, 1, 0.5]


def uses_unset(r: Row) -> bool:
    if r.a > 0:
        found = True
    return found


def two_types(r: Row) -> Floats:
    total = 0
    total += r.x
    return Floats(total, 0, 0)


def recursive(r: Row) -> bool:
    return recursive(r)


def catches(r: Row) -> bool:
    try:
        return r.a > 0
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda r: r.a**r.a > 3, "an exponent that is not a literal"),
        (lambda r: ~r.x > 3, "`~` on a float"),
        (lambda r: r.a << r.x, "shifts an int by a float"),
        (lambda r: math.hypot(r.x, r.y) > 1, "`math.hypot`"),
        (lambda r: r.kind == r.text, "compares a Category with a text that is no literal"),
        (lambda r: r.kind.lower() == "a", "declare the field str"),
        (lambda r: r.text % 3 == "a", "write an f-string"),
        (lambda r: f"{r.x}" > "1", "with :.0f to :.3f it is compiled"),
        (lambda r: f"{r.a:x}" > "1", "the format 'x'"),
        (lambda r: r.text[::2] > "a", "a slice with a step"),
        (lambda r: r.text.title() > "a", "`.title`"),
        (lambda r: r.text + r.a, "`+` on a str and an int"),
        (lambda r: r.kind < "b", "`<` on a Category"),
        (lambda r: r.kind == 3, "compares a Category with an int"),
        (lambda r: r.kind + r.kind, "`+` on a Category"),
        (lambda r: UNSORTED[0] > r.a, "`UNSORTED`, a captured list that holds values of"),
        (lambda r: min(r.a, r.x), "different types"),
        (lambda r: r.missing, "no field `missing`"),
        (lambda r: (1 if r.ok else 2.0) > r.a, "`if else` gives an int or a float"),
        (lambda r: r.a > 2**70, "`**`"),
        (lambda r: r.a > 99999999999999999999, "does not fit 64 bits"),
        (recursive, "calls itself"),
        (uses_unset, "`found` may have no value"),
        (catches, "uses try"),
        (print, "not a plain function"),
    ],
)
def test_refusals_name_line_and_construct(function: Any, part: str) -> None:
    """What is not proven to agree stays interpreted, and the reason says what and where."""
    reason = refused(function)
    assert part in reason
    if function is not print and function is not recursive:
        assert f"line {function.__code__.co_firstlineno}" in reason or "line" in reason


@pytest.mark.parametrize(
    ("function", "out", "part"),
    [
        (lambda r: Ints(r.x, 1, 2, 3), Ints, "Ints.p is int, got a float"),
        (lambda r: Flags(r.a, r.ok, r.ok, r.ok, r.ok, r.ok), Flags, "Flags.p is bool, got an int"),
        (lambda r: Mixed(r.a, r.x, r.kind, r.kind), Mixed, "Mixed.text is str"),
        (lambda r: Mixed(r.a, r.x, r.text, r.text), Mixed, "Mixed.kind is Category"),
        (lambda r: Ints(1, 2), Ints, "Ints takes p, q, r, s"),
        (lambda r: r.a, Ints, "gives int where Ints is declared"),
        (two_types, Floats, "write 0.0 instead of 0"),
        (explode, Ints, "use flat_map"),
    ],
)
def test_declared_fields_never_narrow(function: Any, out: Any, part: str) -> None:
    """A float in an int field is found without compiling; interpreted mode raises there."""
    assert part in refused(function, out, "map")


def test_equal_values_of_other_types_are_other_functions() -> None:
    """A captured 1, 1.0 and True are equal to Python, not to a compiler."""

    def scaled(k: Any) -> Any:
        return lambda r: Floats(r.p * k, -(0 * k), r.r)

    def flag(k: Any) -> Any:
        return lambda r: r.q == k or k

    floats = Schema.of(Floats)
    steps = [
        Step("map", "floats", lambda r: Floats(r.x, r.y, 1.0), floats),
        *(Step("map", "scaled", scaled(k), floats) for k in (0, 0.0, -0.0, 1, True)),
        *(Step("filter", "flag", flag(k), floats) for k in (1, 1.0, True)),
    ]
    given = [
        Row(0, 1, 2, x, y, True, "a", None, None, "") for x in (1.5, -2.0) for y in (0.0, -0.0)
    ]
    agree(steps, given)
