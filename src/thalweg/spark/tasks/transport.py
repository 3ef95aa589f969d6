"""Chunks between tasks and the driver: one Spark row a chunk, not a tuple.

Between stages, and to the sinks, chunks travel as Arrow IPC bytes in a binary column. A shuffle then moves
blocks, not rows; the schema of the frame is the same for every flow; and a chunk keeps its order inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from thalweg.columns.chunks import CATEGORIES, Chunk, Column, Int64s
from thalweg.columns.ordering import empty_order
from thalweg.flow.field_types import Kind
from thalweg.flow.records import Schema
from thalweg.plan.plan import KEY

#: A blob holds at most about so many bytes. On its way it is copied a dozen times, here and in the JVM: what fits a
#: processor's cache, and buffers that are used again, cost less than fresh memory; smaller ones cost more calls.
BLOB_BYTES: Final = 1 << 20

#: Blobs cross the JVM four times on their way to another slot; what is not sent need not be copied.
_LZ4: Final = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_PLAIN: Final = ipc.IpcWriteOptions(compression=None, use_threads=False)
_CODEC: Final = pa.Codec("lz4")
#: LZ4 looks back so far; of larger columns so much is tried.
_SAMPLE_BYTES: Final = 64 << 10
#: Less is not worth unpacking.
_WORTH: Final = 0.9
#: Arrow's readers want numbers at multiples of so many bytes.
_ALIGNED: Final = 8

#: The frame between stages. ``stage`` is where the blob is read, ``slot`` the slot that reads it. As a type, since the
#: JVM would be asked what a text means.
FRAME: Final = StructType(
    [
        StructField("stage", IntegerType()),
        StructField("slot", IntegerType()),
        StructField("kind", StringType()),
        StructField("node", IntegerType()),
        StructField("port", IntegerType()),
        StructField("phase", IntegerType()),
        StructField("data", BinaryType()),
    ]
)
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
    return Blob(DRIVER, slot, "report", stage, 0, 0, to_json(content))


def to_json(content: Any) -> bytes:
    """Plain values as JSON, with spaces behind it so that the blobs that follow it in a column are aligned."""
    data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
    return data.ljust(-(-len(data) // _ALIGNED) * _ALIGNED)


def encode(chunk: Chunk, order: Sequence[str]) -> pa.Buffer:
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
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=_LZ4 if _shrinks(arrays) else _PLAIN) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _shrinks(arrays: Sequence[pa.Array]) -> bool:
    """Whether LZ4 is likely to make the arrays smaller; what it does to a sample of the largest tells."""
    sizes = [array.nbytes for array in arrays]
    largest = max(sizes, default=0)
    if largest < max(2 * _SAMPLE_BYTES, sum(sizes) / 2):
        return True
    data = arrays[sizes.index(largest)].buffers()[-1]
    if data is None or data.size < _SAMPLE_BYTES:
        return True
    sample = data.slice((data.size - _SAMPLE_BYTES) // 2, _SAMPLE_BYTES)
    return bool(_CODEC.compress(sample).size < _WORTH * _SAMPLE_BYTES)


def _wire(column: Column) -> pa.Array:
    if column.type.kind is not Kind.CATEGORY:
        return column.to_arrow()
    if column.valid is None:
        return CATEGORIES.decode_dictionary(column.values)
    return column.to_arrow().dictionary_encode()


def decode(data: bytes | pa.Buffer, schema: Schema, order: Sequence[str]) -> Chunk:
    """The chunk of :func:`encode`; its columns may be views of ``data``."""
    batch = ipc.open_stream(_aligned(data)).read_next_batch()
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


def _aligned(data: bytes | pa.Buffer) -> pa.Buffer:
    buffer = pa.py_buffer(data)
    if buffer.address % _ALIGNED == 0:
        return buffer
    copy = pa.allocate_buffer(buffer.size)
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(buffer, np.uint8)
    return copy


def pieces(chunk: Chunk) -> Iterator[Chunk]:
    """The chunk in pieces whose blobs are not too large."""
    rows = _rows(chunk)
    for start in range(0, len(chunk), rows):
        yield chunk.slice(start, min(start + rows, len(chunk)))


def taken(chunk: Chunk, places: Int64s) -> Iterator[Chunk]:
    """The rows of a chunk at these places, which ascend, in such pieces; copied a piece at a time."""
    if len(places) == len(chunk):
        yield from pieces(chunk)
        return
    rows = _rows(chunk)
    for start in range(0, len(places), rows):
        # Rows of one place may be larger than those of others.
        yield from pieces(chunk.take(places[start : start + rows]))


def _rows(chunk: Chunk) -> int:
    """How many rows of the chunk a blob takes, at least one."""
    size = sum(_nbytes(column) for column in chunk.columns) + 8 * len(chunk.order) * len(chunk)
    count = max(1, -(-size // BLOB_BYTES))
    return max(1, -(-len(chunk) // count))


def _nbytes(column: Column) -> int:
    return int(column.values.nbytes)
