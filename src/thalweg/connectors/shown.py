"""Rows of a sink as a table for people: times as ISO 8601, nulls as a dash, numbers to the right."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from thalweg.columns.chunks import Chunk
from thalweg.flow.fields.field_types import FieldType, Kind
from thalweg.flow.records import Schema
from thalweg.printing import Table
from thalweg.times import text


def shown_table(title: str, record: Schema, rows: pa.Table, total: int) -> Table:
    """The rows under a title; a note below says how many more there are of ``total``."""
    out = Table(title)
    head, cells = shown_cells(record, rows)
    for name, right in head:
        out.column(name, right=right)
    for row in cells:
        out.row(*row)
    if total > rows.num_rows:
        out.note(f"… {total - rows.num_rows:,} more")
    return out


def shown_cells(
    record: Schema, rows: pa.Table
) -> tuple[list[tuple[str, bool]], list[tuple[str, ...]]]:
    """The columns, each with whether it stands to the right, and the rows, a text a value."""
    head = [(one.name, one.type.kind in (Kind.INT, Kind.FLOAT)) for one in record.fields]
    columns = [
        [shown(column.type, value) for value in column.to_python()]
        for column in Chunk.from_arrow(record, rows).columns
    ]
    return head, list(zip(*columns, strict=True))


def shown(kind: FieldType, value: Any) -> str:
    """A value as people read it, times inside lists and records, too."""
    if value is None:
        return "–"
    if kind.kind is Kind.TIMESTAMP:
        return text(value)
    if kind.shape is not None:
        return kind.shape.text(value)
    if kind.item is not None:
        return f"[{', '.join(_inside(kind.item, one) for one in value)}]"
    if kind.record is not None:
        pairs = zip(kind.record.fields, value, strict=True)
        inner = ", ".join(f"{field.name}={_inside(field.type, one)}" for field, one in pairs)
        return f"{kind.record.name}({inner})"
    return str(value)


def _inside(kind: FieldType, value: Any) -> str:
    return repr(value) if isinstance(value, str | bytes) else shown(kind, value)
