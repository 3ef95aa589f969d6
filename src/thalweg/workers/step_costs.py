"""What a step costs: a fixed part for each unit, and a part for each row.

A cost per row alone misleads where a unit costs much by itself: small steps look dear, and get smaller. So for each
operator a line is fitted to what its units took, over their rows, by least squares in which older units count less and
less. From the lines of all operators follows how many rows a step must have so that its fixed part is a small share.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: What is left of the weight of what was seen before, at each look.
_KEPT: Final = 0.8
#: Sizes of units must have differed by so large a share of their mean before a line says anything.
_SPREAD: Final = 0.1


class StepCosts:
    """Lines of cost, by operator.

    Args:
        units: by operator, how many units a step is for it.
    """

    def __init__(self, units: npt.ArrayLike) -> None:
        self._units_a_step = np.asarray(units, np.float64)
        count = len(self._units_a_step)
        self._last = np.zeros((3, count))
        #: weights, and weighted sums of rows, ns, rows**2 and rows * ns
        self._sums = np.zeros((5, count))
        #: the part of a unit, ns, and that of a row, ns
        self.fixed, self.slope = np.zeros(count), np.zeros(count)
        #: whether units have differed enough for a line, at some time
        self._is_known = np.zeros(count, np.bool_)

    def look(self, units: Any, rows: Any, busy_ns: Any) -> None:
        """Takes in what has been counted since the last look.

        Args:
            units, rows, busy_ns: by operator, all that there have been so far.
        """
        now = np.array([units, rows, busy_ns], np.float64)
        more, self._last = now - self._last, now
        seen = (more[0] > 0) & (more[1] > 0)
        per = np.divide(more[1:], more[0], out=np.zeros_like(more[1:]), where=seen)
        x, y = per
        self._sums *= np.where(seen, _KEPT, 1.0)
        self._sums += np.where(seen, np.array([np.ones_like(x), x, y, x * x, x * y]), 0.0)
        self._fit()

    def _fit(self) -> None:
        weight = np.maximum(self._sums[0], 1e-9)
        x, y, xx, xy = self._sums[1:] / weight
        spread = xx - x * x
        known = spread > (_SPREAD * x) ** 2
        self._is_known |= known
        slope = np.divide(xy - x * y, spread, out=np.zeros_like(x), where=known)
        slope = np.clip(slope, 0.0, np.divide(y, x, out=np.zeros_like(x), where=x > 0))
        self.slope = np.where(known, slope, self.slope)
        # Where sizes have been alike for long, the last line stays, moved to what is seen now.
        self.fixed = np.where(known, y - slope * x, np.minimum(self.fixed, y))
        self.slope = np.where(known, self.slope, _per_row(y - self.fixed, x))

    @property
    def is_known(self) -> bool:
        """Whether there is a line for each operator that has run; steps of one size say nothing of it."""
        return bool((self._is_known | (self._sums[0] == 0)).all())

    def rows_for(self, share: float, most_ns: float, reach: Any) -> float:
        """Rows of a step whose fixed part is a share of it, but not more than it takes ``most_ns`` for.

        Of an operator whose fixed part is more than half of that, as many as take as long as the fixed part does.

        Args:
            share: of the fixed part in the whole, above 0.
            most_ns: how long all operators together may take for a step.
            reach: by operator, rows that come to it for one of the sources.
        """
        fixed = float(self._units_a_step @ self.fixed)
        slope = float(np.asarray(reach, np.float64) @ self.slope)
        if slope <= 0.0:
            return float("inf") if fixed > 0 else 0.0
        # Where the fixed part alone takes longer, rows that take as long again cost little more waiting.
        most = max(most_ns - fixed, fixed)
        return max(0.0, min(fixed * (1.0 / share - 1.0), most) / slope)


def _per_row(ns: Floats, rows: Floats) -> Floats:
    return np.divide(ns, rows, out=np.zeros_like(ns), where=rows > 0)
