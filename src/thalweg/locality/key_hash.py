"""The stable hash of one key, in plain Python: what routing tables know keys by.

It is the hash that :mod:`thalweg.hashing` specifies and the runtime computes by column, over the same canonical
forms; here for the few keys that a table names, without a column of them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

from xxhash import xxh64_intdigest

from thalweg.brief import counted
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.hashing import NAN_BITS

#: Types of a key's fields; none is the one key ``()``.
KeyTypes = tuple[FieldType, ...]

_TEXT: Final = {Kind.STR, Kind.BYTES}
_REFUSED: Final = {Kind.LIST, Kind.RECORD}
_MASK: Final = 2**64 - 1
_SIGN: Final = 1 << 63


def require_hashable(types: Sequence[FieldType], operator: str) -> None:
    """Refuses key types that have no stable hash.

    Raises:
        SchemaError: a field is a list or a record.
    """
    for place, one in enumerate(types):
        if one.kind in _REFUSED:
            raise SchemaError(
                f"operator {operator!r}: field {place + 1} of its key is {one}, which has no stable hash; keys are"
                " made of int, float, bool, str, bytes, tw.Timestamp and tw.Category"
            )


def canonical_key(types: Sequence[FieldType], key: Any) -> Any:
    """The key as dicts group it: bare for one field, else a tuple; one NaN, and 0.0 for -0.0.

    Raises:
        TypeError: the key has not these types.
    """
    if len(types) == 1:
        return _canonical(types[0], key)
    if not isinstance(key, tuple) or len(key) != len(types):
        raise TypeError(f"expected a tuple of {counted(len(types), 'field')}, got {key!r:.60}")
    return tuple(_canonical(one, value) for one, value in zip(types, key, strict=True))


def _canonical(kind: FieldType, value: Any) -> Any:
    value = kind.coerce(value)
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    return value


def hash_key(types: Sequence[FieldType], key: Any) -> int:
    """The stable hash of a canonical key, unsigned, 64 bits."""
    values = (key,) if len(types) == 1 else key
    if any(one.kind in _TEXT for one in types):
        if len(types) == 1 and not types[0].optional:
            return xxh64_intdigest(_utf8(key))
        return xxh64_intdigest(b"".join(map(_ordered, types, values)))
    words = b"".join(_word(one, value) for one, value in zip(types, values, strict=True))
    if any(one.optional for one in types):
        words += sum((value is None) << i for i, value in enumerate(values)).to_bytes(8, "little")
    return xxh64_intdigest(words)


def _utf8(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _bits(kind: FieldType, value: Any) -> int:
    """A fixed-width value as 64 bits, unsigned."""
    if value is None:
        return 0
    if kind.kind is Kind.CATEGORY:
        return xxh64_intdigest(_utf8(value))
    if kind.kind is Kind.FLOAT:
        return NAN_BITS if value != value else int(struct.unpack("<Q", struct.pack("<d", value))[0])
    return int(value) & _MASK


def _word(kind: FieldType, value: Any) -> bytes:
    return _bits(kind, value).to_bytes(8, "little")


def _ordered(kind: FieldType, value: Any) -> bytes:
    """A field's ordered bytes, as the runtime's keys have them: they sort as the values do."""
    if value is None:
        return b"\0"
    start = b"\1" if kind.optional else b""
    if isinstance(value, (str, bytes)):
        return start + _utf8(value).replace(b"\0", b"\0\xff") + b"\0\0"
    if kind.kind is Kind.BOOL:
        return start + bytes([value])
    bits = _bits(kind, value)
    if kind.kind is Kind.FLOAT and bits & _SIGN:
        # Negative floats count downwards.
        bits ^= _SIGN - 1
    return start + (bits ^ _SIGN).to_bytes(8, "big")
