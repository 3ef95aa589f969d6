"""The command lines of the queries: a flow over generated clicks or sales, and what it found."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Annotated

import pyarrow as pa
import typer

import thalweg as tw
from thalweg import datagen
from thalweg.examples import running

Rows = Annotated[int, typer.Option(min=1, help="How many rows to generate.")]
Days = Annotated[float, typer.Option(help="How many days they span.")]
Seed = Annotated[int, typer.Option(min=0, help="Another seed, other rows.")]
Slots = Annotated[int, typer.Option(min=1, help="Partitions of the keyed stages.")]
Embedded = Annotated[bool, typer.Option("--embedded", help="In this process, without Spark.")]

#: Rows arrive by so much at most after a row of later time; the queries wait longer.
DISORDER_S = 60


def over_clicks(flow: tw.Flow, sink: str) -> Callable[..., None]:
    """A command that runs a flow with the source ``clicks`` and shows a sink."""

    def main(
        rows: Rows = 200_000,
        days: Days = 7,
        seed: Seed = 0,
        slots: Slots = 1,
        embedded: Embedded = False,
    ) -> None:
        """Generate clicks and run the query over them."""
        clicks = datagen.clickstream(rows, seed=seed, days=days, disorder_s=DISORDER_S)
        run(flow, "clicks", clicks, rows, sink, slots=slots, embedded=embedded)

    return main


def over_sales(flow: tw.Flow, sink: str) -> Callable[..., None]:
    """A command that runs a flow with the source ``sales`` and shows a sink."""

    def main(
        rows: Rows = 200_000,
        days: Days = 28,
        seed: Seed = 0,
        slots: Slots = 1,
        embedded: Embedded = False,
    ) -> None:
        """Generate sales of stores and run the query over them."""
        sales = datagen.store_sales(rows, seed=seed, days=days, disorder_s=DISORDER_S)
        run(flow, "sales", sales, rows, sink, slots=slots, embedded=embedded)

    return main


def run(
    flow: tw.Flow,
    source: str,
    batches: Iterator[pa.RecordBatch],
    rows: int,
    sink: str,
    *,
    slots: int,
    embedded: bool,
) -> None:
    """Writes so many generated rows to files, runs the flow over them and shows a sink."""
    with tempfile.TemporaryDirectory(prefix=f"thalweg-{source}-") as folder:
        datagen.write_files(batches, folder, rows=rows, files=2)
        given = running.ExampleInput(folder, "parquet")
        outcome = running.run(flow, {source: given}, slots=slots, embedded=embedded)
    running.show(outcome, sink)
