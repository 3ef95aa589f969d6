"""A start that migrates state, killed at its n-th write: ``python -m tests.stress.migration_child FOLDER N``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import thalweg as tw
from thalweg.checkpoint import durable, paths
from thalweg.checkpoint.evolution import committing


class Row(NamedTuple):
    n: int
    key: str


@tw.state
class Sum:
    total: int = 0
    rows: int = 0


@tw.state(migrate=lambda old: {"mean": old["total"] / old["rows"], "rows": old["rows"]})
class Mean:
    mean: float = 0.0
    rows: int = 0


class Out(NamedTuple):
    key: str
    value: float


def add(state: Sum, row: Row) -> Out:
    state.total += row.n
    state.rows += 1
    return Out(row.key, float(state.total))


def add_mean(state: Mean, row: Row) -> Out:
    state.mean = (state.mean * state.rows + row.n) / (state.rows + 1)
    state.rows += 1
    return Out(row.key, state.mean)


ROWS = [Row(n, "abcé"[n % 4]) for n in range(40)]


def before() -> tw.Flow:
    flow = tw.Flow("killed", compile="never")
    rows = flow.source("rows", Row)
    for name in ("sums", "others", "gone"):
        rows.key_by("key").process(add, state=Sum, name=name).sink(f"out {name}")
    return flow


def after() -> tw.Flow:
    flow = tw.Flow("killed", compile="never", renamed={"others": "more"})
    rows = flow.source("rows", Row)
    rows.key_by("key").process(add_mean, state=Mean, name="sums").sink("out sums")
    rows.key_by("key").process(add, state=Sum, name="more").sink("out others")
    return flow


def start_after(checkpoint: str, **options: Any) -> Mapping[str, Any]:
    """Starts the changed flow, with rows that only it sees."""
    more = [*ROWS, *(Row(n, "b") for n in range(40, 45))]
    result = tw.run(after(), {"rows": more}, checkpoint=checkpoint, drop=["gone"], **options)
    return {name: result.rows(name) for name in ("out sums", "out others")}


def main(checkpoint: str, left: int) -> None:
    """Kills this process in front of the n-th write or deletion of the migration, or behind all of them."""
    count = 0

    def mortal(call: Any) -> Any:
        def made(*args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == left:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **named)

        return made

    plain = committing.commit

    def commit(*args: Any) -> Any:
        durable.write_local = paths.durable.write_local = mortal(durable.write_local)
        committing.delete = mortal(committing.delete)  # type: ignore[attr-defined]
        found = plain(*args)
        print("survived", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        return found

    from thalweg.checkpoint.hosts import evolution

    evolution.commit = commit  # type: ignore[attr-defined]
    start_after(checkpoint, end="keep")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
