"""Chains of operators that wait where the paper's compute, on real threads: twelve of them need no twelve processors.

All times are a hundred times the paper's: its source gives a tuple in 16 µs, ours in 1.6 ms. Replicas, bottlenecks and
threads follow from the ratio of cost and pace, which is the same.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import thalweg as tw
from thalweg.elasticity import Combined, Replicas, Utilization
from thalweg.stats import Change
from thalweg_lab.figures.c_stream.flows import Leaving

SCALE: Final = 100
#: As the simulated source: 80 µs a tuple end at five replicas (Figure 9b).
PACE_US: Final = 16
MOST_THREADS: Final = 12
PERIOD_S: Final = 0.25


class Call(NamedTuple):
    """A tuple, and how long each operator waits for it."""

    n: int
    wait_us: int


def wait(call: Call) -> Call:
    time.sleep(call.wait_us * 1e-6)
    return call


def chain(busy: int) -> tw.Flow:
    """Operators that wait, in a row; replicas work on any."""
    flow = tw.Flow("waits")
    rows = flow.source("in", Call)
    for number in range(busy):
        # A filter would be fused; a stateless function behind a union is not.
        rows = rows.map_batches(same, into=Call, name=f"before {number}") if number else rows
        rows = rows.map(wait, name=f"busy {number}", compile=False)
    rows.sink("out")
    return flow


def same(batch: Any) -> Any:
    return batch


def paced(seconds: float, cost_us: float) -> Iterator[Call]:
    """Tuples at the source's pace, as far as there is room for them."""
    begin = time.perf_counter()
    wait_us, number = round(SCALE * cost_us), 0
    while (now := time.perf_counter()) < begin + seconds:
        due = begin + number * SCALE * PACE_US * 1e-6
        if due > now:
            time.sleep(due - now)
        yield Call(number, wait_us)
        number += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Waited:
    """Tuples a second that left in the second half, what was changed, and what there was at the end."""

    rows_per_s: float
    changes: tuple[Change, ...]
    threads: int

    def replicas(self, operator: str) -> int:
        """How many an operator has at the end."""
        mine = [one.after for one in self.changes if one.operator == operator and not one.refused]
        return mine[-1] if mine else 1


def elastic(busy: int, cost_us: float, seconds: float) -> Waited:
    """By utilization and congestion, as in section 5.2."""
    controller = Combined(Utilization(), Replicas())
    return _run(
        busy, cost_us, seconds, threads=MOST_THREADS, controller=controller, period_s=PERIOD_S
    )


def alone(busy: int, cost_us: float, seconds: float) -> Waited:
    """One thread, one replica."""
    return _run(busy, cost_us, seconds, threads=1)


def dedicated(busy: int, cost_us: float, seconds: float) -> Waited:
    """A thread for each operator, as an executor of Storm."""
    return _run(busy, cost_us, seconds, threading="dedicated")


def _run(busy: int, cost_us: float, seconds: float, **how: Any) -> Waited:
    leaving = Leaving()
    result = tw.run(
        chain(busy),
        {"in": paced(seconds, cost_us)},
        {"out": tw.batches(leaving)},
        chunk_rows=1,
        **how,
    )
    return Waited(leaving.rate(0.5), result.progress.changes, result.progress.threads)
