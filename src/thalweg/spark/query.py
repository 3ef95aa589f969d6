"""A flow as a streaming query: the object that ``tw.spark.start`` gives, with Spark's verbs and Thalweg's own."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import time
from collections.abc import Iterator
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from thalweg.brief import counted
from thalweg.checkpoint.hosts.snapshot_file import snapshot_file
from thalweg.checks import Guessable, refuse, require_text
from thalweg.embedded import tell_dropped
from thalweg.engine.observer import Observer
from thalweg.errors import BuildError, CheckpointError, ThalwegError
from thalweg.flow.flow import Flow
from thalweg.metrics import MetricsServer, serve_metrics
from thalweg.page import Page, Shown, serve_page
from thalweg.printing import say
from thalweg.spark.batches import BatchRunner
from thalweg.spark.deaths import jvm_is_gone
from thalweg.spark.failures import cause_to_show, ending, readable, tell_once
from thalweg.spark.patience import told_if_slow
from thalweg.spark.query_figures import QueryFigures
from thalweg.spark.reading.listing import listing_on_driver
from thalweg.spark.scheduler import BatchPlace, Scheduler, place_for
from thalweg.spark.showing import query_actions
from thalweg.spark.snapshots import links_of
from thalweg.spark.true_progress import know
from thalweg.times import duration

log = logging.getLogger("thalweg")

End = Literal["keep", "drain"]


class Query(QueryFigures, Guessable):
    """A running flow, with the verbs of Spark's StreamingQuery in snake case, and Thalweg's own.

    Made by :func:`thalweg.spark.start`.
    """

    def __init__(
        self,
        batches: BatchRunner,
        flow: Flow,
        frame: DataFrame,
        trigger: Any,
        end: End,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._batches = batches
        self._flow = flow
        self._frame = frame
        self._trigger = trigger
        self._end = end
        self._scheduler = scheduler
        self._failure = None
        self._query: StreamingQuery | None = None
        self._stopped = False
        self._dropped_told = False
        #: the batch that runs or ran last, and when it began
        self._batch = -1
        self._running = False
        self._batch_since_s = 0.0
        self._began_s = time.monotonic()
        self._final = None
        self._observer: Observer | None = None
        self._links = {}
        #: what browsers see; None without page=
        self.page: Page | None = None
        #: answers scrapes; None without metrics=
        self.metrics: MetricsServer | None = None

    # -- life ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        assert self._batches.store is not None
        self._batches.store.lease.take(lambda: self.is_active)
        self._failure, self._stopped, self._running = None, False, False
        self._dropped_told = False
        tell_once()
        writer = (
            self._frame.writeStream.foreachBatch(self._run_batch)
            .queryName(_free_name(self._batches.spark, self._flow.name))
            .option("checkpointLocation", f"{self._batches.store.location}/spark")
            .trigger(**self._trigger)
        )
        with listing_on_driver(self._batches.spark, self._batches.files):
            self._query = writer.start()
        self._links = links_of(self._batches.spark, str(self._query.runId))
        self._observe(self._batches.store.location)
        know(self)

    def _observe(self, location: str) -> None:
        """Its snapshots are beside the checkpoint, for who looks from another process."""
        self._final = None
        self._observer = Observer(lambda: [self], files={self._flow.name: snapshot_file(location)})
        self._observer.start()

    def _run_batch(self, frame: DataFrame, batch: int) -> None:
        if self._batches.finished:
            # Input came in while the query was being stopped after its end.
            raise CheckpointError(
                f"flow {self._flow.name!r} is finished; batch {batch} is left out"
            )
        self._batch, self._running, self._batch_since_s = batch, True, time.time()
        try:
            with self._place() as place, self._told_if_slow(batch):
                self._batches.run(frame, batch, ends=False, admission_wait_s=place.wait_s)
                place.rows = self._batches.progress[-1]["rows"]
        except BaseException as error:
            if self._stopped:
                # Spark cancelled its jobs; it searches the text of a long error until its stack overflows.
                raise CheckpointError(f"batch {batch} was given up: the query is stopped") from None
            # When the JVM died, whoever waits for the query may have told it already.
            self._failure = self._failure or self._told(error)
            # To Spark only its text: a traceback with causes is too long for the patterns that it searches it by.
            raise ThalwegError(str(self._failure)) from None
        self._running = False

    @property
    def _next_batch(self) -> int:
        """With which batch a restart goes on: the first that is not committed, as far as this process knows."""
        done = self._batches.progress[-1]["batch"] if self._batches.progress else -1
        return max(self._batch, int(done) + 1)

    def _place(self) -> contextlib.AbstractContextManager[BatchPlace]:
        return place_for(self._scheduler, self._flow.name, self._interval_s, self._batches.spark)

    @property
    def _interval_s(self) -> float:
        """The time between two batches that was asked for, seconds."""
        return duration(self._trigger.get("processingTime", "0 seconds")) * 1e-6

    def _told_if_slow(self, batch: int) -> contextlib.AbstractContextManager[None]:
        """The first batch also starts workers; where nobody reads the log only that one is worth a line."""
        is_first = not self._batches.progress
        starts = ", and Python workers start" if is_first else ""
        return told_if_slow(f"flow {self._flow.name!r}: batch {batch} runs{starts}", aloud=is_first)

    def run_now(self) -> None:
        """Runs a bounded input as one batch in the calling thread (batch frames)."""
        try:
            with self._place() as place, self._told_if_slow(0):
                self._batches.run(self._frame, 0, ends=True, admission_wait_s=place.wait_s)
            self._tell_dropped()
            self._final = self._snapshot()
            self._ended()
        except BaseException as error:
            self._ended()
            self._failure = readable(error, f"flow {self._flow.name!r}")
            raise self._failure from cause_to_show(self._failure)

    @property
    def is_active(self) -> bool:
        """Whether the query is running."""
        if self._query is None:
            return False
        try:
            return bool(self._query.isActive)
        except Exception as error:
            if jvm_is_gone(error):
                return False
            raise

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits until the query ends; returns whether it did within the timeout.

        Raises:
            ThalwegError: a row, a function or the checkpoint failed; the one readable error.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        ended = self._wait(deadline)
        if ended and self._wants_drain():
            self.drain()
            ended = self._wait(deadline)
        return ended

    def _wait(self, deadline: float | None) -> bool:
        if self._query is None:
            return True
        try:
            if deadline is None:
                self._query.awaitTermination()
                ended = True
            else:
                left: Any = max(0.001, deadline - time.monotonic())
                ended = bool(self._query.awaitTermination(left))
        except Exception as error:
            self._raise(error)
            ended = True
        if ended:
            self._raise(None)
            self._batches.require_inputs()
            self._tell_dropped()
        return ended

    def _tell_dropped(self) -> None:
        """Once a run: which rows are in no output."""
        if not self._stopped and not self._dropped_told:
            self._dropped_told = True
            tell_dropped(self._batches.plan, self._batches.counts)

    def _wants_drain(self) -> bool:
        bounded = "availableNow" in self._trigger or "once" in self._trigger
        return self._end == "drain" and bounded and not self._batches.finished and not self._stopped

    def process_all_available(self) -> None:
        """Waits until all input available now has been processed; errors as ``await_termination``."""
        if self._query is None:
            return
        if "availableNow" in self._trigger:
            self.await_termination()
            return
        try:
            self._query.processAllAvailable()
        except Exception as error:
            self._raise(error)
        self._batches.require_inputs()

    def drain(self) -> None:
        """Ends the input: what waits is released, the remaining timers fire, the checkpoint is finished.

        The end comes behind all input that is there: it is the first batch without rows. So a source that never
        pauses must be stopped first.
        """
        store = self._batches.store
        if store is None:
            return
        while not self._batches.finished:
            self._batches.require_inputs()
            store.command(command="end")
            if not self.is_active:
                self._start()
            if "availableNow" in self._trigger:
                self._wait(None)
            else:
                self.process_all_available()
            if self._stopped:
                return
        self.stop()

    def tick(self, now: int) -> None:
        """Moves the clock: from now on rows before ``now`` minus the lateness are late, in all lanes."""
        if not isinstance(now, int) or isinstance(now, bool):
            raise refuse("tick", "now", "a time of the flow, an int", now)
        self._command(command="tick", time=now)

    def rescale(self, *, slots: int, reason: str = "asked for by query.rescale") -> None:
        """Changes the number of slots from the next batch on; the state moves with its buckets.

        With ``slots="auto"`` that ends the search for a number.

        Args:
            slots: how many.
            reason: who asks, or why; the change is told with it in ``progress().changes``, the log and on the page.

        Raises:
            BuildError: it is no number of slots, or more than the routing table of this query can have.
        """
        if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
            raise BuildError(f"rescale: slots is a number of 1 or more, got {slots!r}")
        require_text("rescale", reason=reason)
        self._batches.require_slots(slots)
        self._batches.numbers.rescale(slots, self._batch, reason)
        self._command(command="rescale", slots=slots)

    def _command(self, **content: Any) -> None:
        if self._batches.store is None:
            raise BuildError("this query has no checkpoint, so there is nothing to command")
        self._batches.store.command(**content)

    def stop(self) -> None:
        """Stops the query and abandons the running batch; a later start repeats it."""
        self._stopped = True
        if self._query is not None and not jvm_is_gone():
            self._query.stop()
        self._ended()

    def exception(self) -> BaseException | None:
        """The error that stopped the query; None without one."""
        if self._failure is not None or self._query is None or self._stopped:
            return self._failure
        try:
            error: Exception | None = self._query.exception()
        except Exception as found:
            error = found
        return None if error is None else self._told(error)

    def _told(self, error: BaseException) -> Exception:
        """The readable form of what Spark says."""
        batch = None if self._batches.store is None else self._next_batch
        where = f"flow {self._flow.name!r}" + (f": batch {self._batch}" if self._running else "")
        return ending(error, where, since_s=self._batch_since_s, batch=batch)

    def _raise(self, error: Exception | None) -> None:
        """Raises the query's own failure rather than Spark's wrapping of it."""
        self._ended()
        if self._failure is not None:
            raise self._failure.with_traceback(None) from cause_to_show(self._failure)
        if error is not None and not self._stopped and not self._batches.finished:
            self._failure = self._told(error)
            raise self._failure from None

    def _ended(self) -> None:
        if self.is_active:
            return
        self._final = self._final or self._snapshot()
        if self._observer is not None:
            self._observer.stop()
        for server in (self.page, self.metrics):
            if server is not None:
                server.close()
        self._batches.close()
        if self._batches.store is not None:
            self._batches.store.lease.give_back()

    # -- looking ------------------------------------------------------------------------------------------

    @property
    def id(self) -> str | None:
        """How Spark names the query in its checkpoint, through all its starts; None for bounded inputs."""
        return None if self._query is None else str(self._query.id)

    @property
    def run_id(self) -> str | None:
        """How Spark names this start of the query; None for bounded inputs."""
        return None if self._query is None else str(self._query.runId)

    @property
    def name(self) -> str:
        """The flow's name, with a number behind it where Spark runs another query of that name already."""
        if self._query is None or jvm_is_gone():
            return self._flow.name
        return str(self._query.name or self._flow.name)

    @property
    def status(self) -> dict[str, Any]:
        """What Spark says it does now: ``message``, ``isDataAvailable``, ``isTriggerActive``."""
        if self._query is None or not self.is_active:
            return {"message": "Stopped", "isDataAvailable": False, "isTriggerActive": False}
        return dict(self._query.status)

    @property
    def running_batch(self) -> tuple[int, float] | None:
        """The batch that runs now, and for how many seconds it has; None between two."""
        return (self._batch, time.time() - self._batch_since_s) if self._running else None

    def serve_metrics(self, address: str | int) -> None:
        """Answers ``/metrics`` at an address until the query ends; see :func:`thalweg.spark.start`."""
        self.metrics = serve_metrics(address, lambda: [self.progress()])

    def serve_page(self, address: bool | str | int, *, control: bool) -> None:
        """Shows it to browsers at an address until it ends; see :func:`thalweg.spark.start`."""
        actions = functools.partial(query_actions, self, self._batches) if control else None
        self.page = serve_page(address, lambda: [Shown(self.progress())], actions=actions)
        say(f"page: {self.page.url}")

    def look(self) -> None:
        """Looks whether sources have been silent for long; a batch is started where that changes something."""
        idle = self._batches.idle
        if idle is None or self._running or not idle.asks_now():
            return
        looked_s = self._looked_s()
        if looked_s is not None:
            idle.look(looked_s)

    def _looked_s(self) -> float | None:
        """When Spark looked for rows and found none, by the monotonic clock; None while it has some, or looks."""
        if self._query is None or not self.is_active:
            return None
        now_s, status = time.monotonic(), self._query.status
        if status["isDataAvailable"] or status["isTriggerActive"]:
            return None
        return now_s - self._interval_s

    def __repr__(self) -> str:
        state = "active" if self.is_active else "ended"
        return f"Query({self._flow.name!r}, {state}, {counted(len(self._batches.progress), 'batch')} here)"


def _free_name(spark: SparkSession, flow: str) -> str:
    """The flow's name, with a number where Spark runs a query of that name: it takes each name once."""
    taken = {query.name for query in spark.streams.active}
    return next(name for name in _names(flow) if name not in taken)


def _names(flow: str) -> Iterator[str]:
    yield flow
    yield from (f"{flow}-{number}" for number in itertools.count(2))
