"""``thalweg bench`` and ``thalweg datagen nexmark``: commands of the lab, a distribution of its own (folder lab/)."""

from __future__ import annotations

import importlib
from typing import Any, Final

import typer

_TEXT: Final = "Measure: the papers' experiments, and other systems."
_MISSING: Final = """\
error: the experiments are a distribution of their own, which is not installed.
Get the source and install both there: pip install -e '.[bench]' -e lab"""


def register(app: typer.Typer) -> None:
    """Adds the lab's commands where it is installed, else one that says how to get it."""
    commands = _commands()
    if commands is None:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command("bench", help=_TEXT, context_settings=anything)(_missing)
        return
    group = typer.Typer(help=_TEXT, no_args_is_help=True, rich_markup_mode=None)
    commands.register(group)
    app.add_typer(group, name="bench")


def register_datagen(group: typer.Typer) -> None:
    """Adds the lab's generators where it is installed."""
    commands = _commands()
    if commands is not None:
        commands.register_datagen(group)


def _commands() -> Any | None:
    """The lab's module of commands; None where it is not installed."""
    try:
        return importlib.import_module("thalweg_lab.command")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "thalweg_lab":
            raise
        return None


def _missing(context: typer.Context) -> None:
    typer.echo(_MISSING, err=True)
    raise typer.Exit(1)
