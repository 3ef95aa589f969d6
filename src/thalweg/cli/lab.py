"""``thalweg bench``: the experiments of the lab, a distribution of its own (folder lab/ of the source)."""

from __future__ import annotations

import importlib
from typing import Final

import typer

_TEXT: Final = "Measure: the papers' experiments, and other systems."
_MISSING: Final = """\
error: the experiments are a distribution of their own, which is not installed.
Get the source and install both there: pip install -e '.[bench]' -e lab"""


def register(app: typer.Typer) -> None:
    """Adds the lab's commands where it is installed, else one that says how to get it."""
    try:
        commands = importlib.import_module("thalweg_lab.command")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "thalweg_lab":
            raise
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command("bench", help=_TEXT, context_settings=anything)(_missing)
        return
    group = typer.Typer(help=_TEXT, no_args_is_help=True, rich_markup_mode=None)
    commands.register(group)
    app.add_typer(group, name="bench")


def _missing(context: typer.Context) -> None:
    typer.echo(_MISSING, err=True)
    raise typer.Exit(1)
