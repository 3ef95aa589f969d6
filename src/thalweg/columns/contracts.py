"""What an operator's implementation takes and gives, compiled or interpreted: the seam the engine works through.

A stateless operator (or a fused chain of them) turns rows into rows; a keyed operator turns a chunk split by
bucket into rows of tuples and rows of timers. Both report *where* each output row came from, and the engine
alone turns that into the order of the stream. So a kernel never sees serials, order keys or punctuations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.state_units import StateUnits


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row on which a user's function raised, under ``errors="reject"``.

    ``row`` is the place in the input chunk, -1 when ``on_timer`` raised; ``operator`` the member of a fused
    chain that raised; ``reason`` the exception's type and text; ``value`` the row (or key) as text. ``time`` and
    ``key`` are the timer's where ``row`` is -1.
    """

    row: int
    operator: str
    reason: str
    value: str
    time: int = 0
    key: Any = None


@dataclasses.dataclass(slots=True)
class StatelessResult:
    """Output rows of a stateless operator, in input order.

    ``source`` gives for each output row the place of its input row (not decreasing); ``counts`` how many rows
    each member of the chain put out, in chain order.
    """

    columns: list[Column]
    source: Int64s
    counts: list[int]
    rejected: list[RejectedRow] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class KeyedResult:
    """Output rows of a keyed operator for one chunk, in no particular order between keys.

    ``source`` is the place of the input row for what a tuple produced and -1 for what a timer produced;
    outputs of one input row, and of one firing of a timer, stand together and in their order. ``time`` holds the
    timer's time where source is -1. ``timer_keys`` holds the key columns of exactly the rows whose source is -1,
    in the order of these rows. ``disarmed`` counts timers that were armed again while the stream was ending.
    """

    columns: list[Column]
    source: Int64s
    time: Int64s
    timer_keys: list[Column]
    disarmed: int = 0
    rejected: list[RejectedRow] = dataclasses.field(default_factory=list)


class StatelessOperator(Protocol):
    """A chain of map, filter and flat_map as one unit."""

    def __call__(self, chunk: Chunk) -> StatelessResult:
        """Runs the chain over all rows of the chunk."""


class KeyedOperator(Protocol):
    """A keyed operator with the state of the buckets that this slot owns.

    For each key: before a tuple at time t every timer of that key with time < t fires; a state that is not
    armed again when its on_timer returns is dropped. After the tuples, timers with time < watermark fire.
    """

    #: bucket -> state, of the buckets that this slot owns and that have or had keys
    tables: dict[int, Any]

    def table(self, bucket: int) -> BucketState:
        """The state of a bucket, made on first use."""

    def set_units(self, units: StateUnits) -> None:
        """By what the state is kept: a table a unit, a bucket or a group of pinned keys."""

    def expect(self, more: float) -> None:
        """Says how many rows come behind the next chunk, for each one so far: state may take room ahead."""

    def process(
        self,
        chunk: Chunk,
        keys: Sequence[Column],
        times: Int64s | None,
        watermark: int,
        *,
        ending: bool,
    ) -> KeyedResult:
        """Runs one chunk and the timers due below ``watermark``.

        Args:
            chunk: the input rows, in stream order; may be empty.
            keys: the key columns, a column a key field, of the chunk's length.
            times: event time of each row, not decreasing; None in a flow without order_by.
            watermark: no later row has a time below it; timers below it fire.
            ending: the stream is ending: an on_timer that arms again is disarmed and counted.
        """


class BucketState(Protocol):
    """The state of one bucket of one operator, as the state files see it.

    The Arrow form has the key fields, then the state fields, then ``_deleted`` (bool). A delta holds the keys
    written since the last :meth:`mark_saved`, a snapshot all of them (none deleted).
    """

    def __len__(self) -> int:
        """How many keys have a state."""

    @property
    def nbytes(self) -> int:
        """Memory held, bytes."""

    @property
    def dirty(self) -> bool:
        """Whether anything was written since the last :meth:`mark_saved`."""

    def delta(self) -> pa.RecordBatch:
        """What changed since the last :meth:`mark_saved`, with tombstones."""

    def snapshot(self) -> pa.RecordBatch:
        """Every key."""

    def mark_saved(self) -> None:
        """The delta or snapshot just taken is the state on disk from now on."""

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Becomes what a snapshot (or nothing) and deltas, oldest first, say; the result counts as saved."""

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        """Applies deltas, oldest first, on top of what is held; only when not dirty, and stays so."""


def no_rows() -> Int64s:
    """An empty int64 array."""
    return np.zeros(0, np.int64)
