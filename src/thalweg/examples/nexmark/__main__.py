"""``python -m thalweg.examples.nexmark q5 FOLDER``: a query over generated events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import thalweg as tw
from thalweg.examples import running
from thalweg.examples.nexmark.queries import QUERIES, flow_of, sources_of


def main(
    query: Annotated[str, typer.Argument(help="q0 to q22.")],
    folder: Annotated[Path, typer.Argument(help="What thalweg datagen nexmark --out has written.")],
    out: Annotated[
        Path | None, typer.Option(help="Writes the output there; query 10's in folders.")
    ] = None,
) -> None:
    """Run a query over persons, auctions and bids in Parquet files."""
    if query not in QUERIES:
        raise tw.BuildError(f"query is {query!r}, expected one of: {', '.join(QUERIES)}")
    flow = flow_of(query)
    given = {name: tw.files(str(folder / name), "parquet") for name in sources_of(query)}
    if out is None and query != "q10":
        tables = {name: running.ExampleInput(str(folder / name), "parquet") for name in given}
        running.show(running.run(flow, tables, embedded=True), "out")
        return
    tw.run(flow, given, {"out": sink_of(query, str(out or "nexmark_q10"))})


def sink_of(query: str, path: str) -> Any:
    """A file, or the folders of query 10."""
    return tw.to_files(path, partition_by=("dt", "hm")) if query == "q10" else tw.to_files(path)


if __name__ == "__main__":
    running.command(main)
