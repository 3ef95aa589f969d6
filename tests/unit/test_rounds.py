"""Rounds in the engine: who runs what, meetings that wait for nobody for long, and changes while they run."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import thalweg as tw
from thalweg import scheduling
from thalweg.columns.chunks import Chunk
from thalweg.engine.build import prepare
from thalweg.errors import SchedulingError
from thalweg.plan.plan import make_plan
from thalweg.scheduling import RoundPolicy, RoundView
from thalweg.scheduling.round_view import UNLIMITED
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.lockfree.atomics import EMPTY
from thalweg.workers.memory import layout as at
from thalweg.workers.memory.places import op_at, worker_at
from thalweg.workers.options import Options
from thalweg.workers.rounds import Rounds


class Row(NamedTuple):
    value: int


ROWS = [Row(i) for i in range(400)]
SHORT: dict[str, Any] = {"period_s": 0.002, "batch_rows": 5}


def twice(row: Row) -> Row:
    return Row(2 * row.value)


def flow_of(*functions: Callable[[Row], Row], name: str = "rounds") -> tw.Flow:
    flow = tw.Flow(name)
    rows = flow.source("in", Row)
    for number, function in enumerate(functions):
        # Neighbours that treat errors alike would be one operator.
        errors = "reject" if number % 2 else "fail"
        rows = rows.map(function, name=f"op{number}", compile="never", errors=errors)
    rows.sink("out")
    return flow


def engine_of(flow: tw.Flow, policy: RoundPolicy, threads: int = 2) -> ParallelEngine:
    return ParallelEngine(prepare(make_plan(flow)), options=Options(threads=threads, policy=policy))


def rounds_of(engine: ParallelEngine) -> Rounds:
    assert engine.workers.rounds is not None
    return engine.workers.rounds


def chunk(engine: ParallelEngine, *rows: Row) -> Chunk:
    return Chunk.from_rows(engine.plan.sources[0].record, rows)


def lists(engine: ParallelEngine) -> list[list[int]]:
    """The operators that each worker has been given."""
    mem = engine.mem
    found = []
    for w in range(int(mem[at.N_WORKERS])):
        me = int(worker_at(mem, w))
        first, count = int(mem[me + at.LIST]), int(mem[me + at.LISTED_OPS])
        found.append(mem[first : first + count * at.LISTED_WORDS : at.LISTED_WORDS].tolist())
    return found


POLICIES: dict[str, RoundPolicy] = {
    "fcfs": scheduling.FirstComeFirstServed(**SHORT),
    "highest rate": scheduling.HighestRate(**SHORT),
    "chain": scheduling.Chain(**SHORT),
    "multi class": scheduling.MultiClass({0: scheduling.HighestRate()}, **SHORT),
    "own": scheduling.by(lambda op, view: -op.rank, **SHORT),
}


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_output_is_that_of_a_serial_run(policy: RoundPolicy, threads: int) -> None:
    flow = flow_of(twice, twice, twice)
    expected = [Row(8 * row.value) for row in ROWS]
    got = tw.run(flow, {"in": ROWS}, threads=threads, policy=policy, chunk_rows=3)
    assert got.rows("out") == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_a_period_that_is_over_before_it_has_begun_lets_all_run(threads: int) -> None:
    policy = scheduling.FirstComeFirstServed(period_s=1e-9, batch_rows=1)
    got = tw.run(flow_of(twice), {"in": ROWS}, threads=threads, policy=policy, chunk_rows=10)
    assert got.rows("out") == [Row(2 * row.value) for row in ROWS]


def test_a_round_gives_every_operator_to_the_threads_that_the_placement_says() -> None:
    engine = engine_of(
        flow_of(twice, twice),
        scheduling.HighestRate(placement=scheduling.Balanced(shares_at_most=1)),
    )
    rounds_of(engine).prepare(0)
    assert sorted(op for mine in lists(engine) for op in mine) == list(range(len(engine.tasks)))
    assert int(engine.mem[at.ROUND_NO]) == 1 and engine.mem[at.ROUND_END] > time.monotonic_ns()


def test_who_is_stuck_is_left_out_and_keeps_its_operator() -> None:
    engine = engine_of(flow_of(twice, twice), scheduling.HighestRate(), threads=3)
    engine.mem[int(worker_at(engine.mem, 1)) + at.OP] = 2
    engine.mem[int(op_at(engine.mem, 2)) + at.LIMIT] = 1
    rounds_of(engine).prepare(0)
    mine = lists(engine)
    assert mine[1] == [2] and 2 not in mine[0] + mine[2]
    assert sorted(op for one in mine for op in one) == [0, 1, 2, 3]
    assert rounds_of(engine).costs.left_out == 1


def test_suspended_threads_get_nothing() -> None:
    engine = engine_of(flow_of(twice, twice), scheduling.HighestRate(), threads=3)
    engine.workers.set_threads(1)
    rounds_of(engine).prepare(0)
    assert lists(engine)[1:] == [[], []] and len(lists(engine)[0]) == 4


def test_who_is_suspended_before_it_has_prepared_a_round_leaves_it_to_the_next() -> None:
    engine = engine_of(flow_of(twice, twice), scheduling.HighestRate(), threads=3)
    mem = engine.mem
    mem[int(worker_at(mem, 0)) + at.OP] = 2
    mem[at.LEADER] = 3
    engine.workers.set_threads(1)
    rounds_of(engine).prepare(2)
    assert mem[at.LEADER] == 0 and mem[at.ROUND_NO] == 0
    mem[int(worker_at(mem, 0)) + at.OP] = EMPTY
    rounds_of(engine).prepare(0)
    assert sorted(lists(engine)[0]) == [0, 1, 2, 3] and mem[at.ROUND_NO] == 1


def test_no_round_is_prepared_for_workers_that_are_to_stop() -> None:
    engine = engine_of(flow_of(twice), Bad())
    engine.stop()
    before = Bad.asked
    rounds_of(engine).prepare(0)
    assert Bad.asked == before and engine.mem[at.ROUND_NO] == 0


class Meddling(RoundPolicy):
    """Does something to the engine while a round is prepared."""

    does: Callable[[], None] = staticmethod(lambda: None)

    def features(self) -> frozenset[Any]:
        return frozenset()

    def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
        Meddling.does()
        return [(0.0,)] * len(view.operators)


def test_threads_or_a_policy_set_while_a_round_is_prepared_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of(flow_of(twice, twice), Meddling(period_s=1e3), threads=2)
    mem, rounds = engine.mem, rounds_of(engine)
    monkeypatch.setattr(Meddling, "does", lambda: engine.workers.set_threads(1))
    rounds.prepare(0)
    assert lists(engine)[1] != [] and mem[at.ROUND_END] == 0
    other = scheduling.HighestRate(period_s=1e3, batch_rows=7)
    monkeypatch.setattr(Meddling, "does", lambda: setattr(engine.workers, "policy", other))
    rounds.prepare(0)
    assert mem[at.ROUND_END] == 0 and mem[at.BATCH] == 7 and engine.workers.policy is other
    rounds.prepare(0)
    assert lists(engine)[1] == [] and mem[at.ROUND_END] > time.monotonic_ns()
    assert mem[at.ROUND_NO] == 3


def test_of_ones_own_only_what_can_have_changed_is_read_anew() -> None:
    kinds = ("constant", "intrinsic", "dependent", "external")
    read: list[str] = []

    def reading(kind: str) -> scheduling.Feature:
        def of(operator: str) -> float:
            read.append(f"{kind} {operator}")
            return float(len(read))

        return scheduling.feature(kind, kind=kind, read=of)

    seen: list[dict[str, float]] = []

    def note(operator: scheduling.OperatorStats, view: RoundView) -> float:
        seen.append(dict(operator.own))
        return 0.0

    policy = scheduling.by(note, features=[reading(kind) for kind in kinds])
    engine = engine_of(flow_of(twice, twice, twice), policy)
    rounds, mem, names = rounds_of(engine), engine.mem, [task.spec.name for task in engine.tasks]
    rounds.prepare(0)
    assert sorted(read) == sorted(f"{kind} {name}" for kind in kinds for name in names)
    assert all(set(own) == set(kinds) for own in seen)
    read.clear()
    # Steps have entered, so the source counts as one that has run; and so has the last operator.
    at.counts_of(mem)[1, len(names) - 1, at.S_UNITS] += 1
    rounds.prepare(0)
    expected = {
        "intrinsic": [names[0], names[-1]],
        "dependent": [*names[:2], *names[-2:]],
        "external": names,
    }
    assert sorted(read) == sorted(f"{kind} {name}" for kind in expected for name in expected[kind])
    read.clear()
    engine.workers.policy = dataclasses.replace(policy, batch_rows=3)
    rounds.prepare(0)
    assert len(read) == len(kinds) * len(names), "another policy's features are others"


def test_what_is_built_in_is_that_of_the_engine() -> None:
    engine = engine_of(flow_of(twice, twice), scheduling.HighestRate())
    seen: list[RoundView] = []

    def note(operator: scheduling.OperatorStats, view: RoundView) -> float:
        seen.append(view)
        return 0.0

    mem = engine.mem
    last = len(engine.tasks) - 1
    mem[int(worker_at(mem, 1)) + at.OP] = last
    stats = at.counts_of(mem)[0, 1]
    counts = {
        at.S_UNITS: 10,
        at.S_IN: 1_000,
        at.S_OUT: 500,
        at.S_TIMED: 1_000,
        at.S_NS: 20_000,
        at.S_LAST: 77,
    }
    for word, value in counts.items():
        stats[word] = value
    engine.workers.policy = scheduling.by(note)
    rounds_of(engine).prepare(0)
    operators = seen[-1].operators
    assert [one.index for one in operators] == list(range(len(engine.tasks)))
    assert [one.name for one in operators] == [task.spec.name for task in engine.tasks]
    assert {one.flow for one in operators} == {"rounds"}
    assert [one.kind for one in operators] == [task.spec.kind for task in engine.tasks]
    assert [one.rank for one in operators] == list(range(len(engine.tasks)))
    first = operators[1]
    assert (first.cost_ns, first.selectivity, first.last_run_ns) == (20.0, 0.5, 77)
    assert (first.worklist, first.head_ns, first.workers) == (0, -1, 0)
    # Room for 64 chunks of the 50 rows that it puts out of each unit.
    assert first.output_room == 64 * 50 and operators[last].output_room == UNLIMITED
    assert operators[last].workers == 1 and operators[0].limit == 1


def test_a_feature_that_cannot_be_read_ends_the_run_with_its_name() -> None:
    def read(operator: str) -> float:
        raise OSError("no battery")

    policy = scheduling.by(
        lambda operator, view: 0.0,
        features=[scheduling.feature("level", kind="external", read=read)],
    )
    with pytest.raises(
        SchedulingError, match=r"policy by\(<lambda>\): feature 'level' of .* raised OSError"
    ):
        tw.run(flow_of(twice), {"in": ROWS}, threads=2, policy=policy)


class Slow:
    """A function that sleeps in one row until it is let go."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def run(self, row: Row) -> Row:
        if row.value == 0:
            self.entered.set()
            assert self.go.wait(30)
        return row


def test_an_operator_that_sleeps_holds_up_no_round() -> None:
    """While one function hangs, the other flow's rows go on through round after round."""
    slow, seen = Slow(), threading.Event()
    run = slow.run

    def hang(row: Row) -> Row:
        return run(row)

    flow = tw.Flow("two")
    rows = flow.source("in", Row)
    rows.map(hang, name="hang", compile="never").sink("hung")
    rows.map(twice, name="free", compile="never").sink("out")

    def each(row: Row) -> None:
        if row.value == 2 * ROWS[-1].value:
            seen.set()

    def watch() -> None:
        assert slow.entered.wait(30) and seen.wait(30)
        slow.go.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    policy = scheduling.FirstComeFirstServed(period_s=0.005)
    got = tw.run(
        flow, {"in": ROWS}, {"out": tw.each(each)}, threads=3, policy=policy, chunk_rows=20
    )
    watcher.join()
    assert got.rows("hung") == ROWS and seen.is_set()


def test_rounds_go_on_while_an_operator_sleeps() -> None:
    """It sleeps until ten rounds have been planned without the thread that is in it: none of them waits for it."""
    slow, without = Slow(), list[int]()
    run = slow.run

    def hang(row: Row) -> Row:
        return run(row)

    def plan(operator: scheduling.OperatorStats, view: RoundView) -> float:
        if operator.name == "op0" and operator.workers and slow.entered.is_set():
            without.append(operator.workers)
            if len(without) == 10:
                slow.go.set()
        return 0.0

    policy = scheduling.by(plan, **SHORT)
    got = tw.run(flow_of(hang), {"in": ROWS}, threads=2, policy=policy, chunk_rows=20)
    assert got.rows("out") == ROWS and len(without) >= 10


def test_threads_and_policy_change_during_rounds() -> None:
    flow = flow_of(twice, twice, twice, twice)
    engine = engine_of(flow, scheduling.HighestRate(**SHORT), threads=8)
    out: list[int] = []
    try:
        changes: Iterator[Callable[[], None]] = iter(
            [
                lambda: engine.workers.set_threads(1),
                lambda: engine.workers.set_threads(8),
                lambda: setattr(engine.workers, "policy", scheduling.FirstComeFirstServed(**SHORT)),
                lambda: setattr(engine.workers, "policy", scheduling.EstimatedTime()),
                lambda: engine.workers.set_threads(2),
                lambda: setattr(engine.workers, "policy", None),
                lambda: setattr(
                    engine, "policy", dataclasses.replace(scheduling.HighestRate(), batch_rows=1)
                ),
            ]
        )

        def take(leaving: Any) -> None:
            out.extend(
                row.value for chunks in leaving.values() for one in chunks for row in one.rows()
            )

        for number, row in enumerate(ROWS):
            take(engine.feed("in", chunk(engine, row)))
            if number % 50 == 25:
                next(changes, lambda: None)()
        for leaving in engine.finish():
            take(leaving)
    finally:
        engine.stop()
    assert out == [16 * row.value for row in ROWS]


class Bad(RoundPolicy):
    """Gives priorities only for a while."""

    asked = 0

    def features(self) -> frozenset[Any]:
        return frozenset()

    def priorities(self, view: RoundView) -> list[tuple[float, ...]]:
        Bad.asked += 1
        if Bad.asked > 3:
            raise ZeroDivisionError("too often")
        return [(0.0,)] * len(view.operators)


def test_a_policy_that_fails_ends_the_run_with_its_name() -> None:
    with pytest.raises(SchedulingError, match=r"Bad.*too often"):
        tw.run(
            flow_of(twice), {"in": ({"value": i} for i in range(10**9))}, {"out": tw.each(lambda row: None)},
            threads=2, policy=Bad(period_s=0.001),
        )  # fmt: skip


def test_a_policy_that_asks_for_what_there_is_not_is_refused() -> None:
    with pytest.raises(SchedulingError, match="unknown feature"):
        tw.run(
            flow_of(twice), {"in": ROWS},
            policy=scheduling.by(lambda op, view: 0, features=["colour"]), threads=2,
        )  # fmt: skip
