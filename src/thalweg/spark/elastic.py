"""How many slots, and how many threads in each: found from batch to batch by the controllers of elasticity.

A batch is a period of adaptation, and its running time is the period's length, so a query that waits for rows says
nothing (Schneider & Wu, 4.2.2, measure throughput the same way). What follows a change is left out: its first batch
moves state. One change at a time, threads before slots: threads cost no exchange of rows.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any, Final, Literal

from thalweg.elasticity import Controller, Limits, Sample, ThreadLevels
from thalweg.errors import BuildError

_LOG: Final = logging.getLogger("thalweg")
#: Of a batch with fewer rows most of the time is Spark's own.
LEAST_ROWS: Final = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """A number that the system finds by itself: for ``slots`` or ``threads`` of :func:`thalweg.spark.start`.

    ``"auto"`` is short for ``Elastic()``.

    Attributes:
        minimum: not fewer.
        maximum: not more; None: what the cluster has (slots), the cores of a task (threads).
        controller: what decides, of :mod:`thalweg.elasticity`, one for each query; None: ``ThreadLevels()``.
        least_rows: batches with fewer rows say nothing.

    Raises:
        BuildError: a number makes no sense.
    """

    minimum: int = 1
    maximum: int | None = None
    controller: Controller | None = None
    least_rows: int = LEAST_ROWS

    def __post_init__(self) -> None:
        for name in ("minimum", "maximum", "least_rows"):
            value = getattr(self, name)
            if name == "maximum" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BuildError(f"Elastic: {name} is a number of 1 or more, got {value!r}")
        if self.maximum is not None and self.maximum < self.minimum:
            raise BuildError(
                f"Elastic: at least {self.minimum} and at most {self.maximum} cannot both be"
            )
        if self.controller is not None and not isinstance(self.controller, Controller):
            raise BuildError(
                f"Elastic: controller is one of thalweg.elasticity, got {self.controller!r}"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A number that was changed behind a batch, and why."""

    batch: int
    what: Literal["slots", "threads"]
    before: int
    after: int
    reason: str


class _Dimension:
    """One of the numbers, its present value, and who decides on it."""

    def __init__(self, what: Literal["slots", "threads"], how: Elastic, most: int) -> None:
        self.what = what
        self.how = how
        maximum = max(how.minimum, most if how.maximum is None else how.maximum)
        self.limits = Limits(how.minimum, maximum)
        self.controller = ThreadLevels() if how.controller is None else how.controller
        self.controller.start(self.limits)
        self.level = how.minimum


class Adaptation:
    """The numbers of one query; told of each batch, it gives those of the next.

    Args:
        slots: a number, or that it is to be found.
        threads: of each slot, likewise.
        most_slots: what the cluster has.
        most_threads: the cores of a task.
    """

    def __init__(
        self, slots: int | Elastic, threads: int | Elastic, *, most_slots: int, most_threads: int
    ) -> None:
        self._fixed = {"slots": slots, "threads": threads}
        found: list[tuple[Literal["slots", "threads"], int | Elastic, int]] = [
            ("threads", threads, most_threads), ("slots", slots, most_slots),
        ]  # fmt: skip
        self._dimensions = [
            _Dimension(what, how, max(most, 1))
            for what, how, most in found
            if isinstance(how, Elastic)
        ]
        most = {one.what: one.limits.maximum for one in self._dimensions}
        #: the most that there may be, unless somebody says otherwise by hand
        self.most_slots = most.get("slots", slots if isinstance(slots, int) else 1)
        self.most_threads = most.get("threads", threads if isinstance(threads, int) else 1)
        self._now_ns = 0
        #: the numbers that the last batch ran with
        self._before: tuple[int, int] | None = None
        self.changes: list[Change] = []

    def _number(self, what: str) -> int:
        for one in self._dimensions:
            if one.what == what:
                return one.level
        fixed = self._fixed[what]
        assert isinstance(fixed, int)
        return fixed

    @property
    def slots(self) -> int:
        """How many the next batch has."""
        return self._number("slots")

    @slots.setter
    def slots(self, slots: int) -> None:
        """By hand: from the next batch on, and for good."""
        self._dimensions = [one for one in self._dimensions if one.what != "slots"]
        self._fixed["slots"] = slots

    @property
    def threads(self) -> int:
        """How many each slot of the next batch has."""
        return self._number("threads")

    def batch_done(self, batch: int, *, rows: int, tuples: int, wall_s: float) -> Sequence[Change]:
        """A batch has run with the present numbers; what changes for the next one.

        Args:
            batch: its number.
            rows: that its sources gave.
            tuples: that all its operators took.
            wall_s: how long it ran.
        """
        numbers = self.slots, self.threads
        whole = self._before == numbers
        self._before = numbers
        self._now_ns += max(round(wall_s * 1e9), 1)
        for one in self._dimensions:
            if rows < one.how.least_rows:
                continue
            sample = Sample(
                now_ns=self._now_ns,
                period_ns=max(round(wall_s * 1e9), 1),
                threads=one.level,
                tuples=tuples,
                whole=whole,
            )
            found = [s for s in one.controller.decide(sample) if s.what == "threads"]
            if found:
                target = max(one.limits.minimum, min(found[0].target, one.limits.maximum))
                change = Change(batch, one.what, one.level, target, found[0].reason)
                one.level = target
                self._dwell(one)
                self.changes = [*self.changes[-99:], change]
                _LOG.info("%s: %d -> %d, since %s", one.what, change.before, target, change.reason)
                return (change,)
            if not one.controller.settled:
                return ()
        return ()

    def _dwell(self, changed: _Dimension) -> None:
        """What was known of the other numbers was seen beside another value of this one."""
        for other in self._dimensions:
            if other is not changed:
                other.controller.reconsider()


def elastic(what: str, given: Any) -> int | Elastic | None:
    """What was given for a number: itself, or how it is to be found.

    Raises:
        BuildError: it is neither.
    """
    if given == "auto":
        return Elastic()
    if given is None or isinstance(given, Elastic):
        return given
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise BuildError(f"{what} is a number of 1 or more, 'auto' or an Elastic, got {given!r}")
    return given
