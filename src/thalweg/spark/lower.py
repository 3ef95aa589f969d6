"""lower(): a flow as DataFrames, for a user's own batch job or writeStream."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from thalweg.checkpoint.routing_files import asked_path, load_table
from thalweg.checks import known_keywords, path_of, require_rows
from thalweg.connectors.names import check_names
from thalweg.engine.contract import CHUNK_ROWS
from thalweg.errors import BuildError
from thalweg.flow.flow import Flow
from thalweg.flow.operators.nodes import Coroutine, Keyed, OrderBy, Source
from thalweg.locality import Online, RoutingTable, encode_table, keyed_operators
from thalweg.plan.plan import Plan
from thalweg.spark.arguments import check_flow, threads_of
from thalweg.spark.batches import BatchRunner
from thalweg.spark.cluster.session import refuse_connect
from thalweg.spark.elastic import Adaptation
from thalweg.spark.reading import inputs as io
from thalweg.spark.writing.sinks import decode_frame


@known_keywords
def lower(
    flow: Flow,
    inputs: Mapping[str, Any],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    slots: int = 1,
    threads: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
    locality: RoutingTable | str | os.PathLike[str] = "off",
) -> dict[str, DataFrame]:
    """Returns the flow's sinks as DataFrames, batch or streaming.

    Batch frames run the whole flow to the end of the input. Streaming frames can be lowered as long as the
    flow keeps nothing between batches (no keyed or stateful operator, no ``order_by``): Spark's own sinks may
    skip a batch after a crash without running the flow, which would lose its state, so stateful flows go
    through :func:`thalweg.spark.start`. Each frame runs the whole flow when it is used; persist it to use it
    twice.

    Args:
        flow: the flow.
        inputs: by source name: DataFrames or ``tw.spark.files(...)``, all streaming or none.
        checkpoint: not used by what can be lowered; accepted so that calls look like those of start.
        slots: partitions of the keyed stages.
        threads: of each slot's engine; by default the cores that Spark gives a task.
        chunk_rows: about how many rows move at once.
        locality: ``"off"`` routes keys by their hash between slots; the path of a table that ``thalweg locality plan``
            wrote, or the table, brings keys that come together to one slot.

    Raises:
        BuildError: the flow is stateful and the inputs stream, names do not fit, or the table is for another flow or
            number of slots.
        CheckpointError: there is no table at the path, or it is torn.
    """
    plan = check_flow("lower", flow, inputs, chunk_rows)
    require_rows("lower", slots=slots)
    if threads is not None:
        require_rows("lower", threads=threads)
    if checkpoint is not None:
        path_of("lower", "checkpoint", checkpoint)
    io.refuse_embedded_only(plan)
    check_names(plan, inputs)
    table = _table(plan, locality, slots)
    inputs = io.inputs_of(inputs, follow=False)
    streaming = io.is_streaming(inputs)
    if streaming:
        _refuse_state(plan)
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise BuildError("lower needs a running Spark session; start it with tw.spark.session()")
    refuse_connect(spark)
    frame = io.tagged_frame(spark, plan, inputs, None)
    threads = threads_of(spark, threads)
    numbers = Adaptation(slots, threads, most_slots=slots, most_threads=threads)
    batches = BatchRunner(spark, plan, inputs, {}, None, numbers, chunk_rows)
    result = batches.lowered(
        frame,
        dataclasses.replace(
            batches.job(0, None, ends=not streaming),
            wanted=frozenset(sink.index for sink in plan.sinks),
            table=b"" if table is None else encode_table(table),
        ),
    )
    return {sink.name: decode_frame(result, sink.record, sink.index) for sink in plan.sinks}


def _table(plan: Plan, locality: Any, slots: int) -> RoutingTable | None:
    """The table that is asked for; None for hashing.

    Raises:
        BuildError: it is none, or does not fit.
        CheckpointError: there is none at the path, or it is torn.
    """
    if isinstance(locality, str) and locality == "off":
        return None
    if isinstance(locality, Online) or locality == "online":
        raise BuildError(
            "lower: a batch that runs once learns no table for a later one; make one from a sample by thalweg locality"
            ' plan and give its path, locality="table.json"'
        )
    path = asked_path(locality)
    table = locality if path is None else load_table(path)
    if not isinstance(table, RoutingTable):
        raise BuildError(
            f'lower: locality is "off", a tw.locality.RoutingTable or the path of one, got {locality!r}'
        )
    table.require(keyed_operators(plan), slots)
    return table


def _refuse_state(plan: Plan) -> None:
    for node in plan.nodes:
        if isinstance(node, Source) and node.stamp is not None:
            raise BuildError(
                f"lower: source {node.name!r}: nobody logs the stamp={node.stamp!r} of a lowered stream, so a batch"
                " that is repeated would have others; run the flow with tw.spark.start"
            )
        keeps = isinstance(node, (Keyed, OrderBy, Coroutine)) or (
            isinstance(node, Source) and node.order_by
        )
        if keeps:
            raise BuildError(
                f"lower: {node.kind.value} {node.name!r} keeps rows or state between batches, and a lowered stream"
                " cannot keep them exactly once; run the flow with tw.spark.start, whose sinks may be functions"
            )
