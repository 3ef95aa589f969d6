"""The pre-pass over a batch: which pairs of keys will come together in it, before anything is routed.

It runs the operators before the first key on the batch's input, in a task of its own, and keeps nothing: no state is
read or written. Rows that will wait for their time are counted as if they came at once, so that their keys have a
place when they do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from thalweg.errors import ThalwegError
from thalweg.locality.links import Foreseen
from thalweg.operators.nodes import Keyed
from thalweg.runtime.build import Builder
from thalweg.runtime.chunks import Chunk, Column, Int64s
from thalweg.runtime.engine import Engine, Leaving
from thalweg.runtime.keyed_unit import KeyFinder
from thalweg.runtime.keys import KeySpec
from thalweg.spark.gates import GateState, set_gate_facts
from thalweg.spark.inputs import receive, source_chunks
from thalweg.spark.map_in_arrow import map_in_arrow
from thalweg.spark.worker import StageJob, plan_of

#: Pairs of a batch that are looked at, the most frequent; keys of others go by hash.
MOST: Final = 100_000

_FRAME: Final = "link int, left binary, right binary, tuples long"
#: A pair: the place of its :class:`Read`, its keys as ordered bytes, and how often it comes.
PAIRS: Final = pa.schema(
    [
        pa.field("link", pa.int32()),
        pa.field("left", pa.binary()),
        pa.field("right", pa.binary()),
        pa.field("tuples", pa.int64()),
    ]
)


class Read(NamedTuple):
    """A link as a task knows it: by the indices of its operators and of the one at whose input both keys are read."""

    first: int
    left: int
    right: int


#: Runs the pre-pass over a batch: a table of PAIRS.
ReadPairs: TypeAlias = Callable[[Sequence[Read]], pa.Table]


def reads_of(links: Sequence[Foreseen], nodes: Mapping[str, Keyed]) -> list[Read]:
    """The links for a task."""
    return [
        Read(one.first.index, nodes[one.link[0]].index, nodes[one.link[1]].index) for one in links
    ]


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
            found = _Pairs(job, reads).of(iter(batches))
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
        _ENGINES[job.fingerprint] = Engine(prepared, stage=0, chunk_rows=job.chunk_rows)
    engine = _ENGINES[job.fingerprint]
    for gate in engine.gates.values():
        set_gate_facts(gate, None)
        GateState(gate).load([])
    engine.resume()
    return engine


class _Pairs:
    """Counts the pairs of a batch."""

    def __init__(self, job: StageJob, reads: Sequence[Read]) -> None:
        self._job = job
        self._reads = reads
        self._engine = _engine(job)
        self._finders = {read.first: self._finder(read.first) for read in reads}
        self._parts: list[pa.Table] = []

    def _finder(self, index: int) -> KeyFinder:
        node = self._engine.plan.node(index)
        assert isinstance(node, Keyed)
        # Rows whose key function raises are the batch's affair.
        rejecting = dataclasses.replace(node, errors="reject")
        return KeyFinder(node, Builder(plan_of(self._job)).key(rejecting))

    def of(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        """All pairs, the most frequent first."""
        for leaving in self._run(batches):
            for edge, chunks in leaving.items():
                for chunk in chunks:
                    self._take(edge.node, chunk)
        if not self._parts:
            return PAIRS.empty_table()
        found = _summed(pa.concat_tables(self._parts))
        order = [("tuples", "descending"), *((name, "ascending") for name in PAIRS.names[:3])]
        return found.sort_by(order).slice(0, MOST)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Leaving]:
        """What comes to the first operators by key."""
        engine, sources = self._engine, self._engine.plan.sources
        received = receive(batches, len(sources))
        for place, tables in received.frames.items():
            source = sources[place]
            options = self._job.options[source.name]
            for chunk, _ in source_chunks(source, options, tables, self._job.chunk_rows):
                yield engine.feed(source.name, chunk)
        yield from engine.advance(everything=True)

    def _take(self, first: int, chunk: Chunk) -> None:
        mine = [(place, read) for place, read in enumerate(self._reads) if read.first == first]
        if not mine:
            return
        columns, places, _ = self._finders[first].find(chunk)
        for place, read in mine:
            left, right = (
                columns if end == first else self._carried(end, chunk, places)
                for end in (read.left, read.right)
            )
            keys = [self._spec(read.left).ordered_bytes(left, len(places))]
            keys.append(self._spec(read.right).ordered_bytes(right, len(places)))
            link = pa.array(np.full(len(places), place, np.int32))
            ones = pa.array(np.ones(len(places), np.int64))
            self._parts.append(_summed(pa.table([link, *keys, ones], schema=PAIRS)))

    def _spec(self, index: int) -> KeySpec:
        node = self._engine.plan.node(index)
        assert isinstance(node, Keyed)
        return KeySpec(node.key.fields)

    def _carried(self, index: int, chunk: Chunk, places: Int64s) -> list[Column]:
        """The key of an operator further on, which the rows have already."""
        return [chunk.column(name).take(places) for name in self._spec(index).names]


def _summed(pairs: pa.Table) -> pa.Table:
    """Each pair once."""
    names = PAIRS.names
    summed = pairs.group_by(names[:3], use_threads=False).aggregate([("tuples", "sum")])
    return summed.select([*names[:3], "tuples_sum"]).rename_columns(names)
