"""Rows that wait for a watermark, in as many chunks as they came in: who leaves in order is not copied."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from thalweg.columns.chunks import Chunk
from thalweg.plan.plan import TIME

#: A last part that is shorter is joined with what comes, so that single rows do not wait as single chunks.
_SHORT: Final = 4_096


class Waiting:
    """Chunks which one after the other are sorted by time, ties in order of arrival."""

    def __init__(self) -> None:
        #: none of them empty
        self._parts: list[Chunk] = []

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def whole(self) -> Chunk | None:
        """All rows as a chunk, which stand as one from then on; None: no row waits."""
        if len(self._parts) > 1:
            self._parts = [Chunk.concat(self._parts)]
        return self._parts[0] if self._parts else None

    def put(self, rows: Chunk | None) -> None:
        """Holds these rows, which are sorted, and no others."""
        self._parts = [rows] if rows is not None and len(rows) else []

    def add(self, rows: Chunk) -> None:
        """Takes rows that have arrived behind those that wait, in any order of their times."""
        if not len(rows):
            return
        times = rows.order[TIME]
        is_sorted = not (times[1:] < times[:-1]).any()
        later = self._later_than(int(times[0] if is_sorted else times.min()))
        if later:
            rows, is_sorted = Chunk.concat([*later, rows]), False
        elif self._parts and len(self._parts[-1]) < _SHORT:
            rows = Chunk.concat([self._parts.pop(), rows])
        if not is_sorted:
            rows = rows.take(np.argsort(rows.order[TIME], kind="stable"))
        self._parts.append(rows)

    def _later_than(self, time: int) -> list[Chunk]:
        """Removes and gives the rows of later times."""
        found: list[Chunk] = []
        while self._parts and self._parts[-1].order[TIME][-1] > time:
            last = self._parts.pop()
            place = int(np.searchsorted(last.order[TIME], time, side="right"))
            found.append(last.slice(place, len(last)))
            if place:
                self._parts.append(last.slice(0, place))
        return found[::-1]

    def take(self, watermark: int, *, inclusive: bool) -> list[Chunk]:
        """Removes and gives the rows with time up to ``watermark``, or below it, in order; no chunk is empty."""
        side: Literal["left", "right"] = "right" if inclusive else "left"
        found: list[Chunk] = []
        for number, part in enumerate(self._parts):
            place = int(np.searchsorted(part.order[TIME], watermark, side=side))
            if place < len(part):
                found += [part.slice(0, place)] if place else []
                self._parts = [part.slice(place, len(part)), *self._parts[number + 1 :]]
                return found
            found.append(part)
        self._parts = []
        return found
