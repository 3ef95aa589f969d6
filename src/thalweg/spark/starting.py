"""``tw.spark.start``: checks what is asked for, opens the checkpoint and starts the query."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from thalweg.checkpoint.hosts.evolution import require_evolution
from thalweg.checks import known_keywords, names_of
from thalweg.connectors.logs import Log
from thalweg.connectors.own_input import refuse_own_input
from thalweg.engine.contract import CHUNK_ROWS
from thalweg.errors import BuildError
from thalweg.flow.flow import Flow
from thalweg.metrics import address_of
from thalweg.page import asked_page
from thalweg.scheduling.rounds import Policy
from thalweg.spark.arguments import (
    check,
    check_flow,
    check_folders,
    check_locality,
    numbers_of,
    refuse_elastic_with_table,
    sent_policy,
    session_here,
    trigger_of,
    warn,
)
from thalweg.spark.batches import BatchRunner
from thalweg.spark.checkpoint.store import Store
from thalweg.spark.elastic import Elastic, elastic
from thalweg.spark.keys.locality import Asked
from thalweg.spark.patience import told_if_slow
from thalweg.spark.query import End, Query
from thalweg.spark.reading import inputs as io
from thalweg.spark.reading.log_stream import kept_logs, tell_kept_batch
from thalweg.spark.scheduler import Scheduler
from thalweg.spark.tasks.worker import compile_all
from thalweg.spark.writing.sinks import check_targets, refuse_inside, sinks_of
from thalweg.workers.warm import is_warm, warm_beside


@known_keywords
def start(
    flow: Flow,
    inputs: Mapping[str, Any],
    sinks: Mapping[str, Any],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    slots: int | Elastic | Literal["auto"] = 1,
    threads: int | Elastic | Literal["auto"] | None = None,
    trigger: str | None = None,
    end: End = "keep",
    chunk_rows: int = CHUNK_ROWS,
    scheduler: Scheduler | None = None,
    policy: Policy | None = None,
    locality: Asked = "off",
    drop: Sequence[str] = (),
    metrics: str | int | None = None,
    page: bool | str | int = False,
    control: bool = False,
) -> Query:
    """Starts a flow on Spark and returns its query.

    Args:
        flow: the flow.
        inputs: by source name: ``tw.files(...)``, ``tw.kafka(...)`` or another log, or a streaming or batch
            DataFrame. With a checkpoint, files that do not say ``follow=`` are those that are there and those to come.
        sinks: by sink name: ``tw.to_files(folder)``, ``tw.to_delta(...)`` or another target, ``tw.spark.memory()``,
            ``console()``, ``parquet(path)``, ``json``, ``csv``, or a function ``(frame, batch_id)``. A sink without an
            entry is computed and counted only.
        checkpoint: the folder of offsets and state; needed for streams.
        state: another folder for the state, say on a faster file system; it belongs to this checkpoint alone.
        slots: partitions of the keyed stages; any number at any start, see :meth:`Query.rescale`. ``"auto"`` finds
            the number from batch to batch, see :class:`thalweg.spark.Elastic`.
        threads: of each slot's engine; by default the cores that Spark gives a task (``spark.task.cpus``).
            ``"auto"`` finds the number up to that.
        trigger: ``"available_now"`` (what is there, then stop), an interval such as ``"5 seconds"``, or None for
            batch after batch. Batch inputs run once, here, and end.
        end: what the end of an available-now run means: ``"keep"`` leaves sessions and windows open for the
            next run, ``"drain"`` ends the input for good.
        chunk_rows: about how many rows move at once; at most 16,384 in one slot of several threads all of whose
            operators are compiled, where larger steps cost more.
        scheduler: shares the cluster with other queries by a policy; it knows this one by the flow's name.
        policy: who runs next of the operators inside a slot, of :mod:`thalweg.scheduling` (docs/spark.md): what is
            more urgent is computed first, by its flow's ``tags``. A sink's rows are written with their batch, when
            all of it is computed.
        locality: how tuples find their slots. ``"off"``: by the hash of their key, or by the table that a checkpoint
            has already. ``"online"``: keys that come together are brought together while the query runs
            (docs/locality.md), with other settings by ``tw.locality.Online(…)``. A path: by that table, which
            ``thalweg locality plan`` made.
        drop: operators that the checkpoint has and whose state may be given up, where the flow has them no more or
            cannot go on with it (docs/evolve.md).
        metrics: an address such as ``"127.0.0.1:9464"`` at which the driver answers ``/metrics`` in Prometheus' text
            form while the query runs (docs/metrics.md); a port alone is of this machine only.
        page: True, or an address: the driver shows the query in a browser while it runs, at the address that is said
            and that ``query.page.url`` has (docs/page.md).
        control: the page also changes the number of slots, stops the query and makes savepoints.

    Raises:
        BuildError: names or arguments do not fit the flow.
        CheckpointMismatch: the checkpoint belongs to another flow.
        ThalwegError: batch inputs only: a row or function failed.
    """
    plan = check_flow("start", flow, inputs, chunk_rows)
    inputs = io.inputs_of(inputs, follow=checkpoint is not None)
    if checkpoint is not None and (kept := kept_logs(inputs, trigger)) is not None:
        inputs, trigger = kept, "available_now"
    check(plan, inputs, sinks, end)
    sinks = sinks_of(sinks)  # before Spark is started
    check_targets(plan.sinks, sinks)
    check_folders(checkpoint=checkpoint, state=state)
    refuse_inside(sinks, checkpoint=checkpoint, state=state)
    refuse_own_input(inputs, sinks)
    for what, number in {"slots": slots, "threads": threads}.items():
        elastic(what, number)
    streaming = io.is_streaming(inputs)
    if streaming and checkpoint is None:
        raise BuildError(
            "a streaming query needs checkpoint='folder': its state and offsets live there"
        )
    if not streaming and checkpoint is not None:
        tell_kept_batch()
    if not streaming and locality != "off":
        raise BuildError(
            "locality= needs a streaming input: tables are learnt from batch to batch, and other"
            " inputs are a single batch"
        )
    asked = trigger_of(trigger)
    if metrics is not None:
        address_of(metrics)
    asked_page("start", page, control)
    check_locality(locality)
    drop = names_of("start", drop)
    if drop and not (streaming and checkpoint is not None):
        raise BuildError("start: drop= needs checkpoint=, the folder of the checkpoint")
    if scheduler is not None and not isinstance(scheduler, Scheduler):
        raise BuildError(
            f"scheduler: expected a tw.spark.Scheduler, which takes the policy, got {scheduler!r}"
        )
    sent = sent_policy(policy)
    if streaming:
        io.refuse_unknown_lanes(plan, drains=end == "drain" and "availableNow" in asked)
    spark = session_here()
    if scheduler is not None:
        scheduler.check(spark, plan.flow, next(io.unbounded(inputs), "") if streaming else "")
    refuse_elastic_with_table(slots, locality)
    numbers = numbers_of(spark, slots, threads)
    store = None
    if streaming and checkpoint is not None:
        store = Store.open(
            os.fspath(checkpoint),
            None if state is None else os.fspath(state),
            sources=[source.name for source in plan.sources],
            logs=[name for name, given in inputs.items() if isinstance(given, Log)],
            was={now: before for before, now in plan.renamed},
            require=functools.partial(require_evolution, plan=plan, drop=drop),
        )
    try:
        with told_if_slow(f"starting flow {plan.flow!r}"):
            frame = io.tagged_frame(spark, plan, inputs, store.control if store else None)
            batches = BatchRunner(
                spark, plan, inputs, sinks, store, numbers, chunk_rows, locality, drop, sent,
                follows="availableNow" not in asked,
            )  # fmt: skip
            warn(spark, numbers.most_slots, inputs, plan)
            if str(spark.sparkContext.master).startswith("local"):
                # The workers are on this machine: what is compiled here, with a message, they find in the cache.
                batches.waits_for_loop = (
                    numbers.threads == numbers.most_threads > 1 and policy is None and not is_warm()
                )
                if batches.waits_for_loop:
                    warm_beside()
                for count in {numbers.threads, numbers.most_threads}:
                    compile_all(batches.prepared, 1 if batches.waits_for_loop else count, policy)
            elif policy is not None:
                # What it is not for is said here, and not by a task.
                compile_all(batches.prepared, numbers.threads, policy)
        query = Query(batches, flow, frame, asked, end, scheduler)
        if metrics is not None:
            query.serve_metrics(metrics)
        if page is not False:
            query.serve_page(page, control=control)
        if store is None:
            query.run_now()
        else:
            with told_if_slow(f"starting flow {plan.flow!r}"):
                query._start()
    except BaseException:
        if store is not None:
            store.lease.give_back()
        raise
    return query
