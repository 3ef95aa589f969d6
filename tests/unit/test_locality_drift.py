"""Looks at what was counted: in their turn, or where the batches' own numbers say that something may have changed."""

from __future__ import annotations

from typing import Any

from thalweg.locality import History, Online
from thalweg.spark.keys.drift import DriftSigns


def batches(online: Online, said: list[dict[str, Any]], promised: float | None = 0.9) -> list[int]:
    """Batches of 100 rows without a new table; those that a look is taken in front of."""
    signs, found = DriftSigns(online), []
    for batch, one in enumerate(said):
        if signs.is_due(batch, 100 * batch, History(batches=batch, promised=promised)):
            found.append(batch)
        signs.batch_done(100, one)
    return found


CALM = {"stay": 0.9, "imbalance": {"a": 1.1, "b": 1.2}}


def test_calm_batches_are_looked_at_in_turn_only() -> None:
    """None before the turn; then every fifth, until there is a table; more often where turns are."""
    assert batches(Online(), [CALM] * 31) == [20, 25, 30]
    assert batches(Online(every="7 batches"), [CALM] * 16) == [10, 15]
    assert batches(Online(every=2), [CALM] * 7) == [2, 4, 6]
    assert batches(Online(every="250 rows"), [CALM] * 9) == [3, 6]
    assert batches(Online(every=None), [CALM] * 30) == []


def test_what_drifts_is_looked_at_soon() -> None:
    """Locality below what was promised, or one imbalanced batch: the next fifth batch; and then it begins anew."""
    fell = [CALM] * 4 + [{**CALM, "stay": 0.6}] * 3 + [{**CALM, "stay": 0.9}] * 9
    assert batches(Online(every=None), fell) == [10]
    assert batches(Online(every=None, drop=None), fell) == []
    assert batches(Online(every=None), fell, promised=None) == []
    rose = [CALM, {"stay": 0.9, "imbalance": {"a": 1.1, "b": 1.6}}, *[CALM] * 14]
    assert batches(Online(every=None), rose) == [5]
    assert batches(Online(every=None, imbalance=None), rose) == []
    assert batches(Online(every=None), [{}] * 12) == []


def test_a_new_table_begins_anew() -> None:
    """What was seen under the table before says nothing of the next one; rows count from there."""
    signs = DriftSigns(Online(every="300 rows"))
    signs.batch_done(100, {"stay": 0.1, "imbalance": {"a": 3.0}})
    assert signs.is_due(1, 300, History())
    signs.batch_done(100, {"stay": 0.1, "imbalance": {"a": 3.0}})
    signs.new_table()
    assert not signs.is_due(5, 200, History(promised=0.9))
    assert signs.is_due(6, 300, History(promised=0.9))
