"""Functions that block, threads that come and go, and inputs of odd shapes: the others go on, and runs end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit import engine_kit as kit
from tests.unit.engine_kit import (
    ROWS,
    WAYS,
    Count,
    Failure,
    Row,
    bounded,
    count,
    events,
    no_thread_left,
    plus_one,
)

import thalweg as tw
from thalweg import testing
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.plan.plan import Edge, make_plan
from thalweg.workers import tasks
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.places import worker_at
from thalweg.workers.native.block_chunks import view_block
from thalweg.workers.options import Options
from thalweg.workers.worker_loop.tokens import STALE_NS, leave_token, take_token

__all__ = ["events", "no_thread_left"]

MANY = {name: way for name, way in WAYS.items() if name != "one"}


# -- functions that block --------------------------------------------------------------------------------------


def blocks(row: Row) -> Row:
    kit.event("blocked").set()
    kit.wait_for("go on")
    return row


def see(row: Row) -> None:
    if row.value == 100:
        kit.event("seen").set()


def fails(row: Row) -> Row:
    raise Failure("on purpose")


def fails_beside(row: Row) -> Row:
    kit.wait_for("blocked")
    raise Failure("on purpose")


@pytest.mark.usefixtures("no_thread_left", "events")
@pytest.mark.parametrize("way", MANY)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_an_operator_that_blocks_does_not_stop_the_others(way: str, compiled: bool) -> None:
    """It holds the token of interpreted code; the branch beside it sees all rows before it goes on."""
    flow = tw.Flow("blocking")
    rows = flow.source("in", Row)
    rows.map(blocks, compile=False).sink("blocked")
    rows.map(plus_one, compile=compiled).sink("beside")

    def go_on() -> None:
        kit.wait_for("seen")
        kit.event("go on").set()

    threading.Thread(target=go_on, daemon=True).start()
    inputs, sinks = {"in": ROWS[:100]}, {"beside": tw.each(see)}
    # Ten steps wait for the function that blocks; where one is all that may be on its way, it is the only one.
    size = 100 if WAYS[way].queue_chunks == 1 else 10
    result = bounded(lambda: tw.run(flow, inputs, sinks, options=WAYS[way], chunk_rows=size))
    assert kit.event("seen").is_set()
    assert result.rows("blocked") == ROWS[:100]


@pytest.mark.usefixtures("no_thread_left", "events")
@pytest.mark.parametrize("way", MANY)
def test_an_operator_that_never_returns_is_left_behind(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another one fails: the run ends with its error, and warns of the thread."""
    flow = tw.Flow("never returns")
    rows = flow.source("in", Row)
    rows.map(blocks).sink("blocked")
    rows.map(fails_beside).sink("failed")
    with caplog.at_level(logging.WARNING, "thalweg"), pytest.raises(tw.OperatorError) as caught:
        bounded(lambda: tw.run(flow, {"in": ROWS}, options=WAYS[way]))
    assert caught.value.operator == "fails_beside"
    assert "left behind" in caplog.text
    kit.event("go on").set()


@pytest.mark.usefixtures("no_thread_left", "events")
@pytest.mark.parametrize("way", WAYS)
def test_a_failure_ends_a_run_whose_sources_wait(way: str) -> None:
    """The source gives one row and then nothing: nobody submits a step that would find the error."""

    def one() -> Iterator[Row]:
        yield ROWS[0]
        kit.wait_for("the end")

    flow = tw.Flow("waiting source")
    flow.source("in", Row).map(fails).sink("out")
    with pytest.raises(tw.OperatorError, match="on purpose"):
        bounded(lambda: tw.run(flow, {"in": one()}, options=WAYS[way]))
    kit.event("the end").set()


# -- back-pressure ---------------------------------------------------------------------------------------------


def shapes() -> dict[str, tw.Flow]:
    """A diamond, and a union of a source with itself; keyed state behind both."""
    made = {}
    for name in ("diamond", "with itself"):
        flow = tw.Flow(name)
        rows = flow.source("in", Row, order_by="ts")
        other = rows.map(plus_one) if name == "diamond" else rows
        joined = rows.union(other, rows.filter(lambda row: row.value % 2 == 0))
        joined.key_by("key").process(count, state=Count).sink("out")
        made[name] = flow
    return made


def engine_of(flow: tw.Flow, **how: Any) -> ParallelEngine:
    return ParallelEngine(prepare(make_plan(flow)), **how)


def chunk(engine: ParallelEngine, rows: list[Row]) -> Chunk:
    return Chunk.from_rows(engine.plan.sources[0].record, rows)


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("name", ["diamond", "with itself"])
@pytest.mark.parametrize("queue_chunks", [1, 64])
def test_rows_on_their_way_are_bounded(name: str, queue_chunks: int) -> None:
    """By the limit and what the steps make that are let in below it, however long the input and slow the sink."""
    size, limit, steps = 500, 2_000, 60
    found: list[int] = []

    def leave(edge: Edge, chunk: Chunk, entry: int) -> None:
        found.append(int(engine.mem[engine.op_at(0) + at.ROWS]))

    options = Options(threads=2, queue_chunks=queue_chunks, rows_limit=limit)
    engine = engine_of(shapes()[name], options=options, leave=leave, chunk_rows=size)

    def run() -> None:
        for step in range(steps):
            rows = [Row(step * size + i, i % 7, i) for i in range(size)]
            engine.feed("in", chunk(engine, rows))
            list(engine.advance())
        list(engine.finish())
        list(engine.settle())

    try:
        bounded(run)
    finally:
        engine.stop()
    # A step is at most once as a chunk behind each operator, and there its rows are at most tripled.
    of_a_step = 3 * size * len(engine.tasks)
    assert len(found) >= steps
    assert max(found) <= limit + of_a_step
    assert int(engine.mem[engine.op_at(0) + at.ROWS]) == 0


@pytest.mark.usefixtures("no_thread_left")
def test_an_endless_source_waits_for_the_sink() -> None:
    """The rows drawn from it are never far ahead of those written; an error of the sink ends both."""
    drawn, ahead, size = [0], [0], 100

    def endless() -> Iterator[Row]:
        while True:
            yield Row(drawn[0], drawn[0] % 7, drawn[0])
            drawn[0] += 1

    def write(row: Row) -> None:
        ahead[0] = max(ahead[0], drawn[0] - row.value)
        if row.value == 50_000:
            raise Failure("enough")

    flow = tw.Flow("endless")
    flow.source("in", Row).map(plus_one).sink("out")
    options = Options(threads=2, queue_chunks=1)
    with pytest.raises(tw.OperatorError, match="enough"):
        bounded(
            lambda: tw.run(
                flow, {"in": endless()}, {"out": tw.each(write)}, options=options, chunk_rows=size
            )
        )
    # Two chunks behind each of three operators, those that are read ahead, and the one at hand.
    assert ahead[0] <= 12 * size


# -- inputs of odd shapes --------------------------------------------------------------------------------------


LATE = [Row(1_000, 0, 0), *ROWS[:500]]
INPUTS: dict[str, dict[str, list[Any]]] = {
    "one ends at once": {"a": [], "b": ROWS},
    "the other ends at once": {"a": ROWS, "b": []},
    "both are empty": {"a": [], "b": []},
    "one row each": {"a": ROWS[:1], "b": ROWS[:1]},
    "all but one late": {"a": LATE, "b": LATE},
    "all rejected": {"a": [("no", "row", "fits")] * 300, "b": [(1, 2)] * 10},
}


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("inputs", INPUTS)
def test_odd_inputs(inputs: str, way: str) -> None:
    """Outputs and counts are those of a serial run."""
    flow = tw.Flow("odd")
    a = flow.source("a", Row, order_by="ts", errors="reject")
    b = flow.source("b", Row, order_by="ts", errors="reject")
    a.union(b).key_by("key").process(count, state=Count).sink("out")
    a.late.sink("late")
    b.rejected.sink("rejected")
    expected = tw.run(flow, INPUTS[inputs], threading="manual")
    result = bounded(lambda: tw.run(flow, INPUTS[inputs], options=WAYS[way], chunk_rows=64))
    assert result.sinks == expected.sinks
    assert result.counts == expected.counts


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
def test_pushed_rows_are_replayed_by_the_reference(way: str) -> None:
    """Several threads push while it runs; the record of what arrived gives the same output, a tuple at a time."""
    flow = tw.Flow("pushed")
    flow.source("in", Row).key_by("key").process(count, state=Count).sink("out")
    source = tw.push_source(capacity=50, record=True)

    def push(first: int) -> None:
        for row in ROWS[first::3]:
            source.push(row)

    def run() -> Any:
        pushing = [threading.Thread(target=push, args=[i], daemon=True) for i in range(3)]

        def close() -> None:
            for one in pushing:
                one.join()
            source.close()

        for one in (*pushing, threading.Thread(target=close, daemon=True)):
            one.start()
        return tw.run(flow, {"in": source}, options=WAYS[way], chunk_rows=20)

    result = bounded(run)
    assert sorted(source.arrived) == sorted(ROWS)
    assert result.rows("out") == testing.reference(flow, {"in": source.arrived}).rows("out")


# -- engines that are told what to do --------------------------------------------------------------------------


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("threading_", ["dynamic", "dedicated"])
def test_threads_are_suspended_and_go_on(threading_: Any) -> None:
    """While steps are on their way: none is lost, and their order stays."""
    options = Options(threads=8, threading=threading_, queue_chunks=4)
    engine = engine_of(shapes()["diamond"], options=options, chunk_rows=20)
    left: list[Row] = []

    def take(leaving: Any) -> None:
        for chunks in leaving.values():
            left.extend(row for one in chunks for row in one.rows())

    def run() -> None:
        for step in range(50):
            engine.workers.set_threads((1, 8, 3, 0, 2, 99)[step % 6])
            engine.feed("in", chunk(engine, ROWS[20 * step : 20 * step + 20]))
            for leaving in engine.advance():
                take(leaving)
        for leaving in (*engine.finish(), *engine.settle()):
            take(leaving)

    try:
        bounded(run)
    finally:
        engine.stop()
    expected = tw.run(shapes()["diamond"], {"in": ROWS}, threading="manual")
    assert left == expected.rows("out")


@pytest.mark.usefixtures("no_thread_left")
def test_several_runs_at_once() -> None:
    """Each with threads of its own; they share nothing."""
    flow = shapes()["diamond"]
    expected = tw.run(flow, {"in": ROWS}, threading="manual").rows("out")
    results: list[Any] = []

    def run(options: Options) -> None:
        results.append(tw.run(flow, {"in": ROWS}, options=options, chunk_rows=50).rows("out"))

    def test() -> None:
        threads = [
            threading.Thread(target=run, args=[way], daemon=True) for way in (*WAYS.values(),) * 2
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    bounded(test)
    assert results == [expected] * (2 * len(WAYS))


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("way", WAYS)
def test_an_engine_is_stopped_in_the_middle(way: str) -> None:
    """Steps on their way are dropped; whoever submits one, or waits for them, is told."""
    engine = engine_of(shapes()["diamond"], options=WAYS[way], chunk_rows=50)
    for step in range(4):
        engine.feed("in", chunk(engine, ROWS[50 * step : 50 * step + 50]))
        list(engine.advance())
    bounded(engine.stop)
    with pytest.raises(tw.ThalwegError, match="stopped"):
        bounded(lambda: [*engine.settle(), *engine.finish()])


# -- the token -------------------------------------------------------------------------------------------------


def test_one_worker_holds_the_token_unless_it_is_stale() -> None:
    """Who holds it for too long probably waits: then others run interpreted code beside it."""
    engine = engine_of(shapes()["diamond"], options=Options(threads=3))
    mem, (one, two, three) = engine.mem, (int(worker_at(engine.mem, w)) for w in range(3))
    op = engine.source + 1
    busy = engine.op_at(1) + at.BUSY
    mem[busy] = 2
    assert take_token(mem, 0, one, op)
    mem[at.TOKEN_SINCE] = now_ns() + 1_000 * STALE_NS
    assert take_token(mem, 0, one, op)
    assert not take_token(mem, 1, two, op)
    mem[at.TOKEN_SINCE] = now_ns() - 2 * STALE_NS
    assert take_token(mem, 1, two, op)
    assert not take_token(mem, 2, three, op), "one stays free for the others"
    mem[busy] = 1
    assert take_token(mem, 2, three, op), "nobody else is in this operator"
    mem[busy] = 2
    leave_token(mem, three)
    leave_token(mem, two)
    assert take_token(mem, 2, three, op)
    leave_token(mem, three)
    mem[at.TOKEN_SINCE] = now_ns() + 1_000 * STALE_NS
    assert not take_token(mem, 1, two, op)
    leave_token(mem, one)
    assert take_token(mem, 1, two, op)


def test_workers_run_freely_what_waits() -> None:
    """As many as there is a use for, and no more, without the token, which another operator's worker may have."""
    engine = engine_of(shapes()["diamond"], options=Options(threads=3))
    mem, (one, two, three) = engine.mem, (int(worker_at(engine.mem, w)) for w in range(3))
    op, busy = engine.source + 1, engine.op_at(1) + at.BUSY
    mem[engine.op_at(1) + at.FREELY], mem[engine.op_at(2) + at.BUSY] = 2, 1
    assert take_token(mem, 0, one, engine.source + 2)
    mem[at.TOKEN_SINCE] = now_ns() + 1_000 * STALE_NS
    mem[busy] = 2
    assert take_token(mem, 1, two, op)
    assert mem[two + at.TOKEN_HELD] == at.RUNS_FREELY
    mem[busy] = 3
    assert not take_token(mem, 2, three, op)
    leave_token(mem, two)
    assert mem[at.TOKEN] == 1 and mem[at.BESIDE] == 0, "it had nothing to give back"


# -- what workers share ----------------------------------------------------------------------------------------


def test_workers_share_one_empty_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that make it at once have the same: the other one would be freed while machine code reads it."""
    engine = engine_of(shapes()["diamond"], options=Options(threads=2))
    task = next(one for one in engine.tasks if one.read_natively)
    number, edges = next(iter(task.read_natively.items()))
    both, blocks = threading.Barrier(2), list[int]()

    def made(*given: Any) -> Any:
        both.wait(kit.DEADLINE_S)
        return view_block(*given)

    def make() -> None:
        blocks.append(task._empty_block(engine, number, edges[0]))

    monkeypatch.setattr(tasks, "view_block", made)
    threads = [threading.Thread(target=make, daemon=True) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(kit.DEADLINE_S)
    assert len(blocks) == 2
    assert blocks[0] == blocks[1]
