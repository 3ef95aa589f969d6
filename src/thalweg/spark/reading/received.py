"""What a task finds in its partition of the tagged frame, as chunks of each source in arrival order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.checkpoint.paths import resolve
from thalweg.connectors import Fed, Feed, never
from thalweg.connectors.files import file_chunks
from thalweg.connectors.fitting import part_chunk
from thalweg.connectors.readers import ReadOptions, rows_from_table
from thalweg.connectors.readers.steady import Look
from thalweg.embedded.read_ahead import read_ahead
from thalweg.engine.machine import usable_processors
from thalweg.flow.operators.nodes import Source
from thalweg.spark.reading.arrival import Places, arrival_order
from thalweg.spark.reading.inputs import CONTROL, CONTROL_SOURCE, SOURCE, InputOptions
from thalweg.spark.reading.log_stream import span_chunks

#: So much of a batch is worth a thread that decodes it beside the operators.
_MUCH_BYTES: Final = 1 << 20


@dataclasses.dataclass(slots=True)
class Received:
    """What a task found in its partition: rows by source, paths by source, control commands."""

    frames: dict[int, list[pa.Table]] = dataclasses.field(default_factory=dict)
    commands: list[dict[str, Any]] = dataclasses.field(default_factory=list)


def receive(batches: Iterator[pa.RecordBatch], sources: int) -> Received:
    """Sorts the rows of the tagged frame by source."""
    out = Received()
    for batch in batches:
        tags = batch.column(SOURCE)
        for place in range(sources):
            mask = pc.equal(tags, place)
            if pc.any(mask).as_py():
                structs = batch.column(f"s{place}").filter(mask)
                table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])
                out.frames.setdefault(place, []).append(table)
        for text in batch.column(CONTROL).filter(pc.equal(tags, CONTROL_SOURCE)).to_pylist():
            if text.strip():
                out.commands.append(orjson.loads(text))
    return out


def source_chunks(
    source: Source,
    options: InputOptions,
    tables: list[pa.Table],
    chunk_rows: int,
    last: Places | None = None,
) -> Iterator[Fed]:
    """The rows of one source of a batch in arrival order, as chunks with the rows that do not fit.

    Args:
        last: the last places in the order of arrival, see :func:`thalweg.spark.reading.arrival.arrival_order`.
    """
    if options.read is not None:
        paths = pa.concat_tables(tables)
        feed = _file_chunks(source, options.read, paths, chunk_rows)
        much = pc.sum(paths["length"]).as_py() >= _MUCH_BYTES and usable_processors() > 1
        yield from read_ahead(source.name, feed, chunk_rows, never()) if much else feed
        return
    if options.log is not None:
        feed = span_chunks(source, options.log, pa.concat_tables(tables), chunk_rows)
        yield from read_ahead(source.name, feed, chunk_rows, never())
        return
    table = arrival_order(source, pa.concat_tables(tables), last)
    record = source.record.read_as(source.record.reading.inner)  # the frame was renamed
    for start in range(0, table.num_rows, chunk_rows):
        part = rows_from_table(table.slice(start, chunk_rows), record, start)
        yield part_chunk(source, part, place=lambda one: f"row {one.position} of the batch")


def _file_chunks(source: Source, options: ReadOptions, paths: pa.Table, chunk_rows: int) -> Feed:
    order = pc.sort_indices(paths, [("mtime", "ascending"), ("path", "ascending")])
    for one in paths.take(order).to_pylist():
        fs, inner = resolve(one["path"])
        # Its time is not compared: the file systems of Spark and of Arrow round it differently.
        yield from file_chunks(source, fs, inner, options, chunk_rows, listed=Look(one["length"]))
