"""The waiting rows of a source as bucket state, so that they survive restarts like keyed state does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Chunk, Column
from thalweg.columns.ordering import renumbered, serials
from thalweg.engine.watermarks.ingress import Gate
from thalweg.plan.plan import SEQ, TIME
from thalweg.times import BEFORE_ALL


class GateState:
    """A gate's waiting rows in the form of :class:`thalweg.columns.contracts.BucketState`.

    A delta holds the rows that came in since the last save and still wait. What was released since is not
    written anywhere: the time up to which rows are gone stands with the gate's scalars in the commit record.
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        fields = [pa.field(f.name, f.type.arrow, f.type.optional) for f in self._schema.fields]
        extra = [pa.field(n, pa.int64(), False) for n in gate.order_names]
        self.schema = pa.schema([*fields, *extra, pa.field("_deleted", pa.bool_(), False)])

    @property
    def _schema(self) -> Any:
        return self.gate.node.out

    def __len__(self) -> int:
        return self.gate.waiting_rows

    @property
    def nbytes(self) -> int:
        """Memory of the waiting rows, bytes."""
        waiting = self.gate.waiting
        return 0 if waiting is None else sum(int(c.values.nbytes) for c in waiting.columns)

    @property
    def dirty(self) -> bool:
        """Whether rows came in since the last save that still wait, or all saved ones have gone."""
        return bool(len(self._fresh()))

    def _fresh(self) -> Chunk:
        waiting = self.gate.waiting
        if self.gate.saved == self.gate.arrived or waiting is None or not len(waiting):
            return Chunk.empty(self._schema, self.gate.order_names)
        first = serials(self.gate.node.index, self.gate.saved, 1)[0]
        return waiting.take(np.flatnonzero(waiting.order[SEQ] >= first))

    def delta(self) -> pa.RecordBatch:
        """The rows that came in and still wait."""
        return self._to_arrow(self._fresh())

    def snapshot(self) -> pa.RecordBatch:
        """All waiting rows."""
        nothing = Chunk.empty(self._schema, self.gate.order_names)
        return self._to_arrow(self.gate.waiting or nothing)

    def _to_arrow(self, chunk: Chunk) -> pa.RecordBatch:
        arrays = [column.to_arrow() for column in chunk.columns]
        arrays += [pa.array(chunk.order[name]) for name in self.gate.order_names]
        arrays.append(pa.array(np.zeros(len(chunk), np.bool_)))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def mark_saved(self) -> None:
        """What waits is on disk."""
        self.gate.saved = self.gate.arrived

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """The rows of all batches that had not been released."""
        self.gate.saved = self.gate.arrived
        self.gate.waiting = None
        parts = [self._from_arrow(batch) for batch in batches]
        if not parts:
            return
        whole = Chunk.concat(parts)
        self.gate.restore(whole.take(np.flatnonzero(whole.order[TIME] > self.gate.released)))

    def apply(self, deltas: Sequence[pa.RecordBatch]) -> None:
        """Adds rows that came in after the state held."""
        held = [] if self.gate.waiting is None else [self._to_arrow(self.gate.waiting)]
        self.load([*held, *deltas])

    def _from_arrow(self, batch: pa.RecordBatch) -> Chunk:
        columns = [Column.from_arrow(f.type, batch.column(f.name)) for f in self._schema.fields]
        names = self.gate.order_names
        order = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in names}
        # The source may stand elsewhere in the flow than when they were saved.
        order[SEQ] = renumbered(order[SEQ], self.gate.node.index)
        return Chunk(self._schema, columns, batch.num_rows, order)


def gate_facts(gate: Gate) -> dict[str, Any]:
    """The scalars of a gate as JSON values: its lanes' greatest times and how many rows arrived."""
    return {
        "lanes": [[lane, int(top)] for lane, top in gate.lanes.items()],
        "arrived": gate.arrived,
        "passed": gate.passed,
        "released": gate.released,
        "arrivals": [[lane, place] for lane, place in gate.arrivals.items()],
        **(
            {"idle": list(gate.idle.items()), "given_out": gate.given_out}
            if gate.may_be_idle
            else {}
        ),
        **gate.facts,
    }


def set_gate_facts(gate: Gate, facts: Mapping[str, Any] | None) -> None:
    """Brings a gate to what :func:`gate_facts` said."""
    gate.lanes = {lane: top for lane, top in facts["lanes"]} if facts else {}
    gate.arrived = gate.saved = facts["arrived"] if facts else 0
    gate.passed = facts.get("passed", BEFORE_ALL) if facts else BEFORE_ALL
    gate.released = facts.get("released", BEFORE_ALL) if facts else BEFORE_ALL
    gate.arrivals = dict(facts.get("arrivals", ())) if facts else {}
    gate.idle = {lane: time for lane, time in facts.get("idle", ())} if facts else {}
    gate.given_out = facts.get("given_out", gate.released) if facts else BEFORE_ALL
    gate.came.clear()
    gate.wakes = False
    if gate.idle and not gate.may_be_idle:
        gate.activate_all()
    gate.facts = dict(facts or {})
