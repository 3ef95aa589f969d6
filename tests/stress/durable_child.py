"""A durable run that the test beside kills: ``python -m tests.stress.durable_child FOLDER THREADS CHUNK_ROWS``."""

from __future__ import annotations

import sys
from typing import NamedTuple

import thalweg as tw


class Row(NamedTuple):
    n: int
    key: int


@tw.state
class Sum:
    rows: int = 0
    total: int = 0


def add(state: Sum, row: Row) -> Row:
    state.rows += 1
    state.total += row.n
    return Row(state.total, row.key * 1_000_000 + state.rows)


def make_flow() -> tw.Flow:
    flow = tw.Flow("killed")
    rows = flow.source("rows", Row, order_by="n", lateness=50)
    rows.key_by("key").process(add, state=Sum, name="sums").sink("out")
    return flow


def main(folder: str, threads: int, chunk_rows: int) -> None:
    """Runs it to its end; says when it begins and when it has ended."""
    print("begins", flush=True)
    tw.run(
        make_flow(), {"rows": tw.files(f"{folder}/in", "csv")},
        {"out": tw.to_files(f"{folder}/out.parquet")}, checkpoint=f"{folder}/checkpoint",
        every="20 ms", threads=threads, chunk_rows=chunk_rows,
    )  # fmt: skip
    print("ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
