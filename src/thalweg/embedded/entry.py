"""Runs one flow or several in this process, until their inputs end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, overload

from thalweg.checks import known_keywords, meant, require_mapping
from thalweg.connectors import GivenSink
from thalweg.elasticity import Controller
from thalweg.embedded.amount import needs_one_thread, rows_at_most
from thalweg.embedded.durable import (
    Checkpoint,
    Durable,
    DurableHost,
    End,
    Every,
    durable_host,
    durable_of,
)
from thalweg.embedded.feeding import Event
from thalweg.embedded.flow_run import FlowRun
from thalweg.embedded.host import FlowHost, Result, required_plan
from thalweg.embedded.run_options import options_of, refuse_beside_options
from thalweg.embedded.running import Running
from thalweg.embedded.slots import SLOT_ROWS, Routing, Slots, routing_of
from thalweg.embedded.watched import run_watched
from thalweg.engine.idle_orders import refuse_between_slots
from thalweg.errors import BuildError, ThalwegError
from thalweg.flow.failures import told_once
from thalweg.flow.flow import Flow
from thalweg.page import asked_page
from thalweg.scheduling import Policy
from thalweg.workers.memory.reserve import Reserve
from thalweg.workers.options import Options

_LOG: Final = logging.getLogger("thalweg")
#: What is given by name.
_BY_NAME: Final = {"sinks": "sinks by name", "classes": "priority classes by flow name"}
#: How often a caller that waits for several flows looks at each of them, seconds.
_LOOK_S: Final = 0.05


@overload
def run(
    flow: Flow,
    inputs: Mapping[str, Any],
    sinks: Mapping[str, GivenSink] | None = None,
    *,
    threads: int | Literal["auto"] | None = None,
    threading: Literal["manual", "dedicated", "dynamic"] = "dynamic",
    policy: Policy | None = None,
    controller: Controller | None = None,
    period_s: float = 10.0,
    chunk_rows: int | None = None,
    options: Options | None = None,
    slots: int | None = None,
    routing: Routing = None,
    checkpoint: Checkpoint = None,
    every: Every = None,
    end: End | None = None,
    drop: Sequence[str] = (),
    page: bool | str | int = False,
    control: bool = False,
) -> Result: ...


@overload
def run(
    flow: Sequence[Flow],
    inputs: Mapping[str, Mapping[str, Any]],
    sinks: Mapping[str, Mapping[str, GivenSink]] | None = None,
    *,
    classes: Mapping[str, int] | None = None,
    threads: int | Literal["auto"] | None = None,
    threading: Literal["dedicated", "dynamic"] = "dynamic",
    policy: Policy | None = None,
    controller: Controller | None = None,
    period_s: float = 10.0,
    chunk_rows: int | None = None,
    options: Options | None = None,
    page: bool | str | int = False,
    control: bool = False,
) -> dict[str, Result]: ...


@known_keywords
def run(
    flow: Flow | Sequence[Flow],
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any] | None = None,
    *,
    classes: Mapping[str, int] | None = None,
    threads: int | Literal["auto"] | None = None,
    threading: Literal["manual", "dedicated", "dynamic"] = "dynamic",
    policy: Policy | None = None,
    controller: Controller | None = None,
    period_s: float = 10.0,
    chunk_rows: int | None = None,
    options: Options | None = None,
    slots: int | None = None,
    routing: Routing = None,
    checkpoint: Checkpoint = None,
    every: Every = None,
    end: End | None = None,
    drop: Sequence[str] = (),
    page: bool | str | int = False,
    control: bool = False,
) -> Result | dict[str, Result]:
    """Runs a flow, or several side by side, in this process until their inputs end, and returns their outputs.

    The output is that of a serial run, whatever the arguments from ``threads`` on.

    Args:
        flow: the flow; or a list of flows, which share the threads: then ``inputs`` and ``sinks`` are by the name of
            the flow, each as for that flow alone, and so is what is returned.
        inputs: by source name, in arrival order: a pyarrow table, rows (records, tuples, mappings, record batches or
            tables) as a collection or an iterator, or ``tw.files``, ``tw.tcp_lines``, ``tw.push_source``,
            ``tw.from_iterable``.
        sinks: by sink name, where rows go: ``tw.to_files``, ``tw.to_tcp``, ``tw.each``, or a function of a
            pyarrow.RecordBatch (``tw.batches``); the other sinks collect theirs for the result.
        classes: the priority class of each flow by its name, for a policy that asks for it; 0, the most urgent, for
            those that are not named.
        threads: how many workers run the operators; None: all usable cores, of one flow whose input is there already
            as far as they pay (docs/runtime.md); ``"auto"``: as many as ``controller`` says, up to all usable
            cores.
        threading: ``dynamic`` sends workers where ``policy`` says; ``dedicated`` gives each operator a thread;
            ``manual`` runs all operators of one flow in the thread that brings the rows.
        policy: who runs next, of :mod:`thalweg.scheduling`; None is the free list.
        controller: changes how many workers run while the flows do, of :mod:`thalweg.elasticity`; ``threads`` is then
            the most that there may be. None: under ``threads="auto"`` ``ThreadLevels()``, else all run.
        period_s: after so long the controller is asked again, seconds.
        chunk_rows: about how many rows move at once; None: in many threads as many as the dearest operator does
            in about 2 ms, at most 16,384.
        options: all that there is to say about a run in many threads, instead of threads, threading and policy.
        slots: runs one flow as on a cluster: in so many slots, each in a thread of its own, between which tuples go by
            key. Instead of threads and all that is about them.
        routing: between slots: by hash (None), by a ``tw.locality.RoutingTable`` or the path of one, or by tables that
            ``tw.locality.Online()`` (or "online") makes while the flow runs.
        checkpoint: a folder from which the same call goes on after a crash, with state, inputs and outputs as they
            were at the last commit (docs/runtime.md). Of one flow, whose inputs can be read again; ``threads`` is then
            a number, or None for as many as pay.
        every: how often is committed: a duration such as ``"10 seconds"``, which is the default.
        end: of inputs that end with a checkpoint: ``"drain"`` (the default) ends the streams, and the checkpoint is
            finished; ``"keep"`` commits and returns, and a later run reads what has come since.
        drop: operators and sources that the checkpoint has and whose state may be given up, where the flow has them no
            more or cannot go on with it (docs/evolve.md).
        page: True, or an address: shows the run in a browser until it ends, at the address that is said (docs/page.md).
        control: the page also ends and stops it, and changes threads and policy where they were asked for.

    Raises:
        CheckpointError: the checkpoint is of another flow, in use, finished, or damaged.
        BuildError: an input is missing, there is no source or sink of a name, or what was given does not fit.
        DataError: a row does not fit its record, or a function raised, under ``errors="fail"``. Of several flows the
            first that fails ends the others.
        EnvironmentProblem: a file cannot be written, a peer cannot be reached, or an address is not free.
        ThalwegError: it was stopped on the page.
    """
    try:
        return _run(
            flow, inputs, sinks, classes=classes, threads=threads, threading=threading,
            policy=policy, controller=controller, period_s=period_s, chunk_rows=chunk_rows,
            options=options, slots=slots, routing=routing,
            durable=durable_of("run", checkpoint, every, end, drop), page=page, control=control,
        )  # fmt: skip
    except ThalwegError as error:
        _LOG.debug("the failure in full", exc_info=error)
        failure = told_once(error)
    raise failure.with_traceback(None)


def _run(
    flow: Flow | Sequence[Flow],
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any] | None,
    *,
    classes: Mapping[str, int] | None,
    threads: int | Literal["auto"] | None,
    threading: Literal["manual", "dedicated", "dynamic"],
    policy: Policy | None,
    controller: Controller | None,
    period_s: float,
    chunk_rows: int | None,
    options: Options | None,
    slots: int | None,
    routing: Routing,
    durable: Durable | None,
    page: bool | str | int,
    control: bool,
) -> Result | dict[str, Result]:
    asked_page("run", page, control)
    if options is not None and not isinstance(options, Options):
        raise BuildError(f"options: expected Options, got {type(options).__name__}")
    refuse_beside_options(options, threads, threading, policy, controller, period_s)
    for name, given in {"sinks": sinks, "classes": classes}.items():
        if given is not None:
            require_mapping("run", _BY_NAME[name], **{name: given})
    if isinstance(flow, Sequence) and not isinstance(flow, str):
        if slots is not None or routing is not None:
            raise BuildError("slots= and routing= take one flow, not several")
        if durable is not None:
            raise BuildError(
                "checkpoint= takes one flow, not several; tw.start() adds several, each with a checkpoint of its own"
            )
        how = options or options_of(threads, threading, policy, controller, period_s)
        return _run_several(
            flow, inputs, sinks or {}, classes or {}, chunk_rows, how, page=page, control=control
        )
    if classes is not None:
        raise BuildError("classes= needs several flows: pass a list of flows")
    if durable is not None:
        _refuse_beside_checkpoint(threads, threading, policy, controller, options, slots, routing)
        plan = required_plan(flow, inputs)
        is_manual = threading == "manual"
        count = 1 if is_manual else None if threads is None else int(threads)
        durable_one = durable_host(
            plan, inputs, sinks or {}, durable, chunk_rows=chunk_rows, threads=count
        )
        return _run_one(durable_one, page, control=control)
    host = host_of(
        flow, inputs, sinks or {}, threads=threads, threading=threading, policy=policy,
        controller=controller, period_s=period_s, chunk_rows=chunk_rows, options=options,
        slots=slots, routing=routing,
    )  # fmt: skip
    return _run_one(host, page, control=control)


def _run_one(host: FlowHost | DurableHost, page: bool | str | int, *, control: bool) -> Result:
    return host.run(Event()) if page is False else run_watched(host, page, control=control)


def host_of(
    flow: Flow,
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any],
    *,
    threads: int | Literal["auto"] | None = None,
    threading: Literal["manual", "dedicated", "dynamic"] = "dynamic",
    policy: Any = None,
    controller: Controller | None = None,
    period_s: float = 10.0,
    chunk_rows: int | None = None,
    options: Options | None = None,
    slots: int | None = None,
    routing: Routing = None,
) -> FlowHost:
    """What runs one flow as these arguments of :func:`run` say; nothing of it runs yet."""
    plan = required_plan(flow, inputs)
    if slots is not None:
        _refuse_beside_slots(threads, threading, policy, controller, options)
        refuse_between_slots(plan, "slots")
        made = Slots(slots, routing_of(routing))
        rows = SLOT_ROWS if chunk_rows is None else chunk_rows
        return FlowHost(
            plan, inputs, sinks, rows, None, engine_of=made.engine, changes=made.changes
        )
    if routing is not None:
        raise BuildError("routing= needs slots=, the number of slots")
    # Who asks for something gets it; only else is there a choice, and the worker loop compiled beside for later.
    by_default = (
        threading == "dynamic"
        and not plan.regions
        and all(one is None for one in (threads, options, policy, controller))
    )
    inputs_rows = rows_at_most(plan, inputs) if by_default else None
    needs_one = inputs_rows is not None and needs_one_thread(inputs_rows)
    how = options or options_of(
        threads,
        threading,
        policy,
        controller,
        period_s,
        is_alone=True,
        has_regions=bool(plan.regions),
    )
    return FlowHost(
        plan, inputs, sinks, chunk_rows, how, inputs_rows=inputs_rows, only_waiting=needs_one
    )


def _refuse_beside_slots(
    threads: Any, threading: str, policy: Any, controller: Any, options: Any
) -> None:
    given = {"threads": threads, "policy": policy, "controller": controller, "options": options}
    wrong = [name for name, value in given.items() if value is not None]
    wrong += [] if threading == "dynamic" else ["threading"]
    if wrong:
        raise BuildError(f"slots: each runs in a thread of its own; leave out {', '.join(wrong)}")


def _refuse_beside_checkpoint(
    threads: Any,
    threading: str,
    policy: Any,
    controller: Any,
    options: Any,
    slots: Any,
    routing: Any,
) -> None:
    given = {
        "policy": policy, "controller": controller, "options": options, "slots": slots,
        "routing": routing,
    }  # fmt: skip
    wrong = [name for name, value in given.items() if value is not None]
    wrong += [] if threading in ("dynamic", "manual") else ["threading"]
    wrong += ["threads='auto'"] if threads == "auto" else []
    if wrong:
        raise BuildError(f"checkpoint: takes threads= as a number; leave out {', '.join(wrong)}")


def _run_several(
    flows: Sequence[Flow],
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any],
    classes: Mapping[str, int],
    chunk_rows: int | None,
    how: Options | None,
    *,
    page: bool | str | int,
    control: bool,
) -> dict[str, Result]:
    names = _names(flows)
    for what, given in {"inputs": inputs, "sinks": sinks, "classes": classes}.items():
        _check_names(what, given, names)
    if how is None:
        raise BuildError("threading='manual' runs one flow, not several")
    more = len(flows) > Reserve().flows
    reserve = Reserve.of_flows(len(flows)) if more else None
    with Running(how, reserve, page=page, control=control) as running:
        runs = [
            running.prepare(
                flow, inputs.get(name, {}), sinks.get(name), chunk_rows=chunk_rows,
                priority_class=classes.get(name, 0),
            )
            for name, flow in zip(names, flows, strict=True)
        ]  # fmt: skip
        running.begin()
        _wait(runs)
        return {run.name: run.result() for run in runs}


def _wait(runs: Sequence[FlowRun]) -> None:
    """Waits until all have ended, or one has failed."""
    waiting = list(runs)
    while waiting and all(run.exception is None for run in runs):
        waiting[0].wait(_LOOK_S)
        waiting = [run for run in waiting if run.is_active]
    for run in runs:
        if run.exception is not None:
            raise run.exception


def _names(flows: Sequence[Flow]) -> list[str]:
    for one in flows:
        if not isinstance(one, Flow):
            raise BuildError(f"run: expected tw.Flows, got {type(one).__name__}")
    names = [one.name for one in flows]
    if not names:
        raise BuildError("run: there are no flows in the list")
    for name in names:
        if names.count(name) > 1:
            raise BuildError(
                f"two flows are named {name!r}: side by side they need names of their own"
            )
    return names


def _check_names(what: str, given: Any, names: Sequence[str]) -> None:
    if not isinstance(given, Mapping):
        raise BuildError(
            f"{what}: of several flows, expected a mapping by flow name, got {type(given).__name__}"
        )
    for extra in given:
        if extra not in names:
            raise BuildError(
                f"{what}: there is no flow {extra!r}; there are {', '.join(names)}{meant(extra, names)}"
            )
