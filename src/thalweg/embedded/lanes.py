"""The lanes of the inputs of an embedded run: known at once where all rows are in memory, else at their end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from thalweg.connectors import RowSource
from thalweg.engine.contract import Engine
from thalweg.engine.watermarks.lanes import LaneGate, lanes_of_table
from thalweg.flow.operators.lanes import lane_order, unknown_until_the_end
from thalweg.flow.operators.nodes import Source
from thalweg.plan.plan import Plan


def refuse_unknown_lanes(plan: Plan, sources: Mapping[str, RowSource]) -> None:
    """Refuses inputs that may never end for sources whose lanes are those of the whole input.

    Raises:
        BuildError: there is one; it names the choices.
    """
    for source in plan.sources:
        if source.keeps_lanes and source.lanes is None and sources[source.name].live:
            why = "its rows come as they come and may never end"
            raise unknown_until_the_end(source.name, str(source.lane), why)


def tell_lanes(engine: Engine, inputs: Mapping[str, Any]) -> None:
    """Tells an engine the lanes of inputs that are in memory, so that their rows need not wait for the end."""
    for name, gate in engine.gates.items():
        if isinstance(gate, LaneGate) and gate.expected is None:
            gate.known = _lanes_of(gate.node, inputs[name])


def _lanes_of(source: Any, given: Any) -> tuple[Any, ...] | None:
    """The lanes of all rows; None where that would take more than a look at each."""
    try:
        if isinstance(given, pa.RecordBatch):
            given = pa.table(given)
        if isinstance(given, pa.Table):
            return lanes_of_table(source, given.column(source.column(str(source.lane))))
        if not isinstance(given, Collection):
            return None
        return _lanes_of_rows(source, given)
    except (TypeError, KeyError, IndexError, pa.ArrowException):
        # A row that does not fit, say, which is told when its turn comes.
        return None


def _lanes_of_rows(source: Source, rows: Collection[Any]) -> tuple[Any, ...]:
    assert source.lane is not None
    record, column = source.record, source.column(source.lane)
    place, take = record.index(source.lane), record.field(source.lane).type.take
    found = {row.get(column) if isinstance(row, Mapping) else row[place] for row in rows}
    return tuple(sorted({take(lane, record.reading) for lane in found}, key=lane_order))
