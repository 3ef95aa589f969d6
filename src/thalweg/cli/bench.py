"""``thalweg bench``: the benchmarks, which live beside the package in its source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer


def bench(context: typer.Context) -> None:
    """Run the benchmarks; needs the source tree. Arguments are passed on."""
    import thalweg

    runner = Path(thalweg.__file__).parents[2] / "benchmarks" / "run.py"
    if not runner.is_file():
        typer.echo(
            "error: the benchmarks are not part of the installed package.\n"
            "Get the source, install it with `pip install -e '.[bench]'`, and run `make bench` there.",
            err=True,
        )
        raise typer.Exit(1)
    raise typer.Exit(subprocess.run([sys.executable, str(runner), *context.args]).returncode)
