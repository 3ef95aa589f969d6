"""Chunks: an ordered batch of tuples as columns, the unit that moves between operators.

Fixed-width fields are NumPy arrays that compiled kernels index directly; everything else (text, bytes,
lists, nested records) is an Arrow array that rides along and is gathered late. A
Category travels as the 64-bit stable hash of its text (:mod:`thalweg.columns.categories`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.categories import CATEGORIES
from thalweg.columns.nested import nested_values, unnested
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NUMPY: Final = {
    Kind.INT: np.dtype(np.int64),
    Kind.FLOAT: np.dtype(np.float64),
    Kind.BOOL: np.dtype(np.bool_),
    Kind.TIMESTAMP: np.dtype(np.int64),
    Kind.CATEGORY: np.dtype(np.int64),
    Kind.TIMER: np.dtype(np.int64),
}


#: Bytes values of more than so many bytes on average are put together at once.
_LONG_BYTES: Final = 256
#: An array of bytes holds at most so many.
_MOST_BYTES: Final = 2**31 - 1
#: About so many bytes of a chunk become Python objects at a time.
_WINDOW_BYTES: Final = 1 << 20
#: And at most so many rows.
_WINDOW_ROWS: Final = 4096
#: So many records are there at a time: Python's collector starts at some hundred new ones, and looks at all that live.
_BLOCK_ROWS: Final = 256


def numpy_dtype(kind: Kind) -> np.dtype[Any]:
    """The array type of a fixed-width kind."""
    return _NUMPY[kind]


def address(array: npt.NDArray[Any]) -> int:
    """Where a contiguous array's data stands; the array must outlive the use."""
    place: int = array.__array_interface__["data"][0]
    return place


@dataclasses.dataclass(slots=True)
class Column:
    """One field of a chunk.

    ``values`` is a NumPy array for fixed-width kinds and an Arrow array otherwise. ``valid`` is a bool
    array for an Optional fixed-width field that has nulls (their value is 0), else None; an Arrow array
    keeps its own nulls.
    """

    type: FieldType
    values: Any
    valid: Bools | None = None

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def from_arrow(cls, kind: FieldType, array: pa.Array | pa.ChunkedArray) -> Column:
        """A column from an Arrow array of the field's Arrow type (or of one that casts to it safely)."""
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], kind.arrow)
        if not kind.fixed_width:
            return cls(kind, array if array.type == kind.arrow else array.cast(kind.arrow))
        valid = None
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
        if kind.kind is Kind.CATEGORY:
            return cls(kind, CATEGORIES.encode(array), valid)
        if array.type != kind.arrow:
            array = array.cast(kind.arrow)
        if kind.shape is not None:
            array = kind.shape.words(array)
        elif kind.kind is Kind.TIMESTAMP:
            array = array.view(pa.int64())
        if valid is not None:
            zero: Any = False if kind.kind is Kind.BOOL else 0
            array = array.fill_null(zero)
        return cls(kind, array.to_numpy(zero_copy_only=False), valid)

    @classmethod
    def from_python(cls, kind: FieldType, values: Sequence[Any]) -> Column:
        """A column from Python values, already coerced."""
        if kind.shape is not None and kind.fixed_width:
            return cls.from_arrow(kind, kind.shape.array(pa.array(values, pa.int64())))
        if kind.kind is Kind.TIMESTAMP:
            return cls.from_arrow(kind, pa.array(values, pa.int64()).view(kind.arrow))
        if kind.kind in (Kind.LIST, Kind.RECORD):
            return cls(kind, pa.array(unnested(kind, values), kind.arrow))
        if kind.kind is Kind.BYTES:
            return cls(kind, _bytes_array(values))
        return cls.from_arrow(kind, pa.array(values, kind.arrow))

    def to_arrow(self) -> pa.Array:
        """The column as an Arrow array of the field's Arrow type."""
        if not self.type.fixed_width:
            return self.values
        mask = None if self.valid is None else ~self.valid
        if self.type.kind is Kind.CATEGORY:
            texts = CATEGORIES.decode(self.values)
            return (
                texts
                if mask is None
                else pc.if_else(pa.array(~mask), texts, pa.scalar(None, pa.string()))
            )
        array = pa.array(self.values, mask=mask)
        if self.type.shape is not None:
            return self.type.shape.array(array)
        return array.view(self.type.arrow) if self.type.kind is Kind.TIMESTAMP else array

    def to_python(self) -> list[Any]:
        """The values as the user's functions see them."""
        if not self.type.fixed_width:
            return nested_values(self.type, self.values)
        if self.type.kind is Kind.CATEGORY:
            out: list[Any] = self.to_arrow().to_pylist()
            return out
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]

    def take(self, rows: Int64s) -> Column:
        """The column's rows at these places."""
        if not self.type.fixed_width:
            return Column(self.type, self.values.take(pa.array(rows)))
        return Column(
            self.type, self.values[rows], None if self.valid is None else self.valid[rows]
        )

    def slice(self, start: int, stop: int) -> Column:
        """Rows start to stop, without copying."""
        if not self.type.fixed_width:
            return Column(self.type, self.values.slice(start, stop - start))
        return Column(
            self.type,
            self.values[start:stop],
            None if self.valid is None else self.valid[start:stop],
        )

    @classmethod
    def concat(cls, parts: Sequence[Column]) -> Column:
        """The rows of all parts, in order; at least one part."""
        kind = parts[0].type
        if not kind.fixed_width:
            return cls(kind, pa.concat_arrays([one.values for one in parts]))
        values = np.concatenate([one.values for one in parts])
        if all(one.valid is None for one in parts):
            return cls(kind, values)
        valid = [np.ones(len(p), np.bool_) if p.valid is None else p.valid for p in parts]
        return cls(kind, values, np.concatenate(valid))


def _bytes_array(values: Sequence[Any]) -> pa.Array:
    """Bytes as an array; long ones in memory of their size, not in memory that grows while it is filled."""
    sizes = [0 if one is None else len(one) for one in values]
    size = sum(sizes)
    if size < _LONG_BYTES * len(sizes) or size > _MOST_BYTES or None in values:
        return pa.array(values, pa.binary())
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    data = pa.allocate_buffer(size)
    room, at = memoryview(data).cast("B"), 0
    for value, length in zip(values, sizes, strict=True):
        room[at : at + length] = value
        at += length
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(ends), data])


@dataclasses.dataclass(slots=True)
class Chunk:
    """An ordered batch of tuples of one stream: a column a field, and the hidden order columns.

    ``order`` maps the name of a hidden column (see :mod:`thalweg.plan.plan`) to an int64 array or, for
    the keys of timers, an Arrow binary array; all of the chunk's length. The rows stand in stream order.
    """

    schema: Schema
    columns: list[Column]
    length: int
    order: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        """Bytes of the values, hidden ones included."""
        values = [*(one.values for one in self.columns), *self.order.values()]
        return sum(one.nbytes for one in values)

    @classmethod
    def empty(cls, schema: Schema, order: Iterable[str] = ()) -> Chunk:
        """No rows, with these order columns."""
        columns = [Column(f.type, _no_values(f.type)) for f in schema.fields]
        hidden = {n: _empty_order(n) for n in order}
        return cls(schema, columns, 0, hidden)

    @classmethod
    def from_arrow(cls, schema: Schema, table: pa.Table | pa.RecordBatch) -> Chunk:
        """A chunk from a table that has the record's columns, by name."""
        columns = [Column.from_arrow(f.type, table.column(f.name)) for f in schema.fields]
        return cls(schema, columns, table.num_rows)

    @classmethod
    def from_rows(cls, schema: Schema, rows: Sequence[tuple[Any, ...]]) -> Chunk:
        """A chunk from records, already coerced."""
        if not rows:
            return cls.empty(schema)
        columns = [
            Column.from_python(field.type, list(map(operator.itemgetter(place), rows)))
            for place, field in enumerate(schema.fields)
        ]
        return cls(schema, columns, len(rows))

    def to_arrow(self) -> pa.RecordBatch:
        """The fields (without the order columns) as a record batch of the schema's Arrow form."""
        return pa.RecordBatch.from_arrays(
            [c.to_arrow() for c in self.columns], schema=self.schema.arrow
        )

    def each_row(self) -> Iterator[Any]:
        """The tuples as of :meth:`rows`, made one at a time; of their values, some rows' are there at once."""
        return itertools.chain.from_iterable(map(Chunk._made, self._windows()))

    def row_blocks(self) -> Iterator[list[Any]]:
        """The tuples as of :meth:`rows`, a few hundred at a time."""
        rows = self.each_row()
        while block := list(itertools.islice(rows, _BLOCK_ROWS)):
            yield block

    def rows(self) -> list[Any]:
        """The tuples as instances of the user's record class."""
        return list(self._made())

    def _windows(self) -> Iterator[Chunk]:
        """The chunk in pieces whose values are not large, without its order columns."""
        size = sum(one.values.nbytes for one in self.columns)
        count = max(1, min(self.length, size // _WINDOW_BYTES))
        step = min(-(-self.length // count), _WINDOW_ROWS)
        bare = Chunk(self.schema, self.columns, self.length)
        for start in range(0, self.length, max(step, 1)):
            yield bare.slice(start, min(start + step, self.length))

    def _made(self) -> Iterator[Any]:
        if not self.schema.fields:
            return (self.schema.make(()) for _ in range(self.length))
        values = zip(*[c.to_python() for c in self.columns], strict=True)
        return map(tuple.__new__, itertools.repeat(self.schema.cls), values)

    def column(self, name: str) -> Column:
        return self.columns[self.schema.index(name)]

    def take(self, rows: Int64s) -> Chunk:
        """The rows at these places, order columns included."""
        return Chunk(
            self.schema,
            [column.take(rows) for column in self.columns],
            len(rows),
            {name: take_order(values, rows) for name, values in self.order.items()},
        )

    def slice(self, start: int, stop: int) -> Chunk:
        """Rows start to stop, without copying."""
        return Chunk(
            self.schema,
            [column.slice(start, stop) for column in self.columns],
            stop - start,
            {name: slice_order(values, start, stop) for name, values in self.order.items()},
        )

    @classmethod
    def concat(cls, parts: Sequence[Chunk]) -> Chunk:
        """The rows of all parts in order; at least one part, all with the same order columns."""
        if len(parts) == 1:
            return parts[0]
        columns = [Column.concat(group) for group in zip(*[p.columns for p in parts], strict=True)]
        order = {name: concat_order([p.order[name] for p in parts]) for name in parts[0].order}
        return cls(parts[0].schema, columns, sum(p.length for p in parts), order)


#: The order column that holds the keys of timers, as bytes that sort like the keys.
KEY_ORDER: Final = "_key"


@functools.lru_cache(maxsize=256)
def _no_values(kind: FieldType) -> Any:
    """What a column without rows has; nobody can write to it."""
    return Column.from_arrow(kind, pa.array([], kind.arrow)).values


def _empty_order(name: str) -> Any:
    return pa.array([], pa.binary()) if name == KEY_ORDER else np.zeros(0, np.int64)


def take_order(values: Any, rows: Int64s) -> Any:
    """An order column at these rows."""
    if not isinstance(values, pa.Array):
        return values[rows]
    if len(rows) <= len(values) and _all_empty(values):
        return values.slice(0, len(rows))
    return values.take(pa.array(rows))


def _all_empty(keys: pa.Array) -> bool:
    """Whether no row is a timer's, as in front of the first keyed operator."""
    data = keys.buffers()[2]
    return keys.null_count == 0 and (data is None or data.size == 0)


def slice_order(values: Any, start: int, stop: int) -> Any:
    """Rows start to stop of an order column."""
    return values.slice(start, stop - start) if isinstance(values, pa.Array) else values[start:stop]


def concat_order(parts: Sequence[Any]) -> Any:
    """Order columns one after the other."""
    return pa.concat_arrays(parts) if isinstance(parts[0], pa.Array) else np.concatenate(parts)
