"""The embedded host: a flow run in this process, without Spark."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from thalweg.errors import BuildError
from thalweg.flow import Flow
from thalweg.plan import Plan, make_plan
from thalweg.runtime.build import prepare
from thalweg.runtime.chunks import Chunk
from thalweg.runtime.engine import CHUNK_ROWS, Engine, Leaving
from thalweg.runtime.io import CollectSink, RowSink, as_source, choose_sinks, never, opened


@dataclasses.dataclass(slots=True)
class Result:
    """What an embedded run gave.

    ``sinks`` has a pyarrow table for each sink that collects, in the order of the flow; ``counts`` rows in, out, late
    and rejected by operator.
    """

    sinks: dict[str, pa.Table]
    counts: dict[str, dict[str, int]]
    _chunks: dict[str, list[Chunk]]

    def rows(self, sink: str) -> list[Any]:
        """A sink's output as records of the flow's classes.

        Raises:
            BuildError: there is no sink of that name, or its rows went elsewhere.
        """
        if sink not in self._chunks:
            known = ", ".join(sorted(self._chunks)) or "none"
            raise BuildError(f"no rows of a sink {sink!r} are kept; they are of: {known}")
        return [row for chunk in self._chunks[sink] for row in chunk.rows()]


def run(
    flow: Flow,
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any] | None = None,
    *,
    chunk_rows: int = CHUNK_ROWS,
) -> Result:
    """Runs a flow in the calling thread until its inputs end, and returns its outputs.

    Args:
        flow: the flow.
        inputs: by source name, in arrival order: a pyarrow table, rows (records, tuples, mappings, record batches or
            tables) as a collection or an iterator, or ``tw.files``, ``tw.tcp_lines``, ``tw.push_source``,
            ``tw.from_iterable``.
        sinks: by sink name, where rows go: ``tw.to_files``, ``tw.to_tcp``, ``tw.each``, or a function of a
            pyarrow.RecordBatch (``tw.batches``); the other sinks collect theirs for the result.
        chunk_rows: about how many rows move at once; the output does not depend on it.

    Raises:
        BuildError: an input is missing, there is no source or sink of a name, or what was given does not fit.
        DataError: a row does not fit its record, or a function raised, under ``errors="fail"``.
        EnvironmentProblem: a file cannot be written, or a peer cannot be reached.
    """
    plan = make_plan(flow)
    check_names(plan, inputs)
    sources = {source.name: as_source(source.name, inputs[source.name]) for source in plan.sources}
    chosen = choose_sinks(plan.flow, plan.sinks, sinks or {})
    engine = Engine(prepare(plan), chunk_rows=chunk_rows)
    with contextlib.ExitStack() as stack:
        for given in sources.values():
            stack.callback(given.close)
        feeds = {
            source.name: stack.enter_context(
                contextlib.closing(sources[source.name].rows(source, chunk_rows, never()))
            )
            for source in plan.sources
        }
        stack.enter_context(opened(plan.sinks, chosen))
        for name, feed in feeds.items():
            engine.setting.count(name)  # a source without rows is counted, too
            for chunk, bad in feed:
                _write(plan, engine.feed(name, chunk, bad), chosen)
                for leaving in engine.advance():
                    _write(plan, leaving, chosen)
        for leaving in engine.finish():
            _write(plan, leaving, chosen)
    return _result(plan, engine, chosen)


def _write(plan: Plan, leaving: Leaving, sinks: Mapping[str, RowSink]) -> None:
    """Gives what left through sinks to where their rows go."""
    for edge, chunks in leaving.items():
        for chunk in chunks:
            sinks[plan.node(edge.node).name].write(chunk)


def _result(plan: Plan, engine: Engine, sinks: Mapping[str, RowSink]) -> Result:
    kept = {name: sink.chunks for name, sink in sinks.items() if isinstance(sink, CollectSink)}
    tables = {
        sink.name: pa.Table.from_batches(
            [chunk.to_arrow() for chunk in kept[sink.name]], schema=sink.record.arrow
        )
        for sink in plan.sinks
        if sink.name in kept
    }
    return Result(tables, engine.counts, kept)


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
