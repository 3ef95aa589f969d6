"""Operators of random flows with aggregates of all kinds, over windows, sessions, so many rows, or all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.property.events import Event

import thalweg as tw

A = tw.agg


def is_big(row: Event) -> bool:
    return row.amount > 3 and row.name != "b"


class Range(NamedTuple):
    low: float
    high: float


def widen(held: Range, row: Event) -> Range:
    return Range(min(held.low, row.amount), max(held.high, row.amount))


def both(held: Range, later: Range) -> Range:
    return Range(min(held.low, later.low), max(held.high, later.high))


def width(held: Range) -> float:
    return held.high - held.low


def add_odd(held: int, row: Event) -> int:
    return held + row.amount % 2


def drop_odd(held: int, row: Event) -> int:
    return held - row.amount % 2


WIDTH = A.aggregate(init=Range(math.inf, -math.inf), add=widen, merge=both, result=width)
#: Aggregates of numbers, which are compiled wherever they stand.
PLAIN = {
    "n_": A.count(where=is_big),
    "total_": A.sum("amount", where=is_big),
    "some": A.sum("maybe"),
    "mean_": A.mean("maybe"),
    "spread": A.variance("amount"),
    "far": A.stddev("value", population=True),
    "first_": A.first("maybe"),
    "last_": A.last("amount", where=is_big),
    "least": A.min("value"),
    "at_least": A.min_by("value", "amount"),
    "at_most": A.max_by("maybe", "value"),
}
#: Aggregates whose states are texts, lists, dicts and rows.
MANY = {
    "own": WIDTH,
    "odd": A.aggregate(init=0, add=add_odd, retract=drop_odd),
    "names": A.count_distinct("name"),
    "values": A.count_distinct("value"),
    "amounts": A.count_distinct("amount", where=is_big),
    "last_names": A.collect("name", last=2),
    "rows_": A.collect(last=3, where=is_big),
    "first_row": A.first(),
    "best": A.max_by("value"),
    "longest": A.max("name"),
}
TOP = {"top": A.top_k(2, "value", ties=True), **PLAIN}


def as_event(row: Any) -> Event:
    """Everything that an operator gives, in the text of an event."""
    values = row._asdict()
    time = values.get("ts", values.get("start", 0))
    text = repr(tuple(values.values()))
    return Event(time, len(text) % 3, text[-60:], "red", 0.5, None, len(text) % 12, 0)


def gap_of(row: Event) -> int:
    return row.amount % 5


def _window(keyed: Any, param: int, name: str) -> Any:
    early: tuple[dict[str, Any], ...] = ({}, {"early": 2}, {"early_rows": 2}, {"early_rows": 1})
    every = 3 if param % 2 else None
    return keyed.window(
        6, every=every, name=name, **early[param % 4], **(TOP if param % 3 else MANY)
    )


def _sessions(keyed: Any, param: int, name: str) -> Any:
    if param % 4 == 3:
        return keyed.sessions(param % 3, name=name)
    return keyed.sessions(gap_of, name=name, **(PLAIN if param % 2 else MANY))


def _rolling(keyed: Any, param: int, name: str) -> Any:
    reach = ({"rows": 1 + param}, {"within": param}, {})[param % 3]
    return keyed.rolling(name=name, **reach, **(MANY if param % 4 == 1 else PLAIN))


def _rolling_rows(keyed: Any, param: int, name: str) -> Any:
    reach = {"rows": 1 + param} if param % 3 else {}
    return keyed.rolling(name=name, **reach, **(MANY if param % 4 == 1 else PLAIN))


def _count_window(keyed: Any, param: int, name: str) -> Any:
    return keyed.count_window(1 + param % 4, name=name, **(MANY if param % 2 else TOP))


def _aggregate(keyed: Any, param: int, name: str) -> Any:
    return keyed.aggregate(name=name, **(MANY if param % 2 else TOP))


Make = Callable[[Sequence[tw.Stream], Any, str], tw.Stream]


def operators(keyed_stream: Callable[[tw.Stream, Any], Any]) -> dict[str, tuple[Make, bool]]:
    """How each is made, and whether it needs event time."""

    def made(verb: Callable[[Any, int, str], Any]) -> Make:
        def make(on: Sequence[tw.Stream], step: Any, name: str) -> tw.Stream:
            given = on[0] if step.param % 5 == 4 else keyed_stream(on[0], step)
            out: tw.Stream = verb(given, step.param, name).map(as_event, name=f"{name}_out")
            return out

        return make

    return {
        "aggregates_window": (made(_window), True),
        "aggregates_sessions": (made(_sessions), True),
        "rolling": (made(_rolling), True),
        "rolling_rows": (made(_rolling_rows), False),
        "count_window": (made(_count_window), False),
        "aggregate": (made(_aggregate), True),
    }
