"""The items of the shop that clicks and store sales have in common: categories, prices, popularity, pairs.

An item is a number from 1; all else about it follows from that number, so no table of items is needed. Small
numbers are popular. Each item has one partner, of its own category, with which it is looked at and sold
together more often than chance would have it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from thalweg.datagen.frames import Array

#: What an item can belong to, as in TPC-DS.
CATEGORIES: Final = (
    "Books",
    "Children",
    "Electronics",
    "Home",
    "Jewelry",
    "Men",
    "Music",
    "Shoes",
    "Sports",
    "Women",
)
#: Items whose numbers differ by this are partners: one category, and about as popular.
_APART: Final = len(CATEGORIES)

#: How a row's item comes about: drawn anew, that of the row before, or the partner of that.
NEW, SAME, PARTNER = 0, 1, 2


def popular(draw: Array, count: Array | int) -> Array:
    """Numbers from 0 to count - 1 from draws in [0, 1); a few numbers come often."""
    return (draw**3 * count).astype(np.int64)


def category(item: Array) -> Array:
    """The place in ``CATEGORIES`` of each item's category."""
    return (item - 1) % len(CATEGORIES)


def price_cents(item: Array) -> Array:
    """The price of one piece: 0.99 to 149.99."""
    return 100 * (item * 7919 % 150) + 99


def partner(item: Array, items: int) -> Array:
    """The partner of each item, whose partner it is; itself where the shop of ``items`` items has none."""
    place = (item - 1) % (2 * _APART)
    other = np.where(place < _APART, item + _APART, item - _APART)
    return np.where(other > items, item, other)


def linked(drawn: Array, link: Array, items: int) -> Array:
    """The items of rows that follow each other: each as drawn, or as its ``link`` to the row before says.

    Args:
        drawn: an item for each row, which counts where the row's link is NEW.
        link: NEW, SAME or PARTNER for each row; the first row is NEW.
        items: how many items there are.
    """
    root = np.maximum.accumulate(np.where(link == NEW, np.arange(len(link)), 0))
    swaps = np.cumsum(link == PARTNER)
    swapped = (swaps - swaps[root]) % 2 == 1
    first = drawn[root]
    return np.where(swapped, partner(first, items), first)
