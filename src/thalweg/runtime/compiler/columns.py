"""Columns by address: what a kernel reads from a chunk, and the growing buffers it writes to.

A column is a pair of addresses in an int64 array: its values, and where it may be null its validity (0 when it
has no nulls). Text, bytes, lists and records never enter a kernel: it passes on the number of the column that
a value came from, and the values are taken from there afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.records import Schema
from thalweg.runtime.chunks import Column, Int64s, numpy_dtype
from thalweg.runtime.compiler.kinds import NO_VALUE, Type, field_type


def address(array: npt.NDArray[Any]) -> int:
    """Where a contiguous array's data stands; the array must outlive the use."""
    place: int = array.__array_interface__["data"][0]
    return place


def addresses(columns: Sequence[Column], keep: list[Any]) -> list[int]:
    """Values and validity of each column; arrays made on the way are appended to ``keep``."""
    out = []
    for column in columns:
        if not column.type.fixed_width:
            out += [0, 0]
            continue
        values = np.ascontiguousarray(column.values)
        keep.append(values)
        valid = 0
        if column.valid is not None:
            mask = np.ascontiguousarray(column.valid)
            keep.append(mask)
            valid = address(mask)
        out += [address(values), valid]
    return out


def load_code(kind: Type, place: int, column: int, row: str) -> str:
    """Code of one field of a row, where ``chunk[place]`` and the next hold the column's addresses."""
    if kind.tag == "handle":
        return str(column)
    at = row if kind.size == 1 else f"{kind.size} * {row}"
    value = f"get_{kind.letter}(chunk[{place}] + {at})"
    if not kind.optional:
        return value
    return f"(chunk[{place + 1}] == 0 or get_b(chunk[{place + 1}] + {row}), {value})"


def row_code(record: Type, place: int, row: str) -> str:
    """Code of a whole row; the addresses of its columns start at ``chunk[place]``."""
    fields = (load_code(kind, place + 2 * i, i, row) for i, kind in enumerate(record.items))
    return f"{record.label}({', '.join(fields)})"


def store_code(kind: Type, place: int, value: str) -> list[str]:
    """Lines that write one output field at row ``_n``; ``_o[place]`` and the next hold the addresses."""
    at = "_n" if kind.size == 1 else f"{kind.size} * _n"
    if not kind.boxed:
        return [f"put_{kind.letter}(_o[{place}] + {at}, {value})"]
    return [
        f"put_b(_o[{place + 1}] + _n, {value}[0])",
        f"put_{kind.letter}(_o[{place}] + {at}, {value}[1])",
    ]


class Buffers:
    """The output arrays of one run: some int64 columns, then the record's fields."""

    def __init__(self, schema: Schema | None, extra: int, capacity: int) -> None:
        self.schema = schema
        self.capacity = max(capacity, 16)
        self.arrays: list[npt.NDArray[Any]] = [
            np.empty(self.capacity, np.int64) for _ in range(extra)
        ]
        self._extra = extra
        for field in schema.fields if schema else ():
            kind = field_type(field.type)
            wide = np.int64 if kind.tag == "handle" else numpy_dtype(field.type.kind)
            self.arrays.append(np.empty(self.capacity, wide))
            self.arrays.append(np.empty(self.capacity if kind.boxed else 0, np.bool_))
        self.table = np.zeros(1 + len(self.arrays), np.int64)
        self._tell()

    def _tell(self) -> None:
        self.table[0] = self.capacity
        self.table[1:] = [address(one) for one in self.arrays]

    def grow(self, needed: int, used: int) -> None:
        """Makes room for ``needed`` rows at least; the first ``used`` are kept."""
        self.capacity = max(2 * self.capacity, needed)
        for i, old in enumerate(self.arrays):
            if len(old):
                self.arrays[i] = np.empty(self.capacity, old.dtype)
                self.arrays[i][:used] = old[:used]
        self._tell()

    def extra(self, place: int, used: int) -> Int64s:
        """One of the int64 columns."""
        return self.arrays[place][:used]

    def fields(self, used: int) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]]:
        """Values and validity of each field; a field without nulls has no validity."""
        out: list[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]] = []
        for i in range(self._extra, len(self.arrays), 2):
            valid = self.arrays[i + 1][:used] if len(self.arrays[i + 1]) else None
            if valid is not None and valid.all():
                valid = None
            elif valid is not None:
                self.arrays[i][:used][~valid] = 0
            out.append((self.arrays[i][:used], valid))
        return out


def gather(handles: Int64s, rows: Int64s, columns: Sequence[Column], kind: pa.DataType) -> Any:
    """The Arrow values that handles (numbers of columns, or NO_VALUE) stand for, at these rows."""
    first = int(handles[0])
    if first != NO_VALUE and (handles == first).all():
        values = columns[first].values
        if len(rows) == len(values) and (rows == np.arange(len(rows))).all():
            return values
        return values.take(pa.array(rows))
    missing = handles == NO_VALUE
    used = np.unique(handles[~missing]).tolist()
    if not used:
        return pa.nulls(len(rows), kind)
    starts = np.zeros(max(used) + 1, np.int64)
    starts[used] = np.cumsum([0, *(len(columns[one]) for one in used[:-1])])
    joined = pa.concat_arrays([columns[one].values for one in used])
    places = starts[np.where(missing, used[0], handles)] + rows
    return joined.take(pa.array(places, mask=missing))
