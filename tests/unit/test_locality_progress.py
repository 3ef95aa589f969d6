"""What progress says of a batch's locality: sums over slots, what hashing would do, moves, and keys that are hot."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import thalweg as tw
from thalweg.locality import (
    Decision,
    KeyLoads,
    KeyMove,
    Moves,
    RoutingTable,
    Statistics,
    evaluate,
    keyed_operators,
)
from thalweg.locality.reconfiguration import RunBatch
from thalweg.plan.plan import Plan, make_plan
from thalweg.spark.cluster.exchanges import Exchange
from thalweg.spark.elastic import BatchChange
from thalweg.spark.keys.locality import Routed, TopKeys
from thalweg.spark.keys.locality_progress import locality_progress, table_changes


class Row(NamedTuple):
    a: int
    b: int


@tw.state
class Count:
    n: int = 0


def count(seen: Count, row: Row) -> Row:
    seen.n += 1
    return row


def plan() -> Plan:
    flow = tw.Flow("pairs")
    one = flow.source("rows", Row).key_by("a").process(count, state=Count, name="one")
    one.key_by("b").process(count, state=Count, name="two").sink("out")
    return make_plan(flow)


def report(slot: int, name: str, taken: int, **more: Any) -> dict[str, Any]:
    return {"slot": slot, "counts": {name: {"in": taken}}, "segments": [], **more}


REPORTS = [
    report(0, "one", 60, routed={"two": [50, 60]}, pairs=[20, 60]),
    report(1, "one", 40, routed={"two": [25, 40]}, pairs=[10, 40]),
    report(0, "two", 65),
    report(
        1, "two", 35, segments=[["two", "f", [[3, "delta", 0, 9, 90], [130, "moved", 1, 4, 64]]]]
    ),
]
NOTHING = Statistics(
    ("one", "two"), {name: KeyLoads(name, 0, (), (0,) * 128) for name in ("one", "two")}, ()
)
EXCHANGES = [Exchange(10, 20, ("0", "1")), Exchange(30, 5, ("0", "1"))]


def test_sums() -> None:
    """Shares over all slots, the fullest slot by the mean, bytes, and states that were handed over."""
    said = locality_progress(plan(), 2, Routed(3, 4), REPORTS, EXCHANGES, None)
    assert said["stay"] == 0.75 and said["stay_hashed"] == 0.3
    assert said["imbalance"] == {"one": 1.2, "two": 1.3}
    assert said["remote_bytes"] == [20, 5] and said["co_located"] == 1.0 and said["executors"] == 2
    assert said["epoch"] == 3 and said["states_moved"] == 4 and said["bytes_moved"] == 64
    assert said["top_keys"] == {} and said["notes"] == []


def test_a_new_table_is_a_change() -> None:
    """From which epoch to which, why, and how many keys get another slot; a batch without one has none."""
    before = evaluate(RoutingTable.hashed(keyed_operators(plan()), 2).assignment(), NOTHING)
    moved = KeyMove("one", 5, 0, 128, 0, 1)
    inside = KeyMove("one", 6, 0, 129, 0, 0)
    table = RoutingTable.hashed(keyed_operators(plan()), 2)
    run = RunBatch(7, table, Moves((moved, inside)), 4, Decision("in turn", "better", before))
    (change,) = table_changes(7, Routed(3, 4, run))
    assert change == BatchChange(7, "table", 3, 4, "better; 1 keys move")
    assert table_changes(7, Routed(3, 0, run)) == [] == table_changes(7, Routed())


def test_nothing_counted() -> None:
    """A batch without rows divides by nothing."""
    said = locality_progress(plan(), 3, Routed(), [report(0, "one", 0)], [], None)
    assert said["stay"] is None and said["imbalance"] == {"one": 1.0, "two": 1.0}


@pytest.mark.parametrize(("share", "noted"), [(0.79, True), (0.26, True), (0.25, False)])
def test_hot_key(share: float, noted: bool) -> None:
    """A key with more than a slot's fair share is shown with its load, and that it stays on one slot."""
    buckets = np.zeros(128, np.int64)
    buckets[[0, 127]] = 30, 10
    top = TopKeys({"one": [(7, share), (8, 0.01)], "two": []}, {"one": buckets})
    said = locality_progress(plan(), 4, Routed(), REPORTS[:1], [], top)
    assert said["top_keys"]["one"] == [(7, share), (8, 0.01)]
    assert said["imbalance_hashed"] == {"one": 3.0}
    assert len(said["notes"]) == noted
    if noted:
        assert f"key 7 of one has {share:.0%} of its tuples" in said["notes"][0]
        assert "one slot" in said["notes"][0]
