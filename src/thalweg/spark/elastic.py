"""How many slots, and how many threads in each: found from batch to batch by the controllers of elasticity.

A batch is a period of adaptation, and its running time is the period's length, so a query that waits for rows says
nothing (Schneider & Wu, 4.2.2, measure throughput the same way). Slots go by what a batch and a row cost
(:mod:`thalweg.elasticity.batch_costs`), threads by throughput. What follows a change is left out: its first batch
moves state, and so does the next one, where the first has made a routing table for the new number of slots. One change
at a time, threads before slots: threads cost no exchange of rows.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import Any, Final, Literal

from thalweg.brief import counted
from thalweg.checks import is_int_from, known_keywords_of
from thalweg.elasticity import (
    BatchCosts,
    Combined,
    Controller,
    Limits,
    Replicas,
    Sample,
    Suggestion,
    ThreadLevels,
    Utilization,
)
from thalweg.errors import BuildError

_LOG: Final = logging.getLogger("thalweg")
#: Of a batch with fewer rows most of the time is Spark's own.
LEAST_ROWS: Final = 10_000


@known_keywords_of
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """A number of ``slots`` or ``threads`` for :func:`thalweg.spark.start` that adapts while the query runs.

    ``"auto"`` is short for ``Elastic()``.

    Attributes:
        minimum: not fewer.
        maximum: not more; None: what the cluster has (slots), the cores of a task (threads).
        controller: what decides, one for each number of each query; it must go by throughput, which is all that is
            known of a batch, or by its costs. None: ``BatchCosts()`` for slots, ``ThreadLevels()`` for threads.
        least_rows: batches with fewer rows say nothing.

    Raises:
        BuildError: a number makes no sense, or the controller does not go by throughput.
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
            if not is_int_from(value, 1):
                raise BuildError(f"Elastic: {name} is a number of 1 or more, got {value!r}")
        if self.maximum is not None and self.maximum < self.minimum:
            raise BuildError(
                f"Elastic: at least {self.minimum} and at most {self.maximum} cannot both be"
            )
        if self.controller is not None and not isinstance(self.controller, Controller):
            raise BuildError(
                f"Elastic: controller is one of thalweg.elasticity, got {self.controller!r}"
            )
        if isinstance(self.controller, Combined | Replicas | Utilization):
            name = type(self.controller).__name__
            raise BuildError(
                f"Elastic: controller {name} goes by what inputs and threads do, and of a batch only throughput is"
                " known; take ThreadLevels()"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class BatchChange:
    """A number that was changed behind a batch, or the epoch of the routing table, and why.

    Attributes:
        batch: the last that ran, or runs, as it was before.
        at_s: when somebody asked for it, seconds since 1970; None where it follows from the batch.
    """

    batch: int
    what: Literal["slots", "threads", "table"]
    before: int
    after: int
    reason: str
    at_s: float | None = None


class _Number:
    """One of the numbers: its present value, and who decides on it, if it is not given."""

    def __init__(self, what: Literal["slots", "threads"], given: int | Elastic, most: int) -> None:
        self.what = what
        self.controller: Controller | None = None
        self.least_rows = 0
        self.follows = False
        if not isinstance(given, Elastic):
            self.level = given
            self.limits = Limits(given, given)
            return
        #: whether the most is what the cluster has
        self.follows = given.maximum is None
        self.level = given.minimum
        maximum = max(most, 1) if given.maximum is None else given.maximum
        self.limits = Limits(given.minimum, max(given.minimum, maximum))
        self.least_rows = given.least_rows
        default = BatchCosts if what == "slots" else ThreadLevels
        self.controller = default() if given.controller is None else given.controller
        self.controller.start(self.limits)

    def limit(self, most: int) -> None:
        """From now on there are no more than these, nor fewer than the least that were asked for."""
        assert self.controller is not None
        self.limits = Limits(self.limits.minimum, max(self.limits.minimum, most))
        self.level = min(self.level, self.limits.maximum)
        self.controller.start(self.limits)

    def next(self, sample: Sample) -> Suggestion | None:
        """What the controller suggests after a batch."""
        assert self.controller is not None
        found = [one for one in self.controller.decide(sample) if one.what == "threads"]
        return found[0] if found else None


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
        self._slots = _Number("slots", slots, most_slots)
        self._threads = _Number("threads", threads, most_threads)
        self._now_ns = 0
        #: the numbers that the last batch ran with
        self._before: tuple[int, int] | None = None
        #: whether the next batch moves keys to where a table for these slots has them
        self._settles = False
        #: more slots than an operator has buckets have nothing to do
        self._buckets: int | None = None
        self.changes: list[BatchChange] = []
        #: changes by hand that no batch has told yet
        self._asked: list[BatchChange] = []

    @property
    def slots(self) -> int:
        """How many the next batch has."""
        return self._slots.level

    def rescale(self, slots: int, batch: int, reason: str) -> None:
        """By hand: from the next batch on, and for good.

        Args:
            slots: how many.
            batch: the last that ran, or runs.
            reason: who asked.
        """
        before, self._slots.level, self._slots.controller = self._slots.level, slots, None
        if before == slots:
            return
        self._by_hand(BatchChange(batch, "slots", before, slots, reason, time.time()))

    def started_after(self, batch: int, slots: int) -> None:
        """The batch before this start had so many slots."""
        if slots != self.slots:
            reason = f"started with {counted(self.slots, 'slot')}"
            self._by_hand(BatchChange(batch, "slots", slots, self.slots, reason, time.time()))

    def _by_hand(self, change: BatchChange) -> None:
        self._asked.append(change)
        self.changes = [*self.changes[-99:], change]
        _LOG.info("slots: %d -> %d, %s", change.before, change.after, change.reason)

    @property
    def asked(self) -> Sequence[BatchChange]:
        """What was changed by hand and no batch has told yet."""
        return tuple(self._asked)

    def told(self, count: int) -> None:
        """So many of those were told with a batch."""
        del self._asked[:count]  # at once, as others may ask meanwhile

    @property
    def threads(self) -> int:
        """How many each slot of the next batch has."""
        return self._threads.level

    @property
    def most_slots(self) -> int:
        """The most that there may be, unless somebody says otherwise by hand."""
        return self._slots.limits.maximum

    @property
    def most_threads(self) -> int:
        """The most that a slot may have."""
        return self._threads.limits.maximum

    @property
    def slots_reason(self) -> str:
        """Why there are as many slots as there are, or will be; "" where they are given, or it is not known yet."""
        controller = self._slots.controller
        found = controller.choice if isinstance(controller, BatchCosts) else None
        return "" if found is None else found.reason

    def limit_slots(self, most: int | None) -> None:
        """Finds no more slots than these; to be said before the first batch.

        Args:
            most: not fewer than the least that were asked for; None for no limit.
        """
        self._buckets, number = most, self._slots
        if most is None or number.controller is None or number.limits.maximum <= most:
            return
        _LOG.info("slots: %d at most, since no operator has more buckets", most)
        number.limit(most)

    def follow_cluster(self, batch: int, most: int) -> Sequence[BatchChange]:
        """Executors may have come or gone: the most that are found is what the cluster has now.

        What is known of other numbers was seen on another cluster, so it is looked at anew. Where there are fewer
        than slots, the next batch has no more than these.

        Args:
            batch: that has run.
            most: slots that the cluster can run at a time; 0 where that is not known.
        """
        number = self._slots
        if self._buckets is not None:
            most = min(most, self._buckets)
        least = number.limits.minimum
        if not most or not number.follows or number.controller is None:
            return ()
        if max(most, least) == number.limits.maximum:
            return ()
        reason = f"the cluster runs {most} slots at a time, {number.limits.maximum} before"
        before = number.level
        number.limit(most)
        _LOG.info("slots: %d -> %d, since %s", before, number.level, reason)
        if before == number.level:
            return ()
        change = BatchChange(batch, "slots", before, number.level, reason)
        self.changes = [*self.changes[-99:], change]
        return (change,)

    def batch_done(
        self, batch: int, *, rows: int, tuples: int, wall_s: float,
        work_s: float | None = None, new_table: bool = False,
    ) -> Sequence[BatchChange]:  # fmt: skip
        """A batch has run with the present numbers; what changes for the next one.

        Args:
            batch: its number.
            rows: that its sources gave.
            tuples: that all its operators took.
            wall_s: how long it ran.
            work_s: how long its slots together worked on rows; None where that is not known.
            new_table: whether another routing table, made from statistics, holds from the next batch on.
        """
        numbers = self.slots, self.threads
        same = self._before == numbers
        whole = same and not self._settles
        # Not behind every table: there may be one in each batch.
        self._before, self._settles = numbers, new_table and not same
        length_ns = max(round(wall_s * 1e9), 1)
        self._now_ns += length_ns
        for one, other in ((self._threads, self._slots), (self._slots, self._threads)):
            if one.controller is None or rows < one.least_rows:
                continue
            suggested = one.next(
                Sample(
                    now_ns=self._now_ns, period_ns=length_ns, threads=one.level, tuples=tuples, whole=whole,
                    work_ns=None if work_s is None else round(work_s * 1e9),
                )
            )  # fmt: skip
            if suggested is not None:
                return (self._change(batch, one, other, suggested),)
            if not one.controller.settled:
                return ()
        return ()

    def _change(
        self, batch: int, number: _Number, other: _Number, suggested: Suggestion
    ) -> BatchChange:
        before, limits = number.level, number.limits
        number.level = max(limits.minimum, min(suggested.target, limits.maximum))
        if other.controller is not None:
            # What it knows was seen beside another value of this one.
            other.controller.reconsider()
        change = BatchChange(batch, number.what, before, number.level, suggested.reason)
        self.changes = [*self.changes[-99:], change]
        _LOG.info("%s: %d -> %d, since %s", change.what, before, change.after, change.reason)
        return change


def elastic(what: str, given: Any) -> int | Elastic | None:
    """What was given for a number: itself, or how it is to be found.

    Raises:
        BuildError: it is neither.
    """
    if given == "auto":
        return Elastic()
    if given is None or isinstance(given, Elastic):
        return given
    if is_int_from(given, 1):
        return given
    raise BuildError(f"{what} is a number of 1 or more, 'auto' or an Elastic, got {given!r}")
