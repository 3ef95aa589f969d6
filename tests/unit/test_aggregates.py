"""Aggregates, rolling and count windows, early results: against what plain Python computes of the same rows."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.flow.operators.aggregates import sketches

A = tw.agg


class Row(NamedTuple):
    ts: int
    key: str
    n: int
    x: float
    maybe: float | None
    name: str
    ok: bool
    sure: bool | None


def is_big(row: Row) -> bool:
    return row.n > 2 and row.name != "a"


class Mean(NamedTuple):
    total: int
    count: int


def add(held: Mean, row: Row) -> Mean:
    return Mean(held.total + row.n, held.count + 1)


def both(held: Mean, later: Mean) -> Mean:
    return Mean(held.total + later.total, held.count + later.count)


def less(held: Mean, row: Row) -> Mean:
    return Mean(held.total - row.n, held.count - 1)


def mean(held: Mean) -> float:
    return held.total / held.count


def rows_of(seed: int, count: int = 300) -> list[Row]:
    chooser = random.Random(seed)
    pick = chooser.choice
    return [
        Row(
            place // 3, pick("ab"), pick(range(-5, 6)), pick((1.0, 2.5, -0.0, 0.0, math.nan, 7.0)),
            pick((None, 1.0, 3.0)), pick(("a", "é", "", "zz")), pick((True, False)), pick((None, True, False)),
        )
        for place in range(count)
    ]  # fmt: skip


Rows = Sequence[Row]


def greatness(value: float) -> tuple[bool, float]:
    return (True, 0.0) if value != value else (False, value)


def variance(values: Sequence[float]) -> float | None:
    if any(one != one for one in values):
        return math.nan if len(values) > 1 else None
    return statistics.variance(values) if len(values) > 1 else None


def top(rows: Rows, k: int) -> list[Row]:
    ordered = sorted(rows, key=lambda row: greatness(row.x), reverse=True)
    last = ordered[min(k, len(ordered)) - 1].x
    return [row for row in ordered if greatness(row.x) >= greatness(last)]


def present(rows: Rows) -> list[float]:
    return [row.maybe for row in rows if row.maybe is not None]


class MeanOfInts:
    """A class of functions, as an aggregate."""

    @staticmethod
    def init() -> Mean:
        return Mean(0, 0)

    add = staticmethod(add)
    merge = staticmethod(both)
    result = staticmethod(mean)


def mean_of(rows: Rows) -> float:
    return sum(row.n for row in rows) / len(rows)


def n_of_most(rows: Rows) -> int | None:
    values = present(rows)
    return next((row.n for row in rows if row.maybe == max(values)), None) if values else None


#: Each aggregate, what it is of rows in plain Python, and whether rolling windows have it.
CASES: dict[str, tuple[Any, Callable[[Rows], Any]]] = {
    "count": (A.count(where=is_big), lambda rows: sum(map(is_big, rows))),
    "ok": (A.count(where="ok"), lambda rows: sum(row.ok for row in rows)),
    "sure": (A.sum("n", where="sure"), lambda rows: _sum([r.n for r in rows if r.sure])),
    "least": (A.min("n", where=is_big), lambda rows: min((r.n for r in rows if is_big(r)), default=None)),
    "first": (A.first("maybe"), lambda rows: (present(rows) or [None])[0]),
    "last": (A.last("name", where="ok"), lambda rows: ([r.name for r in rows if r.ok] or [None])[-1]),
    "first_row": (A.first(), lambda rows: rows[0]),
    "last_row": (A.last(where="ok"), lambda rows: ([r for r in rows if r.ok] or [None])[-1]),
    "at_least": (A.min_by("x", "name"), lambda rows: min(rows, key=lambda row: greatness(row.x)).name),
    "at_most": (A.max_by("x"), lambda rows: max(rows, key=lambda row: greatness(row.x))),
    "maybe_most": (A.max_by("maybe", "n"), n_of_most),
    "variance": (A.variance("x"), lambda rows: variance([row.x for row in rows])),
    "of_all": (A.stddev("maybe", population=True), lambda rows: _pstdev(present(rows))),
    "collected": (A.collect("name", last=3), lambda rows: [row.name for row in rows][-3:]),
    "rows": (A.collect(last=2, where="ok"), lambda rows: [row for row in rows if row.ok][-2:]),
    "names": (A.count_distinct("name"), lambda rows: len({row.name for row in rows})),
    "values": (A.count_distinct("x"), lambda rows: len({greatness(row.x + 0.0) for row in rows})),
    "ints": (A.count_distinct("n", where="ok"), lambda rows: len({row.n for row in rows if row.ok})),
    "own": (A.aggregate(init=Mean(0, 0), add=add, merge=both, result=mean), mean_of),
    "own_less": (A.aggregate(init=lambda: Mean(0, 0), add=add, retract=less, result=mean), mean_of),
    "own_class": (A.of_class(MeanOfInts), mean_of),
    "top": (A.top_k(2, "x", ties=True), lambda rows: top(rows, 2)),
}  # fmt: skip
AGGREGATES = {name: one for name, (one, _) in CASES.items()}
ROLLING = {f"r_{name}": one for name, one in AGGREGATES.items() if name != "top"}
#: Those that are compiled whatever the fields.
COMPILED = {
    name: AGGREGATES[name]
    for name in ("count", "ok", "sure", "least", "first", "last", "first_row", "last_row", "at_least", "at_most",
                 "maybe_most", "variance", "of_all", "ints", "own", "own_less", "own_class")
}  # fmt: skip


def _sum(values: Sequence[int]) -> int | None:
    return sum(values) if values else None


def _pstdev(values: Sequence[float]) -> float | None:
    return statistics.pstdev(values) if values else None


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float) and found == found:
        return math.isclose(found, expected, abs_tol=1e-12)
    return repr(found) == repr(expected)


def check(found: Any, rows: Rows, names: Sequence[str], prefix: str = "") -> None:
    """A result has what plain Python computes of its rows."""
    for name in names:
        value, expected = getattr(found, prefix + name), CASES[name][1](rows)
        if isinstance(value, tuple) and expected is not None:
            value, expected = repr(value), repr(expected)
        assert same(value, expected), (name, value, expected, rows)


def run(build: Callable[[tw.Stream[Row]], tw.Stream[Any]], rows: Rows, compile: Any) -> list[Any]:
    flow = tw.Flow("aggregates", compile=compile)
    build(flow.source("rows", Row, order_by="ts")).sink("out")
    return tw.run(flow, {"rows": rows}).rows("out")


def by_key(rows: Rows) -> dict[str, list[Row]]:
    found = collections.defaultdict(list)
    for row in rows:
        found[row.key].append(row)
    return found


@pytest.mark.parametrize("compile", ["auto", "never"])
@pytest.mark.slow
def test_all_aggregates_over_all_kinds_of_windows(compile: str) -> None:
    """Windows, sessions, so many rows, all rows, with a key and without: each result is that of its own rows."""
    rows, names = rows_of(1), list(CASES)
    for aggregates in (COMPILED, AGGREGATES):
        names = list(aggregates)
        for one in run(lambda s, a=aggregates: s.key_by("key").window(10, **a), rows, compile):
            its = [r for r in rows if r.key == one.key and one.start <= r.ts < one.end]
            check(one, its, names)
        for one in run(lambda s, a=aggregates: s.key_by("key").aggregate(**a), rows, compile):
            check(one, by_key(rows)[one.key], names)
        (whole,) = run(lambda s, a=aggregates: s.aggregate(**a), rows, compile)
        check(whole, rows, names)
        counted = run(lambda s, a=aggregates: s.key_by("key").count_window(7, **a), rows, compile)
        numbers: dict[str, int] = collections.Counter()
        for one in counted:
            its = by_key(rows)[one.key][numbers[one.key] : numbers[one.key] + 7]
            numbers[one.key] += 7
            assert (one.start, one.end) == (its[0].ts, its[-1].ts)
            check(one, its, names)
        assert numbers == {key: len(its) // 7 * 7 for key, its in by_key(rows).items()}


@pytest.mark.parametrize("compile", ["auto", "never"])
@pytest.mark.slow
def test_rolling_windows(compile: str) -> None:
    """Each row gives the aggregates over the last rows of its key: so many, so far in time, or all before it."""
    rows = rows_of(2, 150)
    names = [name[2:] for name in ROLLING]
    numbers = {n: a for n, a in ROLLING.items() if n[2:] in COMPILED and "row" not in n}
    for aggregates in (numbers, ROLLING):
        names = [name[2:] for name in aggregates]
        for reach in ({"rows": 5}, {"rows": 1}, {"within": 4}, {"within": 0}, {}):
            found = run(
                lambda s, a=aggregates, r=reach: s.key_by("key").rolling(**r, **a), rows, compile
            )  # type: ignore[misc]
            assert [row[:8] for row in found] == [tuple(row) for row in rows] or any(
                row.x != row.x for row in rows
            )
            before: dict[str, list[Row]] = collections.defaultdict(list)
            for row, one in zip(rows, found, strict=True):
                its = before[row.key]
                its.append(row)
                kept = its[-reach["rows"] :] if "rows" in reach else its
                if "within" in reach:
                    kept = [old for old in its if old.ts >= row.ts - reach["within"]]
                check(one, kept, names, "r_")


def test_what_is_compiled() -> None:
    """Aggregates of numbers, texts and whole rows are, also with where= and functions of one's own."""
    flow = tw.Flow("compiled")
    rows = flow.source("rows", Row, order_by="ts").key_by("key")
    of_rows = {name: one for name, one in COMPILED.items() if name in ("first_row", "at_most")}
    others = {
        name: one for name, one in COMPILED.items() if "row" not in name and name != "at_most"
    }
    for names, aggregates in (("rows", of_rows), ("fields", others)):
        rows.window(10, name=f"windows_{names}", **aggregates).sink(f"windows_{names}")
        rows.sessions(lambda row: row.n % 5, name=f"gaps_{names}", **aggregates).sink(
            f"gaps_{names}"
        )
        rows.count_window(3, name=f"counted_{names}", **aggregates).sink(f"counted_{names}")
    rows.rolling(name="running", r_first=A.first("name"), r_own=COMPILED["own"]).sink("running")
    rows.rolling(rows=3, name="rolled", r_mean=A.mean("x"), r_most=A.max("n", where=is_big)).sink(
        "r"
    )
    kinds, told = ("windows", "gaps", "counted"), flow.explain()
    for name in (
        *(f"{kind}_{one}" for kind in kinds for one in ("rows", "fields")),
        "running",
        "rolled",
    ):
        said = re.search(rf"  {name} +keyed.*\n.*\n +(.*)", told)
        assert said is not None
        assert said[1] == "compiled", (name, said[0])


def test_variance_does_not_cancel() -> None:
    """Values far from zero: a sum of squares would lose every digit."""
    values = [1e9 + one for one in (4.0, 7.0, 13.0, 16.0)]
    rows = [rows_of(0, 1)[0]._replace(ts=i, x=value) for i, value in enumerate(values)]
    (one,) = run(
        lambda s: s.aggregate(v=A.variance("x"), p=A.variance("x", population=True)), rows, "auto"
    )
    assert (one.v, one.p) == (30.0, 22.5)
    more = [rows[i % 4]._replace(ts=i) for i in range(16)]
    rolled = run(lambda s: s.rolling(rows=5, v=A.variance("x")), more, "auto")
    for place, one in enumerate(rolled[4:], 4):
        expected = statistics.variance(row.x for row in more[place - 4 : place + 1])
        assert one.v == pytest.approx(expected, rel=1e-6)


@dataclasses.dataclass
class Sale:
    ts: int
    shop: str
    price: tw.Money


def is_dear(sale: Sale) -> bool:
    return sale.price * 2 > 5


def test_functions_see_the_rows_that_users_see() -> None:
    """A dataclass with a decimal, in where= and in a gap, is the user's own object."""
    flow = tw.Flow("sales")
    sales = flow.source("sales", Sale, order_by="ts").key_by("shop")
    sales.window(10, dear=A.count(where=is_dear), last=A.last()).sink("out")
    sales.sessions(lambda sale: int(sale.price), name="s", n=A.count()).sink("sessions")
    rows = [Sale(0, "a", 2), Sale(1, "a", 3), Sale(5, "a", 1)]  # type: ignore[arg-type]
    result = tw.run(flow, {"sales": rows})
    (found,) = result.rows("out")
    assert (found.dear, found.last.ts, found.last.price) == (1, 5, 1)
    assert [(one.start, one.end, one.n) for one in result.rows("sessions")] == [
        (0, 1, 2),
        (5, 5, 1),
    ]


def test_early_results() -> None:
    """Every so many rows, or with the first row of each stretch of time, marked; the last result is not early."""
    rows = [rows_of(0, 1)[0]._replace(ts=ts, n=1) for ts in (0, 1, 4, 5, 9, 12)]
    found = run(lambda s: s.key_by("key").window(10, early_rows=2, n=A.sum("n")), rows, "auto")
    assert [(one.start, one.early, one.n) for one in found] == [
        (0, True, 2), (0, True, 4), (0, False, 5), (10, False, 1),
    ]  # fmt: skip
    found = run(lambda s: s.window(10, early=4, n=A.sum("n")), rows, "auto")
    assert [(one.start, one.early, one.n) for one in found] == [
        (0, True, 3), (0, True, 5), (0, False, 5), (10, False, 1),
    ]  # fmt: skip


def test_parts_of_aggregates_with_where() -> None:
    """grouping="partial" gives the same with a bool field as where=, of nulls and of groups without such a row, too."""
    aggregates: dict[str, Any] = {
        "n": A.count(where="sure"), "total": A.sum("n", where="sure"), "low": A.min("x", where="ok"),
        "high": A.max("name", where="ok"), "maybe": A.max("maybe", where="sure"),
    }  # fmt: skip
    rows = [row for row in rows_of(3) if row.key == "a" or row.sure is None]
    found = [
        run(
            lambda s, g=grouping: s.key_by("key", grouping=g).window(10, **aggregates), rows, "auto"
        )  # type: ignore[misc]
        for grouping in ("fields", "partial")
    ]
    assert repr(found[0]) == repr(found[1])
    flow = tw.Flow("parts")
    keyed = flow.source("rows", Row, order_by="ts").key_by("key", grouping="partial")
    keyed.window(10, **aggregates).sink("out")
    tw.testing.assert_same(flow, {"rows": rows[:90]}, seeds=[1], compile=("never",))
    assert any(one.total is None for one in found[0])


def test_sketches() -> None:
    """HyperLogLog and t-digest are near the truth, the same however the input is cut, and leave nulls and NaN out."""
    pytest.importorskip("datasketches")
    rows = [
        row._replace(name=f"é{i % 2000}", n=i % 700, x=float(i) if i % 10 else math.nan)
        for i, row in enumerate(rows_of(4, 4000))
    ]
    aggregates: dict[str, Any] = {
        "names": A.approx_count_distinct("name"), "ints": A.approx_count_distinct("n", size=14),
        "middle": A.approx_quantile("x", 0.5), "ends": A.approx_quantile("x", [0, 0.9, 1]),
        "maybe": A.approx_quantile("maybe", 1, where="ok"),
    }  # fmt: skip
    flow = tw.Flow("sketches")
    flow.source("rows", Row, order_by="ts").aggregate(**aggregates).sink("out")
    (one,) = tw.run(flow, {"rows": rows}).rows("out")
    assert one.names == pytest.approx(2000, rel=0.05)
    assert one.ints == pytest.approx(700, rel=0.03)
    assert one.middle == pytest.approx(2000, rel=0.02)
    assert one.ends == [1.0, pytest.approx(3600, rel=0.02), 3999.0]
    assert one.maybe == 3.0
    tw.testing.assert_same(flow, {"rows": rows[:600]}, seeds=[1], compile=("never",))
    far = [
        row._replace(x=value) for row, value in zip(rows, (math.inf, -math.inf, 1.0), strict=False)
    ]
    (one,) = run(lambda s: s.aggregate(q=A.approx_quantile("x", [0, 0.5, 1])), far, "never")
    assert one.q == [-math.inf, 1.0, math.inf]


def test_sketches_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the flow is refused when it is built, with the command that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "datasketches", None)
    sketches.library.cache_clear()
    with pytest.raises(tw.EnvironmentProblem, match=r"pip install 'thalweg\[sketches\]'"):
        run(lambda s: s.aggregate(d=A.approx_count_distinct("n")), [], "never")
    sketches.library.cache_clear()


def _partial() -> tw.KeyedStream[Row, Any]:
    rows = tw.Flow("refused").source("rows", Row, order_by="ts")
    return rows.key_by("key", grouping="partial")


REFUSED: dict[str, Callable[[tw.KeyedStream[Row, Any]], Any]] = {
    "Row has no field 'nam'.*did you mean.*name": lambda s: s.aggregate(d=A.count_distinct("nam")),
    "where='n' is int; name a bool field": lambda s: s.aggregate(c=A.count(where="n")),
    "no field 'okk'": lambda s: s.aggregate(c=A.count(where="okk")),
    "stddev needs a number, Row.name is str": lambda s: s.aggregate(c=A.stddev("name")),
    "d: parts of this aggregate do not merge": lambda s: s.rolling(rows=3, d=A.top_k(2, "x")),
    "rows= or within=, not both": lambda s: s.rolling(rows=3, within=3, c=A.count()),
    "early= or early_rows=, not both": lambda s: s.window(9, early=3, early_rows=3, c=A.count()),
    "early: expected above 0, got 0": lambda s: s.window(9, early=0, c=A.count()),
    "gap that is a function of the row goes with aggregates": lambda s: s.sessions(
        lambda row: 3, lambda key, start, end, rows: rows[0], into=Row  # type: ignore[call-overload]
    ),
    r"d has a function as where= \(put its answer into a bool field": lambda s: _partial().window(
        9, d=A.count(where=is_big)
    ),
    "d is a variance, whose parts do not merge exactly": lambda s: _partial().window(
        9, d=A.variance("x")
    ),
    "two output fields are called 'n'": lambda s: s.rolling(n=A.count()),
    r"is called with \(accumulator, row\)": lambda s: s.aggregate(
        c=A.aggregate(init=0, add=lambda row: 0)  # type: ignore[misc, arg-type]
    ),
    "does not say what it returns": lambda s: s.aggregate(
        c=A.aggregate(init=0, add=lambda held, row: held, result=lambda held: held)
    ),
}  # fmt: skip


def test_refused() -> None:
    """What cannot be meant is refused when the flow is built, by the name of the result."""
    for words, build in REFUSED.items():
        stream = tw.Flow("refused").source("rows", Row, order_by="ts").key_by("key")
        with pytest.raises(tw.ThalwegError, match=f"(?s){words}"):
            build(stream)


def put(held: list[str], row: Row) -> list[str]:
    held.append(row.name)
    return held


def joined(earlier: list[str], later: list[str]) -> list[str]:
    return earlier + later


def tally(held: dict[str, int], row: Row) -> dict[str, int]:
    held[row.name] = held.get(row.name, 0) + 1
    return held


def most_often(held: dict[str, int]) -> str:
    return max(sorted(held), key=lambda name: held[name])


def longest(held: str, row: Row) -> str:
    return row.name if len(row.name) > len(held) else held


def test_accumulators_that_change_in_place() -> None:
    """Lists, dicts and texts as accumulators: in all engines, over restarts, in rolling windows with both stacks."""
    names = tw.aggregate(init=list, add=put, merge=joined)
    often = tw.aggregate(init=dict, add=tally, result=most_often, where="ok")
    text = tw.aggregate(init="", add=longest, merge=lambda held, later: max(held, later, key=len))
    flow = tw.Flow("own")
    rows = flow.source("rows", Row, order_by="ts").key_by("key")
    rows.rolling(rows=4, name="rolled", r_names=names, r_text=text).sink("rolled")
    rows.window(10, name="windows", names=names, text=text).sink("windows")
    given = rows_of(5, 80)
    tw.testing.assert_same(flow, {"rows": given}, seeds=[1], compile=("never",))
    before: dict[str, list[str]] = collections.defaultdict(list)
    for row, one in zip(given, tw.run(flow, {"rows": given}).rows("rolled"), strict=True):
        before[row.key].append(row.name)
        assert one.r_names == before[row.key][-4:]
        assert one.r_text == max(before[row.key][-4:], key=len)
    found = run(lambda s: s.window(10, often=often), given, "auto")
    for window in found:
        its = collections.Counter(
            r.name for r in given if r.ok and window.start <= r.ts < window.end
        )
        assert its[window.often] == max(its.values())


class Valued(NamedTuple):
    key: int
    value: int


def test_a_sum_beyond_64_bits_names_the_aggregate() -> None:
    """The message has the name that the sum was given, not that of a field of the library's state."""
    flow = tw.Flow("beyond", compile="never")
    by_key = flow.source("in", Valued, order_by="key").key_by("key")
    by_key.aggregate(total=tw.agg.sum("value")).sink("out")
    with pytest.raises(tw.OperatorError, match=r"the aggregate 'total': expected int, .* 64 bits"):
        tw.run(flow, {"in": [Valued(1, 2**62)] * 2})
