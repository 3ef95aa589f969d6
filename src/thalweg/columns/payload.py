"""A digest of what rows say, so that two of them can be compared by one word of state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xxhash import xxh64_intdigest

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.columns.keys import MAX_FIELDS, KeySpec
from thalweg.flow.fields.field_types import Kind


def digests(chunk: Chunk, places: Sequence[int]) -> Int64s:
    """A signed 64-bit digest of these fields of each row; NaN equals NaN, -0.0 equals 0.0.

    It is the stable hash of the fields as a key, by column; where one of them can be in no key, that of a text form.
    """
    fields = [chunk.schema.fields[i] for i in places]
    nested = any(field.type.kind in (Kind.LIST, Kind.RECORD) for field in fields)
    if nested or len(fields) > MAX_FIELDS:
        return np.array([_digest(row, places) for row in chunk.each_row()], np.int64)
    spec = KeySpec(tuple(fields))
    return spec.hashes([chunk.columns[i] for i in places], len(chunk)).view(np.int64)


def _digest(row: tuple[Any, ...], places: Sequence[int]) -> int:
    """XXH64 of the text form of these fields, as a signed 64-bit integer; NaN equals NaN, -0.0 equals 0.0."""
    value = xxh64_intdigest(repr(_plain([row[i] for i in places])).encode("utf-8", "surrogatepass"))
    return value - 2**64 if value >= 2**63 else value


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0
    return value
