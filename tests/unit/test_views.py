"""What the engine tells a policy of a flow with branches: against what ran, and the pure definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

import thalweg as tw
from thalweg.plan import make_plan
from thalweg.runtime import layout
from thalweg.runtime.build import prepare
from thalweg.runtime.chunks import Chunk
from thalweg.runtime.options import Options
from thalweg.runtime.parallel import ParallelEngine
from thalweg.runtime.picks import view_of
from thalweg.runtime.views import refresh_view
from thalweg.scheduling import cumulative_selectivity


class Number(NamedTuple):
    value: int


def three(n: Number) -> Iterator[Number]:
    """The number three times."""
    yield n
    yield n
    yield n


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
    assert (view.cost >= 10).all()
    assert (view.last_run_ns[1:] > 0).all()
    assert (view.last_run_ns <= view.now_ns).all()
