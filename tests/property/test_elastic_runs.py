"""Threads and limits of operators that change at any moment of a run: the output is that of the serial reference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.operators_kit import Recipe, cases
from tests.sizes import sized

import thalweg as tw
from thalweg import testing
from thalweg.columns.chunks import Chunk
from thalweg.elasticity import Combined, Controller, Sample, Suggestion, ThreadLevels, Utilization
from thalweg.engine.build import prepare
from thalweg.plan.plan import make_plan
from thalweg.testing import session
from thalweg.workers.elastic import ElasticThreads
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.options import Options

Case = tuple[Recipe, dict[str, list[Any]]]
_COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
_SEEDS = st.lists(st.integers(0, 9_999), min_size=2, max_size=2)


class Anything(Controller):
    """Suggests any threads and any replicas, drawn from a seed; some of it cannot be done."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chooser = random.Random(seed)

    def decide(self, sample: Sample) -> tuple[Suggestion, ...]:
        draw = self._chooser.randint
        found = [Suggestion("threads", None, sample.threads, draw(0, 9), "any")]
        for one in self._chooser.sample(sample.operators, k=min(2, len(sample.operators))):
            found.append(Suggestion("replicas", one.index, one.replicas, draw(1, 9), "any"))
        return tuple(found)


class Shaken(ParallelEngine):
    """An engine whose controller is asked before each step, and again and again while it settles."""

    #: Of the run that begins next.
    seed = 0

    def __init__(self, prepared: Any, **how: Any) -> None:
        super().__init__(prepared, **how)
        self._elastic = ElasticThreads(self.workers, Anything(Shaken.seed))
        self._elastic.begin(0)
        self._shaken = 0

    def _shake(self) -> None:
        self._shaken += 1
        self._elastic.look(self._shaken)
        self._elastic.adapt(self._shaken)

    def step(self, *given: Any, **more: Any) -> Any:
        self._shake()
        return super().step(*given, **more)

    def settle(self) -> Iterator[Any]:
        self._shake()
        for leaving in super().settle():
            self._shake()
            yield leaving


def any_options(chooser: random.Random) -> Options:
    """How a run goes: small queues and long ones, and operators of one partition and of many."""
    Shaken.seed = chooser.randrange(1 << 30)
    return Options(
        threads=chooser.choice([2, 3, 8]),
        queue_chunks=chooser.choice([1, 2, 64]),
        partitions=chooser.choice([None, 1, 5]),
        policy=chooser.choice([None, None, tw.scheduling.FirstComeFirstServed(period_s=0.001)]),
        queue=chooser.choice(["hybrid", "hybrid", "partitioned", "shared"]),
    )


@settings(max_examples=sized(100), **_COMMON)
@given(st.one_of(cases(), cases(timed=False)), _SEEDS)
def test_any_changes_at_any_moment(case: Case, seeds: list[int]) -> None:
    """Random flows over random data: whole output sequences, counts and state are those of the reference."""
    recipe, inputs = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "ParallelEngine", Shaken)
        testing.assert_same(
            recipe.build(), inputs, seeds=seeds, compile=("never",), options=any_options
        )


class Piece(NamedTuple):
    number: int
    key: int
    turns: int


@tw.state
class Sum:
    turns: int = 0


def work(piece: Piece) -> Piece:
    value = piece.number % 2147483646 + 1
    for _ in range(piece.turns):
        value = value * 48271 % 2147483647
    return Piece(piece.number, value % 5, piece.turns)


def add_up(state: Sum, piece: Piece) -> Piece:
    state.turns += piece.turns
    return Piece(piece.number, piece.key, state.turns)


def a_flow() -> tw.Flow:
    """Some work for each row, then sums by key."""
    flow = tw.Flow("elastic")
    worked = flow.source("pieces", Piece).map(work)
    worked.key_by("key").process(add_up, state=Sum).sink("sums")
    return flow


def pieces(count: int) -> list[Piece]:
    """The cost changes tenfold and back, twice."""
    phase = count // 5
    return [Piece(i, 0, (200, 2_000)[i // phase % 2]) for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "controller",
    [
        ThreadLevels(max_cpu_share=1.0, noise_credits=1),
        Combined(ThreadLevels(max_cpu_share=1.0, noise_credits=1)),
        Combined(Utilization()),
        Anything(5),
    ],
    ids=["throughput", "throughput and replicas", "utilization and replicas", "anything"],
)
def test_a_load_that_changes_and_comes_back(controller: Controller) -> None:
    """Exact order, nothing lost, whatever the controller makes of it; and it does make something of it."""
    rows = pieces(100_000)
    expected = tw.run(a_flow(), {"pieces": rows}, threading="manual")
    found = tw.run(
        a_flow(), {"pieces": rows}, threads=4, controller=controller, period_s=0.005,
        chunk_rows=100,
    )  # fmt: skip
    assert found.sinks["sums"] == expected.sinks["sums"]
    assert found.counts == expected.counts
    assert any(not one.refused for one in found.progress.changes)
    assert all(1 <= one.after <= 9 for one in found.progress.changes if not one.refused)


def test_limits_are_kept() -> None:
    """However much there is to do, no more workers are in an operator than its limit, once they have left it."""
    engine = ParallelEngine(prepare(make_plan(a_flow())), options=Options(threads=4), chunk_rows=10)
    seen = []
    try:
        places = [place for place, task in engine.workers.tasks().items() if task.spec.limit > 1]
        for place in places:
            engine.workers.set_limit(place, 1)
        for chunk in range(50):
            rows = pieces(500)[10 * chunk : 10 * chunk + 10]
            source = engine.plan.sources[0].record
            engine.feed("pieces", Chunk.from_rows(source, rows))
            list(engine.advance())
            seen += [int(engine.mem[at_op(engine, place) + at.BUSY]) for place in places]
        list(engine.finish())
        list(engine.settle())
    finally:
        engine.stop()
    assert max(seen) <= 2, "a worker that finds the limit reached was in for a moment"


def at_op(engine: ParallelEngine, place: int) -> int:
    """Where the words of an operator begin."""
    return engine.op_at(place - engine.source)
