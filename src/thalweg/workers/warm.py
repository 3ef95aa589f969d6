"""Whether the worker loop is compiled, and a process that compiles it, so that a first run need not wait."""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
from typing import Final

from numba import types

from thalweg.jit import is_kept
from thalweg.jit.folder import own_folder
from thalweg.workers.worker_loop.loop import work

_LOG: Final = logging.getLogger("thalweg")


def is_warm() -> bool:
    """Whether the worker loop is compiled, or nothing that is compiled here would be kept."""
    return own_folder() is None or is_kept(work, (types.int64[::1], types.int64))


@functools.cache
def warm_beside() -> subprocess.Popen[bytes]:
    """Starts the process, once; it goes on when this one ends."""
    _LOG.warning(
        "one thread at first: the worker loop is compiled beside (once a machine, about half a minute), and then"
        " there are more"
    )
    return subprocess.Popen(
        [sys.executable, "-m", "thalweg.embedded.compile_loop"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
