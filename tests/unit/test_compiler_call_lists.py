"""Lists that a call makes for itself, where its state has none; records that a flat_map returns in a list."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import thalweg as tw
from thalweg.columns.keys import KeySpec
from thalweg.compiler.code.source import describe
from thalweg.compiler.keyed.code import write_keyed
from thalweg.compiler.keyed.shape import KeyedSpec
from thalweg.flow.records import Schema
from thalweg.flow.state_class import state_spec
from thalweg.testing.reference import run_reference


class Row(NamedTuple):
    key: int
    x: float
    text: str


class Out(NamedTuple):
    key: int
    x: float
    text: str


@tw.state
class Count:
    n: int = 0


@tw.state
class Filled:
    # Mutable defaults: tw.state copies them for each key.
    xs: list[int] = [3, 1]
    tail: collections.deque[float] = collections.deque([0.5, 1.5], maxlen=3)
    by: dict[int, int] = {7: 1}
    name: str = "né"


def appended(row: Row) -> list[Out]:
    out = []
    for part in row.text.split(","):
        if part:
            out.append(Out(row.key, row.x, part))
    out.append(Out(len(out), row.x, row.text))
    return out if row.key % 3 else []


def made(row: Row) -> Iterator[Out]:
    return (
        Out(n, sum(k * 0.5 for k in range(1, n + 1)), row.text) for n in range(1, row.key) if n % 2
    )


def nothing(row: Row) -> list[Out] | None:
    return None if row.key > 2 else [*[Out(row.key, row.x, "a")], *[Out(0, 0.0, "b")]]


def counted(row: Row) -> Out:
    seen = {}
    for letter in row.text:
        seen[ord(letter)] = seen.get(ord(letter), 0) + 1
    sizes = [len(part) for part in row.text.split(",")]
    most = max(seen.values(), default=0)
    return Out(most + sizes[row.key], row.x, sorted(row.text.split(","))[-1])


def kept(row: Row) -> bool:
    return sum(letter == "a" for letter in row.text) < 3


def middle(state: Count, row: Row) -> Out:
    three = sorted([row.key * 7 % 5, state.n, 3])
    state.n = three[1] + 1
    return Out(sum(one * one for one in three), max([float(one) for one in three]), row.text)


def filled(state: Filled, row: Row) -> Out:
    state.xs.append(row.key)
    state.tail.append(row.x)
    state.by[row.key] = state.by.get(7, 5)
    state.name += row.text[:1]
    if row.key == 4:
        tw.drop(state)
    if row.x > 5.0:
        raise ValueError("no")
    del state.by[7]
    state.by[7] = len(state.xs)
    return Out(sum(state.xs) + sum(state.by.values()), sum(state.tail), state.name)


class Held(NamedTuple):
    text: str
    note: str | None
    number: int


class Lists(NamedTuple):
    texts: list[str]
    numbers: list[int] | None
    held: list[Held]


@tw.state
class Holding:
    texts: list[str] = []
    held: list[Held] = []


def listed(state: Holding, row: Row) -> Lists | None:
    state.texts.append(row.text)
    state.held.append(Held(row.text, None if row.x < 2.0 else "é", row.key))
    if len(state.held) > 3:
        state.held.pop(0)
    if row.key == 4:
        return Lists([], None, state.held)
    if row.x > 6.0:
        raise ValueError("no")
    # From 2 on machine code leaves it to Python.
    return Lists(state.texts[-2:], [row.key, (2**62 * row.key) // 4], state.held)


class Parts(NamedTuple):
    key: int
    parts: list[str]


def parts(row: Row) -> Parts:
    return Parts(row.key, [one + "." for one in row.text.split(",")])


def joined_parts(made: Parts) -> Out:
    return Out(made.key, 0.0, "fix")


def rows() -> list[Row]:
    texts = ("", "a,b", "aa,é,aaa", ",", "z,,y")
    return [Row(n % 6, n % 29 * 0.25, texts[n % 5]) for n in range(200)]


def flow_of(build: Callable[[Any], Any]) -> tw.Flow:
    flow = tw.Flow("lists")
    build(flow.source("rows", Row)).sink("out")
    assert "interpreted" not in flow.explain()
    return flow


def test_lists_of_a_call_give_what_python_gives() -> None:
    """All chunk sizes; some rows raise and are Python's; new keys start with copies of lists and texts."""
    for build in (
        lambda s: s.flat_map(appended),
        lambda s: s.flat_map(made),
        lambda s: s.flat_map(nothing),
        lambda s: s.map(counted, errors="reject"),
        lambda s: s.filter(kept),
        lambda s: s.key_by("key").process(middle, state=Count),
        lambda s: s.key_by("key").process(filled, state=Filled, errors="reject"),
    ):
        flow = flow_of(build)
        wanted = run_reference(flow, {"rows": rows()}).sinks["out"]
        assert wanted
        for size in (1, 7, 200):
            assert tw.testing.run(flow, {"rows": rows()}, chunk_rows=size).rows("out") == wanted


def test_lists_become_fields_of_outputs() -> None:
    """Those of the state and those that a call makes, of texts and records, None, also where Python makes the call."""
    for build in (
        lambda s: s.key_by("key").process(listed, state=Holding, errors="reject"),
        lambda s: s.map(parts),
        lambda s: s.map(parts).map(joined_parts),
    ):
        flow = flow_of(build)
        wanted = run_reference(flow, {"rows": rows()}).sinks["out"]
        assert wanted
        for size in (7, 200):
            assert tw.testing.run(flow, {"rows": rows()}, chunk_rows=size).rows("out") == wanted


def test_lists_and_dicts_of_a_call_that_are_refused() -> None:
    """What an empty list or dict holds must be said; the reason tells."""

    def unsaid(row: Row) -> Row | None:
        found = {}
        return row if found.get(row.key) else None

    flow = tw.Flow("lists")
    flow.source("rows", Row).map(unsaid).sink("out")
    assert "empty list or dict of which nothing says what it holds" in " ".join(
        flow.explain().split()
    )


def test_a_text_depends_on_the_defaults_of_record_classes() -> None:
    """Two classes of one name and fields, but other defaults, are two texts; the same again is the first one."""

    def spec_of(default: int) -> KeyedSpec:
        class One(NamedTuple):
            a: int
            b: int = default

        def made(state: Count, row: Row) -> One:
            return One(row.key)

        source, out = Schema.of(Row), Schema.of(One)
        key = KeySpec((source.field("key"),))
        return KeyedSpec("one", made, None, state_spec(Count), source, key, out, describe(made))

    first, second, again = map(spec_of, (11, 12, 11))
    assert "11" in write_keyed(first)
    assert "12" in write_keyed(second)
    assert write_keyed(again) is write_keyed(first)
