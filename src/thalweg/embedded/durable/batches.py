"""The batches of a durable run: each has its rows, its output and its state bound to one commit.

A batch is what was read within ``every``. At its end the engine settles; then, in this order, what was read is written
down (:mod:`thalweg.checkpoint.hosts.planned`), changed state is saved, the sinks get the batch's rows, and the commit
record is written, which has the places of the inputs, too. Whoever starts again reads the newest record. Where the next
batch has been planned already, its sinks may have some of its rows, so it is read again as it was; else nobody has seen
any of it, and it is planned anew.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from thalweg.checkpoint import cleaning
from thalweg.checkpoint import record as records
from thalweg.checkpoint.history import INPUTS, QUERY, CheckpointHistory
from thalweg.checkpoint.hosts import planned
from thalweg.checkpoint.hosts.opened import OpenCheckpoint, require_unfinished
from thalweg.checkpoint.hosts.planned import Planned
from thalweg.checkpoint.record import CommitRecord
from thalweg.checkpoint.store import SegmentPlace
from thalweg.connectors.contracts import Stop
from thalweg.embedded.durable.inputs import ReadFor, Repeatable, repeatable
from thalweg.embedded.durable.outputs import DurableOutputs
from thalweg.embedded.durable.reading import InputReading
from thalweg.embedded.durable.stamped import StampedInput
from thalweg.engine.contract import Leaving
from thalweg.engine.stamps import Stamps
from thalweg.plan.plan import Plan
from thalweg.slots import slot_state
from thalweg.slots.routes import SlotRoutes
from thalweg.slots.slot_state import Before, HeldEngine, clocks_of, resume
from thalweg.snapshot import BatchParts

_LOG: Final = logging.getLogger("thalweg")
#: A batch ends early where so many bytes of rows for sinks have gathered: at the first number as soon as commits take a
#: small share of the time, at the second at once.
_MANY_BYTES, _MOST_BYTES = 96 << 20, 256 << 20
#: The share, one in so many.
_SHARE: Final = 20
#: How long a run that found nothing to read waits before it looks again, seconds: at first, and at most.
_LOOK_S: Final = (0.005, 0.2)
#: A round of reading takes at most about so large a share of ``every``.
_ROUND_SHARE: Final = 0.25
#: Batches that are remembered, for who looks.
RECENT: Final = 20
End: TypeAlias = Literal["drain", "keep"]


@dataclasses.dataclass(frozen=True, slots=True)
class Durable:
    """How a run is durable.

    Attributes:
        checkpoint: the folder.
        every_s: after so many seconds a batch ends.
        end: whether inputs that end, end the streams, or the checkpoint waits for more.
        drop: the operators whose state in the checkpoint may be given up.
    """

    checkpoint: str
    every_s: float
    end: End = "drain"
    drop: tuple[str, ...] = ()


class BatchWork(NamedTuple):
    """What the batches of a run have in common.

    Attributes:
        plan: the flow's.
        inputs: by source name.
        outputs: the sinks.
        durable: the checkpoint, and how often.
        rows: about how many rows move at once.
        held: the engine.
        routes: where its state is.
        halted: set where all that is on its way is dropped, and nothing is committed any more.
        pass_by: is told how long the engine had nothing to do, seconds.
    """

    plan: Plan
    inputs: Mapping[str, Any]
    outputs: DurableOutputs
    durable: Durable
    rows: int
    held: HeldEngine
    routes: SlotRoutes
    halted: threading.Event
    pass_by: Callable[[float], None]


class DurableBatches:
    """The batches of a run, one after the other."""

    def __init__(
        self,
        work: BatchWork,
        store: OpenCheckpoint,
        latest: CommitRecord | None,
        defaults: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._work, self._store, self._latest, self._defaults = work, store, latest, defaults
        self._query = query_of(store, latest)
        #: how long the last commit took, seconds
        self._commit_s = 0.0
        self._batch = 0 if latest is None else latest.batch + 1
        self._plan = planned.read(store.fs, store.root, self._batch)
        resume(work.held, self._before(), 0, work.routes)
        said = {} if latest is None else latest.extra[INPUTS]
        places = said.get("places", {}) if self._plan is None else self._plan.start
        self._reading = self._opened_inputs(places)
        #: counts of all runs, and the rows of this one
        self.counts = {} if latest is None else _plain(latest.counters)
        self.rows_in = 0
        #: counts before this batch, and held while they become those before the next
        self._earlier = self.counts
        self._counting = threading.Lock()
        #: the last batches
        self.recent: collections.deque[BatchParts] = collections.deque(maxlen=RECENT)
        try:
            # Of a finished one nothing goes on: it is only looked whether an input has more.
            self._begin([] if latest is not None and latest.finished else said.get("over", []))
        except BaseException:
            self.close()
            raise

    def _begin(self, over: list[str]) -> None:
        """Sources that were over are; a new checkpoint says where its inputs begin."""
        for _ in self._reading.end(over):
            pass
        if self._latest is None and self._plan is None:
            # A log that is read from what is newest begins here, also where the first batch is never planned.
            store = self._store
            planned.write(store.fs, store.root, Planned(0, self._reading.places, []))

    def _opened_inputs(self, places: Mapping[str, Any]) -> InputReading:
        work = self._work
        with contextlib.ExitStack() as stack:
            opened: dict[str, Repeatable] = {}
            stamps = Stamps(work.plan)
            for node in work.plan.sources:
                made = ReadFor(node.given, work.rows, work.halted)
                given = work.inputs[node.name]
                found = repeatable(node.name, given, made, places.get(node.name))
                if node.stamp is not None:
                    now = functools.partial(stamps.next, node.name, work.held.engine.gates)
                    found = StampedInput(node, found, now)
                opened[node.name] = found
                stack.callback(found.close)
            stack.pop_all()
        return InputReading(work.held.engine, opened, _ROUND_SHARE * work.durable.every_s)

    def close(self) -> None:
        self._reading.close()

    def go_on(self, stop: Stop) -> None:
        """Batch after batch, until the inputs end or the run is stopped; none where all was done by a run before.

        Raises:
            CheckpointError: the checkpoint is finished, and there are more rows.
        """
        if self._latest is not None and self._latest.finished:
            self._require_no_more(self._latest)
            return
        while not self._work.halted.is_set():
            if self._run_batch(stop) or (stop.is_set() and self._plan is None):
                return

    def _require_no_more(self, latest: CommitRecord) -> None:
        """A restart behind the last commit, such as after a kill, has nothing to do."""
        location = self._store.location
        if self._reading.has_more():
            require_unfinished(latest, location)
        _LOG.warning(
            "the checkpoint %s is finished and its inputs have no further rows: there is nothing to do, and all of the"
            " output was given before", location,
        )  # fmt: skip

    def totals(self) -> dict[str, dict[str, int]]:
        """Counts of all runs, with those of the batch that is read now; from any thread."""
        with self._counting:
            found = {name: dict(its) for name, its in self._earlier.items()}
            for name, its in self._work.held.engine.totals().items():
                mine = found.setdefault(name, {})
                for what, number in its.items():
                    mine[what] = mine.get(what, 0) + number
            return found

    @property
    def places(self) -> dict[str, Any]:
        """Where each input stands, also behind what is not committed yet."""
        return self._reading.places

    def _before(self) -> Before:
        store = self._store
        return Before(store.fs, store.root, self._latest, self._defaults, self._work.routes)

    def _run_batch(self, stop: Stop) -> bool:
        """One batch, from its rows to its record; whether it is the last one."""
        work, before = self._work, self._before()
        began = time.monotonic()
        with self._counting:
            resume(work.held, before, 0, work.routes)
            self._earlier = self.counts
        for node in work.plan.nodes:
            work.held.engine.setting.count(node.label)  # also those that no row will reach
        self._reading.begin_batch()
        plan = self._repeated() if self._plan is not None else self._read(stop)
        if work.halted.is_set():
            return True
        is_last = plan.ends or (self._reading.is_over and not self._reading.is_live)
        if plan.does_something:
            read = time.monotonic()
            self._commit(before, plan)
            rows, done = self._rows_in(), time.monotonic()
            work.pass_by(done - read)
            self.recent.append(
                BatchParts(
                    batch=self._batch - 1, rows=rows, seconds=done - began, run_s=read - began,
                    write_s=self._write_s, commit_s=done - read - self._write_s,
                )
            )  # fmt: skip
        return is_last

    # -- reading ----------------------------------------------------------------------------------------------

    def _repeated(self) -> Planned:
        """The rows that were planned before a crash."""
        plan = self._plan
        assert plan is not None
        self._plan = None
        self._take(self._reading.again(plan.rounds, plan.decisions))
        self._settle(plan)
        return plan

    def _read(self, stop: Stop) -> Planned:
        """New rows, until it is time to commit; what they are is written down."""
        start = self._reading.places
        ended = self._reading.over
        self._read_rounds(stop)
        new = [name for name in self._reading.over if name not in ended]
        drains = self._work.durable.end == "drain"
        ends = drains and self._reading.is_over
        over = new if drains and self._reading.is_live else []
        reading = self._reading
        plan = Planned(
            self._batch, start, list(reading.rounds), over, ends, list(reading.decisions)
        )
        self._settle(plan)
        if not self._work.halted.is_set() and plan.does_something:
            planned.write(self._store.fs, self._store.root, plan)
        return plan

    def _read_rounds(self, stop: Stop) -> None:
        began = time.monotonic()
        wait_s, longest_s = _LOOK_S
        while not (self._reading.is_over or stop.is_set() or self._work.halted.is_set()):
            rows = self._rows_in()
            self._take(self._reading.round())
            self._take(self._reading.decide())
            if self._rows_in() == rows and not self._reading.is_over:
                looked = time.monotonic()
                stop.wait(wait_s)
                self._work.pass_by(time.monotonic() - looked)
                wait_s = min(2 * wait_s, longest_s)
            else:
                wait_s = _LOOK_S[0]
            some = self._reading.rounds or self._reading.decisions
            if some and self._is_time(time.monotonic() - began):
                return

    def _is_time(self, passed_s: float) -> bool:
        """Whether to commit, so many seconds after the batch has begun."""
        held = self._work.outputs.nbytes
        return (
            passed_s >= self._work.durable.every_s
            or held >= _MOST_BYTES
            or (held >= _MANY_BYTES and passed_s >= _SHARE * self._commit_s)
        )

    def _rows_in(self) -> int:
        counts = self._work.held.engine.counts
        return sum(counts.get(s.name, {}).get("in", 0) for s in self._work.plan.sources)

    def _settle(self, plan: Planned) -> None:
        """Nothing is on its way behind it; what ends with the batch has ended."""
        engine = self._work.held.engine
        if plan.over:
            self._take(self._reading.end(list(plan.over)))
        self._take(engine.settle())
        #: as of the rows that have come: the end of the streams lets all of them go
        self._clocks = clocks_of(self._work.routes, engine, 0)
        if plan.ends:
            self._take(itertools.chain(engine.finish(), engine.settle()))

    def _take(self, leaving: Iterable[Leaving]) -> None:
        for one in leaving:
            self._work.outputs.take(one)

    # -- committing -------------------------------------------------------------------------------------------

    def _commit(self, before: Before, plan: Planned) -> None:
        work, store, batch = self._work, self._store, self._batch
        began = time.monotonic()
        attempt = uuid.uuid4().hex[:8]
        place = SegmentPlace(batch, 0, 0, attempt)
        saved = slot_state.save(work.held, before, 0, place, attempt)
        found = CheckpointHistory(self._latest)
        store.require_alone(found, batch)
        began = time.monotonic()
        work.outputs.write(batch, self._query)
        self._write_s = time.monotonic() - began
        rows = self._rows_in()
        record = records.next_record(
            self._latest,
            batch,
            attempt,
            saved.segments,
            work.held.engine.counts,
            slots=1,
            clock=self._clocks,
            finished=plan.ends,
            extra={
                "gates": saved.gates,
                INPUTS: {"places": self._reading.places, "over": self._closed(plan)},
                **store.said(self._query),
            },
        )
        store.commit(record, found)
        self._committed(record, rows)
        self._commit_s = time.monotonic() - began

    def _closed(self, plan: Planned) -> list[str]:
        """The sources that hold back no other any more."""
        said = {} if self._latest is None else self._latest.extra[INPUTS]
        return [*said.get("over", []), *plan.over]

    def _committed(self, record: CommitRecord, rows: int) -> None:
        store = self._store
        keep = [record] if self._latest is None else [self._latest, record]
        self._latest, self._batch = record, record.batch + 1
        self.counts = _plain(record.counters)
        self.rows_in += rows
        self._reading.confirm()
        cleaning.clean(store.fs, store.root, keep)
        planned.clean(store.fs, store.root, record.batch + 1)


def _plain(counters: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {name: dict(counts) for name, counts in counters.items()}


def query_of(store: OpenCheckpoint, latest: CommitRecord | None) -> str:
    """The name under which sinks know the batches of a checkpoint, in the form of Spark's; that of its first host."""
    said = None if latest is None else latest.extra.get(QUERY)
    return str(said or uuid.UUID(store.id))
