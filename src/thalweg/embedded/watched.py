"""A run in the calling thread that browsers look at, and may end where the caller allows it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from thalweg.embedded.durable import DurableHost
from thalweg.embedded.feeding import Event
from thalweg.embedded.host import FlowHost, Result
from thalweg.embedded.showing import actions_of, shared_actions
from thalweg.engine.observer import Observer
from thalweg.errors import ThalwegError
from thalweg.page import Action, Shown, serve_page
from thalweg.printing import say
from thalweg.scheduling import Policy
from thalweg.workers.engine import ParallelEngine


class WatchedRun:
    """One run of a flow, with what the page may do with it."""

    def __init__(self, host: FlowHost | DurableHost) -> None:
        self._host = host
        self._stop = Event()
        self._is_stopped = False
        self.is_active = True

    @property
    def name(self) -> str:
        """The name of the flow."""
        return self._host.plan.flow

    @property
    def checkpoint(self) -> str | None:
        """The folder of its checkpoint, if it has one."""
        return self._host.checkpoint if isinstance(self._host, DurableHost) else None

    def end(self) -> None:
        """Ends its inputs here; the caller gets the result."""
        self._stop.set()

    def stop(self) -> None:
        """Ends it with its step; the caller gets an error."""
        self._is_stopped = True
        self._host.halt()
        self._stop.set()

    def run(self) -> Result:
        """Runs it to its end.

        Raises:
            ThalwegError: it was stopped before.
            Exception: what a source, an operator or a sink raised.
        """
        try:
            result = self._host.run(self._stop)
        except Exception:
            if not self._is_stopped:
                raise
        finally:
            self.is_active = False
        if self._is_stopped:
            raise ThalwegError(f"flow {self.name!r} was stopped on its page before its end")
        return result

    def actions(self) -> Iterator[Action]:
        """What the page may do now."""
        yield from actions_of(self)
        if self.is_active and isinstance(self._host, FlowHost) and self._host.is_in_threads:
            yield from _OwnThreads(self._host).actions()


class _OwnThreads:
    """Threads that one run has for itself, in the form in which flows share them."""

    def __init__(self, host: FlowHost) -> None:
        assert isinstance(host.engine, ParallelEngine)
        self._host, self._engine = host, host.engine

    def actions(self) -> Iterator[Action]:
        """Threads, where they are left to us, and the policy."""
        workers, options = self._engine.workers, self._engine.options
        is_ours = not self._host.is_elastic and options.threading != "dedicated"
        yield from shared_actions(self, workers.threads, workers.most if is_ours else None)

    @property
    def policy(self) -> Policy | None:
        """Who runs next."""
        return self._engine.workers.policy

    @policy.setter
    def policy(self, policy: Policy | None) -> None:
        self._engine.workers.policy = policy

    def set_threads(self, count: int, *, reason: str) -> None:
        """So many run from now on."""
        workers = self._engine.workers
        before = workers.threads
        workers.set_threads(count)
        self._host.threads_changed(before, workers.threads, reason)


def run_watched(host: FlowHost | DurableHost, page: bool | str | int, *, control: bool) -> Result:
    """Runs it in the calling thread, and shows it at an address as long as it runs.

    Raises:
        EnvironmentProblem: the address is not free.
        ThalwegError: it was stopped on the page.
        Exception: what a source, an operator or a sink raised.
    """
    run = WatchedRun(host)
    with contextlib.ExitStack() as stack:
        actions = run.actions if control else None
        served = serve_page(page, lambda: [Shown(host.progress())], actions=actions)
        stack.callback(served.close)
        say(f"page: {served.url}")
        if isinstance(host, FlowHost):  # with a checkpoint it is looked at in any case
            observer = Observer(lambda: [host])
            stack.callback(observer.stop)
            observer.start()
        return run.run()
