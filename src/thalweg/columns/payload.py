"""A digest of what rows say, so that two of them can be compared by one word of state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.columns.chunks import Chunk, Int64s
from thalweg.columns.keys import MAX_FIELDS, KeySpec
from thalweg.flow.field_types import Kind
from thalweg.flow.operators.digest import digest


def digests(chunk: Chunk, places: Sequence[int]) -> Int64s:
    """A signed 64-bit digest of these fields of each row; NaN equals NaN, -0.0 equals 0.0.

    It is the stable hash of the fields as a key, by column; where one of them can be in no key, that of a text form.
    """
    fields = [chunk.schema.fields[i] for i in places]
    nested = any(field.type.kind in (Kind.LIST, Kind.RECORD) for field in fields)
    if nested or len(fields) > MAX_FIELDS:
        return np.array([digest(row, places) for row in chunk.each_row()], np.int64)
    spec = KeySpec(tuple(fields))
    return spec.hashes([chunk.columns[i] for i in places], len(chunk)).view(np.int64)
