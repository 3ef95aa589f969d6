"""A bounded hand-over of rows from threads that make them to the one thread that feeds the flow."""

from __future__ import annotations

import collections
import threading
import time
from typing import Any

from thalweg.connectors.contracts import POLL_S, Stop


class Handover:
    """Items in the order in which they were put; a put waits while ``capacity`` rows lie here.

    Args:
        capacity: rows that may lie here; one item with more rows than are free is let in all the same.
        linger_s: how long the oldest item waits for others before a take is content with fewer than it likes.
    """

    def __init__(self, capacity: int, linger_s: float) -> None:
        self._capacity, self._linger_s = capacity, linger_s
        lock = threading.Lock()
        self._room = threading.Condition(lock)
        self._filled = threading.Condition(lock)
        self._items: collections.deque[tuple[Any, int]] = collections.deque()
        #: The sum of the items' rows.
        self._rows = 0
        #: Rows from which on a take that waits is to be woken.
        self._wanted = 1
        #: When an item last came to where there was none: no item here is older than that.
        self._since = 0.0
        self._closed = False
        self._error: BaseException | None = None

    @property
    def waiting_rows(self) -> int:
        """How many rows lie here."""
        with self._room:
            return self._rows

    def offer(self, item: Any, rows: int = 1) -> bool:
        """Adds an item if there is room now; False: it was not taken."""
        with self._room:
            if self._closed or self._rows >= self._capacity:
                return False
            self._add(item, rows)
        return True

    def put(self, item: Any, rows: int = 1) -> bool:
        """Adds an item, waiting for room; False: it was not taken, as the hand-over is closed."""
        with self._room:
            while self._rows >= self._capacity and not self._closed:
                self._room.wait()
            if self._closed:
                return False
            self._add(item, rows)
        return True

    def take(self, rows: int, stop: Stop) -> list[Any]:
        """The next items, about that many rows of them and at least one; none at the end, or once ``stop`` is set.

        Waits for the first item as long as it takes, for others until the oldest one has lingered.

        Raises:
            BaseException: what :meth:`fail` was called with, after the last item.
        """
        with self._filled:
            self._wait(1, None, stop)
            if stop.is_set():
                return []
            if self._items:
                enough = min(rows, self._capacity)
                self._wait(enough, self._since + self._linger_s, stop)
                return self._pop(rows)
            if self._error is not None:
                raise self._error
            return []

    def close(self) -> None:
        """No more puts; what lies here can still be taken. May be called again."""
        with self._room:
            self._closed = True
            self._room.notify_all()
            self._filled.notify_all()

    def fail(self, error: BaseException) -> None:
        """Closes; the take that finds nothing more raises the error."""
        with self._room:
            self._error = error
        self.close()

    def _add(self, item: Any, rows: int) -> None:
        if not self._items:
            self._since = time.monotonic()
        self._items.append((item, max(rows, 1)))
        self._rows += max(rows, 1)
        if self._rows >= self._wanted:
            self._filled.notify()

    def _wait(self, rows: int, deadline: float | None, stop: Stop) -> None:
        self._wanted = rows
        while self._rows < rows and not self._closed and not stop.is_set():
            left = POLL_S if deadline is None else min(POLL_S, deadline - time.monotonic())
            if left <= 0:
                return
            self._filled.wait(left)

    def _pop(self, rows: int) -> list[Any]:
        out, count = [], 0
        while self._items and count < rows:
            item, size = self._items.popleft()
            out.append(item)
            count += size
        self._rows -= count
        self._room.notify_all()
        return out
