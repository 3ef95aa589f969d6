"""How many rows a step has: as many as its operators' cost says, neither slow to wait for nor dear by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.workers.memory import layout as at
from thalweg.workers.step_costs import StepCosts
from thalweg.workers.views import dearest_ns

#: Rows of a step at most, where cost decides: several are on their way at once, so all workers have work.
STEP_ROWS: Final = 16_384
#: Rows of the first steps.
FIRST_ROWS: Final = 64
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


class StepSize:
    """The size of the next step of a flow, by what its operators have cost so far.

    Args:
        mem: of the runtime that the flow runs in.
        partitions: by operator, how many units a step is for it.
        source: where the flow's ingress stands; the other operators stand behind it.
        submitter: of the flow.
        step_ms: how long all operators together may take for a step whose fixed cost is to be a small share.
    """

    def __init__(
        self,
        mem: at.Int64s,
        partitions: Sequence[int],
        *,
        source: int,
        submitter: int,
        step_ms: float,
    ) -> None:
        self._mem = mem
        self._costs, self._count = StepCosts(partitions), len(partitions)
        self._source, self._submitter = source, submitter
        self._step_ms = step_ms
        self._rows, self._steps_until_look = FIRST_ROWS, 0
        self._steps_until_fit, self._least_rows = _FIT_STEPS, 0
        #: rows that have come, and steps
        self._submitted = self._steps = 0

    def count(self, rows: int) -> None:
        """A step of so many rows has come."""
        self._steps_until_fit -= 1
        self._submitted += rows
        self._steps += 1

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
        self._steps_until_look = self._count * int(self._mem[at.N_WORKERS]) // _COUNTS_A_STEP
        dearest = dearest_ns(self._mem, self._submitter, self._source)
        rows = FIRST_ROWS if dearest < 0 else int(STEP_NS / max(dearest, 1.0))
        self._rows = max(1, min(most_rows, max(rows, self._rows_worth_a_step(most_rows))))
        return self._rows

    def _rows_worth_a_step(self, most_rows: int) -> int:
        """So many that a step's fixed cost is a small share."""
        if self._steps_until_fit > 0 or not self._submitted:
            return self._least_rows
        self._steps_until_fit = _FIT_STEPS
        totals = at.counts_of(self._mem).sum(axis=0)[self._source : self._source + self._count]
        self._costs.look(totals[:, at.S_UNITS], totals[:, at.S_IN], totals[:, at.S_BUSY])
        reach = totals[:, at.S_IN] / self._submitted
        most_ns = self._step_ms * 1e6
        rows = self._costs.rows_for(FIXED_SHARE, most_ns, reach)
        if not self._costs.is_known:
            # Steps of another size, as long as they are short, show which part of the cost is whose.
            rows = max(rows, min(2 * self._rows, self._costs.rows_for(1e-3, most_ns, reach)))
        self._least_rows = int(min(rows, most_rows))
        return self._least_rows
