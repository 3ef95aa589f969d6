"""``python -m thalweg.embedded.compile_loop`` compiles the worker loop: it runs a small flow in two threads.

What that compiles stays in the cache. One such process at a time works on a cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import NamedTuple

from thalweg.embedded.entry import run
from thalweg.flow.flow import Flow
from thalweg.flow.operators import agg
from thalweg.jit.folder import own_folder
from thalweg.workers.options import Options
from thalweg.workers.warm import is_warm


class LoopRow(NamedTuple):
    """Of the flow that is run."""

    at: int
    key: int


def main(*, waits: bool = False) -> None:
    """Compiles what is not compiled yet, unless another process is at it, which is waited for or not."""
    folder = own_folder()
    if folder is None or is_warm():
        return
    with open(folder / "warm.lock", "w") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        if is_warm():
            return
        flow = Flow("warm")
        rows = flow.source("rows", LoopRow, order_by="at")
        rows.key_by("key").sessions(5, rows=agg.count()).sink("sessions")
        inputs = {"rows": [LoopRow(at, at % 3) for at in range(100)]}
        run(flow, inputs, options=Options(threads=2))


if __name__ == "__main__":
    os.nice(5)
    main()
