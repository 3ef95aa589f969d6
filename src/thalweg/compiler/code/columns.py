"""Columns by address: what a kernel reads from a chunk, and the growing buffers it writes to.

A column is a pair of addresses in an int64 array: its values, and where it may be null its validity (0 when it
has no nulls). Text, bytes, lists and records that a kernel passes on never enter it: it says from which column a
value came, and the values are taken from there afterwards. Texts that it looks at it finds in the Arrow array's own
memory; those that it makes it writes as addresses and lengths, of which an Arrow array is built.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thalweg.checkpoint.state_tables.cells import HEADER_WORDS, column_of, release, words_of
from thalweg.columns.canonical import TEXT, nulls_of
from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Column, Int64s
from thalweg.columns.chunks import address as address
from thalweg.compiler.kinds import NO_VALUE, Type, field_type
from thalweg.compiler.runtime.arena import copy_texts, text_offsets
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.hashing import text_buffers


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


#: Words of a column of texts, all 0 where it is none, so that compiled code can read what does not enter it:
TEXT_WORDS: Final = 4
TEXT_ENDS: Final = 0  # address of the ends of its rows, one in front,
TEXT_WIDE: Final = 1  # 1 if these are int64, 0 if int32
TEXT_BYTES: Final = 2  # address of the bytes
TEXT_NULLS: Final = 3  # address of a byte a row, 1 where it is None; 0 where no row is
#: Words that stand behind the pairs of a chunk's columns where texts are read: two, payload, rows and texts.
TEXT_TAIL: Final = 5
_NO_NULLS: Final = np.zeros(0, np.bool_)


def text_words(column: Column, keep: list[Any]) -> tuple[int, bool, int, int]:
    """Where the texts of a column stand; arrays made on the way are appended to ``keep``."""
    ends, data = text_buffers(column.values)
    nulls = nulls_of(column) if column.values.null_count else _NO_NULLS
    keep += [ends, data, nulls]
    return address(ends), ends.itemsize == 8, address(data), address(nulls) if len(nulls) else 0


def with_texts(columns: Sequence[Column], words: Sequence[int], keep: list[Any]) -> list[int]:
    """The words of a chunk's columns, and behind them where the texts are, as in a block's words."""
    texts = np.zeros((len(columns), TEXT_WORDS), np.int64)
    made = [*words, 0, 0, 0, 0, address(texts)]
    for number, column in enumerate(columns):
        if not column.type.fixed_width:
            made[2 * number + 1] = number
        if column.type.kind in TEXT:
            texts[number] = text_words(column, keep)
    keep.append(texts)
    return made


def word(table: str, place: int) -> str:
    """Code that reads an int64 of a table whose address is a variable."""
    return f"get_i({table} + {8 * place})"


def put_word(table: str, place: int, value: str) -> str:
    """A line that writes an int64 of a table."""
    return f"put_i({table} + {8 * place}, {value})"


def load_code(kind: Type, place: int, column: int, row: str) -> str:
    """Code of one field of a row, where the words ``place`` and next hold the column's addresses."""
    if kind.is_column_text:
        return f"({column}, chunk + {8 * (place - 2 * column)}, {row})"
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


def store_codes(record: Type, first: int, values: Sequence[str]) -> list[str]:
    """Lines that write the fields of an output at row ``_n``; their addresses begin at the word ``first`` of ``_o``.

    They are those of values and validity of each field, then the lengths of each text that is made.
    """
    lines = []
    length = first + 2 * len(record.items)
    for i, (kind, value) in enumerate(zip(record.items, values, strict=True)):
        lines += _store_code(kind, first + 2 * i, value)
        if kind.tag == "text":
            text = f"{value}[1]" if kind.boxed else value
            lines.append(f"put_i({word('_o', length)} + 8 * _n, {text}[1])")
            length += 1
    return lines


def _store_code(kind: Type, place: int, value: str) -> list[str]:
    at = "_n" if kind.size == 1 else f"{kind.size} * _n"
    if kind.is_column_text:
        return [f"put_i({word('_o', place)} + {at}, {value}[0])"]
    if kind.tag == "text":
        text = f"{value}[1]" if kind.boxed else value
        lines = [f"put_i({word('_o', place)} + {at}, {text}[0])"]
        valid = [f"put_b({word('_o', place + 1)} + _n, {value}[0])"]
        return valid + lines if kind.boxed else lines
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

    def __init__(
        self,
        schema: Schema | None,
        extra: int,
        capacity: int,
        made: Collection[int] = (),
    ) -> None:
        """``made``: the fields whose texts the kernel makes; all other texts pass through."""
        self._extra = extra
        self._kinds = [field_type(field.type) for field in schema.fields] if schema else []
        for i in made:
            self._kinds[i] = Type("text", self._kinds[i].optional)
        #: of each field whose texts are made, the column of their lengths
        self._lengths: dict[int, int] = {}
        #: bytes of texts that Python made, and lists
        self._kept: list[bytes] = []
        self._kept_lists: list[tuple[FieldType, Int64s]] = []
        fields = schema.fields if schema else ()
        #: the fields whose lists are made
        self._lists = {i: fields[i].type for i in made if fields[i].type.kind is Kind.LIST}
        #: for each column whether it is of bytes, and its place in its block
        self.places: list[tuple[bool, int]] = [(False, i) for i in range(extra)]
        counts = [extra, 0]
        for kind in self._kinds:
            for small in (kind.size == 1, True):
                self.places.append((small, counts[small]))
                counts[small] += 1
        for i in sorted(made):
            self._lengths[i] = counts[0]
            self.places.append((False, counts[0]))
            counts[0] += 1
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
            if kind.tag == "text":
                is_list = i in self._lists
                value = (
                    self._list(i, used, value or [])
                    if is_list
                    else self._text(i, used, value or "")
                )
            column = self._small[at] if small else self._wide[at]
            (column.view(np.float64) if kind.tag == "float" else column)[used] = value

    def _text(self, field: int, used: int, value: str) -> int:
        """Keeps a text of a row; where its bytes stand."""
        data = value.encode()
        self._kept.append(data)
        self._wide[self._lengths[field], used] = len(data)
        return address(np.frombuffer(data, np.uint8)) if data else 0

    def text(self, field: int, used: int, optional: bool) -> Any:
        """The Arrow array of a field whose texts are made."""
        places = self._wide[self.places[self._extra + 2 * field][1]]
        lengths = self._wide[self._lengths[field]]
        mask = self._small[self.places[self._extra + 2 * field + 1][1], :used] if optional else None
        valid = 0 if mask is None or not used else address(mask)
        offsets = np.empty(used + 1, np.int32)
        size = text_offsets(address(lengths), valid, used, address(offsets))
        if size < 0:
            raise OverflowError(
                "the texts that one step puts out have more than 2 GB; give it fewer rows"
            )
        data = np.empty(size, np.uint8)
        copy_texts(address(places), address(offsets), used, address(data))
        bits = None
        if mask is not None and not mask.all():
            bits = pa.array(mask).buffers()[1]
        buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), used, buffers)

    def made(self, field: int, used: int, kind: FieldType) -> Any:
        """The Arrow array of a field whose texts, or lists, are made."""
        if kind.kind is not Kind.LIST:
            return self.text(field, used, kind.optional)
        counts = self._wide[self._lengths[field], :used].copy()
        mask = None
        if kind.optional:
            mask = self._small[self.places[self._extra + 2 * field + 1][1], :used]
            counts[~mask] = 0
        headers = np.zeros((used, HEADER_WORDS), np.int64)
        headers[:, 0] = self._wide[self.places[self._extra + 2 * field][1], :used]
        headers[:, 1] = headers[:, 3] = counts
        lists = column_of(kind, headers).values
        if mask is None or mask.all():
            return lists
        return lists.take(pa.array(np.arange(used), mask=~mask))

    def _list(self, field: int, used: int, value: list[Any]) -> int:
        """Keeps a list of a row that Python made; where its items stand."""
        kind = dataclasses.replace(self._lists[field], optional=False)
        words = words_of(kind, Column.from_python(kind, [value]))
        self._kept_lists.append((kind, words))
        self._wide[self._lengths[field], used] = words[0, 3]
        return int(words[0, 0])

    def __del__(self) -> None:
        if not sys.is_finalizing():
            for kind, words in vars(self).get("_kept_lists", ()):
                release(kind, words)

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
            if kind.boxed and kind.tag != "text":
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
