"""Random functions over rows, as text: typed expressions and statements that a user might write.

A generated body ends on every way, and no loop runs for long in Python. Several bodies can stand in one function, each
behind ``if r.which == k``, since Numba needs tenths of a second a function whatever its size.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from fuzz_texts import EDGES as TEXT_EDGES
from fuzz_texts import TextWriter

import thalweg as tw
from thalweg import times
from thalweg.flow.operators.generated import make_functions

EDGES: Final = [
    0, 1, -1, 2, -2, 3, -7, 10, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1,
    2**62, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1,
]  # fmt: skip
FLOAT_EDGES: Final = [
    0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 2.0**31, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 9.2e18, 5e-324, 1e308,
    -1e308, math.inf, -math.inf, math.nan,
]  # fmt: skip


#: Half an hour of summer time, clocks set over midnight both ways, a day left out, a new offset for good.
ZONES: Final = (
    "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Asia/Kathmandu",
    "Africa/Casablanca", "UTC",
)  # fmt: skip


class Row(NamedTuple):
    which: int
    ts: tw.Timestamp
    i: int
    j: int
    x: float
    y: float
    ok: bool
    m: int | None
    f: float | None
    kind: tw.Category
    text: str
    word: str
    note: str | None


class Out(NamedTuple):
    p: int
    q: float
    b: bool
    m: int | None
    f: float | None
    kind: tw.Category
    text: str
    note: str | None


@tw.state
class State:
    timer: tw.Timer
    a: int = 0
    x: float = 0.0
    c: bool = False
    k: tw.Category = ""


def helper_int(a: int, b: int) -> int:
    if a > b:
        return a - b
    return b * 2


def helper_float(x: float, n: int = 3) -> float:
    for _ in range(n):
        x = x * 0.5 + n
    return x


def helper_maybe(a: int) -> int | None:
    return a + 1 if a % 2 else None


def helper_text(text: str, n: int, fill: str = "é") -> str:
    text = text.strip()
    while len(text) < n % 7:
        text = text + fill
    return text


SCOPE: Final[dict[str, Any]] = {
    "math": math, "times": times, "tw": tw, "Out": Out, "INF": math.inf, "NAN": math.nan, "BIG": 2**63 - 1,
    "LEAST": -(2**63), "SOME": (1, -1, 2**53 + 1), "helper_int": helper_int, "helper_float": helper_float,
    "helper_maybe": helper_maybe, "helper_text": helper_text, "LETTERS": "0123456789bcdefghjkmnpqrstuvwxyz",
    "NAMES": ("a", "zwölf", "", "ab"),
}  # fmt: skip


class Writer(TextWriter):
    """Writes bodies; ``state``: whether the function has one. ``n`` tells its variables from other bodies'."""

    def __init__(self, random_: random.Random, n: int, *, state: bool) -> None:
        self.random = random_
        self.n = n
        self.state = state
        self.variables: dict[str, list[str]] = {
            "int": [],
            "float": [],
            "bool": [],
            "text": [],
        }
        self.names = 0

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    # -- expressions ---------------------------------------------------------------------------------------

    def int_(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.3:
            return str(self._int_leaf())
        return self.random.choice(self._ints(depth - 1))()

    def _int_leaf(self) -> str:
        leaves = [
            *["r.i", "r.j"] * 4,
            "r.ts",
            self.pick("BIG", "LEAST"),
            *self.variables["int"] * 2,
        ]
        if self.state:
            leaves += ["state.a"] * 4
        if self.random.random() < 0.3:
            return str(self.random.choice(EDGES if self.random.random() < 0.3 else EDGES[:8]))
        return self.random.choice(leaves)

    def _ints(self, d: int) -> list[Callable[[], str]]:
        i, f, b = (lambda: self.int_(d)), (lambda: self.float_(d)), (lambda: self.bool_(d))
        return [
            *[lambda: f"({i()} {self.pick('+', '-', '*')} {i()})"] * 8,
            *[lambda: f"({i()} {self.pick('//', '%')} {i()})"] * 4,
            lambda: f"({i()} {self.pick('&', '|', '^')} {i()})",
            *[lambda: f"(-{i()})"] * 2,
            lambda: f"(+{b()})",
            *[lambda: f"abs({i()})"] * 2,
            lambda: f"{self.pick('min', 'max')}({i()}, {i()})",
            lambda: f"int({b()})",
            lambda: f"({i()} if {b()} else {i()})",
            lambda: f"({i()} {self.pick('and', 'or')} {i()})",
            lambda: f"({b()} + {b()})",
            lambda: f"({b()} * {i()})",
            lambda: f"(r.m if r.m is not None else {i()})",
            lambda: f"(r.m or {i()})",
            lambda: f"(r.m + {i()})",
            lambda: f"helper_int({i()}, {i()})",
            *[lambda: self.part_of_time(i)] * 2,
            lambda: self.of_a_list(i),
            lambda: f"({i()}, {i()})[{self.pick(0, 1, -1)}]",
            *self.ints_of_texts(d),
            *([lambda: self._refused(f)] if self.random.random() < 0.03 else []),
        ]

    def of_a_list(self, i: Callable[[], str]) -> str:
        """Of a list that the call makes, and nobody else sees."""
        items = f"[{i()}, {i()}, {self.pick('r.i', 'r.j', '3')}]"
        each = f"{self.pick('one', 'one * 2', '-one', 'one % 7')} for one in {items}"
        test = self.pick("", " if one > 0", " if one % 2 == 0")
        return self.pick(
            f"sum({each}{test})",
            f"max([{each}{test}], default=5)",
            f"len([{each}{test}])",
            f"sorted({items}, reverse=True)[{self.pick(0, 1, 2, -1, 'r.i % 5')}]",
            f"sum([{each}][1:])",
            "sum(len(one) for one in r.text.split(','))",
            "len(sorted(r.text.split(' '))[0])",
        )

    def part_of_time(self, i: Callable[[], str]) -> str:
        part = self.pick(
            "year", "month", "day", "hour", "minute", "second", "weekday", "date", "local"
        )
        zone = self.pick(*ZONES) if part == "local" or self.random.random() < 0.7 else None
        # Half of the times are ones of this century, about the clocks' changes.
        time = self.pick("r.ts", i(), f"(r.ts + {i()} % 31556952000000)")
        return f"times.{part}({time})" if zone is None else f"times.{part}({time}, {zone!r})"

    def _refused(self, f: Callable[[], str]) -> str:
        """What the compiler refuses by name today."""
        return str(self.pick("(~r.i)", "(r.i << 3)", "(r.j >> 1)", "(r.j ** 2)", f"int({f()})"))

    def float_(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.3:
            leaves = ["r.x", "r.y", "r.x", "r.y", "INF", "NAN", *self.variables["float"] * 2]
            if self.state:
                leaves += ["state.x"] * 4
            number = self.random.choice(FLOAT_EDGES)
            if self.random.random() < 0.2 and math.isfinite(number):
                return f"{number!r}"
            return self.random.choice(leaves)
        return self.random.choice(self._floats(depth - 1))()

    def _floats(self, d: int) -> list[Callable[[], str]]:
        i, f, b = (lambda: self.int_(d)), (lambda: self.float_(d)), (lambda: self.bool_(d))
        return [
            *[lambda: f"({f()} {self.pick('+', '-', '*')} {f()})"] * 4,
            *[lambda: f"({f()} {self.pick('+', '-', '*')} {i()})"] * 2,
            lambda: f"({i()} {self.pick('+', '-', '*')} {f()})",
            lambda: f"({f()} / {f()})",
            *[lambda: f"({i()} / {i()})"] * 3,
            *[lambda: f"({f()} % {f()})"] * 2,
            lambda: f"({f()} % {i()})",
            lambda: f"(-{f()})",
            lambda: f"{self.pick('abs', 'math.fabs', 'math.sqrt')}({f()})",
            lambda: f"{self.pick('min', 'max')}({f()}, {f()})",
            lambda: f"float({self.pick(i, f, b)()})",
            lambda: f"({f()} if {b()} else {f()})",
            lambda: f"({f()} {self.pick('and', 'or')} {f()})",
            lambda: f"(r.f if r.f is not None else {f()})",
            lambda: f"(r.f * {f()})",
            lambda: f"helper_float({f()})",
            lambda: f"helper_float({f()}, n={self.pick('2', '0', '(r.i % 5)')})",
            lambda: f"math.sqrt({i()})",
            *self.floats_of_texts(d),
            *([lambda: f"({f()} // {f()})"] if self.random.random() < 0.03 else []),
        ]

    def bool_(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.3:
            leaves = [
                "r.ok",
                "True",
                "False",
                "(r.m is None)",
                "(r.f is not None)",
                *self.variables["bool"],
            ]
            if self.state:
                leaves += ["state.c"] * 2
            return self.random.choice(leaves)
        return self.random.choice(self._bools(depth - 1))()

    def _bools(self, d: int) -> list[Callable[[], str]]:
        i, f, b = (lambda: self.int_(d)), (lambda: self.float_(d)), (lambda: self.bool_(d))
        order = lambda: self.pick("<", "<=", ">", ">=", "==", "!=")  # noqa: E731
        return [
            *[lambda: f"({i()} {order()} {i()})"] * 3,
            *[lambda: f"({f()} {order()} {f()})"] * 2,
            *[lambda: f"({self.pick(i, f)()} {order()} {self.pick(i, f)()})"] * 4,
            lambda: f"({i()} {order()} {f()} {order()} {i()})",
            lambda: f"({b()} {self.pick('and', 'or', '&', '|', '^', '==', '!=')} {b()})",
            lambda: f"(not {self.pick(b, i, f)()})",
            lambda: f"bool({self.pick(b, i, f)()})",
            lambda: (
                f"({i()} {self.pick('in', 'not in')} {self.pick('SOME', '(0, 5, -1)', '{1, 2.0}')})"
            ),
            lambda: f"{self.pick('math.isnan', 'math.isinf', 'math.isfinite')}({f()})",
            lambda: f"(r.m {self.pick('==', '!=')} {self.pick('r.m', i())})",
            lambda: f"(r.f {self.pick('==', '!=')} {self.pick('r.f', f())})",
            lambda: f"(r.kind {self.pick('==', '!=')} {self.pick('a', 'b', '')!r})",
            lambda: "(r.kind in ('a', 'z'))",
            *self.bools_of_texts(d),
        ]

    def maybe(self, depth: int) -> str:
        """An int or None."""
        return str(
            self.pick(
                "r.m", "None", self.int_(depth), f"({self.int_(depth)} if {self.bool_(1)} else None)",
                f"helper_maybe({self.int_(depth)})",
            )
        )  # fmt: skip

    # -- statements ----------------------------------------------------------------------------------------

    def name(self) -> str:
        self.names += 1
        return f"v{self.n}_{self.names}"

    def any_(self, kind: str, depth: int) -> str:
        write: dict[str, Callable[[int], str]] = {
            "int": self.int_,
            "float": self.float_,
            "bool": self.bool_,
            "text": self.text_,
        }
        return write[kind](depth)

    def statements(self, count: int, depth: int) -> Iterator[str]:
        for _ in range(count):
            yield from self.random.choice(self._statements(depth))()

    def _statements(self, depth: int) -> list[Callable[[], Iterator[str]]]:
        simple = [self._assign, self._assign, self._augmented, self._swap]
        if self.state:
            simple += [self._update] * 5
        if depth <= 0:
            return simple
        return [
            *simple,
            lambda: self._branch(depth),
            lambda: self._for(depth),
            lambda: self._while(depth),
            self._guard,
            self.parts,
            self.characters,
        ]

    def _assign(self) -> Iterator[str]:
        kind = self.random.choice(["int", "int", "float", "bool", "text", "text"])
        value, name = self.any_(kind, 3), self.name()
        yield f"{name} = {value}"
        self.variables[kind].append(name)

    def _augmented(self) -> Iterator[str]:
        kind = self.random.choice(["int", "int", "float"])
        if self.variables[kind]:
            operator = self.pick("+", "-", "*", "%", *(("//",) if kind == "int" else ("/",)))
            yield f"{self.random.choice(self.variables[kind])} {operator}= {self.any_(kind, 2)}"

    def _swap(self) -> Iterator[str]:
        names = self.variables["int"]
        if len(names) > 1:
            a, b = self.random.sample(names, 2)
            yield f"{a}, {b} = {b}, {self.int_(2)}"

    def _update(self) -> Iterator[str]:
        yield str(
            self.pick(
                f"state.a {self.pick('=', '+=', '-=', '*=')} {self.int_(2)}",
                f"state.a += {self.pick('1', 'r.i', 'r.j')}",
                f"state.x {self.pick('=', '+=', '*=')} {self.float_(2)}",
                f"state.c = {self.bool_(2)}",
                f"state.k = {self.pick('r.kind', repr('b'))}",
                f"state.timer = r.ts + {self.pick('5', '3', 'abs(r.j % 9)')}",
                f"state.timer = {self.int_(1)}",
            )
        )  # fmt: skip

    def _branch(self, depth: int) -> Iterator[str]:
        yield f"if {self.bool_(3)}:"
        yield from self._block(depth)
        if self.random.random() < 0.6:
            yield "else:"
            yield from self._block(depth)

    def _block(self, depth: int, first: Sequence[str] = ()) -> Iterator[str]:
        known = {kind: [*names] for kind, names in self.variables.items()}
        lines = [*first, *self.statements(self.random.randint(1, 2), depth - 1)]
        for line in lines or ["pass"]:
            yield f"    {line}"
        self.variables = known

    def _for(self, depth: int) -> Iterator[str]:
        name, start = self.name(), self.int_(1)
        turns, step = self.random.randint(0, 4), self.pick(1, 3, -1, 2**62, -(2**63))
        known = self.variables["int"]
        ranges = [
            f"range({start} % 5)",
            f"range({start}, {start} + {turns})",
            f"range({start}, {self.int_(1)}, {step})",
            f"range({start}, {start} - {turns}, -1)",
            f"range({self.pick('min(r.i, 3)', 'r.ok + 1', '-5')})",
            "(1, r.i, 3)",
        ]
        count = self.name()
        yield f"{count} = 0"
        yield f"for {name} in {self.random.choice(ranges)}:"
        self.variables["int"] = [*known, name]
        stop = [f"{count} += 1", f"if {count} > {self.random.randint(1, 4)}:"]
        stop.append(f"    {self.pick('break', 'break', 'return None')}")
        yield from self._block(depth, stop)
        self.variables["int"] = known

    def _while(self, depth: int) -> Iterator[str]:
        count = self.name()
        yield f"{count} = {self.random.randint(0, 3)}"
        yield f"while {count} > 0 and {self.bool_(2)}:"
        yield from self._block(depth, [f"{count} -= 1"])

    def _guard(self) -> Iterator[str]:
        yield f"if {self.bool_(2)}:"
        way = self.random.random()
        if way < 0.5:
            yield f"    return {self.result(2)}"
        elif way < 0.7:
            yield "    return None"
        else:
            yield f"    raise {self.pick('ValueError', 'KeyError')}('generated')"

    def result(self, depth: int) -> str:
        f = self.pick(
            "r.f", "None", f"({self.float_(1)} if {self.bool_(1)} else None)", self.float_(depth)
        )
        kind = self.pick(
            "r.kind",
            "'a'",
            f"('b' if {self.bool_(2)} else r.kind)",
            *(["state.k"] if self.state else []),
        )
        note = self.pick(
            "r.note", "None", self.text_(1), f"({self.text_(1)} if {self.bool_(1)} else None)"
        )
        text = self.pick("r.text", "r.word", self.text_(depth), self.text_(depth))
        return (
            f"Out({self.int_(depth)}, {self.pick(self.float_, self.float_, self.int_)(depth)}, {self.bool_(depth)},"
            f" {self.maybe(depth - 1)}, {f}, {kind}, {text}, {note})"
        )

    def body(self) -> list[str]:
        """The lines of a whole body."""
        lines = [*self.statements(self.random.randint(0, 5), 2)]
        return [*lines, f"return {self.result(3)}"]


def bodies(seed: int, first: int, count: int, *, state: bool) -> list[list[str]]:
    """Bodies number ``first`` and following, each the same whatever others are made."""
    return [
        Writer(random.Random(f"{seed} {n} {state}"), n, state=state).body()
        for n in range(first, first + count)
    ]


def joined(parts: Sequence[list[str]], *, state: bool) -> Any:
    """One function that runs body k where ``r.which == k``."""
    lines = [f"def generated({'state, ' if state else ''}r):"]
    for k, body in enumerate(parts):
        lines.append(f"    if r.which == {k}:")
        lines += [f"        {line}" for line in body]
    lines.append("    return None")
    return make_functions("fuzz", "\n".join(lines) + "\n", SCOPE)["generated"]


def rows(random_: random.Random, count: int) -> list[Row]:
    """Rows at the edges, most values drawn from them."""

    def whole() -> int:
        wide = EDGES if random_.random() < 0.5 else EDGES[:8]
        return random_.choice(
            [*wide, random_.randint(-20, 20), random_.randint(-(2**63), 2**63 - 1)]
        )

    def real() -> float:
        return random_.choice(FLOAT_EDGES) if random_.random() < 0.7 else random_.uniform(-9, 9)

    def some(draw: Callable[[], Any]) -> Any:
        return None if random_.random() < 0.15 else draw()

    def row() -> Row:
        time = random_.randint(0, 50) * times.hours(1)
        numbers = (whole(), whole(), real(), real(), random_.random() < 0.5)
        texts = (random_.choice(["a", "b", "", "c"]), random_.choice(["", "x", "zwölf"]))
        words = (random_.choice(TEXT_EDGES), some(lambda: random_.choice(TEXT_EDGES)))
        return Row(0, time, *numbers, some(whole), some(real), *texts, *words)

    return [row() for _ in range(count)]
