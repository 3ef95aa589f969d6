"""Options of a run in many threads are words of the memory that its workers read."""

from __future__ import annotations

from typing import Any

from thalweg.datagen import parametric
from thalweg.engine.build import prepare
from thalweg.plan.plan import make_plan
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.options import Options


def words(**options: Any) -> tuple[set[int], set[int], set[int], int]:
    """Of a flow with a keyed operator: how queues are handed out, whether sending locks, whether order is kept."""
    engine = ParallelEngine(
        prepare(make_plan(parametric.one_operator("keyed", 0.1))), chunk_rows=8,
        options=Options(threads=2, **options), leave=lambda edge, chunk, entry_ns: None,
    )  # fmt: skip
    try:
        places = [engine.op_at(index) for index in range(len(engine.tasks))]
        keyed = [place for place in places if engine.mem[place + at.KIND] == at.KEYED]
        inner = [
            place for place in places if engine.mem[place + at.KIND] in (at.KEYED, at.STATELESS)
        ]
        return (
            {int(engine.mem[place + at.QUEUE_KIND]) for place in keyed},
            {int(engine.mem[place + at.LOCKING]) for place in inner},
            {int(engine.mem[place + at.ORDERED]) for place in inner},
            int(engine.mem[at.TIMES_HELD]),
        )
    finally:
        engine.stop()


def test_options_reach_the_engine() -> None:
    """The queue, the reorder buffer, order itself, and whether times are taken, each by itself."""
    assert words() == ({at.HYBRID}, {0}, {1}, 0)
    assert words(queue="partitioned")[0] == {at.PARTITIONED}
    assert words(queue="shared")[0] == {at.SHARED}
    assert words(reorder="lock-based")[1] == {1}
    assert words(ordered=False)[2] == {0}
    assert words(times_held=True)[3] == 1


def test_how_long_chunks_are_in_an_operator_is_taken_when_asked_for() -> None:
    """At least as long as a row takes; nothing is told where nobody asked."""
    from thalweg import run

    flow, rows = parametric.one_operator("keyed", 200.0), parametric.table(40)
    for asked in (False, True):
        ran = run(
            flow, {"tuples": rows}, chunk_rows=1, options=Options(threads=2, times_held=asked)
        )
        (work,) = [one for one in ran.progress.operators if one.name == "work"]
        assert (work.held_ns is not None) == asked
        assert work.held_ns is None or work.held_ns >= 0.5 * 200_000
