"""The commands of the generators: ``thalweg datagen clicks --out folder``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from thalweg.brief import counted
from thalweg.datagen.calls import call_records
from thalweg.datagen.clicks import clickstream
from thalweg.datagen.sales import store_sales
from thalweg.datagen.writers import FORMATS, drip, write_files
from thalweg.printing import bar

Out = Annotated[Path, typer.Option(help="Folder to write into; made when it is not there.")]
Rows = Annotated[int, typer.Option(min=1, help="How many rows.")]
Days = Annotated[float, typer.Option(help="How many days the rows span.")]
Seed = Annotated[int, typer.Option(min=0, help="Another seed, other rows.")]
Format = Annotated[str, typer.Option(help=" or ".join(FORMATS))]
Files = Annotated[int, typer.Option(min=1, help="How many files.")]
Disorder = Annotated[
    float, typer.Option(min=0, help="Rows come late by this many seconds at most.")
]
Duplicates = Annotated[float, typer.Option(min=0, max=1, help="Share of the rows that come twice.")]
Rate = Annotated[float, typer.Option(min=0, help="Rows a second; 0 writes as fast as it can.")]


def register(app: typer.Typer) -> None:
    """Adds the commands of this module to an app."""
    for name, does in commands().items():
        app.command(name)(does)


def commands() -> dict[str, Callable[..., None]]:
    """The commands of this module by name."""
    return {"clicks": clicks, "sales": sales, "calls": calls}


def clicks(
    out: Out,
    rows: Rows = 1_000_000,
    users: Annotated[int, typer.Option(min=1, help="How many users.")] = 100_000,
    days: Days = 7,
    seed: Seed = 0,
    format: Format = "parquet",
    files: Files = 8,
    disorder: Disorder = 0,
    duplicates: Duplicates = 0,
    rate: Rate = 0,
) -> None:
    """Write a web shop's clicks (ts, user, item, action) in order of arrival."""
    made = functools.partial(
        clickstream, rows, users, seed, days, disorder_s=disorder, duplicates=duplicates
    )
    _write("clicks", made, out, rows, format, files, rate)


def sales(
    out: Out,
    rows: Rows = 1_000_000,
    customers: Annotated[int, typer.Option(min=1, help="How many customers.")] = 50_000,
    days: Days = 28,
    seed: Seed = 0,
    format: Format = "parquet",
    files: Files = 8,
    disorder: Disorder = 0,
    duplicates: Duplicates = 0,
    rate: Rate = 0,
) -> None:
    """Write what a shop's stores sell, a row a line of a ticket, in order of arrival."""
    made = functools.partial(
        store_sales, rows, customers, seed, days, disorder_s=disorder, duplicates=duplicates
    )
    _write("sales", made, out, rows, format, files, rate)


def calls(
    out: Out,
    rows: Rows = 1_000_000,
    phones: Annotated[int, typer.Option(min=1, help="How many phones.")] = 20_000,
    days: Days = 7,
    seed: Seed = 0,
    format: Format = "parquet",
    files: Files = 8,
    disorder: Disorder = 0,
    duplicates: Duplicates = 0,
    rate: Rate = 0,
) -> None:
    """Write call records, some of them of phones that are in two places, in order of arrival."""
    made = functools.partial(
        call_records, rows, phones, seed, days, disorder_s=disorder, duplicates=duplicates
    )
    _write("calls", made, out, rows, format, files, rate)


def _write(
    what: str,
    made: Callable[[], Iterator[pa.RecordBatch]],
    out: Path,
    rows: int,
    format: str,
    files: int,
    rate: float,
) -> None:
    """Writes the batches and tells how it goes; an argument that is refused ends the command."""
    try:
        batches = made()
        with bar(f"writing {what}", rows) as more:

            def advance(path: Path, done: int) -> None:
                more(done)

            if rate:
                size = -(-rows // files)
                paths = drip(batches, out, rate, rows_per_file=size, format=format, on_file=advance)
            else:
                paths = write_files(
                    batches, out, rows=rows, files=files, format=format, on_file=advance
                )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(f"{rows:,} {what} in {counted(len(paths), 'file')} in {out}")
