"""One query at a time on a checkpoint: two would plan and commit the same batches.

On a local file system a lock on a file says who is there; the system gives it back when a process dies, also by
kill -9. Elsewhere Spark's own log refuses the second query at the first batch that both plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from thalweg.errors import CheckpointError
from thalweg.state.paths import FileSystem, is_local, join

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

#: The leases of this process by lock file, each with whether its query still runs.
_HELD: dict[str, tuple[Lease, Callable[[], bool]]] = {}


class Lease:
    """The right to run a query on a checkpoint; taken and given back by one query, any number of times."""

    def __init__(self, location: str, fs: FileSystem, root: str) -> None:
        self._location = location
        self._path = (
            os.path.realpath(join(root, "lock")) if fcntl is not None and is_local(fs) else ""
        )
        self._file: Any = None

    def take(self, is_active: Callable[[], bool] = lambda: True) -> None:
        """Takes the checkpoint, also from a query of this process that has ended.

        Raises:
            CheckpointError: another query runs on it.
        """
        if not self._path:
            return
        if self._file is not None:
            _HELD[self._path] = (self, is_active)
            return
        other, active = _HELD.get(self._path, (None, None))
        if other is not None and active is not None and not active():
            other.give_back()
        file = open(self._path, "ab+")  # noqa: SIM115 -- it stays open as long as the lease holds
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise CheckpointError(
                f"the checkpoint {self._location} is in use: another query runs on it, in"
                f" {'this' if self._path in _HELD else 'another'} process.\n"
                "Stop that query first, or give this one a checkpoint folder of its own."
            ) from None
        except OSError:
            pass  # a file system without locks
        self._file = file
        _HELD[self._path] = (self, is_active)

    def give_back(self) -> None:
        """Lets others have the checkpoint; harmless when the lease was not taken."""
        if self._file is not None:
            self._file.close()
            self._file = None
            _HELD.pop(self._path, None)
