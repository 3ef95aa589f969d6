"""The commands of the generators: ``thalweg datagen clicks --out folder``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from thalweg.datagen.clicks import clickstream
from thalweg.datagen.writers import FORMATS, drip, write_files


def register(app: typer.Typer) -> None:
    """Adds the commands of this module to an app."""
    app.command("clicks")(clicks)


def clicks(
    out: Annotated[Path, typer.Option(help="Folder to write into; made when it is not there.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows.")] = 1_000_000,
    users: Annotated[int, typer.Option(min=1, help="How many users.")] = 100_000,
    days: Annotated[float, typer.Option(help="How many days the clicks span.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other rows.")] = 0,
    format: Annotated[str, typer.Option(help=" or ".join(FORMATS))] = "parquet",
    files: Annotated[int, typer.Option(min=1, help="How many files.")] = 8,
    disorder: Annotated[
        float, typer.Option(min=0, help="Rows come late by this many seconds at most.")
    ] = 0,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the clicks that come twice.")
    ] = 0,
    rate: Annotated[
        float, typer.Option(min=0, help="Rows a second; 0 writes as fast as it can.")
    ] = 0,
) -> None:
    """Write a web shop's clicks (ts, user, item, action) in order of arrival."""
    try:
        batches = clickstream(rows, users, seed, days, disorder_s=disorder, duplicates=duplicates)
        with Progress(transient=True) as progress:
            task = progress.add_task("writing clicks", total=rows)

            def advance(path: Path, done: int) -> None:
                progress.advance(task, done)

            if rate:
                size = -(-rows // files)
                paths = drip(batches, out, rate, rows_per_file=size, format=format, on_file=advance)
            else:
                paths = write_files(
                    batches, out, rows=rows, files=files, format=format, on_file=advance
                )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(f"{rows:,} clicks in {len(paths)} files in {out}")
