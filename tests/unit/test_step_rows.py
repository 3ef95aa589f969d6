"""How many rows a step has: as given, or as the operators' cost says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import thalweg as tw
from thalweg.engine.build import prepare
from thalweg.engine.watermarks.release import cuts
from thalweg.plan.plan import make_plan
from thalweg.scheduling.measures import SAMPLE_TUPLES
from thalweg.workers import step_size
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.memory import layout as at
from thalweg.workers.options import Options
from thalweg.workers.step_size import FIRST_ROWS, STEP_NS, STEP_ROWS
from thalweg.workers.threads import Workers


class Row(NamedTuple):
    value: int


def flow_of(function: Callable[[Row], Row]) -> tw.Flow:
    flow = tw.Flow("steps")
    flow.source("in", Row).map(function, name="work").sink("out")
    return flow


def same(row: Row) -> Row:
    return row


def slow(row: Row) -> Row:
    time.sleep(0.001 * (row.value >= 0))
    return row


def engine_of(chunk_rows: int | None, **options: float) -> ParallelEngine:
    return ParallelEngine(
        prepare(make_plan(flow_of(same))), chunk_rows=chunk_rows, options=Options(threads=2, **options)  # type: ignore[arg-type]
    )  # fmt: skip


def count(engine: ParallelEngine, name: str, **words: int) -> None:
    """Writes counts of an operator, as the first worker would."""
    (op,) = [task.index for task in engine.tasks if task.spec.name == name]
    stat = int(engine.mem[at.STATS]) + (engine.source + op) * at.STAT_WORDS
    for word, value in words.items():
        engine.mem[stat + getattr(at, word)] = value


def test_a_given_size_is_kept() -> None:
    assert engine_of(100).step_rows() == 100


def test_steps_are_small_until_somebody_knows_what_rows_cost() -> None:
    engine = engine_of(None)
    assert engine.step_rows() == FIRST_ROWS
    count(engine, "work", S_TIMED=200, S_NS=200 * 50_000, S_IN=200, S_OUT=200)
    assert engine.step_rows() == STEP_NS // 50_000


def test_steps_are_as_long_as_the_dearest_operator_takes_for_a_row_of_the_source() -> None:
    engine = engine_of(None)
    count(engine, "work", S_TIMED=200, S_NS=200 * 1_000, S_IN=200, S_OUT=20)
    leaves = engine.tasks[-1].spec.name
    count(engine, leaves, S_TIMED=100, S_NS=100 * 50_000, S_IN=100)
    # A tenth of the rows reach the dearer one.
    assert engine.step_rows() == STEP_NS // 5_000
    count(engine, leaves, S_TIMED=100, S_NS=100, S_IN=100)
    count(engine, "work", S_TIMED=200, S_NS=200, S_IN=200, S_OUT=200)
    assert engine.step_rows() == STEP_ROWS
    count(engine, "work", S_TIMED=200, S_NS=200 * 10**10, S_IN=200, S_OUT=200)
    assert engine.step_rows() == 1


def test_no_step_takes_longer_than_the_quantum() -> None:
    """Half of the usual time, half of the rows; a longer quantum than that changes nothing."""
    for quantum_ms, share in ((STEP_NS / 2e6, 2), (1_000.0, 1)):
        engine = engine_of(None, quantum_ms=quantum_ms)
        count(engine, "work", S_TIMED=200, S_NS=200 * 50_000, S_IN=200, S_OUT=200)
        assert engine.step_rows() == STEP_NS // 50_000 // share


def test_an_operator_that_no_tuple_reaches_does_not_keep_steps_small() -> None:
    """Many empty chunks have come to it, one is there: it will never be known what a tuple costs there."""
    engine = engine_of(None)
    count(engine, "work", S_TIMED=200, S_NS=200 * 1_000, S_IN=200, S_OUT=0, S_UNITS=200)
    last = engine.tasks[-1]
    engine.mem[engine.op_at(last.index) + at.BUSY] = 1
    count(engine, last.spec.name, S_UNITS=SAMPLE_TUPLES - 1)
    assert engine.step_rows() == FIRST_ROWS
    count(engine, last.spec.name, S_UNITS=SAMPLE_TUPLES)
    assert engine.step_rows() > FIRST_ROWS


def test_of_many_operators_the_cost_is_asked_for_at_few_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of(None)
    counts = len(engine.tasks) * int(engine.mem[at.N_WORKERS])
    monkeypatch.setattr(step_size, "_COUNTS_A_STEP", 1)
    assert engine.step_rows() == FIRST_ROWS
    count(engine, "work", S_TIMED=200, S_NS=200 * 50_000, S_IN=200, S_OUT=200)
    sizes = [engine.step_rows() for _ in range(counts + 1)]
    assert sizes == [FIRST_ROWS] * counts + [STEP_NS // 50_000]


def test_each_of_several_flows_has_steps_by_its_own_cost() -> None:
    options = Options(threads=2)
    workers = Workers(options)
    cheap, dear = (
        ParallelEngine(
            prepare(make_plan(flow_of(same))), chunk_rows=None, options=options, workers=workers
        )
        for _ in range(2)
    )
    count(dear, "work", S_TIMED=200, S_NS=200 * 50_000, S_IN=200, S_OUT=100)
    count(dear, dear.tasks[-1].spec.name, S_TIMED=200, S_NS=200 * 200_000, S_IN=200)
    count(cheap, "work", S_TIMED=200, S_NS=200 * 10_000, S_IN=200, S_OUT=200)
    assert (dear.step_rows(), cheap.step_rows()) == (STEP_NS // 100_000, STEP_NS // 10_000)


def test_a_function_that_sleeps_gets_small_steps() -> None:
    """Most of 3,000 rows would else be one step of one worker."""
    table = tw.run(flow_of(slow), {"in": [Row(i) for i in range(3_000)]}, threads=4)
    (work,) = [one for one in table.progress.operators if one.name == "work"]
    assert work.rows_in == 3_000 and work.units >= 3_000 // FIRST_ROWS
    assert np.array_equal(table.sinks["out"]["value"].to_numpy(), np.arange(3_000))


def test_cuts() -> None:
    sizes = iter([2, 3, 10])
    assert list(cuts(6, lambda: next(sizes))) == [(0, 2), (2, 5), (5, 6)]
    assert list(cuts(0, lambda: 5)) == []
