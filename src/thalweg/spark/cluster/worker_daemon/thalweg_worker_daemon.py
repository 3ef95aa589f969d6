"""Spark's daemon of Python workers, which also notes by which signal a worker died.

The daemon forks the workers and lets the system forget how they ended, so nobody else can know. A module of its own
outside the package, because Spark imports it by name in a process that forks: nothing that starts threads may be
imported there, and the package is.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from pyspark import daemon

#: The folder of the notes: a file a worker, named by its process, with the number of the signal.
NOTES = "THALWEG_WORKER_DEATHS"


def note(process: int, status: int, folder: str) -> None:
    """Writes down the signal that ended a worker; those that ended by themselves are left out."""
    if not os.WIFSIGNALED(status):
        return
    path = os.path.join(folder, str(process))
    with open(f"{path}.tmp", "w", encoding="ascii") as file:
        file.write(str(os.WTERMSIG(status)))
    os.rename(f"{path}.tmp", path)


def reap(_number: int, _frame: FrameType | None) -> None:
    """Takes the workers that have ended."""
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:
            return
        try:
            note(process, status, os.environ[NOTES])
        except OSError:
            pass  # the folder is gone with the session


class Signals:
    """The module ``signal`` as the daemon sees it: where it would ignore ended workers, they are taken."""

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)

    @staticmethod
    def signal(number: int, handler: Any) -> Any:
        if number == signal.SIGCHLD and handler == signal.SIG_IGN:
            handler = reap
        return signal.signal(number, handler)


if __name__ == "__main__":
    if NOTES in os.environ:
        setattr(daemon, "signal", Signals())  # noqa: B010 -- Spark's names are not declared
    daemon.manager()
