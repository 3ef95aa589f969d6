"""The command ``thalweg``: run flows, look at plans and state, see a demo."""

from __future__ import annotations

from typing import Annotated

import typer

from thalweg.cli import bench, cluster_demo, demo, locality, plans, run, state
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


app.command("run")(run.run)
app.command("explain")(plans.explain)
app.command("demo")(demo.demo)
_bench = _group("bench", "Measure: the papers' experiments, and other systems.")
_bench.command("prasaad")(bench.prasaad)
_bench.command("streams")(bench.streams)
_bench.command("haren")(bench.haren)
_bench.command("cstream")(bench.cstream)
_bench.command("elastic")(bench.elastic)
_bench.command("caneill")(bench.caneill)
_bench.command("spark-queries")(bench.spark_queries)
_bench.command(
    "peers", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(bench.peers)
_locality = _group("locality", "Bring keys that come together to one slot.")
_locality.command("plan")(locality.plan)
_locality.command("demo")(cluster_demo.demo)
_group("state", "Look into a checkpoint.").command("show")(state.show)
datagen.register(_group("datagen", "Generate data of any size."))


def main() -> None:
    """Runs the command: exit code 0 when all went well, 1 on a failure, 2 when it was called wrongly."""
    app()


if __name__ == "__main__":
    main()
