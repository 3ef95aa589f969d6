"""The last rows that were late or rejected, with reasons, for who looks at a run: so few that they cost nothing.

What is counted is exact and stands elsewhere. Here rows are kept as they came, and made text when somebody asks.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from thalweg.columns.chunks import Chunk
from thalweg.flow.failures import shorten
from thalweg.stats import FaultyRow

#: How many rows are kept.
KEPT: Final = 10
#: Characters of a row, or of a reason.
_LONGEST: Final = 200


class _Noted(NamedTuple):
    """Rows of one operator that came together: as (reason, text), or as a chunk with one reason for all."""

    operator: str
    what: str
    rows: Sequence[tuple[str, str]] | Chunk
    reason: str
    at_s: float


class BadRows:
    """The last rows of an engine that were late or rejected. Several threads may add, and any may read."""

    def __init__(self) -> None:
        self._noted: collections.deque[_Noted] = collections.deque()
        self._lock = threading.Lock()

    def reject(self, operator: str, rows: Sequence[tuple[str, str]]) -> None:
        """The last that were rejected, as (reason, text), the newest last."""
        self._add(_Noted(operator, "rejected", rows, "", time.time()))

    def late(self, operator: str, rows: Chunk, field: str, lateness: int) -> None:
        """Rows came late by the time in a field."""
        if not len(rows):
            return
        last = rows.slice(max(len(rows) - KEPT, 0), len(rows))
        allowed = " minus the lateness" if lateness else ""
        reason = f"{field} is less than the greatest that came before{allowed}"
        self._add(_Noted(operator, "late", last, reason, time.time()))

    def _add(self, noted: _Noted) -> None:
        with self._lock:
            self._noted.append(noted)
            # Before the newest rows none are worth their memory.
            while sum(len(one.rows) for one in self._noted) - len(self._noted[0].rows) >= KEPT:
                self._noted.popleft()

    def last(self) -> tuple[FaultyRow, ...]:
        """The last rows, the newest last."""
        with self._lock:
            noted = list(self._noted)
        return newest(row for one in noted for row in _shown(one))

    def take(self) -> tuple[FaultyRow, ...]:
        """As :meth:`last`, and forgets them."""
        found = self.last()
        with self._lock:
            self._noted.clear()
        return found


def newest(rows: Iterable[FaultyRow]) -> tuple[FaultyRow, ...]:
    """The last of all, the newest last; rows of one moment stay in their order."""
    return tuple(sorted(rows, key=lambda one: one.at_s)[-KEPT:])


def _shown(one: _Noted) -> Iterator[FaultyRow]:
    if isinstance(one.rows, Chunk):
        rows = one.rows.schema.shown(one.rows.rows())
        told = [(one.reason, repr(row)) for row in rows]
    else:
        told = list(one.rows)
    for reason, text in told:
        yield FaultyRow(
            operator=one.operator, what=one.what, reason=shorten(reason, _LONGEST),
            row=shorten(text, _LONGEST), at_s=one.at_s,
        )  # fmt: skip
