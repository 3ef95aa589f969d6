"""What a query says of itself: progress, snapshots, counts, and its sinks and plan."""

from __future__ import annotations

import abc
import time
from typing import Any

from thalweg.checks import meant
from thalweg.drawing import card, show_live
from thalweg.errors import BuildError
from thalweg.flow.failures import reason_of
from thalweg.flow.flow import Flow
from thalweg.snapshot import Snapshot
from thalweg.spark.batches import BatchRunner
from thalweg.spark.scheduler import Scheduler
from thalweg.spark.snapshots import query_snapshot


class QueryFigures(abc.ABC):
    """The part of :class:`thalweg.spark.query.Query` that only looks at it."""

    _batches: BatchRunner
    _flow: Flow
    _scheduler: Scheduler | None
    _failure: BaseException | None
    _stopped: bool
    _began_s: float
    #: what it came to, once it has ended
    _final: Snapshot | None
    #: Spark's own pages about it
    _links: dict[str, str]

    @property
    @abc.abstractmethod
    def is_active(self) -> bool:
        """Whether the query is running."""

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """The last progress: rows by operator, rows/s, times, state size, watermark; None before the first batch."""
        return self._batches.progress[-1] if self._batches.progress else None

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """The progress of the last batches, oldest first."""
        return list(self._batches.progress)

    def progress(self) -> Snapshot:
        """What the query does, or did, as every host says it: docs/snapshot.md."""
        return self._final or self._snapshot()

    def _ipython_display_(self) -> None:
        show_live(self.progress)

    def _repr_html_(self) -> str:
        return card(self.progress())

    def _snapshot(self) -> Snapshot:
        batches, error = self._batches, self._failure
        return query_snapshot(
            batches.prepared, self.recent_progress, batches.counts,
            flow=self._flow.name, status=self._how(), error="" if error is None else reason_of(error),
            at_s=time.time(), seconds=time.monotonic() - self._began_s, rows_in=batches.rows_in,
            slots=batches.numbers.slots, threads=batches.numbers.threads, scheduler=self._scheduler,
            asked=batches.numbers.asked,
            links=self._links,
        )  # fmt: skip

    def _how(self) -> str:
        if self._failure is not None:
            return "failed"
        if self._stopped and not self._batches.finished:
            return "stopped"
        return "running" if self.is_active else "ended"

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Exact rows in, out, late and rejected by operator since the first batch."""
        return self._batches.counts

    @property
    def finished(self) -> bool:
        """Whether the end of the input was processed."""
        return self._batches.finished

    def sink(self, name: str) -> Any:
        """The sink that was given under a name, such as a memory sink to read.

        Raises:
            BuildError: nothing was, or there is no such sink.
        """
        if name not in self._batches.sinks:
            known = ", ".join(self._batches.sinks) or "none"
            raise BuildError(
                f"nothing was given for a sink {name!r}; there are {known}"
                f"{meant(name, self._batches.sinks)}"
            )
        return self._batches.sinks[name]

    def explain(self) -> str:
        """The flow's plan; see :meth:`thalweg.Flow.explain`."""
        return self._flow.explain()
