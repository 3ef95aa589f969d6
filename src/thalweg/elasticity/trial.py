"""Whether threads pay, found out while a flow runs: alone first, then in threads for a moment, then what was faster.

Nobody knows before how dear a flow's rows are. So the thread that brings the rows runs the first steps by itself. When
so much is left that it matters, all threads run some steps, and the faster way goes on. Each trial costs at most a
small share of what is left, and the other way is tried again, ever more rarely, since rows may get dearer.

Where functions wait for most of a step's time (:mod:`thalweg.elasticity.waiting`) there is nothing to try: while one
waits others can go on. Then steps go to threads at once, and come back only where that has not made them faster.

Nothing here reads a clock: rows and times are given.
"""

from __future__ import annotations

import enum
import math
from typing import Final

from thalweg.elasticity.waiting import WAITS

#: So long the first steps run alone before anything is decided; the first of them, which warms up, does not count.
FIRST_NS: Final = 40_000_000
#: Where less is left than that, a trial would cost more than it could gain.
LEAST_LEFT_NS: Final = 400_000_000
#: A trial takes at most so large a share of what is left, and all but the first of what has gone by, in these bounds.
SHARE: Final = 0.03
SHORTEST_NS: Final = 20_000_000
LONGEST_NS: Final = 400_000_000
#: So much of a trial is its start, which does not count: threads wake up, and steps find their size.
START: Final = 0.25
#: In threads steps are only handed over, soon many of them. So a trial has at most so many times the rows that would
#: take its time alone; but at least so many steps, or threads would have nothing to share.
ROWS_SHARE: Final = 2
TRIAL_STEPS: Final = 4
#: Threads use more processors, so they must be faster by so much.
GAIN: Final = 1.1
#: A step that runs alone in functions that may wait takes about so long.
STEP_NS: Final = 20_000_000
#: Others have many rows where that takes no longer: a step of few costs up to a fifth more a row.
LONG_STEP_NS: Final = 100_000_000
#: A start that is so many times slower need not be followed by a trial.
HOPELESS: Final = 3
#: What cannot be tried yet is asked about again after so long.
POSTPONED_NS: Final = 2_000_000_000
#: The next trial comes when the run is so many times as old.
LATER: Final = 4


class TrialPhase(enum.Enum):
    """What is going on."""

    RUNNING = "running"
    STARTING = "starting"
    TRYING = "trying"


class ThreadTrial:
    """Says by which way steps go.

    The caller asks :meth:`is_due` before each step. When it is, it waits until all steps are done, and calls
    :meth:`look`, which says how steps go from then on. After each step it calls :meth:`count`.

    Args:
        rows: about how many will come in all, rather too many; infinite where nobody knows.
    """

    def __init__(self, rows: float) -> None:
        self.in_threads = False
        self.phase = TrialPhase.RUNNING
        self._rows, self._seen = rows, 0
        self._steps = 0
        #: monotonic ns: when the run began, when its phase did, and when something is due
        self._began_ns = self._since_ns = self._due_ns = 0
        self._phase_rows = self._phase_steps = 0
        #: so many rows end the phase before its time
        self._most_rows = math.inf
        #: of the phase, when it was last asked
        self._spent_ns = 0
        #: ns a row of the way that goes on, while the other is tried
        self._before = math.inf
        self._budget_ns = 0.0
        self._has_tried = self._is_over = False
        #: threads pay only where functions wait, as where Python runs them
        self.only_waiting = False
        #: of the phase, how long its steps took, and how much of that they waited; both ns
        self._took_ns = self._waited_ns = 0
        #: it went to threads for that
        self._by_waiting = False

    def is_due(self, now_ns: int) -> bool:
        """Whether it is time to :meth:`look`."""
        if self._steps < 2:
            if not self._steps:
                self._began_ns = now_ns
            self._begin(TrialPhase.RUNNING, now_ns, FIRST_NS)
            return False
        self._spent_ns = now_ns - self._since_ns
        if self._is_over or (now_ns < self._due_ns and not self._has_enough()):
            return False
        if self.only_waiting and not (self.in_threads or self.waits):
            return False
        return self.phase is not TrialPhase.RUNNING or self._left_ns(now_ns) >= LEAST_LEFT_NS

    def _has_enough(self) -> bool:
        """Whether a trial has had as many rows as it may."""
        return self._phase_rows >= self._most_rows and self._phase_steps >= TRIAL_STEPS

    @property
    def waits(self) -> bool:
        """Whether functions were seen to wait, in steps that ran alone, for so long that others should go on."""
        return self._waited_ns >= max(WAITS * self._took_ns, FIRST_NS / 4)

    def count(self, rows: int, *, took_ns: int = 0, waited_ns: int = 0) -> None:
        """A step of so many rows is on its way; one that ran alone took so long, and waited so long of that."""
        self._took_ns += took_ns
        self._waited_ns += waited_ns
        self._steps += 1
        self._seen += rows
        self._phase_rows += rows
        self._phase_steps += 1

    def to_come(self, rows: int) -> float:
        """How many rows come behind the next ``rows``, for each of those so far; 0 where nobody knows."""
        seen = self._seen + rows
        return max(self._rows - seen, 0) / seen if seen and self._rows < math.inf else 0.0

    def look(self, now_ns: int) -> bool:
        """Whether steps go to threads from now on; all before are done."""
        if self._by_waiting:
            self._look_again(now_ns)
        elif self.phase is TrialPhase.RUNNING and self.waits:
            self._before, self._by_waiting, self.in_threads = self._cost(now_ns), True, True
            self._begin(TrialPhase.RUNNING, now_ns, self._until_later(now_ns))
        elif self.phase is TrialPhase.RUNNING:
            left = self._left_ns(now_ns)
            if self._has_tried:
                left = min(left, now_ns - self._began_ns)
            self._has_tried = True
            self._before = self._cost(now_ns)
            self._budget_ns = min(max(SHARE * left, SHORTEST_NS), LONGEST_NS)
            self.in_threads = not self.in_threads
            self._begin(TrialPhase.STARTING, now_ns, START * self._budget_ns)
        elif self.phase is TrialPhase.STARTING and self._cost(now_ns) < HOPELESS * self._before:
            self._begin(TrialPhase.TRYING, now_ns, (1 - START) * self._budget_ns)
        else:
            if not self._is_better(self._cost(now_ns)):
                self.in_threads = not self.in_threads
            self._begin(TrialPhase.RUNNING, now_ns, self._until_later(now_ns))
        return self.in_threads

    def _look_again(self, now_ns: int) -> None:
        """Steps went to threads since functions waited: whether that has made them faster."""
        self._by_waiting = self.in_threads = self._is_better(self._cost(now_ns))
        self._begin(TrialPhase.RUNNING, now_ns, self._until_later(now_ns))

    def _until_later(self, now_ns: int) -> int:
        return (LATER - 1) * (now_ns - self._began_ns)

    def pass_by(self, ns: int) -> None:
        """For so long before now nothing was to be done: as if that time had not been."""
        self._began_ns += ns
        self._since_ns += ns
        self._due_ns += ns

    def postpone(self, now_ns: int) -> None:
        """Nothing can be tried yet; asks again after a while."""
        self._due_ns = now_ns + POSTPONED_NS

    def give_up(self) -> None:
        """There is nothing to try."""
        self._is_over = True

    def step_rows(self, few: int, many: int) -> int:
        """Rows of the next step that runs alone: few until it is known that many do not take long."""
        is_known = self._steps >= 2 and self._phase_rows > 0
        return (
            many if is_known and self._spent_ns * many <= LONG_STEP_NS * self._phase_rows else few
        )

    def _begin(self, phase: TrialPhase, now_ns: int, length_ns: float) -> None:
        self.phase, self._phase_rows, self._phase_steps, self._spent_ns = phase, 0, 0, 0
        self._took_ns = self._waited_ns = 0
        self._most_rows = math.inf
        if self.in_threads and phase is not TrialPhase.RUNNING:
            self._most_rows = ROWS_SHARE * length_ns / self._before
        self._since_ns, self._due_ns = now_ns, now_ns + int(length_ns)

    def _cost(self, now_ns: int) -> float:
        """ns a row in this phase."""
        return (now_ns - self._since_ns) / self._phase_rows if self._phase_rows else math.inf

    def _is_better(self, cost: float) -> bool:
        """Whether what was tried is, by more than what it costs others."""
        return cost * GAIN < self._before if self.in_threads else cost < self._before * GAIN

    def _left_ns(self, now_ns: int) -> float:
        """How long the rest takes if it goes on so; where nobody knows, as long as it has taken."""
        left = self._rows - self._seen
        if not 0 < left < math.inf:
            return now_ns - self._began_ns if left else 0.0
        return left * self._cost(now_ns) if self._phase_rows else 0.0
