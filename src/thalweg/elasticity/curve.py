"""Throughput over thread levels, as far as it was measured: which level is best, and which is worth trying next.

Schneider & Wu (4.2.1) leave open what the level below and the level above are. Here levels double while nothing is
known above, and halve the gaps afterwards, as in IBM Streams. But a gap is tried only as long as a level in it may
displace the best one. For that, throughput is taken to be a concave function of the level that is 0 at 0: each thread
more adds at most what the one before added. Then the lines through measured levels bound what lies between them.
"""

from __future__ import annotations

import dataclasses
import math

from thalweg.elasticity.measures import relative_difference
from thalweg.elasticity.samples import Limits
from thalweg.elasticity.work import Rates, Weights, sum_of


@dataclasses.dataclass(slots=True)
class Reading:
    """What is known of a level (Schneider & Wu, Fig. 6); all but counts in tuples a second, by operator.

    Attributes:
        first: the first period since the level is trusted.
        last: the last one.
        total: the sum of all since then; count: of how many.
        last_time: the period of the last one.
    """

    first: Rates
    last: Rates
    total: Rates
    count: int
    last_time: int

    def add(self, rates: Rates, time: int) -> None:
        """One more period at this level."""
        self.last = rates
        self.total = sum_of(self.total, rates)
        self.count += 1
        self.last_time = time


class Curve:
    """The trusted levels and what each gave.

    Args:
        limits: the levels there are.
        weights: what the tuples of each operator count.
        sensitivity: what differs by no more than this share is equal (SENS of Fig. 7).
        noisy_sensitivity: the same once readings of one level were seen to vary. The error of readings adds to what
            is given up for fewer threads, so less of that is left.
        thrift: a level with fewer threads is sought only where it saves this share of them.
        averaged: whether a level is worth the mean of its readings, or the last of them.

    Attributes:
        readings: by level; all and only trusted levels are here.
        refused: levels that are out of range though within the limits; none of them is in ``readings``.
    """

    def __init__(
        self,
        limits: Limits,
        weights: Weights,
        *,
        sensitivity: float,
        noisy_sensitivity: float,
        thrift: float,
        averaged: bool,
    ) -> None:
        self.limits = limits
        self.readings: dict[int, Reading] = {}
        self.refused: set[int] = set()
        self._weights = weights
        self._sensitivity = sensitivity
        self._noisy_sensitivity = noisy_sensitivity
        self._thrift = thrift
        self._averaged = averaged

    def refuse(self, level: int) -> None:
        """A level that is not to be had."""
        self.readings.pop(level, None)
        self.refused.add(level)

    def record(self, level: int, rates: Rates, time: int) -> None:
        """A period at this level ended."""
        self.refused.discard(level)
        if level in self.readings:
            self.readings[level].add(rates, time)
        else:
            self.readings[level] = Reading(rates, rates, rates, 1, time)

    def mean(self, level: int) -> Rates:
        """What a trusted level gives, by operator."""
        reading = self.readings[level]
        if not self._averaged:
            return reading.last
        return tuple(total / reading.count for total in reading.total)

    def value(self, level: int) -> float:
        """The throughput of a trusted level, tuples a second."""
        return self._weights.throughput(self.mean(level))

    def known(self) -> list[int]:
        """The trusted levels within the limits, lowest first."""
        low, high = self.limits.minimum, self.limits.maximum
        return [level for level in sorted(self.readings) if low <= level <= high]

    def _tried(self) -> set[int]:
        return {*self.known(), *self.refused}

    def best(self) -> int:
        """The lowest trusted level than which none is clearly better. There must be one within the limits."""
        known = self.known()
        most = max(map(self.value, known))
        return next(level for level in known if not self.clearly(most, self.value(level)))

    def clearly(self, more: float, less: float) -> bool:
        """Whether a throughput is higher than another by more than the sensitivity."""
        sensitivity = self._noisy_sensitivity if self._varies() else self._sensitivity
        return more > less and more - less > sensitivity * less

    def best_below(self, level: int) -> int | None:
        """The trusted level with the most throughput among those below, the lowest of equals."""
        return max((k for k in self.known() if k < level), key=self.value, default=None)

    def best_above(self, level: int) -> int | None:
        """The trusted level with the most throughput among those above, the lowest of equals."""
        return max((k for k in self.known() if k > level), key=self.value, default=None)

    def untried_above(self, level: int) -> int | None:
        """The level above this one to try next: twice as many, or half-way to the next trusted one; None: none."""
        above = min((k for k in self._tried() if k > level), default=None)
        if above is not None:
            return self._halfway(level, above)
        limits = self.limits
        if level == limits.maximum:
            return None
        # At the minimum nothing can show a trend: there the search begins (rule 3 of section 4.2.2).
        hopeful = level == limits.minimum or self._may_displace(limits.maximum)
        return limits.clamp(2 * level) if hopeful else None

    def untried_below(self, level: int) -> int | None:
        """The level below this one to try next: half as many, or half-way to the next trusted one; None: none."""
        below = max((k for k in self._tried() if k < level), default=None)
        if below is not None:
            return self._halfway(below, level)
        return self.limits.clamp(level // 2) if level > self.limits.minimum else None

    def untried_further(self, level: int) -> int | None:
        """The level to try next above the trusted ones that are higher than this one, the lowest first; None: none."""
        tries = (self.untried_above(above) for above in self.known() if above > level)
        return next((one for one in tries if one is not None), None)

    def doubtful(self, level: int, readings: int) -> int | None:
        """The level to measure once more before ``level`` is kept: itself or a neighbour; None: none.

        A neighbour is, if it may be as good for all that readings of one level were seen to differ.

        Args:
            readings: how often a level is measured at least before it is kept.
        """
        mine = self.readings[level]
        if mine.count < readings:
            return level
        if not self._varies():
            return None
        known = self.known()
        at = known.index(level)
        reach = self.value(level) / (1 + 2 * self._spread())
        neighbours = [*known[at + 1 : at + 2], *known[max(at - 1, 0) : at]]
        beside = [k for k in neighbours if self.value(k) >= reach]
        least = min(beside, key=lambda k: self.readings[k].count, default=level)
        return least if self.readings[least].count < mine.count else level

    def _varies(self) -> bool:
        """Whether readings of one level differed so much that a single one cannot be trusted."""
        return self._averaged and self._spread() > self._sensitivity / 4

    def _spread(self) -> float:
        """By how much the first and the last reading of a level differ at most, as a share of the smaller one."""
        return max(
            (
                relative_difference(*map(self._weights.throughput, (reading.first, reading.last)))
                for reading in self.readings.values()
            ),
            default=0.0,
        )

    def _halfway(self, low: int, high: int) -> int | None:
        hopeful = any(self._may_displace(level) for level in range(low + 1, high))
        return (low + high) // 2 if hopeful else None

    def _may_displace(self, level: int) -> bool:
        """Whether an untrusted level could become the best one, at the most that it can give."""
        best = self.best()
        most = max(map(self.value, self.known()))
        bound = self.bound(level)
        if level > best:
            return self.clearly(bound, self.value(best))
        return level <= (1 - self._thrift) * best and not self.clearly(most, bound)

    def bound(self, level: int) -> float:
        """The most that an untrusted level can give if the curve is concave and 0 at 0, tuples a second."""
        points = [(0, 0.0), *((k, self.value(k)) for k in self.known())]
        left = [point for point in points if point[0] < level]
        # Nothing is the least there is: a curve that has come down to it may have been about to fall below.
        right = [point for point in points if point[0] > level and point[1] > 0.0]
        from_left = _line(left[-2], left[-1], level) if len(left) > 1 else math.inf
        from_right = _line(right[0], right[1], level) if len(right) > 1 else math.inf
        return min(from_left, from_right)


def _line(one: tuple[int, float], other: tuple[int, float], at: int) -> float:
    """The line through two points, no lower than 0."""
    slope = (other[1] - one[1]) / (other[0] - one[0])
    return max(other[1] + slope * (at - other[0]), 0.0)
