"""All stages of a batch in tasks that run at once on one machine: what a batch of several slots is there.

Spark's exchanges want a stage of their own for each stage of a flow: tasks that are planned, started and waited for
one after the other, and rows that cross the JVM twice. Here each task runs what :class:`Mailboxes` has for it: the
first one reads the input and, step by step, runs a slot of the next stage beside it; the others run other slots
meanwhile. Which task runs which slot is found as they go: each takes the slot whose state it has, and what nobody has
begun.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from thalweg.spark.tasks import tasks
from thalweg.spark.tasks.mailboxes import Mailboxes, MailboxStopped, StageUnit
from thalweg.spark.tasks.sender import is_merged
from thalweg.spark.tasks.transport import DRIVER, Blob, to_batches
from thalweg.spark.tasks.worker import StageJob, hot_slot, plan_of, routes_of

#: Reads the input.
_INPUT = StageUnit(0, 0)


def all_stages(job: StageJob) -> tasks.Body:
    """The body of each of the tasks; the first one has the input."""

    def body(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from to_batches(tasks.guarded(0, _run(job, batches)))

    return body


def _run(job: StageJob, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
    task = tasks.task_number()
    with contextlib.suppress(MailboxStopped), Mailboxes(job.mailboxes, task) as mail:
        shared = _Shared(job, mail)
        if task == 0:
            mail.begin()
            yield from shared.read(batches)
        else:
            for _ in batches:
                pass
            if not mail.has_begun():
                return
        yield from shared.rest()


class _Shared:
    """The work of a batch, as one of its tasks takes its part."""

    def __init__(self, job: StageJob, mail: Mailboxes) -> None:
        self._job = job
        self._mail = mail
        self._plan = plan_of(job).plan

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
        """Stage 0 over the input and, beside it, a slot of the next stage."""
        held = self._mail.claim(1, self._slots(1)) if self._plan.depth > 1 else None
        rows = self._sent(_INPUT, tasks.run_first_stage(self._job, batches, held), held)
        yield from rows if held is None else self._stage(held, rows)

    def rest(self) -> Iterator[Blob]:
        """What nobody has begun, stage by stage; the sinks' merges last."""
        for stage in range(1, self._plan.depth):
            while (unit := self._mail.claim(stage, self._slots(stage))) is not None:
                yield from self._stage(unit, self._arriving(unit))
        while (unit := self._mail.claim(self._plan.depth, self._merging())) is not None:
            yield from tasks.run_last_merge(self._job, unit.slot, self._arriving(unit))

    def _slots(self, stage: int) -> Sequence[int]:
        """The slots of a stage, first the one whose state is here; the first task begins at one end."""
        slots = list(range(self._job.slots))
        if self._mail.task:
            slots.reverse()
        hot = hot_slot(self._job, stage)
        return slots if hot not in slots else [hot, *(one for one in slots if one != hot)]

    def _merging(self) -> Sequence[int]:
        """The slots in which sinks bring the rows of all slots into one order."""
        wanted = [sink for sink in self._plan.sinks if sink.index in self._job.wanted]
        routes = routes_of(self._job)
        return sorted({routes.slot_of(sink) or 0 for sink in wanted if is_merged(self._plan, sink)})

    def _stage(self, unit: StageUnit, arriving: Iterator[Blob]) -> Iterator[Blob]:
        return self._sent(unit, tasks.run_later_stage(self._job, *unit, arriving))

    def _sent(
        self, sender: StageUnit, blobs: Iterator[Blob], held: StageUnit | None = None
    ) -> Iterator[Blob]:
        """Puts what a unit gives into mailboxes; what is for the driver, or held, is given on."""
        for blob in blobs:
            receiver = StageUnit(blob.stage, blob.slot)
            if blob.stage == DRIVER or receiver == held:
                yield blob
            else:
                self._mail.send(sender, receiver, blob)
        self._mail.sent(sender)

    def _arriving(self, unit: StageUnit) -> Iterator[Blob]:
        """What the stages in front have sent to a unit; the first one has a single sender, which is followed."""
        if unit.stage > 1:
            self._mail.wait_for(self._units(unit.stage - 1))
        for stage in range(unit.stage):
            for sender in self._units(stage):
                yield from self._mail.arriving(sender, unit)

    def _units(self, stage: int) -> Sequence[StageUnit]:
        return [StageUnit(stage, slot) for slot in range(self._job.slots)] if stage else [_INPUT]
