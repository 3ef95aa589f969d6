"""Key functions compiled: the key of each row, what is refused, and what a row without a key becomes."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg.compiler import describe
from thalweg.compiler.key_function import wrapped
from thalweg.engine.build import Builder, prepare
from thalweg.engine.interpreter.stateless import InterpretedKey
from thalweg.flow.operators.nodes import Keyed
from thalweg.plan.plan import make_plan
from thalweg.testing.reference import run_reference


class Row(NamedTuple):
    n: int
    name: str
    note: str | None
    kind: tw.Category
    v: float


class Seen(NamedTuple):
    n: int
    seen: int


@tw.state
class Count:
    seen: int = 0


def count(state: Count, row: Row) -> Seen:
    state.seen += 1
    return Seen(row.n, state.seen)


LIMIT = 3


def bucketed(row: Row) -> int:
    return (
        row.n  # a comment
        % 5
    )


def early(row: Row) -> int | None:
    if row.n % 2:
        return None
    if row.n > LIMIT:
        return -1
    for i in range(3):
        if i * i > row.n:
            return i
    return


def falls_off(row: Row) -> int | None:
    if row.v > 1.5:
        return row.n


def falls_off_at_once(row: Row) -> int | None:
    pass


def class_of(row: Row) -> tw.Category:
    return "größer" if row.n > LIMIT else row.kind


def name_of(row: Row) -> str:
    return row.name


def note_of(row: Row) -> str | None:
    return row.note


def written(row: Row) -> str:
    return f"{row.name.upper()}/{row.n % 3}" if row.note != "no" else row.name


def half(row: Row) -> float:
    return row.v / (row.n - 2)


def square(row: Row) -> int:
    return row.n * row.n * row.n // (row.n * row.n) if row.n else 0


def nested(row: Row) -> bool:
    try:
        return row.n > 2
    finally:
        pass


FUNCTIONS = {
    "compiled": [bucketed, early, falls_off, falls_off_at_once, class_of, name_of, note_of, written, half, square],
    "interpreted": [nested, lambda row: repr(row.n)],
}  # fmt: skip
NUMBERS = [*zip(range(40), [0.0, -0.0, float("nan"), 1.5, 2.5] * 8, strict=True)]
LARGE = [(2**62, 1.0), (-(2**40), 7.0), (2**62, 2.0)]
ROWS = [
    Row(n, f"name {n % 3}", None if n % 4 else "\N{GREEK SMALL LETTER ALPHA}\0", "ab"[n % 2], v)
    for n, v in [*NUMBERS, *LARGE]
]


def flow_of(function: Any, **options: Any) -> tw.Flow:
    flow = tw.Flow("keys")
    into = str if function.__name__ == "<lambda>" else None
    keyed = flow.source("rows", Row).key_by(function, into=into)
    made = keyed.process(count, state=Count, errors="reject", **options)
    made.sink("out")
    made.rejected.sink("rejected")
    return flow


SINKS = ("out", "rejected")


@pytest.mark.slow
def test_the_keys_are_those_of_python() -> None:
    """The output, and the rows on which the function raises, by one thread and by two, are the reference's."""
    for function in [one for many in FUNCTIONS.values() for one in many]:
        sinks = run_reference(flow_of(function), {"rows": ROWS}).sinks
        expected = repr([list(sinks[name]) for name in SINKS])
        for threads in (1, 2):
            for chunk_rows in (1, 7, 1000):
                made = tw.run(
                    flow_of(function), {"rows": ROWS}, threads=threads, chunk_rows=chunk_rows
                )
                assert repr([made.rows(name) for name in SINKS]) == expected, function


def test_what_is_compiled() -> None:
    """Functions that compile do; the others say why; compile='never' holds for the key, too."""
    for how, functions in FUNCTIONS.items():
        for function in functions:
            assert (_key(flow_of(function)) is None) == (how == "compiled")
            said = flow_of(function).explain()
            assert f"key by {function.__name__} (test_key_function.py" in said
            assert ("interpreted: " in said) == (how == "interpreted")
    assert _key(flow_of(bucketed, compile="never")) is not None


def _key(flow: tw.Flow) -> InterpretedKey | None:
    """What interprets the key; None where it is compiled."""
    prepared = prepare(make_plan(flow))
    (node,) = [one for one in prepared.plan.nodes if isinstance(one, Keyed)]
    made = Builder(prepared).key(node)
    return made if isinstance(made, InterpretedKey) else None


def generator(row: Row) -> Any:
    yield row.n


def test_a_source_in_tuples() -> None:
    """Each result is in a tuple of one, on its own line; a generator is refused."""
    source = wrapped(describe(bucketed))
    assert source.text.count("\n") == describe(bucketed).text.count("\n")
    namespace: dict[str, Any] = {"LIMIT": LIMIT, "Row": Row}
    exec(source.text.replace("-> int", ""), namespace)
    assert namespace["bucketed"](ROWS[7]) == (2,)
    pair = wrapped(describe(lambda row: (row.n, 1)))
    assert eval(pair.text)(ROWS[7]) == ((7, 1),)
    assert "yields" in wrapped(describe(generator)).reason


def test_what_a_deduplication_rejects() -> None:
    """Rows on which the function of the key raises are in its stream of rejected rows."""

    def one(row: Row) -> int:
        return row.n // row.n

    flow = tw.Flow("first", errors="reject")
    kept = flow.source("rows", Row).dedupe(one, name="once")
    kept.sink("out")
    kept.rejected.sink("rejected")
    rows = [Row(n, "", None, "a", 0.0) for n in (3, 0, 4)]
    reference, result = run_reference(flow, {"rows": rows}), tw.run(flow, {"rows": rows}, threads=1)
    for name in ("out", "rejected"):
        assert len(reference.sinks[name]) == len(result.rows(name)) == 1
