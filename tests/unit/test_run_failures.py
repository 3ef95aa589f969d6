"""Functions that raise, in all kinds of operators and runs: one error, that of the serial run, and no thread left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.engine_kit import ROWS, WAYS, Failure, Row, bounded, no_thread_left

import thalweg as tw
from thalweg.workers.options import Options

__all__ = ["no_thread_left"]

BAD = 500
Build = Callable[[tw.Stream, bool], tw.Stream]


@tw.state
class Count:
    n: int = 0


@tw.state
class Armed:
    timer: tw.Timer
    value: int = 0


def mapped(row: Row) -> Row:
    return Row(row.ts, row.key, 1 // (row.value - BAD))


def kept(row: Row) -> bool:
    return 1 // (row.value - BAD) < 5


def repeated(row: Row) -> Iterator[Row]:
    for _ in range(2):
        yield Row(row.ts, row.key, 1 // (row.value - BAD))


def processed(state: Count, row: Row) -> Row:
    state.n += 1 // (row.value - BAD)
    return Row(row.ts, row.key, state.n)


def arm(state: Armed, row: Row) -> None:
    state.value = row.value
    if row.value == BAD:
        state.timer = row.ts + 3


def fire_keyed(state: Armed, key: int, time: tw.Timestamp) -> Row:
    return Row(time, key, 1 // (state.value - BAD))


def fire(state: Armed, time: tw.Timestamp) -> Row:
    return Row(time, 0, 1 // (state.value - BAD - 3))


def key_of(row: Row) -> int:
    return 1 // (row.value - BAD)


def batch(given: pa.RecordBatch) -> pa.RecordBatch:
    if BAD in given.column("value").to_pylist():
        raise Failure("bad batch")
    return given


def window(key: int, start: tw.Timestamp, end: tw.Timestamp, rows: list[Row]) -> Row:
    return Row(start, key, 1 // (0 if BAD in [row.value for row in rows] else 1))


OPERATORS: dict[str, Build] = {
    "map": lambda s, c: s.map(mapped, compile=c),
    "filter": lambda s, c: s.filter(kept, compile=c),
    "flat_map": lambda s, c: s.flat_map(repeated, compile=c),
    "process": lambda s, c: s.process(processed, state=Count, compile=c),
    "keyed": lambda s, c: s.key_by("key").process(processed, state=Count, compile=c),
    "timer": lambda s, c: s.process(arm, state=Armed, on_timer=fire, compile=c),
    "keyed timer": lambda s, c: s.key_by("key").process(
        arm, state=Armed, on_timer=fire_keyed, compile=c
    ),
    "key": lambda s, c: s.key_by(key_of).process(
        lambda state, row: row, state=Count, name="p", into=Row, compile=c
    ),
}
PLAIN: dict[str, Build] = {
    "map_batches": lambda s, c: s.map_batches(batch),
    "window": lambda s, c: s.key_by("key").window("10 us", window),
}


def error_of(call: Callable[[], Any]) -> tw.OperatorError:
    with pytest.raises(tw.OperatorError) as caught:
        bounded(call)
    return caught.value


def check(flow: tw.Flow, way: str, sinks: dict[str, Any] | None = None) -> None:
    """The error is that of the serial run; and the next run in this process works."""
    expected = error_of(
        lambda: tw.run(flow, {"in": ROWS}, sinks, threading="manual", chunk_rows=50)
    )
    run = {"options": WAYS[way], "chunk_rows": 50}
    error = error_of(lambda: tw.run(flow, {"in": ROWS}, sinks, **run))
    assert type(error) is type(expected)
    assert error.operator == expected.operator
    assert (str(error), error.row) == (str(expected), expected.row)
    assert type(error.__cause__) is type(expected.__cause__)
    good = [row for row in ROWS if row.value < BAD - 100]
    result = bounded(lambda: tw.run(flow, {"in": good}, sinks, **run))
    assert result.counts["in"]["in"] == len(good)


def flow_with(build: Build, compiled: bool) -> tw.Flow:
    flow = tw.Flow("failing")
    rows = flow.source("in", Row, order_by="ts").filter(lambda row: row.value >= 0, name="all")
    build(rows, compiled).sink("out")
    # A branch beside it, that goes on.
    rows.key_by("key").process(
        lambda state, row: row, state=Count, name="beside", into=Row
    ).sink("beside")  # fmt: skip
    return flow


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_raises(operator: str, compiled: bool, way: str) -> None:
    check(flow_with(OPERATORS[operator], compiled), way)


@pytest.mark.usefixtures("no_thread_left")
def test_several_keys_raise_at_once() -> None:
    """Some partitions of a chunk raise while others of it make their tables, both in Python."""
    flow = tw.Flow("failing")
    rows = flow.source("in", Row, order_by="ts").key_by("key")
    rows.process(processed, state=Count, compile=True).sink("out")
    given = [Row(i, i, BAD if i % 40 == 0 else 1) for i in range(400)]
    for _ in range(50):
        error = error_of(
            lambda: tw.run(flow, {"in": given}, options=Options(threads=8), chunk_rows=400)
        )
        assert error.operator == "processed"


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operator", PLAIN)
def test_an_operator_that_is_never_compiled_raises(operator: str, way: str) -> None:
    check(flow_with(PLAIN[operator], True), way)


def fail_at_bad(row: Row) -> None:
    if row.value == BAD:
        raise Failure("bad row")


def fail_at_bad_batch(given: pa.RecordBatch) -> None:
    if BAD in given.column("value").to_pylist():
        raise Failure("bad batch")


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [lambda: tw.each(fail_at_bad), lambda: fail_at_bad_batch])
def test_a_sink_raises(make: Callable[[], Any], way: str) -> None:
    check(flow_with(lambda s, c: s, True), way, {"out": make()})


class Ends:
    """An iterator that fails after some rows, and says when it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def rows(self) -> Iterator[Row]:
        try:
            yield from ROWS[:300]
            raise Failure("no more")
        finally:
            self.closed = True


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
def test_a_source_raises(way: str) -> None:
    """What it gave before may have passed through; the error names source and place."""
    flow, ends = flow_with(lambda s, c: s, True), Ends()
    with pytest.raises(tw.DataError, match="source 'in': its iterator failed after 300 items") as e:
        bounded(lambda: tw.run(flow, {"in": ends.rows()}, options=WAYS[way]))
    assert isinstance(e.value.__cause__, Failure)
    assert ends.closed


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
def test_many_raise_at_once(way: str) -> None:
    """One error comes out, of one of the bad rows."""

    def fails(row: Row) -> Row:
        raise Failure(str(row.value))

    flow = tw.Flow("all fail")
    rows = flow.source("in", Row, order_by="ts")
    for number in range(3):
        rows.map(fails, name=f"fails{number}").sink(f"out{number}")
    error = error_of(lambda: tw.run(flow, {"in": ROWS}, options=WAYS[way], chunk_rows=10))
    assert error.operator in ("fails0", "fails1", "fails2")
    assert isinstance(error.__cause__, Failure)


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
def test_an_endless_input_ends_with_the_failure(way: str) -> None:
    """Sources that give rows for ever are closed when a sink has failed."""
    ends = Ends()

    def endless() -> Iterator[Row]:
        number = 0
        try:
            while True:
                yield Row(number, number % 7, number)
                number += 1
        finally:
            ends.closed = True

    flow = flow_with(lambda s, c: s, True)
    error = error_of(
        lambda: tw.run(
            flow, {"in": endless()}, {"out": tw.each(fail_at_bad)}, options=WAYS[way], chunk_rows=50
        )
    )
    assert error.operator == "sink:out"
