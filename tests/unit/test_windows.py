"""The library's operators, where their names meet the user's."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, Literal, NamedTuple

import pytest

import thalweg as tw


class Row(NamedTuple):
    ts: int
    key: str


def test_results_may_be_called_as_a_session_calls_its_own() -> None:
    """An aggregate called first, last or open computes what it says, beside the session's own bounds."""
    flow = tw.Flow("names", compile="never")
    rows = flow.source("rows", Row, order_by="ts").key_by("key")
    rows.sessions(
        5, first=tw.agg.max("ts"), last=tw.agg.min("ts"), open=tw.agg.count(), timer=tw.agg.count()
    ).sink("out")
    result = tw.run(flow, {"rows": [Row(1, "a"), Row(3, "a")]})
    assert result.sinks["out"].to_pylist() == [
        {"key": "a", "start": 1, "end": 3, "first": 3, "last": 1, "open": 2, "timer": 2}
    ]


class Reading(NamedTuple):
    ts: int
    value: float
    maybe: float | None


@pytest.mark.parametrize("compiled", ["auto", "never"])
def test_nan_is_greater_than_every_number(compiled: Literal["auto", "never"]) -> None:
    """As in Spark SQL, whatever the order of the rows: max is NaN if there is one, min if there is nothing else."""
    flow = tw.Flow("nan", compile=compiled)
    extremes: dict[str, Any] = {
        "least": tw.agg.min("value"),
        "most": tw.agg.max("value"),
        "maybe_least": tw.agg.min("maybe"),
        "maybe_most": tw.agg.max("maybe"),
    }
    rows = flow.source("rows", Reading, order_by="ts")
    rows.window(10, name="extremes", **extremes).sink("extremes")
    rows.window(10, best=tw.agg.top_k(2, by="value"), name="best").sink("best")
    if compiled == "auto":
        said = str(flow.explain()).partition("  extremes  keyed")[2]
        assert said.splitlines()[2].strip() == "compiled"
    nan, inf = math.nan, math.inf
    sets = [[1.0, nan, 2.0], [nan, nan, inf], [nan], [-inf, nan, 0.0, 5.0]]
    orders = [list(one) for values in sets for one in itertools.permutations(values)]
    given = [
        Reading(10 * window, value, None if value == 0.0 else value)
        for window, values in enumerate(orders)
        for value in values
    ]
    result = tw.run(flow, {"rows": given})
    serial = tw.testing.reference(flow, {"rows": given})
    for sink in ("extremes", "best"):
        assert repr(result.rows(sink)) == repr(serial.rows(sink))

    def least(values: list[float]) -> float:
        return min((one for one in values if one == one), default=nan)

    for values, row, best in zip(orders, result.rows("extremes"), result.rows("best"), strict=True):
        some = [one for one in values if one != 0.0]
        expected = [least(values), nan, least(some), nan]
        assert repr(list(row[2:])) == repr(expected)
        top = sorted(values, key=lambda one: (one != one, one), reverse=True)[:2]
        assert repr([one.value for one in best.best]) == repr(top)


class Sale(NamedTuple):
    ts: int
    shop: str
    n: int | None
    x: float | None
    ok: bool | None
    name: str | None


@pytest.mark.parametrize("grouping", ["fields", "partial"])
@pytest.mark.parametrize("compiled", ["auto", "never"])
def test_aggregates_of_nulls_only_are_null(
    compiled: Literal["auto", "never"], grouping: Literal["fields", "partial"]
) -> None:
    """As in Spark SQL: count counts rows, all else leaves nulls out and is null without a value; top_k gives []."""
    flow = tw.Flow("nulls", compile=compiled)
    rows = flow.source("rows", Sale, order_by="ts").key_by("shop", grouping=grouping)
    aggregates: dict[str, Any] = {
        "rows": tw.agg.count(),
        "n": tw.agg.sum("n"),
        "ok": tw.agg.sum("ok"),
        "low": tw.agg.min("n"),
        "high": tw.agg.max("x"),
        "last": tw.agg.max("name"),
    }
    if grouping == "fields":
        aggregates |= {
            "x": tw.agg.sum("x"),
            "mean": tw.agg.mean("n"),
            "mean_x": tw.agg.mean("x"),
            "best": tw.agg.top_k(2, "x"),
        }
    rows.window(10, **aggregates, name="all").sink("out")
    numbers = {name: one for name, one in aggregates.items() if name not in ("last", "best")}
    if grouping == "fields":
        rows.sessions(5, **numbers, name="numbers").sink("sessions")
        said = re.search(r"  numbers +keyed.*\n.*\n +(\w+)", flow.explain())
        assert said is not None
        assert said[1] == ("compiled" if compiled == "auto" else "interpreted")
    nulls = [Sale(i, "null", None, None, None, None) for i in range(3)]
    zeros = [nulls[0]._replace(shop="zero"), Sale(1, "zero", 0, -0.0, False, "")]
    given = {"rows": sorted([*nulls, *zeros], key=lambda row: row.ts)}
    result, serial = tw.run(flow, given), tw.testing.reference(flow, given)
    of_nulls = {"rows": 3, **dict.fromkeys(aggregates, None)} | {"rows": 3}
    of_zeros = dict.fromkeys(aggregates, 0) | {"rows": 2, "last": ""}
    if grouping == "fields":
        of_nulls["best"], of_zeros["best"] = [], [zeros[1]]
    for found in (result, serial):
        out = {row.shop: row for row in found.rows("out")}
        assert {name: getattr(out["null"], name) for name in aggregates} == of_nulls
        assert {name: getattr(out["zero"], name) for name in aggregates} == of_zeros
    for sink in result.sinks:
        assert repr(result.rows(sink)) == repr(serial.rows(sink))


class Order(NamedTuple):
    ts: tw.Timestamp
    id: int
    made: tw.Timestamp
    amount: float


class Paid(NamedTuple):
    id: int
    ts: tw.Timestamp
    cents: int


def paid(o: Order) -> Paid:
    return Paid(o.id, o.ts, int(o.amount * 100))


@pytest.mark.parametrize(
    ("sorted_by", "within"),
    [
        ("none", None),
        *itertools.product(["source", "order_by", "map", "union"], [None, "10 seconds"]),
    ],
)
def test_the_event_time_is_no_content(sorted_by: str, within: str | None) -> None:
    """A row that comes again later is a duplicate; with another amount, or another time of its own, a conflict."""
    second = tw.seconds(1)
    rows = [
        Order(0, 1, 5, 2.5),
        Order(1 * second, 1, 5, 2.5),
        Order(2 * second, 1, 5, 3.0),
        Order(3 * second, 1, 6, 2.5),
        Order(4 * second, 2, 5, 2.5),
    ]
    flow = tw.Flow("again")
    stream = flow.source(
        "rows", Order, order_by=None if sorted_by in ("none", "order_by") else "ts"
    )
    if sorted_by == "order_by":
        stream = stream.order_by("ts")
    elif sorted_by == "map":
        stream = stream.map(paid)
    elif sorted_by == "union":
        stream = stream.filter(lambda o: o.id == 1).union(stream.filter(lambda o: o.id != 1))
    kept = stream.dedupe("id", within=within)
    kept.sink("kept")
    kept.conflicts.sink("conflicts")
    conflicts = {"map": [2 * second], "none": [1 * second, 2 * second, 3 * second]}
    for found in (tw.run(flow, {"rows": rows}), tw.testing.reference(flow, {"rows": rows})):
        assert [one.ts for one in found.rows("kept")] == [0, 4 * second]
        wanted = conflicts.get(sorted_by, [2 * second, 3 * second])
        assert [one.ts for one in found.rows("conflicts")] == wanted


def test_a_key_is_forgotten_after_its_time() -> None:
    """A row at the end of ``within`` is a duplicate still; the next moment's is new, and begins its own time."""
    flow = tw.Flow("forgotten", compile="never")
    rows = flow.source("rows", Row, order_by="ts").key_by("key")
    rows.dedupe(within=5).sink("out")
    given = [Row(ts, "a") for ts in (0, 4, 5, 6, 10, 11, 12)] + [Row(17, "b"), Row(17, "a")]
    for found in (tw.run(flow, {"rows": given}), tw.testing.reference(flow, {"rows": given})):
        assert [one.ts for one in found.rows("out")] == [0, 6, 12, 17]
