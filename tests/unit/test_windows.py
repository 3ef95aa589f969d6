"""The library's operators, where their names meet the user's."""

from __future__ import annotations

import itertools
import math
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
