"""Keys: the forms in which a key is hashed, compared, ordered and shown, all computed by column.

A key is a tuple of fields. Its *words* (a row of int64, fixed-width fields only) and its *identity*
(bytes, when there is a str or bytes field) are what a state table compares; its *ordered bytes*
(:mod:`thalweg.columns.ordered_bytes`) order keys as the stream does. NaN is one key and -0.0 equals 0.0
in every form, so all of them group alike, as Spark SQL groups. The hash is specified in
:mod:`thalweg.hashing`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from thalweg.columns import ordered_bytes
from thalweg.columns.canonical import bits_of, nulls_of, python_values, ranks_of, values_of
from thalweg.columns.chunks import Column, Int64s
from thalweg.columns.ordered_bytes import binary_array
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Field
from thalweg.hashing import Bytes, UInt64s, hash_texts, hash_words, text_buffers

_REFUSED: Final = {Kind.LIST, Kind.RECORD}
#: The null bits of a key's fixed-width fields share one word.
MAX_FIELDS: Final = 63


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
            shape = field.type.shape
            if field.type.kind in _REFUSED or (shape is not None and shape.name == "json"):
                raise SchemaError(
                    f"{field.name}: {field.type} cannot be part of a key; use int, float, bool, str,"
                    " bytes, tw.Timestamp, tw.Category, datetime, date, timedelta or Decimal"
                )
        if len(self.fields) > MAX_FIELDS:
            raise SchemaError(f"a key has at most {MAX_FIELDS} fields, got {len(self.fields)}")

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
            out[:, place] = bits_of(columns[i])
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
        """The keys as bytes that sort like the keys (see :mod:`thalweg.columns.ordered_bytes`); none is null."""
        return ordered_bytes.encode(columns, _length(columns, length))

    def decode_ordered(self, array: pa.Array) -> list[Column]:
        """The key columns that :meth:`ordered_bytes` made this array from."""
        return ordered_bytes.decode(self.fields, *_key_bytes(array))

    def sort_rows(self, time: Int64s, columns: Sequence[Column]) -> Int64s:
        """The places of the rows in the order of (time, key); equal ones keep their order."""
        keys: list[Any] = [time]
        for column in columns:
            if column.type.optional:
                keys.append(~nulls_of(column))
            keys.append(ranks_of(column))
        return np.lexsort(keys[::-1])

    def python_keys(self, columns: Sequence[Column], length: int | None = None) -> list[Any]:
        """The keys as user functions see them: bare for one field, a tuple for several, else ().

        They are canonical (every NaN is one object), so they group as dict keys like all other forms.
        """
        size = _length(columns, length)
        if not columns:
            return [()] * size
        values = [python_values(column) for column in columns]
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
            return binary_array(self.fields[place].type.arrow, *rows)
        return self.decode_ordered(binary_array(pa.binary(), *rows))[place].values

    def columns(self, words: Int64s, rows: KeyBytes | None) -> list[Column]:
        """The key columns of keys given by their words and identities."""
        if rows is not None:
            if self.is_plain_text:
                return [Column(self.fields[0].type, self.text_array(0, rows))]
            return self.decode_ordered(binary_array(pa.binary(), *rows))
        out = []
        for place, field in enumerate(self.fields):
            valid = None
            if field.type.optional:
                nulls = (words[:, -1] >> place) & 1
                valid = nulls == 0 if nulls.any() else None
            out.append(
                Column(field.type, values_of(field.type.kind, words[:, place].copy()), valid)
            )
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
