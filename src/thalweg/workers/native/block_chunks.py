"""Between blocks and Python's chunks: a view without a copy one way, a copy the other way."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.columns.canonical import TEXT
from thalweg.columns.chunks import Chunk, Column, Int64s, numpy_dtype, take_order
from thalweg.columns.ordering import with_columns
from thalweg.compiler.code.columns import TEXT_WORDS, address, addresses, gather, text_words
from thalweg.flow.fields.field_types import FieldType
from thalweg.flow.records import Schema
from thalweg.plan.plan import OWN, TIME
from thalweg.workers.native.blocks import (
    IN_BLOCKS,
    NO_PAYLOAD,
    has_whole_key,
    own_word,
    payload_row_word,
    payload_word,
    table_word,
    texts_word,
    time_word,
    values_word,
)

_NO_ORDER: Final[Mapping[str, Any]] = {}


def view_block(chunk: Chunk, payload: int) -> tuple[Int64s, list[Any]]:
    """A block over a chunk's own arrays, without a copy.

    Args:
        payload: the handle under which the chunk is kept.

    Returns:
        The words, whose address is the block's, and what must stay alive while the block is in use.
    """
    keep: list[Any] = []
    fields = len(chunk.columns)
    whole = np.zeros(1 + table_word(fields), np.int64)
    words = whole[1:]
    words[0] = len(chunk)
    words[1 : 1 + 2 * fields] = addresses(chunk.columns, keep)
    words[payload_word(fields)] = payload if has_whole_key(chunk.order) else NO_PAYLOAD
    texts = np.zeros((fields, TEXT_WORDS), np.int64)
    for number, column in enumerate(chunk.columns):
        if not column.type.fixed_width:
            words[values_word(number) + 1] = number
            words[payload_word(fields)], words[texts_word(fields)] = payload, address(texts)
            if column.type.kind in TEXT:
                texts[number] = text_words(column, keep)
    for name, word in ((TIME, time_word(fields)), (OWN, own_word(fields))):
        if name in chunk.order:
            values = np.ascontiguousarray(chunk.order[name], np.int64)
            keep.append(values)
            words[word] = address(values)
    return words, [*keep, whole, texts]


def _copied(place: int, count: int, dtype: Any) -> npt.NDArray[Any]:
    """A copy of the values at an address, as an array."""
    out = np.empty(count, dtype)
    ctypes.memmove(out.ctypes.data, place, out.nbytes)
    return out


def chunk_of(
    block: int,
    schema: Schema,
    order_names: Sequence[str],
    payload: Sequence[Column],
    payload_order: Mapping[str, Any] = _NO_ORDER,
) -> Chunk:
    """A Python chunk with a copy of a block's rows; a missing order column is zeros.

    Args:
        order_names: the order columns that it carries.
        payload: the columns of the chunk under the block's payload handle; any where it has none.
        payload_order: the order columns of that chunk, and numbers that all rows have.
    """
    fields = len(schema.fields)
    words = _copied(block, table_word(fields), np.int64)
    rows = int(words[0])
    if not rows:
        return Chunk.empty(schema, order_names)
    at = int(words[payload_row_word(fields)])
    places = _copied(at, rows, np.int64) if at else np.arange(rows)
    columns = []
    for number, field in enumerate(schema.fields):
        first, second = words[values_word(number) : values_word(number) + 2].tolist()
        if field.type.fixed_width:
            columns.append(_fixed(field.type, first, second, rows))
        else:
            numbers = _copied(first, rows, np.int64) if first else np.full(rows, second)
            columns.append(Column(field.type, gather(numbers, places, payload, field.type.arrow)))
    order = {}
    for name in order_names:
        if name not in IN_BLOCKS:
            found = payload_order.get(name)
            if isinstance(found, int):
                order[name] = np.full(rows, found, np.int64)
            elif found is not None:
                order[name] = take_order(found, places)
            continue
        at = int(words[time_word(fields) if name == TIME else own_word(fields)])
        order[name] = _copied(at, rows, np.int64) if at else np.zeros(rows, np.int64)
    return with_columns(Chunk(schema, columns, rows, order), order_names)


def payload_of(block: int, fields: int) -> int:
    """The handle of a block's payload, NO_PAYLOAD where it has none."""
    return int(_copied(block + 8 * payload_word(fields), 1, np.int64)[0])


def _fixed(kind: FieldType, values: int, valid: int, rows: int) -> Column:
    mask = _copied(valid, rows, np.bool_) if valid else None
    return Column(kind, _copied(values, rows, numpy_dtype(kind.kind)), mask)


def words_at(place: int, count: int) -> Int64s:
    """Words in memory as an array."""
    if not count:
        return np.zeros(0, np.int64)
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(place))
