"""Captured dicts, sets, lists and tuples as tables in memory that machine code reads.

They have the form of containers of the state (:mod:`thalweg.checkpoint.cells`), so whatever reads those reads these.
A table is made once a process and stays; machine code names it by the digest of its contents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.checkpoint.cells import ROOM, cell_words, words_of
from thalweg.columns.chunks import Column, Int64s
from thalweg.compiler.runtime.frozen import fill_table, name_address
from thalweg.compiler.source import Frozen
from thalweg.errors import SchemaError
from thalweg.flow.field_types import FieldType, Kind
from thalweg.flow.records import Field, Schema

_KINDS: Final = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.CATEGORY}
#: A dict's index is filled where it has more room than this.
_SMALL: Final = 8


class Table(NamedTuple):
    """What a container holds, and the name of its header's address; ``header`` keeps it."""

    kind: FieldType
    form: str
    symbol: str
    header: Int64s


_tables: Final[dict[str, Table]] = {}


def table_of(frozen: Frozen) -> Table:
    """The table of a captured container.

    Raises:
        SchemaError: it holds values of several types, or of one that has no fixed size.
    """
    if frozen.digest not in _tables:
        _tables[frozen.digest] = _made(frozen)
    return _tables[frozen.digest]


def _made(frozen: Frozen) -> Table:
    value = frozen.value
    form = {dict: "dict", set: "set", frozenset: "set"}.get(type(value), "list")
    kind = _kind_of(value, form)
    assert kind.item is not None
    items = (
        value.items() if form == "dict" else [(one,) for one in value] if form == "set" else value
    )
    column = Column.from_python(kind, [[kind.item.coerce(_as_item(one)) for one in items]])
    header = np.ascontiguousarray(words_of(kind, column)[0])
    place = header.ctypes.data
    if form != "list" and header[ROOM // 8] > _SMALL:
        record = kind.item.record
        assert record is not None
        fill_table(place, 8 * cell_words(record.fields[0].type), 8 * cell_words(kind.item))
    symbol = f"thalweg_table_{frozen.digest}"
    name_address(symbol, place)
    return Table(kind, form, symbol, header)


def _as_item(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


def _kind_of(value: Any, form: str) -> FieldType:
    if form == "list":
        return FieldType(Kind.LIST, item=_common(value))
    keys = _common(value)
    fields = [Field("key", keys)]
    if form == "dict":
        fields.append(Field("value", _common(value.values())))
    entry = FieldType(Kind.RECORD, record=Schema.make_record("Entry", fields))
    return FieldType(Kind.LIST, item=entry, form="dict")


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
