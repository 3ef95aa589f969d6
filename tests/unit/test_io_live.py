"""Iterators and pushed rows: nothing is held back, read ahead without bound, or lost."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from io_kit import Pair, rows_of, source_node

import thalweg as tw
from thalweg.connectors import as_source, never

ROWS = [Pair(n, "abc"[n % 3]) for n in range(10)]


# -- iterators ----------------------------------------------------------------------------------------


def test_one_item_is_not_held_back() -> None:
    """An item comes out although the next one does not come."""
    more = threading.Event()

    def slow() -> Iterator[Pair]:
        yield ROWS[0]
        more.wait()
        yield ROWS[1]

    feed = as_source("pairs", slow()).rows(source_node(), 100, never())
    assert next(feed)[0].rows() == [ROWS[0]]
    more.set()
    assert rows_of(feed) == [ROWS[1]]


def test_reading_ahead_is_bounded_and_ends() -> None:
    """An endless generator is at most two chunks ahead of who reads it, and is closed when nobody does."""
    made, closed = itertools.count(), threading.Event()

    def endless() -> Iterator[Pair]:
        try:
            while True:
                yield Pair(next(made), "")
        finally:
            closed.set()

    feed = as_source("pairs", endless()).rows(source_node(), 10, never())
    taken = len(next(feed)[0])
    feed.close()
    closed.wait()
    assert next(made) <= taken + 10 + 1


def test_a_generator_that_raises() -> None:
    """Its rows come first; then the error, with the source's name, the place and the cause."""

    def failing() -> Iterator[Pair]:
        yield from ROWS
        raise ValueError("the line is dead")

    rows: list[Any] = []
    feed = as_source("pairs", failing()).rows(source_node(), 3, never())
    with pytest.raises(
        tw.DataError,
        match="source 'pairs': its iterator failed after 10 items: ValueError: the line is dead",
    ) as caught:
        rows.extend(row for chunk, _ in feed for row in chunk.rows())
    assert rows == ROWS
    assert isinstance(caught.value.__cause__, ValueError)


def test_from_iterable_arguments() -> None:
    """What is no iterable of rows, and a negative time, are refused at once."""
    with pytest.raises(tw.BuildError, match="expected an iterable of rows, got 3"):
        tw.from_iterable(3)  # type: ignore[arg-type]
    with pytest.raises(tw.BuildError, match="got 'abc'"):
        tw.from_iterable("abc")
    with pytest.raises(tw.BuildError, match="linger_s: expected seconds from 0 on, got -1"):
        tw.from_iterable([], linger_s=-1)


# -- push ---------------------------------------------------------------------------------------------


def test_pushing_waits_for_the_run() -> None:
    """A full source makes a push wait until rows were taken; no row is lost."""
    source = tw.push_source(capacity=2)
    thread = threading.Thread(target=lambda: [source.push(row) for row in ROWS] and source.close())
    thread.start()
    chunks = [chunk.rows() for chunk, _ in source.rows(source_node(), 100, never())]
    thread.join()
    assert [row for rows in chunks for row in rows] == ROWS
    assert max(map(len, chunks)) <= 2


def test_the_arrival_can_be_replayed() -> None:
    """Rows that several threads pushed are recorded in the order in which the run had them."""
    source = tw.push_source(capacity=7, record=True)

    def push(who: str) -> None:
        for number in range(100):
            source.push(Pair(number, who), Pair(-number, who))

    threads = [threading.Thread(target=push, args=(who,)) for who in "abc"]
    for thread in threads:
        thread.start()

    def end() -> None:
        for thread in threads:
            thread.join()
        source.close()

    ender = threading.Thread(target=end)
    ender.start()
    live = rows_of(source.rows(source_node(), 16, never()))
    ender.join()
    assert len(live) == 600
    assert source.arrived == live
    assert all(
        second.a == -first.a and second.b == first.b
        for first, second in zip(live[::2], live[1::2], strict=True)
    )
    assert rows_of(as_source("pairs", source.arrived).rows(source_node(), 16, never())) == live


def test_pushing_after_the_end() -> None:
    """A push into a closed source, or after the run, is an error; so is one that waited for room when the run ended."""
    source = tw.push_source(capacity=1)
    errors: list[BaseException] = []

    def push() -> None:
        try:
            source.push(*ROWS)
        except tw.SourceClosed as error:
            errors.append(error)

    thread = threading.Thread(target=push)
    thread.start()
    feed = source.rows(source_node(), 1, never())
    next(feed)
    feed.close()
    thread.join()
    assert len(errors) == 1
    with pytest.raises(tw.SourceClosed, match="the run that read it is over"):
        source.push(ROWS[0])


def test_push_arguments() -> None:
    """One run, sane numbers, and no record where none was asked for."""
    source = tw.push_source()
    source.rows(source_node(), 1, never())
    with pytest.raises(tw.BuildError, match="input 'pairs': a push_source is read by one run only"):
        source.rows(source_node(), 1, never())
    with pytest.raises(tw.BuildError, match="record=True"):
        source.arrived
    with pytest.raises(tw.BuildError, match="capacity: expected a whole number from 1 on, got 0"):
        tw.push_source(capacity=0)
    with pytest.raises(tw.BuildError, match="linger_s: expected seconds"):
        tw.push_source(linger_s=-0.1)
