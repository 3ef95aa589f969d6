"""What queries 1 and 2 share: the items of a basket or visit, their pairs, how often each occurs, and which most.

The items are held in the fields of a state, not in a list, so that the functions compile; there are ``PLACES``
of them, and different items beyond the first ``PLACES`` are not looked at.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import thalweg as tw

#: How many different items of a basket or visit are looked at.
PLACES: Final = 10


class Pair(NamedTuple):
    """Two different items, the smaller number first, that go together, and the time of the later one."""

    ts: tw.Timestamp
    first: int
    second: int


class Frequent(NamedTuple):
    """How often a pair occurred in the period before ``until``."""

    until: tw.Timestamp
    first: int
    second: int
    times: int


class Ranked(NamedTuple):
    """A pair and its place among those of the period before ``until``, from 1."""

    until: tw.Timestamp
    rank: int
    first: int
    second: int
    times: int


@tw.state
class Items:
    """The different items of a basket or visit so far, the latest first; 0 in the places that are free."""

    timer: tw.Timer
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    f: int = 0
    g: int = 0
    h: int = 0
    i: int = 0
    j: int = 0


@tw.state
class Count:
    """How often a pair has occurred in the period at hand."""

    timer: tw.Timer
    times: int = 0


@tw.state
class Best:
    """The most frequent pairs of the period at hand, in the order of their rank."""

    timer: tw.Timer
    pairs: list[Frequent] = []  # noqa: RUF012 - tw.state copies it for each key


def add(its: Items, item: int) -> bool:
    """Puts an item in front; False when it is there already, or no place is free."""
    if its.j:
        return False
    for one in (its.a, its.b, its.c, its.d, its.e, its.f, its.g, its.h, its.i):
        if one == item:
            return False
    its.a, its.b, its.c, its.d, its.e, its.f, its.g, its.h, its.i, its.j = (
        item, its.a, its.b, its.c, its.d, its.e, its.f, its.g, its.h, its.i,
    )  # fmt: skip
    return True


def pair_of(ts: tw.Timestamp, one: int, other: int) -> Pair:
    """The pair of two items, whichever of them came first."""
    return Pair(ts, min(one, other), max(one, other))


def forget(its: Items, key: int, time: tw.Timestamp) -> None:
    """The basket or visit is over; the state is dropped."""


def most_frequent(
    pairs: tw.Stream[Pair], *, every: str | dt.timedelta, at_least: int, limit: int
) -> tw.Stream[Ranked]:
    """The pairs that occur most in each period.

    Args:
        pairs: the pairs, with their times.
        every: the length of the periods, which start at multiples of it since 1970, UTC.
        at_least: pairs that occur fewer times than this in a period are left out of it.
        limit: how many pairs of a period come out at most.

    Returns:
        The pairs by period and rank; pairs that are as frequent are ranked by their items.
    """
    count, frequent = counting(tw.duration(every), at_least)
    counted = pairs.key_by("first", "second").process(count, state=Count, on_timer=frequent)
    return counted.process(ranking(limit), state=Best, on_timer=ranked)


def counting(
    every: int, at_least: int
) -> tuple[
    Callable[[Count, Pair], None], Callable[[Count, tuple[int, int], tw.Timestamp], Frequent | None]
]:
    """The functions that count a pair's occurrences in periods of ``every`` microseconds."""

    def count(counted: Count, pair: Pair) -> None:
        counted.times += 1
        counted.timer = pair.ts // every * every + every - 1

    def frequent(counted: Count, key: tuple[int, int], time: tw.Timestamp) -> Frequent | None:
        if counted.times < at_least:
            return None
        return Frequent(time + 1, key[0], key[1], counted.times)

    return count, frequent


def ranking(limit: int) -> Callable[[Best, Frequent], None]:
    """A function that keeps the first ``limit`` of a period's pairs; interpreted, since it needs a list."""

    def rank(best: Best, pair: Frequent) -> None:
        bisect.insort(best.pairs, pair, key=place)
        del best.pairs[limit:]
        best.timer = pair.until - 1

    return rank


def place(pair: Frequent) -> tuple[int, int, int]:
    """What pairs are ranked by: the most frequent first, then the smaller items."""
    return -pair.times, pair.first, pair.second


def ranked(best: Best, time: tw.Timestamp) -> Iterator[Ranked]:
    """The pairs of a period that has ended."""
    for rank, pair in enumerate(best.pairs, 1):
        yield Ranked(pair.until, rank, pair.first, pair.second, pair.times)
