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

from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Chunk, Column, Int64s
from thalweg.columns.ordering import empty_order
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.plan.plan import KEY, TIME
from thalweg.spark.tasks.numbers import narrowed, widened

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

#: Of a field: how its numbers were made narrow.
_FORM: Final = b"form"
#: Of a blob: the field that is each row's time too.
_TIME_FIELD: Final = b"time"
_WHOLE: Final = (Kind.INT, Kind.TIMESTAMP, Kind.TIMER)
#: So many texts have numbers of one byte.
_FEW_TEXTS: Final = 128

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


def encode(chunk: Chunk, order: Sequence[str], *, packed: bool = True) -> pa.Buffer:
    """A chunk with these order columns as an Arrow IPC stream; categories as dictionaries of their texts.

    Order columns of zeros, such as the level of rows, are left out, and so is the time where a field has it. Between
    stages, where there are order columns, whole numbers go in as few bytes as they need; sinks take them as they are.

    Args:
        chunk: the rows.
        order: the order columns that go with them.
        packed: whether fewer bytes are worth the time; between two processes of one machine they are not.
    """
    narrow = packed and bool(order)
    wires = [
        _wire(field.name, column, narrow=narrow)
        for field, column in zip(chunk.schema.fields, chunk.columns, strict=True)
    ]
    facts = {}
    for name in order:
        values = chunk.order[name]
        if isinstance(values, pa.Array):
            if values.nbytes and pc.max(pc.binary_length(values)).as_py():
                wires.append(_Wire(pa.field(name, values.type), values))
        elif name == TIME and (place := _time_field(chunk, values)) is not None:
            facts[_TIME_FIELD] = str(place)
        elif values.any():
            wires.append(_numbers(name, values) if narrow else _plain(name, values))
    schema = pa.schema([one.field for one in wires], metadata=facts)
    batch = pa.RecordBatch.from_arrays([one.array for one in wires], schema=schema)
    sink = pa.BufferOutputStream()
    rest = [one.array for one in wires if not one.narrow]
    worth = packed and 4 * sum(array.nbytes for array in rest) >= batch.nbytes
    shrinks = worth and _shrinks(rest)
    with ipc.new_stream(sink, schema, options=_LZ4 if shrinks else _PLAIN) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


class _Wire(NamedTuple):
    """A column on its way."""

    field: pa.Field
    array: pa.Array
    #: in few bytes already
    narrow: bool = False


def _time_field(chunk: Chunk, times: Int64s) -> int | None:
    """The field that has each row's time."""
    for place, column in enumerate(chunk.columns):
        if column.type.kind is Kind.TIMESTAMP and column.valid is None:
            values = column.values
            if len(values) and values[-1] == times[-1] and np.array_equal(values, times):
                return place
    return None


def _plain(name: str, values: Int64s) -> _Wire:
    array = pa.array(values)
    return _Wire(pa.field(name, array.type), array)


def _numbers(name: str, values: Int64s) -> _Wire:
    found = narrowed(values)
    if found is None:
        return _plain(name, values)
    array = pa.array(found.values)
    return _Wire(pa.field(name, array.type, metadata={_FORM: found.form}), array, narrow=True)


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


def _wire(name: str, column: Column, *, narrow: bool) -> _Wire:
    kind = column.type.kind
    if kind is Kind.CATEGORY:
        return _texts(name, column, narrow=narrow)
    if narrow and kind in _WHOLE and column.valid is None:
        return _numbers(name, column.values)
    array = column.to_arrow()
    return _Wire(pa.field(name, array.type), array)


def _texts(name: str, column: Column, *, narrow: bool) -> _Wire:
    if column.valid is None:
        coded = CATEGORIES.decode_dictionary(column.values)
    else:
        coded = column.to_arrow().dictionary_encode()
    narrow = narrow and len(coded.dictionary) <= _FEW_TEXTS
    if narrow:
        coded = pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int8()), coded.dictionary)
    return _Wire(pa.field(name, coded.type), coded, narrow)


def decode(data: bytes | pa.Buffer, schema: Schema, order: Sequence[str]) -> Chunk:
    """The chunk of :func:`encode`; its columns may be views of ``data``."""
    batch = ipc.open_stream(_aligned(data)).read_next_batch()
    columns = [_column(field.type, batch, place) for place, field in enumerate(schema.fields)]
    hidden = {
        name: batch.column(place) if name == KEY else _values(batch, place)
        for place, name in enumerate(batch.schema.names)
        if place >= len(schema.fields)
    }
    if (place := (batch.schema.metadata or {}).get(_TIME_FIELD)) is not None:
        hidden[TIME] = columns[int(place)].values
    missing = [name for name in order if name not in hidden]
    hidden |= empty_order(missing, batch.num_rows)
    return Chunk(schema, columns, batch.num_rows, {name: hidden[name] for name in order})


def _column(kind: FieldType, batch: pa.RecordBatch, place: int) -> Column:
    if _form(batch, place) is None:
        return Column.from_arrow(kind, batch.column(place))
    return Column(kind, _values(batch, place))


def _values(batch: pa.RecordBatch, place: int) -> Int64s:
    values, form = batch.column(place).to_numpy(zero_copy_only=False), _form(batch, place)
    return values if form is None else widened(values, form)


def _form(batch: pa.RecordBatch, place: int) -> str | None:
    found = (batch.schema.field(place).metadata or {}).get(_FORM)
    return None if found is None else found.decode()


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
