"""Random functions over a state of lists, deques, dicts, tuples and Optional fields, as text; see :mod:`fuzz_kit`."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
import math
import random
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import thalweg as tw
from thalweg.flow.operators.generated import make_functions


class Row(NamedTuple):
    which: int
    i: int
    x: float
    m: int | None
    kind: tw.Category
    t: str


class Named(NamedTuple):
    a: str
    b: str | None
    n: int


class Out(NamedTuple):
    p: int
    q: float
    b: bool


class Pair(NamedTuple):
    x: float
    n: int | None


@tw.state
class State:
    xs: list[int] = []
    fs: list[float] = []
    dq: collections.deque[float] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=3)
    )
    free: collections.deque[int] = dataclasses.field(default_factory=collections.deque)
    d: dict[int, int] = dataclasses.field(default_factory=dict)
    by: dict[tw.Category, float] = dataclasses.field(default_factory=dict)
    ps: list[tuple[float, int]] = []
    rows: list[Pair] = []
    last: int | None = None
    lf: float | None = None
    pair: tuple[int, float] = (0, 0.0)
    best: Pair | None = None
    start: list[int] = [3, -1, 2]
    first: dict[int, float] = dataclasses.field(default_factory=lambda: {1: 0.5, -2: 4.0})
    tail: collections.deque[int] = dataclasses.field(
        default_factory=lambda: collections.deque([7, 8], maxlen=3)
    )
    name: str = "né"
    ts: list[str] = []
    td: collections.deque[str] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=3)
    )
    dt: dict[str, int] = dataclasses.field(default_factory=dict)
    nt: dict[int, str] = dataclasses.field(default_factory=dict)
    tt: dict[str, Named] = dataclasses.field(default_factory=dict)
    tr: list[Named] = []
    tp: list[tuple[str, int]] = []


SCOPE: Final[dict[str, Any]] = {
    "heapq": heapq,
    "bisect": bisect,
    "Out": Out,
    "Pair": Pair,
    "Named": Named,
    "math": math,
    "deque": collections.deque,
    "RATES": {k: (k * 2, k / 3) for k in range(-2, 40)},
    "FEW": {"a": 1, "b": 2},
    "SOME": {*range(0, 60, 3)},
    "STEPS": [-2.5, 0.0, 1.0, 4.0],
    "WIDE": tuple(range(50, 0, -1)),
}


class Writer:
    """Writes bodies that change and read the state's containers; some fail at the end of many changes."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def int_(self, depth: int = 1) -> str:
        leaves = ["r.i", "r.i", str(self.random.randint(-3, 6)), "len(state.xs)", "len(state.d)"]
        if depth <= 0:
            return str(self.random.choice(leaves))
        i, f = (lambda: self.int_(depth - 1)), (lambda: self.float_(depth - 1))
        return str(
            self.pick(
                *leaves,
                f"state.xs[{i()}]",
                "state.xs[-1]",
                "sum(state.xs)",
                f"max(state.xs, default={i()})",
                f"min(state.xs, key=lambda v: {self.pick('-v', 'v % 3', '(v % 2, v)')})",
                f"state.xs.index({i()})",
                f"state.xs.count({i()})",
                f"state.d.get({i()}, {i()})",
                f"state.d[{i()}]",
                f"state.d.setdefault({i()}, {i()})",
                f"bisect.bisect_{self.pick('left', 'right')}(state.xs, {i()})",
                f"sum(v for v in state.xs if v > {i()})",
                "sum(1 for v in state.fs if v > 0.5)",
                "sum(state.d.values())",
                "sum(reversed(state.xs))",
                "sum(n * v for n, v in enumerate(reversed(state.xs), 2))",
                "sum(k * v for k, v in state.d.items())",
                "len(state.xs[-2:])",
                f"len(state.xs[{i()}:{i()}])",
                f"({i()} + {i()})",
                f"({i()} * {i()})",
                f"({i()} // {i()})",
                f"(state.last if state.last is not None else {i()})",
                "state.pair[0]",
                "state.free[0]",
                "(state.start[0] + state.tail[-1])",
                "len(state.name)",
                f"sorted(state.xs)[{i()}]",
                "len(heapq.nlargest(2, state.xs))",
                "(state.last or 3)",
                f"RATES[{i()}][0]",
                f"FEW.get(r.kind, {i()})",
                "FEW[r.kind]",
                f"WIDE[{i()}]",
                "len(SOME)",
                f"bisect.bisect_right(STEPS, {f()})",
                f"int({f()})",
                f"math.floor({f()})",
                f"round({f()})",
                f"({i()} << ({i()} % 5))",
                f"({i()} >> 1)",
                f"(~{i()})",
                f"({i()} ** 3)",
                f"math.gcd({i()}, {i()})",
                f"divmod({i()}, 3)[1]",
            )
        )

    def float_(self, depth: int = 1) -> str:
        leaves = ["r.x", "r.x", str(self.pick("0.0", "-0.0", "1.5", "-2.0")), "state.pair[1]"]
        if depth <= 0:
            return str(self.random.choice(leaves))
        i, f = (lambda: self.int_(depth - 1)), (lambda: self.float_(depth - 1))
        return str(
            self.pick(
                *leaves,
                f"state.fs[{i()}]",
                "sum(state.fs)",
                "sum(state.fs, 0.0)",
                "sum(state.dq)",
                "max(state.fs)",
                "min(state.dq)",
                "state.dq[0]",
                "state.dq[-1]",
                "state.ps[0][0]",
                "max(state.ps)[0]",
                "heapq.nlargest(2, state.fs)[0]",
                "heapq.nsmallest(3, state.fs)[-1]",
                "sum(x * 2.0 for x in state.fs)",
                f"(state.lf if state.lf is not None else {f()})",
                f"({f()} + {f()})",
                f"({f()} * {f()})",
                f"({f()} / {f()})",
                f"({f()} // {f()})",
                f"({f()} % {f()})",
                f"state.by.get(r.kind, {f()})",
                "state.by[r.kind]",
                f"state.first.get({i()}, 0.25)",
                "sum([x for x in state.fs if x == x], 0.0)",
                "sorted(state.fs, reverse=True)[0]",
                f"RATES[{i()}][1]",
                f"STEPS[{i()}]",
                f"round({f()}, {self.pick('1', '2', '0')})",
                f"({f()} ** 2)",
                f"({f()} ** 0.5)",
                f"math.{self.pick('sin', 'exp', 'log', 'atan', 'log2', 'tanh', 'sqrt')}({f()})",
                f"math.{self.pick('pow', 'atan2', 'fmod', 'copysign')}({f()}, {f()})",
                "(state.best.x)",
                "max(state.rows, key=lambda p: p.x).x",
                f"divmod({f()}, {f()})[{self.pick('0', '1')}]",
            )
        )

    def bool_(self) -> str:
        return str(
            self.pick(
                f"{self.int_()} in state.xs",
                f"{self.int_()} not in state.d",
                f"{self.float_()} in state.fs",
                "not state.xs",
                "state.last is None",
                "state.lf is not None",
                "r.kind in state.by",
                "r.m in state.xs",
                f"any(v > {self.int_(0)} for v in state.xs)",
                f"all(x < {self.float_(0)} for x in state.dq)",
                f"{self.int_()} < {self.int_()}",
                f"{self.float_()} < {self.float_()}",
                "r.m is None",
                "any(state.xs)",
                "all(state.xs)",
                "all(state.fs)",
                "any(state.dq)",
                "all(state.d)",
                "any(state.d.values())",
                "state.best is None",
                f"{self.int_()} in SOME",
                "r.m in SOME",
                "state.d",
                "len(state.dq) == 3",
                f"({self.float_()}, {self.int_()}) in state.ps",
            )
        )

    def change(self) -> str:
        i, f = self.int_, self.float_
        return str(
            self.pick(
                *[f"state.xs.append({i()})"] * 3,
                *[f"state.fs.append({f()})"] * 3,
                *[f"state.dq.append({f()})"] * 2,
                f"state.dq.appendleft({f()})",
                f"state.free.append({i()})",
                f"state.free.appendleft({i()})",
                "state.free.pop()",
                "state.free.popleft()",
                f"state.xs.pop({i()})",
                "state.xs.pop()",
                "state.fs.pop(0)",
                f"state.xs.insert({i()}, {i()})",
                f"state.xs.remove({i()})",
                "state.xs.reverse()",
                "state.xs.sort()",
                "state.fs.sort(reverse=True)",
                "state.ps.sort(key=lambda p: -p[0])",
                "state.xs.sort(key=lambda v: v % 3)",
                f"state.xs.extend([{i()}, {i()}])",
                "state.xs.extend(state.free)",
                "state.fs.extend(state.dq)",
                "state.xs.clear()",
                "state.d.clear()",
                "state.dq.clear()",
                f"state.xs[{i()}] = {i()}",
                f"state.xs[{i()}] += {i()}",
                f"state.dq[{i()}] = {f()}",
                f"state.d[{i()}] = {i()}",
                *[f"state.d[{i()} % 20] = {i()}"] * 3,
                f"state.d[{i()}] += 1",
                f"state.d[{i()}] = state.d.get({i()}, 0) + 1",
                f"del state.d[{i()}]",
                f"state.d.pop({i()}, 0)",
                f"state.d.pop({i()})",
                f"state.by[r.kind] = {f()}",
                "state.by[r.kind] = state.by.get(r.kind, 0.5) + 1.0",
                f"del state.xs[{i()}]",
                f"del state.xs[:{i()}]",
                f"del state.xs[{i()}:{i()}]",
                "state.xs = state.xs[-5:]",
                "state.xs = []",
                f"state.xs = [{i()}, {i()}]",
                "state.xs = sorted(state.xs)",
                "state.xs = [v for v in state.xs if v % 2 == 0]",
                "state.xs = list(state.d)",
                "state.xs = state.xs + [r.i]",
                "state.xs = [*state.xs, r.i][-4:]",
                f"state.xs = state.xs[-4:] + [{i()}]",
                "state.xs = state.xs[1:] + [r.i] + state.xs[:1]",
                "state.xs = [r.i] + state.xs + list(state.free)",
                "state.fs = sorted(state.fs) + [r.x]",
                "state.d = {}",
                "state.xs = list(state.d.values())",
                "state.dq = deque(state.fs, maxlen=3)",
                "state.fs = list(state.dq)",
                "state.free = deque(state.xs)",
                "state.ps = sorted(state.ps)[:4]",
                "state.xs = heapq.nlargest(3, state.xs)",
                f"heapq.heappush(state.fs, {f()})",
                "heapq.heappop(state.fs)",
                f"heapq.heapreplace(state.fs, {f()})",
                f"heapq.heappushpop(state.ps, ({f()}, {i()}))",
                "heapq.heapify(state.fs)",
                f"heapq.heappush(state.ps, ({f()}, {i()}))",
                f"bisect.insort(state.xs, {i()})",
                f"bisect.insort_left(state.fs, {f()})",
                f"state.ps.append(({f()}, {i()}))",
                f"state.rows.append(Pair({f()}, r.m))",
                f"state.best = Pair({f()}, r.m)",
                "state.best = None",
                "state.best = state.rows[-1]",
                f"state.last = {self.pick(i(), 'None', 'r.m')}",
                f"state.lf = {self.pick(f(), 'None')}",
                f"state.pair = ({i()}, {f()})",
                "state.pair = (state.pair[0] + 1, r.x)",
                f"state.xs.append(state.xs.pop({i()}))",
                "state.free.append(state.free.popleft())",
                "state.last = state.d.get(r.i)",
                f"state.xs.append({i()} + state.xs.pop())",
                f"state.start.append({i()})",
                "state.start.pop(0)",
                f"state.start[{i()}] = {i()}",
                "state.start = state.start[:2]",
                f"state.tail.append({i()})",
                f"state.first[{i()}] = {f()}",
                "del state.first[1]",
                "state.name = state.name + 'x'",
                "state.name = state.name[1:]",
            )
        )

    def statements(self, depth: int) -> Iterator[str]:
        kind = self.random.random()
        if kind < 0.7 or not depth:
            yield self.change()
        elif kind < 0.8:
            yield f"if {self.bool_()}:"
            yield f"    {self.change()}"
            yield f"    {self.change()}"
        elif kind < 0.9:
            turns = self.pick(
                ("v in state.xs", "total += v"),
                ("n, v in enumerate(state.xs)", "total += n * v"),
                ("v in reversed(state.xs)", "total = total * 2 + v"),
                ("n, v in enumerate(reversed(state.xs))", "total += n * v"),
                ("n, v in enumerate(reversed(state.free), 3)", "total += n - v"),
                ("n, v in enumerate(state.xs, start=-2)", "total += n * v"),
                ("k in state.d", "total += k"),
                ("k, v in state.d.items()", "state.pair = (k + v, 0.5)"),
                ("v in state.free", "state.xs.append(v)"),
                ("v in list(state.d)", "state.d[v] = total"),
                ("x, n in state.ps", "total += n"),
                ("v in state.xs[:3]", "state.xs.append(v)"),
                ("v in range(len(state.xs))", "state.xs[v] += 1"),
                ("v in SOME_", "total += v"),
                ("x in STEPS", "state.fs.append(x)"),
            )
            head = turns[0].replace("SOME_", "WIDE")
            yield f"for {head}:"
            yield f"    {turns[1]}"
            yield "    if total > 40:"
            yield f"        {self.pick('break', 'continue')}"
            yield f"    {self.pick('pass', 'total += 1')}"
        else:
            yield "keep = [total]"
            yield f"for v{depth} in state.xs:"
            yield f"    if v{depth} > {self.int_(0)}:"
            yield f"        keep.append(v{depth} + 1)"
            yield f"total += len(keep) + {self.pick('keep[-1]', 'sum(keep)', 'keep.pop()')}"

    def body(self) -> list[str]:
        lines = ["total = 0"]
        for _ in range(self.random.randint(2, 5)):
            lines += self.statements(1)
        if self.random.random() < 0.4:
            lines += [
                f"if {self.bool_()}:",
                f"    {self.pick('raise ValueError()', 'return None')}",
            ]
            lines += self.statements(0)
        return [*lines, f"return Out(total + {self.int_()}, {self.float_()}, bool({self.bool_()}))"]


def bodies(
    seed: int, first: int, count: int, writer: Callable[[random.Random], Writer] = Writer
) -> list[list[str]]:
    """Bodies number ``first`` and following, each the same whatever others are made."""
    return [writer(random.Random(f"{seed} {n} lists")).body() for n in range(first, first + count)]


def function_of(body: list[str], name: str = "generated") -> Any:
    """A body as a function of state and row."""
    text = "\n".join([f"def {name}(state, r):", *(f"    {line}" for line in body)]) + "\n"
    return make_functions("containers", text, SCOPE)[name]


def joined(parts: list[list[str]]) -> Any:
    """One function that runs body k where ``r.which == k``."""
    text = ""
    for k, body in enumerate(parts):
        text += "\n".join([f"def body_{k}(state, r):", *(f"    {line}" for line in body)]) + "\n"
    text += "def generated(state, r):\n"
    for k, body in enumerate(parts):
        text += f"    if r.which == {k}:\n" + "".join(
            f"        {line}\n" for line in _unshared(body, k)
        )
    return make_functions("containers", text + "    return None\n", SCOPE)["generated"]


def _unshared(body: list[str], k: int) -> list[str]:
    """The body with variables of its own, which may be of other types in other bodies."""
    return [line.replace("keep", f"keep{k}_") for line in body]


def rows(random_: random.Random, count: int, draw: Callable[[], float] | None = None) -> list[Row]:
    """Small ints, so that keys and items meet again, and floats with NaN and zeros of both signs."""
    floats = [0.0, -0.0, 1.0, 2.5, -1.5, 0.1, 7.25, math.nan, math.inf]
    texts = ["", "a", "bb", "ß日", "c" * 40, "né"]
    made = [
        Row(
            0,
            random_.randint(-3, 9),
            random_.choice(floats[:7] if random_.random() < 0.9 else floats),
            random_.choice([None, 1, 2, 3]),
            random_.choice(["a", "b", "c", ""]),
            "",
        )
        for _ in range(count)
    ]
    return [row._replace(t=texts[(row.i + n) % 6]) for n, row in enumerate(made)]
