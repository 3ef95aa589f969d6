"""``thalweg top``: what a query does, or did before a crash, seen from any process by the file at its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import orjson
import typer

from thalweg.checkpoint.hosts.snapshot_file import FoundSnapshot, read_snapshot
from thalweg.cli.interrupts import interrupts
from thalweg.printing import Terminal, plain
from thalweg.snapshot.shown import MARK, duration_text, head_lines, plain_table


def top(
    checkpoint: Annotated[
        str, typer.Argument(help="The checkpoint's folder, of a run in one process or on Spark.")
    ],
    once: Annotated[
        bool, typer.Option("--once", help="Print one table and end; so it does without a terminal.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the snapshot as JSON, once (docs/snapshot.md).")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Show what a query does, from any process, and which operator holds up the others."""
    found = read_snapshot(checkpoint)
    if as_json:
        typer.echo(json_of(found))
        return
    terminal = Terminal()
    if once or not terminal.is_terminal:
        typer.echo(plain("\n".join(text_lines(found))))
        return
    with interrupts() as stop, terminal.live() as screen:
        while True:
            lines = text_lines(found)
            screen.show(lines, [n for n, line in enumerate(lines) if line.startswith(MARK)])
            if is_over(found) or stop.wait(every):
                return
            found = read_snapshot(checkpoint)


def is_over(found: FoundSnapshot) -> bool:
    """Whether nothing more comes: the query has ended, or its process has gone."""
    return found.snapshot.status != "running" or found.is_alive is False


def lines_of(found: FoundSnapshot) -> list[str]:
    """What stands above the table: whether it is fresh, and what there is to say of the whole."""
    return [_fresh(found), *head_lines(found.snapshot)]


def _fresh(found: FoundSnapshot) -> str:
    age, where = duration_text(found.age_s), f"process {found.pid} on {found.machine}"
    if found.snapshot.status != "running":
        return f"{found.snapshot.status} {age} ago in {where}"
    if found.is_alive is False:
        return f"{where} is gone: this is what it did {age} ago"
    return f"{where}, {age} ago"


def text_lines(found: FoundSnapshot) -> Sequence[str]:
    """All of it as plain text."""
    return [*lines_of(found), *plain_table(found.snapshot)]


def json_of(found: FoundSnapshot) -> str:
    """The snapshot with its age and its process."""
    told = {
        "age_s": found.age_s,
        "pid": found.pid,
        "machine": found.machine,
        "is_alive": found.is_alive,
        "snapshot": found.snapshot.as_dict(),
        "read_at_s": time.time(),
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()
