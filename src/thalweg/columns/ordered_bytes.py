"""Keys as bytes that sort like the keys: comparing them byte by byte orders keys as the stream does.

Null comes first, then numbers, NaN last, text by its UTF-8 bytes. Field after field: an Optional field starts with 00
(null, nothing follows) or 01; an int or a float is 8 bytes, big endian, changed so that unsigned order is the order of
the values; a bool is one byte; text has each 00 written as 00 FF and ends with 00 00.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.brief import counted
from thalweg.columns.canonical import TEXT, bits_of, flip, nulls_of, values_of
from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Bools, Column, Int64s
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Field
from thalweg.hashing import Bytes, UInt64s, text_buffers
from thalweg.jit import njit

_SIGN: Final = np.uint64(1 << 63)


def encode(columns: Sequence[Column], size: int) -> pa.BinaryArray:
    """The keys of so many rows, a column a field; none is null."""
    parts = [_part(column) for column in columns]
    sizes = np.zeros(size, np.int64)
    for part in parts:
        _add_sizes(part, sizes)
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for part in parts:
        if part.text is None:
            _put_words(part.words, part.nulls, part.optional, part.width, at, out)
        else:
            _put_texts(*part.text, part.nulls, part.optional, at, out)
    return binary_array(pa.binary(), offsets, out)


def decode(fields: Sequence[Field], offsets: Int64s, data: Bytes) -> list[Column]:
    """The columns of keys: key i is ``data[offsets[i]:offsets[i + 1]]``."""
    at = offsets[:-1].copy()
    return [_take_field(field, data, at) for field in fields]


def binary_array(kind: pa.DataType, offsets: Int64s, data: Bytes) -> pa.Array:
    """Texts or bytes from their offsets and data.

    Raises:
        OverflowError: they take more than 2 GiB.
    """
    if len(data) >= 2**31:
        raise OverflowError(
            f"{counted(len(offsets) - 1, 'key')} take {len(data)} bytes; at most 2 GiB fit"
        )
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


class _ByteColumn(NamedTuple):
    """A column ready to be written: words of ``width`` bytes, or text."""

    nulls: Bools
    optional: bool
    width: int
    words: UInt64s
    text: tuple[Any, Bytes] | None


_NO_WORDS: Final = np.zeros(0, np.uint64)


def _part(column: Column) -> _ByteColumn:
    kind, nulls = column.type.kind, nulls_of(column)
    if kind in TEXT or kind is Kind.CATEGORY:
        texts = column.values if kind in TEXT else CATEGORIES.decode(column.values)
        return _ByteColumn(nulls, column.type.optional, 0, _NO_WORDS, text_buffers(texts))
    words = bits_of(column)
    if kind is Kind.BOOL:
        return _ByteColumn(nulls, column.type.optional, 1, words.view(np.uint64), None)
    words = flip(words) if kind is Kind.FLOAT else words
    return _ByteColumn(nulls, column.type.optional, 8, words.view(np.uint64) ^ _SIGN, None)


def _add_sizes(part: _ByteColumn, sizes: Int64s) -> None:
    if part.text is not None:
        _add_text_sizes(*part.text, part.nulls, sizes)
    elif part.optional:
        sizes += part.width * ~part.nulls
    else:
        sizes += part.width
    if part.optional:
        sizes += 1


def _take_field(field: Field, data: Bytes, at: Int64s) -> Column:
    """Reads one field of every key, moving ``at`` past it."""
    kind, size = field.type.kind, len(at)
    nulls = np.zeros(size, np.bool_)
    if kind in TEXT or kind is Kind.CATEGORY:
        offsets = np.zeros(size + 1, np.int64)
        _text_offsets(data, at, field.type.optional, nulls, offsets)
        content = np.empty(int(offsets[-1]), np.uint8)
        _get_texts(data, at, field.type.optional, nulls, offsets, content)
        texts = binary_array(field.type.arrow, offsets, content)
        if nulls.any():
            texts = pc.if_else(pa.array(nulls), pa.scalar(None, texts.type), texts)
        return Column.from_arrow(field.type, texts)
    words = np.zeros(size, np.uint64)
    _get_words(data, at, field.type.optional, 1 if kind is Kind.BOOL else 8, nulls, words)
    bits = (words if kind is Kind.BOOL else words ^ _SIGN).view(np.int64)
    bits = flip(bits) if kind is Kind.FLOAT else bits
    bits[nulls] = 0
    return Column(field.type, values_of(kind, bits), ~nulls if nulls.any() else None)


@njit
def _put_words(
    words: UInt64s, nulls: Bools, optional: bool, width: int, at: Int64s, out: Bytes
) -> None:
    for i in range(len(at)):
        p = at[i]
        if optional:
            out[p] = 0 if nulls[i] else 1
            p += 1
        if not (optional and nulls[i]):
            for k in range(width):
                out[p + k] = (words[i] >> np.uint64(8 * (width - 1 - k))) & np.uint64(255)
            p += width
        at[i] = p


@njit
def _get_words(
    data: Bytes, at: Int64s, optional: bool, width: int, nulls: Bools, words: UInt64s
) -> None:
    for i in range(len(at)):
        p = at[i]
        if optional:
            nulls[i] = data[p] == 0
            p += 1
        if not nulls[i]:
            word = np.uint64(0)
            for k in range(width):
                word = (word << np.uint64(8)) | np.uint64(data[p + k])
            words[i] = word
            p += width
        at[i] = p


@njit
def _add_text_sizes(offsets: Any, data: Bytes, nulls: Bools, sizes: Int64s) -> None:
    for i in range(len(sizes)):
        if not nulls[i]:
            size = np.int64(offsets[i + 1]) - np.int64(offsets[i]) + 2
            for p in range(offsets[i], offsets[i + 1]):
                size += data[p] == 0
            sizes[i] += size


@njit
def _put_texts(
    offsets: Any, data: Bytes, nulls: Bools, optional: bool, at: Int64s, out: Bytes
) -> None:
    for i in range(len(at)):
        p = at[i]
        if optional:
            out[p] = 0 if nulls[i] else 1
            p += 1
        if not nulls[i]:
            for q in range(offsets[i], offsets[i + 1]):
                out[p] = data[q]
                p += 1
                if data[q] == 0:
                    out[p] = 255
                    p += 1
            out[p] = 0
            out[p + 1] = 0
            p += 2
        at[i] = p


@njit
def _text_offsets(data: Bytes, at: Int64s, optional: bool, nulls: Bools, offsets: Int64s) -> None:
    for i in range(len(at)):
        p = at[i]
        size = 0
        if optional:
            nulls[i] = data[p] == 0
            p += 1
        if not nulls[i]:
            while data[p] != 0 or data[p + 1] != 0:
                p += 2 if data[p] == 0 else 1
                size += 1
        offsets[i + 1] = offsets[i] + size


@njit
def _get_texts(
    data: Bytes, at: Int64s, optional: bool, nulls: Bools, offsets: Int64s, out: Bytes
) -> None:
    for i in range(len(at)):
        p = at[i] + (1 if optional else 0)
        if not nulls[i]:
            for q in range(offsets[i], offsets[i + 1]):
                out[q] = data[p]
                p += 2 if data[p] == 0 else 1
            p += 2
        at[i] = p
