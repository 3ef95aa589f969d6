"""What the engine tells a policy of a flow with branches: against what ran, and the pure definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

import thalweg as tw
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.plan.plan import make_plan
from thalweg.scheduling import cumulative_selectivity
from thalweg.scheduling.measures import SAMPLE_TUPLES
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.lockfree.clocks import now_ns
from thalweg.workers.memory import layout
from thalweg.workers.memory.handles import new_handle
from thalweg.workers.memory.places import handle_at
from thalweg.workers.options import Options
from thalweg.workers.picks import view_of
from thalweg.workers.worker_loop.dispatch import send_downstream
from thalweg.workers.worker_loop.unit_runs import is_timed
from thalweg.workers.worker_loop.views import refresh_view


class Number(NamedTuple):
    value: int


def three(n: Number) -> Iterator[Number]:
    """The number three times."""
    yield n
    yield n
    yield n


def following(n: Number) -> Number:
    return Number(n.value + 1)


def branches() -> tw.Flow:
    """One in four, and three of each, which meet again."""
    flow = tw.Flow("branches")
    numbers = flow.source("numbers", Number)
    few = numbers.filter(lambda n: n.value % 4 == 0, name="few")
    many = numbers.flat_map(three, name="many")
    few.union(many, name="both").filter(lambda n: n.value % 2 == 0, name="even").sink("out")
    return flow


@pytest.fixture
def engine() -> Iterator[ParallelEngine]:
    """An engine that asks a policy, and whose threads have nothing left to do."""
    options = Options(threads=1, policy=tw.scheduling.LastInPipeline())
    engine = ParallelEngine(prepare(make_plan(branches())), options=options)
    try:
        for first in range(0, 8_000, 1_000):
            rows = [Number(value) for value in range(first, first + 1_000)]
            engine.feed("numbers", Chunk.from_rows(engine.plan.sources[0].record, rows))
        for _ in engine.settle():
            pass
        yield engine
    finally:
        engine.stop()


def test_the_queues_of_a_flow_that_waits(engine: ParallelEngine) -> None:
    """Two steps that no thread takes wait at both readers of the ingress, with their ages and about their size."""
    engine.workers.stop()
    engine.mem[layout.STOP] = 0
    begun = now_ns()
    for first in (0, 1_000):
        rows = [Number(value) for value in range(first, first + 1_000)]
        engine.feed("numbers", Chunk.from_rows(engine.plan.sources[0].record, rows))
    assert refresh_view(engine.mem, 0)
    view = view_of(engine.mem, 0)
    ports = view.ports
    assert ports.length.tolist() == [2_000, 2_000, 0, 0, 0, 0]
    assert ports.length.tolist()[:2] == view.worklist.tolist()[1:3]
    assert ports.head_ns.tolist()[:2] == view.head_ns.tolist()[1:3]
    assert (begun <= ports.head_ns[:2]).all()
    # The mean of two times behind the first hand-over, to 1,024 ns.
    assert (ports.head_ns[:2] - 1_024 <= ports.enqueued_ns[:2]).all()
    assert (ports.enqueued_ns[:2] <= view.now_ns).all()
    assert (ports.enqueued_ns[2:] == view.now_ns).all()
    assert view.runnable.tolist() == [0, 1, 1, 0, 0, 0]


def test_the_view_of_a_flow_that_is_done(engine: ParallelEngine) -> None:
    """Ingress, few, many, both, even, sink: what they let through, alone and from the source on; nothing waits."""
    # The engine's one worker fills view 0 itself, so its threads must be gone.
    engine.stop()
    assert not refresh_view(engine.mem, 0)
    view = view_of(engine.mem, 0)
    assert view.selectivity == pytest.approx([1, 1 / 4, 3, 1, 7 / 13, 1])
    assert view.cumulative_in == pytest.approx([1, 1, 1, 3.25, 3.25, 1.75])
    assert view.cumulative_out == pytest.approx([1, 0.25, 3, 3.25, 1.75, 1.75])
    feeders = [[feeder for feeder, _ in task.spec.reads] for task in engine.tasks]
    arriving, leaving = cumulative_selectivity(view.selectivity, feeders)
    assert np.array_equal(view.cumulative_in, arriving)
    assert np.array_equal(view.cumulative_out, leaving)
    assert view.kind[0] == layout.INGRESS
    assert view.rank.tolist() == list(range(6))
    assert view.output.tolist() == [0, 0, 0, 0, 0, -1]
    assert not view.worklist.any()
    assert not view.runnable.any()
    assert (view.cost_ns >= 10).all()
    assert (view.last_run_ns[1:] > 0).all()
    assert (view.last_run_ns <= view.now_ns).all()
    ports = view.ports
    edges = [(feeder, reader) for reader, read in enumerate(feeders) for feeder in read]
    assert list(zip(ports.writer, ports.operator, strict=True)) == edges
    assert ports.target.tolist() == list(range(len(edges)))
    assert not ports.length.any()
    assert (ports.head_ns >= view.now_ns).all()
    assert ports.conjunctive.tolist() == [1] * 6
    inputs = np.bincount(ports.operator)[ports.operator]
    assert ports.reads == pytest.approx(1e9 / view.cost_ns[ports.operator] / inputs)
    assert ports.writes == pytest.approx((1e9 * view.selectivity / view.cost_ns)[ports.writer])
    # Eight steps of 1,000 rows: a chunk holds that many at "few", and 1,625 of each at both ports of "both".
    chunks = np.array([engine.tasks[reader].spec.capacity for reader in ports.operator])
    rows = np.array([1_000, 1_000, 1_625, 1_625, 3_250, 1_750])
    assert np.array_equal(ports.capacity, chunks * rows)


def test_what_waits_at_several_inputs(engine: ParallelEngine) -> None:
    """Each input has its own length and times; the oldest chunk of all is the operator's."""
    engine.stop()
    mem, few, many, both = engine.mem, 1, 2, 3
    for feeder, entry in ((few, 10_000), (few, 20_000), (few, 30_000), (many, 7)):
        handle = int(new_handle(mem))
        mem[handle_at(mem, handle) + layout.ENTRY] = entry
        send_downstream(mem, 0, feeder, handle)
    refresh_view(mem, 0)
    view = view_of(mem, 0)
    mine = view.ports.operator == both
    assert view.ports.length[mine].tolist() == [3 * 1_625, 1_625]
    assert view.ports.head_ns[mine].tolist() == [10_000, 7]
    assert view.head_ns[both] == 7
    assert (view.ports.enqueued_ns[mine] <= view.now_ns).all()
    assert (view.ports.enqueued_ns[mine] >= view.last_run_ns[both] - 1_024).all()


def test_when_chunks_came_on_average(engine: ParallelEngine) -> None:
    """From the sums of times that a queue keeps: 10, 20 and 60 units of 1,024 ns, also where the sum has wrapped."""
    engine.stop()
    mem, few = engine.mem, 1
    for _ in range(3):
        send_downstream(mem, 0, few, int(new_handle(mem)))
    number = int(np.flatnonzero(view_of(mem, 0).ports.writer == few)[0])
    port = int(mem[layout.PORTS]) + number * layout.PORT_WORDS
    entered, mask = int(mem[port + layout.ENTERED]), int(mem[port + layout.ENTRIES_MASK])
    ring = int(mem[port + layout.ENTRIES])
    for start in (1_000, 2**63 - 15):
        for back, total in enumerate((90, 30, 10, 0)):
            at = ring + layout.ENTRY_WORDS * ((entered - 1 - back) & mask) + 1
            mem[at] = (start + total + 2**63) % 2**64 - 2**63
        refresh_view(mem, 0)
        assert view_of(mem, 0).ports.enqueued_ns[number] == 30 * 1_024


def test_empty_chunks_say_nothing_about_what_a_tuple_costs() -> None:
    """Of 200 steps with a tuple each one tuple passes the filter: no more than that one is timed behind it."""
    flow = tw.Flow("rare")
    rare = flow.source("numbers", Number).filter(lambda n: n.value == 150, name="rare")
    rare.sink("seen")  # so that they are two operators
    rare.map(following, name="after").sink("out")
    engine = ParallelEngine(prepare(make_plan(flow)), chunk_rows=1, options=Options(threads=1))
    try:
        rows = [Number(value) for value in range(200)]
        engine.feed("numbers", Chunk.from_rows(engine.plan.sources[0].record, rows))
        for _ in engine.settle():
            pass
        (after,) = (task.index for task in engine.tasks if task.spec.name == "after")
        counts = layout.counts_of(engine.mem).sum(axis=0)[engine.source + after]
        assert counts[layout.S_UNITS] == 200
        assert counts[layout.S_IN] == 1 and counts[layout.S_TIMED] <= 1
    finally:
        engine.stop()


def test_all_units_are_timed_until_the_cost_is_known() -> None:
    """Then small ones are only now and then; a policy of rounds is told a cost after 100 tuples, not 1,600."""
    mem = np.zeros(layout.STAT_WORDS, np.int64)
    mem[layout.S_UNITS], mem[layout.S_TIMED] = 1, SAMPLE_TUPLES - 1
    assert is_timed(mem, 0, 1)
    mem[layout.S_TIMED] = SAMPLE_TUPLES
    assert not is_timed(mem, 0, 1) and is_timed(mem, 0, 64)
    assert [units for units in range(40) if _timed_at(mem, units)] == [0, 16, 32]


def _timed_at(mem: layout.Int64s, units: int) -> bool:
    mem[layout.S_UNITS] = units
    return is_timed(mem, 0, 1)
