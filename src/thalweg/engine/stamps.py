"""Stamps rows with the time at which they came, which never goes back and never lies behind the watermark.

Hosts stamp rows where they take them from an input, and those with a checkpoint log what they stamped. Nothing behind
this module knows a stamp from any other field.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from thalweg.columns.chunks import Chunk, Column
from thalweg.engine.watermarks.ingress import Gate
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import Plan
from thalweg.times import BEFORE_ALL


def wall_us() -> int:
    """The time by the clock on the wall, microseconds since 1970."""
    return time.time_ns() // 1_000


def stamped(source: Source, chunk: Chunk, stamp: int) -> Chunk:
    """Rows as the input has them, with the field that the host fills."""
    if source.stamp is None:
        return chunk
    place = source.record.index(source.stamp)
    values = np.full(len(chunk), stamp, np.int64)
    column = Column(source.record.fields[place].type, values)
    columns = [*chunk.columns[:place], column, *chunk.columns[place:]]
    return Chunk(source.record, columns, len(chunk), chunk.order)


def floor_of(gate: Gate) -> int:
    """The least stamp of the next row that is in order: behind all rows, and all that was decided of the source."""
    if not isinstance(gate.node, Source) or gate.node.stamp != gate.node.order_by:
        return BEFORE_ALL
    return max([gate.given_out, *gate.lanes.values(), *gate.idle.values()])


class Stamps:
    """The stamps of a flow's sources.

    Args:
        plan: the flow's.
        now_us: the clock on the wall; it may be set back.
    """

    def __init__(self, plan: Plan, now_us: Callable[[], int] = wall_us) -> None:
        self._now_us = now_us
        self._nodes = {source.name: source for source in plan.sources if source.stamp is not None}
        self._last = dict.fromkeys(self._nodes, BEFORE_ALL)

    def __bool__(self) -> bool:
        """Whether a source is stamped."""
        return bool(self._nodes)

    @property
    def names(self) -> list[str]:
        """The sources that are."""
        return list(self._nodes)

    def next(self, source: str, gates: Mapping[str, Gate]) -> int:
        """The stamp of the rows that come now."""
        stamp = max(self._now_us(), floor_of(gates[source]), self._last[source])
        self._last[source] = stamp
        return stamp

    def fill(self, source: str, chunk: Chunk, gates: Mapping[str, Gate]) -> Chunk:
        """Rows that come now, with their stamp; those of other sources as they are."""
        if source not in self._nodes:
            return chunk
        return stamped(self._nodes[source], chunk, self.next(source, gates))
