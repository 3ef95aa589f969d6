"""``thalweg state diff`` and ``thalweg state copy``: what a changed flow would do to a checkpoint, and savepoints."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from thalweg.brief import counted
from thalweg.checkpoint.evolution.changes import StateChange
from thalweg.checkpoint.hosts import comparing, copying
from thalweg.cli.loading import load_flow
from thalweg.printing import Table, Terminal, plain


def diff(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint folder of a query.")],
    place: Annotated[
        str,
        typer.Argument(metavar="FLOW", help="The changed flow: FILE, FILE:NAME or MODULE:NAME."),
    ],
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An operator whose state may be given up; may be repeated."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Show what a flow would do to a checkpoint; nothing is written. Exit code 1 where a start would be refused."""
    found = comparing.diff(checkpoint, load_flow(place), drop=drop or ())
    if as_json:
        said = {"flow": found.flow, "batch": found.batch, "accepted": found.accepted}
        said["changes"] = [change._asdict() for change in found.changes]
        typer.echo(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(found)
    if not found.accepted:
        raise typer.Exit(1)


def _print(found: comparing.StateDiff) -> None:
    batch = f"at batch {found.batch}" if found.batch >= 0 else "empty"
    typer.echo(plain(f"checkpoint {found.location}, {batch}; flow {found.flow}\n"))
    out = Table()
    for name in ("state of", "change", "keys or rows", "why"):
        out.column(name, right=name == "keys or rows")
    for change in found.changes:
        rows = f"{change.rows:,}" if change.rows else ""
        out.row(change.name, change.kind, rows, _why(change))
    Terminal().print(out)
    refused = sum(change.is_refused for change in found.changes)
    said = f"{counted(refused, 'change')} refused" if refused else "a start goes on with it"
    typer.echo(plain(f"\n{said}; nothing was written"))


def _why(change: StateChange) -> str:
    parts: list[Any] = [f"was {change.was!r}"] if change.was else []
    parts += [change.why.lstrip(":, "), change.todo]
    return "; ".join(part for part in parts if part)


def copy(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint folder of a query.")],
    target: Annotated[str, typer.Argument(help="The folder of the copy, new or empty.")],
    batch: Annotated[
        int | None, typer.Option(help="A batch that is kept; the newest committed one without it.")
    ] = None,
) -> None:
    """Make a savepoint: a whole copy of a checkpoint at a committed batch, also while the query runs."""
    made = copying.copy(checkpoint, target, batch=batch)
    size = f"{made.bytes:,} bytes"
    typer.echo(
        plain(f"copied batch {made.batch} to {target}: {counted(made.files, 'file')}, {size}")
    )
