"""Virtual time: what is to happen, by time, and of one time in the order in which it was planned."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from thalweg.simulate.network import Network

#: More than any number of a call.
_LATE: Final = 1 << 60


class Events:
    """A heap of calls to make; the network's clock stands at the one that is made.

    Attributes:
        count: calls made so far.
        queued_ns: waiting tuples times ns so far; most_queued: the most that waited.
    """

    def __init__(self, net: Network) -> None:
        self.net = net
        self.count = 0
        self.queued_ns = 0
        self.most_queued = 0
        self._heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._planned = 0

    def plan(self, at_ns: int, call: Callable[[Any], None], argument: Any) -> None:
        """Makes a call at a time that is not past."""
        self._planned += 1
        heapq.heappush(self._heap, (at_ns, self._planned, call, argument))

    def plan_early(self, at_ns: int, call: Callable[[Any], None], argument: Any) -> None:
        """The same, before all other calls of that time."""
        self._planned += 1
        heapq.heappush(self._heap, (at_ns, self._planned - _LATE, call, argument))

    def run(self, until_ns: int, settle: Callable[[], None]) -> None:
        """Makes all calls up to and with a time, and ``settle()`` after each; then it is that time."""
        heap, net = self._heap, self.net
        while heap and heap[0][0] <= until_ns:
            at_ns, _, call, argument = heapq.heappop(heap)
            self._advance(at_ns)
            call(argument)
            settle()
            self.count += 1
            self.most_queued = max(self.most_queued, net.queued)
        self._advance(until_ns)

    def _advance(self, to_ns: int) -> None:
        self.queued_ns += self.net.queued * (to_ns - self.net.now_ns)
        self.net.now_ns = to_ns
