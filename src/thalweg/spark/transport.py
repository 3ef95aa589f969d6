"""Chunks between tasks and the driver: one Spark row a chunk, not a tuple.

Between stages, and to the sinks, chunks travel as Arrow IPC bytes in a binary column. A shuffle then moves
blocks, not rows; the schema of the frame is the same for every flow; and a chunk keeps its order inside.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from thalweg.plan import KEY
from thalweg.records import Kind, Schema
from thalweg.runtime.chunks import CATEGORIES, Chunk, Column
from thalweg.runtime.ordering import empty_order

#: A blob holds at most about so many bytes, well under Spark's limit of an Arrow batch.
BLOB_BYTES: Final = 8 << 20

#: Blobs cross the JVM four times on their way to another slot; what is not sent need not be copied.
_OPTIONS: Final = ipc.IpcWriteOptions(compression="lz4", use_threads=False)

#: The frame between stages. ``stage`` is where the blob is read, ``slot`` the slot that reads it.
FRAME: Final = "stage int, slot int, kind string, node int, port int, phase int, data binary"
_ARROW: Final = pa.schema(
    [
        pa.field("stage", pa.int32()),
        pa.field("slot", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("node", pa.int32()),
        pa.field("port", pa.int32()),
        pa.field("phase", pa.int32()),
        pa.field("data", pa.binary()),
    ]
)


class Blob(NamedTuple):
    """One row of the frame. Kinds: ``chunk`` (rows for an edge), ``clock`` (phases), ``sink`` (rows of a
    sink, without order columns), ``report`` (what a task says to the driver)."""

    stage: int
    slot: int
    kind: str
    node: int
    port: int
    phase: int
    data: bytes | pa.Buffer


#: The stage of what only the driver reads.
DRIVER: Final = 1_000_000


def to_batches(blobs: Iterator[Blob]) -> Iterator[pa.RecordBatch]:
    """Blobs as record batches of the frame, a batch a blob so that nothing waits."""
    for blob in blobs:
        arrays = [
            pa.array([value], field.type) for value, field in zip(blob[:-1], _ARROW, strict=False)
        ]
        ends = pa.array([0, len(memoryview(blob.data))], pa.int32()).buffers()[1]
        arrays.append(pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(blob.data)]))
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def from_batch(batch: pa.RecordBatch) -> Iterator[Blob]:
    """The blobs of a record batch of the frame."""
    columns = [column.to_pylist() for column in batch.columns[:-1]]
    data = batch.column(batch.num_columns - 1)
    for i, row in enumerate(zip(*columns, strict=True)):
        stage, slot, kind, node, port, phase = row
        held = data[i].as_buffer()
        yield Blob(stage, slot, kind, node, port, phase, b"" if held is None else held)


def report(stage: int, slot: int, content: Any) -> Blob:
    """A message to the driver, plain JSON values."""
    data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    return Blob(DRIVER, slot, "report", stage, 0, 0, data)


def encode(chunk: Chunk, order: Sequence[str]) -> bytes:
    """A chunk with these order columns as an Arrow IPC stream; categories as dictionaries of their texts.

    Order columns of zeros, such as the level of rows, are left out.
    """
    arrays = [_wire(column) for column in chunk.columns]
    names = list(chunk.schema.names)
    for name in order:
        values = chunk.order[name]
        if isinstance(values, pa.Array):
            if not values.nbytes or not pc.max(pc.binary_length(values)).as_py():
                continue
        elif not values.any():
            continue
        arrays.append(values if isinstance(values, pa.Array) else pa.array(values))
        names.append(name)
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    sink = io.BytesIO()
    with ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _wire(column: Column) -> pa.Array:
    if column.type.kind is not Kind.CATEGORY:
        return column.to_arrow()
    if column.valid is None:
        return CATEGORIES.decode_dictionary(column.values)
    return column.to_arrow().dictionary_encode()


def decode(data: bytes | pa.Buffer, schema: Schema, order: Sequence[str]) -> Chunk:
    """The chunk of :func:`encode`."""
    batch = ipc.open_stream(data).read_next_batch()
    columns = [
        Column.from_arrow(field.type, batch.column(i)) for i, field in enumerate(schema.fields)
    ]
    sent = batch.schema.names[len(schema.fields) :]
    hidden = empty_order([name for name in order if name not in sent], batch.num_rows)
    for place, name in enumerate(sent, len(schema.fields)):
        values = batch.column(place)
        hidden[name] = values if name == KEY else values.to_numpy(zero_copy_only=False)
    hidden = {name: hidden[name] for name in order}
    return Chunk(schema, columns, batch.num_rows, hidden)


def pieces(chunk: Chunk) -> Iterator[Chunk]:
    """The chunk in pieces whose blobs are not too large."""
    size = sum(_nbytes(column) for column in chunk.columns) + 8 * len(chunk.order) * len(chunk)
    count = max(1, -(-size // BLOB_BYTES))
    rows = max(1, -(-len(chunk) // count))
    for start in range(0, len(chunk), rows):
        yield chunk.slice(start, min(start + rows, len(chunk)))


def _nbytes(column: Column) -> int:
    return int(column.values.nbytes)
