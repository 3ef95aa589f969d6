"""The library's operators, where their names meet the user's."""

from __future__ import annotations

from typing import NamedTuple

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
