"""State units by range: a key's unit is the range of keys that it falls into (Prasaad et al., section 4).

Ranges are of the first field of the key, in the order in which the stream sorts keys: None before all else, NaN behind
it, text by its UTF-8 bytes. All keys with one first field are in one range, so ranges share nothing.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from thalweg.columns import ordered_bytes
from thalweg.columns.canonical import nulls_of, ranks_of
from thalweg.columns.chunks import Column, Int64s
from thalweg.columns.keys import KeySpec
from thalweg.columns.state_units import StateUnits
from thalweg.errors import BuildError
from thalweg.flow.fields.field_types import Kind
from thalweg.flow.records import Field
from thalweg.hashing import UInt64s

#: Kinds whose words do not stand in the order of their values.
_BY_TEXT: Final = {Kind.STR, Kind.BYTES, Kind.CATEGORY}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RangeUnits(StateUnits):
    """The ranges of an operator's keys; made by :meth:`between`.

    Attributes:
        words: where each range but the first begins, as integers in the order of the keys.
        texts: likewise, as ordered bytes; in place of ``words`` where the first field is text.
    """

    words: Int64s
    texts: tuple[bytes, ...] | None

    @classmethod
    def between(cls, where: str, spec: KeySpec, firsts: Sequence[Any]) -> RangeUnits:
        """The ranges that begin at these values of the first field, and the one in front of them.

        Args:
            where: the operator, for messages.
            spec: of its key.
            firsts: in ascending order.

        Raises:
            BuildError: a value is none of the field's, or they do not ascend.
        """
        field = spec.fields[0]
        column = _column(where, field, firsts)
        by_text = field.type.kind in _BY_TEXT
        words = np.zeros(0, np.int64) if by_text else np.ascontiguousarray(_ranks(column))
        texts = tuple(_texts(column)) if by_text else None
        found: Sequence[Any] = words.tolist() if texts is None else texts
        if any(one >= other for one, other in itertools.pairwise(found)):
            raise BuildError(f"{where}: boundaries must ascend, got {list(firsts)!r}")
        none = StateUnits.of_buckets(len(found) + 1)
        return cls(none.buckets, 0, none.hashes, none.pins, none.index, words, texts)

    def of(self, hashes: UInt64s) -> Int64s:
        """There is no telling a range from hashes."""
        raise TypeError("ranges are found by keys, not by their hashes")

    def of_rows(self, columns: Sequence[Column], hashes: UInt64s) -> Int64s:
        """The range of each key."""
        first = columns[0]
        if self.texts is None:
            units = np.searchsorted(self.words, _ranks(first), side="right")
            units[nulls_of(first)] = 0
            return units
        found = [bisect.bisect_right(self.texts, one) for one in _texts(first)]
        return np.array(found, np.int64)


def _column(where: str, field: Field, firsts: Sequence[Any]) -> Column:
    """The boundaries as a column.

    Raises:
        BuildError: one of them is no value of the field; it names that one.
    """
    try:
        return Column.from_python(field.type, list(firsts))
    except Exception as error:
        odd = next((one for one in firsts if not _is_value(field, one)), firsts)
        raise BuildError(
            f"{where}: boundaries are values of the key's field {field.name!r}, which is {field.type};"
            f" got {odd!r} ({type(odd).__name__}): {error}"
        ) from error


def _is_value(field: Field, value: Any) -> bool:
    try:
        Column.from_python(field.type, [value])
    except Exception:
        return False
    return True


def _ranks(column: Column) -> Int64s:
    """Integers in the order of the values, the same in every chunk."""
    return ranks_of(column)


def _texts(column: Column) -> list[bytes]:
    """Bytes in the order of the values; None before all others."""
    found: list[bytes] = ordered_bytes.encode([column], len(column)).to_pylist()
    return found
