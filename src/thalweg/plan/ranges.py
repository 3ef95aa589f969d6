"""How many partitions a keyed operator should have, and which ranges of keys: from a profile of a sample.

Prasaad et al., section 4: "Profiling data gathered from sample runs can be used to determine both p and the
partitioning of key space into p buckets." A key is never cut; more ranges spread skewed keys better, and each costs a
unit of work in each step that has a row for it. Pure: counts and costs in, ranges out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

#: Ranges at most; as many as an operator has buckets by default.
MOST: Final = 256
#: So much more speed-up must further ranges promise.
WORTH: Final = 1.02
#: Speed-up of ranges over hashes from which they are worth their boundaries, which other keys may make wrong.
CLEARLY: Final = 1.1


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """What a sample has shown of a keyed operator, and how it is to run.

    Attributes:
        counts: tuples by key (by its first field), in the order of the keys.
        row_ns: what a tuple takes.
        unit_ns: what a partition takes in a step besides its tuples.
        step_rows: tuples of a step.
        threads: workers.
    """

    counts: Sequence[int]
    row_ns: float
    unit_ns: float
    step_rows: int
    threads: int


@dataclasses.dataclass(frozen=True, slots=True)
class Partitioning:
    """A number of partitions, and what is expected of it.

    Attributes:
        parts: how many there are.
        starts: of ranges, the place in the order of the keys where each but the first begins.
        fullest: the share of the tuples that the fullest one has.
        speed_up: of the operator over one thread without partitions.
    """

    parts: int
    starts: tuple[int, ...]
    fullest: float
    speed_up: float


def cut(counts: Sequence[int], parts: int) -> tuple[int, ...]:
    """Where each range but the first begins, of at most so many whose fullest one is as small as can be."""
    before = np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])
    low, high = int(max(counts, default=0)), int(before[-1])
    while low < high:
        middle = (low + high) // 2
        if len(_starts(before, middle)) < parts:
            high = middle
        else:
            low = middle + 1
    return tuple(_starts(before, low))


def _starts(before: npt.NDArray[np.int64], most: int) -> list[int]:
    """The ranges that are filled one after the other with at most so many tuples."""
    starts: list[int] = []
    first = 0
    while first < len(before) - 1:
        end = int(np.searchsorted(before, before[first] + most, side="right")) - 1
        if end < len(before) - 1:
            starts.append(end)
        first = max(end, first + 1)
    return starts


def expected(profile: Profile, loads: Sequence[int]) -> Partitioning:
    """What is expected of partitions with these loads, where free workers take what comes next (the hybrid queue)."""
    shares = np.asarray(loads, np.float64) / max(sum(loads), 1)
    rows = max(profile.step_rows, 1)
    units = 1.0 - (1.0 - shares) ** rows
    row, unit = profile.row_ns, profile.unit_ns / rows
    work = (row + unit * float(units.sum())) / profile.threads
    worst = float((shares * row + units * unit).max(initial=0.0))
    time = max(work, worst)
    speed_up = (row + unit) / time if time else 1.0
    return Partitioning(len(loads), (), float(shares.max(initial=0.0)), speed_up)


def by_range(profile: Profile, parts: int) -> Partitioning:
    """At most so many ranges."""
    starts = cut(profile.counts, parts)
    sums = np.add.reduceat(np.asarray(profile.counts, np.int64), [0, *starts])
    return dataclasses.replace(expected(profile, sums.tolist()), starts=starts)


def candidates(profile: Profile) -> Iterator[int]:
    """Numbers of partitions to look at, ascending."""
    most, parts = min(MOST, len(profile.counts)), 1
    while parts < most:
        yield parts
        parts = max(parts + 1, parts * 5 // 4)
    yield max(most, 1)


def choose(profile: Profile) -> Partitioning:
    """The fewest ranges that promise as much as any number of them, about."""
    found = [by_range(profile, parts) for parts in candidates(profile)]
    best = max(one.speed_up for one in found)
    return next(one for one in found if one.speed_up * WORTH >= best)
