"""The command ``thalweg``: run flows, look at plans and state, see a demo."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typer

from thalweg.cli import (
    cluster_demo,
    demo,
    heartbeat,
    lab,
    locality,
    page,
    partitions,
    plans,
    run,
    state,
    state_changes,
    top,
)
from thalweg.cli.failures import told, when_nobody_reads
from thalweg.datagen import cli as datagen

app = typer.Typer(
    name="thalweg",
    help="Ordered, elastic stream processing in Python, on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        import thalweg

        typer.echo(f"thalweg {thalweg.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Ordered, elastic stream processing in Python, on Spark."""


def _group(name: str, text: str) -> typer.Typer:
    group = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name)
    return group


def _command(group: typer.Typer, name: str, does: Callable[..., None], **settings: Any) -> None:
    group.command(name, **settings)(told(_never_silent(name, does)))


def _never_silent(name: str, does: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(does)
    def run_it(*args: Any, **kwargs: Any) -> None:
        with heartbeat.heartbeat(name):
            does(*args, **kwargs)

    return run_it


app.command("run")(told(run.run))  # says itself what it does
_command(app, "explain", plans.explain)
_command(app, "plan", partitions.plan)
_command(app, "demo", demo.demo)
app.command("top")(told(top.top))
app.command("page")(told(page.page))
lab.register(app)
_locality = _group("locality", "Bring keys that come together to one slot.")
_command(_locality, "plan", locality.plan)
_command(_locality, "demo", cluster_demo.demo)
_state = _group("state", "Look into a checkpoint, compare it with a flow, copy it.")
_command(_state, "show", state.show)
_command(_state, "diff", state_changes.diff)
_command(_state, "copy", state_changes.copy)
_datagen = _group("datagen", "Generate data of any size.")
for _name, _does in datagen.commands().items():
    _command(_datagen, _name, _does)
lab.register_datagen(_datagen)


def main() -> None:
    """Runs the command: exit code 0 when all went well, 1 on a failure, 2 when it was called wrongly.

    Where nobody reads its output any more it ends without a word and with 141, as other programs in a pipe do.
    """
    with when_nobody_reads():
        app()


if __name__ == "__main__":
    main()
