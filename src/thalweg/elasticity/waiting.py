"""How much of its time a function waits for something else, and how many threads may therefore be in it at once.

A function that sleeps, or asks a server, leaves the processors and the interpreter's lock to others. While it waits,
the next thread can call it; there is a use for as many of them as its time is a multiple of the processor time in it. Two
times tell the two apart: *occupancy*, the wall time that a thread is inside the operator, and CPU time. What lies
between them is waiting, but for the time in which other threads held the interpreter's lock: that would look like
waiting, too, and more threads would make more of it. So it is taken off, and where little waiting is left there are
fewer threads again.

Nothing here reads a clock: times are given.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final

#: A function whose occupancy is waiting for at least this share gets threads for it ...
WAITS: Final = 0.3
#: ... and loses some where it is for less than this one: they wait for the interpreter, or there is nothing to wait for.
WORKS: Final = 0.1
#: So many of its threads are left then.
KEPT: Final = 0.75
#: Decisions are made on so much occupancy, ns: many short calls, or one long one.
WINDOW_NS: Final = 10_000_000
#: The most threads that wait, by default. Of calls that take 20 ms they make some thousand a second, about as many as
#: the interpreter can begin; and a server that others ask, too, is not swamped.
WAITING_THREADS: Final = 64


@dataclasses.dataclass(slots=True)
class Waits:
    """What was seen of one operator's function.

    Attributes:
        most: threads that there may be in it at once.
        freely: how many may be in it at once though it is interpreted; 0: one at a time, as what only computes.
    """

    most: int
    freely: int = 0
    _took_ns: int = 0
    _used_ns: int = 0
    _waited_ns: int = 0

    def add(self, took_ns: int, used_ns: int, waited_ns: int) -> bool:
        """A thread was in the function.

        Args:
            took_ns: its occupancy.
            used_ns: its CPU time.
            waited_ns: how much of the rest it waited for sure, and not for the interpreter.

        Returns:
            Whether there is another number of threads than before.
        """
        self._took_ns += took_ns
        self._used_ns += used_ns
        self._waited_ns += waited_ns
        if self._took_ns < WINDOW_NS:
            return False
        before = self.freely
        self._decide(self._waited_ns / self._took_ns)
        self._took_ns = self._used_ns = self._waited_ns = 0
        return self.freely != before

    def _decide(self, share: float) -> None:
        if share >= WAITS:
            self.freely = min(max(self.freely, useful(self._took_ns, self._used_ns)), self.most)
        elif share < WORKS:
            fewer = int(self.freely * KEPT)
            self.freely = fewer if fewer > 1 else 0


def useful(took_ns: int, used_ns: int) -> int:
    """How many threads in a function would together use one processor."""
    return math.ceil(took_ns / max(used_ns, 1))
