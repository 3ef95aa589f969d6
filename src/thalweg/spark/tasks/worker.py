"""What a Python worker process keeps between batches: plans, engines with their compiled operators, hot state.

A task asks for the engine of its stage and slot. Its tables are brought to what the commit record of the batch
before names: a table whose tag is named needs nothing, one that is behind gets the deltas, any other is read.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import gc
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import cloudpickle
import pyarrow as pa

from thalweg.checkpoint import record as records
from thalweg.checkpoint.paths import resolve
from thalweg.checkpoint.routing_files import read_table
from thalweg.checkpoint.segments import Segment, SegmentUnit
from thalweg.checkpoint.store import SegmentPlace
from thalweg.engine.build import Prepared
from thalweg.engine.keyed_unit import KeyedUnit
from thalweg.errors import CheckpointError
from thalweg.flow.operators.idle import IdleDecision
from thalweg.locality import decode_table
from thalweg.scheduling.rounds import Policy
from thalweg.slots import slot_state
from thalweg.slots.migration import take_out
from thalweg.slots.routes import SlotRoutes
from thalweg.slots.slot_state import Before, HeldEngine, make_engine, resume

#: Engines that a process keeps; older ones are given up, their state is on disk.
_KEPT: Final = 8
_ENGINES: dict[tuple[str, int | None], HotEngine] = {}
_PLANS: dict[str, Prepared] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class StageJob:
    """What the driver tells every task of a batch.

    Attributes:
        plan: the pickled plan; unpickled only in a process that has not seen ``fingerprint``.
        root: the checkpoint's Thalweg folder; "" for a run without state on disk.
        batch: the batch id.
        attempt: names this try of the batch.
        previous: the batch whose record the state comes from; None for empty state.
        previous_attempt: the attempt that this record must be of; "" where that is not known.
        slots: how many slots there are.
        ends: whether the input ends with this batch (batch frames).
        options: the inputs, by source name (see :mod:`thalweg.spark.reading.inputs`).
        defaults: by operator, the values of state fields that older files lack.
        chunk_rows: rows a step.
        threads: of the engine of each task; 1 is the serial engine.
        epoch: the routing table that holds in this batch, 0 for none.
        next_epoch: the one that holds from the next batch on; keys that it moves are moved with this batch's state.
        table: the text of the routing table where there is no checkpoint that has it; empty: by hash.
        mailboxes: the folder by which tasks that all run at once pass rows on; "": they go by Spark's exchanges.
        policy: the pickled policy that chooses among the operators in a slot; empty: none.
        told: an accumulator that takes what tasks count of their keys (:class:`thalweg.spark.keys.counting.ToldParam`);
            None where nothing is counted.
        decisions: what was decided of idle sources; it holds from before the rows of the batch.
        stamps: by source with ``stamp=``, when the batch's rows came.
    """

    plan: bytes
    fingerprint: str
    root: str
    batch: int
    attempt: str
    previous: int | None
    slots: int
    ends: bool
    options: Mapping[str, Any]
    defaults: Mapping[str, Mapping[str, Any]]
    chunk_rows: int
    #: the sinks whose rows are wanted, by node; those of others are counted only
    wanted: frozenset[int]
    threads: int = 1
    previous_attempt: str = ""
    epoch: int = 0
    next_epoch: int = 0
    told: Any = None
    mailboxes: str = ""
    decisions: Sequence[IdleDecision] = ()
    stamps: Mapping[str, int] = dataclasses.field(default_factory=dict)
    table: bytes = b""
    policy: bytes = b""

    @property
    def durable(self) -> bool:
        return bool(self.root)


@dataclasses.dataclass(slots=True)
class HotEngine(HeldEngine):
    """An engine that this process keeps."""

    #: the threads and the policy that it was made for
    threads: int = 1
    policy: bytes = b""
    #: batches run since it was made
    batches: int = 0
    #: the slot that it last ran
    slot: int = 0


def plan_of(job: StageJob) -> Prepared:
    """The job's plan, unpickled once a process."""
    if job.fingerprint not in _PLANS:
        while len(_PLANS) >= _KEPT:
            _PLANS.pop(next(iter(_PLANS)))
        _PLANS[job.fingerprint] = cloudpickle.loads(job.plan)
    return _PLANS[job.fingerprint]


@contextlib.contextmanager
def hot_engine(job: StageJob, stage: int | None, slot: int) -> Iterator[HotEngine]:
    """The engine of a stage, with the state that this slot owns as of the job's previous record.

    It is kept for the next batch when the block ends well, which must have saved its state; else it is stopped.
    """
    hot = _taken(job, stage) or _made(job, stage)
    hot.slot = slot
    try:
        resume(hot, _before(job) if job.durable else None, slot, routes_of(job))
        yield hot
    except BaseException:
        hot.engine.stop()
        raise
    if job.durable:
        _keep(_place(job, stage), hot)
    else:
        hot.engine.stop()


def hot_slot(job: StageJob, stage: int) -> int | None:
    """The slot of a stage whose state this process has, as far as it is the only one."""
    hot = _ENGINES.get(_place(job, stage))
    return None if hot is None else hot.slot


def _place(job: StageJob, stage: int | None) -> tuple[str, int | None]:
    return f"{job.fingerprint}:{job.root}", stage


def _taken(job: StageJob, stage: int | None) -> HotEngine | None:
    """The engine that was kept, if it runs the way the job says."""
    hot = _ENGINES.pop(_place(job, stage), None) if job.durable else None
    if hot is not None and (hot.threads, hot.policy) != (job.threads, job.policy):
        hot.engine.stop()
        return None
    return hot


def _made(job: StageJob, stage: int | None) -> HotEngine:
    policy = cloudpickle.loads(job.policy) if job.policy else None
    made = make_engine(
        plan_of(job), stage, chunk_rows=job.chunk_rows, threads=job.threads, policy=policy
    )
    return HotEngine(made, threads=job.threads, policy=job.policy)


def compile_all(prepared: Prepared, threads: int, policy: Policy | None = None) -> None:
    """Compiles what the flow's tasks run, by a step without rows through all of it.

    Raises:
        SchedulingError: the policy is none for the flow.
    """
    engine = make_engine(prepared, None, chunk_rows=1, threads=threads, policy=policy)
    try:
        engine.step({}, {})
        for _ in engine.settle():
            pass
    finally:
        engine.stop()


def _keep(place: tuple[str, int | None], hot: HotEngine) -> None:
    if not hot.batches:
        # Spark's worker collects garbage after every task, through all that Numba and the engine hold:
        # a fifth of a short batch. What is there now stays, so it need not be looked at again.
        gc.freeze()
    hot.batches += 1
    if (other := _ENGINES.pop(place, None)) is not None:
        other.engine.stop()
    while len(_ENGINES) >= _KEPT:
        _ENGINES.pop(next(iter(_ENGINES))).engine.stop()
    _ENGINES[place] = hot


@atexit.register
def forget_engines() -> None:
    """Gives up all engines that this process keeps; their threads must not outlive what they work on."""
    while _ENGINES:
        _ENGINES.popitem()[1].engine.stop()


def routes_of(job: StageJob) -> SlotRoutes:
    """Where keys and state units are in the job's batch."""
    return _routes(job.fingerprint, job.root, job.epoch, job.slots, job.table)


def next_routes_of(job: StageJob) -> SlotRoutes:
    """Where they are from the next batch on."""
    return _routes(job.fingerprint, job.root, job.next_epoch or job.epoch, job.slots, job.table)


@functools.lru_cache(maxsize=4)
def _routes(fingerprint: str, root: str, epoch: int, slots: int, text: bytes) -> SlotRoutes:
    plan = _PLANS[fingerprint].plan
    table = read_table(*resolve(root), epoch) if epoch else None
    if text:
        table = decode_table(text)
    return SlotRoutes(plan, slots if table is None else table.slots, table, spreads=True)


def _previous(job: StageJob) -> records.CommitRecord | None:
    """The record that the batch starts from; None for empty state.

    Raises:
        CheckpointError: this process does not find what the driver has read.
    """
    if job.previous is None:
        return None
    found = _record(job.root, job.previous, job.attempt)
    if found is None or job.previous_attempt not in ("", found.attempt):
        what = "is not here" if found is None else "is not the one that the driver has read"
        raise CheckpointError(
            f"the commit record of batch {job.previous} in {job.root} {what} (host {socket.gethostname()}).\n"
            "Every executor needs the folder of the state, at the same path: check that it is mounted there, or that no"
            " second query runs on the checkpoint."
        )
    return found


@functools.lru_cache(maxsize=4)
def _record(root: str, batch: int, attempt: str) -> records.CommitRecord | None:
    """The record of a batch; ``attempt`` is the reading batch's, since a re-run may replace a record."""
    fs, path = resolve(root)
    return records.read(fs, path, batch)


def _before(job: StageJob) -> Before:
    """What the batch starts from."""
    return Before(*resolve(job.root), _previous(job), job.defaults, routes_of(job))


def segment_facts(segment: Segment) -> list[Any]:
    """A segment as JSON values, for the report of a task."""
    return [segment.operator, segment.file, [list(unit) for unit in segment.units]]


def segment_of(facts: list[Any]) -> Segment:
    """The segment of :func:`segment_facts`."""
    operator, file, units = facts
    return Segment(operator, file, tuple(SegmentUnit(*unit) for unit in units))


def save(job: StageJob, stage: int | None, slot: int, hot: HotEngine, task: str) -> dict[str, Any]:
    """Writes the segments of this slot; gives what the driver needs for the commit record."""
    engine = hot.engine
    said: dict[str, Any] = {"counts": engine.counts, "segments": [], "gates": {}, "keys": {}}
    said["bad_rows"] = [dataclasses.asdict(one) for one in engine.setting.bad_rows.take()]
    said["waiting"] = {
        f"{unit.node.name}.{port}": rows
        for unit in engine.coroutines
        for port, rows in unit.waiting().items()
    }
    if not job.durable:
        return said
    place = SegmentPlace(job.batch, stage or 0, slot, f"{job.attempt}-{task}")
    moves = functools.partial(_moved, job)
    saved = slot_state.save(hot, _before(job), slot, place, job.attempt, moves)
    facts = [segment_facts(one) for one in saved.segments]
    return {**said, "segments": facts, "gates": saved.gates, "keys": saved.keys}


def _moved(job: StageJob, name: str, unit: KeyedUnit) -> dict[int, pa.RecordBatch]:
    """Takes out the keys that are in another unit from the next batch on; gives their state by that unit."""
    if not job.next_epoch:
        return {}
    then = next_routes_of(job)[name].units
    moved = take_out(unit, then.of, lambda here: here)
    return {there: pa.concat_batches(rows) for there, rows in moved.items()}
