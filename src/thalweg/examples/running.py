"""What the examples share: run a flow over files to its end, on Spark or in this process, and show what it gave."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import typer

import thalweg as tw
from thalweg.brief import counted
from thalweg.checkpoint.paths import resolve
from thalweg.connectors.readers import Format, ReadOptions, list_files, read_file
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.operators.nodes import Sink
from thalweg.flow.records import Schema
from thalweg.printing import Table, Terminal, say


@dataclasses.dataclass(frozen=True, slots=True)
class ExampleInput:
    """A file or a folder and how it is read; options as for ``tw.spark.files``."""

    path: str
    format: Format
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """What a run gave: a table a sink, counts by operator, and how long it took."""

    flow: tw.Flow
    tables: Mapping[str, pa.Table]
    counts: Mapping[str, Mapping[str, int]]
    wall_s: float

    def rows(self, sink: str) -> list[dict[str, Any]]:
        """A sink's rows, times as microseconds."""
        rows: list[dict[str, Any]] = plain(self.tables[sink]).to_pylist()
        return rows

    def count(self, what: str) -> int:
        """A count summed over all operators: ``late``, ``rejected``."""
        return sum(one.get(what, 0) for one in self.counts.values())

    @property
    def rows_in(self) -> int:
        """Rows that the sources read, those that did not fit included."""
        sources = [node.name for node in self.flow.nodes if node.kind.value == "source"]
        return sum(self.counts.get(name, {}).get("in", 0) for name in sources)


def run(
    flow: tw.Flow, inputs: Mapping[str, ExampleInput], *, slots: int = 1, embedded: bool = False
) -> ExampleOutcome:
    """Runs a flow over files to their end, its outputs kept in memory."""
    started = time.perf_counter()
    if embedded:
        result = tw.run(flow, {name: read(flow, name, one) for name, one in inputs.items()})
        return ExampleOutcome(flow, result.sinks, result.counts, time.perf_counter() - started)
    from thalweg import spark

    spark.session(light_jvm=True)
    started = time.perf_counter()
    sinks = {name: spark.memory() for name in sink_schemas(flow)}
    given = {
        name: spark.files(one.path, format=one.format, **one.options)
        for name, one in inputs.items()
    }
    with tempfile.TemporaryDirectory(prefix="thalweg-") as folder:
        query = spark.start(
            flow, given, sinks, checkpoint=folder, slots=slots, trigger="available_now", end="drain"
        )
        query.await_termination()
    wall_s = time.perf_counter() - started
    schemas = sink_schemas(flow)
    tables = {
        name: sink.table if sink.table.num_columns else schemas[name].arrow.empty_table()
        for name, sink in sinks.items()
    }
    return ExampleOutcome(flow, tables, query.counts, wall_s)


def sink_schemas(flow: tw.Flow) -> dict[str, Schema]:
    """The record that each sink gets."""
    return {node.name: node.record for node in flow.nodes if isinstance(node, Sink)}


def read(flow: tw.Flow, source: str, given: ExampleInput) -> pa.Table:
    """The rows of an input that fit, as the source's record.

    Raises:
        DataError: a row does not fit.
    """
    record = next(node.out for node in flow.nodes if node.name == source)
    assert record is not None
    fs, path = resolve(given.path)
    options = ReadOptions(format=given.format, **given.options)
    tables = [record.arrow.empty_table()]
    for file in list_files(fs, path):
        for part in read_file(fs, file.path, record, options, listed=file.look):
            if part.bad:
                raise tw.DataError(f"{file.path}: {part.bad[0].reason}\n  row: {part.bad[0].text}")
            tables.append(part.table.cast(record.arrow))
    return pa.concat_tables(tables)


def plain(table: pa.Table) -> pa.Table:
    """A table with its times as integers."""
    columns = {
        name: table.column(name).cast(pa.int64())
        if pa.types.is_timestamp(table.schema.field(name).type)
        else table.column(name)
        for name in table.schema.names
    }
    return pa.table(columns)


# -- for people ---------------------------------------------------------------------------------------------


def show(outcome: ExampleOutcome, sink: str, *, limit: int = 10) -> None:
    """Prints a sink's first rows and the totals."""
    console = Terminal()
    table = outcome.tables[sink]
    console.print(rows_table(outcome.flow, sink, table.slice(0, limit)))
    if table.num_rows > limit:
        console.print(f"… and {table.num_rows - limit:,} more")
    console.print(totals(outcome))


def rows_table(flow: tw.Flow, sink: str, table: pa.Table) -> Table:
    """Rows as a table for the terminal: times as ISO 8601, numbers to the right."""
    schema = sink_schemas(flow)[sink]
    out = Table(sink)
    for field in schema.fields:
        out.column(field.name, right=field.type.kind in (Kind.INT, Kind.FLOAT))
    columns = [_shown(table.column(field.name), field.type.kind) for field in schema.fields]
    for row in zip(*columns, strict=True):
        out.row(*row)
    return out


def _shown(column: pa.ChunkedArray, kind: Kind) -> list[str]:
    """A column as people read it; seconds only where there are any."""
    if kind is Kind.TIMESTAMP:
        column = column.cast(pa.int64())
    form: Callable[[Any], str] = {
        Kind.TIMESTAMP: lambda value: tw.times.text(value).replace("T", " ").removesuffix("Z"),
        Kind.FLOAT: "{:,.3f}".format,
        Kind.INT: "{:,}".format,
    }.get(kind, str)
    cells = ["–" if value is None else form(value) for value in column.to_pylist()]
    if kind is Kind.TIMESTAMP and all(cell.endswith(":00") for cell in cells):
        return [cell.removesuffix(":00") for cell in cells]
    return cells


def totals(outcome: ExampleOutcome) -> str:
    """One line: rows in, late, rejected, seconds, rows a second."""
    return (
        f"{counted(outcome.rows_in, 'row')} in, {outcome.count('late'):,} late, {outcome.count('rejected'):,} rejected;"
        f" {outcome.wall_s:.1f} s, {outcome.rows_in / max(outcome.wall_s, 1e-9):,.0f} rows/s"
    )


def command(main: Callable[..., None]) -> None:
    """Runs an example's ``main`` as a command; an error of ours is one message and exit code 1."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(main)
    try:
        app()
    except tw.ThalwegError as error:
        say(f"error: {error}")
        raise SystemExit(1) from None
