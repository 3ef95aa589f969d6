"""The canonical forms of one key column: words, ranks, and the values that user functions see.

NaN is one value and -0.0 equals 0.0 in all of them.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.columns.categories import CATEGORIES
from thalweg.columns.chunks import Bools, Column, Int64s
from thalweg.flow.fields.field_types import Kind
from thalweg.hashing import NAN_BITS

#: Kinds of variable width.
TEXT: Final = {Kind.STR, Kind.BYTES}
_NOT_SIGN: Final = np.int64(2**63 - 1)


def bits_of(column: Column) -> Int64s:
    """The canonical words of a fixed-width column."""
    if column.type.kind is not Kind.FLOAT:
        whole: Int64s = column.values.astype(np.int64, copy=False)
        return whole
    # Adding 0.0 turns -0.0 into 0.0 and leaves all else.
    canonical = column.values + 0.0
    return np.where(np.isnan(canonical), np.int64(NAN_BITS), canonical.view(np.int64))


def values_of(kind: Kind, words: Int64s) -> npt.NDArray[Any]:
    """The values of a fixed-width column from its words."""
    if kind is Kind.FLOAT:
        return words.view(np.float64)
    return words.astype(np.bool_) if kind is Kind.BOOL else words


def flip(bits: Int64s) -> Int64s:
    """Float bits to integers of the same order, and back: negative ones count downwards."""
    return bits ^ ((bits >> 63) & _NOT_SIGN)


def nulls_of(column: Column) -> Bools:
    """Which rows are null."""
    if not column.type.fixed_width:
        nulls: Bools = column.values.is_null().to_numpy(zero_copy_only=False)
        return nulls
    return np.zeros(len(column), np.bool_) if column.valid is None else ~column.valid


def ranks_of(column: Column) -> Int64s:
    """Integers in the order of the column's values."""
    kind = column.type.kind
    if kind is Kind.FLOAT:
        return flip(bits_of(column))
    if kind in TEXT:
        coded = column.values.dictionary_encode()
        texts, codes = coded.dictionary, coded.indices.fill_null(0).to_numpy()
    elif kind is Kind.CATEGORY:
        unique, codes = np.unique(column.values, return_inverse=True)
        texts = CATEGORIES.decode(unique)
    else:
        return bits_of(column)
    places = np.zeros(max(len(texts), 1), np.int64)
    places[pc.sort_indices(texts.cast(pa.binary())).to_numpy()] = np.arange(len(texts))
    ranks: Int64s = places[codes]
    return ranks


def python_values(column: Column) -> list[Any]:
    """The values as user functions see them; every NaN is one object."""
    if column.type.kind is not Kind.FLOAT:
        return column.to_python()
    values: list[Any] = (column.values + 0.0).tolist()
    for i in np.flatnonzero(np.isnan(column.values)).tolist():
        values[i] = math.nan
    for i in np.flatnonzero(nulls_of(column)).tolist():
        values[i] = None
    return values
