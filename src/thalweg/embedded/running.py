"""Several flows beside each other in this process: they share threads, and a policy says who is next."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Literal

from thalweg.brief import counted
from thalweg.checks import (
    known_keywords,
    require_class,
    require_count,
    require_instance,
    require_mapping,
    require_text,
)
from thalweg.connectors import GivenSink
from thalweg.elasticity import Controller
from thalweg.embedded.durable import (
    Checkpoint,
    DurableHost,
    End,
    Every,
    durable_host,
    durable_of,
)
from thalweg.embedded.flow_run import FlowRun
from thalweg.embedded.host import FlowHost, required_plan
from thalweg.embedded.run_options import options_of, refuse_beside_options
from thalweg.embedded.showing import several, shared_actions
from thalweg.engine.observer import Observer
from thalweg.errors import BuildError
from thalweg.flow.failures import reason_of
from thalweg.flow.flow import Flow
from thalweg.metrics import MetricsServer, serve_metrics
from thalweg.page import Action, Page, Shown, asked_page, serve_page
from thalweg.printing import say
from thalweg.scheduling.rounds import Policy
from thalweg.snapshot import Snapshot
from thalweg.workers.elastic import elastic_of
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.options import Options
from thalweg.workers.rounds import RoundCosts
from thalweg.workers.threads import Workers

#: Lines of what prints.
_LINES = 20


class Running:
    """Threads and a policy for flows that are added and removed while others run; made by :func:`start`.

    As a context manager it stops everything at the end of the block: wait for results inside.
    """

    def __init__(
        self,
        options: Options,
        reserve: Reserve | None = None,
        metrics: str | int | None = None,
        page: bool | str | int = False,
        control: bool = False,
    ) -> None:
        #: what browsers see; None without page=
        self.page: Page | None = None
        #: answers scrapes; None without metrics=
        self.metrics: MetricsServer | None = None
        self._observer: Observer | None = None
        self._options = options
        self._workers = Workers(options, reserve=reserve)
        self._elastic = elastic_of(self._workers, options)
        self._has_begun = False
        self._flows: dict[str, FlowRun] = {}
        self._is_stopped = False
        if metrics is not None:
            self.metrics = serve_metrics(metrics, lambda: self.progress().values())
        if page is not False:
            self._show(page, control)
        if metrics is not None or page is not False:
            self._observer = Observer(lambda: [run for run in self._runs if run.is_active])
            self._observer.start()

    def _show(self, address: bool | str | int, control: bool) -> None:
        self.page = serve_page(
            address,
            lambda: map(Shown, self.progress().values()),
            actions=self._actions if control else None,
        )
        say(f"page: {self.page.url}")

    def _actions(self) -> Iterator[Action]:
        """What the page may do now; threads that a controller sets, or each operator has one of, are not left to it."""
        yield from several(self._runs)
        is_ours = self._elastic is None and self._options.threading != "dedicated"
        if any(run.is_active and run.checkpoint is None for run in self._runs):
            workers = self._workers
            yield from shared_actions(self, workers.threads, workers.most if is_ours else None)

    def add(
        self,
        flow: Flow,
        inputs: Mapping[str, Any],
        sinks: Mapping[str, GivenSink] | None = None,
        *,
        priority_class: int = 0,
        chunk_rows: int | None = None,
        checkpoint: Checkpoint = None,
        every: Every = None,
        end: End | None = None,
        drop: Sequence[str] = (),
    ) -> FlowRun:
        """Runs one more flow. When it has ended, or was stopped, its name may be used again.

        Args:
            flow: the flow.
            inputs: by source name, as for :func:`thalweg.run`.
            sinks: by sink name, as for :func:`thalweg.run`.
            priority_class: of all its operators, for policies that ask for it; 0 is the most urgent.
            chunk_rows: as for :func:`thalweg.run`.
            checkpoint, every, end, drop: as for :func:`thalweg.run`. Such a flow runs in a thread of its own, not in
                those that the others share, and has more of its own where that pays and :func:`start` was given no
                number.

        Raises:
            BuildError: something does not fit, or a flow of that name runs.
            EnvironmentProblem: there is no room for one more flow.
            SchedulingError: the policy is none for this flow.
        """
        run = self.prepare(
            flow, inputs, sinks, priority_class=priority_class, chunk_rows=chunk_rows,
            checkpoint=checkpoint, every=every, end=end, drop=drop,
        )  # fmt: skip
        run.begin()
        return run

    def prepare(
        self,
        flow: Flow,
        inputs: Mapping[str, Any],
        sinks: Mapping[str, GivenSink] | None = None,
        *,
        priority_class: int = 0,
        chunk_rows: int | None = None,
        checkpoint: Checkpoint = None,
        every: Every = None,
        end: End | None = None,
        drop: Sequence[str] = (),
    ) -> FlowRun:
        """As :meth:`add`, but nothing of it runs until :meth:`begin`."""
        if self._is_stopped:
            raise BuildError("add: these flows were stopped; begin anew with tw.start")
        if (error := self._workers.error) is not None:
            raise BuildError(
                f"add: all flows have ended here, since {reason_of(error)}; begin anew with tw.start"
            ) from error
        if sinks is not None:
            require_mapping("add", "sinks by name", sinks=sinks)
        require_class(f"flow {getattr(flow, 'name', flow)!r}", priority_class)
        plan = required_plan(flow, inputs)
        known = self._flows.get(plan.flow)
        if known is not None and known.is_active:
            raise BuildError(
                f"a flow {plan.flow!r} runs already: flows side by side need names of their own"
            )
        durable = durable_of("add", checkpoint, every, end, drop)
        host: FlowHost | DurableHost
        if durable is not None:
            host = durable_host(
                plan, inputs, sinks or {}, durable, chunk_rows=chunk_rows,
                # Who names a number of threads gets no more.
                threads=1 if self._options.waiting_threads is None else None,
            )  # fmt: skip
        else:
            host = FlowHost(
                plan, inputs, sinks or {}, chunk_rows, self._options,
                workers=self._workers, priority_class=priority_class, elastic=self._elastic,
            )  # fmt: skip
        if self._elastic is not None and not self._has_begun:
            self._elastic.start()
        self._has_begun = True
        run = FlowRun(host, priority_class)
        self._flows[plan.flow] = run
        return run

    def begin(self) -> None:
        """Starts all flows that were prepared."""
        for run in self._flows.values():
            run.begin()

    @property
    def flows(self) -> Mapping[str, FlowRun]:
        """The last flow of each name, also when it has ended."""
        return MappingProxyType(self._flows)

    @property
    def _runs(self) -> list[FlowRun]:
        return list(self._flows.values())

    def progress(self) -> dict[str, Snapshot]:
        """What each flow does, or did, by name."""
        return {run.name: run.progress() for run in self._runs}

    @property
    def round_costs(self) -> RoundCosts | None:
        """What rounds have cost so far, by part; None where the policy has none."""
        rounds = self._workers.rounds
        return None if rounds is None else dataclasses.replace(rounds.costs)

    @property
    def policy(self) -> Policy | None:
        """Who runs next; may be replaced while flows run.

        Raises:
            SchedulingError: it is none for the flows that there are; the one before goes on.
        """
        return self._workers.policy

    @policy.setter
    def policy(self, policy: Policy | None) -> None:
        self._workers.policy = policy

    def set_threads(self, count: int, *, reason: str = "asked for by set_threads") -> None:
        """So many workers run from now on, at most those that it was started with.

        Args:
            count: how many.
            reason: who asks, or why; the change is told with it in ``progress().changes`` of each flow.

        Raises:
            BuildError: that is no number of 1 or more.
        """
        require_count("threads", count)
        require_text("set_threads", reason=reason)
        before = self._workers.threads
        self._workers.set_threads(count)
        for run in self._runs:
            run.threads_changed(before, self._workers.threads, reason)

    def stop(self) -> None:
        """Ends all flows now, and the threads; what is on its way is dropped."""
        self._is_stopped = True
        for run in self._flows.values():
            run.stop()
        if self._elastic is not None and self._has_begun:
            self._elastic.stop()
        self._workers.stop()
        if self._observer is not None:
            self._observer.stop()
        if self.page is not None:
            self.page.close()
        if self.metrics is not None:
            self.metrics.close()

    def __str__(self) -> str:
        """What its flows do, as ``thalweg top`` shows it, in at most 20 lines."""
        runs = self._runs
        lines = [repr(self), *(line for run in runs for line in str(run).splitlines())]
        over = len(lines) - _LINES
        return "\n".join(
            lines if over <= 0 else [*lines[: _LINES - 1], f"… {over + 1:,} more lines"]
        )

    def __repr__(self) -> str:
        active = sum(run.is_active for run in self._flows.values())
        return f"<Running {active} of {counted(len(self._flows), 'flow')}, {counted(self._options.threads, 'thread')}>"

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@known_keywords
def start(
    *,
    threads: int | Literal["auto"] | None = None,
    threading: Literal["dedicated", "dynamic"] = "dynamic",
    policy: Policy | None = None,
    controller: Controller | None = None,
    period_s: float = 10.0,
    options: Options | None = None,
    reserve: Reserve | None = None,
    metrics: str | int | None = None,
    page: bool | str | int = False,
    control: bool = False,
) -> Running:
    """Starts threads that several flows share; flows are added to the result, and may end before others.

    Args:
        threads: how many workers run the operators of all flows; None: all usable cores; ``"auto"``: as many as
            ``controller`` says, up to these.
        threading: ``dynamic`` sends workers where ``policy`` says; ``dedicated`` gives each operator a thread.
        policy: who runs next, of :mod:`thalweg.scheduling`; None is the free list.
        controller: changes how many workers run; it begins anew whenever a flow comes or goes. See :func:`thalweg.run`.
        period_s: after so long the controller is asked again, seconds.
        options: all that there is to say about a run in many threads, instead of the above.
        reserve: room for the flows that are there at once, where the default is too little.
        metrics: an address such as ``"127.0.0.1:9464"`` at which ``/metrics`` answers in Prometheus' text form as long
            as this runs (docs/metrics.md); a port alone is of this machine only.
        page: True, or an address: shows the flows in a browser as long as this runs, at the address that is said and
            that ``page.url`` of the result has (docs/page.md).
        control: the page also changes threads and policy, ends and stops flows, and makes savepoints.

    Raises:
        BuildError: something does not fit.
        EnvironmentProblem: an address is not free, or prometheus-client is not installed.
    """
    if options is not None:
        require_instance("start", Options, "Options", options=options)
    refuse_beside_options(options, threads, threading, policy, controller, period_s)
    if reserve is not None:
        require_instance("start", Reserve, "a Reserve", reserve=reserve)
    how = options or options_of(threads, threading, policy, controller, period_s)
    if how is None:
        raise BuildError("threading='manual' runs one flow; use tw.run")
    asked_page("start", page, control)
    return Running(how, reserve, metrics, page, control)
