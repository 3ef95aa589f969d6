"""Compiles the worker loop in a process of its own, so that a first run need not wait for it.

``python -m thalweg.embedded.warm`` runs a small flow in two threads; what that compiles stays in the cache. One such
process at a time works on a cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
import subprocess
import sys
from typing import Final, NamedTuple

from numba import types

from thalweg.embedded.entry import run
from thalweg.flow import Flow
from thalweg.jit import is_kept
from thalweg.jit.folder import own_folder
from thalweg.operators import agg
from thalweg.runtime.options import Options
from thalweg.runtime.worker import work

_LOG: Final = logging.getLogger("thalweg")


def is_warm() -> bool:
    """Whether the worker loop is compiled, or nothing that is compiled here would be kept."""
    return own_folder() is None or is_kept(work, (types.int64[::1], types.int64))


@functools.cache
def warm_beside() -> subprocess.Popen[bytes]:
    """Starts the process, once; it goes on when this one ends."""
    _LOG.warning(
        "this run has one thread: the worker loop is compiled beside it (once, about half a minute), and later runs"
        " have more"
    )
    return subprocess.Popen(
        [sys.executable, "-m", "thalweg.embedded.warm"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


class Row(NamedTuple):
    """Of the flow that is run."""

    at: int
    key: int


def main(*, waits: bool = False) -> None:
    """Compiles, unless another process is at it, which is waited for or not."""
    folder = own_folder()
    if folder is None:
        return
    with open(folder / "warm.lock", "w") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        flow = Flow("warm")
        rows = flow.source("rows", Row, order_by="at")
        rows.key_by("key").sessions(5, rows=agg.count()).sink("sessions")
        inputs = {"rows": [Row(at, at % 3) for at in range(100)]}
        run(flow, inputs, options=Options(threads=2))


if __name__ == "__main__":
    os.nice(5)
    main()
