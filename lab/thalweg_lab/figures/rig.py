"""Runs of a flow through :func:`thalweg.run`, measured where rows leave it, once it is warm.

Other programs may want the processors, too. So beside a rate by the clock stands what a row took of the processors,
which they change less.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

import thalweg as tw
from thalweg.datagen import parametric

T = TypeVar("T")
#: Rows between two of those that the last operator lets through to be counted.
COUNTED: Final = 64
#: Rows of the table of which an endless input is made; a whole number of steps.
_PIECE_ROWS: Final = 16_384
#: Counts that a measurement needs at least.
_LEAST_COUNTS: Final = 6
#: Batches in which a table is fed.
_BATCHES: Final = 20


@tw.state
class SinkCount:
    """The local state of the paper's sink operator: how many tuples it has seen."""

    tuples: int = 0


def count(seen: SinkCount, row: parametric.Tuple) -> parametric.Tuple | None:
    """The last operator: counts, and lets one of many through, so that the sink's own cost is none to speak of."""
    seen.tuples += 1
    if seen.tuples % COUNTED == 0:
        return parametric.Tuple(row.ts, row.key, seen.tuples)
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Driven:
    """What left a flow a second, by the clock; and CPU time of the process a row, µs."""

    rows_per_s: float
    cpu_us: float


class Endless:
    """Rows without an end until the time is over, counted up in ``ts``; keys are 0, 1, ... up to ``keys`` in turn."""

    def __init__(self, seconds: float, batch_rows: int, keys: int) -> None:
        rows = _PIECE_ROWS // keys * keys
        self._table = parametric.table(rows)
        places = np.arange(rows)
        self._keys = pa.array(places % keys)
        self._places = places
        self._batch_rows = batch_rows
        self.end = time.monotonic() + seconds

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows = len(self._places)
        for piece in itertools.count():
            ts = pa.array(self._places + piece * rows, pa.timestamp("us", "UTC"))
            table = pa.table({"ts": ts, "key": self._keys, "value": self._table["value"]})
            for batch in table.to_batches(max_chunksize=self._batch_rows):
                if time.monotonic() >= self.end:
                    return
                yield batch


def drive(
    flow: tw.Flow, *, seconds: float, warm_s: float, chunk_rows: int, keys: int = 1_000, **how: Any
) -> Driven:
    """Feeds a flow whose last operator is :func:`count` for so long.

    Args:
        flow: it reads ``tuples``, and writes to ``out``.
        seconds: measured, behind ``warm_s`` that are not.
        chunk_rows: rows of a step.
        keys: as of :class:`Endless`.
        how: for :func:`thalweg.run`.
    """
    tw.run(flow, {"tuples": parametric.table(2 * chunk_rows)}, chunk_rows=chunk_rows, **how)
    seen: list[tuple[int, int, int]] = []

    def note(batch: pa.RecordBatch) -> None:
        counted = int(batch.column(2)[-1].as_py())
        seen.append((time.monotonic_ns(), time.process_time_ns(), counted))

    rows = Endless(warm_s + seconds, max(4 * chunk_rows, 256), keys)
    inputs = {"tuples": tw.from_iterable(rows)}
    tw.run(flow, inputs, {"out": tw.batches(note)}, chunk_rows=chunk_rows, **how)
    noted = np.array(seen, np.int64).reshape(-1, 3)
    warm = int(noted[:, 0].searchsorted((rows.end - seconds) * 1e9))
    end = int(noted[:, 0].searchsorted(rows.end * 1e9))
    steady = noted[max(warm - 1, 0) : end]
    # On a machine that others hold, what was on its way at the end counts, too, with the time that it took.
    return _driven(
        steady if len(steady) >= _LEAST_COUNTS else noted[max(min(warm, len(noted) - 2), 1) - 1 :]
    )


def _driven(noted: np.ndarray) -> Driven:
    """From times, CPU times and counts that rise."""
    if len(noted) < 2:
        raise RuntimeError(
            "nothing left the flow in the time that was measured: measure for longer"
        )
    whole = noted[-1] - noted[0]
    return Driven(float(whole[2] / whole[0]) * 1e9, float(whole[1] / whole[2]) * 1e-3)


@dataclasses.dataclass(frozen=True, slots=True)
class Finite:
    """A run over rows that are there: rows a second from the first fifth on until all had left; CPU time a row, µs.

    ``result`` is that of the last run.
    """

    rows_per_s: float
    cpu_us: float
    result: tw.embedded.Result

    def latency(self) -> tuple[float, float]:
        """Mean and p99 over all sinks, s: from a row's release into the flow until what came of it left."""
        found = self.result.progress.latency.values()
        rows = sum(one.count for one in found)
        mean = sum(one.mean * one.count for one in found) / max(rows, 1)
        return mean, max((one.p99 for one in found), default=0.0)


class _TimedTable:
    """Batches of a table, with the time at which the engine asked for each."""

    def __init__(self, table: pa.Table, rows: int) -> None:
        self._batches = table.to_batches(max_chunksize=rows)
        self.asked: list[tuple[float, float, int]] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        given = 0
        for batch in self._batches:
            self.asked.append((time.perf_counter(), time.process_time(), given))
            given += batch.num_rows
            yield batch


def finite(
    flow: tw.Flow, source: str, table: pa.Table, *, chunk_rows: int | None, options: tw.Options
) -> Finite:
    """Runs a flow once over a table, fed batch by batch, and takes the time from its first fifth on."""
    fed = _TimedTable(table, max(table.num_rows // _BATCHES, chunk_rows or 1))
    result = tw.run(flow, {source: tw.from_iterable(fed)}, chunk_rows=chunk_rows, options=options)
    wall, cpu = time.perf_counter(), time.process_time()
    began, cpu_began, before = fed.asked[len(fed.asked) // 5]
    rows = table.num_rows - before
    return Finite(rows / (wall - began), 1e6 * (cpu - cpu_began) / rows, result)


def in_turn(ways: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """Runs the ways one after the other, again and again, so that all meet the same machine."""
    found: dict[str, list[T]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(way())
    return found


def median(values: list[float]) -> float:
    """Of some values."""
    return statistics.median(values)
