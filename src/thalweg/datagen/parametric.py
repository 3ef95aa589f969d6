"""Parametric operators and inputs: flows of a given kind, cost a tuple, selectivity and skew, for experiments.

The work of an operator is a loop that no compiler shortens. How many turns take a microsecond is found once a process,
by CPU time and in a flow: what else the machine does has no part in it, and the loop is the one that operators run.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.flow.flow import Flow
from thalweg.flow.records import Timestamp
from thalweg.flow.state_class import state

Shape = Literal["stateless", "keyed"]
#: Key values of skewed inputs, as many as there are ranges in Prasaad et al., section 7.2.1.
RANGES: Final = 100
#: Turns of a row, and rows of two runs whose difference is taken.
_TURNS: Final = 20_000
_ROWS: Final = (16, 144)


class Tuple(NamedTuple):
    """What parametric operators read and give."""

    ts: Timestamp
    key: int
    value: int


@state
class Seen:
    """The state of a keyed parametric operator."""

    tuples: int = 0


@functools.cache
def turns_of_us() -> int:
    """How many turns of an operator's loop take a microsecond of CPU time here: the best of five measurements."""
    flow = Flow("calibration")
    flow.source("tuples", Tuple, order_by="ts").map(_turning(_TURNS), name="work").sink("out")
    few, many = (table(rows) for rows in _ROWS)
    _cpu_ns(flow, few)
    least = min(_cpu_ns(flow, many) - _cpu_ns(flow, few) for _ in range(5))
    turns = _TURNS * (many.num_rows - few.num_rows)
    return max(1, round(int(turns) * 1_000 / max(least, 1)))


def _cpu_ns(flow: Flow, rows: pa.Table) -> int:
    """CPU time of a run in this thread, ns."""
    from thalweg.embedded import run

    began = time.thread_time_ns()
    run(flow, {"tuples": rows}, threading="manual")
    return time.thread_time_ns() - began


def stateless(cost_us: float) -> Callable[[Tuple], Tuple]:
    """A function for ``map`` of so many microseconds a tuple."""
    return _turning(round(cost_us * turns_of_us()))


def _turning(turns: int) -> Callable[[Tuple], Tuple]:
    """A function for ``map`` of so many turns of the loop."""

    def work(row: Tuple) -> Tuple:
        value = row.value
        for _ in range(turns):
            value = (value * value + 12_345) % 2_147_483_647
        return Tuple(row.ts, row.key, value)

    return work


def expanding(count: int) -> Callable[[Tuple], Iterator[Tuple]]:
    """A function for ``flat_map`` with so many outputs a tuple."""

    def expand(row: Tuple) -> Iterator[Tuple]:
        for i in range(count):
            yield Tuple(row.ts, row.key, row.value + i)

    return expand


def keyed(cost_us: float) -> Callable[[Seen, Tuple], Tuple]:
    """A function for ``process`` behind ``key_by`` of so many microseconds a tuple."""
    turns = round(cost_us * turns_of_us())

    def work(seen: Seen, row: Tuple) -> Tuple:
        value = row.value
        for _ in range(turns):
            value = (value * value + 12_345) % 2_147_483_647
        seen.tuples += 1
        return Tuple(row.ts, row.key, value)

    return work


def one_operator(shape: Shape, cost_us: float, *, selectivity: int = 1) -> Flow:
    """A flow of one operator, behind a flat_map where the selectivity is not 1."""
    flow = Flow(f"parametric_{shape}")
    tuples = flow.source("tuples", Tuple, order_by="ts")
    if selectivity != 1:
        tuples = tuples.flat_map(expanding(selectivity), name="expand")
    if shape == "stateless":
        out = tuples.map(stateless(cost_us), name="work")
    else:
        out = tuples.key_by("key").process(keyed(cost_us), state=Seen, name="work")
    out.sink("out")
    return flow


def pipeline(operators: int, cost_us: float) -> Flow:
    """A flow of so many stateless operators in a row (Schneider & Wu, section 5.1).

    Neighbours treat errors differently, so that none of them are fused.
    """
    flow = Flow("parametric_pipeline")
    tuples = flow.source("tuples", Tuple, order_by="ts")
    work = stateless(cost_us)
    for i in range(operators):
        tuples = tuples.map(work, name=f"work{i}", errors="reject" if i % 2 else "fail")
    tuples.sink("out")
    return flow


def table(
    rows: int,
    *,
    sigma: float | None = None,
    keys: int = RANGES,
    top: float = 0.0,
    seed: int = 0,
    start: int = 0,
) -> pa.Table:
    """Tuples in order of time.

    Args:
        sigma: keys are values from N(0, sigma) within [-1, 1], scaled to whole numbers from 0 to below ``keys``
            (Prasaad et al., section 7.2.1): the smaller, the more skewed. None: a hundred thousand keys, all alike.
        keys: how many there are, under ``sigma``.
        top: this share of the tuples has one and the same key instead.
        seed: other tuples.
        start: the time of the first one, µs; the others follow one by one.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, 100_000, rows) if sigma is None else _normal(rng, rows, sigma, keys)
    drawn = np.where(rng.random(rows) < top, 7, drawn)
    return pa.table(
        {
            "ts": pa.array(np.arange(start, start + rows), pa.timestamp("us", "UTC")),
            "key": drawn,
            "value": rng.integers(0, 1_000, rows),
        }
    )


def equal_ranges(parts: int, keys: int = RANGES) -> list[int]:
    """Where each of so many equally wide ranges of keys begins, but the first."""
    return [keys * part // parts for part in range(1, parts)]


def _normal(rng: np.random.Generator, rows: int, sigma: float, keys: int) -> np.ndarray:
    values = rng.normal(0.0, sigma, rows)
    while (outside := np.abs(values) > 1.0).any():
        values[outside] = rng.normal(0.0, sigma, int(outside.sum()))
    return np.minimum(((values + 1.0) / 2.0 * keys).astype(np.int64), keys - 1)
