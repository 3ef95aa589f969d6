"""``thalweg explain``: the plan of a flow."""

from __future__ import annotations

from typing import Annotated

import typer

from thalweg.cli.loading import load_flow


def explain(
    place: Annotated[
        str, typer.Argument(metavar="FILE[:FLOW]", help="A Python file with a flow, or a module.")
    ],
    compile: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Ask the compiler about each function.")
    ] = True,
) -> None:
    """Show a flow's plan: operators, stages, what is compiled, and in what order things happen."""
    typer.echo(load_flow(place).explain(compile=compile), nl=False)
