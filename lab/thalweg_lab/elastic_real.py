"""Flows on this machine's processors at fixed numbers of threads, and under a controller while rows go in.

Both are fed the same way and for as long as it takes: rows are made, cut into steps and handed over by one thread,
which waits where the engine has no room. Only what goes in once queues are full counts.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from thalweg.connectors import as_source, never
from thalweg.connectors.contracts import Feed
from thalweg.datagen import parametric
from thalweg.elasticity import Controller, Limits, ThreadLevels
from thalweg.engine.build import prepare
from thalweg.engine.contract import Engine
from thalweg.engine.serial import SerialEngine
from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import make_plan
from thalweg.simulate.elastic import LAST_SAMPLES
from thalweg.stats import Change
from thalweg.workers.elastic import ElasticThreads
from thalweg.workers.engine import ParallelEngine
from thalweg.workers.options import Options

#: Rows of a step at most ...
_CHUNK_ROWS: Final = 64
#: ... and how long one thread works on one at most, µs, where rows are not dearer: steps are to be short in a period.
_CHUNK_US: Final = 50_000
#: Rows that are made at once where there is no end of them.
_PIECE_ROWS: Final = 100_000


class FlowOfSteps(NamedTuple):
    """A flow that reads ``tuples``, and how many rows a step of it has."""

    flow: Flow
    chunk_rows: int

    @classmethod
    def of(cls, flow: Flow, row_us: float) -> FlowOfSteps:
        """With as many rows a step as suit what a row costs all operators together, µs."""
        return cls(flow, max(1, min(_CHUNK_ROWS, int(_CHUNK_US / row_us))))


@dataclasses.dataclass(frozen=True, slots=True)
class Adapted:
    """A run under a controller.

    Attributes:
        levels: threads, by period.
        rows_per_s: rows a second that went in, by period.
        changes: what was done and refused.
        period_s: seconds of a period.
    """

    levels: list[int]
    rows_per_s: list[float]
    changes: tuple[Change, ...]
    period_s: float

    @property
    def settled_after(self) -> int:
        """In which period the last change was made; 0 without any."""
        done = [change.seconds for change in self.changes if not change.refused]
        return round(max(done, default=0.0) / self.period_s)

    @property
    def last_rows_per_s(self) -> float:
        """The mean of the last five periods."""
        return _last_mean(self.rows_per_s)

    @property
    def swing(self) -> int:
        """By how much threads varied in the last five periods."""
        last = self.levels[-LAST_SAMPLES:]
        return max(last) - min(last)


def static(graph: FlowOfSteps, how: Options | None, *, period_s: float) -> float:
    """Rows a second that go in: the mean of as many periods as count of an elastic run, behind one that fills queues.

    Args:
        graph: what is fed.
        how: threading of the engine; None is the serial one (threading ``manual``).
        period_s: of a period, s.
    """
    engine = _engine(graph, how)
    samples = _Samples(period_s)
    try:
        _feed(engine, graph.chunk_rows, lambda rows: samples.add(rows) > LAST_SAMPLES)
    finally:
        engine.stop()
    return _last_mean(samples.rates)


def adapt(
    graph: FlowOfSteps, controller: Controller, threads: int, *, periods: int, period_s: float
) -> Adapted:
    """Feeds a flow for so many periods of a controller that has up to so many threads."""
    engine = _parallel(graph, Options(threads=threads))
    elastic = ElasticThreads(engine.workers, controller, period_s=period_s)
    samples = _Samples(period_s, lambda: elastic.threads)
    try:
        elastic.start()
        _feed(engine, graph.chunk_rows, lambda rows: samples.add(rows) >= periods)
    finally:
        elastic.stop()
        engine.stop()
    return Adapted(samples.levels, samples.rates, tuple(elastic.changes), period_s)


@dataclasses.dataclass(frozen=True, slots=True)
class WatchCost:
    """What measuring and deciding cost a run in which they change nothing.

    Attributes:
        share: processor time of the thread that measures and decides, as a share of the process's.
        cpu_per_row: processor time a row, as a multiple of that of a run without it.
    """

    share: float
    cpu_per_row: float


def watched(graph: FlowOfSteps, threads: int, *, seconds: float, period_s: float) -> WatchCost:
    """Two runs of so many seconds at one level, without and with a controller, which has no other level to go to."""
    alone, _ = _cpu_a_row(graph, threads, seconds, None)
    cpu_per_row, share = _cpu_a_row(graph, threads, seconds, period_s)
    return WatchCost(share, cpu_per_row / alone)


def _cpu_a_row(
    graph: FlowOfSteps, threads: int, seconds: float, period_s: float | None
) -> tuple[float, float]:
    """Processor time a row, s, and the share of it that measuring and deciding took; ``period_s`` None: nobody does."""
    engine = _parallel(graph, Options(threads=threads))
    limits = Limits(threads, threads)
    elastic = ElasticThreads(
        engine.workers, ThreadLevels(), period_s=period_s or seconds, limits=limits
    )
    cpu, end = time.process_time(), time.perf_counter() + seconds
    try:
        if period_s is not None:
            elastic.start()
        rows = _feed(engine, graph.chunk_rows, lambda rows: time.perf_counter() >= end)
        cpu = time.process_time() - cpu
    finally:
        elastic.stop()
        engine.stop()
    return cpu / rows, elastic.cpu_s / cpu


def _engine(graph: FlowOfSteps, how: Options | None) -> Engine | ParallelEngine:
    if how is not None:
        return _parallel(graph, how)
    return SerialEngine(prepare(make_plan(graph.flow)), chunk_rows=graph.chunk_rows)


def _parallel(graph: FlowOfSteps, how: Options) -> ParallelEngine:
    return ParallelEngine(
        prepare(make_plan(graph.flow)),
        chunk_rows=graph.chunk_rows,
        options=how,
        leave=lambda edge, chunk, entry_ns: None,
    )


def _feed(engine: Engine | ParallelEngine, chunk_rows: int, is_over: Callable[[int], bool]) -> int:
    """Feeds chunks until that says so of the rows of the last one; how many rows went in."""
    count = 0
    for chunk, bad in _endless(engine.plan.sources[0], chunk_rows):
        engine.feed("tuples", chunk, bad)
        for _ in engine.advance():
            pass
        count += len(chunk)
        if is_over(len(chunk)):
            break
    return count


def _endless(source: Source, chunk_rows: int) -> Feed:
    """Chunks for a source, without an end."""
    for number in itertools.count():
        piece = parametric.table(_PIECE_ROWS, seed=number, start=number * _PIECE_ROWS)
        yield from as_source("tuples", piece).rows(source, chunk_rows, never())


def _last_mean(rates: Sequence[float]) -> float:
    return statistics.fmean(rates[-LAST_SAMPLES:])


class _Samples:
    """Rows and threads by period."""

    def __init__(self, period_s: float, threads: Callable[[], int] = lambda: 0) -> None:
        self.levels: list[int] = []
        self.rates: list[float] = []
        self._period_s = period_s
        self._threads = threads
        self._rows = 0
        self._began = time.perf_counter()

    def add(self, rows: int) -> int:
        """So many rows went in; gives the number of periods that are over."""
        self._rows += rows
        elapsed = time.perf_counter() - self._began
        if elapsed >= self._period_s:
            self.levels.append(self._threads())
            self.rates.append(self._rows / elapsed)
            self._rows, self._began = 0, time.perf_counter()
        return len(self.rates)
