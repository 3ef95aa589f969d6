"""A query over files with a checkpoint, to be killed: ``python -m tests.nexmark.durable_child QUERY FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import thalweg as tw
from thalweg.examples.nexmark.queries import flow_of, sources_of


def main(query: str, folder: Path) -> None:
    """Runs it to its end; says when it begins and when it has ended."""
    print("begins", flush=True)
    given = {name: tw.files(str(folder / "in" / name), "parquet") for name in sources_of(query)}
    sinks = {"out": tw.to_files(str(folder / query / "out"), "parquet")}
    checkpoint = str(folder / query / "checkpoint")
    tw.run(flow_of(query), given, sinks, checkpoint=checkpoint, every="20 ms", chunk_rows=500)
    print("ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
