"""Spark's daemon of Python workers, which also notes by which signal a worker died.

The daemon forks the workers and lets the system forget how they ended, so nobody else can know. A module of its own
outside the package, because Spark imports it by name in a process that forks: nothing that starts threads may be
imported there, and the package is.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any


def without_zips(paths: list[str]) -> list[str]:
    """The path of modules without Spark's zips, where the package that they are copies of is found behind them.

    Python compiles what it imports from a zip, anew in each process: half a second.
    """
    zips = [one for one in paths if os.path.basename(one).startswith(("pyspark.zip", "py4j-"))]
    zips = [one for one in zips if one.endswith(".zip")]
    homes = {os.path.dirname(os.path.dirname(os.path.dirname(one))) for one in zips}
    rest = [one for one in paths if one not in zips]
    is_there = all(os.path.dirname(home) in rest for home in homes)
    has_py4j = any(os.path.isdir(os.path.join(one, "py4j")) for one in rest)
    return rest if is_there and has_py4j else paths


sys.path[:] = without_zips(sys.path)

from pyspark import daemon  # noqa: E402 -- behind what says where it is found

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
