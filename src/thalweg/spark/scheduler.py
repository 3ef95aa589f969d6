"""Several streaming queries share a cluster by a policy, batch by batch, and not in the order in which jobs come.

A batch waits inside its foreachBatch function until the scheduler gives it a place, and runs its jobs in a pool of
its query's own. Spark knows nothing of it: offsets, retries and the commit log are as ever. Who is given a place is
decided in :mod:`thalweg.scheduling.admission`; here are the threads and the clock.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import SparkSession

from thalweg.brief import brief, brief_repr
from thalweg.checks import known_keywords_of, require_int, require_seconds, require_text
from thalweg.errors import SchedulingError
from thalweg.scheduling.admission import Admission, Admitted, MostUrgentFirst, QueryStats
from thalweg.scheduling.rounds import RoundPolicy
from thalweg.spark import batch_thread

log = logging.getLogger(__name__)

#: How many decisions a scheduler keeps.
RECENT: Final = 1_000
#: How long a batch may wait before it goes first, s: some dozens of ordinary batches.
STARVE_AFTER_S: Final = 60.0
#: How often a batch that waits looks whether its query is stopped, s.
_LOOK_S: Final = 0.2


@dataclasses.dataclass(slots=True)
class BatchPlace:
    """The permission of a batch to run, until its function returns.

    Attributes:
        query: whose.
        batch: its number; -1 outside of a streaming query.
        wait_s: how long it waited for the place.
        reason: why it was given the place then.
        rows: to be set to the batch's rows, where they are known better than Spark's progress has them.
    """

    query: str
    batch: int = -1
    wait_s: float = 0.0
    reason: str = ""
    rows: int | None = None


class _Waiter:
    """A thread that waits for a decision about its batch."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.woken = threading.Event()
        self.decision: Admitted | None = None
        self.failure: SchedulingError | None = None


@brief_repr
@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerProgress:
    """What each query has got so far.

    Attributes:
        queries: by name, in the order in which they came first.
        decisions: the last ones, oldest first.
    """

    queries: Mapping[str, QueryStats]
    decisions: tuple[Admitted, ...]


@known_keywords_of
class Scheduler:
    """Admits the batches of several queries by a policy: give it to each ``start``, or :meth:`admit` by hand.

    Args:
        policy: which of the batches that wait is next: a round policy of :mod:`thalweg.scheduling`. By default the most
            urgent class, and inside a class the query with the oldest input.
        classes: the class of each query, by the name of its flow; 0 is the most urgent. Without any, all are alike.
        slots: how many batches run at a time. With one, each has all cores; with more they share them evenly, as tasks
            end.
        reserved: slots of these that only the most urgent class is given, so that it waits for none of the others and
            runs beside them; by default one where there are several.
        starve_after_s: a batch that has waited so long goes before all but those that a less urgent batch has held up
            already; None: never.

    Raises:
        BuildError: an argument makes no sense.
        SchedulingError: the policy needs a feature that there is not.
    """

    def __init__(
        self,
        policy: RoundPolicy | None = None,
        classes: Mapping[str, int] | None = None,
        *,
        slots: int = 2,
        reserved: int | None = None,
        starve_after_s: float | None = STARVE_AFTER_S,
    ) -> None:
        if starve_after_s is not None:
            require_seconds("Scheduler", above=True, starve_after_s=starve_after_s)
        require_int(self, 1, slots=slots)
        self._admission = Admission(
            MostUrgentFirst() if policy is None else policy,
            classes,
            slots=slots,
            reserved=int(slots > 1) if reserved is None else reserved,
            starve_after_ns=None if starve_after_s is None else round(starve_after_s * 1e9),
        )
        #: Held for moments; never while anything of Spark is called.
        self._lock = threading.Lock()
        #: By query, who waits for a place or has one.
        self._waiters: dict[str, _Waiter] = {}
        self._decisions: collections.deque[Admitted] = collections.deque(maxlen=RECENT)

    def __repr__(self) -> str:
        with self._lock:
            waiting, known = self._admission.waiting, list(self._admission.queries)
        policy = type(self._admission.policy).__name__
        return f"<Scheduler by {policy}, queries {brief(known)}, waiting {brief(list(waiting))}>"

    @contextlib.contextmanager
    def admit(
        self, query: str, *, interval_s: float = 0.0, session: SparkSession | None = None
    ) -> Iterator[BatchPlace]:
        """Admits a batch of your own ``foreachBatch`` function: waits for a place and holds it in the ``with`` block.

        Args:
            query: a name of its own for each query.
            interval_s: of the query's trigger, s; it tells since when the input may have waited.
            session: of Spark; the calling thread's by default.

        Raises:
            BuildError: there are classes and the query has none.
            EnvironmentProblem: the session does not schedule jobs fairly.
            SchedulingError: the query was stopped while it waited, another batch of that name or of this thread has
                or wants a place, or the policy failed.
        """
        require_text("admit", query=query)
        require_seconds("admit", interval_s=interval_s)
        session = session or batch_thread.session_here()
        context = session.sparkContext
        batch_thread.require_fair(context)
        place = BatchPlace(query, batch_thread.batch_here(context))
        before = batch_thread.rows_of_last_batch(session)
        waiter = self._arrive(place, before, interval_s)
        try:
            self._wait(waiter, place, session)
            with batch_thread.own_pool(context, _pool_of(query)):
                yield place
        finally:
            self._leave(place)

    def _arrive(self, place: BatchPlace, rows_before: int | None, interval_s: float) -> _Waiter:
        waiter = _Waiter(threading.get_ident())
        with self._lock:
            for other, its in self._waiters.items():
                if its.thread == waiter.thread:
                    raise SchedulingError(
                        f"query {place.query!r}: this thread runs a batch of {other!r} already, which"
                        " would wait for itself",
                        operator=place.query,
                    )
            if rows_before is not None:
                self._admission.count(place.query, rows_before)
            self._admission.arrive(
                place.query, place.batch, time.monotonic_ns(), interval_ns=round(interval_s * 1e9)
            )
            self._waiters[place.query] = waiter
            self._decide()
        return waiter

    def _wait(self, waiter: _Waiter, place: BatchPlace, session: SparkSession) -> None:
        while not waiter.woken.wait(_LOOK_S):
            batch_thread.refuse_interrupted(
                session, f"query {place.query!r}: batch {place.batch} waited for a place"
            )
        if waiter.failure is not None:
            raise waiter.failure
        assert waiter.decision is not None
        place.wait_s, place.reason = waiter.decision.wait_ns * 1e-9, waiter.decision.reason

    def _leave(self, place: BatchPlace) -> None:
        with self._lock:
            del self._waiters[place.query]
            self._admission.leave(place.query, time.monotonic_ns(), place.rows)
            self._decide()

    def _decide(self) -> None:
        """Gives out the places that are free; a failing policy fails the batches that wait, and no other."""
        try:
            while (decision := self._admission.decide(time.monotonic_ns())) is not None:
                self._note(decision)
                waiter = self._waiters[decision.query]
                waiter.decision = decision
                waiter.woken.set()
        except SchedulingError as error:
            for query in self._admission.waiting:
                waiter = self._waiters[query]
                waiter.failure = SchedulingError(
                    f"query {query!r} waited for a place: {error}",
                    policy=error.policy,
                    operator=error.operator,
                )
                waiter.woken.set()

    def _note(self, decision: Admitted) -> None:
        self._decisions.append(decision)
        log.info(
            "batch %d of %r runs after %.3f s: %s%s",
            decision.batch, decision.query, decision.wait_ns * 1e-9, decision.reason,
            "; still waiting: " + ", ".join(decision.behind) if decision.behind else "",
        )  # fmt: skip

    def check(self, session: SparkSession, query: str, unbounded: str = "") -> None:
        """Whether a query can take part, before it starts.

        Args:
            session: that it is to run in.
            query: its name.
            unbounded: an input whose batches have no bound, "" for none. A warning says what that does to others.

        Raises:
            BuildError: there are classes and the query has none.
            EnvironmentProblem: the session does not schedule jobs fairly.
        """
        batch_thread.require_fair(session.sparkContext)
        mine = self._admission.class_of(query)
        if unbounded and mine != self._admission.top:
            log.warning(
                "query %r: nothing bounds a batch of input %r, so one takes all that has piled up and others wait;"
                " give it max_files_per_trigger=, or its own option (maxFilesPerTrigger, maxOffsetsPerTrigger)",
                query, unbounded,
            )  # fmt: skip

    @property
    def policy(self) -> RoundPolicy:
        """Which of the batches that wait is next."""
        return self._admission.policy

    @property
    def progress(self) -> SchedulerProgress:
        """How long each query has waited, and the last decisions with their reasons."""
        with self._lock:
            queries = {name: self._admission.stats(name) for name in self._admission.queries}
            return SchedulerProgress(queries, tuple(self._decisions))


@contextlib.contextmanager
def place_for(
    scheduler: Scheduler | None, query: str, interval_s: float, session: SparkSession
) -> Iterator[BatchPlace]:
    """A batch's place; where there is no scheduler at once, but in a pool of the query's own, too."""
    if scheduler is not None:
        with scheduler.admit(query, interval_s=interval_s, session=session) as place:
            yield place
        return
    with batch_thread.own_pool(session.sparkContext, _pool_of(query)):
        yield BatchPlace(query)


def _pool_of(query: str) -> str:
    return f"thalweg-{query}"
