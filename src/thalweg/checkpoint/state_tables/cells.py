"""Fields of a compiled state that are more than one number: how they lie in words of 64 bits.

An Optional is a word (is it there) and its value; a record or tuple its fields, one behind the other. A text
is the address of its bytes and their number. A list, deque or dict is a *header* of four words in the row:

====== ==================================================================================
DATA   the address of its buffer, 0 before the first item
ROOM   the items that the buffer has room for, a power of two
FIRST  of a list or deque: the place of its first item in the buffer, which is a ring;
       of a dict: how many entries are used, those deleted included
COUNT  how many items it has
====== ==================================================================================

The buffer of a list holds its items. That of a dict holds a word (whether the index is filled), an index of
``2 * ROOM`` words, and then entries in the order of insertion: a word (is it there), the key, the value. A key that
is a text is its hash, with the text behind it. Buffers, and the bytes of texts in them, come from C's allocator and
belong to the table.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.checkpoint.state_tables import heap_code
from thalweg.columns.chunks import Column, Int64s
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.hashing import hash_texts

DATA: Final = 0
ROOM: Final = 8
FIRST: Final = 16
COUNT: Final = 24
HEADER_WORDS: Final = 4

#: The kinds that a dict's keys have in compiled state.
_KEYS: Final = {Kind.INT, Kind.BOOL, Kind.TIMESTAMP, Kind.CATEGORY}

Bools = npt.NDArray[np.bool_]


def is_plain(kind: FieldType) -> bool:
    """Whether a row holds the value as a column does."""
    return kind.fixed_width and not kind.optional


def owns_memory(kind: FieldType) -> bool:
    """Whether its values have memory outside the row."""
    return kind.kind in (Kind.LIST, Kind.STR)


def row_words(kind: FieldType) -> int:
    """The words that a state's field takes in its row.

    Raises:
        SchemaError: a compiled state cannot hold it.
    """
    if kind.kind is Kind.STR:
        return 2
    if kind.kind is not Kind.LIST:
        words = cell_words(kind)
        if text_places(kind):
            raise SchemaError(f"{kind}, a record with str outside of a list or dict,")
        return words
    if kind.optional:
        raise SchemaError(f"{kind} in a compiled state; write an empty list for None")
    assert kind.item is not None
    cell_words(kind.item)
    if kind.maxlen == 0:
        raise SchemaError(f"{kind} of maxlen 0 in a compiled state")
    if kind.form == "dict":
        assert kind.item.record is not None
        key = kind.item.record.fields[0].type
        is_text = _is_text(key) and not key.optional
        if not is_text and not all(one.kind in _KEYS and not one.optional for one in _leaves(key)):
            raise SchemaError(
                f"{kind} in a compiled state, whose keys are int, bool, str or Category, or tuples of these but for str"
            )
    return HEADER_WORDS


def cell_words(kind: FieldType) -> int:
    """The words of a value of fixed size.

    Raises:
        SchemaError: it has none.
    """
    if kind.fixed_width:
        return 1 + kind.optional
    if _is_text(kind):
        return 2 + kind.optional
    if kind.record is not None and kind.kind is Kind.RECORD and kind.record.fields:
        return kind.optional + sum(cell_words(field.type) for field in kind.record.fields)
    raise SchemaError(f"{kind} inside of a compiled state's field")


def _is_text(kind: FieldType) -> bool:
    return kind.kind is Kind.STR and kind.shape is None


def text_places(kind: FieldType, at: int = 0) -> list[int]:
    """Where the texts of a value of fixed size stand in its cell, bytes."""
    at += 8 * kind.optional
    if _is_text(kind):
        return [at]
    places = []
    for field in kind.record.fields if kind.record is not None else ():
        places += text_places(field.type, at)
        at += 8 * cell_words(field.type)
    return places


def _by_text(kind: FieldType) -> bool:
    """Whether a list is a dict whose keys are texts: each entry has its hash in front."""
    if kind.form != "dict":
        return False
    assert kind.item is not None and kind.item.record is not None
    return _is_text(kind.item.record.fields[0].type)


def _owned_places(kind: FieldType) -> Int64s:
    """Where the texts of an item of a list, or of an entry of a dict, stand, bytes."""
    assert kind.item is not None
    ahead = 8 * (kind.form == "dict") + 8 * _by_text(kind)
    return np.array(text_places(kind.item, ahead), np.int64)


def is_cell(kind: FieldType) -> bool:
    """Whether a value has a fixed size, so that lists can hold it."""
    try:
        cell_words(kind)
    except SchemaError:
        return False
    return True


def item_words(kind: FieldType) -> int:
    """The words of an item of a list, or of an entry of a dict with its mark."""
    assert kind.item is not None
    return cell_words(kind.item) + (kind.form == "dict") + _by_text(kind)


def _leaves(kind: FieldType) -> list[FieldType]:
    if kind.record is None:
        return [kind]
    return [one for field in kind.record.fields for one in _leaves(field.type)]


# -- words to columns --------------------------------------------------------------------------------------


def column_of(kind: FieldType, words: Int64s) -> Column:
    """The values of a field as a column; ``words`` has a row for each."""
    if kind.kind is Kind.STR:
        return Column(kind, _texts(kind, words))
    if kind.kind is Kind.LIST:
        return Column(kind, _lists(kind, words))
    if kind.kind is Kind.RECORD:
        return Column(kind, _structs(kind, words))
    valid = None
    if kind.optional:
        there, words = words[:, 0] != 0, words[:, 1:]
        valid = None if there.all() else there
    values: Any = np.ascontiguousarray(words[:, 0])
    if valid is not None:
        values[~valid] = 0
    if kind.kind is Kind.FLOAT:
        values = values.view(np.float64)
    elif kind.kind is Kind.BOOL:
        values = values != 0
    return Column(kind, values, valid)


def _cell_column(kind: FieldType, words: Int64s) -> Column:
    """As :func:`column_of`, of values inside of others: there an Optional text has a word that says if it is there."""
    if not _is_text(kind):
        return column_of(kind, words)
    if not kind.optional:
        return Column(kind, _texts(kind, words))
    texts = words[:, 1:].copy()
    texts[words[:, 0] == 0, 1] = -1
    return Column(kind, _texts(kind, texts))


def _structs(kind: FieldType, words: Int64s) -> pa.Array:
    assert kind.record is not None
    mask = None
    if kind.optional:
        there, words = words[:, 0] != 0, np.where(words[:, :1] != 0, words[:, 1:], 0)
        mask = pa.array(~there)
    children, at = [], 0
    for field in kind.record.fields:
        size = cell_words(field.type)
        children.append(_cell_column(field.type, words[:, at : at + size]).to_arrow())
        at += size
    return pa.StructArray.from_arrays(children, fields=list(kind.record.arrow), mask=mask)


def _lists(kind: FieldType, words: Int64s) -> pa.Array:
    assert kind.item is not None
    counts = np.ascontiguousarray(words[:, 3])
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    by_text = _by_text(kind)
    size = cell_words(kind.item) + by_text
    items = np.empty((int(offsets[-1]), size), np.int64)
    gather = heap_code.gather_dicts if kind.form == "dict" else heap_code.gather_lists
    gather(np.ascontiguousarray(words), 8 * size, items.ctypes.data)
    values = _cell_column(kind.item, items[:, 1:] if by_text else items).to_arrow()
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind.arrow)


def _texts(kind: FieldType, words: Int64s) -> pa.Array:
    # Code that has no text says so by a size below zero.
    sizes = np.maximum(words[:, 1], 0)
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    heap_code.gather_texts(np.ascontiguousarray(words), data.ctypes.data)
    large = pa.LargeStringArray.from_buffers(
        len(words), pa.py_buffer(offsets), pa.py_buffer(data), _bits(words[:, 1] >= 0)
    )
    return large.cast(kind.arrow)


def _bits(valid: Bools) -> Any:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


# -- columns to words --------------------------------------------------------------------------------------


def words_of(kind: FieldType, column: Column) -> Int64s:
    """The words of a column's values, a row for each; what they own is allocated for them."""
    if kind.kind is Kind.STR:
        return _text_words(column.values)
    if kind.kind is Kind.LIST:
        return _list_words(kind, column.values)
    if kind.kind is Kind.RECORD:
        return _struct_words(kind, column.values)
    values = np.ascontiguousarray(column.values)
    made = values.astype(np.int64) if values.dtype.itemsize == 1 else values.view(np.int64)
    if not kind.optional:
        return made.reshape(-1, 1)
    there = np.ones(len(made), np.int64) if column.valid is None else column.valid
    return np.stack([np.asarray(there, np.int64), made], axis=1)


def _cell_words_of(kind: FieldType, column: Column) -> Int64s:
    """As :func:`words_of`, of values inside of others."""
    if not _is_text(kind):
        return words_of(kind, column)
    words = _text_words(column.values)
    there = words[:, 1] >= 0
    words[:, 1] = np.maximum(words[:, 1], 0)
    return np.column_stack([there.astype(np.int64), words]) if kind.optional else words


def _struct_words(kind: FieldType, array: pa.Array) -> Int64s:
    assert kind.record is not None
    parts = [array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64).reshape(-1, 1)]
    for field, child in zip(kind.record.fields, array.flatten(), strict=True):
        parts.append(_cell_words_of(field.type, Column.from_arrow(field.type, child)))
    return np.concatenate(parts if kind.optional else parts[1:], axis=1)


def _list_words(kind: FieldType, array: pa.Array) -> Int64s:
    assert kind.item is not None
    if kind.maxlen is not None:
        array = _last_items(array, kind.maxlen)
    counts = array.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    given = array.flatten()
    items = _cell_words_of(kind.item, Column.from_arrow(kind.item, given))
    if _by_text(kind):
        items = np.column_stack([hash_texts(given.field(0)).view(np.int64), items])
    items = np.ascontiguousarray(items)
    headers = np.zeros((len(counts), HEADER_WORDS), np.int64)
    fill = heap_code.fill_dicts if kind.form == "dict" else heap_code.fill_lists
    if not fill(counts, 8 * items.shape[1], items.ctypes.data, headers):
        raise MemoryError("no memory for the lists of a state")
    return headers


def _last_items(array: pa.Array, most: int) -> pa.Array:
    """Lists of at most so many items, as deques whose maxlen was greater when they were written."""
    longest = pc.max(array.value_lengths()).as_py()
    if longest is None or longest <= most:
        return array
    return pa.array([one[-most:] for one in array.to_pylist()], array.type)


def _text_words(array: pa.Array) -> Int64s:
    large = array.cast(pa.large_string())
    valid = large.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.frombuffer(large.buffers()[1], np.int64)[
        large.offset : large.offset + len(large) + 1
    ]
    data = large.buffers()[2]
    words = np.zeros((len(large), 2), np.int64)
    words[:, 1] = np.where(valid, np.diff(offsets), -1)
    place = data.address if data is not None and data.size else 0
    if not heap_code.fill_texts(np.ascontiguousarray(offsets), place, words):
        raise MemoryError("no memory for the texts of a state")
    return words


def release(kind: FieldType, words: Int64s) -> None:
    """Gives back what these values own, and makes them empty."""
    if len(words) and owns_memory(kind):
        if kind.kind is Kind.LIST and len(places := _owned_places(kind)):
            _, first = np.unique(words[:, 0], return_index=True)
            own = np.ascontiguousarray(words[first])
            heap_code.release_items(own, 8 * item_words(kind), places, kind.form == "dict")
        heap_code.release(np.unique(words[:, 0]))
        words[:] = 0


def texts_of(kind: FieldType, words: Int64s) -> int:
    """Bytes of the texts in the buffers of these lists."""
    if kind.kind is not Kind.LIST or not len(places := _owned_places(kind)):
        return 0
    own, size = np.ascontiguousarray(words), 8 * item_words(kind)
    return int(heap_code.size_of_texts(own, size, places, kind.form == "dict"))


def memory_of(kind: FieldType, words: Int64s) -> int:
    """Bytes that these values own, without the texts in lists."""
    if kind.kind is Kind.STR:
        return int(np.maximum(words[:, 1], 0).sum())
    if kind.kind is not Kind.LIST:
        return 0
    if kind.form == "dict":
        return int((words[:, 1] * (8 * item_words(kind) + 16) + 8 * (words[:, 0] != 0)).sum())
    return int(words[:, 1].sum()) * 8 * item_words(kind)
