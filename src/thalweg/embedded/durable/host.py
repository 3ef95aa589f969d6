"""A flow in this process that outlives it: what is refused, the checkpoint that it opens, and its batches."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from thalweg.checkpoint import manifest as manifests
from thalweg.checkpoint import record as records
from thalweg.checkpoint.history import require_files, require_ours
from thalweg.checkpoint.hosts.evolution import evolution_of, go_on, meaning_of
from thalweg.checkpoint.hosts.handing_over import is_of_process, to_process
from thalweg.checkpoint.hosts.opened import OpenCheckpoint, open_checkpoint, require_unfinished
from thalweg.checkpoint.hosts.snapshot_file import snapshot_file
from thalweg.checkpoint.identity import Folder
from thalweg.checkpoint.paths import join, list_files
from thalweg.checkpoint.record import CommitRecord
from thalweg.connectors import as_source
from thalweg.connectors.contracts import Stop
from thalweg.connectors.own_input import refuse_own_input
from thalweg.connectors.written.known_places import tell_moved
from thalweg.embedded.dropped import tell_dropped
from thalweg.embedded.durable.batches import BatchWork, Durable, DurableBatches, query_of
from thalweg.embedded.durable.engines import engine_of
from thalweg.embedded.durable.inputs import refuse_unrepeatable
from thalweg.embedded.durable.outputs import DurableOutputs
from thalweg.embedded.lanes import refuse_unknown_lanes, tell_lanes
from thalweg.embedded.result import Result
from thalweg.engine.build import prepare
from thalweg.engine.contract import CHUNK_ROWS
from thalweg.engine.meter import Meter
from thalweg.engine.observer import Observer
from thalweg.errors import BuildError
from thalweg.flow.failures import reason_of
from thalweg.flow.operators.lanes import unknown_until_the_end
from thalweg.plan.plan import Plan
from thalweg.slots.routes import SlotRoutes
from thalweg.slots.slot_state import HeldEngine
from thalweg.snapshot import Snapshot


class DurableHost:
    """One run of a flow on a checkpoint.

    Args:
        plan: of the flow.
        inputs: by source name.
        sinks: by sink name; those that are not named collect.
        durable: the checkpoint, and how often.
        chunk_rows: about how many rows move at once; None: the default.
        threads: of the engine; None: as many as pay.

    Raises:
        BuildError: an input cannot be read again, or the flow cannot go on from a checkpoint; nothing is written.
    """

    def __init__(
        self,
        plan: Plan,
        inputs: Mapping[str, Any],
        sinks: Mapping[str, Any],
        durable: Durable,
        *,
        chunk_rows: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.plan = plan
        _refuse_operators(plan)
        sources = {s.name: as_source(s.name, inputs[s.name]) for s in plan.sources}
        refuse_unrepeatable(sources)
        refuse_unknown_lanes(plan, sources)
        if durable.end == "keep":
            _refuse_unknown_lanes(plan)
        outputs = DurableOutputs(plan, sinks)
        outputs.refuse_inside(durable.checkpoint)
        refuse_own_input(inputs, outputs.targets)
        rows = CHUNK_ROWS if chunk_rows is None else chunk_rows
        prepared = prepare(plan)
        engine, pass_by = engine_of(prepared, inputs, chunk_rows=chunk_rows, threads=threads)
        tell_lanes(engine, inputs)
        routes = SlotRoutes(plan, 1, spreads=True)
        self._work = BatchWork(
            plan, inputs, outputs, durable, rows, HeldEngine(engine), routes, threading.Event(),
            pass_by,
        )  # fmt: skip
        self._began = time.monotonic()
        self._batches: DurableBatches | None = None
        self._meter = Meter(prepared, engine)
        #: what it came to, once it has ended
        self._final: Snapshot | None = None

    # -- what a run of a flow is asked ----------------------------------------------------------------------

    def run(self, stop: Stop) -> Result:
        """Runs it until the inputs end, or ``stop`` is set, which ends it behind a commit.

        Raises:
            CheckpointError: the checkpoint is of another flow, in use, finished or damaged.
            Exception: what a source, an operator or a sink raised; nothing of the batch is committed.
        """
        self._began = time.monotonic()
        self._meter.begin()
        with contextlib.ExitStack() as stack, self._ended():
            stack.callback(self._work.held.engine.stop)
            store = self._opened()
            stack.callback(store.lease.give_back)
            latest = self._latest(store)
            self._work.outputs.tell_repeats()
            self._batches = self._batches_of(store, latest)
            stack.callback(self._batches.close)
            stack.enter_context(self._work.outputs.opened())
            self._meter.begin(self._counts())
            stack.enter_context(self._written(store))
            self._batches.go_on(stop)
            self._final = self._snapshot("stopped" if self._work.halted.is_set() else "ended")
        if not self._work.halted.is_set():
            tell_dropped(self.plan, self._counts())
        return self._result()

    @contextlib.contextmanager
    def _ended(self) -> Iterator[None]:
        """Where it fails, what it came to is kept."""
        try:
            yield
        except BaseException as error:
            self._failed(error)
            raise

    def _failed(self, error: BaseException) -> None:
        with contextlib.suppress(Exception):  # which would hide why it failed
            self._final = self._final or self._snapshot("failed", reason_of(error))

    @contextlib.contextmanager
    def _written(self, store: OpenCheckpoint) -> Iterator[None]:
        """Its snapshots are beside the checkpoint, for who looks from another process."""
        observer = Observer(lambda: [self], files={self.plan.flow: snapshot_file(store.location)})
        observer.start()
        try:
            yield
        except BaseException as error:
            self._failed(error)
            raise
        finally:
            observer.stop()

    @property
    def checkpoint(self) -> str:
        """Its folder."""
        return self._work.durable.checkpoint

    def halt(self) -> None:
        """What is on its way is dropped, and nothing is committed any more."""
        self._work.halted.set()
        if self._work.held.engine.beside is not None:
            self._work.held.engine.beside.halt()
        self._work.held.engine.give_up()

    def close(self) -> None:
        """Gives up a run that was never begun."""
        self._work.held.engine.stop()

    def progress(self) -> Snapshot:
        """How the run goes; counts are those of all runs on the checkpoint, with what the next commit will have."""
        return self._final or self._snapshot("running")

    def look(self) -> None:
        """Looks what is back-pressured; as often as one likes."""
        if self._final is None:
            self._meter.look()

    def _snapshot(self, status: str, error: str = "") -> Snapshot:
        beside, batches = self._work.held.engine.beside, self._batches
        places = {} if batches is None else batches.places
        measured = self._meter.measured(
            {} if batches is None else batches.totals(),
            inputs={name: (place, None) for name, place in places.items()},
            ended=status != "running",
        )
        return measured.snapshot(
            flow=self.plan.flow,
            host="durable",
            status=status,
            error=error,
            at_s=time.time(),
            seconds=time.monotonic() - self._began,
            threads=1 if beside is None else beside.threads,
            batches=() if batches is None else tuple(batches.recent),
        )

    def _counts(self) -> dict[str, dict[str, int]]:
        return {} if self._batches is None else self._batches.counts

    def _result(self) -> Result:
        kept = self._work.outputs.collected()
        tables = {
            node.name: pa.Table.from_batches(
                [chunk.to_arrow() for chunk in kept[node.name]], schema=node.record.arrow
            )
            for node in self.plan.sinks
            if node.name in kept
        }
        return Result(tables, self._counts(), self.progress(), kept)

    # -- the checkpoint ---------------------------------------------------------------------------------------

    def _opened(self) -> OpenCheckpoint:
        return open_checkpoint(self._work.durable.checkpoint, require=_nothing)

    def _latest(self, store: OpenCheckpoint) -> CommitRecord | None:
        """The newest record, of a checkpoint that can be gone on with; whether it fits the flow is looked at then.

        Raises:
            CheckpointError: it is finished, and the flow is another; or damaged.
        """
        fs, root = store.fs, store.root
        if manifests.read(fs, root) is None:
            manifests.require_new(fs, root)
            self._work.outputs.refuse_used()
        latest = records.latest(fs, root)
        spark = Folder.at(f"{store.location}/spark")
        if not is_of_process(latest) and list_files(spark.fs, join(spark.root, "offsets")):
            before = meaning_of(fs, root, latest)
            latest = to_process(spark, latest, list(before.sources) if before else [])
        if latest is not None:
            require_ours(latest, root, store.id, query_of(store, latest))
            if latest.finished and self._is_changed(store, latest):
                require_unfinished(latest, store.location)
            require_files(fs, root, latest)
        return latest

    def _is_changed(self, store: OpenCheckpoint, latest: CommitRecord) -> bool:
        """Whether the flow is another than the one that finished; that is for a new checkpoint."""
        found = evolution_of(store.fs, store.root, self.plan, latest)
        return not is_of_process(latest) or any(one.kind != "same" for one in found.changes)

    def _batches_of(self, store: OpenCheckpoint, latest: CommitRecord | None) -> DurableBatches:
        drop = self._work.durable.drop
        found = go_on(store.fs, store.root, self.plan, latest, drop=drop)
        tell_moved(store.fs, store.root, self._work.outputs.targets)
        return DurableBatches(self._work, store, found.record, found.defaults)


# -- what is refused ------------------------------------------------------------------------------------------


def _refuse_operators(plan: Plan) -> None:
    """Refuses operators without inputs: what they have made is forgotten with the process.

    Raises:
        BuildError: there is one.
    """
    for source in plan.sources:
        if source.made_by is not None:
            raise BuildError(
                f"operator {source.name!r}: {source.made_by.function.where} has no tw.Input: it makes its rows itself,"
                " and a run with checkpoint= must be able to read them again after a crash; give the rows as a source"
            )


def _refuse_unknown_lanes(plan: Plan) -> None:
    for source in plan.sources:
        if source.keeps_lanes and source.lanes is None:
            why = 'with end="keep" more may come'
            raise unknown_until_the_end(source.name, str(source.lane), why)


def _nothing(part: Folder) -> None:
    """Whether the state can be gone on with is looked at once it is open."""
