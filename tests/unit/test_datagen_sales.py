"""The store sales: tickets, pairs of items and the trends of categories are as the generator says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg import datagen
from thalweg.datagen.items import NEW, PARTNER, SAME, linked, partner

DAY_US = 24 * 60 * 60 * 1_000_000


@pytest.fixture(scope="module")
def table():
    """Four weeks."""
    return pa.Table.from_batches(datagen.store_sales(300_000))


def test_span(table):
    """The rows are in time order and span about the days asked for."""
    ts = table["ts"].cast(pa.int64()).to_numpy()
    assert (np.diff(ts) >= 0).all()
    assert (ts[-1] - ts[0]) / DAY_US == pytest.approx(28, rel=0.02)


def test_tickets(table):
    """A ticket is one customer's in one store, of at most MAX_LINES lines within minutes."""
    by = table.group_by("ticket").aggregate(
        [
            ("store", "count_distinct"),
            ("customer", "count_distinct"),
            ("ts", "min_max"),
            ([], "count_all"),
        ]
    )
    assert set(by["store_count_distinct"].to_pylist()) == {1}
    assert set(by["customer_count_distinct"].to_pylist()) == {1}
    lines = by["count_all"].to_numpy()
    assert lines.max() == datagen.MAX_LINES
    assert lines.mean() == pytest.approx(4.66, abs=0.05)
    spans = by["ts_min_max"].combine_chunks()
    first, last = (spans.field(name).cast(pa.int64()).to_numpy() for name in ("min", "max"))
    assert (last - first).max() < 6 * 60 * 1_000_000


def test_an_item_says_all_else(table):
    """Category and price follow from the item; every category has its items."""
    distinct = table.group_by(["item", "category", "price_cents"]).aggregate([])
    assert distinct.num_rows == len(set(table["item"].to_pylist()))
    assert set(table["category"].to_pylist()) == set(datagen.CATEGORIES)
    for item, category in zip(
        distinct["item"].to_pylist(), distinct["category"].to_pylist(), strict=True
    ):
        assert datagen.CATEGORIES[(item - 1) % 10] == category


def test_hot_items_and_pairs(table):
    """A hundredth of the items has a fifth of the lines, and lines often have the partner of the line before."""
    item, ticket = table["item"].to_numpy(), table["ticket"].to_numpy()
    assert (item <= 200).mean() == pytest.approx(0.215, abs=0.01)
    order = np.argsort(ticket, kind="stable")
    item, same = item[order], np.diff(ticket[order]) == 0
    paired = partner(item[:-1], 20_000) == item[1:]
    assert paired[same].mean() == pytest.approx(0.25, abs=0.01)


def test_trends(table):
    """Electronics sell more from week to week, Music less, Home neither."""
    week = (table["ts"].cast(pa.int64()).to_numpy() - table["ts"][0].value) // (7 * DAY_US)
    category = np.array(table["category"].to_pylist())

    def lines(name):
        return np.bincount(week[category == name])[:4].astype(float)

    assert (np.diff(lines("Electronics")) > 0).all()
    assert (np.diff(lines("Music")) < 0).all()
    assert lines("Home") == pytest.approx(np.full(4, 7500.0), rel=0.05)


def test_partners():
    """A partner's partner is the item itself, also where the last items have none."""
    item = np.arange(1, 68)
    other = partner(item, 67)
    assert (partner(other, 67) == item).all()
    assert item[other == item].tolist() == [61, 62, 63, 64, 65, 66, 67]
    assert (abs(other - item)[:60] == 10).all()


def test_links():
    """Each row's item is drawn, that of the row before, or its partner."""
    link = np.array([NEW, PARTNER, SAME, PARTNER, NEW, SAME, PARTNER])
    found = linked(np.array([1, 0, 0, 0, 5, 0, 0]), link, 100)
    assert found.tolist() == [1, 11, 11, 1, 5, 5, 15]


@pytest.mark.parametrize(
    ("name", "value"),
    [("rows", -1), ("customers", 0), ("items", 9), ("stores", 0), ("skew", -1), ("days", 0)],
)
def test_wrong_arguments(name, value):
    """A value out of range is refused at once, by name."""
    with pytest.raises(ValueError, match=name):
        datagen.store_sales(**{"rows": 1, name: value})
