"""What of a table's locality is left when the number of slots changes, and when a new table is made for that."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import locality_kit as kit
import pytest

from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.locality import Decision, History, Online, RoutingTable, evaluate, partition
from thalweg.locality.key_hash import KeyTypes
from thalweg.locality.statistics import Statistics

TEXT: KeyTypes = (FieldType(Kind.STR),)


@functools.cache
def halves(*names: str) -> tuple[Statistics, Statistics]:
    """Statistics of the first and the second half of the bundled flights."""
    rows = kit.flights(*names)
    half = len(rows) // 2
    return kit.count(rows[:half], names), kit.count(rows[half:], names)


def learnt(statistics: Statistics, slots: int) -> RoutingTable:
    """A table made of statistics."""
    hashed = RoutingTable.hashed(dict.fromkeys(statistics.operators, (TEXT, kit.BUCKETS)), slots)
    made = partition(statistics, parts=slots, current=hashed.assignment())
    return hashed.assigned(made)


def followed(names: Sequence[str], before: int, after: int) -> tuple[float, float, float]:
    """The locality of later rows by pins that stay in their groups, by the table made of what is known, and by one that
    knows of no other number of slots."""
    known, later = halves(*names)
    table = learnt(known, before).rescaled(after)
    decision = Online()(known, table, History(batches=1, slots=before))
    assert decision.cause == "slots changed"
    assert decision.assignment is not None
    found = (table, table.assigned(decision.assignment), learnt(known, after))
    kept, made, fresh = (evaluate(one.assignment(), later).locality for one in found)
    return kept, made, fresh


@pytest.mark.parametrize("names", [("flight", "dest"), ("tailnum", "dest")])
@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (2, 6)])
def test_held_out_locality(names: Sequence[str], before: int, after: int) -> None:
    """Rows that nobody has counted stay in their slots as by a table that was learnt for that number."""
    kept, made, fresh = followed(names, before, after)
    assert made > fresh - 0.05
    assert made > kept + 0.05


def asked(history: History, slots: int, online: Online | None = None) -> Decision:
    """What is decided about a table that was learnt for three slots."""
    known, _ = halves("flight", "dest")
    table = learnt(known, 3)
    return (online or Online())(known, table if slots == 3 else table.rescaled(slots), history)


def test_once_for_each_number() -> None:
    """A table that was made for the number that holds is no cause, nor is a number before the first table."""
    assert asked(History(slots=3), 3).cause is None
    assert asked(History(slots=4), 4).cause is None
    assert asked(History(), 4).cause is None
    made = asked(History(slots=3), 4)
    assert History(slots=3).after(made, 4).slots == 4


def test_a_table_that_is_not_worth_it() -> None:
    """It is not made again at once, but is for yet another number."""
    dear = Online(move_cost=1_000.0, imbalance=None)
    history = History(batches=5, slots=3)
    decision = asked(history, 4, dear)
    assert (decision.cause, decision.assignment) == ("slots changed", None)
    history = history.after(decision, 4)
    assert (history.slots, history.refused) == (4, 5)
    assert asked(history, 4, dear).cause is None
    assert asked(history, 5, dear).cause == "slots changed"


def test_an_imbalance_is_cured_at_any_cost() -> None:
    """Two slots become six by whole groups, so the fullest has twice the mean; that is worth moving keys."""
    known, _ = halves("flight", "dest")
    table = learnt(known, 2).rescaled(6)
    dear = Online(move_cost=1_000.0, imbalance=1.5)
    decision = dear(known, table, History(slots=2))
    assert decision.before.worst > 1.8
    assert decision.gain < decision.cost
    assert decision.assignment is not None


def test_few_tuples() -> None:
    """They say nothing about another number either; the cause stays."""
    decision = asked(History(slots=3), 4, Online(min_tuples=1_000_000))
    assert (decision.cause, decision.after) == (None, None)
    assert History(slots=3).after(decision, 4).slots == 3
