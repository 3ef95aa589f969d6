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

from thalweg.columns.chunks import CATEGORIES, Column, Int64s
from thalweg.compiler.kinds import NO_VALUE, Type, field_type
from thalweg.flow.records import Schema


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


def word(table: str, place: int) -> str:
    """Code that reads an int64 of a table whose address is a variable."""
    return f"get_i({table} + {8 * place})"


def put_word(table: str, place: int, value: str) -> str:
    """A line that writes an int64 of a table."""
    return f"put_i({table} + {8 * place}, {value})"


def load_code(kind: Type, place: int, column: int, row: str) -> str:
    """Code of one field of a row, where the words ``place`` and next hold the column's addresses."""
    if kind.tag == "handle":
        return str(column)
    at = row if kind.size == 1 else f"{kind.size} * {row}"
    value = f"get_{kind.letter}({word('chunk', place)} + {at})"
    if not kind.optional:
        return value
    valid = word("chunk", place + 1)
    return f"({valid} == 0 or get_b({valid} + {row}), {value})"


def row_code(record: Type, place: int, row: str) -> str:
    """Code of a whole row; the addresses of its columns start at word ``place``."""
    fields = (load_code(kind, place + 2 * i, i, row) for i, kind in enumerate(record.items))
    return f"{record.label}({', '.join(fields)})"


def store_code(kind: Type, place: int, value: str) -> list[str]:
    """Lines that write one output field at row ``_n``; the words ``place`` and next of ``_o`` hold its addresses."""
    at = "_n" if kind.size == 1 else f"{kind.size} * _n"
    if not kind.boxed:
        return [f"put_{kind.letter}({word('_o', place)} + {at}, {value})"]
    return [
        f"put_b({word('_o', place + 1)} + _n, {value}[0])",
        f"put_{kind.letter}({word('_o', place)} + {at}, {value}[1])",
    ]


class Buffers:
    """The output columns of one run: some int64 columns, then values and validity of the record's fields.

    Two blocks of memory, one of 64-bit columns and one of bytes, so that a run costs two allocations.
    ``table`` is what a kernel sees: the capacity, then the address of each column.
    """

    def __init__(self, schema: Schema | None, extra: int, capacity: int) -> None:
        self._extra = extra
        self._kinds = [field_type(field.type) for field in schema.fields] if schema else []
        #: for each column whether it is of bytes, and its place in its block
        self.places: list[tuple[bool, int]] = [(False, i) for i in range(extra)]
        counts = [extra, 0]
        for kind in self._kinds:
            for small in (kind.size == 1, True):
                self.places.append((small, counts[small]))
                counts[small] += 1
        #: how many columns are of 8 bytes and of 1
        self.counts = counts
        self.table = np.zeros(1 + len(self.places), np.int64)
        self._allocate(max(capacity, 16))

    def _allocate(self, capacity: int) -> None:
        self.capacity = capacity
        self._wide = np.empty((self.counts[0], capacity), np.int64)
        self._small = np.empty((self.counts[1], capacity), np.bool_)
        starts = (address(self._wide), address(self._small))
        places = [starts[small] + (8 - 7 * small) * capacity * at for small, at in self.places]
        self.table[:] = [capacity, *places]

    def grow(self, needed: int, used: int) -> None:
        """Makes room for ``needed`` rows at least; the first ``used`` are kept."""
        wide, small = self._wide, self._small
        self._allocate(max(2 * self.capacity, needed))
        self._wide[:, :used] = wide[:, :used]
        self._small[:, :used] = small[:, :used]

    def append(self, used: int, extra: Sequence[int], values: Sequence[Any]) -> None:
        """Writes one more row behind ``used`` ones: the int64 columns, then the fields as values or handles."""
        if used == self.capacity:
            self.grow(used + 1, used)
        self._wide[: self._extra, used] = extra
        for i, (kind, value) in enumerate(zip(self._kinds, values, strict=True)):
            if kind.boxed:
                self._small[self.places[self._extra + 2 * i + 1][1], used] = value is not None
            small, at = self.places[self._extra + 2 * i]
            if value is None:
                value = 0
            elif kind.tag == "category":
                value = CATEGORIES.code(value)
            column = self._small[at] if small else self._wide[at]
            (column.view(np.float64) if kind.tag == "float" else column)[used] = value

    def extra(self, place: int, used: int) -> Int64s:
        """One of the int64 columns."""
        return self._wide[place, :used]

    def fields(self, used: int) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]]:
        """Values and validity of each field; a field without nulls has no validity."""
        out: list[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]] = []
        for i, kind in enumerate(self._kinds):
            small, at = self.places[self._extra + 2 * i]
            values: npt.NDArray[Any] = (self._small if small else self._wide)[at, :used]
            valid = None
            if kind.boxed:
                valid = self._small[self.places[self._extra + 2 * i + 1][1], :used]
                values[~valid] = 0
                valid = None if valid.all() else valid
            out.append((values.view(np.float64) if kind.tag == "float" else values, valid))
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
