"""A function that changes what it captured changes a copy: that is told once, and nothing else is."""

from __future__ import annotations

import collections
import itertools
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.page import kit

import thalweg as tw


class Row(NamedTuple):
    x: int


class Box:
    n = 0
    items: list[int]


seen: list[int] = []
counts: dict[int, int] = {}
queue: collections.deque[int] = collections.deque()
box = Box()
total = 0
TABLE = {1: "one"}


def appends(row: Row) -> Row:
    seen.append(row.x)
    return row


def counts_them(row: Row) -> Row:
    counts[row.x] = counts.get(row.x, 0) + 1
    return row


def adds_up(row: Row) -> Row:
    global total
    total += row.x
    return row


def sets_an_attribute(row: Row) -> Row:
    box.n += 1
    return row


def deep(row: Row) -> Row:
    box.items[0] = row.x
    del counts[3]
    return row


def calls_another(row: Row) -> Row:
    return helper(row)


def helper(row: Row) -> Row:
    queue.appendleft(row.x)
    return row


def closed_over() -> Callable[[Row], Row]:
    n, mine = 0, {0}

    def process(row: Row) -> Row:
        nonlocal n
        n += 1
        mine.add(row.x)
        return row

    return process


def reads_and_keeps_its_own(row: Row) -> Row:
    seen = [row.x]  # a local of that name
    seen.append(len(counts))
    name = TABLE.get(row.x, "").strip().replace("o", "0")
    kit.BEGAN.is_set()
    Box.n = 7  # a class is shared
    own = {value: name for value in seen}
    own.update({2: "b"})
    return row


def told(function: Callable[[Row], Row], caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    flow = tw.Flow("f")
    flow.source("rows", Row).map(function, name="op", into=Row).sink("out")
    with caplog.at_level(logging.WARNING, "thalweg"):
        tw.run(flow, {"rows": [Row(1)]})
        flow.explain()
    return [one.getMessage() for one in caplog.records]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (appends, "'seen'"),
        (counts_them, "'counts'"),
        (adds_up, "'total'"),
        (sets_an_attribute, "'box'"),
        (calls_another, "'queue'"),
        (closed_over(), "'n', 'mine'"),
        (lambda row: (seen.extend([row.x]), row)[1], "'seen'"),
    ],
)
def test_changes_of_copies_are_told_once(
    function: Callable[[Row], Row], names: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Operator, function, file, line and name, and what to do; of a run and an explain together once."""
    (said,) = told(function, caplog)
    assert said.startswith("operator op: ") and "test_changed_copies.py:" in said
    assert f" changes {names}, which it captured (line " in said and "tw.each(rows.append)" in said
    assert told(function, caplog) == []
    assert (seen, counts, total, box.n, list(queue)) == ([], {}, 0, Box.n, [])


def test_what_is_no_change_of_a_copy_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """Locals of the same name, reading, modules and classes, and a sink's own list."""
    assert told(reads_and_keeps_its_own, caplog) == []
    flow, rows = tw.Flow("f"), list[Any]()
    flow.source("rows", Row).sink("out")
    tw.run(flow, {"rows": [Row(1)]}, {"out": tw.each(rows.append)})
    assert rows == [Row(1)] and caplog.records == []


def test_deep_changes_are_found() -> None:
    """By what the expression begins with, whatever stands between; deleting is a change, too."""
    from thalweg.compiler.changed_copies import changed_copies
    from thalweg.compiler.code.source import describe

    lines = [one.line for one in changed_copies(deep, describe(deep))]  # type: ignore[arg-type]
    assert [name for name, _ in changed_copies(deep, describe(deep))] == ["box", "counts"]  # type: ignore[arg-type]
    assert all(b - a == 1 for a, b in itertools.pairwise(lines))
