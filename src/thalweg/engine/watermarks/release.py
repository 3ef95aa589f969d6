"""What a domain releases at once, cut into steps in the order of the stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.plan.plan import TIME

#: Asked before each step: how many rows it should have, at least one.
StepRows = Callable[[], int]
#: A step of a domain: what each of its members releases, and the watermark behind it.
Release = tuple[dict[int, Chunk], int]


def cuts(rows: int, step_rows: StepRows) -> Iterator[tuple[int, int]]:
    """Cuts so many rows into steps: where each begins and ends. Of a single row there is nothing to ask."""
    start = 0
    while start < rows:
        end = rows if rows - start == 1 else min(rows, start + step_rows())
        yield start, end
        start = end


def cut_one(
    index: int, parts: Sequence[Chunk], step_rows: StepRows, watermark: int
) -> Iterator[Release]:
    """The rows of a single gate; a step is of one part, so that no row is copied."""
    for number, rows in enumerate(parts, 1):
        for start, end in cuts(len(rows), step_rows):
            part = rows.slice(start, end)
            is_last = number == len(parts) and end == len(rows)
            yield {index: part}, watermark if is_last else int(part.order[TIME][-1])


class _Joined:
    """Several chunks as if they were one; only a slice of more than one of them is copied."""

    def __init__(self, parts: Sequence[Chunk]) -> None:
        self._parts = parts
        self._starts = [0, *itertools.accumulate(map(len, parts))]

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def times(self) -> Int64s:
        """The time of each row."""
        times: Int64s = np.concatenate([part.order[TIME] for part in self._parts])
        return times

    def slice(self, start: int, stop: int) -> Chunk:
        """Rows start to stop, of which there is one at least."""
        found = []
        for part, first in zip(self._parts, self._starts, strict=False):
            begin, end = max(start - first, 0), min(stop - first, len(part))
            if begin < end:
                found.append(part.slice(begin, end))
        return found[0] if len(found) == 1 else Chunk.concat(found)


def cut_many(
    given: Mapping[int, Sequence[Chunk]], step_rows: StepRows, watermark: int
) -> Iterator[Release]:
    """Cuts the merged sequence of several gates at the same places in all of them."""
    indices = list(given)
    taken = {i: _Joined(parts) for i, parts in given.items()}
    times = np.concatenate([taken[i].times for i in indices])
    owner = np.concatenate([np.full(len(taken[i]), i) for i in indices])
    order = np.lexsort((owner, times))
    times, owner = times[order], owner[order]
    at = dict.fromkeys(indices, 0)
    for start, end in cuts(len(owner), step_rows):
        piece = owner[start:end]
        step = {}
        for i in indices:
            count = int((piece == i).sum())
            if count:
                step[i] = taken[i].slice(at[i], at[i] + count)
                at[i] += count
        yield step, watermark if end == len(owner) else int(times[end - 1])
