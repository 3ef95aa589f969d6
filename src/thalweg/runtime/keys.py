"""Keys: the forms in which a key is hashed, compared, ordered and shown, all computed by column.

A key is a tuple of fields. Its *words* (a row of int64, fixed-width fields only) and its *identity*
(bytes, when there is a str or bytes field) are what a state table compares; its *ordered bytes* are
a memcomparable form: comparing them byte by byte orders keys as the stream does (
null first, numbers, NaN last, text by UTF-8 bytes). NaN is one key and -0.0 equals 0.0 in every
form, so all of them group alike, as Spark SQL groups. The hash is specified in
:mod:`thalweg.hashing`.

Ordered bytes, field after field: an Optional field starts with 00 (null, nothing follows) or 01; an
int or a float is 8 bytes, big endian, changed so that unsigned order is the order of the values; a
bool is one byte; text has each 00 written as 00 FF and ends with 00 00.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.errors import SchemaError
from thalweg.hashing import NAN_BITS, Bytes, UInt64s, hash_texts, hash_words, text_buffers
from thalweg.jit import njit
from thalweg.records import Field, Kind
from thalweg.runtime.chunks import CATEGORIES, Bools, Column, Int64s

_TEXT: Final = {Kind.STR, Kind.BYTES}
_REFUSED: Final = {Kind.LIST, Kind.RECORD}
_SIGN: Final = np.uint64(1 << 63)
_NOT_SIGN: Final = np.int64(2**63 - 1)
#: The null bits of a key's fixed-width fields share one word.
_MAX_FIELDS: Final = 63


class KeyBytes(NamedTuple):
    """The identities of n keys: key i is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Int64s
    data: Bytes


class KeyRows(NamedTuple):
    """What a state table needs to know of the keys of a chunk, a row a key."""

    hashes: UInt64s
    words: Int64s
    identity: KeyBytes | None


@dataclasses.dataclass(frozen=True)
class KeySpec:
    """The fields of a key and its forms; without fields there is one constant key, ``()``.

    Every method takes a column a field. ``length`` is the number of rows; it must be given only for
    the key without fields.

    Raises:
        SchemaError: a field is a list or a record, or there are more than 63.
    """

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        for field in self.fields:
            if field.type.kind in _REFUSED:
                raise SchemaError(
                    f"{field.name}: {field.type} cannot be part of a key; use int, float, bool, str,"
                    " bytes, tw.Timestamp or tw.Category"
                )
        if len(self.fields) > _MAX_FIELDS:
            raise SchemaError(f"a key has at most {_MAX_FIELDS} fields, got {len(self.fields)}")

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @functools.cached_property
    def fixed(self) -> tuple[int, ...]:
        """The places of the fixed-width fields."""
        return tuple(i for i, field in enumerate(self.fields) if field.type.fixed_width)

    @functools.cached_property
    def has_null_word(self) -> bool:
        """Whether the words end with a null mask."""
        return any(self.fields[i].type.optional for i in self.fixed)

    @functools.cached_property
    def width(self) -> int:
        """The number of words."""
        return len(self.fixed) + self.has_null_word

    @functools.cached_property
    def has_text(self) -> bool:
        """Whether there is a str or bytes field, so that keys have an identity in bytes."""
        return len(self.fixed) < len(self.fields)

    @functools.cached_property
    def is_plain_text(self) -> bool:
        """Whether the key is one str or bytes field that is never null: its identity is the text."""
        return len(self.fields) == 1 and self.has_text and not self.fields[0].type.optional

    def words(self, columns: Sequence[Column], length: int | None = None) -> Int64s:
        """The canonical words, ``int64[n, width]``, the null mask (bit i: i-th fixed field) last."""
        out = np.zeros((_length(columns, length), self.width), np.int64)
        for place, i in enumerate(self.fixed):
            out[:, place] = _bits(columns[i])
            valid = columns[i].valid
            if valid is not None:
                out[~valid, place] = 0
                if self.has_null_word:
                    out[~valid, -1] |= np.int64(1 << place)
        return out

    def identity(self, columns: Sequence[Column], length: int | None = None) -> KeyBytes | None:
        """The bytes in which two keys differ; None when the words tell them apart."""
        if not self.has_text:
            return None
        return _key_bytes(columns[0].values if self.is_plain_text else self.ordered_bytes(columns))

    def hashes(self, columns: Sequence[Column], length: int | None = None) -> UInt64s:
        """The stable hash of each key."""
        if not self.has_text:
            return hash_words(self.words(columns, length))
        return hash_texts(columns[0].values if self.is_plain_text else self.ordered_bytes(columns))

    def hashes_of(self, rows: pa.RecordBatch) -> UInt64s:
        """The hash of each row of a batch whose first columns are the key."""
        columns = [Column.from_arrow(f.type, rows.column(i)) for i, f in enumerate(self.fields)]
        return self.hashes(columns, rows.num_rows)

    def rows(self, columns: Sequence[Column], length: int | None = None) -> KeyRows:
        """Hashes, words and identities at once."""
        words = self.words(columns, length)
        if not self.has_text:
            return KeyRows(hash_words(words), words, None)
        texts = columns[0].values if self.is_plain_text else self.ordered_bytes(columns)
        return KeyRows(hash_texts(texts), words, _key_bytes(texts))

    def ordered_bytes(self, columns: Sequence[Column], length: int | None = None) -> pa.BinaryArray:
        """The keys as bytes that sort like the keys (see the module's text); none is null."""
        size = _length(columns, length)
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
        return _binary(pa.binary(), offsets, out)

    def decode_ordered(self, array: pa.Array) -> list[Column]:
        """The key columns that :meth:`ordered_bytes` made this array from."""
        offsets, data = _key_bytes(array)
        at = offsets[:-1].copy()
        return [_take_field(field, data, at) for field in self.fields]

    def sort_rows(self, time: Int64s, columns: Sequence[Column]) -> Int64s:
        """The places of the rows in the order of (time, key); equal ones keep their order."""
        keys: list[Any] = [time]
        for column in columns:
            if column.type.optional:
                keys.append(~_nulls(column))
            keys.append(_rank(column))
        return np.lexsort(keys[::-1])

    def python_keys(self, columns: Sequence[Column], length: int | None = None) -> list[Any]:
        """The keys as user functions see them: bare for one field, a tuple for several, else ().

        They are canonical (every NaN is one object), so they group as dict keys like all other forms.
        """
        size = _length(columns, length)
        if not columns:
            return [()] * size
        values = [_python_values(column) for column in columns]
        return values[0] if len(values) == 1 else list(zip(*values, strict=True))

    def columns_of(self, keys: Sequence[Any]) -> list[Column]:
        """The columns of keys in the form of :meth:`python_keys`."""
        if len(self.fields) == 1:
            return [Column.from_python(self.fields[0].type, keys)]
        return [
            Column.from_python(field.type, [key[i] for key in keys])
            for i, field in enumerate(self.fields)
        ]

    def text_array(self, place: int, rows: KeyBytes) -> pa.Array:
        """The str or bytes field at that place of keys given by their identities."""
        if self.is_plain_text:
            return _binary(self.fields[place].type.arrow, *rows)
        return self.decode_ordered(_binary(pa.binary(), *rows))[place].values

    def columns(self, words: Int64s, rows: KeyBytes | None) -> list[Column]:
        """The key columns of keys given by their words and identities."""
        if rows is not None:
            if self.is_plain_text:
                return [Column(self.fields[0].type, self.text_array(0, rows))]
            return self.decode_ordered(_binary(pa.binary(), *rows))
        out = []
        for place, field in enumerate(self.fields):
            valid = None
            if field.type.optional:
                nulls = (words[:, -1] >> place) & 1
                valid = nulls == 0 if nulls.any() else None
            out.append(Column(field.type, _values(field.type.kind, words[:, place].copy()), valid))
        return out


def _length(columns: Sequence[Column], length: int | None) -> int:
    if length is not None:
        return length
    if not columns:
        raise ValueError("the key without fields needs length=")
    return len(columns[0])


def _key_bytes(array: pa.Array) -> KeyBytes:
    offsets, data = text_buffers(array)
    return KeyBytes(offsets.astype(np.int64), data)


def _binary(kind: pa.DataType, offsets: Int64s, data: Bytes) -> pa.Array:
    if len(data) >= 2**31:
        raise OverflowError(f"{len(offsets) - 1} keys take {len(data)} bytes; at most 2 GiB fit")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


# -- one column -----------------------------------------------------------------------------------


def _bits(column: Column) -> Int64s:
    """The canonical words of a fixed-width column."""
    if column.type.kind is not Kind.FLOAT:
        whole: Int64s = column.values.astype(np.int64, copy=False)
        return whole
    # Adding 0.0 turns -0.0 into 0.0 and leaves all else.
    canonical = column.values + 0.0
    return np.where(np.isnan(canonical), np.int64(NAN_BITS), canonical.view(np.int64))


def _values(kind: Kind, words: Int64s) -> npt.NDArray[Any]:
    if kind is Kind.FLOAT:
        return words.view(np.float64)
    return words.astype(np.bool_) if kind is Kind.BOOL else words


def _flip(bits: Int64s) -> Int64s:
    """Float bits to integers of the same order, and back: negative ones count downwards."""
    return bits ^ ((bits >> 63) & _NOT_SIGN)


def _nulls(column: Column) -> Bools:
    if not column.type.fixed_width:
        nulls: Bools = column.values.is_null().to_numpy(zero_copy_only=False)
        return nulls
    return np.zeros(len(column), np.bool_) if column.valid is None else ~column.valid


def _rank(column: Column) -> Int64s:
    """Integers in the order of the column's values."""
    kind = column.type.kind
    if kind is Kind.FLOAT:
        return _flip(_bits(column))
    if kind in _TEXT:
        coded = column.values.dictionary_encode()
        texts, codes = coded.dictionary, coded.indices.fill_null(0).to_numpy()
    elif kind is Kind.CATEGORY:
        unique, codes = np.unique(column.values, return_inverse=True)
        texts = CATEGORIES.decode(unique)
    else:
        return _bits(column)
    places = np.zeros(max(len(texts), 1), np.int64)
    places[pc.sort_indices(texts.cast(pa.binary())).to_numpy()] = np.arange(len(texts))
    ranks: Int64s = places[codes]
    return ranks


def _python_values(column: Column) -> list[Any]:
    if column.type.kind is not Kind.FLOAT:
        return column.to_python()
    values: list[Any] = (column.values + 0.0).tolist()
    for i in np.flatnonzero(np.isnan(column.values)).tolist():
        values[i] = math.nan
    for i in np.flatnonzero(_nulls(column)).tolist():
        values[i] = None
    return values


# -- ordered bytes --------------------------------------------------------------------------------


class _Part(NamedTuple):
    """A column ready to be written: words of ``width`` bytes, or text."""

    nulls: Bools
    optional: bool
    width: int
    words: UInt64s
    text: tuple[Any, Bytes] | None


_NO_WORDS: Final = np.zeros(0, np.uint64)


def _part(column: Column) -> _Part:
    kind, nulls = column.type.kind, _nulls(column)
    if kind in _TEXT or kind is Kind.CATEGORY:
        texts = column.values if kind in _TEXT else CATEGORIES.decode(column.values)
        return _Part(nulls, column.type.optional, 0, _NO_WORDS, text_buffers(texts))
    words = _bits(column)
    if kind is Kind.BOOL:
        return _Part(nulls, column.type.optional, 1, words.view(np.uint64), None)
    words = _flip(words) if kind is Kind.FLOAT else words
    return _Part(nulls, column.type.optional, 8, words.view(np.uint64) ^ _SIGN, None)


def _add_sizes(part: _Part, sizes: Int64s) -> None:
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
    if kind in _TEXT or kind is Kind.CATEGORY:
        offsets = np.zeros(size + 1, np.int64)
        _text_offsets(data, at, field.type.optional, nulls, offsets)
        content = np.empty(int(offsets[-1]), np.uint8)
        _get_texts(data, at, field.type.optional, nulls, offsets, content)
        texts = _binary(field.type.arrow, offsets, content)
        if nulls.any():
            texts = pc.if_else(pa.array(nulls), pa.scalar(None, texts.type), texts)
        return Column.from_arrow(field.type, texts)
    words = np.zeros(size, np.uint64)
    _get_words(data, at, field.type.optional, 1 if kind is Kind.BOOL else 8, nulls, words)
    bits = (words if kind is Kind.BOOL else words ^ _SIGN).view(np.int64)
    bits = _flip(bits) if kind is Kind.FLOAT else bits
    bits[nulls] = 0
    return Column(field.type, _values(kind, bits), ~nulls if nulls.any() else None)


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
