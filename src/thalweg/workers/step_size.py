"""Chooses the number of rows in a step by the cost of the operators: low latency at low overhead.

A step costs a fixed part for each unit, and a part for each row. A cost per row alone misleads where a unit costs much
by itself: small steps look dear, and get smaller. So for each operator a line is fitted to what its units took, over
their rows, by least squares in which older units count less and less. From the lines of all operators follows how many
rows a step must have so that its fixed part is a small share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.workers.memory import layout as at
from thalweg.workers.worker_loop.views import dearest_ns

Floats = npt.NDArray[np.float64]

#: Rows of a step at most, where cost decides: several are on their way at once, so all workers have work.
STEP_ROWS: Final = 16_384
#: Rows of the first steps.
FIRST_ROWS: Final = 64
#: Where a function takes whole batches, a call may cost as much for few rows as for many: each of the first steps has
#: twice the rows of the one before, up to so many, until an operator has answered.
MOST_FIRST_ROWS: Final = 1_024
#: So many of the first steps go through alone: the very first ones make tables and meet cold code.
_ALONE_STEPS: Final = 8
#: How long an operator is to take for a step, ns: twenty times what a step costs in Python, and not long to wait for.
STEP_NS: Final = 2_000_000
#: The fixed part of what a step costs is at most about so large a share of it.
FIXED_SHARE: Final = 0.1
#: The lines of cost are fitted anew after so many steps.
_FIT_STEPS: Final = 8
#: So many counts of operators, one a worker, may be looked at a step to find out what rows cost: some microseconds.
_COUNTS_A_STEP: Final = 256
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


class StepSize:
    """The size of the next step of a flow, by what its operators have cost so far.

    Args:
        mem: of the runtime that the flow runs in.
        partitions: by operator, how many units a step is for it.
        source: where the flow's ingress stands; the other operators stand behind it.
        submitter: of the flow.
        step_ms: how long all operators together may take for a step whose fixed cost is to be a small share.
        by_batches: whether a function of the flow takes whole batches.
        may_wait: whether a row may take long in a function of the user's: then the first steps have few.
    """

    def __init__(
        self,
        mem: at.Int64s,
        partitions: Sequence[int],
        *,
        source: int,
        submitter: int,
        step_ms: float,
        by_batches: bool = False,
        may_wait: bool = False,
    ) -> None:
        self._mem = mem
        self._costs, self._count = StepCosts(partitions), len(partitions)
        self._source, self._submitter = source, submitter
        self._step_ms, self._by_batches, self._may_wait = step_ms, by_batches, may_wait
        self._rows, self._steps_until_look = FIRST_ROWS, 0
        self._steps_until_fit, self._least_rows = _FIT_STEPS, 0
        #: rows that have come, and steps
        self._submitted = self._steps = 0
        #: steps, rows and ns of operators that ride on the sources; what a row of the last steps took
        self._ridden = np.zeros(3, np.int64)
        self._ridden_ns_a_row = -1.0

    def count(self, rows: int) -> None:
        """A step of so many rows has come."""
        self._steps_until_fit -= 1
        self._submitted += rows
        self._steps += 1

    def ride(self, rows: int, took_ns: int) -> None:
        """Operators that ride on the sources have taken so long for a step, which no worker has counted."""
        self._ridden += 1, rows, took_ns
        if rows:
            cost, before = took_ns / rows, self._ridden_ns_a_row
            self._ridden_ns_a_row = cost if before < 0 else (before + cost) / 2

    @property
    def is_first(self) -> bool:
        """Whether a step is one of the first, whose cost is to be seen before others come.

        What runs beside the thread that brings rows may wait for Python's lock, and would look dear.
        """
        return self._steps <= _ALONE_STEPS

    def rows(self, most_rows: int) -> int:
        """As many rows as the dearest operator does in :data:`STEP_NS`, few before it is known what they cost.

        And so many that what a step costs by itself is a small share, as far as it takes ``Options.step_ms`` for that.
        """
        if self._steps_until_look > 0:
            self._steps_until_look -= 1
            return self._rows
        self._steps_until_look = self._count * int(self._mem[at.N_COUNTED]) // _COUNTS_A_STEP
        dearest = dearest_ns(self._mem, self._submitter, self._source)
        if dearest >= 0 or self._count == 1:
            dearest = max(dearest, self._ridden_ns_a_row)
        grows = self._by_batches and self._submitted
        first = min(2 * self._rows, MOST_FIRST_ROWS) if grows else self._first_rows()
        rows = first if dearest < 0 else int(STEP_NS / max(dearest, 1.0))
        self._rows = max(1, min(most_rows, max(rows, self._rows_worth_a_step(most_rows))))
        return self._rows

    def _first_rows(self) -> int:
        """While little is known: where a row may take long, no more than what was seen says take a step's time."""
        if not self._may_wait or self._by_batches:
            return FIRST_ROWS
        counts = at.counts_of(self._mem)[:, self._source : self._source + self._count]
        timed, ns = (counts[:, :, word].sum(axis=0) for word in (at.S_TIMED, at.S_NS))
        dearest = float(_per_row(ns.astype(np.float64), timed.astype(np.float64)).max())
        return min(FIRST_ROWS, max(1, int(STEP_NS / dearest))) if dearest else 1

    def _rows_worth_a_step(self, most_rows: int) -> int:
        """So many that a step's fixed cost is a small share."""
        if self._steps_until_fit > 0 or not self._submitted:
            return self._least_rows
        self._steps_until_fit = _FIT_STEPS
        totals = at.counts_of(self._mem).sum(axis=0)[self._source : self._source + self._count]
        totals[0, [at.S_UNITS, at.S_IN, at.S_BUSY]] += self._ridden
        self._costs.look(totals[:, at.S_UNITS], totals[:, at.S_IN], totals[:, at.S_BUSY])
        reach = totals[:, at.S_IN] / self._submitted
        most_ns = self._step_ms * 1e6
        rows = self._costs.rows_for(FIXED_SHARE, most_ns, reach)
        if not self._costs.is_known:
            # Steps of another size, as long as they are short, show which part of the cost is whose.
            rows = max(rows, min(2 * self._rows, self._costs.rows_for(1e-3, most_ns, reach)))
        self._least_rows = int(min(rows, most_rows))
        return self._least_rows
