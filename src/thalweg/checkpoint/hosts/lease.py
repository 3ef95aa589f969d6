"""One query at a time on a checkpoint: two would plan and commit the same batches.

On a local file system a lock on a file says who is there; the system gives it back when a process dies, also by
kill -9. The checkpoint and the folder of its state are locked, each by a file of its own. Where locks do not work,
that is said, and what is left are the checks in front of the sinks and of the commit record
(:func:`thalweg.checkpoint.history.require_alone`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.checkpoint.durable import make_folders
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import is_local, join
from thalweg.errors import CheckpointError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("thalweg")

#: The leases of this process by lock file, each with whether its query still runs.
_HELD: dict[str, tuple[Lease, Callable[[], bool]]] = {}


class Lease:
    """The right to run a query on a checkpoint; taken and given back by one query, any number of times.

    Args:
        location: the checkpoint, for messages.
        folders: each is locked, if it can be.
    """

    def __init__(self, location: str, folders: Sequence[Folder]) -> None:
        self._location = location
        self._paths = sorted({path for one in folders if (path := _lock_path(one))})
        self._open = [one.location for one in folders if not _lock_path(one)]
        self._files: dict[str, Any] = {}
        self._said = False

    def take(self, is_active: Callable[[], bool] = lambda: True) -> None:
        """Takes the checkpoint, also from a query of this process that has ended.

        Raises:
            CheckpointError: another query runs on it.
        """
        try:
            for path in self._paths:
                if path not in self._files:
                    self._files[path] = self._locked(path)
                _HELD[path] = (self, is_active)
        except BaseException:
            self.give_back()
            raise
        if self._open and not self._said:
            self._said = True
            log.warning(
                "the checkpoint %s: %s cannot be locked, so a second query on it is refused only when it meets"
                " what the first has committed; make sure that a single query uses it",
                self._location,
                ", ".join(self._open),
            )

    def hold(self) -> None:
        """Makes sure that the locks still are what others would ask; takes them anew where their files were deleted.

        Raises:
            CheckpointError: another query has the checkpoint now.
        """
        for path, file in list(self._files.items()):
            if not _is_at(file, path):
                _, active = _HELD.pop(path, (self, lambda: True))
                file.close()
                del self._files[path]
                self._files[path] = self._locked(path)
                _HELD[path] = (self, active)

    def _locked(self, path: str) -> Any:
        other, active = _HELD.get(path, (None, None))
        if other is not None and active is not None and not active():
            other.give_back()
        while True:
            make_folders(os.path.dirname(path))
            file = open(path, "ab+")  # noqa: SIM115 -- it stays open as long as the lease holds
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise self._in_use(path) from None
            except OSError:
                self._open.append(os.path.dirname(path))
                return file
            if _is_at(file, path):
                return file
            file.close()  # deleted between the two calls

    def _in_use(self, path: str) -> CheckpointError:
        place = "this" if path in _HELD else "another"
        return CheckpointError(
            f"the checkpoint {self._location} is in use: another query runs on it or on the folder"
            f" {os.path.dirname(path)} of its state, in {place} process.\n"
            "Stop that query first, or give this one a checkpoint folder and a state= of its own."
        )

    def give_back(self) -> None:
        """Lets others have the checkpoint; harmless when the lease was not taken."""
        for path, file in self._files.items():
            file.close()
            _HELD.pop(path, None)
        self._files.clear()


def _lock_path(folder: Folder) -> str:
    """The lock of a folder; "" where there are none."""
    if fcntl is None or not is_local(folder.fs):
        return ""
    return os.path.realpath(join(folder.root, "lock"))


def _is_at(file: Any, path: str) -> bool:
    """Whether an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
