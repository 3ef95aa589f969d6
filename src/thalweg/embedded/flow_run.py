"""A flow that runs beside others: what a caller asks of it, and how it is stopped."""

from __future__ import annotations

from thalweg.drawing import card, show_live
from thalweg.embedded.durable import (
    DurableHost,
)
from thalweg.embedded.feeding import Event
from thalweg.embedded.host import FlowHost, Result
from thalweg.engine.background import Background
from thalweg.errors import ThalwegError
from thalweg.flow.failures import told_once
from thalweg.snapshot import Snapshot
from thalweg.snapshot.shown import text_of


class FlowRun:
    """A flow that runs beside others; made by :meth:`Running.add`."""

    def __init__(self, host: FlowHost | DurableHost, priority_class: int) -> None:
        self._host = host
        self._stop = Event()
        self._is_stopped = False
        #: what goes on beside the caller: reading the inputs to their end
        self._background = Background(self._run, f"flow {host.plan.flow}")
        self.priority_class = priority_class

    def _run(self) -> Result:
        return self._host.run(self._stop)

    def __repr__(self) -> str:
        how = "active" if self.is_active else "failed" if self.exception else "ended"
        sources = self._host.progress().sources if self.is_active else ()
        idle = [one.name for one in sources if one.is_idle or one.idle_lanes]
        pauses = f", idle: {', '.join(idle)}" if idle else ""
        return f"<FlowRun {self.name!r}, {how}, class {self.priority_class}{pauses}>"

    def begin(self) -> None:
        """Begins, unless it has already, or was stopped."""
        if not self._background.has_begun and not self._is_stopped:
            self._background.start()

    @property
    def name(self) -> str:
        """The name of the flow."""
        return self._host.plan.flow

    @property
    def checkpoint(self) -> str | None:
        """The folder of its checkpoint, if it has one."""
        return self._host.checkpoint if isinstance(self._host, DurableHost) else None

    @property
    def is_active(self) -> bool:
        """Whether it still runs, or will."""
        return not (self._background.has_ended or self._never_begins)

    @property
    def _never_begins(self) -> bool:
        return self._is_stopped and not self._background.has_begun

    @property
    def exception(self) -> BaseException | None:
        """Why it failed, if it has; the other flows go on."""
        return None if self._is_stopped else self._background.error

    def progress(self) -> Snapshot:
        """What it does, or did, as every host says it: docs/snapshot.md."""
        return self._host.progress()

    def __str__(self) -> str:
        """What it does, as ``thalweg top`` shows it, in at most 20 lines."""
        return text_of(self.progress())

    def _ipython_display_(self) -> None:
        show_live(self.progress)

    def _repr_html_(self) -> str:
        return card(self.progress())

    def look(self) -> None:
        """Looks what is back-pressured, for the next :meth:`progress`."""
        self._host.look()

    def threads_changed(self, before: int, after: int, reason: str) -> None:
        """Others are the threads that it shares now; one with a checkpoint has its own."""
        if isinstance(self._host, FlowHost) and self.is_active:
            self._host.threads_changed(before, after, reason)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until it has ended, for so long at most; whether it has."""
        return self._never_begins or self._background.wait(timeout_s)

    def result(self, timeout_s: float | None = None) -> Result:
        """Waits for the end of its inputs, and gives what its sinks kept.

        Raises:
            TimeoutError: it has not ended by then; it goes on.
            ThalwegError: it was stopped before its end.
            Exception: what an operator, a source or a sink of it raised.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"flow {self.name!r} has not ended within {timeout_s} s")
        if self._is_stopped:
            raise ThalwegError(f"flow {self.name!r} was stopped before its end")
        try:
            return self._background.result()
        except ThalwegError as error:
            failure = told_once(error)
        raise failure.with_traceback(None)

    def end(self) -> None:
        """Ends its inputs here: what has come runs through, remaining timers fire, and :meth:`result` has it all.

        A flow with a checkpoint commits what has come and leaves its streams open: the next run goes on.
        """
        self._stop.set()

    def stop(self) -> None:
        """Ends it now; what is on its way is dropped. Waits until its threads have let go of it."""
        if self.is_active:
            self._is_stopped = True
            self._host.halt()
            self._stop.set()
        if self._background.has_begun:
            self._background.wait()
        else:
            self._host.close()
