"""How a batch reaches the sinks: through Spark, or from the driver."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from thalweg.checkpoint import durable
from thalweg.checkpoint.paths import is_local, resolve
from thalweg.connectors.target_writes import TargetWrites
from thalweg.connectors.targets import Target
from thalweg.errors import ThalwegError
from thalweg.flow.operators.nodes import Sink
from thalweg.plan.plan import Plan
from thalweg.spark.failures import function_failed, write_failed
from thalweg.spark.tasks.transport import decode
from thalweg.spark.told import Told
from thalweg.spark.writing.sinks import (
    ConsoleSink,
    FolderSink,
    FrameSink,
    MemorySink,
    TableSink,
    decode_frame,
)


class Writing(NamedTuple):
    """The batch that is written, and by whom."""

    batch: int
    query: str
    targets: TargetWrites


def write(
    plan: Plan, sinks: Mapping[str, Any], result: DataFrame, told: Told, writing: Writing
) -> None:
    """Writes a batch to the sinks that were given.

    Args:
        result: what the tasks made, for sinks whose rows Spark keeps.
        told: what they told the driver, with the rows of the others.

    Raises:
        ThalwegError: a sink failed; the message names it.
    """
    batch = writing.batch
    for node in plan.sinks:
        sink = sinks.get(node.name)
        if isinstance(sink, FolderSink):
            _write_files(sink, node, result, told, batch)
        elif isinstance(sink, FrameSink):
            rows = decode_frame(result, node.record, node.index)
            _call(node.name, sink.function, rows, batch)
        elif isinstance(sink, Target):
            writing.targets.write(node, sink, _table(node, told), batch, writing.query)
        elif sink is not None:
            _write_here(sink, node, told, batch)


def _write_files(sink: FolderSink, node: Sink, result: DataFrame, told: Told, batch: int) -> None:
    try:
        if told.rows[node.index]:
            sink.write(decode_frame(result, node.record, node.index), batch)
            _sync(f"{sink.path}/batch={batch}")
        else:
            sink.clear(batch)
    except Exception as error:
        raise write_failed(node.name, sink.path, batch, error) from error


def _write_here(
    sink: MemorySink | ConsoleSink | TableSink, node: Sink, told: Told, batch: int
) -> None:
    table = _table(node, told)
    if isinstance(sink, MemorySink):
        sink.put(node.record, table, batch)
    elif isinstance(sink, ConsoleSink):
        try:
            sink.show(node.name, node.record, table, batch)
        except OSError as error:
            raise write_failed(node.name, "the terminal", batch, error) from error
    else:
        _call(node.name, sink.function, table, batch)


def _table(node: Sink, told: Told) -> pa.Table:
    """The rows of a sink that came to the driver."""
    return pa.Table.from_batches(
        [decode(data, node.record, ()).to_arrow() for data in told.data.get(node.index, [])],
        schema=node.record.arrow,
    )


def _sync(location: str) -> None:
    """Brings a batch's files to a local disk, before a commit record says that they are there."""
    fs, path = resolve(location)
    if is_local(fs):
        durable.sync_tree(path)


def _call(sink: str, function: Any, rows: Any, batch: int) -> None:
    """A sink's function on a batch; what it raises names it."""
    try:
        function(rows, batch)
    except ThalwegError:
        raise
    except (
        BaseException
    ) as error:  # also sys.exit(): the query ends, and not the thread of its batch
        if isinstance(error, KeyboardInterrupt) and _may_be_asked():
            raise  # Ctrl-C; in another thread the function itself raised it
        raise function_failed(sink, function, batch, error) from error


def _may_be_asked() -> bool:
    """Whether a KeyboardInterrupt may be Ctrl-C, which the main thread alone is told."""
    return threading.current_thread() is threading.main_thread()
