"""What a domain releases at once, cut into steps in the order of the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from thalweg.columns.chunks import Chunk
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


def cut_one(index: int, rows: Chunk, step_rows: StepRows, watermark: int) -> Iterator[Release]:
    """The rows of a single gate."""
    for start, end in cuts(len(rows), step_rows):
        part = rows.slice(start, end)
        yield {index: part}, watermark if end == len(rows) else int(part.order[TIME][-1])


def cut_many(taken: dict[int, Chunk], step_rows: StepRows, watermark: int) -> Iterator[Release]:
    """Cuts the merged sequence of several gates at the same places in all of them."""
    indices = list(taken)
    times = np.concatenate([taken[i].order[TIME] for i in indices])
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
