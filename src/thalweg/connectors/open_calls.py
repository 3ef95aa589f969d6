"""Tells of calls to others that have not come back for some seconds: nobody is to wait in silence."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import threading
import time
from collections.abc import Iterator
from typing import Final

_LOG: Final = logging.getLogger("thalweg")
#: After how long a call is told of, and how often again, seconds.
FIRST_S: float = 4.0
AGAIN_S: Final = 10.0
#: How often open calls are looked at, seconds.
LOOK_S: float = 0.5


@dataclasses.dataclass(slots=True)
class _OpenCall:
    what: str
    since: float
    told: float | None = None


class CallsUnderway:
    """All open calls of the process; one thread looks at them, which sleeps while there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: dict[int, _OpenCall] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watched(self, what: str) -> Iterator[None]:
        """Tells if the block takes long.

        Args:
            what: what has not happened yet: "postgresql://… has not answered".
        """
        number, call = next(self._numbers), _OpenCall(what, time.monotonic())
        with self._changed:
            self._calls[number] = call
            if self._thread is None or not self._thread.is_alive():  # none yet, or this is a fork
                self._thread = threading.Thread(target=self._look, name="open calls", daemon=True)
                self._thread.start()
            elif len(self._calls) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._calls[number]
            if call.told is not None:
                passed = time.monotonic() - call.since
                _LOG.warning("%s for %.0f s; that is over", what, passed)

    def _look(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._calls))
                due = [call for call in self._calls.values() if _is_due(call, time.monotonic())]
            for call in due:
                call.told = time.monotonic()
                _LOG.warning("%s for %.0f s; it is waited for", call.what, call.told - call.since)
            time.sleep(LOOK_S)


def _is_due(call: _OpenCall, now: float) -> bool:
    if call.told is None:
        return now - call.since >= FIRST_S
    return now - call.told >= AGAIN_S


#: Those of this process.
OPEN_CALLS: Final = CallsUnderway()
