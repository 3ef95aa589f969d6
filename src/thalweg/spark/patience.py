"""What takes long is said: nobody should have to guess whether a start hangs.

Nothing is printed of what is done soon. After some seconds the log is told, again and again; where nobody reads the
log, one line goes to stderr.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Final

from thalweg.printing import OutputClosed, say

_LOG: Final = logging.getLogger("thalweg")
#: After so long it is said, and each time again, seconds.
PATIENCE_S: Final = 4.0


@contextlib.contextmanager
def told_if_slow(what: str, *, aloud: bool = True, after_s: float = PATIENCE_S) -> Iterator[None]:
    """Says what goes on while the block runs, if that takes long.

    Args:
        what: "starting Spark".
        aloud: whether it is printed, once, where nobody reads the log.
        after_s: the seconds.
    """
    done = threading.Event()
    beside = threading.Thread(target=_tell, args=(what, done, aloud, after_s), daemon=True)
    beside.start()
    try:
        yield
    finally:
        done.set()


def _tell(what: str, done: threading.Event, aloud: bool, after_s: float) -> None:
    began = time.monotonic()
    while not done.wait(after_s):
        if _LOG.isEnabledFor(logging.INFO):
            _LOG.info("%s … %.0f s", what, time.monotonic() - began)
        elif aloud:
            with contextlib.suppress(OutputClosed, OSError, ValueError):
                say(f"thalweg: {what} …")
            return
