"""The embedded host: a flow run in this process, without Spark."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from thalweg.errors import BuildError, DataError
from thalweg.flow import Flow
from thalweg.operators.nodes import Source
from thalweg.plan import Plan, make_plan
from thalweg.readers import far_out, rows_from_table, times_within
from thalweg.records import Schema
from thalweg.runtime.build import prepare
from thalweg.runtime.chunks import Chunk
from thalweg.runtime.engine import CHUNK_ROWS, Engine, Leaving
from thalweg.times import EXTREME


@dataclasses.dataclass(slots=True)
class Result:
    """What an embedded run gave.

    ``sinks`` has a pyarrow table a sink, in the order of the flow; ``counts`` rows in, out, late and rejected by
    operator.
    """

    sinks: dict[str, pa.Table]
    counts: dict[str, dict[str, int]]
    _chunks: dict[str, list[Chunk]]

    def rows(self, sink: str) -> list[Any]:
        """A sink's output as records of the flow's classes."""
        return [row for chunk in self._chunks[sink] for row in chunk.rows()]


def run(flow: Flow, inputs: Mapping[str, Any], *, chunk_rows: int = CHUNK_ROWS) -> Result:
    """Runs a flow over bounded inputs in the calling thread and returns its outputs.

    Args:
        flow: the flow.
        inputs: by source name, in arrival order: a pyarrow table or record batch, or an iterable of records,
            of record batches or of tables.
        chunk_rows: about how many rows move at once; the output does not depend on it.

    Raises:
        BuildError: an input is missing, or there is none of that name.
        DataError: a row does not fit its record, or a function raised, under ``errors="fail"``.
    """
    plan = make_plan(flow)
    check_names(plan, inputs)
    engine = Engine(prepare(plan), chunk_rows=chunk_rows)
    out: dict[str, list[Chunk]] = {sink.name: [] for sink in plan.sinks}
    for source in plan.sources:
        for chunk, bad in chunks_of(source, inputs[source.name], chunk_rows):
            collect(plan, engine.feed(source.name, chunk, bad), out)
            for leaving in engine.advance():
                collect(plan, leaving, out)
    for leaving in engine.finish():
        collect(plan, leaving, out)
    tables = {
        sink.name: pa.Table.from_batches(
            [c.to_arrow() for c in out[sink.name]], schema=sink.record.arrow
        )
        for sink in plan.sinks
    }
    return Result(tables, engine.counts, out)


def check_names(plan: Plan, inputs: Mapping[str, Any]) -> None:
    """Refuses inputs that do not fit the flow's sources by name."""
    names = {source.name for source in plan.sources}
    for missing in sorted(names - inputs.keys()):
        raise BuildError(
            f"flow {plan.flow!r} has a source {missing!r}, but no input of that name was given"
        )
    for extra in sorted(inputs.keys() - names):
        raise BuildError(
            f"flow {plan.flow!r} has no source {extra!r}; it has {', '.join(sorted(names))}"
        )


def collect(plan: Plan, leaving: Leaving, out: dict[str, list[Chunk]]) -> None:
    """Adds what left through sinks to the lists of each sink."""
    for edge, chunks in leaving.items():
        out[plan.node(edge.node).name] += chunks


def chunks_of(
    source: Source, data: Any, chunk_rows: int
) -> Iterator[tuple[Chunk, list[tuple[str, str, str]]]]:
    """An input as chunks of the source's record, each with the rows that do not fit."""
    if isinstance(data, pa.RecordBatch):
        data = pa.table(data)
    if isinstance(data, pa.Table):
        for start in range(0, max(data.num_rows, 1), chunk_rows):
            yield table_chunk(source, data.slice(start, chunk_rows), start)
        return
    if not isinstance(data, Iterable):
        raise BuildError(
            f"input {source.name!r}: expected a pyarrow table or rows, got {type(data).__name__}"
        )
    rows: list[Any] = []
    bad: list[tuple[str, str, str]] = []
    arrived = 0
    for place, row in enumerate(data):
        if isinstance(row, (pa.RecordBatch, pa.Table)):
            table = pa.table(row) if isinstance(row, pa.RecordBatch) else row
            yield table_chunk(source, table, arrived)
            arrived += table.num_rows
            continue
        try:
            rows.append(fitted(source, _as_tuple(row, source.record)))
        except (TypeError, KeyError) as error:
            reject(source, str(error), f"row {place}", repr(row), bad)
        if len(rows) >= chunk_rows:
            yield Chunk.from_rows(source.record, rows), bad
            rows, bad = [], []
    yield Chunk.from_rows(source.record, rows), bad


def fitted(source: Source, row: Any) -> Any:
    """A row as the source's record, with a place in time.

    Raises:
        TypeError: a field does not fit, or the event time is too far out.
    """
    made = source.record.coerce(row)
    if source.order_by is not None and abs(getattr(made, source.order_by)) > EXTREME:
        raise TypeError(far_out(source.order_by, getattr(made, source.order_by)))
    return made


def _as_tuple(row: Any, schema: Schema) -> Any:
    if isinstance(row, Mapping):
        return tuple(row.get(name) for name in schema.names)
    return row


def reject(
    source: Source, reason: str, position: str, text: str, bad: list[tuple[str, str, str]]
) -> None:
    """Under ``errors="reject"`` keeps the row for the rejected stream, else raises."""
    if source.errors == "fail":
        raise DataError(
            f"source {source.name!r}: {position} does not fit {source.record.name}: {reason}\n  row: {text:.300}\n"
            "  to go on without such rows, set errors='reject' on the source and read its .rejected stream"
        )
    bad.append((reason, position, text[:300]))


def table_chunk(
    source: Source, table: pa.Table, first: int
) -> tuple[Chunk, list[tuple[str, str, str]]]:
    """A table as a chunk of the source's record; rows with nulls where none may be do not fit."""
    parsed = rows_from_table(table, source.record, first)
    if source.order_by is not None:
        parsed = times_within(parsed, source.order_by)
    bad: list[tuple[str, str, str]] = []
    for one in parsed.bad:
        reject(source, one.reason, f"row {one.position}", one.text, bad)
    return Chunk.from_arrow(source.record, parsed.table), bad
