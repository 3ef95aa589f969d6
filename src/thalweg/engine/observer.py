"""Looks at flows while they run, in a thread of its own: what is back-pressured, and a snapshot file now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from thalweg.snapshot import Snapshot

_LOG: Final = logging.getLogger("thalweg")
#: How often it is looked what is back-pressured, seconds.
LOOK_S: Final = 0.1
#: How long its thread is waited for at the end, seconds.
_GRACE_S: Final = 2.0


class Observed(Protocol):
    """A flow that runs."""

    def look(self) -> None:
        """Looks what is back-pressured."""

    def progress(self) -> Snapshot:
        """What it does now."""


class SnapshotKeeper(Protocol):
    """Where snapshots of a flow are kept."""

    every_s: float

    def write(self, snapshot: Snapshot) -> None:
        """Keeps one instead of the last."""


class Observer:
    """Looks until it is stopped, and then writes once more.

    Args:
        flows: those that run now.
        files: where the snapshots of flows are kept, by name.
    """

    def __init__(
        self,
        flows: Callable[[], Sequence[Observed]],
        *,
        files: Mapping[str, SnapshotKeeper | None] | None = None,
    ) -> None:
        self._flows = flows
        self._files = {name: one for name, one in (files or {}).items() if one is not None}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="thalweg-observer", daemon=True)
        self._due_s = dict.fromkeys(self._files, 0.0)

    def start(self) -> None:
        """Begins; once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it, with a last snapshot of each flow; harmless twice."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_GRACE_S)
        try:
            self._write(everything=True)
        except Exception:
            _LOG.exception("the last snapshot could not be made")

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                for flow in self._flows():
                    flow.look()
                self._write()
            except Exception:
                # Looking must not harm what is looked at.
                _LOG.exception("a snapshot could not be made: none is written any more")
                return

    def _write(self, *, everything: bool = False) -> None:
        now = time.monotonic()
        due = [name for name, at in self._due_s.items() if everything or now >= at]
        if not due:
            return
        for flow in self._flows():
            snapshot = flow.progress()
            if snapshot.flow in due:
                self._files[snapshot.flow].write(snapshot)
                self._due_s[snapshot.flow] = now + self._files[snapshot.flow].every_s
