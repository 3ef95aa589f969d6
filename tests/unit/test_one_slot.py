"""Which sinks need a last merge: those whose rows come from several slots."""

from __future__ import annotations

from typing import NamedTuple

import thalweg as tw
from thalweg.flow.operators.nodes import Sink
from thalweg.plan.plan import make_plan
from thalweg.slots.routes import leaves_one_slot


class Row(NamedTuple):
    ts: tw.Timestamp
    key: int


@tw.state
class Seen:
    count: int = 0


def count(seen: Seen, row: Row) -> Row:
    seen.count += 1
    return Row(row.ts, seen.count)


def twice(row: Row) -> Row:
    return Row(row.ts, row.key * 2)


def test_sinks_behind_one_slot() -> None:
    """What is read, and what has one state, leaves one slot, as does all behind it; what goes by key does not."""
    flow = tw.Flow("f")
    rows = flow.source("rows", Row, order_by="ts")
    rows.map(twice).sink("read")
    keyed = rows.key_by("key").process(count, state=Seen)
    keyed.sink("by_key")
    keyed.map(twice, name="again").sink("behind_key")
    total = keyed.process(count, state=Seen, name="total")
    total.map(twice, name="more").sink("total")
    rows.union(total).sink("met")
    plan = make_plan(flow)
    found = {
        one.name: leaves_one_slot(plan, one.index) for one in plan.nodes if isinstance(one, Sink)
    }
    assert found == {
        "read": True, "by_key": False, "behind_key": False, "total": True, "met": False,
    }  # fmt: skip
