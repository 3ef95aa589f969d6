"""The paper's topologies of busy operators as flows, run through the front door; operators are calibrated by CPU time.

A busy operator is a stateful one: like a coroutine of C-Stream it is run by one thread at a time, and it is not fused
with its neighbours. It works in compiled code for as many turns as its cost says, and lets through as many tuples as
its selectivity says, drawn by the tuple's number.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa

import thalweg as tw
from thalweg.scheduling import PickPolicy

#: Rows of a step: so few that a quantum has several of them.
STEP_ROWS: Final = 2
#: So much of what leaves is warm-up.
WARM_UP: Final = 0.25
#: The paper's busy operators let through this many of a thousand tuples (section 5.1), unless something else is said.
ALL: Final = 1_000
#: Operators of a run by which turns are calibrated, and rows and turns of it.
_ROWS: Final = 500
_TURNS: Final = 20_000


class Tuple(NamedTuple):
    """A tuple of the experiment.

    Attributes:
        n: its number.
        lane: which of the operators side by side has it; of a tree, the way that it takes, a bit a level.
        turns: what each busy operator does for it.
        keeps: of a thousand tuples an operator lets through so many.
        value: what the work gives, so that it is done.
    """

    n: int
    lane: int
    turns: int
    keeps: int
    value: int


@tw.state
class Busy:
    """How many tuples the operator has had."""

    count: int = 0


def work(state: Busy, row: Tuple) -> Tuple | None:
    """A busy loop, and a draw."""
    state.count += 1
    value = row.value % 2147483646 + 1
    for _ in range(row.turns):
        value = value * 48271 % 2147483647
    if (row.n * 7919 + value) % 1_000 >= row.keeps:
        return None
    return Tuple(row.n, row.lane, row.turns, row.keeps, value)


def is_first_lane(row: Tuple) -> bool:
    return row.lane == 0


def is_later_lane(row: Tuple) -> bool:
    return row.lane > 0


def next_lane(row: Tuple) -> Tuple:
    return Tuple(row.n, row.lane - 1, row.turns, row.keeps, row.value)


def left_branch(row: Tuple) -> bool:
    return row.lane % 2 == 0


def right_branch(row: Tuple) -> bool:
    return row.lane % 2 == 1


def one_level_down(row: Tuple) -> Tuple:
    return Tuple(row.n, row.lane // 2, row.turns, row.keeps, row.value)


def chain(length: int = 12) -> tw.Flow:
    """Busy operators in a row."""
    flow = tw.Flow("chain")
    rows = flow.source("in", Tuple)
    for number in range(length):
        rows = rows.process(work, state=Busy, name=f"busy {number}")
    rows.sink("out")
    return flow


def data_parallel(width: int = 12) -> tw.Flow:
    """Busy operators side by side, to which tuples are dealt, and a merge that puts them in order again."""
    flow = tw.Flow("data parallel")
    rows, lanes = flow.source("in", Tuple), []
    for i in range(width):
        mine = rows.filter(is_first_lane)
        lanes.append(mine.process(work, state=Busy, name=f"busy {i}"))
        rows = rows.filter(is_later_lane).map(next_lane)
    lanes[0].union(*lanes[1:], name="merge").sink("out")
    return flow


def tree(depth: int) -> tw.Flow:
    """A binary tree: each operator deals its tuples to two."""
    flow = tw.Flow("tree")
    level = [flow.source("in", Tuple).process(work, state=Busy, name="busy 0_0")]
    for height in range(1, depth):
        halves = [
            rows.filter(half).map(one_level_down)
            for rows in level
            for half in (left_branch, right_branch)
        ]
        level = [
            rows.process(work, state=Busy, name=f"busy {height}_{i}")
            for i, rows in enumerate(halves)
        ]
    level[0].union(*level[1:]).sink("out")
    return flow


FLOWS: Final[dict[str, Callable[..., tw.Flow]]] = {
    "chain": chain,
    "data parallel": data_parallel,
    "tree": tree,
}


def tuples(count: int, *, lanes: int, cost_us: float, keeps: int = ALL) -> pa.Table:
    """Input of a run: dealt to lanes by turns."""
    numbers = range(count)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "lane": pa.array([n % lanes for n in numbers], pa.int64()),
            "turns": pa.array([round(cost_us * turns_a_us())] * count, pa.int64()),
            "keeps": pa.array([keeps] * count, pa.int64()),
            "value": pa.array(numbers, pa.int64()),
        }
    )


@functools.cache
def turns_a_us() -> float:
    """Turns that a busy operator does in a microsecond of CPU time.

    From runs with and without turns, so that what a row costs besides falls out; the least of several, as a neighbour
    on the same core makes all slower.
    """
    _calibrating(0)
    none = min(_calibrating(0) for _ in range(3))
    some = min(_calibrating(_TURNS) for _ in range(5))
    return _TURNS * _ROWS / max(some - none, 1e-3) * 1e-6


def _calibrating(turns: int) -> float:
    """CPU time of one busy operator, s."""
    columns = {"n": range(_ROWS), "lane": [0] * _ROWS, "turns": [turns] * _ROWS}
    table = pa.table({**columns, "keeps": [ALL] * _ROWS, "value": range(_ROWS)})
    began = time.process_time()
    tw.run(chain(1), {"in": table}, threading="manual")
    return time.process_time() - began


@dataclasses.dataclass(frozen=True, slots=True)
class Ran:
    """A run.

    Attributes:
        rows_per_s: tuples a second that left after the warm-up, by the clock.
        mean_ms: how long a tuple was on its way from its entry.
        cores: processors in use.
        cpu_us: CPU time of the process a tuple that came.
        threads: workers at the end.
    """

    rows_per_s: float
    mean_ms: float
    cores: float
    cpu_us: float
    threads: int = 0

    @property
    def in_flight(self) -> float:
        """Tuples on their way at a time (Little's law): what others on the machine take of it drops out."""
        return self.rows_per_s * self.mean_ms * 1e-3


class Leaving:
    """Counts what leaves, by time."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.rows: list[int] = []

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.at.append(time.perf_counter())
        self.rows.append(batch.num_rows)

    def rate(self, warm_up: float = WARM_UP) -> float:
        """Tuples a second behind the first part."""
        total, seen, begin = sum(self.rows), 0, 0
        while begin < len(self.rows) - 1 and seen < warm_up * total:
            seen += self.rows[begin]
            begin += 1
        took = self.at[-1] - self.at[begin - 1] if begin else 0.0
        return (total - seen) / took if took > 0 else 0.0


def run(flow: tw.Flow, rows: pa.Table, *, step_rows: int = STEP_ROWS, **how: Any) -> Ran:
    """Runs a flow through :func:`thalweg.run`."""
    leaving = Leaving()
    wall, cpu = time.perf_counter(), time.process_time()
    result = tw.run(flow, {"in": rows}, {"out": tw.batches(leaving)}, chunk_rows=step_rows, **how)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    latency, came = result.progress.latency["out"], rows.num_rows
    return Ran(
        leaving.rate(), 1e3 * latency.mean, cpu / wall, 1e6 * cpu / came, result.progress.threads
    )


def under(policy: PickPolicy, threads: int) -> dict[str, Any]:
    """Arguments of a run under a plug-in, whose queues hold as many tuples as the simulated ones."""
    return {"options": tw.Options(threads=threads, policy=policy, queue_chunks=10)}
