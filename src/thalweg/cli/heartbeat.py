"""A long command that says nothing for some seconds says that it still runs, what with, and how long that may take."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from thalweg.printing import OutputClosed, quiet_s, say
from thalweg.snapshot.shown import duration_text

#: No command is silent for longer, seconds.
QUIET_S: Final = 4.5
_LOOK_S: Final = 0.5


@contextlib.contextmanager
def heartbeat(name: str, doing: Callable[[], str] = str) -> Iterator[None]:
    """While inside, a line on stderr whenever nothing was printed for a while.

    Args:
        name: of the command.
        doing: what it does at the moment; empty for nothing to add.
    """
    ended, began_s = threading.Event(), time.monotonic()

    def beat() -> None:
        with contextlib.suppress(OutputClosed):
            while not ended.wait(_LOOK_S):
                if quiet_s() >= QUIET_S:
                    said = doing()
                    so_far = duration_text(time.monotonic() - began_s)
                    say(f"{name}: {f'{said}, ' if said else ''}{so_far} so far …")

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def time_left(done: int, total: int, seconds: float) -> str:
    """``3 of 8, about 1:10:00 left``; without a guess before the first is done."""
    if not done:
        return f"{done + 1} of {total}"
    return f"{done + 1} of {total}, about {duration_text(seconds / done * (total - done))} left"
