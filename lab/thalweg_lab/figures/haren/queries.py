"""The queries of Haren's evaluation (Palyvos-Giannas et al., 7.1 and 7.4), as flows that anybody could write.

A query is a chain of operators, each with a cost of its own and a share of tuples that it lets through. An operator is
a function with state, so one thread at a time is in it, as in the paper, and it is no part of a fused chain. Machine
code runs it; the ends, a source that gives tuples when they are due and a function that is called with each tuple that
leaves, are plain Python. With ``by_batch`` both ends handle a batch of tuples at a time, so Python has little to do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

import thalweg as tw
from thalweg.connectors import RowSink

#: Operators of a chain, the paper's L.
LENGTH: Final = 12
#: The paper's queries of class HIGH, and of class LOW.
HIGH: Final = 3
LOW: Final = 10
#: Its tuples a second of each, and in a burst of HIGH, which takes a quarter of the time.
HIGH_PER_S: Final = 500.0
LOW_PER_S: Final = 1_000.0
BURST_PER_S: Final = 5_000.0
BURST_SHARE: Final = 0.25
#: Of the cores so much at most is what HIGH needs in a burst.
_BURST_LOAD: Final = 0.7
#: How often a source that gives batches does so, s.
_BATCH_S: Final = 0.005


class Tuple(NamedTuple):
    """A tuple: when the source was to forward it (the paper's clock time), and what each operator does with it."""

    due: int
    turns: int
    kept: int


@tw.state
class Work:
    """What an operator has: a number that it turns round and round, and one that says which tuples go on."""

    number: int = 12_345
    dealt: int = 0


def operate(work: Work, row: Tuple) -> Tuple | None:
    """An operator of the experiments: it works for so many turns and lets ``kept`` of 10,000 tuples through."""
    number = work.number
    for _ in range(row.turns):
        number = (number * 1_103_515_245 + 12_345) % 2_147_483_648
    work.number = number
    work.dealt = (work.dealt + 7_919) % 10_000
    return row if work.dealt < row.kept else None


def chain(name: str, length: int, *, own_ends: bool = False) -> tw.Flow:
    """A query: a source, so many operators, a sink; with ``own_ends`` the sink, in Python, has a thread of its own."""
    flow = tw.Flow(name)
    stream = flow.source("in", Tuple)
    for number in range(length):
        stream = stream.process(operate, state=Work, name=f"op{number}")
    with flow.threading("dedicated") if own_ends else contextlib.nullcontext():
        stream.sink("out")
    return flow


def ns_a_turn() -> float:
    """What a turn of an operator costs here, CPU ns: by the time of this thread, so others do not count."""
    rows = [Tuple(0, 2_000, 10_000)] * 5_000
    flow = chain("calibrating", 1)
    tw.run(flow, {"in": rows[:10]}, threading="manual")
    began = time.thread_time_ns()
    tw.run(flow, {"in": rows}, threading="manual")
    return (time.thread_time_ns() - began) / (2_000 * len(rows))


@dataclasses.dataclass(frozen=True)
class Rate:
    """Tuples a second; in bursts only for a share of each period."""

    per_s: float
    on_s: float = math.inf
    every_s: float = math.inf

    @property
    def mean_per_s(self) -> float:
        """On average."""
        return self.per_s if math.isinf(self.every_s) else self.per_s * self.on_s / self.every_s

    def due_s(self, until_s: float) -> Iterator[float]:
        """When tuples are due."""
        begins, at_s = 0.0, 0.0
        while at_s < until_s:
            yield at_s
            at_s += 1.0 / self.per_s
            if at_s - begins >= self.on_s:
                begins += self.every_s
                at_s = begins


@dataclasses.dataclass(frozen=True)
class ChainQuery:
    """A chain with its costs.

    Attributes:
        name: of its flow.
        rate: at which tuples are due.
        kept: the share of tuples that each operator lets through.
        weight: what an operator costs a tuple, as a multiple of the base cost.
        priority_class: 0 is HIGH, 1 LOW.
    """

    name: str
    rate: Rate
    kept: float
    weight: float
    length: int = LENGTH
    priority_class: int = 0

    @property
    def weight_a_tuple(self) -> float:
        """What a tuple of the source costs all operators, as a multiple of the base cost."""
        return self.weight * sum(self.kept**at for at in range(self.length))

    @property
    def load(self) -> float:
        """What it costs a second, as a multiple of the base cost."""
        return self.weight_a_tuple * self.rate.mean_per_s


def drawn(rates: list[Rate], *, seed: int, length: int = LENGTH, high: int = 0) -> list[ChainQuery]:
    """Queries as the paper draws them (7.1): a share in [0.01, 1] of tuples leaves, operators cost B·2^z, z in 0 to 4.

    Args:
        rates: by query.
        seed: of the draw.
        length: operators of each.
        high: how many of them are of class 0; the others are of class 1. 0: all are of class 0.
    """
    rng, made = random.Random(seed), []
    for number, rate in enumerate(rates):
        kept = rng.uniform(0.01, 1.0) ** (1 / length)
        weight = 2.0 ** rng.randint(0, 4) * rng.uniform(0.9, 1.1)
        urgent = not high or number < high
        made.append(ChainQuery(f"q{number}", rate, kept, weight, length, 0 if urgent else 1))
    return made


def two_classes(high: Rate, *, seed: int, load: float, length: int = LENGTH) -> list[ChainQuery]:
    """HIGH and LOW queries: the first draw from ``seed`` on in which a burst of HIGH alone is not too much.

    Args:
        load: of all of them, as a multiple of what the cores can do.
    """
    while True:
        made = drawn([high] * HIGH + [Rate(LOW_PER_S)] * LOW, seed=seed, length=length, high=HIGH)
        burst = sum(one.weight_a_tuple * one.rate.per_s for one in made[:HIGH])
        if burst * load / sum(one.load for one in made) <= _BURST_LOAD:
            return made
        seed += 1


# -- ends ------------------------------------------------------------------------------------------------------


class Clock:
    """When a run begins: sources wait for it, so that all begin at once."""

    begins_s: float = math.inf

    def wait_for(self, at_s: float) -> int:
        """Sleeps until so long after the begin; that moment, monotonic ns."""
        while (left := self.begins_s + at_s - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
        return round((self.begins_s + at_s) * 1e9)


def rows_of(query: ChainQuery, turns: int, seconds: float, clock: Clock) -> Iterator[Tuple]:
    """A source in plain Python: a tuple after the other, each when it is due."""
    kept = round(10_000 * query.kept)
    for at_s in query.rate.due_s(seconds):
        yield Tuple(clock.wait_for(at_s), turns, kept)


def batches_of(
    query: ChainQuery, turns: int, seconds: float, clock: Clock
) -> Iterator[pa.RecordBatch]:
    """The same tuples, those of a few milliseconds at a time, once the last one is due."""
    kept, waiting = round(10_000 * query.kept), list[float]()
    for at_s in query.rate.due_s(seconds):
        if waiting and at_s - waiting[0] >= _BATCH_S:
            # What is due only now, perhaps after a pause, is not waited for.
            yield _batch(waiting, turns, kept, clock)
            waiting = []
        waiting.append(at_s)
    if waiting:
        yield _batch(waiting, turns, kept, clock)


def _batch(waiting: list[float], turns: int, kept: int, clock: Clock) -> pa.RecordBatch:
    clock.wait_for(waiting[-1])
    begin, count = round(clock.begins_s * 1e9), len(waiting)
    columns = {
        "due": [begin + round(at_s * 1e9) for at_s in waiting],
        "turns": [turns] * count,
        "kept": [kept] * count,
    }
    return pa.record_batch(columns)


class LeftTimes:
    """What has left a query, noted by a sink's function: when, and since when it was due, monotonic ns."""

    def __init__(self) -> None:
        self.noted: list[tuple[int, int]] = []

    def row(self, row: Tuple) -> None:
        """Takes a tuple that leaves."""
        self.noted.append((time.monotonic_ns(), row.due))

    def batch(self, batch: pa.RecordBatch) -> None:
        """Takes those that leave together."""
        now = time.monotonic_ns()
        self.noted += [(now, due) for due in batch.column("due").to_pylist()]


def ends(
    query: ChainQuery, turns: int, seconds: float, clock: Clock, left: LeftTimes, *, by_batch: bool
) -> tuple[Any, RowSink]:
    """The input and the sink of a query."""
    if by_batch:
        return batches_of(query, turns, seconds, clock), tw.batches(left.batch)
    return rows_of(query, turns, seconds, clock), tw.each(left.row)
