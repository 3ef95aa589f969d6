"""What the compiler cannot do is interpreted, and explain() says why: long chains, deep calls, large functions."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.compiler.code import modules
from thalweg.flow.operators.generated import make_functions


class Row(NamedTuple):
    ts: tw.Timestamp
    n: int
    kind: tw.Category = "a"


def add_one(r: Row) -> Row:
    return Row(r.ts, r.n + 1, r.kind)


def small(r: Row) -> bool:
    return r.n % 97 != 5


def twins(r: Row) -> Iterator[Row]:
    yield r
    if r.n % 401 == 0:
        yield Row(r.ts, -r.n, r.kind)


ROWS = [Row(tw.seconds(i), 13 * i) for i in range(20)]


def chain(flow: tw.Flow, length: int, **options: Any) -> tw.Stream:
    """``length`` operators in a row, of all three kinds."""
    stream = flow.source("in", Row, order_by="ts")
    for i in range(length):
        if i % 3 == 0:
            stream = stream.map(add_one, name=f"o{i}", **options)
        elif i % 3 == 1:
            stream = stream.filter(small, name=f"o{i}", **options)
        else:
            stream = stream.flat_map(twins, name=f"o{i}", **options)
    return stream


def in_python(length: int) -> list[Row]:
    rows = list(ROWS)
    for i in range(length):
        step = i % 3
        if step == 0:
            rows = [add_one(one) for one in rows]
        elif step == 1:
            rows = [one for one in rows if small(one)]
        else:
            rows = [made for one in rows for made in twins(one)]
    return rows


@pytest.mark.parametrize(
    "length",
    [
        13,
        pytest.param(100, marks=pytest.mark.merge),
        pytest.param(1_000, marks=pytest.mark.slow),
    ],
)
def test_chains_of_any_length_run(length: int) -> None:
    """With the defaults of tw.run, compiled throughout; explain() shows every operator."""
    flow = tw.Flow("long")
    chain(flow, length).sink("out")
    said = flow.explain()
    result = tw.run(flow, {"in": ROWS})
    assert result.rows("out") == in_python(length)
    assert "interpreted" not in said
    assert said.count(" compiled\n") == length
    last = f"o{length - 1}"
    assert result.counts[last]["out"] == len(result.rows("out"))


def test_errors_and_rejected_rows_in_a_long_chain() -> None:
    """The operator that failed is named wherever the chain was cut; what it rejects leaves by its own stream."""

    def picky(r: Row) -> Row:
        return Row(r.ts, 100 // (r.n - 50), r.kind)

    def flow(errors: Any) -> tw.Flow:
        made = tw.Flow("long", errors=errors)
        stream = chain(made, 20).map(picky, name="picky")
        if errors == "reject":
            stream.rejected.sink("bad")
        for i in range(20):
            stream = stream.map(add_one, name=f"p{i}")
        stream.sink("out")
        return made

    before = in_python(20)
    bad = [one for one in before if one.n == 50]
    rows = {"in": [*ROWS, Row(tw.hours(1), 43), Row(tw.hours(2), 20)]}
    with pytest.raises(tw.OperatorError, match="operator 'picky' failed: ZeroDivisionError"):
        tw.run(flow("fail"), rows)
    result = tw.run(flow("reject"), rows)
    assert [one.operator for one in result.rows("bad")] == ["picky"] * (1 + len(bad))
    assert (
        result.counts["p19"]["out"] == result.counts["picky"]["out"] == len(before) + 1 - len(bad)
    )


def nested(depth: int) -> Callable[[Row], Row]:
    """A function that calls another, ``depth`` deep."""
    lines = ["def f0(n):", "    return n + 1"]
    for i in range(1, depth):
        lines += [f"def f{i}(n):", f"    return f{i - 1}(n)"]
    lines += ["def deep(r):", f"    return Row(r.ts, f{depth - 1}(r.n), r.kind)"]
    return make_functions("deep", "\n".join(lines) + "\n", {"Row": Row})["deep"]


def long_sum(terms: int) -> Callable[[Row], Row]:
    text = f"def long_sum(r):\n    return Row(r.ts, {' + '.join(['r.n'] * terms)}, r.kind)\n"
    return make_functions("sum", text, {"Row": Row})["long_sum"]


def many_lines(count: int) -> Callable[[Row], Row]:
    lines = "".join(f"    n = n * 3 + r.n % {i + 2}\n    n = n % 1000\n" for i in range(count))
    text = f"def many_lines(r):\n    n = 0\n{lines}    return Row(r.ts, n, r.kind)\n"
    return make_functions("many", text, {"Row": Row})["many_lines"]


def bad_text(r: Row) -> Row:
    return Row(r.ts, 1 if r.kind == "\ud800" else 2, r.kind)


BAD = "half \udfff"
BADS = frozenset({"a", BAD})


def bad_names(r: Row, text: str = "\udcff") -> Row:
    return Row(r.ts, (r.kind in BADS) + (r.kind != text) + (r.kind == BAD), r.kind)


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (nested(40), "deep, at most"),
        (long_sum(250), "nests too deeply"),
        (long_sum(400), "nests too deeply"),
        (many_lines(1_500), "is too large"),
        (bad_text, "half of a surrogate pair"),
        (bad_names, "half of a surrogate pair"),
    ],
)
def test_what_is_beyond_the_compiler_is_interpreted(function: Any, part: str) -> None:
    """explain() says why, before any run; the result is Python's, and compile="require" is refused."""

    def flow(compiled: Any) -> tw.Flow:
        made = tw.Flow("limits")
        rows = made.source("in", Row, order_by="ts").map(add_one)
        rows.map(function, into=Row, name="odd", compile=compiled).sink("out")
        return made

    said = " ".join(flow(True).explain().split())
    assert part in said.partition("odd stateless")[2].partition("interpreted:")[2]
    result = tw.run(flow(True), {"in": ROWS}, threads=1)
    assert result.rows("out") == [function(add_one(one)) for one in ROWS]
    with pytest.raises(tw.CompileRefused, match=part):
        tw.run(flow("require"), {"in": ROWS}, threads=1)


@tw.state
class Count:
    n: int = 0


def count(state: Count, r: Row) -> Row:
    state.n += r.n
    return Row(r.ts, state.n, r.kind)


def failing_at(word: str, error: BaseException) -> Callable[..., Any]:
    compile_ = modules._compile

    def made(names: str, name: str, text: str) -> Any:
        if word in text:
            raise error
        return compile_(names, name, text)

    return made


@pytest.mark.parametrize("error", [MemoryError(), KeyError("of Numba"), RecursionError("too deep")])
def test_what_the_compiler_fails_at_is_interpreted(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Alone: its neighbours stay compiled. A warning says so at once, explain() from then on; "require" fails."""

    def odd(r: Row) -> Row:
        return Row(r.ts, r.n + 77_077, r.kind)

    def flow(compiled: Any) -> tw.Flow:
        made = tw.Flow("fails")
        rows = made.source("in", Row, order_by="ts").map(add_one, name="one")
        rows = rows.map(odd, name="odd", compile=compiled).filter(small, name="small")
        rows.key_by("kind").process(count, state=Count, name="count").sink("out")
        return made

    monkeypatch.setattr(modules, "_compile", failing_at("77077", error))
    monkeypatch.setattr(modules, "_refused", {})
    monkeypatch.setattr(modules, "_loaded", {})
    with caplog.at_level(logging.WARNING, "thalweg"):
        result = tw.run(flow(True), {"in": ROWS}, threads=1)
    assert [one.n for one in result.rows("out")][:2] == [77_078, 2 * 77_078 + 13]
    (warning,) = [one.getMessage() for one in caplog.records if "interpreted" in one.getMessage()]
    assert f"operator 'odd' is interpreted: Numba fails at it: {type(error).__name__}" in warning
    said = flow(True).explain()
    assert said.count(" compiled\n") == 3
    assert "Numba fails" in said
    with pytest.raises(tw.CompileRefused, match="Numba fails at it"):
        tw.run(flow("require"), {"in": ROWS}, threads=1)


def test_a_keyed_function_that_the_compiler_fails_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is interpreted, and explain() says so."""
    flow = tw.Flow("fails")
    rows = flow.source("in", Row, order_by="ts").key_by("kind")
    rows.process(count, state=Count, name="count").sink("out")
    monkeypatch.setattr(modules, "_compile", failing_at("f_n", ValueError("no")))
    monkeypatch.setattr(modules, "_refused", {})
    monkeypatch.setattr(modules, "_loaded", {})
    result = tw.run(flow, {"in": ROWS}, threads=1)
    assert [one.n for one in result.rows("out")] == [13 * i * (i + 1) // 2 for i in range(20)]
    assert "ValueError: no" in flow.explain()


def test_a_caller_deep_in_calls_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba begins on a stack of its own where the caller's has too little room."""
    flow = tw.Flow("deep")
    stream = flow.source("in", Row, order_by="ts")
    for i in range(12):
        stream = stream.map(lambda r: Row(r.ts, r.n + 31_337, r.kind), into=Row, name=f"o{i}")
    stream.sink("out")
    assert "interpreted" not in flow.explain()

    def down(levels: int) -> Any:
        return down(levels - 1) if levels else tw.run(flow, {"in": ROWS}, threads=1)

    room = sys.getrecursionlimit()
    result = down(room - 400)
    assert [one.n for one in result.rows("out")] == [one.n + 12 * 31_337 for one in ROWS]
    assert "interpreted" not in flow.explain()
