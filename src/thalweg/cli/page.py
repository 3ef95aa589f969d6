"""``thalweg page``: the page of a query of another process, by the file at its checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from thalweg.checkpoint.hosts.snapshot_file import read_snapshot
from thalweg.cli.interrupts import interrupts
from thalweg.page import Shown, serve_page
from thalweg.printing import say


def page(
    checkpoint: Annotated[
        str, typer.Argument(help="The checkpoint's folder, of a run in one process or on Spark.")
    ],
    at: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Where; a port alone is of this machine only.",
            show_default="a free port of this machine",
        ),
    ] = "",
) -> None:
    """Show in a browser what a query of any process does, or did before a crash, until Ctrl-C."""
    shown(checkpoint)
    server = serve_page(at or True, lambda: [shown(checkpoint)])
    try:
        with interrupts() as stop:
            say(f"page: {server.url}")
            say("Ctrl-C ends it; the query is not touched")
            while not stop.wait(3_600):
                pass
    finally:
        server.close()


def shown(checkpoint: str) -> Shown:
    """What the query's file says now.

    Raises:
        CheckpointError: there is none.
    """
    found = read_snapshot(checkpoint)
    seen = {
        "age_s": found.age_s,
        "pid": found.pid,
        "machine": found.machine,
        "is_alive": found.is_alive,
    }
    return Shown(found.snapshot, seen)
