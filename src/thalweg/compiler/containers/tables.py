"""Captured dicts, sets, lists and tuples as tables in memory that machine code reads.

They have the form of containers of the state (:mod:`thalweg.checkpoint.state_tables.cells`), so whatever reads those
reads these. A table is made once a process and stays; machine code names it by the digest of its contents. Texts are
pairs of address and size, as in functions; a dict or set by text is one by their codes as Categories, with the texts
behind the codes: so it is asked for either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.checkpoint.state_tables import heap_code
from thalweg.checkpoint.state_tables.cells import HEADER_WORDS, ROOM, words_of
from thalweg.columns.chunks import Column, Int64s
from thalweg.compiler.code.source import Frozen
from thalweg.compiler.runtime.frozen import fill_table, name_address
from thalweg.errors import SchemaError
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Field, Schema

_KINDS: Final = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.STR}
_FORMS: Final[dict[type[Any], str]] = {dict: "dict", set: "set", frozenset: "set"}
_CATEGORY: Final = FieldType(Kind.CATEGORY)
#: A dict's index is filled where it has more room than this.
_SMALL: Final = 8


class FrozenTable(NamedTuple):
    """What a container holds (its item, or key and value), and the name of its header's address.

    ``by_text``: behind each key, which is a code, stands its text. ``header`` is kept.
    """

    items: tuple[FieldType, ...]
    form: str
    by_text: bool
    symbol: str
    header: Int64s


_tables: Final[dict[str, FrozenTable]] = {}


def table_of(frozen: Frozen) -> FrozenTable:
    """The table of a captured container.

    Raises:
        SchemaError: it holds values of several types, or of one that has no fixed size.
    """
    if frozen.digest not in _tables:
        _tables[frozen.digest] = _made(frozen)
    return _tables[frozen.digest]


def _made(frozen: Frozen) -> FrozenTable:
    value = frozen.value
    form = _FORMS.get(type(value), "list")
    parts = [list(value), list(value.values())] if form == "dict" else [list(value)]
    items = [_common(part) for part in parts]
    words = [_words(kind, part) for kind, part in zip(items, parts, strict=True)]
    by_text = form != "list" and items[0] == FieldType(Kind.STR)
    key_words = words[0].shape[1]
    if by_text:
        words.insert(0, _words(_CATEGORY, parts[0]))
        items[0], key_words = _CATEGORY, 1
    joined = np.ascontiguousarray(np.concatenate(words, axis=1))
    header = np.zeros((1, HEADER_WORDS), np.int64)
    size = 8 * joined.shape[1]
    fill = heap_code.fill_lists if form == "list" else heap_code.fill_dicts
    if not fill(np.array([len(joined)]), size, joined.ctypes.data, header):
        raise MemoryError("no memory for a captured container")
    if form != "list" and header[0, ROOM // 8] > _SMALL:
        fill_table(header.ctypes.data, 8 * key_words, size)
    symbol = f"thalweg_table_{frozen.digest}"
    name_address(symbol, header.ctypes.data)
    return FrozenTable(tuple(items), form, by_text, symbol, header)


def _words(kind: FieldType, values: Sequence[Any]) -> Int64s:
    """The words of values, a row for each."""
    there = np.array([[one is not None] for one in values], np.int64)
    if kind.record is not None:
        fields = kind.record.fields
        empty = (None,) * len(fields)
        columns = zip(*(one if one is not None else empty for one in values), strict=True)
        parts = [_words(f.type, column) for f, column in zip(fields, columns, strict=True)]
        return np.concatenate([there, *parts] if kind.optional else parts, axis=1)
    if kind.kind is Kind.STR:
        found = words_of(kind, Column.from_python(kind, list(values)))
        found[:, 1] = np.maximum(found[:, 1], 0)
        return np.concatenate([there, found], axis=1) if kind.optional else found
    return words_of(kind, Column.from_python(kind, [kind.coerce(one) for one in values]))


def _common(values: Iterable[Any]) -> FieldType:
    """The one type of these values."""
    found = list(values)
    there = [one for one in found if one is not None]
    types = {type(one) for one in there}
    if not there:
        raise SchemaError("holds nothing")
    optional = len(there) < len(found)
    if len(types) > 1:
        raise SchemaError(f"holds values of {' and '.join(sorted(t.__name__ for t in types))}")
    (kind,) = types
    if kind in _KINDS:
        return FieldType(_KINDS[kind], optional)
    if issubclass(kind, tuple) and there[0] and len({len(one) for one in there}) == 1:
        names = getattr(kind, "_fields", None)
        parts = [_common(column) for column in zip(*there, strict=True)]
        labels = names or [f"item_{i}" for i in range(len(parts))]
        record = Schema.make_record(
            kind.__name__, [Field(n, p) for n, p in zip(labels, parts, strict=True)]
        )
        return FieldType(Kind.RECORD, optional, record=record, form="" if names else "tuple")
    raise SchemaError(f"holds values of {kind.__name__}")
