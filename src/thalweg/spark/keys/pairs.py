"""The pre-pass over a batch: which pairs of keys will come together in it, before anything is routed.

It runs the operators before the first key on the batch's input, in a task of its own, and keeps nothing: no state is
read or written. Rows that will wait for their time are counted as if they came at once, so that their keys have a
place when they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from thalweg.engine.contract import Engine, Leaving
from thalweg.engine.serial import SerialEngine
from thalweg.engine.stamps import stamped
from thalweg.engine.watermarks.gate_state import GateState, set_gate_facts
from thalweg.errors import ThalwegError
from thalweg.slots.pairs import PAIRS, PairReader, Read
from thalweg.spark.reading.received import receive, source_chunks
from thalweg.spark.tasks.map_in_arrow import map_in_arrow
from thalweg.spark.tasks.worker import StageJob, plan_of

_FRAME: Final = "link int, left binary, right binary, tuples long"
#: Runs the pre-pass over a batch: a table of PAIRS.
ReadPairs: TypeAlias = Callable[[Sequence[Read]], pa.Table]


def read_pairs(frame: DataFrame, job: StageJob, reads: Sequence[Read]) -> pa.Table:
    """Runs the pre-pass.

    Args:
        frame: the tagged inputs of the batch.
        job: of the batch.
        reads: the links to look at.
    """
    body = pairs_body(job, reads)
    return map_in_arrow(frame.coalesce(1), body, _FRAME).toArrow()


def pairs_body(
    job: StageJob, reads: Sequence[Read]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What the task of the pre-pass does.

    A failure that is the user's gives no pairs: the batch itself comes to the same row and tells.
    """

    def body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            found = _pairs(job, reads, iter(batches))
        except ThalwegError:
            found = PAIRS.empty_table()
        yield from found.to_batches()

    return body


#: By plan, the engine of the operators before the first key; one plan at a time.
_ENGINES: Final[dict[str, Engine]] = {}


def _engine(job: StageJob) -> Engine:
    """An engine whose gates know nothing."""
    prepared = plan_of(job)
    if job.fingerprint not in _ENGINES:
        _ENGINES.clear()
        _ENGINES[job.fingerprint] = SerialEngine(prepared, stage=0, chunk_rows=job.chunk_rows)
    engine = _ENGINES[job.fingerprint]
    for gate in engine.gates.values():
        set_gate_facts(gate, None)
        GateState(gate).load([])
    engine.resume()
    return engine


def _pairs(job: StageJob, reads: Sequence[Read], batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """All pairs of a batch, the most frequent first."""
    reader = PairReader(plan_of(job), reads)
    for leaving in _steps(job, batches):
        for edge, chunks in leaving.items():
            for chunk in chunks:
                reader.take(edge.node, chunk)
    return reader.pairs()


def _steps(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Leaving]:
    """What comes to the first operators by key."""
    engine = _engine(job)
    sources = engine.plan.sources
    received = receive(batches, len(sources))
    for place, tables in received.frames.items():
        source = sources[place]
        options = job.options[source.name]
        for chunk, _ in source_chunks(source.given, options, tables, job.chunk_rows):
            yield engine.feed(source.name, stamped(source, chunk, job.stamps.get(source.name, 0)))
    yield from engine.advance(everything=True)
