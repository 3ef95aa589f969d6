"""Rows of Python values as columns, types checked a column at a time.

A value passes here only where it is exactly what its field holds; else the caller looks at the rows one by one, which
says what is wrong with which of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from thalweg.columns.chunks import Column, numpy_dtype
from thalweg.flow.fields.field_types import PYTHON, FieldType, Kind
from thalweg.flow.records import Schema

_NONE: Final = type(None)
_WORDS: Final = {Kind.INT, Kind.TIMESTAMP, Kind.TIMER, Kind.FLOAT, Kind.BOOL}


def try_columns(schema: Schema, rows: Sequence[Any]) -> list[Column] | None:
    """The columns of records as they stand; None where a row is not exactly of the record, or there is no row.

    Only for records whose rows stay as they are (``Schema.stays``).
    """
    if set(map(type, rows)) != {schema.cls}:
        return None
    width = len(schema.fields)
    if set(map(len, rows)) != {width}:
        return None
    # not zip(*rows): an iterator a row would be one more object a row for Python's collector
    values = list(itertools.chain.from_iterable(rows))
    out = []
    for place, field in enumerate(schema.fields):
        made = try_column(field.type, values[place::width])
        if made is None:
            return None
        out.append(made)
    return out


def try_column(kind: FieldType, values: Sequence[Any]) -> Column | None:
    """The column of values as they stand; None where one is not exactly of the type."""
    types = set(map(type, values))
    allowed = {PYTHON[kind.kind], _NONE} if kind.optional else {PYTHON[kind.kind]}
    if not types <= allowed:
        return None
    try:
        if kind.kind in _WORDS and _NONE not in types:
            return Column(kind, np.fromiter(values, numpy_dtype(kind.kind), len(values)))
        return Column.from_python(kind, values)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        return None  # an int beyond 64 bits, or a text that UTF-8 cannot encode


def null_column(kind: FieldType, size: int) -> Column:
    """A column without a value."""
    if not kind.fixed_width:
        return Column(kind, pa.nulls(size, kind.arrow))
    return Column(kind, np.zeros(size, numpy_dtype(kind.kind)), np.zeros(size, np.bool_))
